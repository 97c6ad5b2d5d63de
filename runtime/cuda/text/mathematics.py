"""Mathematical functions as Python text, from the expansions that the CPU's are made of.

`tapec.runtime.cpu.mathematics.vectormath` writes each function through a small notation
(`tapec.runtime.cpu.mathematics.expansion`); here the notation writes typed Python of one number. So both give the same
numbers, and no library is behind either. Products are ``mul_f32(x, y)``: what is written as a product and a sum must
not be rounded once.

Integers are signed in these texts, whatever they stand for: ``floordiv_i32``. Those of 128 bits are two of 64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import copysign, inf, isnan

from tapec.ir.errors import TargetError
from tapec.runtime.cpu.mathematics.expansion import Expansion, Reg
from tapec.runtime.cpu.mathematics.large_angles import table
from tapec.runtime.cpu.mathematics.vectormath import EXPANSIONS

#: LLVM's names of dtypes, as text has them.
CODES = {"float": "f32", "double": "f64", "i1": "bool"} | {
    f"i{n}": f"i{n}" for n in (8, 16, 32, 64)
}
KINDS = {code: kind for kind, code in CODES.items()}
_FLOATS = ("float", "double")
_WORDS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^", "shl": "<<"}
_TESTS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_INTRINSICS = {"fabs": "abs", "roundeven": "rint", "sqrt": "sqrt", "floor": "floor"}
_BINARY = {"atan2", "pow", "upow", "floordiv", "mod", "udiv", "umod", "shl", "shr", "ushr"}
_BINARY |= {"max", "min"}


def _larger(f: Expansion, x: Reg, y: Reg) -> Reg:
    """The larger one; of floats NaN if any is, and 0 is above -0."""
    if x.kind not in _FLOATS:
        return f.select(y > x, y, x)
    value = f.select(y > x, y, f.select(y < x, x, _of_equals(f, x, y, "and")))
    return f.select(x.is_nan(), x, f.select(y.is_nan(), y, value))


def _smaller(f: Expansion, x: Reg, y: Reg) -> Reg:
    """The smaller one; of floats NaN if any is, and -0 is below 0."""
    if x.kind not in _FLOATS:
        return f.select(y < x, y, x)
    value = f.select(y < x, y, f.select(y > x, x, _of_equals(f, x, y, "or")))
    return f.select(x.is_nan(), x, f.select(y.is_nan(), y, value))


def _of_equals(f: Expansion, x: Reg, y: Reg, word: str) -> Reg:
    """The bits of two equal floats, which differ in the sign of a zero only."""
    return f.as_real(f.bits(word, f.as_int(x), f.as_int(y)))


def _absolute(f: Expansion, x: Reg) -> Reg:
    """The size of an integer; that of the lowest wraps."""
    return f.select(x < 0, -x, x)


#: Functions that LLVM has itself.
_OWN: Mapping[str, Callable[..., Reg]] = {"max": _larger, "min": _smaller, "abs": _absolute}
FUNCTIONS: Mapping[str, Callable[..., Reg]] = {**EXPANSIONS, **_OWN}


class TextExpansion(Expansion):
    """A function of one number of each argument, as statements of Python's."""

    def __init__(self, kind: str) -> None:
        """``kind`` is LLVM's type of the arguments."""
        super().__init__(kind, 0)
        #: Names of functions and primitives that the text calls.
        self.names: set[str] = set()
        self._depth = 1

    def write(self, text: str) -> None:
        """A statement."""
        self.lines.append("    " * self._depth + text)

    def emit(self, text: str, kind: str) -> Reg:
        """Give an expression a name; an equal one has it already, if it is there to be read."""
        self._count += 1
        name = f"r{self._count}"
        self.write(f"{name} = {text}")
        return Reg(self, name, kind)

    def named(self, name: str, kind: str) -> str:
        """A function for a dtype, which the text calls."""
        found = f"{name}_{CODES[kind]}"
        self.names.add(found)
        return found

    def constant(self, value: float, kind: str) -> Reg:
        """A literal."""
        if kind == "i1":
            return Reg(self, str(bool(value)), kind)
        if kind in _FLOATS:
            return Reg(self, f"{CODES[kind]}({_real(value)})", kind)
        if kind == "i128":
            return Reg(self, f"i64({int(value) >> 64})|i64({_signed(int(value), 64)})", kind)
        return Reg(self, f"{CODES[kind]}({_signed(int(value), int(kind[1:]))})", kind)

    # ---- instructions

    def binary(self, word: str, x: Reg, y: Reg | float) -> Reg:
        """Arithmetic; integers wrap."""
        y = self.like(y, x)
        if x.kind == "i128":
            return self._wide(word, x, y)
        if x.kind in _FLOATS:
            if word == "mul":
                return self.emit(f"{self.named('mul', x.kind)}({x.name}, {y.name})", x.kind)
            sign = "/" if word == "div" else _WORDS[word]
            return self.emit(f"{x.name} {sign} {y.name}", x.kind)
        return self.emit(f"{CODES[x.kind]}({x.name} {_WORDS[word]} {y.name})", x.kind)

    def bits(self, word: str, x: Reg, y: Reg | int) -> Reg:
        """Bitwise operations, shifts, and division of integers."""
        y = self.like(y, x)
        if x.kind == "i128":
            return self._wide(word, x, y)
        if x.kind == "i1":
            return self.emit(f"{x.name} {_WORDS[word].replace('^', '!=')} {y.name}", "i1")
        code = CODES[x.kind]
        if word in _WORDS:
            return self.emit(f"{code}({x.name} {_WORDS[word]} {y.name})", x.kind)
        if word == "ashr":
            return self.emit(f"{code}({x.name} >> {y.name})", x.kind)
        if word == "sdiv":
            return self.emit(f"{self.named('sdiv', x.kind)}({x.name}, {y.name})", x.kind)
        u, sign = f"u{code[1:]}", {"lshr": ">>", "udiv": "//", "urem": "%"}[word]
        return self.emit(f"{code}({u}({x.name}) {sign} {u}({y.name}))", x.kind)

    def compare(self, word: str, x: Reg, y: Reg | float) -> Reg:
        """A comparison, signed for integers."""
        y = self.like(y, x)
        return self.emit(f"{x.name} {_TESTS[word]} {y.name}", "i1")

    def below(self, x: Reg, y: Reg | int) -> Reg:
        """A comparison of integers as unsigned ones."""
        y = self.like(y, x)
        u = f"u{x.kind[1:]}"
        return self.emit(f"{u}({x.name}) < {u}({y.name})", "i1")

    def select(self, condition: Reg, x: Reg | float, y: Reg | float) -> Reg:
        """One of two numbers."""
        kind = next((v.kind for v in (x, y) if isinstance(v, Reg)), self.kind)
        x = x if isinstance(x, Reg) else self.constant(x, kind)
        y = y if isinstance(y, Reg) else self.constant(y, kind)
        return self.emit(f"{x.name} if {condition.name} else {y.name}", kind)

    def intrinsic(self, name: str, *operands: Reg) -> Reg:
        """A primitive."""
        kind = operands[0].kind
        if name == "fshl":
            a, b, shift = operands
            high = self.bits("shl", a, shift)
            width = int(kind[1:])
            low = self.shift_right(self.shift_right(b, 1), self.bits("xor", shift, width - 1))
            return self.bits("or", high, low)
        called = self.named(_INTRINSICS.get(name, name), kind)
        return self.emit(f"{called}({', '.join(x.name for x in operands)})", kind)

    def exact_fma(self, x: Reg | float, y: Reg | float, z: Reg | float) -> Reg:
        """``x * y + z``, which every device rounds once."""
        return self.fma(x, y, z)

    def negative(self, x: Reg) -> Reg:
        """A float with the other sign."""
        return self.emit(f"-{x.name}", x.kind)

    def convert(self, word: str, x: Reg, kind: str) -> Reg:
        """Another type, by LLVM's words."""
        if word == "bitcast":
            called = self.named("bits" if x.kind in _FLOATS else "real", x.kind)
            return self.emit(f"{called}({x.name})", kind)
        if kind == "i128":
            return Reg(self, f"i64(0)|{x.name}", kind)
        if word == "trunc" and x.kind == "i128":
            return self.emit(x.name.partition("|")[2], kind)
        if word in ("zext", "uitofp"):
            inner = f"u{CODES[x.kind][1:]}({x.name})"
            return self.emit(f"{CODES[kind]}({inner})", kind)
        return self.emit(f"{CODES[kind]}({x.name})", kind)

    def call(self, name: str, *operands: Reg) -> Reg:
        """Another function of ours."""
        kind = operands[0].kind
        called = self.named(name, kind)
        return self.emit(f"{called}({', '.join(x.name for x in operands)})", kind)

    def look_up(self, name: str, index: Reg) -> Reg:
        """A word of a table."""
        called = f"{name}_{CODES[index.kind]}"
        self.names.add(called)
        return self.emit(f"{called}({index.name})", index.kind)

    # ---- 128 bits: high and low half, in one name

    def _wide(self, word: str, x: Reg, y: Reg) -> Reg:
        (a, b), (c, d) = x.name.split("|"), y.name.split("|")
        if word == "mul":
            self.names.add("mulhi_u64")
            low = self.emit(f"i64({b} * {d})", "i64")
            over = self.emit(f"i64(mulhi_u64(u64({b}), u64({d})))", "i64")
            high = self.emit(f"i64({over.name} + i64(i64({a} * {d}) + i64({b} * {c})))", "i64")
        elif word in ("add", "sub"):
            sign = _WORDS[word]
            low = self.emit(f"i64({b} {sign} {d})", "i64")
            test = f"u64({low.name}) < u64({b})" if word == "add" else f"u64({b}) < u64({d})"
            carry = self.emit(f"i64(1) if {test} else i64(0)", "i64")
            high = self.emit(f"i64(i64({a} {sign} {c}) {sign} {carry.name})", "i64")
        else:
            return self._shifted(word, a, b, int(d[4:-1]))
        return Reg(self, f"{high.name}|{low.name}", "i128")

    def _shifted(self, word: str, high: str, low: str, count: int) -> Reg:
        """A number of 128 bits moved by 64 bits or more."""
        rest = count - 64
        if word == "shl":
            return Reg(
                self, f"{self.emit(f'i64({low} << i64({rest}))', 'i64').name}|i64(0)", "i128"
            )
        if word == "lshr":
            moved = self.emit(f"i64(u64({high}) >> u64({rest}))", "i64").name
            return Reg(self, f"i64(0)|{moved}", "i128")
        moved, sign = (self.emit(f"i64({high} >> i64({n}))", "i64").name for n in (rest, 63))
        return Reg(self, f"{sign}|{moved}", "i128")

    # ---- control

    def rarely(self, condition: Reg, usual: Reg, other: Callable[[], Reg]) -> Reg:
        """``usual``, or ``other()`` if the condition holds."""
        chosen = self.emit(usual.name, usual.kind)
        self.write(f"if {condition.name}:")
        self._depth += 1
        self.write(f"{chosen.name} = {other().name}")
        self._depth -= 1
        return chosen

    def repeat(
        self,
        state: Sequence[Reg],
        going: Callable[..., Reg],
        step: Callable[..., Sequence[Reg]],
    ) -> list[Reg]:
        """While ``going(*state)`` holds, go on with ``step(*state)``."""
        inside = [self.emit(r.name, r.kind) for r in state]
        self.write("while True:")
        self._depth += 1
        self.write(f"if not {going(*inside).name}:")
        self.lines.append("    " * (self._depth + 1) + "break")
        following = ", ".join(r.name for r in step(*inside))
        self.write(f"{', '.join(r.name for r in inside)} = {following}")
        self._depth -= 1
        return inside


def _real(value: float) -> str:
    if isnan(value):
        return "nan"
    if abs(value) == inf:
        return "inf" if value > 0 else "-inf"
    return repr(float(value)) if value or copysign(1.0, value) < 0 else "0.0"


def _signed(value: int, bits: int) -> int:
    whole = value & ((1 << bits) - 1)
    return whole - (1 << bits) if whole >> (bits - 1) else whole


@dataclass
class Functions:
    """The functions that some kernels call, by name, each after those that it calls itself."""

    texts: dict[str, str] = field(default_factory=dict)
    #: Primitives that they call.
    primitives: set[str] = field(default_factory=set)

    def need(self, name: str) -> None:
        """Have a function written.

        Raises:
            TargetError: there is none of that name.
        """
        if name in self.texts or name in self.primitives:
            return
        stem, _, code = name.rpartition("_")
        if stem == "two_over_pi":
            self.texts[name] = _words(code)
        elif stem in FUNCTIONS and code in KINDS and not _is_primitive(stem, code):
            text, called = _function(stem, code)
            for other in sorted(called):
                self.need(other)
            self.texts[name] = text
        else:
            self.primitives.add(name)


def _is_primitive(stem: str, code: str) -> bool:
    return (stem == "abs" and code[0] == "f") or (stem in ("max", "min") and code == "f32")


def _function(stem: str, code: str) -> tuple[str, set[str]]:
    f = TextExpansion(KINDS[code])
    names = ["x", "y"] if stem in _BINARY else ["x"]
    arguments = [Reg(f, name, f.kind) for name in names]
    result = FUNCTIONS[stem](f, *arguments)
    head = f"def {stem}_{code}({', '.join(names)}):"
    return "\n".join([head, *f.lines, f"    return {result.name}", ""]), f.names


def _words(code: str) -> str:
    """A function that looks a word of 2/pi up, by halving."""
    bits = int(code[1:])
    words = [_signed(int(word), bits) for word in re.findall(rf"i{bits} (-?\d+)", table(bits))]
    lines = [f"def two_over_pi_{code}(i):"]

    def some(low: int, high: int, depth: int) -> None:
        indent = "    " * depth
        if high - low == 1:
            lines.append(f"{indent}return {code}({words[low]})")
            return
        middle = (low + high) // 2
        lines.append(f"{indent}if i < {code}({middle}):")
        some(low, middle, depth + 1)
        some(middle, high, depth)

    some(0, len(words), 1)
    return "\n".join([*lines, ""])


def check_known(names: set[str], known: set[str]) -> None:
    """Refuse what nobody has.

    Raises:
        TargetError: a name is neither a function nor a primitive.
    """
    missing = sorted(names - known)
    if missing:
        raise TargetError(f"the cuda target has no {', '.join(missing)}")
