"""How dtypes, numbers, sizes and scalar operations are written in Python text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tapec.ir.dims import Atom, Dim, DimLike, Quotient, Symbol
from tapec.ir.errors import TargetError
from tapec.ir.scalar import Scalar
from tapec.ir.types import U16, DType

#: Where a kind of dtype needs another expression than the record of `tapec.ir.scalar` has.
_OTHERWISE: Mapping[tuple[str, str], str] = {
    ("floordiv", "int"): "int_floordiv({0}, {1})",
    ("floordiv", "uint"): "int_floordiv({0}, {1})",
    ("floordiv", "index"): "({0} // {1})",
    ("mod", "int"): "int_mod({0}, {1})",
    ("mod", "uint"): "int_mod({0}, {1})",
    ("mod", "index"): "({0} % {1})",
    ("neg", "uint"): "({t}(0) - {0})",
    ("abs", "uint"): "{0}",
    ("max", "index"): "max({0}, {1})",
    ("min", "index"): "min({0}, {1})",
    ("max", "bool"): "({0} or {1})",
    ("min", "bool"): "({0} and {1})",
    ("and", "bool"): "({0} and {1})",
    ("or", "bool"): "({0} or {1})",
    ("xor", "bool"): "({0} != {1})",
    ("not", "bool"): "(not {0})",
    ("lt", "bool"): "({1} and not {0})",
    ("gt", "bool"): "({0} and not {1})",
    ("le", "bool"): "({1} or not {0})",
    ("ge", "bool"): "({0} or not {1})",
    ("pow", "int"): "int_power({0}, {1}, {t}(1))",
    ("pow", "uint"): "int_power({0}, {1}, {t}(1))",
    ("shr", "uint"): "unsigned_shr({0}, {1}, {bits})",
}
#: What has the operands' dtype without a conversion, for floats and for anything.
_EXACT_FLOAT = frozenset({"fma", "add", "sub", "mul", "div", "neg", "abs"})
_EXACT = frozenset({"where", "max", "min"})
_WIDE = frozenset({"add", "sub", "mul", "neg", "and", "or", "xor", "not", "abs"})


def is_small_float(dtype: DType) -> bool:
    """Whether a dtype is float16 or bfloat16, which are float32 in registers."""
    return dtype.is_floating and dtype.bytes == 2


def memory(dtype: DType) -> str:
    """The NumPy dtype of arrays that hold it."""
    return "uint16" if is_small_float(dtype) else str(dtype.numpy)


def converter(dtype: DType) -> str:
    """The function of the text's that makes a number of this dtype."""
    return dtype.code


def number(value: Any, dtype: DType) -> str:
    """A constant."""
    if dtype.kind == "index":
        return str(int(value))
    if dtype.is_bool:
        return str(bool(value))
    if not dtype.is_floating:
        return f"{converter(dtype)}({int(value)})"
    return f"{'f32' if is_small_float(dtype) else converter(dtype)}({real(float(value))})"


def real(value: float) -> str:
    """A float of Python's."""
    if math.isnan(value):
        return "np.nan"
    return repr(value) if math.isfinite(value) else "np.inf" if value > 0 else "-np.inf"


def size(dim: DimLike, names: Mapping[str, str]) -> str:
    """A size as an expression; ``names`` are those of its symbols."""
    if isinstance(dim, int):
        return str(dim)
    parts = []
    for monomial, factor in dim.terms:
        factors = [_atom(atom, names) for atom in monomial]
        if abs(factor) != 1 or not factors:
            factors.insert(0, str(abs(factor)))
        parts.append((" - " if factor < 0 else " + ") + " * ".join(factors))
    text = "".join(parts)
    return text.removeprefix(" + ") if text.startswith(" + ") else f"-{text[3:]}"


def _atom(atom: Atom, names: Mapping[str, str]) -> str:
    if isinstance(atom, Symbol):
        return names[atom.name]
    assert isinstance(atom, Quotient)
    sides = (_side(side, names) for side in (atom.numerator, atom.denominator))
    return f"({(' % ' if atom.remainder else ' // ').join(sides)})"


def _side(dim: DimLike, names: Mapping[str, str]) -> str:
    text = size(dim, names)
    return f"({text})" if isinstance(dim, Dim) and " " in text else text


def apply(record: Scalar, operands: Sequence[str], dtype: DType) -> str:
    """A primitive as an expression, of the operands' dtype or bool.

    Raises:
        TargetError: the primitive takes no such dtype.
    """
    kind = dtype.kind
    if kind not in record.llvm or dtype.is_complex:
        raise TargetError(f"there is no Python text for {record.name} of {dtype.code}")
    template = _OTHERWISE.get((record.name, kind), record.python)
    to = "f32" if is_small_float(dtype) else converter(dtype)
    text = template.format(*operands, t=to, bits=8 * dtype.bytes)
    if record.result == "bool" or dtype.is_bool or kind == "index" or record.name in _EXACT:
        return text
    if is_small_float(dtype):
        return text if record.name in ("neg", "abs") else converted(text, dtype)
    if dtype.is_floating:
        return text if record.name in _EXACT_FLOAT else converted(text, dtype)
    return text if dtype.bytes == 8 and record.name in _WIDE else converted(text, dtype)


def converted(text: str, dtype: DType) -> str:
    """An expression as this dtype; parentheses around the whole are not written twice."""
    inner = text[1:-1] if is_wrapped(text) else text
    return f"{converter(dtype)}({inner})"


def bitcast(text: str, source: DType, target: DType) -> str:
    """The same bits as another dtype; those of a 16-bit float are made."""
    if source == target:
        return text
    if is_small_float(source):
        text, source = f"{source.code}_bits({text})", U16
    if is_small_float(target):
        return f"{target.code}_value({converted(text, U16)})"
    if source.is_floating or target.is_floating:
        inner = text[1:-1] if is_wrapped(text) else text
        return (
            f"np.{source.numpy}({inner}).view(np.{target.numpy})"  # Numba asks for the first dtype
        )
    return converted(text, target)


def cast(text: str, source: DType, target: DType) -> str:
    """A conversion: floats go to integers by truncation, saturated, NaN to 0; integers wrap."""
    if source == target:
        return text
    if target.is_bool:
        return f"({text} != 0)"
    if not (source.is_floating and (target.is_integer or target.kind == "index")):
        if target.kind == "index":
            return f"i64({text})"
        if target.code == "bf16" and (source.kind == "index" or source.code in ("i64", "u64")):
            code = "u64" if source.is_unsigned else "i64"
            text = f"jammed({code}({text}), {code}(11), {code}(1))"
        return converted(text, target)
    if target.code == "u64":
        return f"u64(saturated_u64({text}))"
    low, high = (-(2**63), 2**63 - 1) if target.kind == "index" else (target.min, target.max)
    return f"{'i64' if target.kind == 'index' else target.code}(saturated({text}, {low}, {high}))"


def is_wrapped(text: str) -> bool:
    """Whether the first parenthesis of a text is closed by the last."""
    if not (text.startswith("(") and text.endswith(")")):
        return False
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return i == len(text) - 1
    return False
