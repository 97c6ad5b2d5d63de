"""Functions of several tensors at once, and other names of functions that exist."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapec import arguments
from tapec.errors import InvalidArgumentError
from tapec.frames import here
from tapec.functions.arithmetic import add_n, identity, multiply, subtract, truncatediv
from tapec.functions.arrays import shape
from tapec.functions.broadcasting import broadcast_pair, like, refuse_in_trace
from tapec.functions.rearrangement import stack
from tapec.ir.types import F64, I32
from tapec.tensor import Tensor, TensorLike, as_tensor
from tapec.tensor_shape import TensorShape


def identity_n(input: Sequence[TensorLike], name: str | None = None) -> list[Tensor]:
    """`tapec.identity` of each."""
    return [identity(x) for x in arguments.items(input, "input")]


def shape_n(
    input: Sequence[TensorLike], out_type: Any = I32, name: str | None = None
) -> list[Tensor]:
    """`tapec.shape` of each."""
    return [shape(x, out_type) for x in arguments.items(input, "input")]


def tuple(
    tensors: Sequence[TensorLike | None], control_inputs: Any = None, name: str | None = None
) -> list[Tensor | None]:
    """Each tensor, or None where None stands; ``control_inputs`` are computed in the order of the program anyway."""
    return [None if x is None else identity(x) for x in arguments.items(tensors, "tensors")]


def parallel_stack(values: Sequence[TensorLike], name: str | None = None) -> Tensor:
    """`tapec.stack` along a new first axis."""
    return stack(values)


def accumulate_n(
    inputs: Sequence[TensorLike],
    shape: Any = None,
    tensor_dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """`tapec.add_n`, with a check of the shape and the dtype if they are given.

    Raises:
        InvalidArgumentError: they are others.
    """
    total = add_n(inputs)
    if shape is not None and not TensorShape(shape).is_compatible_with(total.shape):
        raise InvalidArgumentError(f"inputs have shape {total.shape}, not {shape}", location=here())
    if tensor_dtype is not None and total.dtype != tensor_dtype:
        raise InvalidArgumentError(
            f"inputs are {total.dtype.name}, not {tensor_dtype}", location=here()
        )
    return total


def scalar_mul(scalar: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """``scalar * x`` for a scalar of the dtype of ``x``.

    Raises:
        InvalidArgumentError: ``scalar`` is no scalar.
    """
    values = as_tensor(x)
    factor = like(scalar, values.type.dtype)
    if factor.type.rank:
        raise InvalidArgumentError(
            f"Only scalar multiply works, got shape {factor.shape}", location=here()
        )
    return multiply(factor, values)


def truncatemod(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """``x - truncatediv(x, y) * y``: the remainder has the sign of ``x``, as in C.

    Raises:
        InvalidArgumentError: eager, an integer is taken modulo 0.
    """
    x, y = broadcast_pair(x, y)
    return subtract(x, multiply(truncatediv(x, y), y))


def timestamp(name: str | None = None) -> Tensor:
    """Seconds since 1970, as float64; eager only.

    Raises:
        NotImplementedError: while a function is compiled, which would keep the time of the trace.
    """
    refuse_in_trace("timestamp", "take the time outside, and pass it as an argument")
    return as_tensor(np.array(time.time()), F64)
