"""LLVM functions of scalars as straight-line code, which can run on vectors.

What a user's kernel computes for one element, a program computes for a vector of them. Where the function has branches
and no loops, all of its blocks are executed, and where blocks meet, the lanes choose (if-conversion). What touches
memory, loops, or may trap in a lane that a branch kept away, stays a function of scalars.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tapec.ir.foreign import KERNEL, Step, StraightLine

_TYPE = r"(double|float|i\d+)"
_VALUE = r'(%"[^"]*"|%[-\w.$]+|[^\s,()]+)'
_FLAGS = r"(?: (?:nnan|ninf|nsz|arcp|contract|afn|reassoc|fast|nuw|nsw|nneg|disjoint|samesign))*"
_BINARY = "fadd|fsub|fmul|fdiv|add|sub|mul|and|or|xor|shl|lshr|ashr"
_CASTS = "fpext|fptrunc|sitofp|uitofp|fptosi|fptoui|zext|sext|trunc|bitcast"

_RULES: Sequence[tuple[re.Pattern[str], str]] = [
    (
        re.compile(rf"((?:{_BINARY}){_FLAGS}) {_TYPE} {_VALUE}, {_VALUE}"),
        "{word} {{t0}} {{0}}, {{1}}",
    ),
    (
        re.compile(rf"([if]cmp{_FLAGS} \w+) {_TYPE} {_VALUE}, {_VALUE}"),
        "{word} {{t0}} {{0}}, {{1}}",
    ),
    (re.compile(rf"((?:fneg|freeze){_FLAGS}) {_TYPE} {_VALUE}"), "{word} {{t0}} {{0}}"),
    (
        re.compile(rf"((?:{_CASTS}){_FLAGS}) {_TYPE} {_VALUE} to {_TYPE}"),
        "{word} {{t0}} {{0}} to {{t}}",
    ),
]
_SELECT = re.compile(rf"(select{_FLAGS}) i1 {_VALUE}, {_TYPE} {_VALUE}, {_TYPE} {_VALUE}")
_CALL = re.compile(rf"call{_FLAGS} {_TYPE} @([\w.]+)\((.*)\)")
_ARGUMENT = re.compile(rf"{_TYPE}(?: \w+)* {_VALUE}")
_PHI = re.compile(rf"phi{_FLAGS} {_TYPE} (.*)")
_EDGE = re.compile(rf"\[ {_VALUE}, (%\S+|%\"[^\"]*\") \]")
_BRANCH = re.compile(rf"br i1 {_VALUE}, label (%\S+), label (%\S+)")
_JUMP = re.compile(r"br label (%\S+)")
_RETURN = re.compile(rf"ret {_TYPE} {_VALUE}")
#: Operands, in contrast to words that say something of one.
_PLAIN = re.compile(r"%.*|[-\d].*|true|false|poison|undef")
#: Intrinsics with an immediate second argument, which is not one for each lane.
_IMMEDIATE = ("llvm.abs.", "llvm.ctlz.", "llvm.cttz.")

Lines = Sequence[tuple[str, Sequence[str]]]


class _NotStraight(Exception):
    """There is a loop, or something that works on scalars only."""


def straighten(blocks: Lines) -> StraightLine | None:
    """Straight-line code of a function's blocks (label and instructions); None where there is none."""
    try:
        return _Converter(blocks).run()
    except _NotStraight:
        return None


class _Converter:
    """The conversion of one function."""

    def __init__(self, blocks: Lines) -> None:
        self.blocks = dict(blocks)
        self.entry = blocks[0][0]
        self.steps: list[Step] = []
        #: For each block that was met, the condition of each edge that leads to it.
        self.edges: dict[str, dict[str, str]] = {label: {} for label, _ in blocks}
        self.masks: dict[str, str] = {}
        self.returns: list[tuple[str, str, str]] = []

    def run(self) -> StraightLine:
        """Convert block after block, each after those that lead to it."""
        for label in _in_order(self.entry, self.blocks):
            self._block(label)
        kind, result, _ = self.returns[0]
        for _, value, mask in self.returns[1:]:
            result = self._choose(kind, mask, value, result)
        return StraightLine(tuple(self.steps), result)

    def _block(self, label: str) -> None:
        edges = list(self.edges[label].values())
        mask = "true" if label == self.entry else edges[0]
        for edge in edges[1:]:
            mask = self._logic("or", mask, edge)
        self.masks[label] = mask
        *body, last = self.blocks[label]
        for line in body:
            name, text = line.split(" = ", 1) if " = " in line else ("", line)
            self._instruction(label, name, text)
        self._leave(label, last)

    def _leave(self, label: str, text: str) -> None:
        mask = self.masks[label]
        if match := _RETURN.fullmatch(text):
            self.returns.append((match[1], match[2], mask))
        elif match := _JUMP.fullmatch(text):
            self.edges[match[1]][label] = mask
        elif match := _BRANCH.fullmatch(text):
            condition, then, otherwise = match.groups()
            opposite = self._logic("xor", condition, "true")
            self.edges[then][label] = self._logic("and", mask, condition)
            self.edges[otherwise][label] = self._logic("and", mask, opposite)
        else:
            raise _NotStraight

    def _instruction(self, label: str, name: str, text: str) -> None:
        if match := _PHI.fullmatch(text):
            self._meet(label, name, match[1], match[2])
        elif match := _SELECT.fullmatch(text):
            word, condition, kind, x, _, y = match.groups()
            operands = (("i1", condition), (kind, x), (kind, y))
            self.steps.append(
                Step(name, kind, f"{word} {{t0}} {{0}}, {{t1}} {{1}}, {{t2}} {{2}}", operands)
            )
        elif match := _CALL.fullmatch(text):
            self._call(name, *match.groups())
        else:
            self.steps.append(_plain(name, text))

    def _call(self, name: str, kind: str, callee: str, arguments: str) -> None:
        found = _ARGUMENT.findall(arguments)
        stem, dot, _ = callee.rpartition(".")
        known = all(_PLAIN.fullmatch(value) for _, value in found)
        if not found or not dot or not known or callee.startswith(KERNEL[1:]):
            raise _NotStraight
        listed = [f"{{t{i}}} {{{i}}}" for i in range(len(found))]
        if callee.startswith(_IMMEDIATE):
            listed[1] = f"i1 {found.pop()[1]}"
        form = f"call {{t}} @{stem}.{{m0}}({', '.join(listed)})"
        self.steps.append(Step(name, kind, form, tuple(found)))

    def _meet(self, label: str, name: str, kind: str, text: str) -> None:
        """What comes along the edges, each lane's by its own."""
        incoming = _EDGE.findall(text)
        result = incoming[0][0]
        for value, source in incoming[1:]:
            result = self._choose(kind, self.edges[label][source], value, result)
        # Under its own name, so that those who read it find it.
        self.steps.append(Step(name, kind, "freeze {t0} {0}", ((kind, result),)))

    def _choose(self, kind: str, condition: str, x: str, y: str) -> str:
        operands = (("i1", condition), (kind, x), (kind, y))
        return self._emit(kind, "select {t0} {0}, {t1} {1}, {t2} {2}", operands)

    def _logic(self, word: str, x: str, y: str) -> str:
        if word == "and" and "true" in (x, y):
            return y if x == "true" else x
        if word == "or" and "true" in (x, y):
            return "true"
        return self._emit("i1", f"{word} {{t0}} {{0}}, {{1}}", (("i1", x), ("i1", y)))

    def _emit(self, kind: str, form: str, operands: tuple[tuple[str, str], ...]) -> str:
        name = f"%straight.{len(self.steps)}"
        self.steps.append(Step(name, kind, form, operands))
        return name


def _plain(name: str, text: str) -> Step:
    for pattern, form in _RULES:
        if match := pattern.fullmatch(text):
            word, kind, *values = match.groups()
            result = kind
            if " to " in form:
                result = values.pop()
            elif "cmp" in word:
                result = "i1"
            return Step(name, result, form.format(word=word), tuple((kind, v) for v in values))
    raise _NotStraight


def _in_order(entry: str, blocks: dict[str, Sequence[str]]) -> Iterable[str]:
    """The blocks that can be reached, each after all that lead to it.

    Raises:
        _NotStraight: there is a loop.
    """
    done: dict[str, bool] = {}
    order: list[str] = []
    stack: list[tuple[str, Iterator[str]]] = [(entry, _followers(blocks[entry][-1]))]
    done[entry] = False
    while stack:
        label, following = stack[-1]
        for other in following:
            if other not in done:
                done[other] = False
                stack.append((other, _followers(blocks[other][-1])))
                break
            if not done[other]:
                raise _NotStraight
        else:
            done[label] = True
            order.append(label)
            stack.pop()
    return reversed(order)


def _followers(text: str) -> Iterator[str]:
    if match := _BRANCH.fullmatch(text):
        return iter(match.groups()[1:])
    match = _JUMP.fullmatch(text)
    return iter(() if match is None else match.groups())


def blocks_of(function: Any) -> list[tuple[str, list[str]]]:
    """Labels and instructions of a function of llvmlite's, without metadata and attributes of calls.

    Registers and labels are numbered anew: in their old names is how much its compiler had compiled before.
    """
    names = {_register(a.name): _register(a.name) for a in function.arguments}

    def renamed(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"%x{len(names)}")

    found = []
    for block in function.blocks:
        label = _REGISTER.sub(renamed, _register(block.name))
        lines = [plain_line(str(instruction)) for instruction in block.instructions]
        found.append((label, [_REGISTER.sub(renamed, line) for line in lines]))
    return found


_REGISTER = re.compile(r'%"[^"]*"|%[-\w.$]+')


def _register(name: str) -> str:
    return f"%{name}" if re.fullmatch(r"[-\w.$]+", name) else f'%"{name}"'


def plain_line(text: str) -> str:
    """An instruction without what only informs the optimiser."""
    text = re.sub(r"(, ![\w.]+ ![\w.]+)+$", "", text.strip())
    text = re.sub(r" #\d+$", "", text)
    return re.sub(r"\b(?:tail|musttail|notail) call\b", "call", text)
