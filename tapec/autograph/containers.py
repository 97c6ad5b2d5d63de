"""What lists, dicts and their kin hold that a branch or loop of the program can reach, and what it does to that.

Where a branch assigns an item, or appends, is read off the code (`tapec.autograph.names.places_in`). What else it does
to a list (``pop``, ``insert``, ``+=``, under another name, in a nested function) shows in the list itself, behind it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from operator import is_, or_
from typing import Any, NamedTuple

from tapec.autograph.merging import is_data
from tapec.autograph.places import Place, items_of
from tapec.errors import TypeError
from tapec.frames import here
from tapec.structure import flatten
from tapec.tensor import Tensor
from tapec.variable import Variable

#: What is looked at in this way, with its subclasses, past what these do of their own.
KINDS = (list, dict, deque, set)

Contents = list[Any]
#: A name for messages, and what is there behind either branch.
Pair = tuple[str, Any, Any]


class End(NamedTuple):
    """What a container holds at the end of a branch, and whether that is as before, as far as places do not know."""

    keys: Sequence[Any]
    values: Contents
    stays: bool


class Held:
    """What one list, dict, deque or set holds in front of a branch or loop.

    Items that are assigned by name, and what is appended, are left to their places. What else comes to it and has no
    tensor in it stays, if the program does not read it: Python does it once, while it is traced. So do objects, such
    as layers that are made when they are needed, whoever reads them.
    """

    def __init__(self, name: str, holder: Any, places: Sequence[Place]) -> None:
        self.name = name
        self.holder = holder
        #: Of which kind it is as Python sees it, whatever a class of the user's adds to that.
        self._kind: Any = next(k for k in (OrderedDict, *KINDS) if isinstance(holder, k))
        self._before: Contents = []
        self._keys, self._before = self._there()
        self._named, self._grows = items_of(holder, places)
        self._assigned = [key in self._named for key in self._keys] if self._named else None

    def _there(self) -> tuple[Sequence[Any], Contents]:
        """The keys, in order, and what is at each."""
        holder, kind = self.holder, self._kind
        if issubclass(kind, dict):
            return list(kind.keys(holder)), list(kind.values(holder))
        if kind is set:  # its own order is of chance
            kept = [v for v in self._before if set.__contains__(holder, v)]
            items = kept + sorted(set.difference(holder, kept), key=hash)
            return items, items
        items = list(kind.__iter__(holder))
        return range(len(items)), items

    @property
    def unchanged(self) -> End:
        """What it holds at the end of a branch that cannot reach it."""
        return End(self._keys, self._before, stays=True)

    def look(self, grows: bool = False, notes: bool = True) -> End:
        """What it holds now.

        Args:
            grows: whether tensors may come to it.
            notes: whether numbers and texts may come: who counts traces, or keeps a history, does so.
        """
        keys, values = self._there()
        return End(keys, values, self._stays(keys, values, grows or self._grows, notes))

    def put_back(self) -> None:
        """Make it hold what it did before."""
        self.put(self._keys, self._before)

    def _stays(self, keys: Sequence[Any], values: Contents, grows: bool, notes: bool) -> bool:
        """Whether nothing became of it that places do not know, and nothing came to it that is more than noted."""
        count = len(self._before)
        if len(values) < count or (isinstance(self.holder, dict) and keys[:count] != self._keys):
            return False
        same = map(is_, self._before, values)
        if not all(same if self._assigned is None else map(or_, same, self._assigned)):
            return False
        new = list(zip(keys[count:], values[count:], strict=True))
        came = flatten([v for key, v in new if key not in self._named])[0]
        # Variables are objects that code makes when it needs them, as layers are.
        return not any(
            not grows if isinstance(v, Tensor) else is_data(v) and not notes
            for v in came
            if not isinstance(v, Variable)
        )

    def put(self, keys: Sequence[Any], values: Contents) -> None:
        """Make it hold something, in this order."""
        holder, kind = self.holder, self._kind
        kind.clear(holder)
        if issubclass(kind, dict):
            for key, value in zip(keys, values, strict=True):
                kind.__setitem__(holder, key, value)
        elif kind is set:
            set.update(holder, values)
        else:
            kind.extend(holder, values)

    def settle(self, end: End, values: Iterator[Any]) -> None:
        """Make it hold, under the keys of one branch's end, what both chose: the next of some values."""
        self.put(end.keys, [next(values) for _ in end.keys])

    def pairs(self, one: End, other: End) -> list[Pair]:
        """What is at each key behind two branches.

        Raises:
            TypeError: they are not as many, or have other keys.
        """
        if list(one.keys) != list(other.keys):
            raise TypeError(
                f"{self.name} holds {_count(one.keys, self.holder)} at the end of the main branch, but "
                f"{_count(other.keys, self.holder)} at the end of the else branch",
                location=here(),
                hint="change it alike in both branches, or in neither: what a branch over tensors changes must be "
                "tensors or numbers, in a structure that stays",
            )
        ends = zip(one.keys, one.values, other.values, strict=True)
        return [(f"{self.name}[{key!r}]", a, b) for key, a, b in ends]

    def refuse(self, found: End) -> None:
        """For loops: what it holds stays, but for items that are assigned by name; something may come to it.

        Raises:
            TypeError: a turn changes it.
        """
        if not found.stays:
            raise TypeError(
                f"{self.name} holds {_count(self._keys, self.holder)} before the loop, and "
                f"{_count(found.keys, self.holder)} or others after one iteration",
                location=here(),
                hint=f"a loop over tensors does not change a {type(self.holder).__name__} in place, but for items "
                "that it assigns: let it make another one of the same length, or collect values in a tapec.TensorArray",
            )


def _count(keys: Sequence[Any], holder: Any) -> str:
    if isinstance(holder, dict):
        return f"the keys {list(keys)}"
    return f"{len(keys)} item{'s' * (len(keys) != 1)}"
