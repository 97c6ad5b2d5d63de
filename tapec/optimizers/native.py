"""Updates that eager code repeats, as native programs.

What an optimizer does to variables depends on its settings, on which variables they are, and on the types of their
gradients. From the turn on that `config.native_turn` tells, as for gradients of tapes, equal updates run as one
program, which writes the variables and their slots in place.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapec import config
from tapec.compiled.function import compile
from tapec.compiled.shelves import ENTRY
from tapec.frames import is_ours
from tapec.ir.errors import TargetError
from tapec.optimizers.schedules import LearningRateSchedule
from tapec.recording import active_tapes, bystanders, current_trace, plain_calls
from tapec.tensor import Reference, Tensor
from tapec.tensors.indexed_slices import IndexedSlices
from tapec.variable import Variable

if TYPE_CHECKING:
    from tapec.optimizers.optimizer import Optimizer

#: Updates of more variables stay with NumPy: to compile them takes longer than anybody waits.
_MOST_VARIABLES = 64

#: Kinds of updates that are kept for each optimizer; the least recently used goes first.
_CAPACITY = 8
_known: weakref.WeakKeyDictionary[Optimizer, OrderedDict[Any, _Update]] = (
    weakref.WeakKeyDictionary()
)


def update_natively(
    optimizer: Optimizer,
    condition: Tensor | None,
    gradients: Sequence[Any],
    variables: Sequence[Variable],
) -> bool:
    """Change variables and slots by `Optimizer.change`, if it is the turn for a native program; whether it was.

    The rules of users' own are Python code that may do anything, and tapes hear of every assignment: there it is not.
    """
    turn = config.native_turn()
    if not turn or len(variables) > _MOST_VARIABLES or not is_ours(type(optimizer).__module__):
        return False
    if current_trace() is not None or active_tapes() or bystanders or plain_calls:
        return False
    settings = _settings(optimizer)
    if settings is None:
        return False
    kinds = [(type(g), g.type) for g in gradients]
    key = (settings, tuple(map(id, variables)), tuple(kinds), condition is None)
    updates = _known.setdefault(optimizer, OrderedDict())
    update = updates.get(key)
    if update is None:
        update = updates[key] = _Update(optimizer, gradients, variables, condition is not None)
        if len(updates) > _CAPACITY:
            updates.popitem(last=False)
    else:
        updates.move_to_end(key)
    update.turns += 1
    return update.turns >= turn and update.run(condition, gradients)


def _settings(optimizer: Optimizer) -> Any:
    """All that an update depends on besides variables and gradients; None if that is not known."""
    found: list[Any] = []
    for name, value in vars(optimizer).items():
        if name == ENTRY or name in optimizer._MEMOS:
            continue
        if isinstance(value, LearningRateSchedule):
            if not is_ours(type(value).__module__):
                return None
            found += [type(value), *map(_frozen, vars(value).values())]
        elif callable(value) and not isinstance(value, Variable):
            return None  # a rate that is a function
        else:
            found.append(_frozen(value))
    return tuple(found)


def _frozen(value: Any) -> Any:
    """A value that tells whether another is the same."""
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, set):
        return frozenset(value)
    if isinstance(value, Variable | Tensor):
        return Reference(value)
    return value


class _Update:
    """One kind of update of an optimizer."""

    def __init__(
        self,
        optimizer: Optimizer,
        gradients: Sequence[Any],
        variables: Sequence[Variable],
        has_condition: bool,
    ) -> None:
        self.turns = 0
        self._refused = False
        # The optimizer owns this, not the other way round.
        owner = weakref.ref(optimizer)
        shapes = [g.type.shape if isinstance(g, IndexedSlices) else None for g in gradients]
        kept = tuple(variables)

        def update(*tensors: Tensor) -> None:
            left = iter(tensors)
            condition = next(left) if has_condition else None
            given: list[Any] = [
                next(left) if shape is None else IndexedSlices(next(left), next(left), shape)
                for shape in shapes
            ]
            alive = owner()
            assert alive is not None
            alive.change(condition, given, kept)

        self._compiled = compile(update, autograph=False, name="apply_gradients")

    def run(self, condition: Tensor | None, gradients: Sequence[Any]) -> bool:
        """Update; False if there is no native code for it."""
        if self._refused:
            return False
        tensors = [] if condition is None else [condition]
        for gradient in gradients:
            if isinstance(gradient, IndexedSlices):
                tensors += [gradient.values, gradient.indices]
            else:
                tensors.append(gradient)
        try:
            self._compiled(*tensors)
        except TargetError:
            self._refused = True
        return not self._refused
