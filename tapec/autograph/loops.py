"""``while`` and ``for`` of converted code: Python's loops, or one of the program over the variables that it changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import count, cycle, repeat
from operator import length_hint
from typing import Any

from tapec.autograph.branches import choose, nothing
from tapec.autograph.expressions import is_traced, predicate
from tapec.autograph.options import LoopOptions, of_this_loop
from tapec.autograph.places import Path, Place, places_of
from tapec.autograph.ranges import Turning, turning
from tapec.autograph.state import Growing, LoopState
from tapec.control.regions import Leaves
from tapec.control.repetition import Turns
from tapec.errors import NotImplementedError, TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import add
from tapec.functions.arrays import constant
from tapec.ir.types import I32
from tapec.recording import current_trace
from tapec.tensor import Tensor

Names = Collection[str]

#: So many branches, one for each turn, a program may have before it is taken for one without end.
_MOST_TURNS = 10_000


def while_stmt(
    test: Callable[[], Any],
    body: Callable[[], None],
    names: Sequence[str],
    later: Names,
    again: Names,
    paths: Sequence[Path],
    binds: bool,
) -> None:
    """Run a body while a test holds; from the turn on where only the run knows whether it does, in the program.

    Args:
        test: the condition, a function that shares its variables with the code around it.
        body: the same for the body.
        names: the variables that they bind.
        later: those that are read behind the loop.
        again: those that the next turn reads.
        paths: the attributes and items that they assign.
        binds: whether the test binds variables.

    Raises:
        NotImplementedError: a ``return`` depends on what the run finds.
        TypeError, ValueError: a variable changes its dtype, shape or structure.
    """
    while True:
        trace = current_trace()
        before = {} if trace is None else dict(trace.states)
        found = test()
        if is_traced(found):
            break
        if not found:
            return
        body()
    assert trace is not None
    places = places_of((test, body), names, paths)
    state = LoopState(places, names, later, again)
    # A test that draws numbers or assigns runs once before the loop, and at the end of each turn.
    changes = binds or trace.states != before
    go = predicate(found, "while loop") if changes else None
    _Loop(state, places, lambda _: body(), None, lambda: predicate(test(), "while loop"), go).run()


def for_stmt(
    iterable: Any,
    body: Callable[[Any], None],
    test: Callable[[], Any] | None,
    names: Sequence[str],
    later: Names,
    again: Names,
    paths: Sequence[Path],
) -> None:
    """Run a body for each item; over the rows of a tensor or the numbers of `tapec.range` in the program.

    Args:
        iterable: what the items are of.
        body: takes an item; shares its variables with the code around it.
        test: whether to go on, if the body can say that the loop ends.
        names: the variables that the body binds.
        later: those that are read behind the loop.
        again: those that the next turn reads.
        paths: the attributes and items that it assigns.

    Raises:
        NotImplementedError: a ``return`` depends on what the run finds.
        TypeError, ValueError: a variable changes its dtype, shape or structure.
    """
    way = turning(iterable)
    if way is None:
        _each(iterable, body, test, names, {*later, *again}, paths)
        return
    turns_surely = test is None and isinstance(way.length, int) and way.length > 0
    places = places_of((body,), names, paths)
    state = LoopState(places, names, later, again, turns_surely)
    goes_on = None if test is None else lambda: predicate(test(), "for loop")
    try:
        _Loop(state, places, body, way, goes_on).run()
    except Growing as error:
        if not isinstance(way.length, int):
            raise ValueError(
                f"{error}, in a loop of which only the run knows how often it turns",
                location=here(),
                hint="collect values in a tapec.TensorArray",
            ) from None
        items = [way.item(i) for i in range(way.length)]
        _each(items, body, test, names, {*later, *again}, paths)


def _each(
    items: Iterable[Any],
    body: Callable[[Any], None],
    test: Callable[[], Any] | None,
    names: Sequence[str],
    later: Names,
    paths: Sequence[Path],
) -> None:
    """Python's loop; once only the run knows whether it has ended, each turn is a branch.

    Raises:
        NotImplementedError: there is no last turn, or it is too far away.
    """
    places = None
    for number, item in enumerate(items):
        if test is None:
            body(item)
            continue
        goes_on = test()
        if is_traced(goes_on):
            if number >= _MOST_TURNS or _is_endless(items):
                raise NotImplementedError(
                    f"this loop over a {type(items).__name__} ends by break, of which only the run knows when: each "
                    "turn would be written out, and there are too many",
                    location=here(),
                    hint="use a while loop, or for i in tapec.range(n) with the most turns that there may be",
                )
            places = places or places_of((body,), names, paths, branches=True)
            condition = predicate(goes_on, "for loop")
            choose(condition, lambda item=item: body(item), nothing, places, names, later)  # type: ignore[misc]
            continue
        body(item)
        goes_on = test()
        if not is_traced(goes_on) and not goes_on:
            break


def _is_endless(items: Iterable[Any]) -> bool:
    """Whether an iterator is known to go on for ever."""
    return isinstance(items, count | cycle) or (
        isinstance(items, repeat) and length_hint(items, -1) < 0
    )


class _Loop:
    """A loop of the program: along a way, or as long as a test holds, or both."""

    def __init__(
        self,
        state: LoopState,
        places: Sequence[Place],
        body: Callable[[Any], None],
        way: Turning | None = None,
        test: Callable[[], Tensor] | None = None,
        go: Tensor | None = None,
    ) -> None:
        """``go`` is what the test gave before the loop, if it is to be computed once for each turn."""
        self._state, self._body, self._way, self._test, self._go = state, body, way, test, go
        self._turns = Turns("loop", places=places)
        self._counts = way is not None and not way.columns
        #: What goes round before the user's variables: the number of the turn, whether there is another.
        self._first = [constant(0, I32)] if self._counts else []
        self._first += [] if go is None else [go]

    def run(self) -> None:
        """Trace the body, and give the variables their values behind the loop."""
        way, state, front = self._way, self._state, len(self._first)
        turns = self._turns
        turns.again = None if self._test is None else self._again
        if way is not None:
            turns.columns, turns.length, turns.count = list(way.columns), way.length, way.count

        def step(values: Leaves, rows: list[Tensor]) -> tuple[Leaves, Leaves]:
            with of_this_loop() as options:
                found = self._turn(values, rows, options)
            turns.most = options.maximum_iterations
            return found, []

        try:
            found, _ = turns.run([*self._first, *state.leaves], step)
        except TypeError as error:
            error.hint = state.hint(error.hint)
            raise
        finally:
            state.reset()
        state.finish(found[front:])

    def _turn(self, values: Leaves, rows: list[Tensor], options: LoopOptions) -> Leaves:
        front = len(self._first)
        self._state.put(values[front:])
        turn = values[0] if self._counts else None
        self._body(None if self._way is None else self._way.value(turn, rows, self._test is None))
        after = [] if turn is None else [add(turn, constant(1, I32))]
        if self._go is not None and self._test is not None:
            after.append(self._test())
        self._turns.refuse_changes()  # before items are put back that may be gone
        return [*after, *self._state.take(options)]

    def _again(self, values: Leaves) -> Tensor:
        front = len(self._first)
        if self._go is not None:
            go: Tensor = values[front - 1]
            return go
        self._state.put(values[front:])
        assert self._test is not None
        return self._test()
