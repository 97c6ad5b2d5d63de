"""How values hang together, as far as a tape remembers: where a gradient flows, and where it is cut.

Everything that ran is gone through twice: from the sources on, to see what still carries a derivative and which
operation ended it; from the targets back, to see what they depend on at all.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from tapec.derivatives.replay import VARIABLE
from tapec.explanations.explanation import Cause
from tapec.explanations.nodes import Node, nodes_of
from tapec.explanations.trail import State, Step, Trail
from tapec.frames import Origin, function_of
from tapec.ir.errors import NotDifferentiableError
from tapec.ir.location import Location
from tapec.ir.ops.control import Gradient, StopGradient
from tapec.ir.ops.custom import Custom
from tapec.ir.reachability import flows
from tapec.passes.adjoint import reachable
from tapec.tapes.records import Recording


class Cut(NamedTuple):
    """A node at which the way from a source ends; ``value`` is the operand that came from the source.

    ``behind``: it would end there if it had not ended before, at another cut or at a source that is not watched.
    """

    node: Node
    value: int
    cause: Cause
    behind: bool = False


#: Causes by what the tape did with the operation.
_BY_STATE = {
    State.STOPPED: Cause.STOP_RECORDING,
    State.AFTER: Cause.AFTER,
    State.RESET: Cause.RESET,
    State.ELSEWHERE: Cause.OTHER_THREAD,
}


class Remembered:
    """All that a tape remembers, as nodes: what several questions about it have in common.

    Attributes:
        nodes: everything that ran, in order.
        values: the value of a traced program that an id stands for.
        makers: the node that made each value.
    """

    def __init__(self, trail: Trail, recording: Recording) -> None:
        """Go through trail and recording."""
        self.trail = trail
        self.recording = recording
        found = nodes_of(trail, recording)
        self.nodes, self.values = found.all, found.values
        self.makers = {id: node for node in self.nodes for id in node.step.outputs}
        self._needed: dict[tuple[int, ...], tuple[frozenset[int], frozenset[int]]] = {}

    def needed(self, targets: Collection[int]) -> tuple[frozenset[int], frozenset[int]]:
        """All values that targets depend on; those of them that do not only decide what runs."""
        key = tuple(targets)
        if key not in self._needed:
            needed, computed = set(targets), set(targets)
            for node in reversed(self.nodes):
                if not needed.isdisjoint(node.step.outputs):
                    needed.update(node.step.inputs)
                if not node.governs and not computed.isdisjoint(node.step.outputs):
                    computed.update(node.step.inputs)
            self._needed[key] = frozenset(needed), frozenset(computed)
        return self._needed[key]


class Connections:
    """The ways between sources and targets.

    Attributes:
        reached: values that a derivative flows to from a source, each with the node and the value before it.
        beyond: values that depend on a source through a cut, or on one that is not watched, likewise.
        touched: all values that depend on a source, derivative or not.
        needed: all values that the targets depend on.
        cuts: where the ways to the targets end, in the order in which the operations ran.
    """

    def __init__(
        self, remembered: Remembered, sources: Collection[int], targets: Collection[int]
    ) -> None:
        """Go through all that the tape remembers."""
        self._late = remembered.trail.late
        self.nodes, self.makers = remembered.nodes, remembered.makers
        self.values = remembered.values
        self.needed, self._computed = remembered.needed(targets)
        followed = remembered.recording.active.intersection(sources) | set(targets)
        self.reached: dict[int, tuple[Node, int] | None] = {
            id: None for id in sources if id in followed
        }
        self.beyond: dict[int, tuple[Node, int] | None] = {
            id: None for id in sources if id not in followed
        }
        self.touched = set(sources)
        #: Calls of public functions that let a derivative through: with one, and behind a cut.
        self._passing: tuple[set[Any], set[Any]] = (set(), set())
        self.cuts: list[Cut] = []
        for node in self.nodes:
            if not self.touched.isdisjoint(node.step.inputs):
                self.cuts += self._forward(node)
        self.cuts = self._essential(self.cuts)

    def _forward(self, node: Node) -> list[Cut]:
        """Say which results of a node a derivative flows to; the cuts at the node."""
        step = node.step
        self.touched.update(step.outputs)
        # A traced custom gradient also reads the outputs that it is attached to.
        attached = step.attrs["outputs"] if isinstance(step.defn, Custom) and step.attrs else 0
        cuts = []
        for i, value in enumerate(step.inputs):
            if i >= attached and value in self.reached:
                cause = self._cut(node, i, value)
                if cause is None:
                    self._pass(node, value)
                else:
                    cuts.append(Cut(node, value, cause))
        if any(output in self.reached for output in step.outputs):
            return cuts
        for i, value in enumerate(step.inputs):
            if i >= attached and value in self.beyond:
                cause = self._cut_beyond(node)
                if cause is None:
                    self._passing[True].add(_public_call(node))
                elif not cuts:
                    cuts.append(Cut(node, value, cause, behind=True))
                self._extend(node, value)
        for cut in cuts:
            self._extend(node, cut.value)
        return [] if self.needed.isdisjoint(step.outputs) else cuts

    def _pass(self, node: Node, value: int) -> None:
        self._passing[False].add(_public_call(node))
        for output, carries in zip(node.step.outputs, node.carries, strict=True):
            if carries:
                self.reached.setdefault(output, (node, value))

    def _extend(self, node: Node, value: int) -> None:
        for output in node.step.outputs:
            if output not in self.reached:
                self.beyond.setdefault(output, (node, value))

    def _essential(self, cuts: list[Cut]) -> list[Cut]:
        """The cuts that matter.

        Not those inside of calls that let a derivative through (softmax stops one on purpose); those on ways that
        only decide which branch is taken, if there are no others.
        """
        computed = [c for c in cuts if not self._computed.isdisjoint(c.node.step.outputs)]
        cuts = computed or cuts
        kept = []
        for cut in cuts:
            call = _public_call(cut.node)
            if call is None or call not in self._passing[cut.behind]:
                kept.append(cut)
        return kept or cuts

    def _cut(self, node: Node, index: int, value: int) -> Cause | None:
        """Why no derivative flows through an operand, or None if it does."""
        step = node.step
        unheard = self.state_cause(node)
        if unheard is not None:
            return unheard
        if isinstance(step.defn, StopGradient):
            return Cause.STOP_GRADIENT
        if step.attrs and VARIABLE in step.attrs:
            return Cause.ASSIGNED
        if not step.defn.differentiable:
            return Cause.NO_DERIVATIVE
        if not any(node.carries):
            return Cause.CAST
        late = value in self._late and node.time < self._late[value]
        if step.state is State.UNFOLLOWED or late:
            return Cause.WATCHED_LATE
        if _flows(step)[index]:
            return None
        return Cause.CUSTOM if isinstance(step.defn, Custom) else Cause.NO_RULE

    def _cut_beyond(self, node: Node) -> Cause | None:
        """Why a derivative would not flow through a node that is behind a cut, as far as that is known."""
        unheard = self.state_cause(node)
        if unheard is not None:  # what reads a result of such an operation is mostly another one
            return None if any(cut.cause is unheard for cut in self.cuts) else unheard
        if isinstance(node.step.defn, StopGradient):
            return Cause.STOP_GRADIENT
        return None if node.step.defn.differentiable else Cause.NO_DERIVATIVE

    def state_cause(self, node: Node) -> Cause | None:
        """Why the tape did not record an operation, if not for its operands."""
        state = node.step.state
        if state in (State.AFTER, State.STOPPED) and isinstance(node.step.defn, Gradient):
            return Cause.GRADIENT_AFTER
        return _BY_STATE.get(state)

    def path(self, cut: Cut) -> list[Node]:
        """The operations from a source to a cut, the one that cuts last."""
        nodes = [cut.node, *self.before(cut.value)]
        return [n for n in reversed(nodes) if n is cut.node or not n.step.defn.marks_path]

    def custom(self, target: int) -> Cut | None:
        """The last operation with a derivative of the user's own, on the way from a source to a target."""
        for node in self.before(target):
            if isinstance(node.step.defn, Custom):
                return Cut(
                    node, next(i for i in node.step.inputs if i in self.reached), Cause.CUSTOM
                )
        return None

    def before(self, value: int) -> list[Node]:
        """The operations on the way from a source to a value, the last one first."""
        nodes = []
        before = self.reached.get(value) or self.beyond.get(value)
        while before is not None:
            nodes.append(before[0])
            before = self.reached.get(before[1]) or self.beyond.get(before[1])
        return nodes

    def users(self, values: Collection[int]) -> list[Node]:
        """The nodes that read any of the values."""
        return [n for n in self.nodes if not set(values).isdisjoint(n.step.inputs)]

    def roots(self) -> list[int]:
        """Needed values that nothing made, as far as the tape knows."""
        return sorted(id for id in self.needed if id not in self.makers)


def _public_call(node: Node) -> Origin | Location | None:
    """The call of a public function that a node is part of; None for operators, which are one operation."""
    where = node.step.origin
    return where if function_of(where) else None


def _flows(step: Step) -> tuple[bool, ...]:
    """Through which operands a rule passes a derivative; all, where it cannot be asked."""
    everything = (True,) * len(step.inputs)
    if step.attrs is None or isinstance(step.defn, Gradient):
        return everything
    op = step.operation
    try:
        if op is not None and op.regions:
            return tuple(reachable(op.results, op.operands, op.operands))
        return flows(step.defn, step.input_types, step.attrs, len(step.outputs))
    except NotDifferentiableError:
        return everything  # whoever asks for the gradient is told by the error
