"""Public functions against TensorFlow's values: eagerly, compiled, and their derivatives against differences.

The expressions are in ``conformance/api/cases.py``, what TensorFlow gives for them in ``values.json`` beside it.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.debugging import check_gradients
from tapec.ir import evaluator

FOLDER = Path(__file__).parent / "conformance" / "api"
sys.path.insert(0, str(FOLDER))
from cases import KINDS, OPERANDS, leaves  # type: ignore[import-not-found]  # noqa: E402  found by the line above

RECORDED: dict[str, list[dict[str, Any]]] = json.loads((FOLDER / "values.json").read_text("utf-8"))

#: What is run, by how it may be.
EXPRESSIONS: dict[str, list[str]] = KINDS

#: Where one rounding more or less shows: relative to the greatest element.
LOOSE = {
    "tf.linalg.expm": 1e-4,
    "tf.image.ssim": 1e-4,
    "tf.linalg.lstsq": 1e-4,
    "tf.linalg.pinv": 1e-4,
}


def operands(expression: str) -> list[str]:
    """The names of the operands in an expression, in order."""
    names = [node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)]
    return [name for name in dict.fromkeys(names) if name in OPERANDS]


def function_of(expression: str) -> Callable[..., Any]:
    """The expression as a function of its operands."""
    # A function that calls `eval` rests on all globals around it, of which a program looks after each: here all cases.
    names = {"tf": tapec, "np": np, "__name__": __name__}
    function: Callable[..., Any] = eval(
        f"lambda {', '.join(operands(expression))}: {expression}", names
    )
    function.__name__ = "case"
    return function


def tensors(expression: str) -> list[tapec.Tensor]:
    return [tapec.constant(OPERANDS[name]) for name in operands(expression)]


def check(expression: str, result: Any) -> None:
    """Hold a result against the recorded one."""
    called = expression.split("(")[0]
    for array, wanted in zip(leaves(result), RECORDED[expression], strict=True):
        values = np.asarray(wanted["values"])
        assert array.dtype.name == wanted["dtype"]
        assert list(array.shape) == wanted["shape"]
        if array.dtype.kind == "c":
            array = array.reshape(-1).view(array.real.dtype)
        scale = np.abs(values[np.isfinite(values)]).max(initial=1.0) if values.size else 1.0
        tolerance = LOOSE.get(called, 2e-5) if array.dtype.kind in "fc" else 0
        np.testing.assert_allclose(
            array.reshape(-1), values, rtol=tolerance, atol=tolerance * scale
        )


#: Functions of numbers are called in the cases. These are of other kinds, and have tests of their own.
OTHERS = {
    "control": "case cond foldl foldr group map_fn no_op scan switch_case while_loop vectorized_map",
    "scopes": "control_dependencies device get_current_name_scope init_scope inside_function executing_eagerly",
    "the host": "numpy_function print py_function timestamp parallel_stack",
    "derivatives": "custom_gradient grad_pass_through gradients recompute_grad",
    "checks": "Assert assert_equal assert_greater assert_less assert_rank",
    "what is known of a tensor": "as_dtype get_static_value is_symbolic_tensor is_tensor type_spec_from_value",
    "compiling": "function",
    "chance": "nn.dropout image.random_ image.stateless_",
    "transforms of any rank": "signal.fftnd signal.ifftnd signal.rfftnd signal.irfftnd signal.inverse_stft_window_fn",
    "compiled code refuses them by name (test_eigen.py)": "eig eigvals linalg.eig linalg.eigvals",
    "TensorFlow has no kernel for it": "nn.approx_min_k math.approx_min_k",
}
NAMESPACES = {"", "math", "math.special", "nn", "linalg", "image", "bitwise", "signal"}


def test_every_function_of_numbers_is_called() -> None:
    text = "\n".join(RECORDED)
    called = {resolved(name) for name in re.findall(r"tf\.([\w.]+)\(", text)}
    excepted = " ".join(OTHERS.values()).split()
    table = (FOLDER / "signatures.txt").read_text("utf-8").splitlines()
    names = [line.split(" ", 1)[0] for line in table]
    missing = [
        name
        for name in names
        if name.rpartition(".")[0] in NAMESPACES
        and inspect.isfunction(resolved(name))
        and resolved(name) not in called
        and not any(name == e or (e.endswith("_") and name.startswith(e)) for e in excepted)
    ]
    assert not missing


def resolved(name: str) -> Any:
    """The object of a name in tapec, or None."""
    place: Any = tapec
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


@pytest.mark.parametrize("expression", [e for kind in KINDS.values() for e in kind])
def test_eager(expression: str) -> None:
    check(expression, function_of(expression)(*tensors(expression)))


@pytest.mark.parametrize("expression", KINDS["smooth"] + KINDS["exact"])
def test_compiled(expression: str) -> None:
    plain = function_of(expression)
    given = tensors(expression)
    function = tapec.compile(plain)
    found, eager = function(*given), tapec.nest.flatten(plain(*given))
    # Python's own numbers come back as tensors.
    own = [
        type(e)(f) if isinstance(e, int) else f
        for f, e in zip(tapec.nest.flatten(found), eager, strict=True)
    ]
    check(expression, own)
    if operands(expression):
        assert function.programs[0].executable.kernels
    given, files = tensors(expression), set()
    sys.setprofile(lambda frame, event, _: files.add(frame.f_code.co_filename))
    try:
        function(*given)
    finally:
        sys.setprofile(None)
    assert evaluator.__file__ not in files  # native code did all of it


def scalar_of(expression: str) -> tuple[Callable[..., tapec.Tensor], list[Any]]:
    """The sum of all float results, squared so that a second derivative is there, of float64 operands."""
    names = [n for n in operands(expression) if OPERANDS[n].dtype.kind == "f"]
    others = {n: OPERANDS[n] for n in operands(expression) if n not in names}
    plain = function_of(expression)

    def scalar(*values: tapec.Tensor) -> tapec.Tensor:
        result = plain(**others, **dict(zip(names, values, strict=True)))
        parts = [p for p in tapec.nest.flatten(result) if p is not None and p.dtype.is_floating]
        return tapec.add_n(
            [tapec.reduce_sum(tapec.square(tapec.cast(p, tapec.float64))) for p in parts]
        )

    return scalar, [OPERANDS[n].astype("f8") for n in names]


def has_floats(expression: str) -> bool:
    return any(OPERANDS[n].dtype.kind == "f" for n in operands(expression))


@pytest.mark.parametrize("expression", [e for e in KINDS["smooth"] if has_floats(e)])
def test_derivatives(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first by every element, the second along one direction through all operands."""
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")  # native code is tested above
    scalar, arrays = scalar_of(expression)
    check_gradients(scalar, arrays, rtol=1e-5, atol=1e-6)
    rng = np.random.default_rng(1)
    directions = [rng.uniform(-1, 1, a.shape) for a in arrays]

    def slope(t: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            tape.watch(t)
            y = scalar(*(a + t * d for a, d in zip(arrays, directions, strict=True)))
        result: tapec.Tensor = tape.gradient(y, t)
        return result

    check_gradients(slope, [np.array(0.0)], delta=1e-5, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("expression", KINDS["eager"])
def test_what_depends_on_values_is_refused_by_name(expression: str) -> None:
    with pytest.raises(
        tapec.errors.NotImplementedError,
        match=r"cannot be compiled: the shape .* depends on values",
    ):
        tapec.compile(function_of(expression))(*tensors(expression))
