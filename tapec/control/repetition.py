"""Loops of a program that is being traced; `tapec.control.regions` says what becomes of what they read and assign."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from tapec.autograph.places import Place
from tapec.autograph.reach import Reach
from tapec.control.counters import (
    Ranges,
    counting,
    is_positive,
    start_of,
    steps_of,
    turns_while,
)
from tapec.control.growth import set_range
from tapec.control.regions import Inputs, Leaves, Subprogram, check_types, current
from tapec.control.structures import behind, dense, hold_sizes, like
from tapec.control.tensor_array import TensorArray
from tapec.errors import RuntimeError
from tapec.frames import here
from tapec.functions.arithmetic import minimum
from tapec.functions.arrays import full
from tapec.functions.rearrangement import part as rows_from
from tapec.ir.dims import DimLike
from tapec.ir.errors import TapecError
from tapec.ir.ops.repetition_rules import ENDLESS, MOST_KEPT, most_turns
from tapec.ir.types import TensorType
from tapec.recording import current_trace, tracing
from tapec.tensor import Tensor, as_tensor
from tapec.tracing import Trace, TracedTensor

P = ParamSpec("P")
R = TypeVar("R")


def repeated(
    again: Callable[[Leaves], Tensor],
    step: Callable[[Leaves], Leaves],
    leaves: Leaves,
    limit: DimLike | None,
) -> Leaves:
    """The last values of ``leaves = step(leaves)`` while ``again(leaves)``, as a loop of the program.

    Raises:
        TypeError, ValueError: a step returns other dtypes or shapes.
    """
    loop = Turns("while_loop", length=limit, again=again)
    return loop.run(leaves, lambda values, _: (step(values), []))[0]


def over_rows(
    name: str,
    step: Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]],
    first: list[Tensor],
    columns: list[Tensor],
    backwards: bool,
) -> tuple[list[Tensor], list[Tensor]]:
    """A loop over the rows of ``columns``: ``step`` takes values and rows, and returns the next values and rows.

    ``name`` is for messages.

    Returns:
        The last values, and the rows stacked.

    Raises:
        TypeError, ValueError: a step returns other dtypes or shapes than it takes.
    """
    return Turns(name, columns, columns[0].type.shape[0], backwards=backwards).run(first, step)


#: From the values that go round and the rows of a turn to the next values and the rows that it makes.
Step = Callable[[Leaves, list[Tensor]], tuple[Leaves, Leaves]]


class Turns:
    """A loop of the program, by what says how often it turns; all of it together, if there is more.

    Args:
        name: for messages.
        columns: Tensors of which each turn takes its row.
        length: the number of turns, or the most; None if nothing is known.
        count: the number of turns, an int32 of rank 0 that the program computes.
        again: takes the values that go round, and says whether there is another turn.
        backwards: from the last row to the first.
        places: what a step assigns that goes round, or comes out.

    Attributes:
        most: the number of turns at most, which a step may set.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[Tensor] = (),
        length: DimLike | None = None,
        count: Tensor | None = None,
        again: Callable[[Leaves], Tensor] | None = None,
        backwards: bool = False,
        places: Sequence[Place] = (),
    ) -> None:
        self.name, self.columns, self.length, self.count = name, list(columns), length, count
        self.again, self.backwards = again, backwards
        self.most: int | None = None
        self._places = places
        self._ranges: Ranges = {}
        self._counts_arrays = False

    def run(
        self,
        leaves: Leaves,
        step: Step,
    ) -> tuple[Leaves, list[Tensor]]:
        """The last values, and the rows that the steps made, stacked.

        A step may return more values than it takes: these are what it made last, zeros if there was no turn.

        Raises:
            TypeError: it changes something else that is there before.
        """
        self._reach = Reach([step, self.again], self._places)
        if self.again is not None:
            self.again = self._held_to_its_own(self.again)
        return self._run(leaves, self._held_to_its_own(step))

    def refuse_changes(self) -> None:
        """Hold a part of the loop to what is its own.

        Raises:
            TypeError: it changed something else.
        """
        self._reach.refuse_change()

    def _held_to_its_own(self, part: Callable[P, R]) -> Callable[P, R]:
        def held(*args: P.args, **kwargs: P.kwargs) -> R:
            with self._reach.watching():
                found = part(*args, **kwargs)
            self.refuse_changes()
            return found

        return held

    def _run(self, leaves: Leaves, step: Step) -> tuple[Leaves, list[Tensor]]:
        """`run`, where a step keeps to what is its own."""
        rows = [c.type.with_shape(c.type.shape[1:]) for c in self.columns]
        if not self._counts_arrays and self._asks_sizes(leaves, rows, step):
            return self._run_counted(leaves, step)
        before, leaves = leaves, self._started(leaves, rows, step)
        if not self._turns_surely:
            hold_sizes(
                before, leaves, "does so in a loop that may not turn as often, or not at all"
            )
        first = dense(leaves)
        carried, given = [v.type for v in first], len(first)
        body = Subprogram(self.name, [*carried, *rows])
        body.set_ranges(self._ranges)
        values, made = body.run(lambda v: step(like(leaves, v[:given]), v[given:]))
        hold_sizes(leaves, values, "gets longer in each turn of a loop, at its own end")
        body.finish([*values, *made])
        count = len(values)
        self._keep_to_most()
        check_types(self.name, "before a turn", "after it", carried, body.results[:given])
        more = body.results[given:count]
        body.add_inputs(more, given)
        first += [full(0, t.dtype, t.shape) for t in more]
        parts = [body]
        if self.again is not None:
            asked = self._condition([*carried, *more], leaves)
            if not self._counts(body, asked, first):
                parts.append(asked)
        inputs = Inputs(parts)
        regions = [inputs.region(body, count, rows, count)]
        regions += [inputs.region(part, count, [], None) for part in parts[1:]]
        attrs = {
            "carried": count + len(inputs.assigned),
            "stacked": len(self.columns),
            "length": ENDLESS if self.length is None else self.length,
            **({"reverse": True} if self.backwards else {}),
            **({"counted": True} if self.count is not None else {}),
        }
        counts = [] if self.count is None else [self.count]
        results = inputs.apply("loop", counts, regions, first, self.columns, **attrs)
        if self.length is None and len(regions) > 1:
            _bound(results[0])
        found = inputs.keep_states(results, count)
        last = behind(before, like(leaves, found[:given]))
        return [*last, *found[given:count]], found[count:]

    def _asks_sizes(self, leaves: Leaves, rows: Sequence[TensorType], step: Step) -> bool:
        """Whether arrays have to count their elements: turns ask how many there are by now."""
        arrays = [v for v in leaves if isinstance(v, TensorArray) and v.dynamic_size]
        if any(v.count is not None for v in arrays):
            return True
        trace = Trace("loop", parent=current_trace())
        trace.scouts = True
        try:
            with tracing(trace):
                known = [
                    v if isinstance(v, TensorArray) else trace.input(v.type, None) for v in leaves
                ]
                if arrays:
                    step(known, [trace.input(t, None) for t in rows])
                    if self.again is not None:
                        self.again(known)
        except TapecError:
            pass  # it will be raised where it can be said
        return trace.asks_sizes

    def _run_counted(self, leaves: Leaves, step: Step) -> tuple[Leaves, list[Tensor]]:
        """`run` with the numbers of elements of arrays going round beside them."""
        self._counts_arrays = True
        given, again = len(leaves), self.again
        arrays = [i for i, v in enumerate(leaves) if isinstance(v, TensorArray) and v.dynamic_size]

        def with_counts(values: Leaves) -> Leaves:
            own = list(values[:given])
            for i, count in zip(arrays, values[given : given + len(arrays)], strict=True):
                own[i] = own[i].counted(count)
            return own

        def counted(values: Leaves, rows: list[Tensor]) -> tuple[Leaves, Leaves]:
            found, made = step(with_counts(values), rows)
            return [*found[:given], *(found[i].count for i in arrays), *found[given:]], made

        if again is not None:
            self.again = lambda values: again(with_counts(values))
        counts = [leaves[i].size() for i in arrays]
        plain = [v.counted(None) if i in arrays else v for i, v in enumerate(leaves)]
        last, made = self._run([*plain, *counts], counted)
        for i, count in zip(arrays, last[given : given + len(arrays)], strict=True):
            if leaves[i].count is not None:
                last[i] = last[i].counted(count)
        return [*last[:given], *last[given + len(arrays) :]], made

    def _started(self, leaves: Leaves, rows: Sequence[TensorType], step: Step) -> Leaves:
        """The leaves with TensorArrays that know their size; the loop counts then, if that follows from counters.

        Raises:
            TypeError: an array grows as far as the run alone knows.
        """
        if all(v.is_settled for v in leaves if isinstance(v, TensorArray)):
            return leaves
        if self._count(leaves, rows, step):
            try:
                return _sized(leaves, rows, step, self._ranges)
            except TapecError:
                pass  # it is raised below if it has another reason
        return _sized(leaves, rows, step, {})

    def _count(self, leaves: Leaves, rows: Sequence[TensorType], step: Step) -> bool:
        """Turn as often as can be known beforehand, and know the counters; False if nothing can be."""
        if self.count is not None:
            return False

        def once(values: Sequence[Any]) -> Leaves:
            trace = current()
            return step(list(values), [trace.input(t, None) for t in rows])[0]

        def most() -> DimLike | None:
            if self.most is None or self.length is None:
                return self.length if self.most is None else self.most
            return min(self.length, self.most) if isinstance(self.length, int) else None

        try:
            again = self.again
            found = counting(
                leaves, once, None if again is None else lambda v: again(list(v)), most
            )
        except TapecError:
            return False
        if found is None:
            return False
        if self.again is not None:
            self.again, self.length = None, found.turns
        self._ranges = found.ranges
        return True

    def _counts(self, body: Subprogram, asked: Subprogram, first: Sequence[Tensor]) -> bool:
        """Turn as often as the condition will let, if that is known beforehand."""
        with tracing(body.trace):
            steps = steps_of(body.given, body.tensors)
        starts = {i: start for i in steps if (start := start_of(first[i])) is not None}
        with tracing(asked.trace):
            turns = turns_while(
                asked.trace, asked.tensors[0], asked.given, steps, starts, self.length
            )
        if turns is None or not is_positive(turns):
            return False
        kept = sum((v.type.bytes for v in first), 0) * turns  # by a derivative, unless it need not
        if isinstance(kept, int) and kept > MOST_KEPT:
            return False
        self.length = turns
        return True

    @property
    def _turns_surely(self) -> bool:
        """Whether it turns as often as its length says, which is not 0 as far as that is known."""
        if self.again is not None or self.count is not None or not self.length:
            return False
        return self.most is None or (isinstance(self.length, int) and self.most >= self.length)

    def _keep_to_most(self) -> None:
        most = self.most
        if most is None:
            return
        if self.count is not None:
            self.count = minimum(self.count, as_tensor(most))
        elif not isinstance(self.length, int) or self.length > most:
            self.columns = [rows_from(c, 0, 0, most) for c in self.columns]
            self.length = most

    def _condition(self, types: Sequence[TensorType], leaves: Leaves) -> Subprogram:
        again = self.again
        assert again is not None
        given = len(leaves)
        asked = Subprogram.traced(
            "cond", lambda values: [again(like(leaves, values[:given]))], types
        )
        if asked.states:
            raise RuntimeError("cond of while_loop assigns a Variable", location=here())
        return asked


def _bound(result: Tensor) -> None:
    """Write down how often a loop turns at most, if its condition tells: its derivative asks for that."""
    assert isinstance(result, TracedTensor)
    loop = result.value.op
    assert loop is not None
    most = most_turns(loop)
    if most is not None:
        loop.attrs["length"] = most


def _sized(leaves: Leaves, rows: Sequence[TensorType], step: Step, ranges: Ranges) -> Leaves:
    """The leaves, in which every TensorArray knows its elements' shape and how many there will be.

    A step that goes nowhere tells.
    """
    trace = Trace("loop", parent=current_trace())
    with tracing(trace):
        known = [v if isinstance(v, TensorArray) else trace.input(v.type, None) for v in leaves]
        for i, ends in ranges.items():
            counter = known[i]
            assert isinstance(counter, Tensor)
            set_range(counter, *ends)
        found, _ = step(known, [trace.input(t, None) for t in rows])
    if trace.created_variables:
        current().created_variables = True
    return [
        v.settled_like(f) if isinstance(v, TensorArray) and isinstance(f, TensorArray) else v
        for v, f in zip(leaves, found, strict=False)
    ]
