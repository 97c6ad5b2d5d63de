"""Sums, extrema and other reductions over axes, and running sums.

``axis`` is None (all axes), a number or a sequence of numbers, negative ones from the end;
``keepdims`` leaves axes of size 1 in place. Raises of every function: InvalidArgumentError for an
axis out of range or a dtype that does not fit; while a function is compiled ValueError or
TypeError.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tapec import arguments
from tapec.eager.composite import composed
from tapec.errors import InvalidArgumentError, TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import abs as absolute
from tapec.functions.arithmetic import (
    add,
    cast,
    conj,
    divide,
    is_finite,
    multiply,
    not_equal,
    real,
    stop_gradient,
    subtract,
    truncatediv,
    where,
)
from tapec.functions.arithmetic import pow as power
from tapec.functions.broadcasting import (
    as_float,
    axes_of,
    axis_of,
    like,
    misfit,
)
from tapec.functions.elementary import exp, lgamma, log, sqrt
from tapec.functions.known import dim_tensor, is_less, static_value
from tapec.functions.matrices.doubled import doubled
from tapec.functions.rearrangement import reshape
from tapec.ir.dims import DimLike
from tapec.ir.types import BF16, BOOL, F16, F32, F64, I32, I64, STRING, U8, as_dtype
from tapec.tensor import Tensor, TensorLike, apply, as_tensor
from tapec.tensors.tensor_shape import TensorShape


def _reduce(op: str, input_tensor: TensorLike, axis: Any, keepdims: bool) -> Tensor:
    x = as_tensor(input_tensor)
    axes = axes_of(axis, x.type.rank)
    if not axes:
        return x
    result: Tensor = apply(op, x, axes=axes)
    return _kept(result, x, axes) if arguments.flag(keepdims, "keepdims") else result


def _kept(result: Tensor, x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """A reduction's result with the reduced axes of ``x`` back as axes of size 1."""
    shape = tuple([1 if a in axes else n for a, n in enumerate(x.type.shape)])
    kept: Tensor = apply("reshape", result, shape=shape)
    return kept


def restored(reduced: Tensor, x: Tensor, axis: Any) -> Tensor:
    """What a reduction of ``x`` over axes gave, repeated along them: of the shape of ``x``."""
    axes = axes_of(axis, x.type.rank)
    kept = tuple([a for a in range(x.type.rank) if a not in axes])
    result: Tensor = apply("broadcast", reduced, shape=x.type.shape, axes=kept) if axes else reduced
    return result


def reduce_sum(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The sum over axes.

    Example: ``reduce_sum([[1, 2], [3, 4]], axis=0)`` is ``[4, 6]``.
    """
    return _reduce("sum", input_tensor, axis, keepdims)


def reduce_prod(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The product over axes; its gradient is exact where factors are 0."""
    return _reduce("reduce_prod", input_tensor, axis, keepdims)


def reduce_max(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The greatest element over axes; NaN if one is. Elements that tie share the gradient."""
    return _reduce("reduce_max", input_tensor, axis, keepdims)


def reduce_min(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The least element over axes; NaN if one is. Elements that tie share the gradient."""
    return _reduce("reduce_min", input_tensor, axis, keepdims)


def reduce_any(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Whether any of the bools holds."""
    return _reduce("reduce_any", like(input_tensor, BOOL), axis, keepdims)


def reduce_all(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Whether all of the bools hold."""
    return _reduce("reduce_all", like(input_tensor, BOOL), axis, keepdims)


def count(x: Tensor, axis: Any = None) -> DimLike:
    """How many elements each sum over ``axis`` adds."""
    return prod(x.type.shape[a] for a in axes_of(axis, x.type.rank))


def reduce_mean(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The mean over axes; of integers rounded towards 0; NaN over nothing.

    Example: ``reduce_mean([1.0, 2.0])`` is ``1.5``.
    """
    x = as_tensor(input_tensor)
    dtype = x.type.dtype
    if (
        dtype is F16 or dtype is BF16
    ):  # which can hold neither the sum nor the number of many elements
        return cast(reduce_mean(cast(x, F32), axis, keepdims), dtype)
    number: TensorLike = count(x, axis)
    if not isinstance(number, int):
        number = cast(dim_tensor(number, I32), dtype)
    total = reduce_sum(x, axis, keepdims)
    return divide(total, number) if dtype.is_differentiable else truncatediv(total, number)


def reduce_variance(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The mean squared distance from the mean (divided by n, not n - 1)."""
    x = as_float(input_tensor)
    axis = tuple(axis) if isinstance(axis, list) else axis
    return composed(_variance, x, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]


def _variance(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    gap = subtract(x, restored(reduce_mean(x, axis), x, axis))
    return reduce_mean(real(multiply(conj(gap), gap)), axis, keepdims)


def reduce_std(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The square root of `reduce_variance`; its gradient is NaN where all elements are equal."""
    return sqrt(reduce_variance(input_tensor, axis, keepdims))


def reduce_euclidean_norm(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The square root of the sum of squares of magnitudes, in the operand's dtype; its gradient at 0 is NaN."""
    x = as_tensor(input_tensor)
    dtype = x.type.dtype
    if dtype.is_integer:
        return cast(reduce_euclidean_norm(cast(x, F64), axis, keepdims), dtype)
    size = sqrt(reduce_sum(real(multiply(conj(x), x)), axis, keepdims))
    return cast(size, dtype) if dtype.is_complex else size


def reduce_logsumexp(
    input_tensor: TensorLike, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """``log(sum(exp(x)))`` over axes, without overflow; its gradient is the softmax.

    The maximum is subtracted first and added again. It is a constant for derivatives: what it
    would add cancels.
    """
    x = as_float(input_tensor)
    axis = tuple(axis) if isinstance(axis, list) else axis
    return composed(_log_of_sum, x, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]


def _log_of_sum(x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    peak = reduce_max(x, axis, keepdims=True)
    peak = stop_gradient(where(is_finite(peak), peak, 0))
    total = reduce_sum(exp(subtract(x, peak)), axis, keepdims)
    return log(total) + reshape(peak, total.type.shape)


def lbeta(x: TensorLike, name: str | None = None) -> Tensor:
    """``sum(lgamma(x)) - lgamma(sum(x))`` over the last axis: the logarithm of the multivariate beta function."""
    x = as_tensor(x)
    return subtract(reduce_sum(lgamma(x), axis=-1), lgamma(reduce_sum(x, axis=-1)))


def count_nonzero(
    input: TensorLike,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: Any = I64,
    name: str | None = None,
) -> Tensor:
    """How many elements are not 0, not False, or not empty if they are strings."""
    x = as_tensor(input)
    if not x.type.dtype.is_bool:
        x = not_equal(x, "" if x.type.dtype is STRING else 0)
    return reduce_sum(
        cast(x, dtype),
        axis,
        keepdims is not None and arguments.flag(keepdims, "keepdims"),
    )


def norm(
    tensor: TensorLike,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """A norm of vectors: of everything if ``axis`` is None, else along an axis.

    Args:
        tensor: floats or complex numbers.
        ord: ``"euclidean"`` (also for a pair of axes, as ``"fro"``), a positive number ``p``, or
            ``inf``; of matrices 1, 2 (the largest singular value) or ``inf``.
        axis: None, an axis, or a pair of axes for matrices.
        keepdims: whether reduced axes stay with size 1.

    The gradient of the Euclidean norm at 0 is NaN, as in TensorFlow.

    Raises:
        TypeError: ``ord`` is neither a number nor a name.
        ValueError: ``ord`` is not supported, for these axes.
    """
    x, keepdims = as_float(tensor), keepdims is not None and arguments.flag(keepdims, "keepdims")
    matrix = isinstance(axis, list | tuple) and len(axis) == 2
    if not isinstance(ord, str | int | float):
        raise TypeError(
            f"'ord' must be a number or a name, got {arguments.shown(ord)}", location=here()
        )
    if ord in ("euclidean", "fro") or (ord == 2 and not matrix):
        return reduce_euclidean_norm(x, axis, keepdims)
    if matrix:
        return _matrix_norm(x, ord, axis, keepdims)
    if ord == float("inf"):
        return reduce_max(absolute(x), axis, keepdims)
    if ord == 1:
        return reduce_sum(absolute(x), axis, keepdims)
    if isinstance(ord, int | float) and ord > 0:
        return power(reduce_sum(power(absolute(x), ord), axis, keepdims), 1 / ord)
    raise ValueError(f"'ord' must be a supported vector norm, got {ord!r}", location=here())


def _matrix_norm(x: Tensor, ord: Any, axes: Any, keepdims: bool) -> Tensor:
    """The largest column sum (1) or row sum (inf) of absolute values, or the largest singular value (2)."""
    row, column = (axis_of(a, x.type.rank) for a in axes)
    if ord == 2:
        result = _spectral_norm(x, row, column)
    elif ord in (1, float("inf")):
        summed, compared = (row, column) if ord == 1 else (column, row)
        result = reduce_max(reduce_sum(absolute(x), summed, keepdims=True), compared, keepdims=True)
    else:
        raise ValueError(f"'ord' must be a supported matrix norm, got {ord!r}", location=here())
    rest = tuple(n for a, n in enumerate(result.type.shape) if a not in (row, column))
    return result if keepdims else reshape(result, rest)


def _spectral_norm(x: Tensor, row: int, column: int) -> Tensor:
    """The largest singular value, with sizes of 1 for the axes of the matrix."""
    shape = x.type.shape
    rows, columns = shape[row], shape[column]
    wide = is_less(rows, columns)
    lead = [a for a in range(x.type.rank) if a not in (row, column)]
    order = (*lead, column, row) if wide else (*lead, row, column)
    x = apply("transpose", x, permutation=order)
    values, _, _ = apply("svd", doubled(x) if x.type.dtype.is_complex else x)
    kept = [1 if a in (row, column) else n for a, n in enumerate(shape)]
    return reshape(reduce_max(values, -1), kept)


# -- positions of extrema, running sums


def argmax(
    input: TensorLike, axis: Any = None, output_type: Any = I64, name: str | None = None
) -> Tensor:
    """Where the greatest element of an axis stands (axis 0 by default), the first of several."""
    return _position("argmax", input, axis, output_type)


def argmin(
    input: TensorLike, axis: Any = None, output_type: Any = I64, name: str | None = None
) -> Tensor:
    """Where the least element of an axis stands (axis 0 by default), the first of several."""
    return _position("argmin", input, axis, output_type)


def _position(op: str, input: TensorLike, axis: Any, output_type: Any) -> Tensor:
    x = as_tensor(input)
    if x.type.dtype.is_bool:
        x = cast(x, U8)
    place = axis_of(0 if axis is None else axis, x.type.rank, "reduction dimension")
    if x.type.shape[place] == 0:
        raise misfit(f"Reduction axis {place} is empty in shape {x.shape}")
    result: Tensor = apply(op, x, axis=place, dtype=as_dtype(output_type))
    return result


def cumsum(
    x: TensorLike,
    axis: Any = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The sum of the entries up to each one along an axis.

    Args:
        x: the tensor.
        axis: along which.
        exclusive: leave each entry itself out.
        reverse: from the end.

    Example: ``cumsum([1, 2, 3])`` is ``[1, 3, 6]``.
    """
    return _running("cumsum", x, axis, exclusive, reverse)


def cumprod(
    x: TensorLike,
    axis: Any = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of the entries up to each one along an axis; see `cumsum`.

    Its gradient is exact behind a 0, where TensorFlow's is not.
    """
    return _running("cumprod", x, axis, exclusive, reverse)


def _running(op: str, x: TensorLike, axis: Any, exclusive: bool, reverse: bool) -> Tensor:
    tensor = as_tensor(x)
    place = axis_of(static_value(axis, "axis"), tensor.type.rank)
    flags = {
        "exclusive": arguments.flag(exclusive, "exclusive"),
        "reverse": arguments.flag(reverse, "reverse"),
    }
    result: Tensor = apply(op, tensor, axis=place, **flags)
    return result


def add_n(inputs: Sequence[TensorLike], name: str | None = None) -> Tensor:
    """The sum of tensors of one shape and dtype: those in a list, or along the first axis of one tensor.

    Raises:
        ValueError: the sequence is empty or holds None.
    """
    if not isinstance(inputs, list | tuple):
        inputs = list(as_tensor(inputs))
    if not inputs:
        raise ValueError("Inputs to `add_n` cannot be empty.", location=here())
    total = as_tensor(inputs[0])
    for term in inputs[1:]:
        term = like(term, total.type.dtype)
        if term.type.shape != total.type.shape:
            raise misfit(f"add_n: the terms have shapes {total.shape} and {term.shape}")
        total = add(total, term)
    return total


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
