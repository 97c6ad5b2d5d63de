"""The closed list of scalar primitives, each with its NumPy, LLVM and Python spelling in one record.

Back ends hold no tables by operation: they ask the record. An LLVM spelling is one instruction per kind of dtype, with
``{t}`` the type (``float`` or ``<16 x float>``), ``{m}`` its name inside an intrinsic (``f32``, ``v16f32``) and ``{0}
{1} {2}`` the operands. ``@tapec.NAME`` are functions that `tapec.runtime.cpu.mathematics.vectormath` writes;
``@llvm.NAME`` are LLVM's. The Python spelling is an expression of typed scalars, for compilers of Python text (Numba,
on CPUs and on GPUs): its names are functions of `tapec.runtime.python_text.primitives`, ``{t}`` is the dtype's,
``{bits}`` its width. A kind that is missing is one the primitive does not take. Complex numbers are pairs of reals
before they reach a back end; ``pairs`` is the formula that makes them so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from tapec.ir import pairs


class Scalar(NamedTuple):
    """One primitive: ``numpy`` is its meaning on arrays, ``result`` whether it yields its operands' dtype or bool."""

    name: str
    arity: int
    numpy: Callable[..., Any]
    llvm: Mapping[str, str]
    python: str
    result: Literal["same", "bool"] = "same"
    pairs: Callable[..., Any] | None = None

    @property
    def is_costly(self) -> bool:
        """Whether it is a function that we expand, of many instructions."""
        return any("@tapec." in spelling for spelling in self.llvm.values())

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of dtype that the primitive takes."""
        return frozenset(self.llvm) | (frozenset() if self.pairs is None else {"complex"})


def _arith(name: str) -> dict[str, str]:
    """Spellings of an operation that floats and integers name alike: fadd and add."""
    line = "{t} {0}, {1}"
    return {
        "float": f"f{name} contract {line}",
        "int": f"{name} {line}",
        "uint": f"{name} {line}",
        "index": f"{name} {line}",
    }


def _compare(float_code: str, int_code: str, *, ordered: bool = True) -> dict[str, str]:
    line = "{t} {0}, {1}"
    sign, unsign = ("s", "u") if ordered else ("", "")
    return {
        "float": f"fcmp {float_code} {line}",
        "int": f"icmp {sign}{int_code} {line}",
        "index": f"icmp {sign}{int_code} {line}",
        "uint": f"icmp {unsign}{int_code} {line}",
        "bool": f"icmp {unsign}{int_code} {line}",
    }


def _call(name: str, arity: int = 1, *kinds: str) -> dict[str, str]:
    """The same function of ours for every kind; ``{m}`` tells them apart."""
    arguments = ", ".join(f"{{t}} {{{i}}}" for i in range(arity))
    return dict.fromkeys(kinds or ("float",), f"call {{t}} @{name}.{{m}}({arguments})")


def _bits(name: str) -> dict[str, str]:
    return dict.fromkeys(("int", "uint", "bool", "index"), f"{name} {{t}} {{0}}, {{1}}")


def _sign(x: Any) -> Any:
    """NumPy's, but that a complex number with a NaN in it has no direction, and -0 no sign as bfloat16, too."""
    y = _as(x, np.sign(_wide(x)))
    return (
        np.where(np.isnan(x), x.dtype.type(complex(np.nan, np.nan)), y) if np.iscomplexobj(x) else y
    )


def _expm1(x: Any) -> Any:
    """NumPy's, but infinities as C's cexp has them, which NumPy's loses among NaN."""
    y = np.expm1(x)
    if np.iscomplexobj(x) and not np.isfinite(x).all():
        return np.where(np.isfinite(x), y, np.exp(x) - 1)
    return y


def _math(
    name: str, numpy: Callable[..., Any], on_pairs: Callable[..., Any] | None = None
) -> Scalar:
    """A float function of one operand that we expand ourselves."""
    return Scalar(name, 1, numpy, _call(f"tapec.{name}"), f"{name}({{0}})", pairs=on_pairs)


def _lgamma(x: Any) -> Any:
    from scipy.special import gammaln  # heavy, and only this and the next three need it

    return _as(x, gammaln(_wide(x)))


def _digamma(x: Any) -> Any:
    from scipy.special import digamma

    return _as(x, digamma(_wide(x)))


def _erf(x: Any) -> Any:
    from scipy.special import erf

    return _as(x, erf(_wide(x)))


def _erfc(x: Any) -> Any:
    from scipy.special import erfc

    return _as(x, erfc(_wide(x)))


def _wide(x: Any) -> Any:
    """float16 and bfloat16 as float32: SciPy's functions do not take them."""
    return np.asarray(x).astype(np.float32) if np.asarray(x).dtype.itemsize == 2 else x


def _as(x: Any, y: Any) -> Any:
    return np.asarray(y).astype(np.asarray(x).dtype)


def _rsqrt(x: Any) -> Any:
    return np.reciprocal(np.sqrt(x))


def _sigmoid(x: Any) -> Any:
    if np.iscomplexobj(x):
        return np.reciprocal(1 + np.exp(-x))
    # exp of a value that is never positive cannot overflow.
    e = np.exp(-np.abs(x))
    one = e.dtype.type(1)
    return np.where(x >= 0, one, e) / (one + e)


def _fma(x: Any, y: Any, z: Any) -> Any:
    return x * y + z


def _pow(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        if np.asarray(y).dtype.kind != "i":
            return np.power(x, y)
        # NumPy refuses negative powers of integers; here they are the whole part, cut toward 0.
        sign = np.where(np.bitwise_and(y, 1) == 1, x, np.ones_like(x))
        whole = np.where(np.isin(x, (-1, 1)), sign, np.zeros_like(x))
        return _as(x, np.where(np.less(y, 0), whole, np.power(x, np.maximum(y, np.zeros_like(y)))))


_INT = ("int", "uint")

ADD = Scalar("add", 2, np.add, _arith("add"), "({0} + {1})", pairs=pairs.add)
SUB = Scalar("sub", 2, np.subtract, _arith("sub"), "({0} - {1})", pairs=pairs.sub)
MUL = Scalar("mul", 2, np.multiply, _arith("mul"), "({0} * {1})", pairs=pairs.mul)
DIV = Scalar(
    "div",
    2,
    np.divide,
    {"float": "fdiv {t} {0}, {1}"},
    "({0} / {1})",
    pairs=pairs.div,
)
FLOORDIV = Scalar(
    "floordiv",
    2,
    np.floor_divide,
    _call("tapec.floordiv", 2, "float", "int", "index") | _call("tapec.udiv", 2, "uint"),
    "floordiv({0}, {1})",
)
MOD = Scalar(
    "mod",
    2,
    np.mod,
    _call("tapec.mod", 2, "float", "int", "index") | _call("tapec.umod", 2, "uint"),
    "mod({0}, {1})",
)
FMA = Scalar("fma", 3, _fma, _call("llvm.fma", 3), "({0} * {1} + {2})")
NEG = Scalar(
    "neg",
    1,
    np.negative,
    {"float": "fneg {t} {0}"} | dict.fromkeys((*_INT, "index"), "sub {t} zeroinitializer, {0}"),
    "(-{0})",
    pairs=pairs.neg,
)
ABS = Scalar(
    "abs",
    1,
    np.abs,
    _call("llvm.fabs")
    | {"int": "call {t} @llvm.abs.{m}({t} {0}, i1 false)", "uint": "add {t} {0}, zeroinitializer"},
    "abs({0})",
    pairs=pairs.absolute,
)
SIGN = Scalar(
    "sign",
    1,
    _sign,
    _call("tapec.sign", 1, "float", "int"),
    "sign({0})",
    pairs=pairs.sign,
)
FLOOR = Scalar("floor", 1, np.floor, _call("llvm.floor"), "floor({0})")
CEIL = Scalar("ceil", 1, np.ceil, _call("llvm.ceil"), "ceil({0})")
ROUND = Scalar("round", 1, np.rint, _call("llvm.roundeven"), "rint({0})")
MAX = Scalar(
    "max",
    2,
    np.maximum,
    _call("llvm.maximum", 2)
    | _call("llvm.smax", 2, "int", "index")
    | _call("llvm.umax", 2, "uint")
    | {"bool": "or {t} {0}, {1}"},
    "maximum({0}, {1})",
)
MIN = Scalar(
    "min",
    2,
    np.minimum,
    _call("llvm.minimum", 2)
    | _call("llvm.smin", 2, "int", "index")
    | _call("llvm.umin", 2, "uint")
    | {"bool": "and {t} {0}, {1}"},
    "minimum({0}, {1})",
)
SQRT = Scalar("sqrt", 1, np.sqrt, _call("llvm.sqrt"), "sqrt({0})", pairs=pairs.sqrt)
RSQRT = _math("rsqrt", _rsqrt, pairs.rsqrt)
EXP = _math("exp", np.exp, pairs.exp)
EXPM1 = _math("expm1", _expm1, pairs.expm1)
LOG = _math("log", np.log, pairs.log)
LOG1P = _math("log1p", np.log1p, pairs.log1p)
SIN = _math("sin", np.sin, pairs.sin)
COS = _math("cos", np.cos, pairs.cos)
TAN = _math("tan", np.tan, pairs.tan)
ASIN = _math("asin", np.arcsin, pairs.asin)
ACOS = _math("acos", np.arccos, pairs.acos)
ATAN = _math("atan", np.arctan, pairs.atan)
SINH = _math("sinh", np.sinh, pairs.sinh)
COSH = _math("cosh", np.cosh, pairs.cosh)
ASINH = _math("asinh", np.arcsinh, pairs.asinh)
ACOSH = _math("acosh", np.arccosh, pairs.acosh)
ATANH = _math("atanh", np.arctanh, pairs.atanh)
TANH = _math("tanh", np.tanh, pairs.tanh)
SIGMOID = _math("sigmoid", _sigmoid, pairs.sigmoid)
ERF = _math("erf", _erf)
ERFC = _math("erfc", _erfc)
LGAMMA = _math("lgamma", _lgamma)
DIGAMMA = _math("digamma", _digamma)
ATAN2 = Scalar("atan2", 2, np.arctan2, _call("tapec.atan2", 2), "atan2({0}, {1})")
POW = Scalar(
    "pow",
    2,
    _pow,
    _call("tapec.pow", 2, "float", "int") | _call("tapec.upow", 2, "uint"),
    "power({0}, {1}, {t}(1))",
    pairs=pairs.pow,
)
EQ = Scalar(
    "eq", 2, np.equal, _compare("oeq", "eq", ordered=False), "({0} == {1})", "bool", pairs.eq
)
NE = Scalar(
    "ne", 2, np.not_equal, _compare("une", "ne", ordered=False), "({0} != {1})", "bool", pairs.ne
)
LT = Scalar("lt", 2, np.less, _compare("olt", "lt"), "({0} < {1})", "bool")
LE = Scalar("le", 2, np.less_equal, _compare("ole", "le"), "({0} <= {1})", "bool")
GT = Scalar("gt", 2, np.greater, _compare("ogt", "gt"), "({0} > {1})", "bool")
GE = Scalar("ge", 2, np.greater_equal, _compare("oge", "ge"), "({0} >= {1})", "bool")
AND = Scalar("and", 2, np.bitwise_and, _bits("and"), "({0} & {1})")
OR = Scalar("or", 2, np.bitwise_or, _bits("or"), "({0} | {1})")
XOR = Scalar("xor", 2, np.bitwise_xor, _bits("xor"), "({0} ^ {1})")
NOT = Scalar(
    "not",
    1,
    np.invert,
    dict.fromkeys(("int", "uint", "bool"), "xor {t} {0}, {ones}"),
    "(~{0})",
)
SHL = Scalar("shl", 2, np.left_shift, _call("tapec.shl", 2, *_INT), "shl({0}, {1}, {bits})")
SHR = Scalar(
    "shr",
    2,
    np.right_shift,
    _call("tapec.shr", 2, "int") | _call("tapec.ushr", 2, "uint"),
    "shr({0}, {1}, {bits})",
)
IS_FINITE = Scalar(
    "is_finite",
    1,
    np.isfinite,
    {"float": "call {b} @tapec.is_finite.{m}({t} {0})"},
    "isfinite({0})",
    "bool",
)
IS_NAN = Scalar("is_nan", 1, np.isnan, {"float": "fcmp uno {t} {0}, {0}"}, "isnan({0})", "bool")
WHERE = Scalar(
    "where",
    3,
    np.where,
    dict.fromkeys(("float", "int", "uint", "bool", "index"), "select {b} {0}, {t} {1}, {t} {2}"),
    "({1} if {0} else {2})",
    pairs=pairs.where,
)
