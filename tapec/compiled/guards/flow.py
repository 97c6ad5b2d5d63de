"""Who takes what: a walk over bytecode that keeps a stack of who pushed each value."""

from __future__ import annotations

import dis
from bisect import bisect_right
from collections.abc import Sequence
from types import CodeType
from typing import NamedTuple

from tapec.autograph.conversion import OPERATORS
from tapec.instructions import instructions_of, kept_for

#: Methods of built-in containers that change them and give nothing.
MUTATORS = {"append", "appendleft", "extend", "insert", "add", "update", "clear", "discard"}
#: What converted code calls with the functions that it is going to call.
_CONVERSIONS = {"converted", "iterated"}

_GLOBALS = {"LOAD_GLOBAL", "LOAD_NAME"}
_CELLS = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"}
STORES = {
    **dict.fromkeys(("STORE_GLOBAL", "STORE_NAME"), "global"),
    "STORE_DEREF": "cell",
    "STORE_ATTR": "attribute",
}

#: How many values an instruction takes; of those not listed, what `dis.stack_effect` says is all.
_TAKES = {
    "BINARY_OP": 2,
    "BINARY_SLICE": 3,
    "BINARY_SUBSCR": 2,
    "BEFORE_WITH": 1,
    "COMPARE_OP": 2,
    "CONTAINS_OP": 2,
    "CONVERT_VALUE": 1,
    "DELETE_SUBSCR": 2,
    "FORMAT_SIMPLE": 1,
    "FORMAT_WITH_SPEC": 2,
    "GET_ITER": 1,
    "IMPORT_NAME": 2,
    "IS_OP": 2,
    "LIST_TO_TUPLE": 1,
    "LOAD_ATTR": 1,
    "LOAD_METHOD": 1,
    "LOAD_SUPER_ATTR": 3,
    "SET_FUNCTION_ATTRIBUTE": 2,
    "TO_BOOL": 1,
    "UNARY_INVERT": 1,
    "UNARY_NEGATIVE": 1,
    "UNARY_NOT": 1,
    "UNARY_POSITIVE": 1,
    "MATCH_CLASS": 3,
    "UNPACK_EX": 1,
    "UNPACK_SEQUENCE": 1,
    "YIELD_VALUE": 1,
}
#: Those that take as many as their argument says, and some more.
_TAKES_COUNTED = {
    "BUILD_CONST_KEY_MAP": 1,
    "BUILD_LIST": 0,
    "BUILD_SET": 0,
    "BUILD_SLICE": 0,
    "BUILD_STRING": 0,
    "BUILD_TUPLE": 0,
    "CALL": 2,
}
#: Those of `match` look at values that stay on the stack: so many.
_LOOKS_AT = {"FOR_ITER": 1, "GET_LEN": 1, "MATCH_MAPPING": 1, "MATCH_SEQUENCE": 1, "MATCH_KEYS": 2}
#: Those that only put values together.
CONSTRUCTIONS = {"BUILD_LIST", "BUILD_TUPLE", "BUILD_MAP", "BUILD_CONST_KEY_MAP", "LIST_TO_TUPLE"}
#: After these the next instruction is reached by a jump only.
_ENDS = {
    "RETURN_VALUE",
    "RETURN_CONST",
    "RAISE_VARARGS",
    "RERAISE",
    "JUMP_FORWARD",
    "JUMP_BACKWARD",
}


class Use(NamedTuple):
    """One instruction that takes a value, as its ``position``-th operand from below."""

    taker: int
    position: int


def kind_of(instruction: dis.Instruction) -> str | None:
    """What an instruction loads: ``global``, ``cell``, ``attribute``, or something else."""
    name = instruction.opname
    if name in _GLOBALS:
        return "global"
    if name in _CELLS:
        return "cell"
    return "attribute" if name in _ATTRIBUTES else None


#: A value on the stack: the numbers of the instructions that may have pushed it.
Pushed = frozenset[int]


class Flow:
    """Who takes what each instruction pushes.

    Attributes:
        instructions: of the code, in order.
        uses: by the number of an instruction, who takes what it pushed.
        operands: by the number of an instruction, who pushed what it takes.
        looked_at: the same for what stays on the stack.
    """

    def __init__(self, code: CodeType) -> None:
        """Walk over the code once; where ways meet that go forward, what they bring is joined."""
        self.code = code
        self.instructions = instructions_of(code)
        self._offsets = [instruction.offset for instruction in self.instructions]
        self.uses: dict[int, list[Use]] = {i: [] for i in range(len(self.instructions))}
        self.operands: dict[int, list[Pushed]] = {}
        self.looked_at: dict[int, set[int]] = {}
        coming: dict[int, list[Pushed]] = {}
        stack: list[Pushed] | None = []
        for i, instruction in enumerate(self.instructions):
            stack = _met(stack, coming.pop(instruction.offset, None))
            self._step(i, instruction, stack)
            if instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs:
                target = instruction.argval
                coming[target] = _met(list(stack), coming.get(target))
            if instruction.opname in _ENDS:
                stack = None

    def _step(self, i: int, instruction: dis.Instruction, stack: list[Pushed]) -> None:
        name, argument = instruction.opname, instruction.arg or 0
        if name == "COPY":
            stack.append(stack[-argument] if len(stack) >= argument else frozenset())
            return
        if name == "SWAP":
            if len(stack) >= argument:
                stack[-1], stack[-argument] = stack[-argument], stack[-1]
            return
        effect = _effect(instruction)
        looked_at = stack[-_LOOKS_AT[name] :] if name in _LOOKS_AT else []
        for pushed in looked_at:
            self.looked_at.setdefault(i, set()).update(pushed)
            for source in pushed:
                self.uses[source].append(Use(i, 0))
        takes = _takes(name, argument, effect)
        operands = stack[len(stack) - takes :] if takes <= len(stack) else []
        del stack[max(len(stack) - takes, 0) :]
        self.operands[i] = operands
        if name == "CALL" and self._is_converted(operands):
            stack.append(operands[-1])
            return
        for position, pushed in enumerate(operands):
            for source in pushed:
                self.uses[source].append(Use(i, position))
        stack += [frozenset([i])] * (takes + effect)

    def _is_converted(self, operands: Sequence[Pushed]) -> bool:
        """Whether this is ``ag__.converted(f)``, which converted code has for the function ``f`` of a call."""
        for callee in operands[0] if operands else ():
            owners = self.operands[callee][0] if self.operands.get(callee) else ()
            if self.instructions[callee].argval in _CONVERSIONS:
                return any(self.instructions[owner].argval == OPERATORS for owner in owners)
        return False

    def makes_text(self, constant: str) -> bool:
        """Whether an operator makes another text of a constant, as in ``"w" + str(i)``."""
        return any(
            self.instructions[use.taker].opname == "BINARY_OP"
            for i, instruction in enumerate(self.instructions)
            if instruction.opname == "LOAD_CONST" and instruction.argval is constant
            for use in self.uses[i]
        )

    def loads_of(self, store: dis.Instruction) -> list[int]:
        """The loads of a variable, local or shared."""
        load = "LOAD_DEREF" if store.opname == "STORE_DEREF" else "LOAD_FAST"
        return [
            i
            for i, other in enumerate(self.instructions)
            if other.opname.startswith(load) and other.argval == store.argval
        ]

    def callees(self, call: int) -> set[str]:
        """The names of what a call may call."""
        below = self.operands.get(call, [])[:2]  # the function, and a place that is for methods
        found = [self.instructions[i] for pushed in below for i in pushed]
        names = {"__exit__" for i in found if i.opname == "BEFORE_WITH"}
        return names | {i.argval for i in found if isinstance(i.argval, str)}

    def number(self, at: int) -> int:
        """Which instruction is at a place in the code, or has it in its cache."""
        return bisect_right(self._offsets, at) - 1

    def only_changed(self, load: int) -> bool:
        """Whether what an instruction loads is only changed in place, so that nothing of it gets into the program."""
        uses = self.uses[load]
        return self._is_updated(load) or (bool(uses) and all(map(self._changes, uses)))

    def _changes(self, use: Use) -> bool:
        taker = self.instructions[use.taker]
        name, position = taker.opname, use.position
        if name == "BINARY_SUBSCR" and position == 0:
            return self._is_updated(use.taker)
        if name in _ATTRIBUTES:
            return taker.argval in MUTATORS
        changing = {"POP_TOP": 0, "STORE_SUBSCR": 1, "DELETE_SUBSCR": 0, "STORE_ATTR": 1}
        return changing.get(name) == position

    def is_update(self, store: int) -> bool:
        """Whether what is stored was made in place of what the same place held: that rests on what there was."""
        own = self.instructions[store]
        for maker in (self.operands.get(store) or [frozenset()])[0]:
            made = self.instructions[maker]
            if made.opname == "BINARY_OP" and made.argrepr.endswith("="):
                held = [self.instructions[i] for i in self.operands[maker][0]]
                if any((kind_of(i), i.argval) == (STORES[own.opname], own.argval) for i in held):
                    return True
        return False

    def _is_updated(self, load: int) -> bool:
        """Whether a value is loaded to be stored again at the same place, as in ``x.count += 1``."""
        if len(self.uses[load]) != 1:
            return False
        (use,) = self.uses[load]
        taker = self.instructions[use.taker]
        if not (taker.opname == "BINARY_OP" and taker.argrepr.endswith("=") and use.position == 0):
            return False
        stores = [self.instructions[u.taker] for u in self.uses[use.taker]]
        own = self.instructions[load]
        if own.opname == "BINARY_SUBSCR":
            return [s.opname for s in stores] == ["STORE_SUBSCR"]
        return [(STORES.get(s.opname), s.argval) for s in stores] == [(kind_of(own), own.argval)]


def _effect(instruction: dis.Instruction) -> int:
    """How much longer the stack gets; Python 3.11 counts a call's operands off in the instruction before it."""
    if instruction.opname == "PRECALL":
        return 0
    if instruction.opname == "CALL":
        return 1 - _TAKES_COUNTED["CALL"] - (instruction.arg or 0)
    return dis.stack_effect(instruction.opcode, instruction.arg, jump=False)


def _met(stack: list[Pushed] | None, other: list[Pushed] | None) -> list[Pushed]:
    """The stack where two ways meet; None is a way that does not lead here."""
    if stack is None or other is None:
        return (stack or other) or []
    shorter = min(len(stack), len(other))
    joined = [a | b for a, b in zip(stack[:shorter], other[:shorter], strict=True)]
    return joined + (stack if len(stack) > len(other) else other)[shorter:]


@kept_for(1024)
def flow_of(code: CodeType) -> Flow:
    """The flow of a code object."""
    return Flow(code)


def _takes(name: str, argument: int, effect: int) -> int:
    if name in _TAKES:
        return _TAKES[name]
    if name in _TAKES_COUNTED:
        return argument + _TAKES_COUNTED[name]
    if name == "FORMAT_VALUE":
        return 2 if argument & _WITH_SPEC else 1
    return 1 - effect if name in _PUSHING_TAKERS else max(-effect, 0)


#: The flag of FORMAT_VALUE by which it takes a specification, too (CPython's FVS_HAVE_SPEC).
_WITH_SPEC = 4
#: They take at least one value and push one.
_PUSHING_TAKERS = {"CALL_FUNCTION_EX", "BUILD_MAP", "MAKE_FUNCTION", "CALL_INTRINSIC_1"}
