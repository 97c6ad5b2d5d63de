"""Elementwise functions of NumPy and SciPy by name, and what their methods (``reduce``, ``accumulate``, …) are here.

SciPy's special functions are NumPy ufuncs too: ``scipy.special.expit(x)`` asks x how to do it. So names are enough, and
SciPy need not be there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapec.functions import (
    arithmetic,
    elementary,
    logic,
    products,
    rearrangement,
    reductions,
    special,
)
from tapec.functions.arithmetic import add, cast, divide, floormod, multiply, subtract, where
from tapec.functions.broadcasting import converted
from tapec.ir.types import BOOL
from tapec.tensor import Tensor, TensorLike, as_tensor

Function = Callable[..., Any]


def _scaled(factor: float) -> Function:
    return lambda x: multiply(_floats(x), factor)


def _floats(x: TensorLike) -> Tensor:
    """Integers as the floats that NumPy makes of them."""
    tensor = as_tensor(x)
    return tensor if tensor.type.dtype.is_differentiable else cast(tensor, "float64")


def of_floats(function: Function) -> Function:
    """A function of floats that takes integers too, as NumPy's does."""
    return lambda *args: function(*[_floats(x) for x in args])


def matmul(x1: TensorLike, x2: TensorLike) -> Tensor:
    """NumPy's: a vector at the left is a row, one at the right a column, and the axis is dropped again."""
    x, y = converted(x1, x2)
    row, column = x.type.rank == 1, y.type.rank == 1
    if row:
        x = rearrangement.expand_dims(x, 0)
    if column:
        y = rearrangement.expand_dims(y, 1)
    product = products.matmul(x, y)
    dropped = [-2] * row + [-1] * column
    return rearrangement.squeeze(product, dropped) if dropped else product


def trunc(x: TensorLike) -> Tensor:
    """Without its fraction, towards 0."""
    tensor = as_tensor(x)
    if not tensor.type.dtype.is_floating:
        return tensor
    return where(arithmetic.less(tensor, 0), arithmetic.ceil(tensor), arithmetic.floor(tensor))


def _fmod(x: TensorLike, y: TensorLike) -> Tensor:
    a, b = converted(x, y)
    return subtract(a, multiply(trunc(divide(a, b)), b))


def _is_negative(x: TensorLike) -> Tensor:
    """The sign bit: -0 counts."""
    tensor = as_tensor(x)
    if not tensor.type.dtype.is_floating:
        return arithmetic.less(tensor, 0)
    zero = arithmetic.equal(tensor, 0)
    return arithmetic.less(where(zero, divide(1, where(zero, tensor, 1)), tensor), 0)


def _copysign(x: TensorLike, y: TensorLike) -> Tensor:
    a, b = converted(x, y)
    size = arithmetic.abs(_floats(a))
    return where(_is_negative(b), arithmetic.negative(size), size)


def _heaviside(x: TensorLike, at_zero: TensorLike) -> Tensor:
    a, b = converted(x, at_zero)
    step = cast(arithmetic.greater(a, 0), a.dtype)
    return where(arithmetic.equal(a, 0), b, step)


def _unless_nan(choose: Function) -> Function:
    """``fmax`` and ``fmin``: a NaN loses."""

    def chosen(x: TensorLike, y: TensorLike) -> Tensor:
        a, b = converted(x, y)
        if not a.type.dtype.is_floating:
            return choose(a, b)  # type: ignore[no-any-return]
        inner = where(arithmetic.is_nan(b), a, b)
        return choose(where(arithmetic.is_nan(a), inner, a), inner)  # type: ignore[no-any-return]

    return chosen


def _hypot(x: TensorLike, y: TensorLike) -> Tensor:
    a, b = converted(x, y)
    return elementary.sqrt(add(arithmetic.square(a), arithmetic.square(b)))


def _cbrt(x: TensorLike) -> Tensor:
    a = _floats(x)
    return multiply(arithmetic.sign(a), arithmetic.pow(arithmetic.abs(a), 1 / 3))


def _logaddexp2(x: TensorLike, y: TensorLike) -> Tensor:
    a, b = converted(x, y)
    ln2 = math.log(2)
    return divide(elementary.logaddexp(multiply(a, ln2), multiply(b, ln2)), ln2)


def _of_bools(function: Function) -> Function:
    """A bitwise function where it is a logical one; integers, which carry no gradient, are NumPy's."""

    def apply(*args: TensorLike) -> Any:
        operands = converted(*args) if len(args) == 2 else (as_tensor(args[0]),)
        whole = all(x.type.dtype == BOOL for x in operands)
        return function(*operands) if whole else NotImplemented

    return apply


def _logit(x: TensorLike) -> Tensor:
    a = _floats(x)
    return subtract(elementary.log(a), elementary.log1p(arithmetic.negative(a)))


def _entropy(x: TensorLike) -> Tensor:
    a = _floats(x)
    return where(arithmetic.less(a, 0), -math.inf, arithmetic.negative(elementary.xlogy(a, a)))


def _relative_entropy(x: TensorLike, y: TensorLike) -> Tensor:
    a, b = converted(x, y)
    return elementary.xlogy(a, divide(a, b))


def _kl_divergence(x: TensorLike, y: TensorLike) -> Tensor:
    a, b = converted(x, y)
    return add(subtract(elementary.xlogy(a, divide(a, b)), a), b)


def _ndtr(x: TensorLike) -> Tensor:
    """The normal distribution function."""
    return multiply(elementary.erfc(multiply(_floats(x), -math.sqrt(0.5))), 0.5)


def _log_beta(a: TensorLike, b: TensorLike) -> Tensor:
    x, y = converted(a, b)
    return subtract(add(elementary.lgamma(x), elementary.lgamma(y)), elementary.lgamma(add(x, y)))


def _huber(delta: TensorLike, r: TensorLike) -> Tensor:
    d, x = converted(delta, r)
    size = arithmetic.abs(x)
    line = multiply(d, subtract(size, multiply(d, 0.5)))
    return where(arithmetic.less_equal(size, d), multiply(arithmetic.square(x), 0.5), line)


def _pseudo_huber(delta: TensorLike, r: TensorLike) -> Tensor:
    d, x = converted(delta, r)
    root = elementary.sqrt(add(arithmetic.square(divide(x, d)), 1))
    return multiply(arithmetic.square(d), subtract(root, 1))


def _box_cox(x: TensorLike, power: TensorLike) -> Tensor:
    a, p = converted(x, power)
    flat = arithmetic.equal(p, 0)
    raised = elementary.expm1(multiply(p, elementary.log(a)))
    return where(flat, elementary.log(a), divide(raised, where(flat, 1, p)))


#: By the name of the ufunc.
UFUNCS: dict[str, Function] = {
    "add": add,
    "subtract": subtract,
    "multiply": multiply,
    "divide": arithmetic.truediv,
    "floor_divide": arithmetic.floordiv,
    "remainder": floormod,
    "divmod": lambda x, y: (arithmetic.floordiv(x, y), floormod(x, y)),
    "fmod": _fmod,
    "modf": lambda x: (subtract(x, trunc(x)), trunc(x)),
    "power": arithmetic.pow,
    "float_power": arithmetic.pow,
    "negative": arithmetic.negative,
    "positive": as_tensor,
    "absolute": arithmetic.abs,
    "fabs": arithmetic.abs,
    "sign": arithmetic.sign,
    "square": arithmetic.square,
    "reciprocal": arithmetic.reciprocal,
    "floor": arithmetic.floor,
    "ceil": arithmetic.ceil,
    "trunc": trunc,
    "rint": arithmetic.round,
    "maximum": arithmetic.maximum,
    "minimum": arithmetic.minimum,
    "fmax": _unless_nan(arithmetic.maximum),
    "fmin": _unless_nan(arithmetic.minimum),
    "equal": arithmetic.equal,
    "not_equal": arithmetic.not_equal,
    "less": arithmetic.less,
    "less_equal": arithmetic.less_equal,
    "greater": arithmetic.greater,
    "greater_equal": arithmetic.greater_equal,
    "logical_and": logic.logical_and,
    "logical_or": logic.logical_or,
    "logical_xor": logic.logical_xor,
    "logical_not": logic.logical_not,
    "bitwise_and": _of_bools(logic.logical_and),
    "bitwise_or": _of_bools(logic.logical_or),
    "bitwise_xor": _of_bools(logic.logical_xor),
    "invert": _of_bools(logic.logical_not),
    "isnan": arithmetic.is_nan,
    "isinf": arithmetic.is_inf,
    "isfinite": arithmetic.is_finite,
    "signbit": _is_negative,
    "copysign": _copysign,
    "heaviside": _heaviside,
    "hypot": _hypot,
    "conjugate": arithmetic.conj,
    "sqrt": of_floats(elementary.sqrt),
    "cbrt": _cbrt,
    "exp": of_floats(elementary.exp),
    "exp2": lambda x: elementary.exp(multiply(_floats(x), math.log(2))),
    "expm1": of_floats(elementary.expm1),
    "log": of_floats(elementary.log),
    "log1p": of_floats(elementary.log1p),
    "log2": of_floats(elementary.log2),
    "log10": of_floats(elementary.log10),
    "logaddexp": elementary.logaddexp,
    "logaddexp2": _logaddexp2,
    "sin": of_floats(elementary.sin),
    "cos": of_floats(elementary.cos),
    "tan": of_floats(elementary.tan),
    "arcsin": of_floats(elementary.asin),
    "arccos": of_floats(elementary.acos),
    "arctan": of_floats(elementary.atan),
    "arctan2": elementary.atan2,
    "sinh": of_floats(elementary.sinh),
    "cosh": of_floats(elementary.cosh),
    "tanh": of_floats(elementary.tanh),
    "arcsinh": of_floats(elementary.asinh),
    "arccosh": of_floats(elementary.acosh),
    "arctanh": of_floats(elementary.atanh),
    "deg2rad": _scaled(math.pi / 180),
    "radians": _scaled(math.pi / 180),
    "rad2deg": _scaled(180 / math.pi),
    "degrees": _scaled(180 / math.pi),
    "matmul": matmul,
    "vecdot": lambda x, y: reductions.reduce_sum(multiply(arithmetic.conj(x), y), -1),
    "matvec": products.matvec,
    "vecmat": lambda x, a: products.matvec(a, x, adjoint_a=True),
    # of scipy.special
    "expit": of_floats(elementary.sigmoid),
    "log_expit": of_floats(elementary.log_sigmoid),
    "logit": _logit,
    "erf": of_floats(elementary.erf),
    "erfc": of_floats(elementary.erfc),
    "erfinv": of_floats(special.erfinv),
    "ndtr": _ndtr,
    "ndtri": of_floats(special.ndtri),
    "gammaln": of_floats(elementary.lgamma),
    "psi": of_floats(elementary.digamma),
    "digamma": of_floats(elementary.digamma),
    "betaln": _log_beta,
    "xlogy": elementary.xlogy,
    "xlog1py": elementary.xlog1py,
    "entr": _entropy,
    "rel_entr": _relative_entropy,
    "kl_div": _kl_divergence,
    "exp10": lambda x: elementary.exp(multiply(_floats(x), math.log(10))),
    "huber": _huber,
    "pseudo_huber": _pseudo_huber,
    "boxcox": _box_cox,
    "erfcinv": of_floats(special.erfcinv),
    "gammainc": special.igamma,
    "gammaincc": special.igammac,
    "betainc": special.betainc,
    "spence": of_floats(special.spence),
    "dawsn": of_floats(special.dawsn),
    "expi": of_floats(special.expint),
    "fresnel": lambda x: (special.fresnel_sin(_floats(x)), special.fresnel_cos(_floats(x))),
    "i0": of_floats(special.bessel_i0),
    "i0e": of_floats(special.bessel_i0e),
    "i1": of_floats(special.bessel_i1),
    "i1e": of_floats(special.bessel_i1e),
    "j0": of_floats(special.bessel_j0),
    "j1": of_floats(special.bessel_j1),
    "k0": of_floats(special.bessel_k0),
    "k0e": of_floats(special.bessel_k0e),
    "k1": of_floats(special.bessel_k1),
    "k1e": of_floats(special.bessel_k1e),
    "y0": of_floats(special.bessel_y0),
    "y1": of_floats(special.bessel_y1),
}


def _reduced(function: Function) -> Function:
    def reduce(a: TensorLike, axis: Any = 0, dtype: Any = None, *, keepdims: bool = False) -> Any:
        return function(a if dtype is None else cast(a, dtype), axis, keepdims)

    return reduce


def _accumulated(function: Function) -> Function:
    def accumulate(array: TensorLike, axis: Any = 0, dtype: Any = None) -> Any:
        return function(array if dtype is None else cast(array, dtype), axis)

    return accumulate


def _outer(function: Function) -> Function:
    """Of each element of the one with each of the other."""

    def outer(a: TensorLike, b: TensorLike) -> Any:
        x, y = converted(a, b)
        return function(rearrangement.reshape(x, (*x.type.shape, *(1,) * y.type.rank)), y)

    return outer


#: By the name of the ufunc and of its method. ``outer`` there is for each that takes two.
METHODS: dict[tuple[str, str], Function] = {
    ("add", "reduce"): _reduced(reductions.reduce_sum),
    ("multiply", "reduce"): _reduced(reductions.reduce_prod),
    ("maximum", "reduce"): _reduced(reductions.reduce_max),
    ("minimum", "reduce"): _reduced(reductions.reduce_min),
    ("logical_and", "reduce"): _reduced(reductions.reduce_all),
    ("logical_or", "reduce"): _reduced(reductions.reduce_any),
    ("logaddexp", "reduce"): _reduced(reductions.reduce_logsumexp),
    ("add", "accumulate"): _accumulated(reductions.cumsum),
    ("multiply", "accumulate"): _accumulated(reductions.cumprod),
}


def method(name: str, how: str) -> Function | None:
    """What a method of a ufunc of two operands is here, if it is anything."""
    if how == "outer" and name in UFUNCS and name not in ("matmul", "matvec", "vecmat", "vecdot"):
        return _outer(UFUNCS[name])
    return METHODS.get((name, how))
