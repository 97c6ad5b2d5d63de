"""The array API standard's sentences on special cases, read as conditions on numbers and what must come of them.

The standard states them in the docstrings of its functions, which ``types-array-api`` holds: "If ``x_i`` is ``NaN``,
the result is ``NaN``." A sentence is read into a `Case`; what can't be read is kept apart, to be counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path

#: The operands of one sentence by their names in it: ``x_i``; ``x1_i`` and ``x2_i``; ``a`` and ``b`` of ``a + bj``.
Operands = Mapping[str, float]
Condition = Callable[[Operands], bool]

CODE = r"``([^`]+)``"
SUBJECT = r"``((?:abs\()?(?:x_i|x1_i|x2_i|a|b)\)?)``"
#: What a sentence may say of one operand, as a test of its value and of the numbers written behind it.
PREDICATES: list[tuple[str, Callable[..., bool]]] = [
    (rf"is either a finite number or {CODE}", lambda v, w: math.isfinite(v) or same(v, w)),
    (rf"is a finite number or {CODE}", lambda v, w: math.isfinite(v) or same(v, w)),
    (r"is (?:a )?finite(?: number)?", math.isfinite),
    (r"is a nonzero (?:finite )?number", lambda v: math.isfinite(v) and v != 0),
    (
        r"is a positive (?:\(i\.e\., greater than ``0``\) )?finite number",
        lambda v: math.isfinite(v) and v > 0,
    ),
    (
        r"is a negative (?:\(i\.e\., less than ``0``\) )?finite number",
        lambda v: math.isfinite(v) and v < 0,
    ),
    (r"is not an odd integer value", lambda v: not v % 2 == 1),
    (r"is an odd integer value", lambda v: v % 2 == 1),
    (r"is not an integer value", lambda v: v % 1 != 0),
    (r"is already integer-valued", lambda v: v % 1 == 0),
    (r"is any value(?:,? \(?including ``NaN``\)?)?", lambda v: True),
    (rf"is either {CODE} or {CODE}", lambda v, w, u: same(v, w) or same(v, u)),
    (rf"is {CODE} or {CODE}", lambda v, w, u: same(v, w) or same(v, u)),
    (rf"is not equal to {CODE}", lambda v, w: v != w),
    (rf"is not {CODE}", lambda v, w: not same(v, w)),
    (rf"is greater than {CODE}", lambda v, w: v > w),
    (rf"is less than {CODE}", lambda v, w: v < w),
    (rf"(?:is|equals) {CODE}", lambda v, w: same(v, w)),
]
NAMES = (("x_i",), ("x1_i", "x2_i"), ("a", "b"))
AND = re.compile(r",? and (?=``|the sign)|, (?=``)")
SENTENCE = re.compile(r"- +If (.+?), the result is (.+)")
SIZE = r"(?:NaN|infinity|\d*π(?:/\d)?|\d+(?:\.0)?)"


@dataclass(frozen=True)
class Case:
    """One sentence: where its condition holds, the result is among what is wanted."""

    function: str
    text: str
    #: The operands it speaks of: ``("x_i",)``, ``("x1_i", "x2_i")`` or ``("a", "b")``.
    names: tuple[str, ...]
    holds: Condition
    wanted: Callable[[Operands], list[tuple[float, ...]]]
    #: Whether each part of the result has its sign stated (a zero written without one may have either).
    signed: tuple[bool, ...]


def same(v: float, w: float) -> bool:
    """Whether two numbers are one, a zero with its sign, NaN with NaN."""
    return (v == w and (v != 0 or math.copysign(1, v) == math.copysign(1, w))) or (
        v != v and w != w
    )


def number(text: str) -> float:
    """The value of ``+infinity``, ``-0``, ``3π/4``, ``NaN``, ``1.0``."""
    text = text.replace(" ", "").replace("±", "").replace("infinity", "inf")
    top, _, bottom = text.partition("/")
    if "π" in top:
        top, pi = top.replace("π", ""), math.pi
        top = top + "1" if top in ("", "+", "-") else top
    else:
        pi = 1.0
    return float(top) * pi / float(bottom or 1)


def condition(text: str) -> Condition:
    """All that ``text`` says joined by "and"; ``ValueError`` if a part of it can't be read."""
    if m := re.fullmatch(rf"(?:either )?{SUBJECT} (?:(is .+) )?or {SUBJECT} (is .+)", text):
        either = [atom(f"``{m[1]}`` {m[2] or m[4]}"), atom(f"``{m[3]}`` {m[4]}")]
        return lambda at: any(c(at) for c in either)
    parts = [atom(part) for part in AND.split(text)]
    return lambda at: all(c(at) for c in parts)


def atom(text: str) -> Condition:
    if m := re.fullmatch(rf"the sign bit of {SUBJECT} is ``([01])``", text):
        name, bit = m[1], m[2]
        return lambda at: (math.copysign(1, at[name]) < 0) == (bit == "1")
    if m := re.fullmatch(rf"{SUBJECT} (equals|does not equal|is) (?:{SUBJECT}|``-(x1_i)``)", text):
        left, right, sign, equal = m[1], m[3] or m[4], -1 if m[4] else 1, m[2] != "does not equal"
        return lambda at: (at[left] == sign * at[right]) == equal
    if m := re.match(SUBJECT + " ", text):
        subject, rest = m[1], text[m.end() :]
        for pattern, test in PREDICATES:
            if found := re.fullmatch(pattern, rest):
                values = [number(v) for v in found.groups()]
                return lambda at: test(operand(subject, at), *values)
    raise ValueError(text)


def operand(subject: str, at: Operands) -> float:
    return abs(at[subject[4:-1]]) if subject.startswith("abs(") else at[subject]


def result(text: str) -> tuple[Callable[[Operands], tuple[float, ...]], tuple[bool, ...]]:
    """What the result ``text`` is at given operands, in its parts, and of which of them the sign is told."""
    if m := re.fullmatch(r"(-?)(?:\|(\w+)\||abs\((\w+)\))", text):
        sign, name = -1.0 if m[1] else 1.0, m[2] or m[3]
        return (lambda at: (sign * abs(at[name]),)), (True,)
    if re.fullmatch("x_i|x1_i|x2_i", text):
        return (lambda at: (at[text],)), (True,)
    if m := re.fullmatch(rf"([+-]?{SIZE}) \* cis\(b\)( - 1\.0)?", text):
        size, less = number(m[1]), 1.0 if m[2] else 0.0
        return (lambda at: (size * math.cos(at["b"]) - less, size * math.sin(at["b"]))), (
            True,
            True,
        )
    if m := re.fullmatch(rf"([+±-]?{SIZE}) ?([+±-]) ?({SIZE}) ?j(/\d)?", text):
        parts = number(m[1]), number(m[2].replace("±", "") + m[3] + (m[4] or ""))
        return (lambda at: parts), (told(m[1]), m[2] != "±")
    if text in ("True", "False"):
        return (lambda at: (float(text == "True"),)), (True,)
    value = number(text)
    return (lambda at: (value,)), (told(text),)


def told(text: str) -> bool:
    """Whether the sign of the number ``text`` is meant: that of a bare zero isn't."""
    return "±" not in text and (text[0] in "+-" or number(text) != 0)


def read(function: str, text: str) -> Case:
    """The sentence ``text`` about ``function``; ``ValueError`` if it says what this reader doesn't know."""
    if (m := SENTENCE.fullmatch(text)) is None:
        raise ValueError(text)
    said, _, remark = (
        m[2].removeprefix("an implementation-dependent approximation to ").partition(" (")
    )
    told_so = rf"(?:equal to |equivalent to )?{CODE}(?: with a sign bit of ``([01])``)?(?:, even if .+)?\.?"
    values = re.fullmatch(told_so, said)
    if values is None:
        raise ValueError(text)
    written = ("-" if values[2] == "1" else "") + values[1]
    options = [result(written), *(result(v) for v in re.findall(rf"may return {CODE}", remark))]
    signed = options[0][1]
    if "unspecified" in remark:
        real, imaginary = "real" not in remark, "imaginary" not in remark
        signed = (signed[0] and real, signed[1] and imaginary)
    wanted = [o[0] for o in options]
    names = next(
        names for names in NAMES if any(f"{name}`" in m[1] or f"{name})" in m[1] for name in names)
    )
    return Case(function, text, names, condition(m[1]), lambda at: [w(at) for w in wanted], signed)


def sentences() -> Iterator[tuple[str, str]]:
    """Each sentence on an elementwise function in the standard of 2024.12: function and text."""
    (path,) = [f for f in files("types-array-api") or () if f.name == "_2024_12.py"]
    function = ""
    for line in Path(str(path.locate())).read_text("utf-8").splitlines():
        if m := re.match(r"class (\w+)", line):
            function = m[1]
        line = re.sub(r"^-\s+", "- ", line.strip())
        if re.match(
            r"- If .*``(?:x_i|x1_i|x2_i|a|b)``.*the result is ``|- If .*``(?:x_i|x1_i)``.*the result",
            line,
        ):
            yield function, line


CASES: list[Case] = []
UNREAD: list[tuple[str, str]] = []
for _function, _text in sentences():
    try:
        CASES.append(read(_function, _text))
    except ValueError:
        UNREAD.append((_function, _text))
