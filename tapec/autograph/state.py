"""The variables of a loop of converted code that is part of the program: what goes round, and what comes out."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import is_
from typing import Any

from tapec.autograph.aliases import note
from tapec.autograph.branches import go_on_with, restore
from tapec.autograph.jumps import RETURNED
from tapec.autograph.merging import called, described, is_value, leaf_type, leaves_of, same
from tapec.autograph.options import LoopOptions
from tapec.autograph.places import UNBOUND, Place
from tapec.control.regions import Leaves
from tapec.control.tensor_array import TensorArray
from tapec.errors import NotImplementedError, TypeError, ValueError
from tapec.frames import here
from tapec.structure import unflatten
from tapec.tensor import Tensor, as_tensor


class Growing(Exception):
    """A variable got another shape, as it may; a loop of the program cannot do that."""


class LoopState:
    """Variables around a loop, and their values as leaves.

    Args:
        places: the variables that the loop binds, the attributes and items that it assigns.
        names: the variables.
        later: those that are read behind the loop.
        again: those whose value the next turn reads.
        turns_surely: whether there is a turn.
    """

    def __init__(
        self,
        places: Sequence[Place],
        names: Collection[str],
        later: Collection[str],
        again: Collection[str],
        turns_surely: bool = False,
    ) -> None:
        self._all, self._turns_surely = places, turns_surely
        self._before = [p.get() for p in places]
        self._carried: list[_Carried] = []
        self._late: list[_Late] = []
        for place, value in zip(places, self._before, strict=True):
            reads = place.name not in names or place.name in again
            if not reads and place.name not in later:
                continue
            if value is UNBOUND or (not reads and (turns_surely or value is None)):
                self._late.append(_Late(place))
            else:
                self._carried.append(_Carried(place, value))

    @property
    def leaves(self) -> Leaves:
        """The values before the loop that go round."""
        return [leaf for carried in self._carried for leaf in carried.leaves]

    def hint(self, hint: str | None) -> str | None:
        """A remedy for dtypes that do not fit, with what the variables have that began as Python's numbers."""
        begun = [text for carried in self._carried if (text := carried.began()) is not None]
        if not begun:
            return hint
        return "; ".join([*([hint] if hint else []), f"in the loop {', '.join(begun)}"])

    def put(self, leaves: Sequence[Any], ends: bool = False) -> None:
        """Give the variables values, as a turn finds them, or who comes after the loop if it ``ends``."""
        restore(self._all, self._before)
        values = iter(leaves)
        for carried in self._carried:
            carried.put([next(values) for _ in carried.leaves], ends and self._turns_surely)

    def take(self, options: LoopOptions) -> Leaves:
        """The leaves after a turn: those of the variables that go round, then of those that come out.

        Raises:
            Growing: a variable has another shape, as ``options`` allow.
            TypeError, ValueError, NotImplementedError: see `_Carried` and `_Late`.
        """
        found = [leaf for carried in self._carried for leaf in carried.take(options)]
        return found + [leaf for late in self._late for leaf in late.take()]

    def finish(self, leaves: Sequence[Any]) -> None:
        """Give the variables the values that they have behind the loop."""
        count = len(self.leaves)
        for carried in self._carried:
            carried.begin()
        self.put(leaves[:count], ends=True)
        rest = iter(leaves[count:])
        for late in self._late:
            late.put(rest)

    def reset(self) -> None:
        """Give the variables the values that they had before the loop."""
        restore(self._all, self._before)


class _Carried:
    """A variable that has a value before the loop.

    Raises:
        TypeError: a turn changes its dtype or structure, or it is no value of a program and changes.
        ValueError: a turn changes its shape.
    """

    def __init__(self, place: Place, value: Any) -> None:
        self._place, self._value = place, value
        whole, self._spec = leaves_of(value)
        self._whole = whole
        self._moving = [i for i, leaf in enumerate(whole) if is_value(leaf)]
        #: Those of its leaves that go round.
        self.leaves: Leaves = [
            whole[i] if isinstance(whole[i], TensorArray) else as_tensor(whole[i])
            for i in self._moving
        ]
        #: The same as the turn that is being traced found them.
        self._given: Sequence[Any] = self.leaves
        #: Whether a turn leaves alone what it might have assigned.
        self._stays = False

    def put(self, leaves: Sequence[Any], surely: bool = False) -> None:
        """``surely``: whether there was a turn that may have made it another."""
        self._given = leaves
        if not leaves or self._stays:
            self._place.set(self._value)
            return
        whole = list(self._whole)
        for i, leaf in zip(self._moving, leaves, strict=True):
            whole[i] = leaf
        value = unflatten(self._spec, whole)
        if not surely:
            note(self._place, value, [self._value])
        self._place.set(value)

    def begin(self) -> None:
        """Let the program rest on the value before the loop, if turns change it."""
        if not self._stays:
            go_on_with(self._place, self._value)

    def began(self) -> str | None:
        """What it is in the loop, if it is a Python number before."""
        if isinstance(self._value, bool) or not isinstance(self._value, int | float):
            return None
        dtype = self.leaves[0].dtype.name
        return f"{called(self._place.name)}, which begins as the number {self._value!r}, is {dtype}"

    def take(self, options: LoopOptions) -> Leaves:
        value = self._place.get()
        name = called(self._place.name)
        leaves, spec = leaves_of(value)
        alike = spec == self._spec and len(leaves) == len(self._whole)
        fixed = set(range(len(self._whole))) - set(self._moving)
        if not alike or not all(same(self._whole[i], leaves[i]) for i in fixed):
            raise TypeError(
                f"{name} is {described(self._value)} before the loop, but {described(value)} after one "
                "iteration",
                location=here(),
                hint="what a loop over tensors changes must be tensors or numbers, in a structure that stays",
            )
        moved = [leaves[i] for i in self._moving]
        self._stays = not self._place.surely and all(map(is_, self._given, moved))
        for before, given, after in zip(self.leaves, self._given, moved, strict=True):
            self._hold(before, given, after, options)
        return moved

    def _hold(self, before: Any, given: Any, after: Any, options: LoopOptions) -> None:
        name = called(self._place.name)
        if isinstance(before, TensorArray) and isinstance(after, TensorArray):
            return
        if isinstance(before, TensorArray) or not is_value(after):
            raise TypeError(
                f"{name} is {described(self._value)} before the loop, but {described(after)} after one "
                "iteration",
                location=here(),
            )
        first, second = leaf_type(before), leaf_type(after)
        if first.dtype != second.dtype:
            raise TypeError(
                f"{name} has dtype {first.dtype.name} before the loop, but dtype {second.dtype.name} after "
                "one iteration",
                location=here(),
                hint=f"give {name} a value of dtype {second.dtype.name} before the loop, or use tapec.cast",
            )
        if first.shape != second.shape:
            if any(given is value for value in options.varying):
                raise Growing(
                    f"{name} has shape {first} before the loop, but {second} after one iteration"
                )
            raise ValueError(
                f"{name} has shape {first} before the loop, but {second} after one iteration",
                location=here(),
                hint="tapec.autograph.experimental.set_loop_options takes shape_invariants, for loops whose "
                "number of turns is known; or collect values in a tapec.TensorArray",
            )


class _Late:
    """A variable without a value before the loop, or with one that no turn reads."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._whole: Leaves | None = None

    def take(self) -> Leaves:
        value = self._place.get()
        if value is UNBOUND:
            return []
        if self._place.name == RETURNED:
            raise NotImplementedError(
                "a return statement cannot be placed inside this loop over tensors: if it never returned, "
                "there would be no value",
                location=here(),
                hint="assign the value to a variable that has one before the loop, and use break",
            )
        self._whole, self._spec = leaves_of(value)
        self._moving = [i for i, leaf in enumerate(self._whole) if is_value(leaf)]
        return [self._whole[i] for i in self._moving]

    def put(self, leaves: Any) -> None:
        if self._whole is None:
            return
        whole = list(self._whole)
        for i in self._moving:
            leaf = whole[i]
            found: Tensor = next(leaves)
            whole[i] = leaf.with_dense(found) if isinstance(leaf, TensorArray) else found
        self._place.set(unflatten(self._spec, whole))
