"""Users' kernels for tests, with operands: what they compute, how, and what their derivative is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np

import tapec
from tapec.ir.op import OPS

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(5)


def softplus(x: Any) -> Any:
    """Straight-line code with two mathematical functions."""
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


def piecewise(x: Any, n: Any) -> Any:
    """Branches without loops, and operands of two dtypes."""
    if x > 1:
        return math.tanh(x) * n
    if n < 3:
        return x**3 + n
    return math.sin(2.0 * x)


def horner(x: Any, n: Any) -> Any:
    """A loop as long as an operand says."""
    total = 0.0
    for k in range(n):
        total = total * x + 1.0 / (k + 1)
    return total


def remainder(x: Any, y: Any) -> Any:
    """A function that is not ours, from the C library."""
    return x % y + math.exp2(y)


def norm(x: Any, y: Any) -> Any:
    """Two operands with a gradient each."""
    return math.sqrt(x * x + y * y + 1.0)


def blur(x: Any, weight: Any, out: Any) -> None:
    """A stencil: an array and a number."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1] - 2):
            out[i, j] = weight * (x[i, j] + x[i, j + 1] + x[i, j + 2])


def running(x: Any, sums: Any, total: Any) -> None:
    """Two results, one without axes."""
    value = 0.0
    for i in range(x.shape[0]):
        value += np.exp2(x[i])
        sums[i] = value
    total[()] = value


def blur_vjp(x: Any, weight: Any, y: Any, dy: Any) -> Any:
    wide = tapec.pad(dy, [[0, 0], [2, 2]])
    back = wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:]
    return weight * back, tapec.reduce_sum(dy * y / weight)


def running_vjp(x: Any, sums: Any, total: Any, ds: Any, dt: Any) -> Any:
    return math.log(2.0) * tapec.pow(2.0, x) * (tapec.cumsum(ds, reverse=True) + dt)


def horner_slope(x: Any, n: Any) -> Any:
    """The derivative of `horner`, a kernel too."""
    total, slope = 0.0, 0.0
    for k in range(n):
        slope = slope * x + total
        total = total * x + 1.0 / (k + 1)
    return slope


#: In memory, these are bytes that read like names of LLVM's.
TABLE = np.array([3.3, 3.3, 1.1, 2.2, 3.3, 4.4])


def looked_up(x: Any, n: Any) -> Any:
    """A table in memory, and a function that is called twice."""
    return TABLE[n % 6] * _wave(x) + _wave(x + TABLE[0])


def _python_wave(x: Any) -> Any:
    total = 0.0
    for k in range(1, 40):
        total += math.sin(k * x) / k if k % 2 else math.cos(k * x) / (k + 1)
    return total


_njit: Any = numba.njit
_wave = _njit(error_model="numpy")(_python_wave)


@dataclass(frozen=True)
class Case:
    """A kernel, its derivative, the rule of a kernel of arrays, and operands."""

    function: Callable[..., Any]
    operands: tuple[Array, ...]
    vjp: Callable[..., Any] | None = None
    infer: str | None = None
    #: Operands that have a gradient.
    sources: tuple[int, ...] = (0,)


def _floats(*shape: int) -> Array:
    return rng.uniform(-2, 2, shape)


def _counts(*shape: int) -> Array:
    return rng.integers(0, 6, shape, np.int32)


CASES: dict[str, Case] = {
    "softplus": Case(softplus, (_floats(3, 7),), lambda x, y, dy: dy * tapec.sigmoid(x)),
    "piecewise": Case(piecewise, (_floats(37), _counts(37)), sources=()),
    "horner": Case(
        horner,
        (_floats(2, 19), _counts(2, 19)),
        lambda x, n, y, dy: (dy * OPERATIONS["horner_slope"](x, n), None),
    ),
    "horner_slope": Case(horner_slope, (_floats(5), _counts(5)), sources=()),
    "looked_up": Case(looked_up, (_floats(6), _counts(6)), sources=()),
    "remainder": Case(remainder, (_floats(21), 1 + np.abs(_floats(21))), sources=()),
    "norm": Case(
        norm,
        (_floats(4, 5), _floats(5)),
        lambda x, y, r, dr: (dr * x / r, dr * y / r),
        sources=(0, 1),
    ),
    "blur": Case(
        numba.njit(error_model="numpy")(blur),
        (_floats(3, 8), np.array(0.3)),
        blur_vjp,
        "T[n,m], T -> T[n,m-2]",
        sources=(0, 1),
    ),
    "running": Case(running, (_floats(6),), running_vjp, "T[n] -> T[n], T"),
}
#: The operations, once they are registered.
OPERATIONS: dict[str, Any] = {}


@contextmanager
def registered() -> Iterator[dict[str, Any]]:
    """All of them as operations; what goes over the registry before and after does not meet them."""
    before = set(OPS)
    for name, case in CASES.items():
        make = tapec.custom_op(f"test.{name}", vjp=case.vjp, infer=case.infer)
        OPERATIONS[name] = make(case.function)
    try:
        yield OPERATIONS
    finally:
        OPERATIONS.clear()
        for name in set(OPS) - before:
            del OPS[name]
