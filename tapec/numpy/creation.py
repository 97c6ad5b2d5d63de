"""Tensors from numbers, shapes and other tensors.

``dtype`` is float32 unless it says otherwise or follows from the arguments; ``device`` may be None or name the CPU.
Raises of every function: ValueError for another device.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions import arithmetic, rearrangement
from tapec.functions.arithmetic import cast, where
from tapec.functions.arrays import counting
from tapec.functions.arrays import full as _full
from tapec.functions.broadcasting import broadcast, common_shape, misfit
from tapec.functions.known import as_dim, as_shape, static_value
from tapec.functions.matrices.diagonals import diag as _diagonal_matrix
from tapec.functions.matrices.diagonals import diag_part
from tapec.interchange import dlpack
from tapec.ir.dims import Dim, DimLike
from tapec.ir.types import BOOL, C64, C128, F32, I32, DType, TensorType, as_dtype
from tapec.numpy.promotion import common_dtype, device_of, inexact_pair, number_rank, of_dtype
from tapec.numpy.shaping import ravel
from tapec.tensor import Tensor, TensorLike, apply, as_tensor
from tapec.traces.open_size import OpenSize
from tapec.traces.scalars import HostNumber


def asarray(
    obj: TensorLike, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None
) -> Tensor:
    """A tensor of a tensor, an array, a number or nested lists of them.

    Args:
        obj: what to convert. Python's integers become int32, its floats float32, its complex numbers complex64.
        dtype: of the result.
        device: None or the CPU.
        copy: False refuses what has to be copied or converted; True makes a new object of a tensor.

    Raises:
        ValueError: it cannot become a tensor, or not without a copy.
    """
    device_of(device)
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(obj, list | tuple):
        obj = _typed(obj)
    if copy is False and not (
        isinstance(obj, Tensor) and (wanted is None or obj.type.dtype == wanted)
    ):
        raise ValueError(
            f"{type(obj).__name__} cannot become a tensor without a copy",
            location=here(),
            hint="leave copy=False out",
        )
    if wanted is not None and number_rank(obj) is not None:
        return as_tensor(obj if wanted.is_complex else _plain(obj, wanted), wanted)
    x = as_tensor(obj)
    if x.type.dtype == C128 and not hasattr(obj, "dtype"):
        x = cast(x, C64)  # Python's complex numbers
    x = x if wanted is None else of_dtype(x, wanted)
    return arithmetic.identity(x) if copy and x is obj else x


def _plain(number: Any, dtype: DType) -> Any:
    """A float is converted to an integer as it is asked for, where `tapec.constant` would refuse it."""
    if dtype.is_bool:
        return bool(number)
    if dtype.is_integer and isinstance(number, float):
        return int(number)
    return number


def _typed(values: Any) -> Any:
    """Nested lists of tensors whose dtypes differ, as tensors of one dtype."""
    found: list[Any] = []

    def look(items: Any) -> None:
        for item in items:
            if isinstance(item, list | tuple):
                look(item)
            elif hasattr(item, "dtype"):
                found.append(item)

    look(values)
    if not any(isinstance(v, Tensor) or hasattr(v, "read_value") for v in found):
        return values
    dtype = common_dtype(found)

    def convert(items: Any) -> Any:
        return [convert(i) if isinstance(i, list | tuple) else of_dtype(i, dtype) for i in items]

    return convert(values)


def array(object: TensorLike, /, dtype: Any = None, *, copy: bool | None = True) -> Tensor:
    """`asarray`, under NumPy's name."""
    return asarray(object, dtype=dtype, copy=None if copy else copy)


def copy(x: TensorLike, /) -> Tensor:
    """``x``: tensors do not change, so a copy is the tensor itself; its gradient flows."""
    return arithmetic.identity(as_tensor(x))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """The array of another library that has ``__dlpack__``, as a tensor; shared, not copied, unless ``copy``.

    Raises:
        BufferError, TypeError: the array cannot be shared.
    """
    device_of(device)
    if isinstance(x, Tensor):
        return x
    found = dlpack.from_dlpack(x.__dlpack__())
    return as_tensor(np.array(found.array)) if copy else found


# -- filled


def full(shape: Any, fill_value: TensorLike, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One value everywhere, whose dtype it is unless another is given."""
    device_of(device)
    value = asarray(fill_value, dtype=dtype)
    return rearrangement.broadcast_to(value, as_shape(shape))


def full_like(
    x: TensorLike, /, fill_value: TensorLike, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """One value everywhere, with the shape and dtype of ``x``."""
    tensor = as_tensor(x)
    own = tensor.type.dtype if dtype is None else dtype
    return full(tensor.type.shape, fill_value, dtype=own, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """0 everywhere."""
    device_of(device)
    return _full(0, F32 if dtype is None else as_dtype(dtype), as_shape(shape))


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """1 everywhere."""
    device_of(device)
    return _full(1, F32 if dtype is None else as_dtype(dtype), as_shape(shape))


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """`zeros`: tensors do not change, so nothing could be done with other values."""
    return zeros(shape, dtype=dtype, device=device)


def _like(x: TensorLike, value: int, dtype: Any, device: Any) -> Tensor:
    device_of(device)
    tensor = as_tensor(x)
    return _full(value, tensor.type.dtype if dtype is None else as_dtype(dtype), tensor.type.shape)


def zeros_like(x: TensorLike, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """0 everywhere, with the shape and dtype of ``x``."""
    return _like(x, 0, dtype, device)


def ones_like(x: TensorLike, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """1 everywhere, with the shape and dtype of ``x``."""
    return _like(x, 1, dtype, device)


def empty_like(x: TensorLike, /, *, dtype: Any = None, device: Any = None) -> Tensor:
    """`zeros_like`; see `empty`."""
    return _like(x, 0, dtype, device)


# -- numbers in a row


def arange(
    start: TensorLike,
    /,
    stop: TensorLike | None = None,
    step: TensorLike = 1,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """``start``, ``start + step``, … below ``stop``, or above it if ``step`` is negative.

    Args:
        start: the first number, or the bound if ``stop`` is None.
        stop: the bound, which is not included.
        step: how far from one to the next.
        dtype: of the result; int32, or float32 if one of the arguments is a float, unless they have dtypes.
        device: None or the CPU.

    Raises:
        ValueError: ``step`` is 0.
        TypeError: a bound is not known while a function is compiled.
    """
    device_of(device)
    if stop is None:
        start, stop = 0, start
    given = [v for v in (start, stop, step) if not isinstance(v, OpenSize)]
    target = common_dtype(given) if dtype is None else as_dtype(dtype)
    first, last, by = (_number(static_value(v, "a bound of arange")) for v in (start, stop, step))
    if isinstance(last, Dim) or isinstance(first, Dim):
        if by != 1:
            raise misfit("arange to a size that is known at run time has step 1")
        count: DimLike = last - first
    elif by == 0:
        raise ValueError("arange takes no step of 0", location=here())
    else:
        count = max(math.ceil((last - first) / by), 0)
        if all(isinstance(v, int) for v in (first, last, by)):
            count = len(range(first, last, by))
    line = counting(I32 if target.is_bool else target, count)
    line = line if by == 1 else arithmetic.multiply(line, as_tensor(by, line.type.dtype))
    if isinstance(first, Dim) or first:
        line = arithmetic.add(line, _scalar(first, line.type.dtype))
    return cast(line, BOOL) if target.is_bool else line


def _number(value: Any) -> Any:
    return value.exactly() if type(value) is HostNumber else value


def _scalar(value: Any, dtype: DType) -> Tensor:
    if isinstance(value, Dim):
        found: Tensor = apply("extent", dim=value, type=TensorType(dtype))
        return found
    return as_tensor(value, dtype)


def linspace(
    start: TensorLike,
    stop: TensorLike,
    /,
    num: int = 50,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
    retstep: bool = False,
    axis: int = 0,
) -> Any:
    """``num`` numbers from ``start`` to ``stop``, as far from each other. Differentiable by both.

    Args:
        start: the first number, or a tensor of first numbers.
        stop: the last number.
        num: how many.
        dtype: of the result: a float, and integers only if asked for.
        device: None or the CPU.
        endpoint: whether ``stop`` is the last one; else it would be the next one.
        retstep: whether to return the distance as well.
        axis: along which axis of the result the numbers lie, if ``start`` or ``stop`` are no scalars.

    Raises:
        InvalidArgumentError: ``num`` is negative (ValueError while a function is compiled).
    """
    device_of(device)
    target = inexact_dtype(start, stop) if dtype is None else as_dtype(dtype)
    made = target if target.is_differentiable else as_dtype("float64")
    first, last = (of_dtype(v, made) for v in (start, stop))
    shape = common_shape(first.type.shape, last.type.shape)
    first, last = broadcast(first, shape), broadcast(last, shape)
    count = as_dim(num)
    if not isinstance(count, Dim) and count < 0:
        raise misfit(f"the number of numbers must not be negative, got {count}")
    gaps = count - 1 if endpoint else count
    step = arithmetic.divide(
        arithmetic.subtract(last, first),
        _scalar(max(gaps, 1), made),  # type: ignore[type-var]
    )
    line = [count] + [1] * len(shape)
    place = rearrangement.reshape(counting(made, count), tuple(line))
    found = arithmetic.add(arithmetic.multiply(place, step), first)
    if endpoint and count != 1:  # the last number is `stop` itself, whatever rounding did
        found = where(arithmetic.equal(place, _scalar(gaps, made)), last, found)
    found = _moved(found, axis)
    if not target.is_differentiable:
        found = cast(arithmetic.floor(found), target)
    return (found, step) if retstep else found


def _moved(x: Tensor, axis: int) -> Tensor:
    """The first axis at another place."""
    rank = x.type.rank
    order = list(range(1, rank))
    order.insert(axis % rank, 0)
    return x if axis % rank == 0 else rearrangement.transpose(x, order)


def inexact_dtype(*values: TensorLike) -> DType:
    """The float or complex dtype in which values meet."""
    found = common_dtype(values)
    return found if found.is_differentiable else F32


def logspace(
    start: TensorLike,
    stop: TensorLike,
    /,
    num: int = 50,
    *,
    endpoint: bool = True,
    base: TensorLike = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """``base`` to the powers of `linspace`."""
    powers = linspace(start, stop, num, endpoint=endpoint, axis=axis)
    found = arithmetic.pow(*inexact_pair(base, powers))
    return found if dtype is None else cast(found, dtype)


def geomspace(
    start: TensorLike,
    stop: TensorLike,
    /,
    num: int = 50,
    *,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """``num`` numbers from ``start`` to ``stop``, each a constant multiple of the one before; both have one sign."""
    first, last = inexact_pair(start, stop)
    share = linspace(0.0, 1.0, num, endpoint=endpoint, dtype=first.type.dtype.real_dtype)
    rank = max(first.type.rank, last.type.rank)
    share = rearrangement.reshape(share, (-1, *[1] * rank))
    ratio = arithmetic.divide(last, first)
    found = _moved(arithmetic.multiply(first, arithmetic.pow(*inexact_pair(ratio, share))), axis)
    return found if dtype is None else cast(found, dtype)


def meshgrid(*arrays: TensorLike, indexing: str = "xy") -> list[Tensor]:
    """Coordinates of a grid from vectors of coordinates.

    Args:
        arrays: vectors, the coordinates along each axis.
        indexing: ``ij`` gives axis ``i`` of the results to vector ``i``; ``xy`` swaps the first two.
    """
    return rearrangement.meshgrid(*[ravel(a) for a in arrays], indexing=indexing)


# -- triangles and diagonals


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """1 on the diagonal ``k`` places above the main one, 0 elsewhere."""
    device_of(device)
    rows = as_dim(n_rows)
    columns = rows if n_cols is None else as_dim(n_cols)
    return cast(
        arithmetic.equal(*_places(rows, columns, k)), F32 if dtype is None else as_dtype(dtype)
    )


def identity(n: int, /, dtype: Any = None) -> Tensor:
    """The identity matrix."""
    return eye(n, dtype=dtype)


def tri(N: int, /, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """1 on the diagonal ``k`` places above the main one and below it, 0 elsewhere."""
    rows = as_dim(N)
    below = _below(rows, rows if M is None else as_dim(M), k)
    return cast(below, F32 if dtype is None else as_dtype(dtype))


def _places(rows: DimLike, columns: DimLike, k: int) -> tuple[Tensor, Tensor]:
    """For each place of a matrix, its row moved by ``k``, and its column."""
    row, column = (
        apply("iota", axis=axis, type=TensorType(I32, (rows, columns))) for axis in (0, 1)
    )
    return arithmetic.add(row, k), column


def _below(rows: DimLike, columns: DimLike, k: int) -> Tensor:
    return arithmetic.greater_equal(*_places(rows, columns, k))


def tril(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The lower triangle of matrices up to the diagonal ``k``, 0 above."""
    return _triangle(x, k, lower=True)


def triu(x: TensorLike, /, *, k: int = 0) -> Tensor:
    """The upper triangle of matrices from the diagonal ``k`` on, 0 below."""
    return _triangle(x, k - 1, lower=False)


def _triangle(x: TensorLike, k: int, lower: bool) -> Tensor:
    tensor = as_tensor(x)
    shape = tensor.type.shape
    if len(shape) == 1:  # as NumPy has it
        tensor, shape = broadcast(tensor, (*shape, *shape)), (*shape, *shape)
    if len(shape) < 2:
        raise misfit(f"expected a matrix, or a batch of them, got {tensor.type}")
    below = _below(shape[-2], shape[-1], k)
    zero = _full(0, tensor.type.dtype, ())
    return where(below, tensor, zero) if lower else where(below, zero, tensor)


def diag(x: TensorLike, /, k: int = 0) -> Tensor:
    """Of a vector the matrix with that diagonal, of a matrix its diagonal."""
    tensor = as_tensor(x)
    if tensor.type.rank == 1:
        return _diagonal_matrix(tensor, k=k)
    if tensor.type.rank != 2:
        raise misfit(f"expected a vector or a matrix, got {tensor.type}")
    return diag_part(tensor, k=k)


def diagflat(x: TensorLike, /, k: int = 0) -> Tensor:
    """The matrix with the elements of ``x`` as its diagonal."""
    return diag(ravel(x), k)


def vander(x: TensorLike, /, N: int | None = None, increasing: bool = False) -> Tensor:
    """The matrix of the powers of a vector, the highest first unless ``increasing``; ``N`` columns."""
    tensor = as_tensor(x)
    if tensor.type.rank != 1:
        raise misfit(f"expected a vector, got {tensor.type}")
    count = tensor.type.shape[0] if N is None else as_dim(N)
    powers = counting(tensor.type.dtype, count)
    if not increasing:
        powers = rearrangement.reverse(powers, [0])
    base = rearrangement.reshape(tensor, (-1, 1))
    return arithmetic.pow(base, powers)
