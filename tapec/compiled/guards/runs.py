"""One run of a piece of code of an installed package: which objects its instructions load, found without running it."""

from __future__ import annotations

import itertools
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import CodeType, MappingProxyType, MemberDescriptorType, ModuleType
from typing import Any

from tapec.compiled.guards import trails
from tapec.compiled.guards.caches import is_cache, results_in
from tapec.compiled.guards.objects import GETTERS, own_attributes, paths_of
from tapec.compiled.guards.trails import Trail
from tapec.runtime.cpu.guards.looks import NOTHING

#: Of more values of one load nothing is looked at, which is said: a package may go over tables of its own.
MOST = 4096
#: Of so many values that may be one part of a key, all keys are looked up.
_MOST_KEYS = 64
#: What a comprehension gets in the place of a container.
_HELD: tuple[Any, ...] = ([], (), set(), {}, {}.values(), {}.items())
_ITERATORS = tuple(type(iter(held)) for held in _HELD)
#: Containers whose items may be loaded, and those that have them by keys.
_SEQUENCES = (list, tuple, set, frozenset, deque)
_MAPPINGS = (dict, MappingProxyType)


class Run:
    """One run of such code, as far as is known."""

    def __init__(
        self,
        trail: Trail,
        space: Mapping[str, Any],
        local: Mapping[str, Any],
        results: Mapping[int, Sequence[Any]],
        hear: Hearing,
        is_over: bool = True,
    ) -> None:
        """Nothing is looked at yet.

        Args:
            trail: what the code loads.
            space: its globals.
            local: its arguments and closure variables.
            results: by instruction, what calls gave.
            hear: told of each place that is found.
            is_over: whether it has ended, so that what its calls gave is known.
        """
        self._trail, self._flow = trail, trail.flow
        self._space, self._local, self._results, self._hear = space, local, results, hear
        self._is_over = is_over
        self._known: dict[int, list[Any]] = {}

    def look(self) -> None:
        """Find all that the code loads."""
        for i in self._trail.loads:
            self._values(i)
        for values in self._known.values():
            for value in values:
                self._hear.seen(value)

    def _values(self, i: int) -> list[Any]:
        """What an instruction may have pushed, as far as is known."""
        known = self._known.get(i)
        if known is None:
            self._known[i] = []  # which a loop finds on its way round
            instruction = self._flow.instructions[i]
            way = _WAYS.get(instruction.opname)
            found = [] if way is None else way(self, i, instruction.argval)
            found += self._results.get(i, ())
            known = self._known[i] = self._distinct(found)
        return known

    def _distinct(self, values: Sequence[Any]) -> list[Any]:
        """The values, each object once, and not too many."""
        found = list({id(value): value for value in values}.values())
        if len(found) > MOST:
            self._hear.left_out(self._flow.code)
        return found[:MOST]

    def _operand(self, i: int, position: int) -> list[Any]:
        operands = self._flow.operands.get(i, [])
        if position >= len(operands):
            return []
        return [value for source in operands[position] for value in self._values(source)]

    def _arguments(self, i: int) -> list[Any]:
        given = range(2, len(self._flow.operands.get(i, ())))
        return [value for position in given for value in self._operand(i, position)]

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
        if value is NOTHING:
            return []
        if i in self._trail.told:
            self._hear.closed_read(name)
        return self._contents(i, [value])

    def _global(self, i: int, name: str) -> list[Any]:
        if i not in self._trail.told:
            return []
        self._hear.global_read(self._space, name)
        value = self._space.get(name, NOTHING)
        return [] if value is NOTHING else self._contents(i, [value])

    def _name(self, i: int, name: str) -> list[Any]:
        if name in self._local and self._local is not self._space:
            return [self._local[name]]
        return self._global(i, name)

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
        if name == "__class__" and type(thing) is not super:
            self._hear.class_read(thing)
            return type(thing)
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
            if isinstance(thing, _MAPPINGS):
                found += _under(thing, keys)
            elif isinstance(thing, list | tuple | deque):
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

    def _joined(self, i: int, _: Any) -> list[Any]:
        """Sequences that are added, and so all that is in them."""
        found = [*self._operand(i, 0), *self._operand(i, 1)]
        return [thing for thing in found if isinstance(thing, (*_SEQUENCES, *_MAPPINGS))]

    def _built(self, i: int, _: Any) -> list[Any]:
        """A tuple or a list: of each way to fill it one; or one of all that may be in it, if these are many."""
        parts = [self._operand(i, n) for n in range(len(self._flow.operands.get(i, ())))]
        ways = 1
        for part in parts:
            ways *= len(part)
        if 0 < ways <= _MOST_KEYS:
            return list(itertools.product(*parts))
        return [tuple(value for part in parts for value in part)]

    def _unpacked(self, i: int, _: Any) -> list[Any]:
        found: list[Any] = []
        for thing in self._operand(i, 0):
            items = list(_items_of(thing))
            # An item that is told apart from the rest, or the rest.
            found += [*items, items] if items else [thing]
        return found

    def _called(self, i: int, _: Any) -> list[Any]:
        names = self._trail.callees(i)
        if self._trail.applies:
            return self._applied(i)
        if names & trails.BY_NAME:
            return self._by_name(i)
        if names & trails.GIVING_ONE:
            keys = self._operand(i, 2)
            return self._contents(
                i, [value for thing in self._owners(i) for value in _given_one(thing, keys)]
            )
        if names & trails.GIVING:
            return [value for thing in self._owners(i) for value in _given(thing, names)]
        if trails.SUPER in names:
            first = self._flow.code.co_varnames[:1]
            local = [self._local[name] for name in ("__class__", *first) if name in self._local]
            return _supers(self._operand(i, 2) or local[:1], self._operand(i, 3) or local[1:])
        if names & trails.PASSING:
            return self._arguments(i)
        if names & trails.PICKING:
            given = self._arguments(i)
            items = [item for thing in given for item in _items_of(thing)]
            return self._contents(i, [*items, *given])
        return self._made_by_python(i, names)

    def _made_by_python(self, i: int, names: set[str]) -> list[Any]:
        """What functions of Python's give that tell of a thing, or of where they are called."""
        if trails.GLOBALS in names:
            return self._contents(i, [self._space])
        below = {s for pushed in self._flow.operands[i][:2] for s in pushed}
        callees = [value for s in below & self._trail.told for value in self._values(s)]
        if trails.REFERRING in names and any(value is weakref.ref for value in callees):
            return _references(self._operand(i, 2))
        if trails.CLASS in names and len(self._flow.operands[i]) == 3:
            things = self._operand(i, 2)
            for thing in things:
                self._hear.class_read(thing)
            return [type(thing) for thing in things]
        if trails.SPACE in names:
            return self._contents(i, [own_attributes(thing) for thing in self._operand(i, 2)])
        kept = [results_in(value) for value in callees if is_cache(value)]
        for result in itertools.chain(*kept):
            if self._hear.has_items(result):
                self._hear.items_read(result)
        return list(itertools.chain(*kept))

    def _applied(self, i: int) -> list[Any]:
        """The getter of attributes that a call makes; else what getters find that it calls or hands on."""
        operands = range(len(self._flow.operands[i]))
        found = [value for position in operands for value in self._operand(i, position)]
        texts = [value for value in found if isinstance(value, str)]
        if texts and (
            kinds := [value for value in found if any(value is kind for kind in GETTERS)]
        ):
            return [kinds[0](*texts)]
        paths = {path for value in found for path in paths_of(value)}
        things = [thing for value in found for thing in (value, *_items_of(value))]
        given = []
        for path, thing in itertools.product(paths, things):
            for name in path.split("."):
                thing = self._held(thing, name)
                if thing is NOTHING:
                    break
            given.append(thing)
        return self._contents(i, [value for value in (*given, *found) if value is not NOTHING])

    def _by_name(self, i: int) -> list[Any]:
        """What `getattr` gives: of names that are not known, any attribute."""
        names = [name for name in self._operand(i, 3) if isinstance(name, str)]
        found = []
        for thing in self._operand(i, 2):
            for name in names or self._hear.whole_read(thing):
                found.append(self._held(thing, name))
        return self._contents(i, [value for value in found if value is not NOTHING])

    def _owners(self, i: int) -> list[Any]:
        """The things whose method is called."""
        sources = [s for pushed in self._flow.operands[i][:2] for s in pushed]
        return [thing for s in sources for thing in self._operand(s, 0)]

    def _contents(self, i: int, values: list[Any]) -> list[Any]:
        """Tell of containers among values whose items are read; the values."""
        for value in values:
            if i in self._trail.classed:
                self._hear.class_read(value)
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
            if not keys and self._trail.waits and not self._is_over:
                continue  # for what calls give
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

    def seen(self, value: Any) -> None:
        """What was found on the way."""
        raise NotImplementedError

    def closed_read(self, name: str) -> None:
        """A closure variable of the function that runs."""
        raise NotImplementedError

    def class_read(self, thing: Any) -> None:
        """Of which class a thing is."""
        raise NotImplementedError

    def whole_read(self, thing: Any) -> Iterable[str]:
        """All attributes of a thing; their names."""
        raise NotImplementedError

    def left_out(self, code: CodeType) -> None:
        """That not all values were looked at."""
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
    "LOAD_NAME": Run._name,
    "LOAD_ATTR": Run._attribute,
    "LOAD_METHOD": Run._attribute,
    "LOAD_SUPER_ATTR": Run._inherited,
    "BINARY_OP": Run._joined,
    "BINARY_SUBSCR": Run._item,
    "BUILD_LIST": Run._built,
    "BUILD_TUPLE": Run._built,
    "FOR_ITER": Run._each,
    "GET_ITER": Run._same,
    "UNPACK_EX": Run._unpacked,
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
    return list(thing) if isinstance(thing, (*_SEQUENCES, *_MAPPINGS)) else ()


def _under(thing: Mapping[Any, Any], keys: Sequence[Any]) -> Sequence[Any]:
    """What a dict has under some keys; where none is known, all that it has."""
    plain = thing if isinstance(thing, dict) else dict(thing)
    if not keys:
        return list(dict.values(plain))
    found = [dict.get(plain, key, NOTHING) for key in keys if _is_key(key)]
    return [value for value in found if value is not NOTHING]


def _given_one(thing: Any, keys: Sequence[Any]) -> Iterable[Any]:
    """What a method gives that looks for one thing in a container."""
    return _under(thing, keys) if isinstance(thing, _MAPPINGS) else _items_of(thing)


def _given(thing: Any, names: set[str]) -> Iterable[Any]:
    """What methods of a container give that give all that is in it."""
    if not isinstance(thing, _MAPPINGS):
        return [thing] if isinstance(thing, _SEQUENCES) else []
    plain = thing if isinstance(thing, dict) else dict(thing)
    ways: dict[str, Callable[[], Any]] = {
        "copy": lambda: plain,
        "items": partial(list, dict.items(plain)),
        "keys": partial(list, dict.keys(plain)),
        "values": partial(list, dict.values(plain)),
    }
    return [way() for name, way in ways.items() if name in names]


def _is_key(key: Any) -> bool:
    try:
        hash(key)
    except Exception:  # the user's own, whatever it does
        return False
    return True


def _references(things: Sequence[Any]) -> list[Any]:
    """Weak references to things, of those that Python has for all who ask."""
    return [weakref.ref(thing) for thing in things if type(thing).__weakrefoffset__]
