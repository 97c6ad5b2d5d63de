"""tapec: a compiler for taped training programs.

The public names are TensorFlow's where it has one, and so are the parameters of functions. ``name`` is accepted
everywhere and changes nothing: an operation is known by the line that made it.

A module is loaded when a name of it is first
used (PEP 562), except for the operators of Tensor: they are methods that `tapec.tensors.operators` adds,
and no name would ever be asked for before ``x + y`` needs them.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tapec.garbage import importing

with importing():
    from tapec.absences.names import homes, loaded, missing
    from tapec.tensors import operators as operators

if TYPE_CHECKING:  # what the table below says, for type checkers and editors
    from tapec import aot as aot
    from tapec import autodiff as autodiff
    from tapec import autograph as autograph
    from tapec import bitwise as bitwise
    from tapec import config as config
    from tapec import debugging as debugging
    from tapec import dtypes as dtypes
    from tapec import errors as errors
    from tapec import experimental as experimental
    from tapec import image as image
    from tapec import initializers as initializers
    from tapec import keras as keras
    from tapec import linalg as linalg
    from tapec import math as math
    from tapec import nest as nest
    from tapec import nn as nn
    from tapec import numpy as numpy
    from tapec import optimizers as optimizers
    from tapec import random as random
    from tapec import signal as signal
    from tapec import summary as summary
    from tapec import train as train
    from tapec.checkpoints.saving import load as load
    from tapec.checkpoints.saving import save as save
    from tapec.compiled.function import compile as compile
    from tapec.compiled.retraces import RetraceWarning as RetraceWarning
    from tapec.control.branches import case as case
    from tapec.control.branches import cond as cond
    from tapec.control.branches import group as group
    from tapec.control.branches import no_op as no_op
    from tapec.control.branches import switch_case as switch_case
    from tapec.control.folds import foldl as foldl
    from tapec.control.folds import foldr as foldr
    from tapec.control.folds import map_fn as map_fn
    from tapec.control.folds import scan as scan
    from tapec.control.loops import while_loop as while_loop
    from tapec.control.tensor_array import TensorArray as TensorArray
    from tapec.derivatives.custom import custom_gradient as custom_gradient
    from tapec.derivatives.custom import grad_pass_through as grad_pass_through
    from tapec.derivatives.custom import recompute_grad as recompute_grad
    from tapec.derivatives.program_gradient import gradients as gradients
    from tapec.derivatives.unconnected import UnconnectedGradients as UnconnectedGradients
    from tapec.dtypes import *  # noqa: F403
    from tapec.functions.arithmetic import *  # noqa: F403
    from tapec.functions.arrays import *  # noqa: F403
    from tapec.functions.assertions import Assert as Assert
    from tapec.functions.assertions import assert_equal as assert_equal
    from tapec.functions.assertions import assert_greater as assert_greater
    from tapec.functions.assertions import assert_less as assert_less
    from tapec.functions.assertions import assert_rank as assert_rank
    from tapec.functions.bits import bitcast as bitcast
    from tapec.functions.clipping import clip_by_global_norm as clip_by_global_norm
    from tapec.functions.clipping import clip_by_norm as clip_by_norm
    from tapec.functions.counts import histogram_fixed_width as histogram_fixed_width
    from tapec.functions.counts import histogram_fixed_width_bins as histogram_fixed_width_bins
    from tapec.functions.counts import unique as unique
    from tapec.functions.counts import unique_with_counts as unique_with_counts
    from tapec.functions.elementary import *  # noqa: F403
    from tapec.functions.host import numpy_function as numpy_function
    from tapec.functions.host import py_function as py_function
    from tapec.functions.host import timestamp as timestamp
    from tapec.functions.indexing import *  # noqa: F403
    from tapec.functions.known import get_static_value as get_static_value
    from tapec.functions.known import is_symbolic_tensor as is_symbolic_tensor
    from tapec.functions.logic import *  # noqa: F403
    from tapec.functions.mapping import vectorized_map as vectorized_map
    from tapec.functions.ordering import argsort as argsort
    from tapec.functions.ordering import sort as sort
    from tapec.functions.partition import *  # noqa: F403
    from tapec.functions.printing import print as print
    from tapec.functions.products import *  # noqa: F403
    from tapec.functions.rearrangement import *  # noqa: F403
    from tapec.functions.reductions import *  # noqa: F403
    from tapec.functions.scattering import *  # noqa: F403
    from tapec.functions.windows.blocks import *  # noqa: F403
    from tapec.initializers import constant_initializer as constant_initializer
    from tapec.kernels.custom_op import custom_op as custom_op
    from tapec.linalg import eig as eig
    from tapec.linalg import eigvals as eigvals
    from tapec.module import Module as Module
    from tapec.recording import executing_eagerly as executing_eagerly
    from tapec.scopes import *  # noqa: F403
    from tapec.tape import GradientTape as GradientTape
    from tapec.tensor import Tensor as Tensor
    from tapec.tensors.indexed_slices import IndexedSlices as IndexedSlices
    from tapec.tensors.tensor_shape import TensorShape as TensorShape
    from tapec.tensors.type_spec import *  # noqa: F403
    from tapec.variable import Variable as Variable
    from tapec.variables.policies import *  # noqa: F403

    function = compile
    matrix_square_root = linalg.sqrtm
    __version__: str

#: Where each public name lives. ``name=other`` is a name for what its module calls otherwise.
_TABLE = {
    "functions.arithmetic": """abs add cast clip_by_value complex divide equal floor
        floordiv floormod greater greater_equal identity less less_equal maximum minimum
        multiply negative not_equal pow realdiv=truediv round saturate_cast sign square
        stop_gradient subtract truediv truncatediv where""",
    "functions.arrays": """broadcast_dynamic_shape broadcast_static_shape constant convert_to_tensor
        eye fill identity_n is_tensor linspace one_hot ones ones_like range rank sequence_mask shape
        shape_n size zeros zeros_like""",
    "functions.assertions": "Assert assert_equal assert_greater assert_less assert_rank",
    "functions.bits": "bitcast",
    "functions.clipping": "clip_by_global_norm clip_by_norm",
    "checkpoints.saving": "load save",
    "compiled.function": "compile function=compile",
    "compiled.retraces": "RetraceWarning",
    "control.branches": "case cond group no_op switch_case tuple=tuple_of",
    "control.folds": "foldl foldr map_fn scan",
    "control.loops": "while_loop",
    "control.tensor_array": "TensorArray",
    "derivatives.custom": "custom_gradient grad_pass_through recompute_grad",
    "dtypes": """DType as_dtype bfloat16 bool complex128 complex64 double float16 float32
        float64 half int16 int32 int64 int8 string uint16 uint32 uint64 uint8""",
    "functions.elementary": """acos acosh asin asinh atan atan2 atanh cos cosh exp sigmoid sin
        sinh sqrt tan tanh truncatemod""",
    "functions.host": "numpy_function py_function timestamp",
    "functions.indexing": "boolean_mask gather gather_nd strided_slice unravel_index",
    "functions.known": "get_static_value is_symbolic_tensor",
    "functions.counts": """histogram_fixed_width histogram_fixed_width_bins unique
        unique_with_counts""",
    "functions.partition": "dynamic_partition dynamic_stitch reverse_sequence",
    "functions.logic": "logical_and logical_not logical_or logical_xor",
    "functions.mapping": "vectorized_map",
    "functions.ordering": "argsort sort",
    "functions.printing": "print",
    "functions.products": "einsum matmul scalar_mul tensordot",
    "derivatives.program_gradient": "gradients",
    "functions.rearrangement": """broadcast_to concat ensure_shape expand_dims meshgrid pad
        parallel_stack repeat reshape reverse roll slice split squeeze stack tile transpose unstack""",
    "functions.reductions": """add_n argmax argmin cumsum norm reduce_all reduce_any reduce_logsumexp
        reduce_max reduce_mean reduce_min reduce_prod reduce_sum""",
    "functions.scattering": """scatter_nd searchsorted tensor_scatter_nd_add
        tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_nd_sub tensor_scatter_nd_update""",
    "initializers": """constant_initializer ones_initializer=Ones random_normal_initializer=RandomNormal
        random_uniform_initializer=RandomUniform zeros_initializer=Zeros""",
    "linalg": "eig eigvals matrix_square_root=sqrtm",
    "kernels.custom_op": "custom_op",
    "module": "Module",
    "recording": "executing_eagerly",
    "scopes": """control_dependencies device get_current_name_scope init_scope inside_function
        name_scope""",
    "tensors.type_spec": "TensorSpec TypeSpec type_spec_from_value",
    "functions.windows.blocks": """batch_to_space required_space_to_batch_paddings space_to_batch
        space_to_batch_nd=space_to_batch""",
    "tensors.indexed_slices": "IndexedSlices",
    "tape": "GradientTape",
    "tensor": "Tensor",
    "tensors.tensor_shape": "TensorShape",
    "derivatives.unconnected": "UnconnectedGradients",
    "variable": "Variable",
    "variables.policies": "VariableAggregation VariableSynchronization",
}

_NAMESPACES = (
    "aot",
    "autodiff",
    "autograph",
    "bitwise",
    "config",
    "debugging",
    "dtypes",
    "errors",
    "experimental",
    "image",
    "initializers",
    "keras",
    "linalg",
    "math",
    "nest",
    "nn",
    "numpy",
    "optimizers",
    "random",
    "signal",
    "summary",
    "train",
)

_HOMES = homes(_TABLE) | {name: (name, "") for name in _NAMESPACES}

newaxis = None


def __getattr__(name: str) -> Any:
    if name == "keras" and find_spec("keras") is None:  # of an extra
        raise missing("", name)
    if name in _HOMES:
        found = loaded(*_HOMES[name])
    elif name == "__version__":
        from importlib.metadata import version  # slow to import, and rarely asked for

        found = version("tapec")
    else:
        raise _absent(name)
    globals()[name] = found
    return found


def _absent(name: str) -> Exception:
    if find_spec(f"tapec.{name}") is not None:  # `from tapec import tracing` asks here first
        return AttributeError(f"import tapec.{name} before you use it")
    return missing("", name)


def __dir__() -> list[str]:
    return sorted([*_HOMES, "newaxis"])
