"""Mathematical functions as C, from the text that objects are made of (see `mathematics.vectormath`)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from tapec.ir.errors import TargetError
from tapec.ir.types import BF16, F16, DType
from tapec.runtime.aot.c_instructions import Translator, c_type, constant, function_name
from tapec.runtime.aot.missing import complete
from tapec.runtime.aot.targets import EdgeTarget
from tapec.runtime.cpu.mathematics import conversion
from tapec.runtime.cpu.mathematics.expansion import EXACT
from tapec.runtime.cpu.mathematics.vectormath import MathLibrary
from tapec.runtime.cpu.text import spelling
from tapec.runtime.cpu.text.function import FunctionWriter

#: A processor of which nothing is known.
PLAIN = EdgeTarget("c", "", bits=64, floats=frozenset(), fma=False, rounds=False, half=False)

#: Floats that C has not.
_SMALL = {dtype.code: dtype for dtype in (F16, BF16)}

#: The longest expression that becomes part of another.
_INLINED = 60

_HEAD = re.compile(r"^define internal (\w+) @(\S+?)\((.*?)\)", re.MULTILINE)
_FUNCTION = re.compile(r"^define internal .*?^}$", re.MULTILINE | re.DOTALL)
_PHI = re.compile(r"phi (\w+) (.+)")
_EDGE = re.compile(r"\[ (.+?), %(\w+) \]")
_TABLE = re.compile(r"^@(\S+) = .*?constant \[(\d+) x (\w+)\] \[(.*?)\]", re.MULTILINE | re.DOTALL)


@dataclass
class _Block:
    label: str
    lines: list[str] = field(default_factory=list)
    phis: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


class Functions:
    """The functions that one C file needs, and what they need in turn."""

    def __init__(self) -> None:
        """Need none."""
        self.translator = Translator(self._called)
        self._written: dict[str, str] = {}
        self._uses: Counter[str] = Counter()

    def _called(self, name: str, kind: str) -> None:
        """Write a function, at its first call, so that who calls it hears what C has not."""
        if name in self._written:
            return
        for key, text in _sources(name).items():
            if key not in self._written:
                self._written[key] = ""
                self._written[key] = self._function(text) if text.startswith("define") else text

    def texts(self) -> list[str]:
        """The small functions first, then all others, callees before callers."""
        prototypes = [
            f"{t.partition(' {')[0]};"
            for t in self._written.values()
            if t.startswith("static") and "(" in t.partition("{")[0]
        ]
        return [
            *self.translator.helpers.values(),
            "\n".join(prototypes) + "\n",
            *self._written.values(),
        ]

    def _function(self, text: str) -> str:
        head = _HEAD.match(text)
        assert head is not None
        kind, name, listed = head.groups()
        given = [part.split() for part in listed.split(",")]
        names = {register: register[1:] for _, register in given}
        blocks = _blocks(text)
        uses = self._uses
        self._uses = Counter(re.findall(r"%\w+(?:\.\w+)*", text))
        types: dict[str, str] = {}
        bodies: list[list[str]] = []
        for block in blocks:
            for register, of, _ in block.phis:
                names[register], types[register] = _variable(register), of
        for block in blocks:
            lines = [self._line(line, names, types, blocks, block) for line in block.lines]
            bodies.append([line for line in lines if line])
        straight = len(blocks) == 1
        declared = [] if straight else _declared(types, names)
        if straight:
            # Each value is declared where it is computed.
            of_name = {names[r]: c_type(of) for r, of in types.items()}
            bodies = [without_unused([_declaring(line, of_name) for line in bodies[0]])]
        jumps = {b.label for b in blocks if b.label != "entry"}
        lines = []
        for block, body in zip(blocks, bodies, strict=True):
            lines += [f"{block.label}:"] * (block.label in jumps) + body
        arguments = ", ".join(f"{c_type(of)} {register[1:]}" for of, register in given)
        self._uses = uses
        head_text = f"static {c_type(kind)} tapec_{function_name(name)}({arguments}) {{"
        return "\n".join([head_text, *declared, *lines, "}"]) + "\n"

    def _line(
        self,
        line: str,
        names: dict[str, str],
        types: dict[str, str],
        blocks: list[_Block],
        block: _Block,
    ) -> str:
        """One instruction as a statement."""
        if found := re.fullmatch(r"ret (\w+) (.+)", line):
            return f"    return {self._value(found[2], found[1], names)};"
        if found := re.fullmatch(r"br label %(\w+)", line):
            return self._jump(found[1], names, blocks, block)
        if found := re.fullmatch(r"br i1 (.+), label %(\w+), label %(\w+)", line):
            condition = self._value(found[1], "i1", names)
            yes, no = (self._jump(found[i], names, blocks, block) for i in (2, 3))
            return f"    if ({condition}) {{\n    {yes}\n    }}\n{no}"
        register, _, text = line.partition(" = ")
        if not text:
            raise TargetError(f"C has nothing for {line}")
        if found := re.fullmatch(r"getelementptr \w+, ptr @(\S+), i64 (\S+)", text):
            names[register] = (
                f"(tapec_{function_name(found[1])} + {self._value(found[2], 'i64', names)})"
            )
            return ""
        if found := re.fullmatch(r"load (\w+), ptr (\S+?)(?:, align \d+)?", text):
            expression, kind = f"*{names[found[2]]}", found[1]
        else:
            expression, kind = self.translator.expression(text, names)
        # Its name occurs where it is made, too.
        used = self._uses[register] - 1
        if used == 0:
            return ""
        if used == 1 and len(expression) <= _INLINED and not expression.startswith("*"):
            names[register] = expression
            return ""
        names[register], types[register] = _variable(register), kind
        return f"    {names[register]} = {stripped(expression)};"

    def _value(self, operand: str, kind: str, names: dict[str, str]) -> str:
        return names[operand] if operand.startswith("%") else constant(operand, kind)

    def _jump(self, label: str, names: dict[str, str], blocks: list[_Block], block: _Block) -> str:
        """Go to a block, whose phis get their values first: all are read before one is written."""
        target = next(b for b in blocks if b.label == label)
        moves = [
            (names[register], self._value(edges[block.label], kind, names), kind)
            for register, kind, edges in target.phis
        ]
        if len(moves) == 1:
            name, value, _ = moves[0]
            return f"    {name} = {value};\n    goto {label};"
        first = [f"{c_type(kind)} new_{name} = {value};" for name, value, kind in moves]
        then = [f"{name} = new_{name};" for name, _, _ in moves]
        inner = " ".join(first + then)
        return f"    {{ {inner} }}\n    goto {label};" if moves else f"    goto {label};"


def _declared(types: dict[str, str], names: dict[str, str]) -> list[str]:
    """Declarations, one for each type."""
    by_type: dict[str, list[str]] = {}
    for register, kind in types.items():
        by_type.setdefault(c_type(kind), []).append(names[register])
    return [f"    {kind} {', '.join(listed)};" for kind, listed in by_type.items()]


def _declaring(line: str, types: dict[str, str]) -> str:
    name = line.strip().split(" ", 1)[0]
    return f"    const {types[name]} {line.strip()}" if name in types else line


_MADE = re.compile(r" *(?:const \w+|\w+ \*const) (\w+) = .*;")
_WORD = re.compile(r"\w+")


def without_unused(lines: list[str]) -> list[str]:
    """Lines without variables that nothing reads, and without what only these need."""
    while True:
        words = Counter(word for line in lines for word in _WORD.findall(line))
        kept = [
            line for line in lines if (made := _MADE.fullmatch(line)) is None or words[made[1]] > 1
        ]
        if len(kept) == len(lines):
            return lines
        lines = kept


def _variable(register: str) -> str:
    return register[1:].replace(".", "_")


def stripped(expression: str) -> str:
    """An expression without parentheses around all of it."""
    if expression.startswith("(") and expression.endswith(")"):
        depth = 0
        for i, c in enumerate(expression):
            depth += (c == "(") - (c == ")")
            if depth == 0 and i < len(expression) - 1:
                return expression
        inner = expression[1:-1]
        return inner if re.search(r" [-+*/<>=!&|^?]", inner) else expression
    return expression


def _blocks(text: str) -> list[_Block]:
    blocks: list[_Block] = []
    for line in text.splitlines()[1:-1]:
        line = line.strip()
        if line.endswith(":"):
            blocks.append(_Block(line[:-1]))
        elif line:
            register, _, rest = line.partition(" = ")
            found = _PHI.fullmatch(rest)
            if found is None:
                blocks[-1].lines.append(line)
            else:
                edges = {label: value for value, label in _EDGE.findall(found[2])}
                blocks[-1].phis.append((register, found[1], edges))
    return blocks


def _sources(name: str) -> dict[str, str]:
    """A function and what it calls, as LLVM's text, by LLVM's names; tables as C's."""
    *_, own, kind = name.split(".")
    if kind in _SMALL and not name.startswith("tapec.lacking."):
        return _converting(name, own, _SMALL[kind])
    library, spelled = MathLibrary(), {"f32": "float", "f64": "double"}.get(kind, kind)
    if name.startswith("tapec.lacking."):
        # Written where it is needed: what needs it is enough of a text.
        needs = {
            "widen": "%y = fpext half %x to float",
            "narrow": "%y = fptrunc float %x to half",
            "exact_fma": f"%y = call {spelled} @llvm.fma.{kind}({spelled} 0){EXACT}",
        }
        call = f"call {spelled} @llvm.{own}.{kind}({spelled} 0)"
        text = complete(needs.get(own, call), PLAIN)
    else:
        library.need(own, spelled, 0)
        text = complete(library.text(), PLAIN)
    found = {}
    for table, _, kind, items in _TABLE.findall(text):
        numbers = ", ".join(
            _literal(item.split()[1], kind) for item in items.split(",") if item.strip()
        )
        found[table] = (
            f"static const {c_type(kind)} tapec_{function_name(table)}[] = {{{numbers}}};\n"
        )
    for part in _FUNCTION.findall(text):
        head = _HEAD.match(part)
        assert head is not None
        found[head[2]] = part
    return found


def _converting(name: str, own: str, dtype: DType) -> dict[str, str]:
    """How floats of 16 bits become others, and others them: as objects do it."""
    f = FunctionWriter()
    if own == "from":
        made, given, wanted = conversion.widen(f, "%x0", dtype, 0), "i16", "float"
    else:
        given, wanted = {"to": "float", "double_to": "double"}[own], "i16"
        made = conversion.convert(f, "%x0", spelling.float_of(given), dtype, 0)
    f.line(f"ret {wanted} {made}")
    text = complete(f.text(f"define internal {wanted} @{name}({given} %x0) #0"), PLAIN)
    return {_HEAD.match(part)[2]: part for part in _FUNCTION.findall(text)}  # type: ignore[index]


def _literal(number: str, kind: str) -> str:
    return constant(number, kind)
