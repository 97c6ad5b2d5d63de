"""Instructions that a processor lacks, written out, where LLVM would call a library that is not there.

The text of a program names them as LLVM's functions (``@llvm.floor.v4f32``) or instructions (``sitofp i64``). Here
those that the target lacks become functions of ours. Without a fused multiply-add, products are rounded before they
are added, save where a formula rests on their being exact. Roots are good to one unit in the last place, and so are
large integers as floats.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tapec.runtime.aot.targets import EdgeTarget
from tapec.runtime.cpu.mathematics.expansion import EXACT, Expansion, Reg
from tapec.runtime.cpu.text import spelling

_INTRINSIC = re.compile(
    r"@llvm\.(fma|floor|ceil|roundeven|sqrt|minimum|maximum)\.(?:v(\d+))?(f32|f64)\("
)
#: A product and a sum that have to be exact where the result is a float.
_EXACT = re.compile(rf"@llvm\.fma\.(?:v(\d+))?(f32|f64)\((.*)\){EXACT}$", re.MULTILINE)
_FROM_INTEGER = re.compile(
    r"\b([su])itofp (?:i64|<(\d+) x i64>) ([^<]\S*|splat \(.*?\)) to (?:<\d+ x )?(float|double)>?"
)
_CUT = re.compile(
    r"\bfpto([su])i (?:(?:float|double)|<(\d+) x (?:float|double)>) (\S+) to (?:<\d+ x )?i64>?"
)
_WIDE_PRODUCT = re.compile(r"\bmul (?:i128|<(\d+) x i128>) (\S+), (\S+)$", re.MULTILINE)
_TO_INTEGER = re.compile(r"@llvm\.fpto([su])i\.sat\.(?:v(\d+))?i64\.(?:v\d+)?(f32|f64)\(")
#: A float of 16 bits on its way to a register, to ``float`` and back; else its bits are what is moved.
_HALF = re.compile(
    r"= (bitcast|fpext|fptrunc) ((?:<(\d+) x )?(?:i16|half|float)>?) (.+?) to ((?:<\d+ x )?(?:i16|half|float)>?)$",
    re.MULTILINE,
)
_DIVISION = re.compile(r"\b([su])(div|rem) i64 (\S+), (\S+)$", re.MULTILINE)
#: By a number of bits that is not known: small code calls a library for that.
_SHIFT = re.compile(r"\b(shl|lshr|ashr) i64 (\S+), (%\S+)$", re.MULTILINE)
#: How many arguments those functions take that do not take one.
_COUNTS = {
    "_minimum": 2,
    "_maximum": 2,
    "_wide_product": 2,
    "_fma_in_double": 3,
    "_fma_in_parts": 3,
}
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
        text = _EXACT.sub(self._exact, text)
        text = _INTRINSIC.sub(self._intrinsic, text)
        if not self.target.half:
            text = _HALF.sub(self._half, text)
        if self.target.bits < 64 and not self.target.name.startswith("wasm"):
            text = _DIVISION.sub(self._division, text)
            if self.target.floats:
                text = _SHIFT.sub(self._shift, text)
                text = _FROM_INTEGER.sub(self._from_integer, text)
                text = _TO_INTEGER.sub(self._to_integer, text)
                text = _CUT.sub(self._cut, text)
        if self.target.name.startswith("wasm"):
            text = _WIDE_PRODUCT.sub(self._wide_product, text)
        # What is added is complete: it uses nothing that could be missing.
        return "\n".join([text, *self.functions.values()])

    def _intrinsic(self, found: re.Match[str]) -> str:
        name, lanes, code = found[1], int(found[2] or 0), found[3]
        lacks = code not in self.target.floats
        if name == "fma":
            return found[0].replace("fma", "fmuladd") if lacks or not self.target.fma else found[0]
        has = {"sqrt": True, "minimum": self.target.orders, "maximum": self.target.orders}
        if not lacks and has.get(name, self.target.rounds):
            return found[0]
        kind = _KINDS[code]
        own = f"@tapec.lacking.{name}.{spelling.suffix(kind, lanes)}"
        if own not in self.functions:
            self.functions[own] = _function(own, _WRITTEN[name], kind, kind, lanes)
        return f"{own}("

    def _exact(self, found: re.Match[str]) -> str:
        lanes, code = int(found[1] or 0), found[2]
        if self.target.fma and code in self.target.floats:
            return found[0]
        kind, wider = _KINDS[code], code == "f32" and "f64" in self.target.floats
        own = f"@tapec.lacking.exact_fma.{spelling.suffix(kind, lanes)}"
        if own not in self.functions:
            write = _fma_in_double if wider else _fma_in_parts
            self.functions[own] = _function(own, write, kind, kind, lanes)
        return f"{own}({found[3]})"

    def _half(self, found: re.Match[str]) -> str:
        """Registers of type ``half`` become their bits, so that no library has to convert them."""
        word, given, lanes, value, wanted = (
            found[1],
            found[2],
            int(found[3] or 0),
            found[4],
            found[5],
        )
        if "half" not in given + wanted:
            return found[0]
        bits = given.replace("half", "i16")
        if word == "bitcast":
            return f"= or {bits} {value}, zeroinitializer" if lanes else f"= or {bits} {value}, 0"
        wide = word == "fpext"
        own = f"@tapec.lacking.{'widen' if wide else 'narrow'}.{spelling.suffix('f16', lanes)}"
        if own not in self.functions:
            kinds = ("i16", "float") if wide else ("float", "i16")
            self.functions[own] = _function(own, _widen if wide else _narrow, *kinds, lanes)
        return f"= call {wanted.replace('half', 'i16')} {own}({bits} {value})"

    def _from_integer(self, found: re.Match[str]) -> str:
        sign, lanes, value, kind = found[1], int(found[2] or 0), found[3], found[4]
        own = f"@tapec.lacking.{sign}itofp.{spelling.suffix(kind, lanes)}"
        write = _from_signed if sign == "s" else _from_unsigned
        if own not in self.functions:
            self._lanes(own, lambda f, x: write(f, x, kind), "i64", kind, lanes)
        many, long = spelling.wide(kind, lanes), spelling.wide("i64", lanes)
        return f"call {many} {own}({long} {value})"

    def _to_integer(self, found: re.Match[str]) -> str:
        return f"{self._cutting(found[1], _KINDS[found[3]], int(found[2] or 0))}("

    def _cut(self, found: re.Match[str]) -> str:
        sign, lanes, value = found[1], int(found[2] or 0), found[3]
        kind = "double" if "double" in found[0] else "float"
        many, long = spelling.wide(kind, lanes), spelling.wide("i64", lanes)
        return f"call {long} {self._cutting(sign, kind, lanes)}({many} {value})"

    def _cutting(self, sign: str, kind: str, lanes: int) -> str:
        """The function that makes integers of floats."""
        own = f"@tapec.lacking.fpto{sign}i.{spelling.suffix(kind, lanes)}"
        write = _to_signed if sign == "s" else _to_unsigned
        if own not in self.functions:
            self._lanes(own, write, kind, "i64", lanes)
        return own

    def _lanes(
        self, own: str, write: Callable[..., Reg], kind: str, result: str, lanes: int
    ) -> None:
        """A function of ours, lane by lane: no processor here has vectors of integers so wide."""
        single = f"{own}.lane" if lanes else own
        self.functions.setdefault(single, _function(single, write, kind, result, 0))
        if lanes:
            count = _COUNTS.get(write.__name__, 1)
            self.functions[own] = _each_lane(own, single, kind, result, lanes, count)

    def _wide_product(self, found: re.Match[str]) -> str:
        lanes, a, b = int(found[1] or 0), found[2], found[3]
        own, many = (
            f"@tapec.lacking.mul.{spelling.suffix('i128', lanes)}",
            spelling.wide("i128", lanes),
        )
        if own not in self.functions:
            self._lanes(own, _wide_product, "i128", "i128", lanes)
        return f"call {many} {own}({many} {a}, {many} {b})"

    def _shift(self, found: re.Match[str]) -> str:
        word, value, count = found.groups()
        own = f"@tapec.lacking.{word}.i64"
        if own not in self.functions:
            self.functions[own] = _shifting(own, word)
        return f"call i64 {own}(i64 {value}, i64 {count})"

    def _division(self, found: re.Match[str]) -> str:
        sign, word, a, b = found.groups()
        self.functions.setdefault("divide", _DIVIDE)
        return f"call i64 @tapec.lacking.{sign}{word}(i64 {a}, i64 {b})"


def _function(name: str, write: Callable[..., Reg], kind: str, result: str, lanes: int) -> str:
    """A function of ours as text."""
    f = Expansion("float" if kind == "i16" else kind, lanes)
    count = _COUNTS.get(write.__name__, 1)
    given = [Reg(f, f"%x{i}", kind) for i in range(count)]
    end = write(f, *given)
    listed = ", ".join(f"{f.type(kind)} {x.name}" for x in given)
    lines = "\n".join(f.lines)
    wide = f.type(result)
    # LLVM would find out that it is one, and make it of its own.
    hidden = "nounwind noinline optnone" if write is _wide_product else "#0"
    return f"define internal {wide} {name}({listed}) {hidden} {{\nentry:\n{lines}\n  ret {wide} {end.name}\n}}"


def _each_lane(own: str, single: str, kind: str, result: str, lanes: int, count: int) -> str:
    """A function of vectors that calls one of numbers."""
    given, made = spelling.wide(kind, lanes), spelling.wide(result, lanes)
    lines = []
    for i in range(lanes):
        for k in range(count):
            lines.append(f"  %a{i}.{k} = extractelement {given} %x{k}, i32 {i}")
        listed = ", ".join(f"{kind} %a{i}.{k}" for k in range(count))
        lines.append(f"  %b{i} = call {result} {single}({listed})")
        before = f"%c{i - 1}" if i else "poison"
        lines.append(f"  %c{i} = insertelement {made} {before}, {result} %b{i}, i32 {i}")
    body = "\n".join(lines)
    listed = ", ".join(f"{given} %x{k}" for k in range(count))
    return f"define internal {made} {own}({listed}) #0 {{\nentry:\n{body}\n  ret {made} %c{i}\n}}"


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


def _fma_in_double(f: Expansion, x: Reg, y: Reg, z: Reg) -> Reg:
    """``x * y + z`` of floats: a product of two has room in a double."""
    x, y, z = (f.convert("fpext", v, "double") for v in (x, y, z))
    return f.convert("fptrunc", x * y + z, "float")


def _fma_in_parts(f: Expansion, x: Reg, y: Reg, z: Reg) -> Reg:
    """``x * y + z``, exact where the sum is a float: what the product loses is put together from halves (Dekker).

    Products of halves are exact, since each has half of the bits, the sign counting as one.
    """
    p = x * y
    (x_high, x_low), (y_high, y_low) = _halves(f, x), _halves(f, y)
    lost = ((x_high * y_high - p) + x_high * y_low + x_low * y_high) + x_low * y_low
    total, more = f.two_sum(p, z)
    return total + (more + lost)


def _halves(f: Expansion, x: Reg) -> tuple[Reg, Reg]:
    """A number rounded to half of its bits, and the rest."""
    dropped = int(f.choose(12, 27))
    bits = (f.as_int(x) + (1 << (dropped - 1))) & -(1 << dropped)
    high = f.as_real(bits)
    return high, x - high


_WRITTEN: Mapping[str, Callable[..., Reg]] = {
    "floor": _floor,
    "ceil": _ceil,
    "roundeven": _roundeven,
    "sqrt": _sqrt,
    "minimum": _minimum,
    "maximum": _maximum,
}


# ---- floats of 16 bits


def _widen(f: Expansion, x: Reg) -> Reg:
    """The same number as ``float``: what its bits say there, times the distance of the exponents."""
    bits = f.convert("zext", x, "i32")
    shifted = (bits & 0x7FFF) << 13
    size = f.as_real(shifted) * 2.0**112
    size = f.select(shifted >= 0x7C00 << 13, f.as_real(shifted | 0x7F800000), size)
    return f.as_real(f.as_int(size) | ((bits & 0x8000) << 16))


def _narrow(f: Expansion, x: Reg) -> Reg:
    """Rounded to nearest even. Adding 1/2 aligns what is below the normal range with the last bit that stays."""
    bits = f.as_int(x)
    size = bits & 0x7FFFFFFF
    odd = f.shift_right(size, 13) & 1
    normal = f.shift_right(size - 0x38000000 + odd + 0xFFF, 13)
    small = f.as_int(f.as_real(size) + 0.5) - 0x3F000000
    number = f.select(size < 0x38800000, small, normal)
    number = f.select(size >= 0x477FF000, f.constant(0x7C00, "i32"), number)
    quiet = (f.shift_right(size, 13) & 0x3FF) | 0x7E00
    number = f.select(size > 0x7F800000, quiet, number)
    return f.convert("trunc", number | f.shift_right(bits & -0x80000000, 16), "i16")


# ---- integers of 64 bits, in halves


def _from_unsigned(f: Expansion, x: Reg, kind: str) -> Reg:
    high = f.convert("uitofp", f.convert("trunc", f.shift_right(x, 32), "i32"), kind)
    low = f.convert("uitofp", f.convert("trunc", x, "i32"), kind)
    return high * 4294967296.0 + low


def _from_signed(f: Expansion, x: Reg, kind: str) -> Reg:
    """By its size: the halves of a small number below 0 are large, and cancel."""
    sign = x >> 63
    found = _from_unsigned(f, (x ^ sign) - sign, kind)
    return f.select(x < 0, -found, found)


def _to_unsigned(f: Expansion, x: Reg) -> Reg:
    """Cut toward 0, saturated; NaN and what is negative give 0."""
    positive = f.select(x > 0.0, x, 0.0)
    scaled = positive * 2.0**-32
    name = f"@llvm.fptoui.sat.i32.{spelling.suffix(x.kind, 0)}"
    high = f.emit(f"call i32 {name}({x.kind} {scaled.name})", "i32")
    rest = positive - f.convert("uitofp", high, x.kind) * 2.0**32
    low = f.emit(f"call i32 {name}({x.kind} {rest.name})", "i32")
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


def _wide_product(f: Expansion, x: Reg, y: Reg) -> Reg:
    """A product of integers of 128 bits, from those of 32."""
    x_low, y_low = f.convert("trunc", x, "i64"), f.convert("trunc", y, "i64")
    x_high, y_high = (f.convert("trunc", f.shift_right(v, 64), "i64") for v in (x, y))
    a, b = x_low & 0xFFFFFFFF, f.shift_right(x_low, 32)
    c, d = y_low & 0xFFFFFFFF, f.shift_right(y_low, 32)
    middle = b * c + f.shift_right(a * c, 32)
    more = a * d + (middle & 0xFFFFFFFF)
    high = b * d + f.shift_right(middle, 32) + f.shift_right(more, 32)
    high = high + x_low * y_high + x_high * y_low
    return (f.convert("zext", high, "i128") << 64) | f.convert("zext", x_low * y_low, "i128")


def _shifting(name: str, word: str) -> str:
    """A shift by 0 to 63 bits, in halves: ``near`` is the one that bits come out of, ``far`` the one they go to."""
    left = word == "shl"
    near, far = ("low", "high") if left else ("high", "low")
    back = "lshr" if left else "shl"
    empty = "ashr i32 %high, 31" if word == "ashr" else "add i32 0, 0"
    return f"""
define internal i64 {name}(i64 %x, i64 %n) noinline #0 {{
  %count = trunc i64 %n to i32
  %few = and i32 %count, 31
  %rest = xor i32 %few, 31
  %whole = and i32 %count, 32
  %many = icmp ne i32 %whole, 0
  %low = trunc i64 %x to i32
  %above = lshr i64 %x, 32
  %high = trunc i64 %above to i32
  %moved = {word} i32 %{near}, %few
  %one = {back} i32 %{near}, 1
  %across = {back} i32 %one, %rest
  %kept = {"shl" if left else "lshr"} i32 %{far}, %few
  %joined = or i32 %kept, %across
  %empty = {empty}
  %{near}.new = select i1 %many, i32 %empty, i32 %moved
  %{far}.new = select i1 %many, i32 %moved, i32 %joined
  %bottom = zext i32 %low.new to i64
  %top = zext i32 %high.new to i64
  %placed = shl i64 %top, 32
  %result = or i64 %placed, %bottom
  ret i64 %result
}}"""


#: Division bit by bit. A divisor of 0 does not come here: `tapec.runtime.cpu.mathematics.division` sees to that.
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
