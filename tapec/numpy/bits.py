"""The bits of integers, and integers as multiples of each other. Of bools, bits are truth values."""

from __future__ import annotations

from typing import Any

from tapec.control.loops import while_loop
from tapec.functions import arithmetic
from tapec.functions.arithmetic import cast, where
from tapec.functions.bits import bitcast
from tapec.functions.bits import nextafter as _nextafter
from tapec.functions.broadcasting import binary, broadcast_pair, misfit, unary, wrong_dtype
from tapec.functions.rearrangement import reshape
from tapec.functions.reductions import reduce_any
from tapec.ir.types import I32, as_dtype
from tapec.numpy.promotion import inexact_pair, pair, promoted
from tapec.tensor import Tensor, TensorLike, as_tensor


def bitwise_and(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The bits that both have."""
    return binary("and", *pair(x1, x2))


def bitwise_or(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The bits that one of the two has."""
    return binary("or", *pair(x1, x2))


def bitwise_xor(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The bits that one of the two has, but not both."""
    return binary("xor", *pair(x1, x2))


def bitwise_invert(x: TensorLike, /) -> Tensor:
    """Every bit the other way round: ``-x - 1`` of a signed integer."""
    return unary("not", x)


def bitwise_left_shift(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The bits moved up by ``x2`` places; 0 unless ``0 <= x2 < bits``."""
    return binary("shl", *_whole(x1, x2))


def bitwise_right_shift(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The bits moved down by ``x2`` places, filled with the sign."""
    return binary("shr", *_whole(x1, x2))


def bitwise_count(x: TensorLike, /) -> Tensor:
    """The number of bits that are set in the absolute value, as uint8."""
    (value,) = _whole(x)
    value = value if value.type.dtype.is_unsigned else arithmetic.abs(value)
    words = bitcast(value, f"uint{value.type.dtype.bits}")
    one = as_tensor(1, words.type.dtype)
    total = binary("and", words, *_like(words, one))
    for place in range(1, words.type.dtype.bits):
        moved = binary("shr", words, *_like(words, as_tensor(place, words.type.dtype)))
        total = arithmetic.add(total, binary("and", moved, *_like(moved, one)))
    return cast(total, "uint8")


def _like(x: Tensor, number: Tensor) -> tuple[Tensor]:
    return (broadcast_pair(x, number)[1],)


def _whole(*values: TensorLike) -> list[Tensor]:
    """Integers of one dtype; bools become int32.

    Raises:
        InvalidArgumentError: floats among them (TypeError while a function is compiled).
    """
    found = promoted(*values)
    dtype = found[0].type.dtype
    if dtype.is_bool:
        return [cast(x, I32) for x in found]
    if not dtype.is_integer:
        raise wrong_dtype(dtype, "integers")
    return found


def gcd(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The greatest common divisor, not negative; that of 0 and 0 is 0.

    Euclid's algorithm, for all elements at once. Each turn halves a number at least every other time, so there are at
    most as many turns as twice the bits of the dtype.
    """
    x, y = broadcast_pair(*_whole(x1, x2))
    if not x.type.dtype.is_unsigned:
        x, y = arithmetic.abs(x), arithmetic.abs(y)

    def goes_on(a: Tensor, b: Tensor) -> Tensor:
        return reduce_any(arithmetic.not_equal(b, 0))

    def turn(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        ended = arithmetic.equal(b, 0)
        rest = arithmetic.floormod(a, where(ended, 1, b))
        return where(ended, a, b), where(ended, b, rest)

    found: Any = while_loop(goes_on, turn, (x, y))
    return found[0]  # type: ignore[no-any-return]


def lcm(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The least common multiple, not negative; 0 if one of the numbers is 0."""
    x, y = broadcast_pair(*_whole(x1, x2))
    common = gcd(x, y)
    found = arithmetic.multiply(
        arithmetic.floordiv(x, where(arithmetic.equal(common, 0), 1, common)), y
    )
    return found if found.type.dtype.is_unsigned else arithmetic.abs(found)


def nextafter(x1: TensorLike, x2: TensorLike, /) -> Tensor:
    """The float next to ``x1`` on the way to ``x2``."""
    x, y = inexact_pair(x1, x2)
    return _nextafter(x, y)


def view(x: TensorLike, /, dtype: Any = None) -> Tensor:
    """The numbers of another dtype that the same bytes stand for, as ``ndarray.view``; no gradient flows.

    A wider dtype joins neighbours of the last axis, a narrower one lengthens it.

    Raises:
        InvalidArgumentError: the last axis cannot be joined so, or there is none (ValueError while a function is
            compiled).
    """
    tensor = as_tensor(x)
    source = tensor.type.dtype
    target = source if dtype is None else as_dtype(dtype)
    shape = tensor.type.shape
    if target.bits < source.bits and not shape:
        raise misfit(f"{source.name} of rank 0 has no axis for several {target.name}")
    if target.bits > source.bits:
        ratio = target.bits // source.bits
        if not shape or (isinstance(shape[-1], int) and shape[-1] % ratio):
            raise misfit(f"{ratio} {source.name} make one {target.name}, got {tensor.type}")
        return bitcast(reshape(tensor, (*shape[:-1], shape[-1] // ratio, ratio)), target)
    found = bitcast(tensor, target)
    if target.bits == source.bits:
        return found
    return reshape(found, (*shape[:-1], shape[-1] * (source.bits // target.bits)))
