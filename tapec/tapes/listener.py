"""What a tape hears while it records, and what of it it keeps.

The tape's state is here: its recording, which is a program to differentiate, and its trail, which says why something
is not in that program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapec.explanations.trail import Trail
from tapec.frames import Origin
from tapec.ir.location import Location
from tapec.ir.op import OPS
from tapec.tapes.records import Recording
from tapec.tensor import EagerTensor, Tensor
from tapec.variable import Variable

if TYPE_CHECKING:
    from tapec.eager.composite import Plan
    from tapec.eager.signatures import Signature
    from tapec.ir.core import Function, Operation


class Listener:
    """What is told of every operation and of every read of a Variable, and keeps what depends on something watched."""

    def __init__(self, watches_variables: bool) -> None:
        """``watches_variables``: whether trainable Variables are watched when they are read."""
        self._watches_variables = watches_variables
        #: What it remembers for `explain`.
        self.trail = Trail()
        self._recording: Recording | None = None

    def variable_read(self, variable: Variable, value: Tensor) -> None:
        """Hear that reading a Variable gave a value."""
        assert self._recording is not None
        known = id(variable) in self._recording.variables
        if known or (self._watches_variables and variable.trainable):
            self._reads(variable).append(value.id)
            self._recording.active.add(value.id)
        else:
            self.trail.read(variable, value)

    def _reads(self, variable: Variable) -> list[int]:
        assert self._recording is not None
        return self._recording.variables.setdefault(id(variable), (variable, []))[1]

    def record(
        self,
        signature: Signature,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        origin: Origin | None,
    ) -> None:
        """Hear of an eager operation."""
        recording = self._recording
        assert recording is not None
        active = recording.active
        ids = [x.id for x in inputs]
        followed = tuple([i in active for i in ids])
        if True in followed and signature.defn.differentiable:
            recording.add(signature, followed, ids, inputs, outputs, origin)
        else:
            self.trail.step(signature.defn, inputs, [y.id for y in outputs], origin)

    def record_composite(
        self,
        plan: Plan,
        inputs: Sequence[Tensor],
        values: Sequence[Any],
        ids: Sequence[int],
        origin: Origin | None,
    ) -> None:
        """Hear of several eager operations that ran as one, with the arrays and ids of all their values."""
        recording = self._recording
        assert recording is not None
        active = recording.active
        kept = plan.kept(tuple([x.id in active for x in inputs]))
        if kept.followed:
            types = plan.types
            saved = [EagerTensor(values[p], types[p], ids[p]) for p in kept.saved]
            recording.add_composite(plan, kept, ids, saved, origin)
        if kept.others:
            self.trail.note_each(kept.others, ids, origin)

    def record_operation(
        self,
        operation: Operation,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        origin: Origin | None,
    ) -> None:
        """Hear of an operation of a function that is being compiled."""
        recording = self._recording
        assert recording is not None
        followed = not recording.active.isdisjoint([x.id for x in inputs])
        if followed and operation.defn.differentiable:
            recording.add_operation(operation, inputs, outputs, origin)
        else:
            self.trail.step(operation.defn, inputs, [y.id for y in outputs], origin)

    def record_call(
        self,
        callee: Function,
        inputs: Sequence[Tensor],
        outputs: Sequence[int],
        origin: Origin | None,
        variables: Sequence[Variable] = (),
    ) -> None:
        """Hear of the call of a program; ``outputs`` are ids for everything it returns. See `records.Record`."""
        recording = self._recording
        assert recording is not None
        if not recording.active.isdisjoint([*(x.id for x in inputs), *outputs]):
            recording.add_call(callee, inputs, outputs, origin, variables)
        else:
            self.trail.step(OPS["call"], inputs, outputs, origin)

    def record_custom(
        self,
        inputs: Sequence[Tensor],
        outputs: Sequence[Tensor],
        pull: Any,
        origin: Origin | None,
        rule: Location | None,
    ) -> None:
        """Hear of outputs whose derivative is the user's own; see `tapec.tapes.records.Record`."""
        recording = self._recording
        assert recording is not None
        if not recording.active.isdisjoint([x.id for x in inputs]):
            recording.add_custom(inputs, outputs, pull, origin, rule)
        else:
            self.trail.step(OPS["custom"], inputs, [y.id for y in outputs], origin)
