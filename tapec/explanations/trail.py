"""What a tape remembers besides its recording, so that it can say why a gradient is None.

Operations that it did not follow, reads that left it, assignments, where it began and stopped. Ids stand for tensors,
and no array is kept. Ids grow with time, so that they also say what came first. Everything is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from tapec.frames import Origin, origin
from tapec.recording import attend, current_trace, leave
from tapec.tensor import Tensor, next_id

if TYPE_CHECKING:
    from tapec.ir.core import Function, Operation
    from tapec.ir.location import Location
    from tapec.ir.op import Op
    from tapec.ir.types import TensorType
    from tapec.tapes.records import Recording
    from tapec.variable import Variable

#: How many steps, and how many events of each other kind, a tape remembers.
CAPACITY = 4096

#: How many operations after its block a tape still listens to.
AFTERWARDS = 256


class State(Enum):
    """What a tape did with an operation."""

    FOLLOWED = "followed"
    UNFOLLOWED = "nothing it followed was used"
    STOPPED = "under stop_recording"
    AFTER = "after the block"
    RESET = "before reset"
    ELSEWHERE = "in another thread"


class Step(NamedTuple):
    """One operation; of a followed one, also what its derivative rule may be asked with."""

    defn: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    origin: Origin | Location | None
    state: State
    attrs: Mapping[str, Any] | None = None
    input_types: tuple[TensorType, ...] = ()
    callee: Function | None = None
    operation: Operation | None = None
    rule: Location | None = None


class Departure(NamedTuple):
    """A read of elements by Python or NumPy: ``.numpy()``, ``float()``, ``numpy.asarray`` and the like."""

    thing: int | Variable
    how: str
    time: int
    origin: Origin | None


class Assignment(NamedTuple):
    """A value, by id, that went into a Variable."""

    variable: Variable
    value: int
    time: int
    origin: Origin | None


class Answer(NamedTuple):
    """A call of some tape's ``gradient``: ids of targets and of gradients."""

    targets: tuple[int, ...]
    outputs: tuple[int, ...]
    origin: Origin | None
    state: State


class Mark(NamedTuple):
    """Recording began or ended, a value was watched, the tape was reset."""

    time: int
    origin: Origin | None


class Value(NamedTuple):
    """A source or target without its elements: a Variable, or a Tensor's id."""

    thing: int | Variable
    type: TensorType

    @staticmethod
    def of(value: Tensor | Variable) -> Value:
        """The same without elements."""
        return Value(value.id if isinstance(value, Tensor) else value, value.type)

    @property
    def key(self) -> int:
        """What tells it apart: a tensor's id, or the ``id`` of a Variable."""
        return self.thing if isinstance(self.thing, int) else id(self.thing)


class Trail:
    """The memory of one tape.

    Attributes:
        state: what the tape does now with operations that it does not record.
        past: operations that it followed, once they are needed for nothing else.
        reads: ids of what reads of Variables gave, where those were not watched.
        watches: when what was first watched, by tensor id or ``id`` of a Variable.
        late: when tensors were watched that recorded operations had used before.
        assignments, answers: see their classes.
        opened, forgot, spent: when the tape first began to record, was last reset, and gave its only gradient.
    """

    __slots__ = (
        "__weakref__",
        "_noted",
        "_room",
        "_taken",
        "_thread",
        "_together",
        "_trace",
        "answers",
        "assignments",
        "forgot",
        "late",
        "opened",
        "past",
        "reads",
        "spent",
        "state",
        "unanswered",
        "watches",
    )

    def __init__(self) -> None:
        """Nothing happened yet."""
        self.state = State.AFTER
        #: The `steps`; those that ran as one stand together until somebody looks: `note_each`'s arguments.
        self._noted: deque[Any] = deque(maxlen=CAPACITY)
        #: At least how many stand together with others.
        self._together = 0
        self.past: Recording | None = None
        self.reads: dict[int, tuple[Variable, deque[int]]] = {}
        self.watches: dict[int, Mark] = {}
        self.late: dict[int, int] = {}
        #: `departures` as plain tuples, which are made in a fraction of the time.
        self._taken: list[tuple[int | Variable, str, int, Origin | None]] = []
        self.assignments: list[Assignment] = []
        self.answers: list[Answer] = []
        self.opened: Mark | None = None
        self.forgot: Mark | None = None
        self.spent: Mark | None = None
        #: Questions that were answered with None: ids of the targets, key of the source.
        self.unanswered: set[tuple[frozenset[int], int]] = set()
        self._room = AFTERWARDS
        self._trace = 0
        self._thread = 0

    # -- while the tape records

    def begin(self) -> None:
        """Hear that the tape records from now on."""
        self.state = State.ELSEWHERE
        if self.opened is None:
            self.opened = mark()
        self._trace = id(current_trace())
        self._thread = get_ident()
        attend(self)

    def end(self, state: State) -> None:
        """Hear that the tape records no longer."""
        self.state = state

    def asked(self, again: bool) -> None:
        """Hear that the tape is to give its gradient, perhaps not for the last time."""
        if again:
            self._room = AFTERWARDS
            attend(self)
        else:
            leave(self)

    def step(
        self,
        defn: Op,
        inputs: Sequence[Tensor],
        outputs: Sequence[int],
        where: Origin | None,
        state: State = State.UNFOLLOWED,
    ) -> None:
        """Remember an operation that the tape does not follow."""
        ids = tuple([x.id for x in inputs])
        # Step(…) takes longer than all else that is done for an operation that nobody follows.
        step = tuple.__new__(
            Step, (defn, ids, tuple(outputs), where, state, None, (), None, None, None)
        )
        self._noted.append(step)

    def note_each(
        self,
        operations: Sequence[tuple[Op, tuple[int, ...], int]],
        ids: Sequence[int],
        where: Origin | None,
    ) -> None:
        """As `step`, for operations that ran as one, of values with these ids: by the places of operands and result."""
        self._noted.append((operations, ids, where))
        self._together += len(operations)
        if self._together > 2 * CAPACITY:
            self._forget_oldest()

    @property
    def steps(self) -> deque[Step]:
        """Operations that the tape did not follow."""
        if self._together:
            self._take_apart()
        return self._noted

    def _forget_oldest(self) -> None:
        """Forget what is further back than that many operations; some that stood together may be gone already."""
        weights = [0 if isinstance(entry, Step) else len(entry[0]) for entry in self._noted]
        self._together = sum(weights)
        for weight in weights:
            if self._together <= CAPACITY:
                break
            self._noted.popleft()
            self._together -= weight

    def _take_apart(self) -> None:
        """Make a step of each operation that was noted with others."""
        noted: deque[Step] = deque(maxlen=CAPACITY)
        for entry in self._noted:
            if isinstance(entry, Step):
                noted.append(entry)
                continue
            operations, ids, where = entry
            for defn, operands, result in operations:
                read = tuple([ids[p] for p in operands])
                noted.append(Step(defn, read, (ids[result],), where, State.UNFOLLOWED))
        self._noted, self._together = noted, 0

    def read(self, variable: Variable, value: Tensor) -> None:
        """Remember the read of a Variable that is not watched."""
        known = self.reads.get(id(variable))
        if known is None:
            known = self.reads[id(variable)] = (variable, deque(maxlen=CAPACITY))
        known[1].append(value.id)

    def watch(self, key: int, recording: Recording | None = None) -> None:
        """Remember when something was first watched, and whether eager operations used the tensor before."""
        if key in self.watches:
            return
        self.watches[key] = mark()
        if recording is not None and key not in recording.active and key in recording.ends:
            if any(key in r.inputs and r.operation is None for r in recording.records):
                self.late[key] = self.watches[key].time

    def depart(self, thing: int | Variable, how: str, where: Origin | None) -> None:
        """Remember that elements, of a tensor by its id or of a Variable, were taken off the tape."""
        taken = self._taken
        if len(taken) < CAPACITY:
            taken.append((thing, how, next_id(), where))

    @property
    def departures(self) -> list[Departure]:
        """What was taken off the tape, in order."""
        return [Departure(*event) for event in self._taken]

    def assign(self, variable: Variable, value: Tensor) -> None:
        """Remember that a Variable got a value."""
        if len(self.assignments) < CAPACITY:
            self.assignments.append(Assignment(variable, value.id, next_id(), origin()))

    def reset(self, recording: Recording) -> None:
        """Keep what a tape is about to forget, as steps that it does not follow."""
        self.forgot = mark()
        self.watches.clear()
        self.late.clear()
        self.past = None
        for record in recording.records[-CAPACITY:]:
            self.steps.append(
                Step(record.defn, record.inputs, record.outputs, record.origin, State.RESET)
            )
        for variable, ids in recording.variables.values():
            known = self.reads.setdefault(id(variable), (variable, deque(maxlen=CAPACITY)))
            known[1].extend(ids)

    def keep(self, recording: Recording) -> None:
        """Keep a recording that has given its gradient, without the arrays."""
        recording.release(CAPACITY)
        self.past = recording
        self.spent = mark()

    # -- while it does not

    def overhear(
        self, defn: Op, inputs: Sequence[Tensor], outputs: Sequence[int], where: Origin | None
    ) -> None:
        """Hear of an operation that the tape does not record."""
        if self._listens():
            self.step(defn, inputs, outputs, where, self.state)

    def overhear_read(self, variable: Variable, value: Tensor) -> None:
        """Hear of a read of a Variable that the tape does not record."""
        if self._listens():
            self.read(variable, value)

    def gradient_taken(
        self, targets: tuple[int, ...], outputs: tuple[int, ...], where: Origin | None, here: bool
    ) -> None:
        """Hear that a tape, perhaps this one, gave a gradient; ``here`` is where this one records."""
        if (here or self._listens()) and len(self.answers) < CAPACITY:
            self.answers.append(Answer(targets, outputs, where, self.state))

    def _listens(self) -> bool:
        """Whether it is the same program that the tape recorded, and not long after."""
        if id(current_trace()) != self._trace:
            return False
        if self.state is State.ELSEWHERE and get_ident() == self._thread:
            return False  # what runs unheard on purpose, inside of a function with a derivative of its own
        if self.state is State.AFTER:
            self._room -= 1
            if self._room < 0:
                leave(self)
                return False
        return True


def mark() -> Mark:
    """Now, at the user's line."""
    return Mark(next_id(), origin())
