"""Which objects one run of a piece of code of an installed package looks at: what its instructions load, found again.

A package's code is not watched by the names in it on every object in reach, as a user's is: there is too much of it.
But a function that is entered shows its arguments, its globals and what the functions that it called gave back; from
these, each attribute that it loads leads to the next. So for a load like ``self.config.rate`` it is known of which
objects it is, with no code run to find out.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, MemberDescriptorType, ModuleType
from typing import Any

from tapec.compiled.guards.flow import flow_of, kind_of
from tapec.compiled.guards.objects import NOTHING, own_attributes
from tapec.compiled.guards.questions import Question, questions

#: Of so many values of one load more are not looked at: a package that goes over its own tables.
_MOST = 64
#: Functions of Python's that go over what they are given.
_PASSING = set("enumerate filter iter list map next reversed set sorted tuple zip".split())
_BY_NAME = {"getattr", "hasattr"}
_SUPER = "super"
_REFERRING = "ref"
#: Methods of dicts that give what is in them.
_GIVING = {"items", "values", "get", "copy", "pop", "setdefault"}
#: Of these, which give what is under one key.
_GIVING_ONE = {"get", "pop", "setdefault"}
#: What a comprehension gets in the place of a list.
_ITERATORS: tuple[type, ...] = (type(iter([])), type(iter(())))
#: Containers whose items may be loaded.
_SEQUENCES = (list, tuple, set, frozenset)


class Trail:
    """What a piece of code may load that leads to state; all that is known of it without running it.

    Attributes:
        flow: who takes what in it.
        loads: the numbers of these instructions, in order; not of those whose value is only changed in place.
        told: the same, as a set.
        leading: the numbers of all instructions whose values lead to what they load.
        parameters: the names of its parameters that do.
        local: the names of these, of the first one, which may have the code as its method, and of closure variables.
        read: of which instructions the items of what they push may be read, if it is a container.
    """

    def __init__(self, code: CodeType) -> None:
        flow = self.flow = flow_of(code)
        self.stores: dict[str, list[int]] = {}
        self._callees: dict[int, set[str]] = {}
        self._questions: dict[int, list[Question] | None] = {}
        for i, instruction in enumerate(flow.instructions):
            if instruction.opname == "STORE_FAST":
                self.stores.setdefault(instruction.argval, []).append(i)
            elif instruction.opname == "CALL":
                self._callees[i] = flow.callees(i)
        self.loads = [i for i in range(len(flow.instructions)) if self._loads(i)]
        self.told = set(self.loads)
        self.leading = self._behind(self.loads)
        loaded = {
            flow.instructions[i].argval
            for i in self.told | self.leading
            if self._is_local(i) or kind_of(flow.instructions[i]) == "cell"
        }
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & CO_VARARGS) + bool(code.co_flags & CO_VARKEYWORDS)
        first = code.co_varnames[: min(code.co_argcount, 1)]
        if any(_SUPER in callees for callees in self._callees.values()):
            loaded.update(first)
        self.parameters = tuple(n for n in code.co_varnames[:count] if n in loaded)
        self.local = tuple(dict.fromkeys((*self.parameters, *first, *code.co_freevars)))
        self.read = {
            i
            for i in {*self.loads, *self.leading}
            if any(self._reads_items(use.taker) for use in flow.uses[i])
        }
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
            self._questions[i] = questions(self.flow, i)
        return self._questions[i]

    def sources(self, i: int) -> Iterator[int]:
        """The instructions whose values tell what an instruction pushes: those that a `Run` asks for."""
        flow, name = self.flow, self.flow.instructions[i].opname
        operands = flow.operands.get(i, [])
        if name == "CALL":
            callees = self.callees(i)
            if callees & {*_BY_NAME, *_PASSING, _SUPER, _REFERRING}:
                yield from (source for pushed in operands[2:] for source in pushed)
            if callees & _GIVING:
                for owner in (source for pushed in operands[:2] for source in pushed):
                    yield from self._first_operand(owner)
                yield from (source for pushed in operands[2:3] for source in pushed)
        elif self._is_local(i):
            for store in self.stores.get(flow.instructions[i].argval, ()):
                yield from self._first_operand(store)
        elif name in _WAYS:
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
        return instruction.opname == "BINARY_SUBSCR" or not _BY_NAME.isdisjoint(self.callees(i))

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


class Run:
    """One run of such code, as far as is known."""

    def __init__(
        self,
        trail: Trail,
        space: Mapping[str, Any],
        local: Mapping[str, Any],
        results: Mapping[int, Sequence[Any]],
        hear: Hearing,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            trail: what the code loads.
            space: its globals.
            local: its arguments and closure variables.
            results: by instruction, what calls gave.
            hear: told of each place that is found.
        """
        self._trail, self._flow = trail, trail.flow
        self._space, self._local, self._results, self._hear = space, local, results, hear
        self._known: dict[int, list[Any]] = {}

    def look(self) -> None:
        """Find all that the code loads."""
        for i in self._trail.loads:
            self._values(i)

    def _values(self, i: int) -> list[Any]:
        """What an instruction may have pushed, as far as is known."""
        known = self._known.get(i)
        if known is None:
            self._known[i] = []  # which a loop finds on its way round
            instruction = self._flow.instructions[i]
            way = _WAYS.get(instruction.opname)
            found = [] if way is None else way(self, i, instruction.argval)
            found += self._results.get(i, ())
            known = self._known[i] = _distinct(found)
        return known

    def _operand(self, i: int, position: int) -> list[Any]:
        operands = self._flow.operands.get(i, [])
        if position >= len(operands):
            return []
        return [value for source in operands[position] for value in self._values(source)]

    # -- by instruction

    def _constant(self, i: int, value: Any) -> list[Any]:
        return [value]

    def _local_variable(self, i: int, name: str) -> list[Any]:
        found = (
            [self._local[name]] if name in self._trail.parameters and name in self._local else []
        )
        for store in self._trail.stores.get(name, ()):
            found += self._operand(store, 0)
        return found

    def _closed(self, i: int, name: str) -> list[Any]:
        value = self._local.get(name, NOTHING)
        return [] if value is NOTHING else self._contents(i, [value])

    def _global(self, i: int, name: str) -> list[Any]:
        if i not in self._trail.told:
            return []
        self._hear.global_read(self._space, name)
        value = self._space.get(name, NOTHING)
        return [] if value is NOTHING else self._contents(i, [value])

    def _attribute(self, i: int, name: str) -> list[Any]:
        if i not in self._trail.told:
            return []
        return self._read(i, self._operand(i, 0), name)

    def _inherited(self, i: int, name: str) -> list[Any]:
        if i not in self._trail.told:
            return []
        return self._read(i, _supers(self._operand(i, 1), self._operand(i, 2)), name)

    def _read(self, i: int, things: list[Any], name: str) -> list[Any]:
        found = [self._held(thing, name) for thing in things]
        return self._contents(i, [value for value in found if value is not NOTHING])

    def _held(self, thing: Any, name: str) -> Any:
        """Tell of an attribute of a thing, or of the classes in which a `super` looks; the value, or `NOTHING`."""
        for owner in _behind(thing) if type(thing) is super else [thing]:
            self._hear.attribute_read(owner, name)
            value = held_under(owner, name)
            if value is not NOTHING:
                return value
        return NOTHING

    def _item(self, i: int, _: Any) -> list[Any]:
        found: list[Any] = []
        keys = self._operand(i, 1)
        for thing in self._operand(i, 0):
            if isinstance(thing, dict):
                found += _under(thing, keys)
            elif isinstance(thing, list | tuple):
                found += thing
        return self._contents(i, found)

    def _each(self, i: int, _: Any) -> list[Any]:
        found: list[Any] = []
        for source in self._flow.looked_at.get(i, ()):
            for thing in self._values(source):
                found += _items_of(thing)
        return self._contents(i, found)

    def _same(self, i: int, _: Any) -> list[Any]:
        return list(self._operand(i, 0))

    def _unpacked(self, i: int, _: Any) -> list[Any]:
        found: list[Any] = []
        for thing in self._operand(i, 0):
            found += [*thing, thing] if isinstance(thing, list | tuple) else [thing]
        return found

    def _called(self, i: int, _: Any) -> list[Any]:
        names = self._trail.callees(i)
        given = range(2, len(self._flow.operands.get(i, ())))
        if names & _BY_NAME:
            found = []
            for thing in self._operand(i, 2):
                for name in self._operand(i, 3):
                    if isinstance(name, str):
                        found.append(self._held(thing, name))
            return [value for value in found if value is not NOTHING]
        if _SUPER in names:
            first = self._flow.code.co_varnames[:1]
            local = [self._local[name] for name in ("__class__", *first) if name in self._local]
            return _supers(self._operand(i, 2) or local[:1], self._operand(i, 3) or local[1:])
        if names & _PASSING:
            return [value for position in given for value in self._operand(i, position)]
        if _REFERRING in names:
            callees = [value for position in (0, 1) for value in self._operand(i, position)]
            is_ref = any(value is weakref.ref for value in callees)
            return _references(self._operand(i, 2)) if is_ref else []
        if names & _GIVING:
            sources = [s for pushed in self._flow.operands[i][:2] for s in pushed]
            owners = [thing for s in sources for thing in self._operand(s, 0)]
            dicts = [thing for thing in owners if isinstance(thing, dict)]
            if names & _GIVING_ONE:
                keys = self._operand(i, 2)
                return [value for thing in dicts for value in _under(thing, keys)]
            return [list(dict.values(thing)) for thing in dicts]
        return []

    def _contents(self, i: int, values: list[Any]) -> list[Any]:
        """Tell of containers among values whose items are read; the values."""
        for value in values:
            if not self._hear.has_items(value):
                continue
            asked = self._asked(i) if isinstance(value, dict | set) else None
            if asked is None:
                if i in self._trail.read:
                    self._hear.items_read(value)
                continue
            for key, is_value in asked:
                if is_value:
                    self._hear.entry_read(value, key)
                else:
                    self._hear.member_read(value, key)
        return values

    def _asked(self, i: int) -> list[tuple[Any, bool]] | None:
        """The keys of which alone a container is asked, and whether for their values; None if they are not known."""
        found: list[tuple[Any, bool]] = []
        asked = self._trail.questions(i)
        if asked is None:
            return None
        for question in asked:
            keys = [key for source in question.keys for key in self._values(source)]
            if not keys or not all(map(_is_key, keys)):
                return None
            found += [(key, question.is_value) for key in keys]
        return found


class Hearing:
    """Who is told what code reads."""

    def global_read(self, space: Mapping[str, Any], name: str) -> None:
        """A global."""
        raise NotImplementedError

    def attribute_read(self, thing: Any, name: str) -> None:
        """An attribute, or that there is none."""
        raise NotImplementedError

    def entry_read(self, thing: dict[Any, Any], key: Any) -> None:
        """An entry of a dict, or that there is none."""
        raise NotImplementedError

    def member_read(self, thing: Any, key: Any) -> None:
        """Whether a dict or a set has a key."""
        raise NotImplementedError

    def items_read(self, thing: Any) -> None:
        """The items of a container."""
        raise NotImplementedError

    def has_items(self, thing: Any) -> bool:
        """Whether a thing is a container whose items may change."""
        raise NotImplementedError


_WAYS: dict[str, Callable[[Run, int, Any], list[Any]]] = {
    "LOAD_CONST": Run._constant,
    "LOAD_FAST": Run._local_variable,
    "LOAD_FAST_CHECK": Run._local_variable,
    "LOAD_DEREF": Run._closed,
    "LOAD_GLOBAL": Run._global,
    "LOAD_NAME": Run._global,
    "LOAD_ATTR": Run._attribute,
    "LOAD_METHOD": Run._attribute,
    "LOAD_SUPER_ATTR": Run._inherited,
    "BINARY_SUBSCR": Run._item,
    "FOR_ITER": Run._each,
    "GET_ITER": Run._same,
    "UNPACK_SEQUENCE": Run._unpacked,
    "CALL": Run._called,
}


def held_under(thing: Any, name: str) -> Any:
    """The attribute of a thing, if no code has to run for it, or `NOTHING`."""
    if name == "__dict__" and not isinstance(thing, type):
        return own_attributes(thing)
    if isinstance(thing, ModuleType):
        return vars(thing).get(name, NOTHING)
    if isinstance(thing, type):
        return inherited(thing, name)
    given = inherited(type(thing), name)
    if isinstance(given, MemberDescriptorType):
        try:
            return given.__get__(thing)
        except AttributeError:
            return NOTHING
    if hasattr(type(given), "__set__"):
        return NOTHING
    own = own_attributes(thing)
    if name in own:
        return own[name]
    return NOTHING if hasattr(type(given), "__get__") else given


def _supers(kinds: Sequence[Any], things: Sequence[Any]) -> list[Any]:
    """``super(kind, thing)``, where there is such a thing."""
    return [
        super(kind, thing)
        for kind in kinds
        for thing in things
        if any(kind is owner for owner in _line(thing))
    ]


def _behind(found: Any) -> Sequence[type]:
    """The classes in which a `super` looks, in order."""
    line = _line(found.__self__)
    return line[[kind is found.__thisclass__ for kind in line].index(True) + 1 :]


def _line(thing: Any) -> Sequence[type]:
    """The classes that an object, or a class, has its methods from."""
    return (thing if isinstance(thing, type) else type(thing)).__mro__


def inherited(kind: type, name: str) -> Any:
    """What a class, or one that it is derived from, has under a name, or `NOTHING`."""
    for owner in kind.__mro__:
        if name in vars(owner):
            return vars(owner)[name]
    return NOTHING


def _items_of(thing: Any) -> Iterable[Any]:
    if type(thing) in _ITERATORS:  # which tells of what it goes over, and stays where it is
        parts = thing.__reduce__()[1]
        thing = parts[0] if parts else ()
    if isinstance(thing, dict):
        return list(thing)[:_MOST]
    if isinstance(thing, _SEQUENCES):
        return list(thing)[:_MOST]
    return ()


def _under(thing: dict[Any, Any], keys: Sequence[Any]) -> Sequence[Any]:
    """What a dict has under some keys; where none is known, all that it has, but not too much."""
    if not keys:
        return list(itertools.islice(dict.values(thing), _MOST))
    found = [dict.get(thing, key, NOTHING) for key in keys if _is_key(key)]
    return [value for value in found if value is not NOTHING]


def _is_key(key: Any) -> bool:
    try:
        hash(key)
    except Exception:  # the user's own, whatever it does
        return False
    return True


def _references(things: Sequence[Any]) -> list[Any]:
    """Weak references to things, of those that Python has for all who ask."""
    return [weakref.ref(thing) for thing in things if type(thing).__weakrefoffset__]


def _distinct(values: Sequence[Any]) -> list[Any]:
    """The values, each object once, and not too many."""
    seen: dict[int, Any] = {}
    for value in values:
        seen.setdefault(id(value), value)
        if len(seen) == _MOST:
            break
    return list(seen.values())
