"""Names that TensorFlow has and tapec has not, and what each AttributeError says to do instead."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType, ModuleType
from typing import Any, TypeVar

from tapec.garbage import importing
from tapec.traces.hearing import unheard

#: Advice by the name below ``tapec``; a star stands for anything. The first that fits is given.
ADVICE: dict[str, str] = {
    # -- not tensors of numbers
    "ragged": "tapec has dense tensors only: pad, and use tapec.sequence_mask",
    "ragged_*": "tapec has dense tensors only: pad, and use tapec.sequence_mask",
    "Ragged*": "tapec has dense tensors only: pad, and use tapec.sequence_mask",
    "experimental.DynamicRaggedShape": "tapec has dense tensors only: pad, and use tapec.sequence_mask",
    "experimental.RowPartition": "tapec has dense tensors only: pad, and use tapec.sequence_mask",
    "sparse": "tapec has dense tensors only: tapec.gather and scatter replace many sparse ones",
    "Sparse*": "tapec has dense tensors only: tapec.gather and scatter replace many sparse ones",
    "nn.*_sparse": "tapec has dense tensors only: tapec.nn.embedding_lookup takes rows by index",
    "sets": "use Python's sets, or numpy.intersect1d and its kin, outside of tensors",
    "strings": "string tensors are only made, compared and printed: use Python strings",
    "as_string": "string tensors are only made, compared and printed: format with Python",
    "edit_distance": "string tensors are only made, compared and printed: compute it in Python",
    "fingerprint": "use Python's hashlib",
    "lookup": "use a Python dict, and tapec.gather for rows by index",
    # -- data in and out
    "data": "tapec has no input pipelines: iterate over NumPy arrays, or over any Python iterable",
    "io": "tapec reads no files: use NumPy or Python",
    "audio": "tapec reads no files: use SciPy's or another reader, and tapec.signal",
    "image.decode_*": "tapec reads no image files: use Pillow or imageio, and tapec.constant of the array",
    "image.encode_*": "tapec writes no image files: use Pillow or imageio with tensor.numpy()",
    "image.*jpeg*": "tapec reads no image files: use Pillow or imageio",
    "image.draw_bounding_boxes": "draw with Pillow or matplotlib",
    "image.*non_max_suppression*": "select boxes in NumPy: the number that stays depends on values",
    "image.*bounding_box*": "choose boxes with tapec.random, and cut with tapec.image.crop_to_bounding_box",
    "image.extract_glimpse": "use tapec.image.crop_and_resize",
    "summary.trace_*": "tapec profile shows where the time goes, tapec html what became of a program",
    "summary.graph": "tapec html shows a program",
    "summary.*": "tapec.summary writes scalars, histograms and texts",
    "saved_model": "tapec.save and tapec.load keep the values of Variables",
    "train.*heckpoint*": "tapec.save and tapec.load keep the values of Variables",
    "train.list_variables": "tapec.load reads what tapec.save wrote",
    "train.load_*": "tapec.load reads what tapec.save wrote",
    "train.*": "optimizers are in tapec.optimizers; tapec has no protocol buffers and no clusters",
    "make_*": "tapec has no protocol buffers: numpy arrays are pickled or saved with numpy.savez",
    # -- graphs, sessions, plugins
    "Session": "tapec runs eagerly; decorate a function with tapec.compile",
    "Graph": "tapec has no graphs to build by hand: decorate a function with tapec.compile; f.ir() shows it",
    "Operation": "operations are not objects for users: f.ir() of a compiled function shows its program",
    "graph_util": "tapec has no graphs to build by hand: decorate a function with tapec.compile",
    "import_graph_def": "tapec has no graphs to build by hand: decorate a function with tapec.compile",
    "placeholder": "arguments of a tapec.compile function play this role",
    "compat": "tapec has the second version's names alone",
    "raw_ops": "call the function of the operation: tapec.math, tapec.nn, tapec.linalg",
    "load_*library": "tapec takes no compiled plugins: tapec.numpy_function calls Python",
    "RegisterGradient": "decorate a function with tapec.custom_gradient",
    "no_gradient": "use tapec.stop_gradient, or tapec.custom_gradient",
    "register_tensor_conversion_function": "give the class an __array__ method, or convert it yourself",
    "variable_creator_scope": "make Variables with a function of your own",
    "experimental.*dispatch*": "tapec has no dispatcher: write a function that looks at types",
    "DeviceSpec": "tapec runs on one device: tapec.device takes its name",
    "*Spec": "tapec.TensorSpec describes tensors; it has no kin",
    "experimental.*xtension*": "tensors in a dataclass or tuple are structure; tapec has no own types of tensors",
    "experimental.extension_type": "tensors in a dataclass or tuple are structure; tapec has no own types of tensors",
    "experimental.StructuredTensor": "tensors in a dataclass, dict or tuple are structure",
    "experimental.Optional": "use None: it is structure, and a signature of its own",
    "experimental.async_*": "tapec runs one operation after the other",
    "experimental.enable_strict_mode": "tapec has nothing that is deprecated",
    "experimental.function_executor_type": "tapec has one way to run a function",
    "experimental.float*": "tapec has no floats of less than 16 bits",
    "experimental.*int[24]": "tapec has no integers of less than 8 bits",
    "experimental.numpy": "tapec.numpy has NumPy's functions; NumPy's own take tensors too, and stay on the tape",
    "experimental.register_filesystem_plugin": "tapec reads no files: use Python",
    "experimental.tensorrt": "tapec has its own compiler",
    "experimental.dtensor": "tapec runs on one device",
    "AggregationMethod": "gradients are summed; there is nothing to choose",
    "nondifferentiable_batch_function": "use tapec.vectorized_map",
    "get_logger": "tapec logs nothing: use Python's logging",
    "profiler": "f.profile(...) of a compiled function times its kernels; tape.memory() shows what a tape holds",
    "sysconfig": "tapec is not built against: see tapec.__version__",
    "version": "see tapec.__version__",
    "test": "compare with numpy.testing; tapec.debugging.check_gradients replaces compute_gradient",
    "types": "use tapec.Tensor, tapec.Variable and tapec.TensorShape",
    "xla": "every tapec.compile function is compiled whole",
    "random.experimental": "use the same names in tapec.random",
    "numpy": "NumPy's own functions take tensors, and stay on the tape",
    "lite": "tapec makes code for this machine alone",
    "mlir": "tapec has its own compiler: tapec ir shows programs",
    "security": "tapec has nothing of that kind",
    "tools": "tapec has nothing of that kind",
    "random_index_shuffle": "use tapec.random.shuffle",
    "random.*index_shuffle": "use tapec.random.shuffle",
    "quantization": "tapec has no quantised numbers",
    "*quint*": "tapec has no quantised numbers",
    "*qint*": "tapec has no quantised numbers",
    "dtypes.QUANTIZED_DTYPES": "tapec has no quantised numbers",
    "dtypes.experimental": "tapec has no numbers of less than 8 bits",
    "*resource": "a tapec.Variable is no handle in a tensor",
    "*variant": "tensors hold numbers, bools or strings",
    "math.sobol_sample": "use scipy.stats.qmc.Sobol",
    # -- other machines
    "distribute": "tapec runs on one device",
    "tpu": "tapec runs on one device, the CPU",
    "dtensor": "tapec runs on one device",
    "check_pinned": "tapec runs on one device, the CPU",
    "config.*onfigur*": "tapec runs on one device, the CPU, and shares memory with NumPy",
    "config.*connect*": "tapec runs on one device",
    "config.optimizer": "every tapec.compile function is optimised; tapec passes lists the passes",
    "config.experimental.*mlir*": "tapec has its own compiler",
    "config.experimental.*": "tapec runs on one device, the CPU; tape.memory() and f.ir() say what memory is used",
    "config.experimental_*run_functions_eagerly": "use tapec.config.run_functions_eagerly",
    "config.experimental_functions_run_eagerly": "use tapec.config.functions_run_eagerly",
    "debugging.*traceback_filtering*": "tracebacks are Python's; errors name your line first",
    "debugging.experimental": "tape.report, tape.explain and tapec.debugging.enable_check_numerics say what runs",
    "CriticalSection": "use a threading.Lock around calls",
    "queue": "use Python's queue",
    # -- what is there once something is installed
    "keras": "pip install 'tapec[keras]' gives Keras, running on tapec; without it, optimizers are in "
    "tapec.optimizers, initializers in tapec.initializers, activations and losses in tapec.nn, and a layer is a "
    "tapec.Module",
    # -- what could be, and is not
    "optimizers.legacy": "use the same names in tapec.optimizers",
    "losses": "losses are in tapec.nn",
    "metrics": "keep sums in Variables, or Python numbers",
    "feature_column": "prepare features with NumPy",
    "estimator": "write a loop over batches, with tapec.GradientTape",
    "contrib": "TensorFlow's first version had it; tapec has the second one's names",
    "assert_*": "see tapec.debugging",
    "initializers.STFT*": "tapec.signal.stft computes it",
    "initializers.stft": "tapec.signal.stft computes it",
    "linalg.LinearOperator*": "multiply and solve with the matrix itself: tapec.linalg",
    "linalg.logm": "eigenvectors times logarithms of eigenvalues, from tapec.linalg.eigh, or eig of a general matrix",
    "linalg.experimental": "use tapec.linalg.solve, or write the iteration with tapec.while_loop",
    "nn.RNNCell*": "write the step as a function, and the loop with tapec.scan",
    "nn.ctc_*": "tapec has no connectionist temporal classification; write its recursion with tapec.scan",
    "nn.collapse_repeated": "tapec has no connectionist temporal classification",
    "*candidate_sampler": "draw classes with tapec.random.uniform or tapec.random.categorical",
    "nn.compute_accidental_hits": "compare sampled and true classes with tapec.equal",
    "nn.nce_loss": "tapec.nn.sigmoid_cross_entropy_with_logits of sampled classes",
    "nn.sampled_softmax_loss": "tapec.nn.softmax_cross_entropy_with_logits of sampled classes",
    "nn.*_backprop_*": "take it with tapec.GradientTape",
    "*_backprop_*": "take it with tapec.GradientTape",
    "nn.fractional_*": "tapec.image.resize, or pools with fixed windows",
    "nn.isotonic_regression": "use scikit-learn's IsotonicRegression",
    "nn.with_space_to_batch": "tapec.nn.convolution takes dilations",
    "conv": "use tapec.nn.convolution",
    "extract_volume_patches": "use tapec.slice for each place of the window",
    "approx_top_k": "use tapec.math.top_k, which is exact",
    "guarantee_const": "use tapec.constant",
    "hessians": "take it with two tapes: jacobian of a gradient",
}

_OTHER_HOMES = ("math", "nn", "linalg", "random", "signal", "image", "debugging")


def advice(name: str) -> str | None:
    """What to do instead of a name of TensorFlow's; None if nothing is known of it."""
    return next((text for pattern, text in ADVICE.items() if fnmatchcase(name, pattern)), None)


def missing(namespace: str, name: str) -> Exception:
    """The error for a name that a namespace (or tapec itself, ``""``) does not have."""
    errors = import_module("tapec.errors")  # which itself says what it does not have
    place = f"tapec.{namespace}" if namespace else "tapec"
    told = advice(f"{namespace}.{name}" if namespace else name)
    text = f"{place} has no {name!r}"
    if told is not None:
        text += f": {told}"
    elif not name.startswith("_"):
        homes = [] if namespace else [home for home in _OTHER_HOMES if _has(home, name)]
        import difflib  # slow to import; names are rarely missing

        near = difflib.get_close_matches(name, dir(sys.modules.get(place, errors)), 1, 0.8)
        if homes:
            text += f", did you mean tapec.{homes[0]}.{name}?"
        elif near:
            text += f", did you mean {place}.{near[0]}?"
    error: Exception = errors.AttributeError(text)
    return error


def _has(home: str, name: str) -> bool:
    return name in _exported(import_module(f"tapec.{home}"))


def namespace(
    name: str, later: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A module's ``__getattr__``, which explains what its namespace does not have, and its ``__dir__``.

    ``later`` has names that are loaded when they are asked for, by their modules, as `homes` reads them.
    """
    known = homes(later)

    def absent(attribute: str) -> Any:
        if attribute in known:
            found = loaded(*known[attribute])
            setattr(sys.modules[f"tapec.{_MODULES.get(name, name)}"], attribute, found)
            return found
        if attribute.startswith("__"):
            raise AttributeError(f"module 'tapec.{name}' has no attribute {attribute!r}")
        home = sys.modules[f"tapec.{_MODULES.get(name, name)}"]
        if hasattr(home, "__path__") and find_spec(f"{home.__name__}.{attribute}") is not None:
            # ``from tapec.autograph import operators`` asks here first.
            raise AttributeError(f"import {home.__name__}.{attribute} before you use it")
        raise missing(name, attribute)

    def listed() -> list[str]:
        home = _MODULES.get(name, name)
        return sorted(_exported(import_module(f"tapec.{home}")))

    return absent, listed


def homes(table: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Module and own name of each name in a table ``{"module": "name other=own_name module_itself="}``."""
    return {
        name: (module, own if equals else name)
        for module, names in table.items()
        for name, equals, own in (entry.partition("=") for entry in names.split())
    }


@unheard
def loaded(module: str, name: str) -> Any:
    """A name of one of our modules, or the module if it is empty."""
    with importing():
        found = import_module(f"tapec.{module}")
    return getattr(found, name) if name else found


#: The modules of namespaces that are not called like them.
_MODULES = {"nn.experimental": "nn_experimental"}


def _exported(module: ModuleType) -> set[str]:
    """The names that a module is there for: what it defines, and imports ``as`` itself (PEP 484), but no others."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    found = _names(ast.parse(inspect.getsource(module)).body)
    return {n for n in found if n[0] != "_" and not isinstance(getattr(module, n, None), TypeVar)}


def _names(body: Sequence[ast.stmt]) -> set[str]:
    """The same of statements, those for type checkers among them: they stand for what is loaded later."""
    found: set[str] = set()
    for node in body:
        match node:
            case ast.ImportFrom(names=names):
                found.update(a.name for a in names if a.asname == a.name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=targets):
                found.update(t.id for t in targets if isinstance(t, ast.Name))
            case ast.If(test=ast.Name("TYPE_CHECKING"), body=later):
                found |= _names(later)
    return found
