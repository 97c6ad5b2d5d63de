"""Random tensors as functions of a key u64[2], a seed and a counter: of distributions that need no rejection."""

from __future__ import annotations

from typing import Any

from tapec import arguments
from tapec.eager.composite import composed
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    cast,
    divide,
    floormod,
    greater,
    less,
    maximum,
    minimum,
    multiply,
    negative,
    subtract,
    where,
)
from tapec.functions.broadcasting import as_float, like, misfit, shape_text
from tapec.functions.elementary import erfc, log
from tapec.functions.known import as_shape, known_elements, static_value
from tapec.functions.rearrangement import expand_dims
from tapec.functions.reductions import argmax
from tapec.functions.requirements import require
from tapec.functions.special import erfinv, ndtri
from tapec.ir.types import F32, U32, U64, DType, Shape, TensorType, as_dtype
from tapec.tensor import Tensor, TensorLike, apply, as_tensor


def sizes_of(shape: Any) -> Shape:
    """The shape of a result.

    Raises:
        InvalidArgumentError: a size is negative.
    """
    sizes = as_shape(shape)
    if any(isinstance(n, int) and n < 0 for n in sizes):
        raise misfit(f"expected sizes that are not negative, got {shape_text(sizes)}")
    return sizes


def _shape_and_dtype(shape: Any, dtype: Any) -> tuple[Shape, DType]:
    return sizes_of(shape), as_dtype(dtype)


def uniform(key: Tensor, shape: Any, minval: TensorLike, maxval: TensorLike, dtype: Any) -> Tensor:
    """Floats in ``[minval, maxval)``, or integers; of both bounds None, all integers of the dtype."""
    sizes, target = _shape_and_dtype(shape, dtype)
    if target.is_integer and minval is None and maxval is None:
        return full_integers(key, sizes, target)
    if target.is_integer:
        return _integers(key, sizes, minval, maxval, target)
    numbers: Tensor = apply("random_uniform", key, type=TensorType(target, sizes))
    if maxval is None and _is(minval, 0):
        return numbers
    low, high = like(minval, target), like(1 if maxval is None else maxval, target)
    return add(multiply(numbers, subtract(high, low)), low)


def full_integers(key: Tensor, shape: Any, dtype: Any) -> Tensor:
    """Integers with every bit random.

    Raises:
        InvalidArgumentError: the dtype is none of 32 or 64 bits.
    """
    sizes, target = _shape_and_dtype(shape, dtype)
    if not target.is_integer or target.bits < 32:
        raise misfit(f"expected int32, int64, uint32 or uint64, got {target.name}")
    bits: Tensor = apply(
        "random_bits", key, type=TensorType(U64 if target.bits == 64 else U32, sizes)
    )
    return cast(bits, target)


def _is(value: TensorLike, number: float) -> bool:
    return isinstance(value, int | float) and value == number


def _integers(
    key: Tensor, shape: Shape, minval: TensorLike, maxval: TensorLike, dtype: DType
) -> Tensor:
    if maxval is None:
        raise ValueError(f"Must specify maxval for integer dtype {dtype.name}", location=here())
    low, high = like(minval, dtype), like(maxval, dtype)
    first, last = known_elements(low), known_elements(high)
    if first is None or last is None:
        require(less(low, high), "Need minval < maxval")
    elif (first >= last).any():
        raise misfit(f"Need minval < maxval, got {first} >= {last}")
    bits = apply("random_bits", key, type=TensorType(U64, shape))
    return composed(_between, bits, low, high, dtype=dtype)  # type: ignore[no-any-return]


def _between(bits: Tensor, low: Tensor, high: Tensor, dtype: DType) -> Tensor:
    """64 bits modulo the range: the bias is below the range times 2 ** -64."""
    return add(cast(floormod(bits, cast(subtract(high, low), U64)), dtype), low)


def normal(key: Tensor, shape: Any, mean: TensorLike, stddev: TensorLike, dtype: Any) -> Tensor:
    """Floats of a normal distribution."""
    sizes, target = _shape_and_dtype(shape, dtype)
    numbers: Tensor = apply("random_normal", key, type=TensorType(target, sizes))
    return _scaled(numbers, mean, stddev)


def _scaled(numbers: Tensor, mean: TensorLike, stddev: TensorLike) -> Tensor:
    dtype = numbers.type.dtype
    if not _is(stddev, 1):
        numbers = multiply(numbers, like(stddev, dtype))
    return numbers if _is(mean, 0) else add(numbers, like(mean, dtype))


def truncated_normal(
    key: Tensor, shape: Any, mean: TensorLike, stddev: TensorLike, dtype: Any
) -> Tensor:
    """By the inverse of the distribution function, so that no draw is rejected."""
    sizes, target = _shape_and_dtype(shape, dtype)
    working = target if target.bits >= 32 else F32
    numbers = apply("random_uniform", key, type=TensorType(working, sizes))
    return _scaled(composed(_within_two_deviations, numbers, dtype=target), mean, stddev)


def _within_two_deviations(numbers: Tensor, dtype: DType) -> Tensor:
    """Uniform numbers as those of the truncated standard normal distribution."""
    bound = 0.9544997361036416  # erf(sqrt(2)): the probability of being within two deviations
    spread = multiply(subtract(multiply(numbers, 2.0), 1.0), bound)
    return cast(multiply(erfinv(spread), 2**0.5), dtype)


def categorical(key: Tensor, logits: TensorLike, num_samples: Any, dtype: Any) -> Tensor:
    """The greatest of logits plus Gumbel noise (Gumbel 1954)."""
    x = as_tensor(logits)
    if x.type.rank != 2:
        raise misfit(f"logits should be a matrix [batch, classes], got {x.type}")
    count = arguments.integer(static_value(num_samples, "num_samples"), "num_samples")
    if count < 0:
        raise misfit(f"num_samples must not be negative, got {count}")
    shape = (x.type.shape[0], count, x.type.shape[1])
    numbers = apply("random_uniform", key, type=TensorType(F32, shape))
    waiting = maximum(negative(log(subtract(1.0, numbers))), 1e-30)
    noise = cast(negative(log(waiting)), x.type.dtype)
    return argmax(add(expand_dims(x, 1), noise), axis=2, output_type=dtype)


def bounded_normal(
    key: Tensor,
    shape: Any,
    mean: TensorLike,
    stddev: TensorLike,
    bounds: tuple[TensorLike, TensorLike],
) -> Tensor:
    """Normal numbers between two bounds, by the inverse of the distribution function.

    What lies above the mean is drawn as what lies below it, where probabilities keep their digits.
    """
    middle = as_float(mean)
    dtype = middle.type.dtype
    spread = like(stddev, dtype)
    low, high = (divide(subtract(like(b, dtype), middle), spread) for b in bounds)
    above = greater(low, 0)
    low, high = where(above, negative(high), low), where(above, negative(low), high)
    first, last = (multiply(0.5, erfc(multiply(b, -(0.5**0.5)))) for b in (low, high))
    numbers = apply("random_uniform", key, type=TensorType(dtype, sizes_of(shape)))
    drawn = ndtri(add(first, multiply(numbers, subtract(last, first))))
    drawn = minimum(maximum(drawn, low), high)  # of a bound that is infinite, or lost to rounding
    return add(middle, multiply(spread, where(above, negative(drawn), drawn)))
