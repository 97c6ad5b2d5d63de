"""A small notation for functions on registers: Python expressions that write LLVM text.

A `Reg` is a scalar or a vector; ``x * y + z`` writes a multiplication and an addition, each rounded on its own (no
flag lets LLVM contract or reorder them, which the exactness arguments here depend on). `Expansion.fma` rounds once
where the processor can; `Expansion.exact_fma` does everywhere, for formulas that are wrong otherwise.
Numbers among the operands become constants of the other operand's type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tapec.runtime.cpu.text import spelling

_FLOATS = ("float", "double")
#: What follows an instruction of `Expansion.exact_fma`: a comment to LLVM.
EXACT = " ; exact"


@dataclass(frozen=True, eq=False)
class Reg:
    """A register of the function ``f``: its name, and the LLVM type of one lane."""

    f: Expansion
    name: str
    kind: str

    def __add__(self, other: Reg | float) -> Reg:
        return self.f.binary("add", self, other)

    def __sub__(self, other: Reg | float) -> Reg:
        return self.f.binary("sub", self, other)

    def __rsub__(self, other: float) -> Reg:
        return self.f.binary("sub", self.f.like(other, self), self)

    def __mul__(self, other: Reg | float) -> Reg:
        return self.f.binary("mul", self, other)

    def __truediv__(self, other: Reg | float) -> Reg:
        return self.f.binary("div", self, other)

    def __rtruediv__(self, other: float) -> Reg:
        return self.f.binary("div", self.f.like(other, self), self)

    def __neg__(self) -> Reg:
        return self.f.negative(self) if self.kind in _FLOATS else self.f.like(0, self) - self

    def __abs__(self) -> Reg:
        return self.f.intrinsic("fabs", self)

    def __and__(self, other: Reg | int) -> Reg:
        return self.f.bits("and", self, other)

    def __or__(self, other: Reg | int) -> Reg:
        return self.f.bits("or", self, other)

    def __xor__(self, other: Reg | int) -> Reg:
        return self.f.bits("xor", self, other)

    def __invert__(self) -> Reg:
        return self.f.bits("xor", self, -1)

    def __lshift__(self, other: Reg | int) -> Reg:
        return self.f.bits("shl", self, other)

    def __rshift__(self, other: Reg | int) -> Reg:
        """Arithmetic: the sign moves in."""
        return self.f.bits("ashr", self, other)

    def __lt__(self, other: Reg | float) -> Reg:
        return self.f.compare("lt", self, other)

    def __le__(self, other: Reg | float) -> Reg:
        return self.f.compare("le", self, other)

    def __gt__(self, other: Reg | float) -> Reg:
        return self.f.compare("gt", self, other)

    def __ge__(self, other: Reg | float) -> Reg:
        return self.f.compare("ge", self, other)

    def equals(self, other: Reg | float) -> Reg:
        """Lane by lane; NaN equals nothing."""
        return self.f.compare("eq", self, other)

    def differs(self, other: Reg | float) -> Reg:
        """The opposite of `equals`."""
        return self.f.compare("ne", self, other)

    def is_nan(self) -> Reg:
        """True where this is NaN."""
        return self.differs(self)


@dataclass(frozen=True, eq=False)
class Exponent:
    """A whole number ``n``: as a float, and with the bias of exponents added in the low bits of ``shifted``."""

    n: Reg
    shifted: Reg


class Expansion:
    """One function under construction, on scalars (``lanes`` 0) or vectors of ``kind``."""

    def __init__(self, kind: str, lanes: int, scales: bool = False) -> None:
        """``kind`` is the LLVM type of the arguments' lanes; ``scales``: as in `tapec.runtime.cpu.text.dialect`."""
        self.kind = kind
        self.lanes = lanes
        #: Whether the target has an instruction for `scaled` on registers of this size.
        self.scales = scales and lanes == {"float": 16, "double": 8}.get(kind)
        self.lines: list[str] = []
        #: Functions of ours that this one calls: (name, kind).
        self.called: list[tuple[str, str]] = []
        self._count = 0
        self._label = "entry"

    @property
    def is_double(self) -> bool:
        """Works on doubles, or on what goes with them."""
        return self.kind in ("double", "i64")

    @property
    def integer(self) -> str:
        """The integer type as wide as ``kind``."""
        return {"float": "i32", "double": "i64"}.get(self.kind, self.kind)

    def choose(self, single: float, double: float) -> float:
        """One of two numbers, by precision."""
        return double if self.is_double else single

    def type(self, kind: str) -> str:
        """The register type with this lane type."""
        return spelling.wide(kind, self.lanes)

    def emit(self, text: str, kind: str) -> Reg:
        """Write an instruction whose result has lanes of ``kind``."""
        self._count += 1
        name = f"%r{self._count}"
        self.lines.append(f"  {name} = {text}")
        return Reg(self, name, kind)

    # ---- constants

    def constant(self, value: float, kind: str) -> Reg:
        """The same number in every lane."""
        if kind in _FLOATS:
            text = spelling.literal(value, spelling.float_of(kind))
        elif kind == "i1":
            text = "true" if value else "false"
        else:
            bits = int(kind[1:])
            whole = int(value) & ((1 << bits) - 1)
            text = str(whole - (1 << bits) if whole >> (bits - 1) else whole)
        return Reg(self, spelling.splat_literal(kind, text) if self.lanes else text, kind)

    def real(self, value: float) -> Reg:
        """A constant of the function's own kind."""
        return self.constant(value, self.kind)

    def like(self, value: Reg | float, other: Reg) -> Reg:
        """A number as a constant of the other operand's kind; a register as it is."""
        return value if isinstance(value, Reg) else self.constant(value, other.kind)

    # ---- instructions

    def binary(self, word: str, x: Reg, y: Reg | float) -> Reg:
        """Arithmetic."""
        y = self.like(y, x)
        word = f"f{word}" if x.kind in _FLOATS else word
        return self.emit(f"{word} {self.type(x.kind)} {x.name}, {y.name}", x.kind)

    def bits(self, word: str, x: Reg, y: Reg | int) -> Reg:
        """Bitwise operations and shifts of integers and truth values."""
        y = self.like(y, x)
        return self.emit(f"{word} {self.type(x.kind)} {x.name}, {y.name}", x.kind)

    def shift_right(self, x: Reg, count: Reg | int) -> Reg:
        """Logical: zeros move in."""
        return self.bits("lshr", x, count)

    def compare(self, word: str, x: Reg, y: Reg | float) -> Reg:
        """A comparison; ordered for floats save ``ne``, signed for integers."""
        y = self.like(y, x)
        if x.kind in _FLOATS:
            code = f"fcmp {'une' if word == 'ne' else 'o' + word}"
        else:
            code = f"icmp {word if word in ('eq', 'ne') else 's' + word}"
        return self.emit(f"{code} {self.type(x.kind)} {x.name}, {y.name}", "i1")

    def below(self, x: Reg, y: Reg | int) -> Reg:
        """``x < y`` of unsigned integers."""
        y = self.like(y, x)
        return self.emit(f"icmp ult {self.type(x.kind)} {x.name}, {y.name}", "i1")

    def select(self, condition: Reg, x: Reg | float, y: Reg | float) -> Reg:
        """``x`` where the condition holds, else ``y``; numbers are of the function's kind."""
        kind = next((v.kind for v in (x, y) if isinstance(v, Reg)), self.kind)
        x = x if isinstance(x, Reg) else self.constant(x, kind)
        y = y if isinstance(y, Reg) else self.constant(y, kind)
        t = self.type(kind)
        text = f"select {self.type('i1')} {condition.name}, {t} {x.name}, {t} {y.name}"
        return self.emit(text, kind)

    def intrinsic(self, name: str, *operands: Reg) -> Reg:
        """A function of LLVM's that is one instruction or a few."""
        kind = operands[0].kind
        t = self.type(kind)
        arguments = ", ".join(f"{t} {x.name}" for x in operands)
        m = spelling.suffix(kind, self.lanes)
        return self.emit(f"call {t} @llvm.{name}.{m}({arguments})", kind)

    def negative(self, x: Reg) -> Reg:
        """A float with the other sign."""
        return self.emit(f"fneg {self.type(x.kind)} {x.name}", x.kind)

    def fma(self, x: Reg | float, y: Reg | float, z: Reg | float) -> Reg:
        """``x * y + z``, rounded once."""
        x, y, z = (v if isinstance(v, Reg) else self.real(v) for v in (x, y, z))
        return self.intrinsic("fma", x, y, z)

    def exact_fma(self, x: Reg | float, y: Reg | float, z: Reg | float) -> Reg:
        """``x * y + z``, exact where that is a float: with a mark for targets that have no instruction for it."""
        made = self.fma(x, y, z)
        self.lines[-1] += EXACT
        return made

    def sqrt(self, x: Reg) -> Reg:
        """The square root, correctly rounded."""
        return self.intrinsic("sqrt", x)

    def copysign(self, size: Reg | float, sign: Reg) -> Reg:
        """The size of one with the sign of the other."""
        return self.intrinsic("copysign", self.like(size, sign), sign)

    def convert(self, word: str, x: Reg, kind: str) -> Reg:
        """``bitcast``, ``sitofp`` and their kin."""
        text = f"{word} {self.type(x.kind)} {x.name} to {self.type(kind)}"
        return self.emit(text, kind)

    def as_int(self, x: Reg) -> Reg:
        """The bits of a float."""
        return self.convert("bitcast", x, {"float": "i32", "double": "i64"}[x.kind])

    def as_real(self, x: Reg) -> Reg:
        """The float with these bits."""
        return self.convert("bitcast", x, {"i32": "float", "i64": "double"}[x.kind])

    def to_real(self, x: Reg) -> Reg:
        """An integer's value as a float of the same width."""
        return self.convert("sitofp", x, {"i32": "float", "i64": "double"}[x.kind])

    def call(self, name: str, *operands: Reg) -> Reg:
        """Another function of ours."""
        kind = operands[0].kind
        self.called.append((name, kind))
        t = self.type(kind)
        arguments = ", ".join(f"{t} {x.name}" for x in operands)
        m = spelling.suffix(kind, self.lanes)
        return self.emit(f"call {t} @tapec.{name}.{m}({arguments})", kind)

    def look_up(self, name: str, index: Reg) -> Reg:
        """A word of a table of integers as wide as the index; the table is written with the function."""
        kind = index.kind
        wide = index if kind == "i64" else self.convert("sext", index, "i64")
        self.called.append((f"{name}.{kind[1:]}", ""))
        start = f"@tapec.{name}.{kind[1:]}"
        place = self.emit(
            f"getelementptr {kind}, ptr {start}, {self.type('i64')} {wide.name}", "ptr"
        )
        if not self.lanes:
            return self.emit(f"load {kind}, ptr {place.name}", kind)
        t, suffix = self.type(kind), spelling.suffix(kind, self.lanes)
        return self.emit(
            f"call {t} @llvm.masked.gather.{suffix}.v{self.lanes}p0(<{self.lanes} x ptr> {place.name}, "
            f"i32 {int(kind[1:]) // 8}, {self.type('i1')} splat (i1 true), {t} poison)",
            kind,
        )

    # ---- composed

    def poly(self, x: Reg, coefficients: Sequence[float]) -> Reg:
        """``c[0] + c[1] x + c[2] x^2 + …`` by Horner's rule."""
        total = self.real(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = self.fma(total, x, c)
        return total

    def round_int(self, x: Reg) -> tuple[Reg, Reg]:
        """The nearest integer as a float and as an integer; ``|x|`` must be below 2^22 (2^51 for doubles).

        Adding 1.5 * 2^23 (2^52) leaves the integer in the low bits; NaN stays NaN in the float.
        """
        magic = self.choose(1.5 * 2.0**23, 1.5 * 2.0**52)
        shifted = x + magic
        return shifted - magic, self.as_int(shifted) - self.as_int(self.real(magic))

    def power_of_two(self, n: Reg) -> Reg:
        """``2 ** n`` for an integer in the range of normal exponents."""
        bias, width = (1023, 52) if self.is_double else (127, 23)
        return self.as_real((n + bias) << width)

    def nearest(self, x: Reg, factor: float) -> Exponent:
        """The whole number nearest to ``x * factor``; as `round_int`, with the bias on top of it."""
        bias, top = (1023, 1.5 * 2.0**52) if self.is_double else (127, 1.5 * 2.0**23)
        shifted = self.fma(x, factor, top + bias)
        return Exponent(shifted - (top + bias), shifted)

    def power(self, exponent: Exponent) -> Reg:
        """``2 ** n`` for an ``n`` in the range of normal exponents."""
        return self.as_real(self.as_int(exponent.shifted) << (52 if self.is_double else 23))

    def whole(self, exponent: Exponent) -> Reg:
        """An exponent as an integer."""
        bias, top = (1023, 1.5 * 2.0**52) if self.is_double else (127, 1.5 * 2.0**23)
        return self.as_int(exponent.shifted) - self.as_int(self.real(top + bias))

    def scaled(self, y: Reg, exponent: Exponent) -> Reg:
        """``y * 2 ** n``, which may overflow, or underflow with one rounding; ``y`` is normal."""
        if self.scales:
            suffix, mask = ("pd", "i8") if self.is_double else ("ps", "i16")
            t = self.type(y.kind)
            operands = f"{t} {y.name}, {t} {exponent.n.name}, {t} {y.name}, {mask} -1, i32 4"
            name = f"@llvm.x86.avx512.mask.scalef.{suffix}.512"
            return self.emit(f"call {t} {name}({operands})", y.kind)
        n = self.whole(exponent)
        half = n >> 1
        return y * self.power_of_two(half) * self.power_of_two(n - half)

    def two_sum(self, x: Reg, y: Reg) -> tuple[Reg, Reg]:
        """The rounded sum and its error (Knuth)."""
        s = x + y
        b = s - x
        return s, (x - (s - b)) + (y - b)

    def fast_two_sum(self, x: Reg, y: Reg) -> tuple[Reg, Reg]:
        """The same for ``|x| >= |y|`` (Dekker)."""
        s = x + y
        return s, y - (s - x)

    def two_product(self, x: Reg, y: Reg) -> tuple[Reg, Reg]:
        """The rounded product and its error."""
        p = x * y
        return p, self.exact_fma(x, y, -p)

    # ---- control

    def any(self, condition: Reg) -> str:
        """One bit: whether a lane holds."""
        if not self.lanes:
            return condition.name
        self._count += 1
        name = f"%any{self._count}"
        vector = self.type("i1")
        self.lines.append(
            f"  {name} = call i1 @llvm.vector.reduce.or.v{self.lanes}i1({vector} {condition.name})"
        )
        return name

    def rarely(self, condition: Reg, usual: Reg, other: Callable[[], Reg]) -> Reg:
        """``usual``, or ``other()`` in the lanes where the condition holds; skipped when there are none."""
        some = self.any(condition)
        self._count += 1
        n, before = self._count, self._label
        self.lines += [f"  br i1 {some}, label %rare{n}, label %common{n}", f"rare{n}:"]
        self._label = f"rare{n}"
        mixed = self.select(condition, other(), usual)
        self.lines += [f"  br label %common{n}", f"common{n}:"]
        edges = f"[ {usual.name}, %{before} ], [ {mixed.name}, %{self._label} ]"
        self._label = f"common{n}"
        return self.emit(f"phi {self.type(usual.kind)} {edges}", usual.kind)

    def repeat(
        self,
        state: Sequence[Reg],
        going: Callable[..., Reg],
        step: Callable[..., Sequence[Reg]],
    ) -> list[Reg]:
        """While ``going(*state)`` holds in a lane, put ``step(*state)`` into those lanes."""
        self._count += 1
        n, before = self._count, self._label
        head, body, done = f"test{n}", f"step{n}", f"done{n}"
        inside = [Reg(self, f"%s{n}.{i}", r.kind) for i, r in enumerate(state)]
        self.lines += [f"  br label %{head}", f"{head}:"]
        place = len(self.lines)
        self._label = head
        condition = going(*inside)
        some = self.any(condition)
        self.lines += [f"  br i1 {some}, label %{body}, label %{done}", f"{body}:"]
        self._label = body
        stepped = step(*inside)
        following = [
            self.select(condition, new, old) for new, old in zip(stepped, inside, strict=True)
        ]
        self.lines += [f"  br label %{head}", f"{done}:"]
        phis = [
            f"  {r.name} = phi {self.type(r.kind)} "
            f"[ {first.name}, %{before} ], [ {last.name}, %{self._label} ]"
            for r, first, last in zip(inside, state, following, strict=True)
        ]
        self.lines[place:place] = phis
        self._label = done
        return inside
