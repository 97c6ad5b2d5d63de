"""Gradients held against differences: whether a derivative is right."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence

import numpy as np

from tapec import arguments
from tapec.errors import InvalidArgumentError, NotImplementedError, TypeError
from tapec.frames import here
from tapec.recording import current_trace
from tapec.tape import GradientTape
from tapec.tensor import Array, Tensor, TensorLike, as_tensor


def compute_gradient(
    f: Callable[..., Tensor], x: Sequence[TensorLike], delta: float | None = None
) -> tuple[list[Array], list[Array]]:
    """The Jacobians of a function by a tape, and by central differences.

    Args:
        f: takes as many tensors as ``x`` has, returns one.
        x: float arguments.
        delta: half the distance of the differences; a cube root of the dtype's spacing if None.

    Returns:
        Two lists of ``[size of the result, size of the argument]``, one matrix for each argument.

    Raises:
        TypeError: an argument or the result is complex.
    """
    if current_trace() is not None:
        raise NotImplementedError(
            "differences need values, which a compiled function does not show",
            location=here(),
            hint="call it outside, on the compiled function",
        )
    arguments.function(f, "f")
    delta = None if delta is None else arguments.number(delta, "delta")
    tensors = [_real(as_tensor(value), "an argument") for value in arguments.items(x, "x")]
    by_tape = [_jacobian(f, tensors, i) for i in range(len(tensors))]
    by_differences = [_differences(f, tensors, i, delta) for i in range(len(tensors))]
    return by_tape, by_differences


def _real(tensor: Tensor, what: str) -> Tensor:
    """A tensor of real numbers: a complex function has two derivatives by each part."""
    if tensor.type.dtype.is_complex:
        raise TypeError(
            f"{what} is complex ({tensor.type})",
            location=here(),
            hint="let f take both parts, make tapec.complex(re, im) of them, and return tapec.math.real of what it has",
        )
    return tensor


def _jacobian(f: Callable[..., Tensor], tensors: list[Tensor], which: int) -> Array:
    x = tensors[which]
    with GradientTape() as tape:
        tape.watch(x)
        y = _real(as_tensor(f(*tensors)), "the result")
    found = tape.jacobian(y, x, unconnected_gradients="zero")
    rows: Array = found.array.reshape(y.array.size, x.array.size)
    return rows


def _differences(
    f: Callable[..., Tensor], tensors: list[Tensor], which: int, delta: float | None
) -> Array:
    x = tensors[which].numpy()
    step = float(np.finfo(x.dtype).eps ** (1 / 3)) if delta is None else delta
    columns = []
    for place in np.ndindex(np.shape(x)):
        ends = []
        for sign in (1, -1):
            moved = np.array(x)
            moved[place] += sign * step * builtins.max(1.0, abs(float(moved[place])))
            inputs = [*tensors[:which], as_tensor(moved), *tensors[which + 1 :]]
            ends.append((as_tensor(f(*inputs)).array.astype(np.float64), float(moved[place])))
        (high, right), (low, left) = ends
        columns.append((high - low).reshape(-1) / (right - left))
    return np.stack(columns, 1) if columns else np.zeros((as_tensor(f(*tensors)).array.size, 0))


def check_gradients(
    f: Callable[..., Tensor],
    x: Sequence[TensorLike],
    *,
    delta: float | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-3,
) -> float:
    """Hold the gradients of a function against central differences.

    Args:
        f: takes as many tensors as ``x`` has, returns one.
        x: float tensors, best float64.
        delta: see `compute_gradient`.
        rtol: the relative error allowed, of each element of the Jacobian.
        atol: the absolute error allowed beside it.

    Returns:
        The greatest difference found.

    Raises:
        InvalidArgumentError: an element of a Jacobian differs; the text names it and both values.

    Example: ``check_gradients(lambda x: x ** 3, [tapec.constant(2.0)])``.
    """
    rtol, atol = arguments.number(rtol, "rtol"), arguments.number(atol, "atol")
    worst = 0.0
    for i, (ours, theirs) in enumerate(zip(*compute_gradient(f, x, delta), strict=True)):
        error = np.abs(ours.astype(np.float64) - theirs)
        wrong = ~(error <= atol + rtol * np.abs(theirs))  # NaN is wrong
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise InvalidArgumentError(
                f"the gradient by argument {i} is wrong in {int(wrong.sum())} of {wrong.size} "
                f"elements: d f[{row}] / d x[{column}] (flat indices) is {ours[row, column]:g} by "
                f"the tape and {theirs[row, column]:g} by differences",
                location=here(),
                hint="if f has a custom_gradient, mend its grad_fn; near a kink, or with f in float32, take other "
                "points, or float64, or a larger delta",
            )
        worst = builtins.max(worst, float(error.max(initial=0.0)))
    return worst
