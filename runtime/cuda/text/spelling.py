"""How the scalar primitives are spelled in a kernel's text, for each kind of dtype."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tapec.ir.errors import TargetError
from tapec.ir.scalar import Scalar
from tapec.ir.types import DType
from tapec.runtime.python_text.spelling import is_small_float

_FUNCTION = re.compile(r"call \{\w\} @(?:tapec|llvm)\.([\w.]+)\.\{m\}")
#: Where LLVM has a function and the text an operator, or another name.
_NAMES = {
    "fabs": "abs",
    "maximum": "max",
    "minimum": "min",
    "smax": "max",
    "smin": "min",
    "roundeven": "rint",
}
_FLOAT: Mapping[str, str] = {
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "({0} / {1})",
    "neg": "(-{0})",
    "is_nan": "({0} != {0})",
}
_INT: Mapping[str, str] = {
    "add": "{t}({0} + {1})",
    "sub": "{t}({0} - {1})",
    "mul": "{t}({0} * {1})",
    "neg": "{t}({t}(0) - {0})",
    "and": "{t}({0} & {1})",
    "or": "{t}({0} | {1})",
    "xor": "{t}({0} ^ {1})",
    "not": "{t}({0} ^ {t}({ones}))",
}
_UINT: Mapping[str, str] = {**_INT, "abs": "{0}", "max": "larger", "min": "smaller"}
_BOOL: Mapping[str, str] = {
    "and": "({0} & {1})",
    "or": "({0} | {1})",
    "xor": "({0} != {1})",
    "not": "(not {0})",
    "max": "({0} | {1})",
    "min": "({0} & {1})",
    "lt": "({1} & (not {0}))",
    "gt": "({0} & (not {1}))",
    "le": "({1} | (not {0}))",
    "ge": "({0} | (not {1}))",
}
_TESTS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def register(dtype: DType) -> str:
    """The dtype that a number has outside of memory."""
    return "f32" if is_small_float(dtype) else dtype.code


def memory(dtype: DType) -> str:
    """The dtype of elements in memory."""
    if dtype.is_bool:
        return "u8"
    # Complex numbers are pairs of reals; buffers of them are whole only where they are empty.
    return "u16" if is_small_float(dtype) else dtype.real_dtype.code


def number(value: Any, dtype: DType) -> str:
    """A constant."""
    if dtype.is_bool:
        return str(bool(value))
    if dtype.is_complex:
        parts = (number(part, dtype.real_dtype) for part in (value.real, value.imag))
        return f"({', '.join(parts)})"
    if not dtype.is_floating:
        return f"{dtype.code}({int(value)})"
    real = float(value)
    if math.isnan(real):
        return f"{register(dtype)}(nan)"
    if math.isinf(real):
        return f"{register(dtype)}({'inf' if real > 0 else '-inf'})"
    return f"{register(dtype)}({real!r})"


def apply(record: Scalar, operands: Sequence[str], dtype: DType) -> str:
    """A primitive as an expression of the operands' dtype, or a bool.

    Raises:
        TargetError: the primitive takes no such dtype.
    """
    kind = dtype.kind
    if kind not in record.llvm or dtype.is_complex:
        raise TargetError(f"the cuda target has no {record.name} of {dtype.code}")
    if record.name == "where":
        return f"({operands[1]} if {operands[0]} else {operands[2]})"
    own: Mapping[str, str] = {"float": _FLOAT, "int": _INT, "uint": _UINT, "bool": _BOOL}[kind]
    if record.name in own:
        text = own[record.name]
        if text in ("larger", "smaller"):
            sign = ">" if text == "larger" else "<"
            a, b = operands
            return f"({a} if {a} {sign} {b} else {b})"
        ones = -1 if kind == "int" else (1 << dtype.bits) - 1
        text = text.format(*operands, t=dtype.code, ones=ones)
    elif record.name in _TESTS:
        return f"({operands[0]} {_TESTS[record.name]} {operands[1]})"
    else:
        text = _call(record, operands, dtype)
    return rounded(text, dtype) if record.result == "same" else text


def _call(record: Scalar, operands: Sequence[str], dtype: DType) -> str:
    """A function; of unsigned integers it takes the bits as signed ones."""
    found = _FUNCTION.match(record.llvm[dtype.kind])
    if found is None:
        raise TargetError(f"the cuda target has no {record.name} of {dtype.code}")
    name, code = _NAMES.get(found[1], found[1]), register(dtype)
    if dtype.kind != "uint":
        return f"{name}_{code}({', '.join(operands)})"
    signed = f"i{code[1:]}"
    given = ", ".join(f"{signed}({operand})" for operand in operands)
    return f"{code}({name}_{signed}({given}))"


def rounded(text: str, dtype: DType) -> str:
    """A number on the grid of its dtype: 16-bit floats are computed in 32 bits."""
    return f"{dtype.code}({text})" if is_small_float(dtype) else text


def cast(text: str, source: DType, target: DType) -> str:
    """A conversion: floats go to integers by truncation, saturated, NaN to 0; integers wrap."""
    if source == target:
        return text
    if target.is_bool:
        return f"({text} != {number(0, source)})"
    if source.is_bool:
        return f"({number(1, target)} if {text} else {number(0, target)})"
    if target.is_floating:
        if is_small_float(target):
            return f"{target.code}({text})"
        return text if register(source) == target.code else f"{target.code}({text})"
    if source.is_floating:
        return f"saturate_{register(source)}_{target.code}({text})"
    return f"{target.code}({text})"


def bitcast(text: str, source: DType, target: DType) -> str:
    """The same bits as another dtype."""
    if source == target:
        return text
    if is_small_float(source):
        text, code = f"{source.code}_bits({text})", "u16"
    elif source.is_floating:
        code = f"i{source.bits}"
        text = f"bits_{source.code}({text})"
    else:
        code = source.code
    if is_small_float(target):
        return f"{target.code}_value({text if code == 'u16' else f'u16({text})'})"
    if target.is_floating:
        signed = f"i{target.bits}"
        return f"real_{signed}({text if code == signed else f'{signed}({text})'})"
    return text if code == target.code else f"{target.code}({text})"


def shuffled(dtype: DType) -> str:
    """The dtype as which a number goes from thread to thread."""
    code = register(dtype)
    if dtype.is_bool or (dtype.is_integer and dtype.bits < 32):
        return "i32"
    return code


def to_shuffle(text: str, dtype: DType) -> str:
    """A number as that dtype."""
    if dtype.is_bool:
        return f"(i32(1) if {text} else i32(0))"
    code = shuffled(dtype)
    return text if register(dtype) == code else f"{code}({text})"


def from_shuffle(text: str, dtype: DType) -> str:
    """A number that came so, as it was."""
    if dtype.is_bool:
        return f"({text} != i32(0))"
    return text if register(dtype) == shuffled(dtype) else f"{dtype.code}({text})"


def saturation(source: str, target: str) -> str:
    """The text of the function that converts floats to integers of a dtype."""
    bits = int(target[1:])
    low, high = (
        (0, (1 << bits) - 1) if target[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)
    )
    # The first float that is too large.
    beyond = float(high + 1)
    return f"""def saturate_{source}_{target}(x):
    if x != x:
        return {target}(0)
    if x <= {source}({float(low)!r}):
        return {target}({low})
    if x >= {source}({beyond!r}):
        return {target}({high})
    return {target}(x)
"""
