"""Instructions of LLVM's as C expressions: what primitives and mathematical functions are spelled with.

One instruction, one expression: so C computes what an object computes, up to fused operations. Integers wrap, as they
do there: C leaves that to unsigned ones.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping

import numpy as np

from tapec.ir.errors import TargetError
from tapec.runtime.aot.c_wide import TYPE, WideIntegers

_FLOATS = ("float", "double")
_SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "fadd": "+", "fsub": "-", "fmul": "*",
    "fdiv": "/", "and": "&", "or": "|", "xor": "^", "shl": "<<", "lshr": ">>", "ashr": ">>",
    "sdiv": "/", "srem": "%", "udiv": "/", "urem": "%",
}  # fmt: skip
_COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_BINARY = re.compile(
    r"(f?(?:add|sub|mul)|fdiv|and|or|xor|shl|[al]shr|[su](?:div|rem))((?: (?:contract|nsw|nuw))*) (\w+) (.+), (.+)"
)
_COMPARE = re.compile(r"([fi])cmp (\w+) (\w+) (.+), (.+)")
_SELECT = re.compile(r"select i1 (.+), (\w+) (.+), \w+ (.+)")
_CONVERT = re.compile(
    r"(bitcast|[su]itofp|fpto[su]i|trunc|[sz]ext|fpext|fptrunc) (\w+) (.+) to (\w+)"
)
_CALL = re.compile(r"call (\w+) @(\S+?)\((.*)\)")
_NUMBER = re.compile(r"-?\d+|0x[0-9A-F]{16}|true|false|zeroinitializer")


def c_type(kind: str) -> str:
    """What C calls a type of LLVM's; truth values are whole ints, in C as everywhere.

    Raises:
        TargetError: C99 has none that is as wide.
    """
    if kind in _FLOATS:
        return kind
    if kind == "i1":
        return "int"
    if kind == "i128":
        return TYPE
    if kind in ("i8", "i16", "i32", "i64"):
        return f"int{kind[1:]}_t"
    raise TargetError(f"C99 has no type for LLVM's {kind}")


def function_name(name: str) -> str:
    """What C calls a function of LLVM's or ours."""
    return re.sub(r"\W", "_", name.removeprefix("llvm.").removeprefix("tapec."))


def constant(text: str, kind: str) -> str:
    """A number as C writes it, exact to the bit."""
    if kind in _FLOATS:
        if text == "zeroinitializer":
            text = "0x0000000000000000"
        value: float = struct.unpack(">d", bytes.fromhex(text[2:]))[0]
        if value != value:
            return "(0.0f / 0.0f)" if kind == "float" else "(0.0 / 0.0)"
        if value in (float("inf"), float("-inf")):
            sign = "-" if value < 0 else ""
            return f"({sign}1.0f / 0.0f)" if kind == "float" else f"({sign}1.0 / 0.0)"
        return _decimal(value, kind)
    if kind == "i1":
        return {"true": "1", "false": "0", "zeroinitializer": "0", "-1": "1"}.get(text, text)
    half = 1 << (int(kind[1:]) - 1)
    given = 0 if text == "zeroinitializer" else int(text)
    number = (given + half) % (2 * half) - half  # LLVM writes them with or without sign
    if kind == "i64":
        return "INT64_MIN" if number == -(2**63) else f"INT64_C({number})"
    if number == -(2**31):
        return "INT32_MIN"
    return str(number) if number >= 0 else f"({number})"


def _decimal(value: float, kind: str) -> str:
    """The shortest decimal that rounds to a value; what no decimal tells is in hexadecimal."""
    if kind == "double":
        text = repr(value)
    else:
        text = str(np.float32(value))
    text = text if re.search(r"[.en]", text) else f"{text}.0"
    text += "f" if kind == "float" else ""
    return f"({text})" if text.startswith("-") else text


class Translator:
    """Translates instructions; `helpers` are the small functions that this needs, as C text by name."""

    def __init__(self, call: Callable[[str, str], None]) -> None:
        """``call`` hears of each function that is called, by LLVM's name, with the type of its result."""
        self.call = call
        self.helpers: dict[str, str] = {}
        self.wide = WideIntegers(self.helpers)

    def expression(self, text: str, names: Mapping[str, str]) -> tuple[str, str]:
        """The C expression of an instruction, and the type of its value.

        Args:
            text: the instruction, without the name of its result.
            names: C's expressions for the registers in it.

        Raises:
            TargetError: C has nothing for it.
        """

        def value(operand: str, kind: str) -> str:
            operand = operand.strip()
            if not _NUMBER.fullmatch(operand):
                return names[operand]
            return self.wide.constant(int(operand)) if kind == "i128" else constant(operand, kind)

        if found := _BINARY.fullmatch(text):
            word, _, kind, a, b = found.groups()
            return self._binary(word, kind, value(a, kind), value(b, kind)), kind
        if found := _COMPARE.fullmatch(text):
            family, code, kind, a, b = found.groups()
            return self._compare(family, code, kind, value(a, kind), value(b, kind)), "i1"
        if found := _SELECT.fullmatch(text):
            condition, kind, a, b = found.groups()
            return f"({value(condition, 'i1')} ? {value(a, kind)} : {value(b, kind)})", kind
        if found := re.fullmatch(r"fneg (\w+) (.+)", text):
            return f"(-{value(found[2], found[1])})", found[1]
        if found := _CONVERT.fullmatch(text):
            word, kind, a, wanted = found.groups()
            return self._convert(word, kind, value(a, kind), wanted), wanted
        if found := _CALL.fullmatch(text):
            kind, name, listed = found.groups()
            given = [part.strip().split(" ", 1) for part in listed.split(",") if part.strip()]
            values = [value(operand, of) for of, operand in given]
            return self._function(name, kind, values, [of for of, _ in given]), kind
        raise TargetError(f"C has nothing for the instruction {text}")

    def _binary(self, word: str, kind: str, a: str, b: str) -> str:
        symbol = _SYMBOLS[word]
        if kind == "i128" and (wide := self.wide.binary(word, a, b)) is not None:
            return wide
        if kind in _FLOATS or kind == "i1":
            return f"({a} {symbol} {b})"
        signed, bits = c_type(kind), kind[1:]
        if word in ("ashr", "sdiv", "srem"):
            return f"({signed})({a} {symbol} {b})"
        if word in ("and", "or", "xor"):
            return f"({a} {symbol} {b})"
        # Narrow integers would be widened to int, which may overflow.
        wide = f"uint{max(int(bits), 32)}_t"
        left = f"({wide})(u{signed}){a}" if word in ("lshr", "udiv", "urem") else f"({wide}){a}"
        right = b if word in ("shl", "lshr") else f"({wide}){b}"
        return f"({signed})({left} {symbol} {right})"

    def _compare(self, family: str, code: str, kind: str, a: str, b: str) -> str:
        if family == "f":
            if code == "uno":
                return f"({a} != {a} || {b} != {b})"
            if code == "one":
                return f"({a} < {b} || {a} > {b})"
            if code[0] == "u" and code != "une":
                raise TargetError(f"C has nothing for fcmp {code}")
            return f"({a} {_COMPARED[code[1:]]} {b})"
        if code in ("eq", "ne") or code[0] == "s":
            return f"({a} {_COMPARED[code if code in ('eq', 'ne') else code[1:]]} {b})"
        wide = f"u{c_type(kind)}" if kind != "i1" else "unsigned"
        return f"(({wide}){a} {_COMPARED[code[1:]]} ({wide}){b})"

    def _convert(self, word: str, kind: str, a: str, wanted: str) -> str:
        if "i128" in (kind, wanted) and (wide := self.wide.convert(word, kind, a, wanted)):
            return wide
        if word == "bitcast":
            return a if kind == wanted else self.bits(kind, a, wanted)
        if word in ("uitofp", "zext") and kind != "i1":
            return f"({c_type(wanted)})(u{c_type(kind)}){a}"
        if word in ("sext", "sitofp") and kind == "i1":
            return f"({c_type(wanted)})(-{a})"
        if wanted == "i1":
            return f"({a} & 1)"
        return f"({c_type(wanted)}){a}"

    def bits(self, kind: str, a: str, wanted: str) -> str:
        """A value's bits as another type of the same width."""
        name = f"{kind}_as_{wanted}"
        old, new = c_type(kind), c_type(wanted)
        self.helpers[name] = (
            f"static {new} tapec_{name}({old} x) {{\n"
            f"    union {{ {old} from; {new} to; }} bits;\n    bits.from = x;\n"
            f"    return bits.to;\n}}\n"
        )
        return f"tapec_{name}({a})"

    def _function(self, name: str, kind: str, values: list[str], types: list[str]) -> str:
        short = name.split(".")[1]
        of = types[0]
        if short == "fmuladd":
            return f"({values[0]} * {values[1]} + {values[2]})"
        if name.startswith("llvm."):
            body = _intrinsic(short, of, kind, self.bits)
            own = f"{short}_{of}" + (f"_{kind}" if kind != of else "")
            if body is None:
                raise TargetError(f"C has nothing for LLVM's {name}")
            if short in ("abs", "ctlz", "cttz"):
                values = values[:1]
            listed = ", ".join(f"{c_type(of)} {v}" for v in "xyz"[: len(values)])
            self.helpers[own] = f"static {c_type(kind)} tapec_{own}({listed}) {{\n{body}\n}}\n"
            return f"tapec_{own}({', '.join(values)})"
        self.call(name, kind)
        return f"tapec_{function_name(name)}({', '.join(values)})"


def _intrinsic(name: str, of: str, kind: str, bits: Callable[[str, str, str], str]) -> str | None:
    """The body of a function of LLVM's; None if C has none."""
    if name in ("smax", "umax", "smin", "umin"):
        cast = f"(u{c_type(of)})" if name[0] == "u" else ""
        symbol = ">" if name.endswith("max") else "<"
        return f"    return {cast}x {symbol} {cast}y ? x : y;"
    if name in ("maximum", "minimum"):
        symbol, both = (">", "&") if name == "maximum" else ("<", "|")
        whole = {"float": "i32", "double": "i64"}[of]
        # Of equal numbers only the signs of zeros differ.
        same = bits(whole, f"{bits(of, 'x', whole)} {both} {bits(of, 'y', whole)}", of)
        return f"    if (x == y) return {same};\n    return x {symbol} y || x != x ? x : y;"
    if name == "fabs":
        return f"    return x < 0 ? -x : x + {constant('zeroinitializer', of)};"
    if name == "copysign":
        whole = {"float": "i32", "double": "i64"}[of]
        low = "INT32_MAX" if of == "float" else "INT64_MAX"
        return (
            f"    {c_type(whole)} size = {bits(of, 'x', whole)}, sign = {bits(of, 'y', whole)};\n"
            f"    return {bits(whole, f'(size & {low}) | (sign & ~{low})', of)};"
        )
    if name == "abs":
        return f"    return x < 0 ? ({c_type(of)})(0 - (u{c_type(of)})x) : x;"
    if name in ("fptosi", "fptoui"):
        return _saturated(name, of, kind)
    if name == "fshl":
        width, wide = int(of[1:]), f"u{c_type(of)}"
        turned = f"({wide})x << z | ({wide})y >> ({width} - z)"
        return f"    z &= {width - 1};\n    return z == 0 ? x : ({c_type(of)})({turned});"
    if name in ("ctlz", "cttz"):
        bits_of, wide = of[1:], f"u{c_type(of)}"
        step = "<<= 1" if name == "ctlz" else ">>= 1"
        mask = f"({wide})1 << {int(bits_of) - 1}" if name == "ctlz" else "1"
        return (
            f"    {wide} rest = ({wide})x;\n    {c_type(of)} count = 0;\n"
            f"    while (count < {bits_of} && !(rest & ({mask}))) {{ rest {step}; count++; }}\n"
            "    return count;"
        )
    return None


def _saturated(name: str, of: str, kind: str) -> str:
    """A float cut toward 0, held to what the integer can be; NaN is 0."""
    width = int(kind[1:])
    suffix = "f" if of == "float" else ""
    signed = name == "fptosi"
    top = 2.0 ** (width - 1 if signed else width)
    most = f"INT{width}_MAX" if signed else f"({c_type(kind)})UINT{width}_MAX"
    least = f"INT{width}_MIN" if signed else "0"
    low = f"x <= {-top}{suffix}" if signed else "x <= 0"
    cast = c_type(kind) if signed else f"u{c_type(kind)}"
    return (
        f"    if (x != x || ({low})) return x != x ? 0 : {least};\n"
        f"    return x >= {top}{suffix} ? {most} : ({c_type(kind)})({cast})x;"
    )
