"""NumPy's functions on tensors: those that tapec has too run as operations, so that gradients flow.

What tapec cannot follow would leave the program: while a tape records or a function is compiled it
is refused, with the fix; otherwise NumPy computes it from the elements.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapec.errors import TypeError
from tapec.frames import here
from tapec.functions import arithmetic, elementary, products, rearrangement, reductions
from tapec.recording import active_tapes, current_trace
from tapec.tensor import Tensor, TensorLike, as_tensor

Function = Callable[..., Any]

#: NumPy's elementwise functions and ours.
UFUNCS: dict[Any, Function] = {
    np.add: arithmetic.add,
    np.subtract: arithmetic.subtract,
    np.multiply: arithmetic.multiply,
    np.divide: arithmetic.truediv,
    np.floor_divide: arithmetic.floordiv,
    np.remainder: arithmetic.floormod,
    np.power: arithmetic.pow,
    np.float_power: arithmetic.pow,
    np.negative: arithmetic.negative,
    np.positive: as_tensor,
    np.absolute: arithmetic.abs,
    np.fabs: arithmetic.abs,
    np.sign: arithmetic.sign,
    np.square: arithmetic.square,
    np.reciprocal: arithmetic.reciprocal,
    np.floor: arithmetic.floor,
    np.ceil: arithmetic.ceil,
    np.rint: arithmetic.round,
    np.maximum: arithmetic.maximum,
    np.minimum: arithmetic.minimum,
    np.equal: arithmetic.equal,
    np.not_equal: arithmetic.not_equal,
    np.less: arithmetic.less,
    np.less_equal: arithmetic.less_equal,
    np.greater: arithmetic.greater,
    np.greater_equal: arithmetic.greater_equal,
    np.logical_and: arithmetic.logical_and,
    np.logical_or: arithmetic.logical_or,
    np.logical_xor: arithmetic.logical_xor,
    np.logical_not: arithmetic.logical_not,
    np.bitwise_and: arithmetic.logical_and,
    np.bitwise_or: arithmetic.logical_or,
    np.bitwise_xor: arithmetic.logical_xor,
    np.invert: arithmetic.logical_not,
    np.isnan: arithmetic.is_nan,
    np.isinf: arithmetic.is_inf,
    np.isfinite: arithmetic.is_finite,
    np.conjugate: arithmetic.conj,
    np.sqrt: elementary.sqrt,
    np.exp: elementary.exp,
    np.expm1: elementary.expm1,
    np.log: elementary.log,
    np.log1p: elementary.log1p,
    np.log2: elementary.log2,
    np.log10: elementary.log10,
    np.logaddexp: elementary.logaddexp,
    np.sin: elementary.sin,
    np.cos: elementary.cos,
    np.tan: elementary.tan,
    np.arcsin: elementary.asin,
    np.arccos: elementary.acos,
    np.arctan: elementary.atan,
    np.arctan2: elementary.atan2,
    np.sinh: elementary.sinh,
    np.cosh: elementary.cosh,
    np.tanh: elementary.tanh,
    np.arcsinh: elementary.asinh,
    np.arccosh: elementary.acosh,
    np.arctanh: elementary.atanh,
    np.matmul: products.matmul,
}


def ufunc(ufunc: Any, method: str, inputs: Sequence[TensorLike], kwargs: Mapping[str, Any]) -> Any:
    """`numpy.exp` and its like, and ``array * tensor``, with a tensor among the operands.

    Raises:
        TypeError: tapec cannot follow it while a tape records or a function is compiled.
    """
    ours = UFUNCS.get(ufunc)
    if ours is not None and method == "__call__" and not kwargs:
        return ours(*inputs)
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    return _by_numpy(getattr(ufunc, method), name, inputs, kwargs)


def _by_numpy(function: Function, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Leave the program, where nobody follows it."""
    if current_trace() is not None or active_tapes():
        listener = "a tape" if current_trace() is None else "a compiled function"
        raise TypeError(
            f"numpy.{name} of a tensor, with these arguments, cannot be followed by {listener}",
            location=here(),
            hint=f"use the function of tapec in place of numpy.{name}; or take the elements with "
            "x.numpy() after the tape, where no gradient is to flow",
        )
    return function(*_arrays(tuple(args)), **{k: _arrays(v) for k, v in kwargs.items()})


def _arrays(value: Any) -> Any:
    """The same structure with arrays in place of tensors."""
    if isinstance(value, Tensor) or hasattr(value, "read_value"):
        return as_tensor(value).array
    if isinstance(value, list | tuple):
        return type(value)(_arrays(v) for v in value)
    return value


def _sum(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return reductions.reduce_sum(a, axis, keepdims)


def _mean(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return reductions.reduce_mean(a, axis, keepdims)


def _max(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return reductions.reduce_max(a, axis, keepdims)


def _min(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return reductions.reduce_min(a, axis, keepdims)


def _prod(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return reductions.reduce_prod(a, axis, keepdims)


def _std(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return reductions.reduce_std(a, axis, keepdims)


def _var(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return reductions.reduce_variance(a, axis, keepdims)


def _any(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return reductions.reduce_any(a, axis, keepdims)


def _all(a: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    return reductions.reduce_all(a, axis, keepdims)


def _flattened(a: Any, axis: Any) -> tuple[Tensor, int]:
    """NumPy's default of no axis: the elements in one row."""
    return (rearrangement.reshape(a, [-1]), 0) if axis is None else (as_tensor(a), axis)


def _argmax(a: Any, axis: Any = None) -> Tensor:
    return reductions.argmax(*_flattened(a, axis))


def _argmin(a: Any, axis: Any = None) -> Tensor:
    return reductions.argmin(*_flattened(a, axis))


def _cumsum(a: Any, axis: Any = None) -> Tensor:
    return reductions.cumsum(*_flattened(a, axis))


def _cumprod(a: Any, axis: Any = None) -> Tensor:
    return reductions.cumprod(*_flattened(a, axis))


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    return reductions.norm(x, "euclidean" if ord is None else ord, axis, keepdims)


def _dot(a: Any, b: Any) -> Tensor:
    x, y = as_tensor(a), as_tensor(b)
    if not x.type.rank or not y.type.rank:
        return arithmetic.multiply(x, y)
    second = y.type.rank - 2 if y.type.rank > 1 else 0
    return products.tensordot(x, y, [[x.type.rank - 1], [second]])


def _clip(a: Any, a_min: Any, a_max: Any) -> Tensor:
    return arithmetic.clip_by_value(a, a_min, a_max)


def _reshape(a: Any, shape: Any) -> Tensor:
    return rearrangement.reshape(a, shape)


def _transpose(a: Any, axes: Any = None) -> Tensor:
    return rearrangement.transpose(a, axes)


def _concatenate(arrays: Any, axis: Any = 0) -> Tensor:
    if axis is None:
        return rearrangement.concat([rearrangement.reshape(a, [-1]) for a in arrays], 0)
    return rearrangement.concat(arrays, axis)


def _stack(arrays: Any, axis: Any = 0) -> Tensor:
    return rearrangement.stack(arrays, axis)


def _ravel(a: Any) -> Tensor:
    return rearrangement.reshape(a, [-1])


def _where(condition: Any, x: Any, y: Any) -> Tensor:
    return arithmetic.where(condition, x, y)


#: NumPy's other functions and ours.
FUNCTIONS: dict[Any, Function] = {
    np.sum: _sum,
    np.mean: _mean,
    np.max: _max,
    np.min: _min,
    np.prod: _prod,
    np.std: _std,
    np.var: _var,
    np.any: _any,
    np.all: _all,
    np.argmax: _argmax,
    np.argmin: _argmin,
    np.cumsum: _cumsum,
    np.cumprod: _cumprod,
    np.linalg.norm: _norm,
    np.dot: _dot,
    np.tensordot: products.tensordot,
    np.outer: products.outer,
    np.einsum: products.einsum,
    np.clip: _clip,
    np.reshape: _reshape,
    np.ravel: _ravel,
    np.transpose: _transpose,
    np.expand_dims: rearrangement.expand_dims,
    np.squeeze: rearrangement.squeeze,
    np.broadcast_to: rearrangement.broadcast_to,
    np.concatenate: _concatenate,
    np.stack: _stack,
    np.tile: rearrangement.tile,
    np.where: _where,
    np.real: arithmetic.real,
    np.imag: arithmetic.imag,
}

#: Functions whose results carry no gradient: nothing is lost when they leave the program.
_HARMLESS = {
    np.allclose,
    np.array2string,
    np.array_equal,
    np.array_repr,
    np.array_str,
    np.isclose,
    np.ndim,
    np.result_type,
    np.shape,
    np.size,
    np.zeros_like,
    np.ones_like,
}


def function(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`numpy.sum` and its like, with a tensor among the arguments.

    While a tape records or a function is compiled the result is a Tensor; otherwise it is NumPy's
    own, as in TensorFlow.

    Raises:
        TypeError: tapec cannot follow it while a tape records or a function is compiled.
    """
    ours = FUNCTIONS.get(func)
    if ours is not None and (current_trace() is not None or active_tapes()):
        try:
            bound = inspect.signature(ours).bind(*args, **kwargs)
        except builtins.TypeError:
            pass  # an argument, such as ``out``, that only NumPy has
        else:
            return ours(*bound.args, **bound.kwargs)
    if func in _HARMLESS and current_trace() is None:
        return func(*_arrays(tuple(args)), **{k: _arrays(v) for k, v in kwargs.items()})
    return _by_numpy(func, func.__name__, args, kwargs)
