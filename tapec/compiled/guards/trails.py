"""Which objects one run of a piece of code of an installed package looks at: what its instructions load, found again.

A package's code is not watched by the names in it on every object in reach, as a user's is: there is too much of it.
But a function that is entered shows its arguments, its globals and what the functions that it called gave back; from
these, each attribute that it loads leads to the next. So for a load like ``self.config.rate`` it is known of which
objects it is, with no code run to find out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from inspect import CO_OPTIMIZED, CO_VARARGS, CO_VARKEYWORDS
from types import CodeType

from tapec.compiled.guards.flow import Use, flow_of, kind_of
from tapec.compiled.guards.questions import Question, questions

#: Functions that look an attribute up whose name is a value.
BY_NAME = {"getattr", "hasattr"}
#: Functions of Python's that give what they are given, or go over it; those that give one item of it.
PASSING = set("enumerate filter iter list map reversed set sorted tuple zip".split())
PICKING = {"max", "min", "next"}
#: Methods of containers that give all that is in them, and those that give one thing.
GIVING = {"copy", "items", "keys", "values"}
GIVING_ONE = {"get", "pop", "setdefault"}
#: Functions that give the class of a thing, its attributes, a weak reference to it, or the globals.
CLASS, SPACE, REFERRING, SUPER, GLOBALS = "type", "vars", "ref", "super", "globals"
#: Whose operands tell what they push.
FROM_OPERANDS = set(
    "BINARY_OP BINARY_SUBSCR BUILD_LIST BUILD_TUPLE FOR_ITER GET_ITER LOAD_ATTR LOAD_METHOD LOAD_SUPER_ATTR "
    "UNPACK_EX UNPACK_SEQUENCE".split()
)
#: Calls that load: what they give is looked up in something.
_LOADING = BY_NAME | PICKING | GIVING_ONE
#: Functions that ask of which class a thing is.
_CLASSING = {CLASS, "isinstance"}
#: Functions whose arguments tell what they give.
_FROM_ARGUMENTS = BY_NAME | PASSING | PICKING | {CLASS, SPACE, REFERRING, SUPER}


class Trail:
    """What a piece of code may load that leads to state; all that is known of it without running it.

    Attributes:
        flow: who takes what in it.
        loads: the numbers of these instructions, in order; not of those whose value is only changed in place.
        told: the same, as a set.
        leading: the numbers of all instructions whose values lead to what they load.
        parameters: the names of its parameters that do.
        local: the names of these, of the first one, which may have the code as its method, and of closure variables.
        asking: the numbers of all instructions whose values lead to keys of dicts.
        waits: whether some of these keys are what calls give.
        classed: of which loads it is asked of which class the value is.
        keyed: of the parameters those that may be keys of dicts.
        read: of which instructions the items of what they push may be read, if it is a container.
    """

    def __init__(self, code: CodeType, applies: bool = False) -> None:
        """``applies``: whether getters that Python made in C may be called on what the code has."""
        self.applies = applies
        flow = self.flow = flow_of(code)
        self.stores: dict[str, list[int]] = {}
        self._callees: dict[int, set[str]] = {}
        self._questions: dict[int, list[Question] | None] = {}
        for i, instruction in enumerate(flow.instructions):
            if instruction.opname == "STORE_FAST":
                self.stores.setdefault(instruction.argval, []).append(i)
            elif instruction.opname == "CALL":
                self._callees[i] = flow.callees(i)
        #: Names of containers in which the code enters keys.
        self._entered = {
            instruction.argval
            for i, instruction in enumerate(flow.instructions)
            if kind_of(instruction) is not None and any(self._enters(use) for use in flow.uses[i])
        }
        self.loads = [i for i in range(len(flow.instructions)) if self._loads(i)]
        self.told = set(self.loads)
        self.leading = self._behind(self.loads)
        is_made = not code.co_flags & CO_OPTIMIZED  # of a text: all of its names may be local ones
        loaded = {
            flow.instructions[i].argval
            for i in self.told | self.leading
            if self._is_local(i) or kind_of(flow.instructions[i]) == "cell" or is_made
        }
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
        first = code.co_varnames[: min(code.co_argcount, 1)]
        if any(SUPER in callees for callees in self._callees.values()):
            loaded.update(first)
        named = code.co_varnames[:count] if code.co_flags & CO_OPTIMIZED else code.co_names
        self.parameters = tuple(n for n in named if n in loaded)
        self.local = tuple(dict.fromkeys((*self.parameters, *first, *code.co_freevars)))
        self.read = {
            i
            for i in {*self.loads, *self.leading}
            if any(self._reads_items(use.taker) for use in flow.uses[i])
        }
        keys = [
            n for i in self.told | self.leading for q in self.questions(i) or () for n in q.keys
        ]
        self.asking = {*keys, *self._behind(keys)}
        asked = {flow.instructions[n].argval for n in self.asking}
        self.waits = any(flow.instructions[n].opname == "CALL" for n in keys)
        self.keyed = tuple(name for name in self.parameters if name in asked)
        self.classed = {i for i in self.loads if self._asks_class(i)}
        self._numbers: dict[int, int] = {}

    def number(self, at: int) -> int:
        """Which instruction is at a place in the code; the places of calls are asked for often."""
        found = self._numbers.get(at)
        if found is None:
            found = self._numbers[at] = self.flow.number(at)
        return found

    def callees(self, i: int) -> set[str]:
        """The names of what a call may call."""
        return self._callees.get(i, set())

    def questions(self, i: int) -> list[Question] | None:
        """What is asked of what an instruction pushes, if it is a container; None if that may be anything."""
        if i not in self._questions:
            name = self.flow.instructions[i].argval
            self._questions[i] = questions(
                self.flow, i, isinstance(name, str) and name in self._entered
            )
        return self._questions[i]

    def sources(self, i: int) -> Iterator[int]:
        """The instructions whose values tell what an instruction pushes: those that a `Run` asks for."""
        flow, name = self.flow, self.flow.instructions[i].opname
        operands = flow.operands.get(i, [])
        if name == "CALL":
            callees = self.callees(i)
            if self.applies:
                yield from (source for pushed in operands for source in pushed)
            elif callees & _FROM_ARGUMENTS:
                yield from (source for pushed in operands[2:] for source in pushed)
            if callees & (GIVING | GIVING_ONE):
                for owner in (source for pushed in operands[:2] for source in pushed):
                    yield from self._first_operand(owner)
                yield from (source for pushed in operands[2:3] for source in pushed)
        elif self._is_local(i):
            for store in self.stores.get(flow.instructions[i].argval, ()):
                yield from self._first_operand(store)
        elif name in FROM_OPERANDS:
            yield from (source for pushed in operands for source in pushed)
            yield from flow.looked_at.get(i, ())
        for question in self.questions(i) or ():
            yield from question.keys

    def _first_operand(self, i: int) -> Iterable[int]:
        operands = self.flow.operands.get(i)
        return operands[0] if operands else ()

    def _behind(self, loads: Iterable[int]) -> set[int]:
        """The instructions whose values lead to what others load."""
        found: set[int] = set()
        waiting = [source for i in loads for source in self.sources(i)]
        while waiting:
            i = waiting.pop()
            if i not in found:
                found.add(i)
                waiting += self.sources(i)
        return found

    def _is_local(self, i: int) -> bool:
        return self.flow.instructions[i].opname.startswith("LOAD_FAST")

    def _loads(self, i: int) -> bool:
        """Whether an instruction loads what may be state: by its name, by a text, or as an item."""
        instruction = self.flow.instructions[i]
        if kind_of(instruction) is not None:
            return not self.flow.only_changed(i)
        if instruction.opname == "CALL" and self.applies:
            return True
        return instruction.opname == "BINARY_SUBSCR" or not _LOADING.isdisjoint(self.callees(i))

    def _enters(self, use: Use) -> bool:
        return use.position == 1 and self.flow.instructions[use.taker].opname == "STORE_SUBSCR"

    def _asks_class(self, i: int) -> bool:
        return any(not _CLASSING.isdisjoint(self.callees(use.taker)) for use in self.flow.uses[i])

    def _reads_items(self, taker: int) -> bool:
        """Whether who takes a container may read its items, rather than keep it or ask whether it is one."""
        instruction = self.flow.instructions[taker]
        if instruction.opname in ("IS_OP", "POP_TOP", "STORE_ATTR"):
            return False
        if instruction.opname == "CALL":
            return not self.callees(taker) & {"isinstance", "id", "type", "callable"}
        if instruction.opname == "STORE_FAST":
            return any(
                self._reads_items(use.taker)
                for load in self.flow.loads_of(instruction)
                if load != taker
                for use in self.flow.uses[load]
                if self.flow.instructions[use.taker].opname != "STORE_FAST"
            )
        return True
