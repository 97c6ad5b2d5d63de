"""Conversions between dtypes as LLVM text, the 16-bit floats among them.

Meaning (`tapec.ir.ops.compare.Cast`): floats go to integers by truncation, saturated, NaN to 0; integers wrap.
A 16-bit float is its bits in a register; it is widened to ``float`` exactly and narrowed with one rounding to nearest
even. From ``double``, and from integers that ``float`` does not hold, that is one rounding as well: on the way through
``float`` the first is to odd, which the second cannot be misled by (Boldo and Melquiond, "Emulation of FMA and
correctly rounded sums", 2008).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapec.ir.core import Operation
from tapec.ir.types import INDEX, DType
from tapec.runtime.cpu.text import spelling
from tapec.runtime.cpu.text.function import FunctionWriter

if TYPE_CHECKING:
    from tapec.runtime.cpu.text.llvm import KernelWriter


def cast(k: KernelWriter, op: Operation) -> None:
    """A conversion between dtypes."""
    (value,), target = op.operands, op.result.type.dtype
    x, source = k.name(value), value.type.dtype
    lanes = spelling.lanes_of(value.type)
    k.define(op.result, x if source == target else convert(k, x, source, target, lanes))


def bitcast(k: KernelWriter, op: Operation) -> None:
    """The same bits as another dtype."""
    (value,) = op.operands
    x, lanes = k.name(value), spelling.lanes_of(value.type)
    given, wanted = (_register(v.type.dtype, lanes) for v in (value, op.result))
    k.define(op.result, x if given == wanted else _one(k, "bitcast", x, given, wanted))


def convert(f: FunctionWriter, x: str, source: DType, target: DType, lanes: int) -> str:
    """``x`` of dtype ``source`` as ``target``; the two differ."""
    if target.is_bool:
        return _to_bool(f, x, source, lanes)
    if source.is_floating and target.is_floating:
        return _float_to_float(f, x, source, target, lanes)
    if source.is_floating:
        return _float_to_int(f, x, source, target, lanes)
    if target.is_floating:
        return _int_to_float(f, x, source, target, lanes)
    given, wanted = _bits(f, source), _bits(f, target)
    if given == wanted:
        return x
    if given > wanted:
        return _one(f, "trunc", x, _register(source, lanes), _register(target, lanes))
    signed = source.kind in ("int", "index")
    word = "sext" if signed else "zext"
    return _one(f, word, x, _register(source, lanes), _register(target, lanes))


def widen(f: FunctionWriter, x: str, dtype: DType, lanes: int) -> str:
    """A 16-bit float as ``float``, exactly."""
    bits, single = spelling.wide("i16", lanes), spelling.wide("float", lanes)
    if dtype.code == "f16":
        half = spelling.wide("half", lanes)
        return _one(f, "fpext", _one(f, "bitcast", x, bits, half), half, single)
    word = spelling.wide("i32", lanes)
    long = _one(f, "zext", x, bits, word)
    high = f.pure(f"shl {word} {long}, {_splat('i32', 16, lanes)}", long)
    return _one(f, "bitcast", high, word, single)


def narrow(f: FunctionWriter, x: str, dtype: DType, lanes: int) -> str:
    """``float`` rounded to a 16-bit float."""
    bits, single = spelling.wide("i16", lanes), spelling.wide("float", lanes)
    if dtype.code == "f16":
        half = spelling.wide("half", lanes)
        return _one(f, "bitcast", _one(f, "fptrunc", x, single, half), half, bits)
    word = spelling.wide("i32", lanes)
    long = _one(f, "bitcast", x, single, word)
    sixteen = _splat("i32", 16, lanes)
    last = f.pure(f"lshr {word} {long}, {sixteen}", long)
    odd = f.pure(f"and {word} {last}, {_splat('i32', 1, lanes)}", last)
    bias = f.pure(f"add {word} {odd}, {_splat('i32', 0x7FFF, lanes)}", odd)
    rounded = f.pure(f"add {word} {long}, {bias}", long, bias)
    high = f.pure(f"lshr {word} {rounded}, {sixteen}", rounded)
    # The carry of a NaN's payload could reach its sign: NaN stays NaN by hand.
    quiet = f.pure(f"or {word} {last}, {_splat('i32', 0x40, lanes)}", last)
    unordered = f.pure(f"fcmp uno {single} {x}, {x}", x)
    condition = spelling.wide("i1", lanes)
    chosen = f.pure(
        f"select {condition} {unordered}, {word} {quiet}, {word} {high}", unordered, quiet, high
    )
    return _one(f, "trunc", chosen, word, bits)


def _round_to_odd(f: FunctionWriter, x: str, lanes: int) -> str:
    """``double`` as ``float``: towards zero, with the last bit set if that was inexact."""
    double, single = spelling.wide("double", lanes), spelling.wide("float", lanes)
    word, condition = spelling.wide("i32", lanes), spelling.wide("i1", lanes)
    near = _one(f, "fptrunc", x, double, single)
    back = _one(f, "fpext", near, single, double)
    bits = _one(f, "bitcast", near, single, word)
    m = spelling.suffix("double", lanes)
    size = f.pure(f"call {double} @llvm.fabs.{m}({double} {x})", x)
    reached = f.pure(f"call {double} @llvm.fabs.{m}({double} {back})", back)
    beyond = f.pure(f"fcmp ogt {double} {reached}, {size}", reached, size)
    step = _one(f, "sext", beyond, condition, word)
    low = f.pure(f"add {word} {bits}, {step}", bits, step)
    inexact = f.pure(f"fcmp one {double} {back}, {x}", back, x)
    last = _one(f, "zext", inexact, condition, word)
    odd = f.pure(f"or {word} {low}, {last}", low, last)
    return _one(f, "bitcast", odd, word, single)


def _float_to_float(f: FunctionWriter, x: str, source: DType, target: DType, lanes: int) -> str:
    if spelling.is_small_float(source):
        x = widen(f, x, source, lanes)
    kind = "double" if source.code == "f64" else "float"
    if spelling.is_small_float(target):
        return narrow(f, x if kind == "float" else _round_to_odd(f, x, lanes), target, lanes)
    wanted = spelling.element(target)
    if kind == wanted:
        return x
    word = "fpext" if wanted == "double" else "fptrunc"
    return _one(f, word, x, spelling.wide(kind, lanes), spelling.wide(wanted, lanes))


def _float_to_int(f: FunctionWriter, x: str, source: DType, target: DType, lanes: int) -> str:
    if spelling.is_small_float(source):
        x = widen(f, x, source, lanes)
    kind = "double" if source.code == "f64" else "float"
    word = "fptoui" if target.is_unsigned else "fptosi"
    wanted, given = _register(target, lanes), spelling.wide(kind, lanes)
    name = f"{word}.sat.{_suffix(target, lanes)}.{spelling.suffix(kind, lanes)}"
    return f.pure(f"call {wanted} @llvm.{name}({given} {x})", x)


def _int_to_float(f: FunctionWriter, x: str, source: DType, target: DType, lanes: int) -> str:
    word = "sitofp" if source.kind in ("int", "index") else "uitofp"
    given = _register(source, lanes)
    if not spelling.is_small_float(target):
        return _one(f, word, x, given, spelling.wide(spelling.element(target), lanes))
    bits = _bits(f, source)
    # float16 has no numbers that are too long for ``float``.
    if target.code == "bf16" and bits >= 32:
        x = _jammed(f, x, source, lanes, bits, 53 if bits == 64 else 24)
    if target.code == "bf16" and bits == 64:
        double = _one(f, word, x, given, spelling.wide("double", lanes))
        return narrow(f, _round_to_odd(f, double, lanes), target, lanes)
    return narrow(f, _one(f, word, x, given, spelling.wide("float", lanes)), target, lanes)


def _jammed(f: FunctionWriter, x: str, dtype: DType, lanes: int, bits: int, digits: int) -> str:
    """An integer that a float of so many binary digits holds: rounded to odd if it takes more."""
    kind, condition = _register(dtype, lanes), spelling.wide("i1", lanes)

    def number(value: int) -> str:
        return _splat(spelling.element(dtype), value, lanes)

    left = bits - digits
    high = f.pure(f"and {kind} {x}, {number(-(1 << left))}", x)
    rest = f.pure(f"and {kind} {x}, {number((1 << left) - 1)}", x)
    inexact = f.pure(f"icmp ne {kind} {rest}, zeroinitializer", rest)
    one = _one(f, "zext", inexact, condition, kind)
    last = f.pure(f"shl {kind} {one}, {number(left)}", one)
    odd = f.pure(f"or {kind} {high}, {last}", high, last)
    # Of a number that is short enough, what is above is all sign.
    shift, signs = ("lshr", 1) if dtype.is_unsigned else ("ashr", 2)
    above = f.pure(f"{shift} {kind} {x}, {number(digits)}", x)
    sign = f.pure(f"add {kind} {above}, {number(signs - 1)}", above)
    short = f.pure(f"icmp ult {kind} {sign}, {number(signs)}", sign)
    return f.pure(f"select {condition} {short}, {kind} {x}, {kind} {odd}", short, x, odd)


def _to_bool(f: FunctionWriter, x: str, source: DType, lanes: int) -> str:
    if not source.is_floating:
        return f.pure(f"icmp ne {_register(source, lanes)} {x}, zeroinitializer", x)
    if spelling.is_small_float(source):
        x = widen(f, x, source, lanes)
    kind = spelling.wide("double" if source.code == "f64" else "float", lanes)
    return f.pure(f"fcmp une {kind} {x}, zeroinitializer", x)


def _one(f: FunctionWriter, word: str, x: str, given: str, wanted: str) -> str:
    return f.pure(f"{word} {given} {x} to {wanted}", x)


def _bits(f: FunctionWriter, dtype: DType) -> int:
    return f.index_bits if dtype == INDEX else dtype.bits


def _register(dtype: DType, lanes: int) -> str:
    return spelling.wide(spelling.element(dtype), lanes)


def _suffix(dtype: DType, lanes: int) -> str:
    return spelling.suffix(spelling.element(dtype), lanes)


def _splat(name: str, value: int, lanes: int) -> str:
    return spelling.splat_literal(name, str(value)) if lanes else str(value)
