"""Instructions that a processor lacks, written out, where LLVM would call a library that is not there.

The text of a program names them as LLVM's functions (``@llvm.floor.v4f32``) or instructions (``sitofp i64``). Here
those that the target lacks become functions of ours. Without a fused multiply-add, products are rounded before they
are added. Roots are good to one unit in the last place, and so are large integers as floats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tapec.runtime.aot.targets import EdgeTarget
from tapec.runtime.cpu import spelling
from tapec.runtime.cpu.expansion import Expansion, Reg

_INTRINSIC = re.compile(
    r"@llvm\.(fma|floor|ceil|roundeven|sqrt|minimum|maximum)\.(?:v(\d+))?(f32|f64)\("
)
_FROM_INTEGER = re.compile(r"\b([su]itofp) i64 (\S+) to (float|double)\b")
_TO_INTEGER = re.compile(r"@llvm\.fpto([su])i\.sat\.i64\.(f32|f64)\(")
_DIVISION = re.compile(r"\b([su])(div|rem) i64 (\S+), (\S+)$", re.MULTILINE)
_KINDS = {"f32": "float", "f64": "double"}


def complete(text: str, target: EdgeTarget) -> str:
    """A program's text with functions in the place of what the target has no instructions for."""
    return _Completion(target).run(text)


class _Completion:
    """The functions that one text turns out to need."""

    def __init__(self, target: EdgeTarget) -> None:
        self.target = target
        self.functions: dict[str, str] = {}

    def run(self, text: str) -> str:
        """The whole text, with them at its end."""
        text = _INTRINSIC.sub(self._intrinsic, text)
        if self.target.bits < 64 and not self.target.name.startswith("wasm"):
            text = _DIVISION.sub(self._division, text)
            if self.target.floats:
                text = _FROM_INTEGER.sub(self._from_integer, text)
                text = _TO_INTEGER.sub(self._to_integer, text)
        # What is added is complete: it uses nothing that could be missing.
        return "\n".join([text, *self.functions.values()])

    def _intrinsic(self, found: re.Match[str]) -> str:
        name, lanes, code = found[1], int(found[2] or 0), found[3]
        lacks = code not in self.target.floats
        if name == "fma":
            return found[0].replace("fma", "fmuladd") if lacks or not self.target.fma else found[0]
        if not lacks and (name in ("sqrt", "minimum", "maximum") or self.target.rounds):
            return found[0]
        kind = _KINDS[code]
        own = f"@tapec.lacking.{name}.{spelling.suffix(kind, lanes)}"
        if own not in self.functions:
            self.functions[own] = _function(own, _WRITTEN[name], kind, kind, lanes)
        return f"{own}("

    def _from_integer(self, found: re.Match[str]) -> str:
        word, value, kind = found.groups()
        own = f"@tapec.lacking.{word}.{kind}"
        write = _from_signed if word == "sitofp" else _from_unsigned
        if own not in self.functions:
            self.functions[own] = _function(own, lambda f, x: write(f, x, kind), "i64", kind, 0)
        return f"call {kind} {own}(i64 {value})"

    def _to_integer(self, found: re.Match[str]) -> str:
        sign, kind = found[1], _KINDS[found[2]]
        own = f"@tapec.lacking.fpto{sign}i.{kind}"
        write = _to_signed if sign == "s" else _to_unsigned
        if own not in self.functions:
            self.functions[own] = _function(own, write, kind, "i64", 0)
        return f"{own}("

    def _division(self, found: re.Match[str]) -> str:
        sign, word, a, b = found.groups()
        self.functions.setdefault("divide", _DIVIDE)
        return f"call i64 @tapec.lacking.{sign}{word}(i64 {a}, i64 {b})"


def _function(name: str, write: Callable[..., Reg], kind: str, result: str, lanes: int) -> str:
    """A function of ours as text."""
    f = Expansion(kind, lanes)
    count = 2 if write in (_minimum, _maximum) else 1
    given = [Reg(f, f"%x{i}", kind) for i in range(count)]
    end = write(f, *given)
    listed = ", ".join(f"{f.type(kind)} {x.name}" for x in given)
    lines = "\n".join(f.lines)
    wide = f.type(result)
    return f"define internal {wide} {name}({listed}) #0 {{\nentry:\n{lines}\n  ret {wide} {end.name}\n}}"


# ---- rounding to whole numbers: floats of 2^23 (2^52) and more are whole, below that adding it rounds to even


def _nearest(f: Expansion, x: Reg) -> tuple[Reg, Reg]:
    """The nearest whole number with the sign of x, and whether x is small enough to have another."""
    magic = f.choose(2.0**23, 2.0**52)
    size = abs(x)
    return f.copysign((size + magic) - magic, x), size < magic


def _floor(f: Expansion, x: Reg) -> Reg:
    near, small = _nearest(f, x)
    return f.select(small, f.copysign(f.select(near > x, near - 1.0, near), x), x)


def _ceil(f: Expansion, x: Reg) -> Reg:
    near, small = _nearest(f, x)
    return f.select(small, f.copysign(f.select(near < x, near + 1.0, near), x), x)


def _roundeven(f: Expansion, x: Reg) -> Reg:
    near, small = _nearest(f, x)
    return f.select(small, near, x)


def _sqrt(f: Expansion, x: Reg) -> Reg:
    """Newton's iteration from half the exponent; subnormals are scaled first."""
    tiny, scale = f.choose(2.0**-126, 2.0**-1022), f.choose(2.0**24, 2.0**54)
    small = x < tiny
    scaled = f.select(small, x * scale, x)
    start = f.choose(0x1FBD1DF5, 0x1FF7A3BEA91D9B1B)
    y = f.as_real(f.shift_right(f.as_int(scaled), 1) + int(start))
    for _ in range(int(f.choose(3, 4))):
        y = (y + scaled / y) * 0.5
    y = f.select(small, y * scale**-0.5, y)
    plain = f.select(x.equals(0.0) | x.equals(float("inf")), x, y)
    return f.select((x < 0.0) | x.is_nan(), f.real(float("nan")), plain)


def _minimum(f: Expansion, x: Reg, y: Reg) -> Reg:
    """The smaller; -0 is smaller than 0, and NaN is what comes of NaN."""
    equal = f.as_real(f.as_int(x) | f.as_int(y))
    ordered = f.select(x < y, x, f.select(y < x, y, equal))
    return f.select(x.is_nan() | y.is_nan(), x + y, ordered)


def _maximum(f: Expansion, x: Reg, y: Reg) -> Reg:
    """The larger; see `_minimum`."""
    equal = f.as_real(f.as_int(x) & f.as_int(y))
    ordered = f.select(x > y, x, f.select(y > x, y, equal))
    return f.select(x.is_nan() | y.is_nan(), x + y, ordered)


_WRITTEN: Mapping[str, Callable[..., Reg]] = {
    "floor": _floor,
    "ceil": _ceil,
    "roundeven": _roundeven,
    "sqrt": _sqrt,
    "minimum": _minimum,
    "maximum": _maximum,
}


# ---- integers of 64 bits, in halves


def _from_halves(f: Expansion, x: Reg, kind: str, word: str) -> Reg:
    high = f.convert(word, f.convert("trunc", f.shift_right(x, 32), "i32"), kind)
    low = f.convert("uitofp", f.convert("trunc", x, "i32"), kind)
    return high * 4294967296.0 + low


def _from_signed(f: Expansion, x: Reg, kind: str) -> Reg:
    return _from_halves(f, x, kind, "sitofp")


def _from_unsigned(f: Expansion, x: Reg, kind: str) -> Reg:
    return _from_halves(f, x, kind, "uitofp")


def _to_unsigned(f: Expansion, x: Reg) -> Reg:
    """Cut toward 0, saturated; NaN and what is negative give 0."""
    positive = f.select(x > 0.0, x, 0.0)
    scaled = positive * 2.0**-32
    m = spelling.suffix(x.kind, 0)
    high = f.emit(f"call i32 @llvm.fptoui.sat.i32.{m}({x.kind} {scaled.name})", "i32")
    rest = positive - f.convert("uitofp", high, x.kind) * 2.0**32
    low = f.emit(f"call i32 @llvm.fptoui.sat.i32.{m}({x.kind} {rest.name})", "i32")
    whole = (f.convert("zext", high, "i64") << 32) | f.convert("zext", low, "i64")
    return f.select(positive < 2.0**64, whole, f.constant(-1, "i64"))


def _to_signed(f: Expansion, x: Reg) -> Reg:
    """Cut toward 0, saturated; NaN gives 0."""
    size = _to_unsigned(f, abs(x))
    most = f.constant(2**63 - 1, "i64")
    positive = f.select(x < 2.0**63, size, most)
    negative = f.select(x > -(2.0**63), -size, f.constant(-(2**63), "i64"))
    found = f.select(x < 0.0, negative, positive)
    return f.select(x.is_nan(), f.constant(0, "i64"), found)


#: Division bit by bit. A divisor of 0 does not come here: `tapec.runtime.cpu.division` sees to that.
_DIVIDE = """
define internal i64 @tapec.lacking.divide(i64 %a, i64 %b, i1 %whole) noinline #0 {
entry:
  br label %turn
turn:
  %i = phi i32 [ 0, %entry ], [ %next, %turn ]
  %left = phi i64 [ %a, %entry ], [ %shifted, %turn ]
  %rest = phi i64 [ 0, %entry ], [ %kept, %turn ]
  %quotient = phi i64 [ 0, %entry ], [ %grown, %turn ]
  %top = lshr i64 %left, 63
  %shifted = shl i64 %left, 1
  %double = shl i64 %rest, 1
  %over = icmp slt i64 %rest, 0
  %now = or i64 %double, %top
  %above = icmp uge i64 %now, %b
  %fits = or i1 %above, %over
  %less = sub i64 %now, %b
  %kept = select i1 %fits, i64 %less, i64 %now
  %bit = zext i1 %fits to i64
  %room = shl i64 %quotient, 1
  %grown = or i64 %room, %bit
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, 64
  br i1 %more, label %turn, label %done
done:
  %result = select i1 %whole, i64 %grown, i64 %kept
  ret i64 %result
}
define internal i64 @tapec.lacking.udiv(i64 %a, i64 %b) #0 {
  %r = call i64 @tapec.lacking.divide(i64 %a, i64 %b, i1 true)
  ret i64 %r
}
define internal i64 @tapec.lacking.urem(i64 %a, i64 %b) #0 {
  %r = call i64 @tapec.lacking.divide(i64 %a, i64 %b, i1 false)
  ret i64 %r
}
define internal i64 @tapec.lacking.sdiv(i64 %a, i64 %b) #0 {
  %x = call i64 @llvm.abs.i64(i64 %a, i1 false)
  %y = call i64 @llvm.abs.i64(i64 %b, i1 false)
  %q = call i64 @tapec.lacking.divide(i64 %x, i64 %y, i1 true)
  %sign = xor i64 %a, %b
  %below = icmp slt i64 %sign, 0
  %minus = sub i64 0, %q
  %r = select i1 %below, i64 %minus, i64 %q
  ret i64 %r
}
define internal i64 @tapec.lacking.srem(i64 %a, i64 %b) #0 {
  %x = call i64 @llvm.abs.i64(i64 %a, i1 false)
  %y = call i64 @llvm.abs.i64(i64 %b, i1 false)
  %m = call i64 @tapec.lacking.divide(i64 %x, i64 %y, i1 false)
  %below = icmp slt i64 %a, 0
  %minus = sub i64 0, %m
  %r = select i1 %below, i64 %minus, i64 %m
  ret i64 %r
}
"""
