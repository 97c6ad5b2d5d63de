"""Tensors from nothing, and windows of signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src.backend import config
from keras.src.backend.common import standardize_dtype
from keras.src.backend.common.dtypes import result_type

import tapec
from tapec import numpy
from tapec.keras.engine.conversion import convert_to_tensor, dtype_of
from tapec.tensor import Tensor


def _sizes(shape: Any) -> Any:
    return [shape] if isinstance(shape, int) else list(shape) if isinstance(shape, tuple) else shape


def zeros(shape: Any, dtype: Any = None) -> Tensor:
    """Zeros of a shape."""
    return tapec.zeros(_sizes(shape), standardize_dtype(dtype))


def ones(shape: Any, dtype: Any = None) -> Tensor:
    """Ones of a shape."""
    return tapec.ones(_sizes(shape), standardize_dtype(dtype))


def empty(shape: Any, dtype: Any = None) -> Tensor:
    """A tensor of a shape, whose elements do not matter: zeros."""
    return zeros(shape, dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """A value, repeated to a shape."""
    return tapec.broadcast_to(
        convert_to_tensor(fill_value, standardize_dtype(dtype)), _sizes(shape)
    )


def zeros_like(x: Any, dtype: Any = None) -> Tensor:
    """Zeros of the shape of ``x``."""
    return tapec.zeros_like(convert_to_tensor(x), dtype=dtype and standardize_dtype(dtype))


def ones_like(x: Any, dtype: Any = None) -> Tensor:
    """Ones of the shape of ``x``."""
    return tapec.ones_like(convert_to_tensor(x), dtype=dtype and standardize_dtype(dtype))


def empty_like(x: Any, dtype: Any = None) -> Tensor:
    """Zeros of the shape of ``x``: see `empty`."""
    return zeros_like(x, dtype)


def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    """A value, repeated to the shape of ``x``."""
    x = convert_to_tensor(x)
    value = convert_to_tensor(fill_value, standardize_dtype(dtype or x.dtype))
    return tapec.broadcast_to(value, tapec.shape(x))


def array(x: Any, dtype: Any = None) -> Tensor:
    """A Tensor of what is given."""
    return convert_to_tensor(x, dtype)


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Tensor:
    """Numbers at equal steps up to, but not, ``stop``; from 0 if one number is given."""
    step = 1 if step is None else step
    if dtype is None:
        given = [dtype_of(v) for v in (start, stop, step) if v is not None]
        dtype = result_type(*given)
    dtype = standardize_dtype(dtype)
    if stop is None:
        start, stop = 0, start
    values = (start, stop, step)
    if all(isinstance(v, int | float) and type(v) is v.__class__ for v in values):
        return tapec.cast(np.arange(start, stop, step), dtype)
    wide = dtype if dtype in ("int32", "int64", "float32", "float64") else "float32"
    first, end, gap = (convert_to_tensor(v, wide) for v in values)
    return tapec.cast(tapec.range(first, end, gap), dtype)


def eye(N: Any, M: Any = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Ones on a diagonal: ``k`` above the main one."""
    rows = tapec.range(_whole(N))[:, None]
    columns = tapec.range(_whole(N if M is None else M))[None, :]
    return tapec.cast(tapec.equal(columns - rows, k), standardize_dtype(dtype))


def _whole(n: Any) -> Any:
    return convert_to_tensor(n, "int32") if tapec.is_tensor(n) else int(n)


def identity(n: Any, dtype: Any = None) -> Tensor:
    """The square matrix with ones on the diagonal."""
    return eye(n, dtype=dtype)


def tri(N: Any, M: Any = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Ones on and below a diagonal."""
    rows = tapec.range(_whole(N))[:, None]
    columns = tapec.range(_whole(N if M is None else M))[None, :]
    return tapec.cast(tapec.less_equal(columns - rows, k), standardize_dtype(dtype))


def _float_dtype(dtype: Any, *values: Any) -> str:
    return standardize_dtype(dtype or result_type(*map(dtype_of, values), float))


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """``num`` numbers at equal steps, the last one ``stop`` if ``endpoint``; also the step, if ``retstep``.

    Raises:
        ValueError: ``num`` is negative.
    """
    if num < 0:
        raise ValueError(f"`num` must be a non-negative integer. Received: num={num}")
    dtype = _float_dtype(dtype, start, stop)
    wide = dtype if dtype == "float64" else "float32"
    first, last = convert_to_tensor(start, wide), convert_to_tensor(stop, wide)
    found = numpy.linspace(first, last, num, dtype=wide, endpoint=endpoint, axis=axis)
    if not tapec.as_dtype(dtype).is_floating:
        found = tapec.floor(found)
    found = tapec.cast(found, dtype)
    if not retstep:
        return found
    gaps = num - 1 if endpoint else num
    step = (last - first) / gaps if gaps > 0 else (last - first) * float("nan")
    return found, tapec.cast(step, dtype)


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """``base`` to the power of numbers at equal steps."""
    first, last = convert_to_tensor(start, "float64"), convert_to_tensor(stop, "float64")
    found = numpy.logspace(first, last, num, endpoint=endpoint, base=base, axis=axis)
    return tapec.cast(found, _float_dtype(dtype, start, stop))


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Tensor:
    """Numbers of which each is the one before times a factor."""
    first, last = convert_to_tensor(start, "float64"), convert_to_tensor(stop, "float64")
    found = numpy.geomspace(first, last, num, endpoint=endpoint, axis=axis)
    return tapec.cast(found, _float_dtype(dtype, start, stop))


# -- windows


def _window(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def applied(x: Any, *parameters: Any) -> Tensor:
        return tapec.cast(function(int(x), *parameters), config.floatx())

    return applied


bartlett = _window(numpy.bartlett)
blackman = _window(numpy.blackman)
hamming = _window(numpy.hamming)
hanning = _window(numpy.hanning)
kaiser = _window(numpy.kaiser)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element, from the highest to the zeroth; the other way if ``increasing``."""
    return numpy.vander(convert_to_tensor(x), N, increasing)
