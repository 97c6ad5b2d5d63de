"""What ran, as nodes in order: what is inside of calls of compiled functions, of branches and of loops, too."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from tapec.derivatives.replay import VARIABLE
from tapec.explanations.trail import State, Step, Trail
from tapec.frames import resolve
from tapec.ir.core import Block, Operation
from tapec.ir.core import Value as ProgramValue
from tapec.ir.location import Location
from tapec.ir.op import OPS
from tapec.ir.ops.custom import Custom
from tapec.ir.ops.regions import RegionOp
from tapec.ir.ops.repetition import Loop
from tapec.ir.reachability import carries_gradient
from tapec.tapes.records import Record, Recording

#: How many turns of a loop are followed: as many as it takes to see what goes from one carried value to another.
_TURNS = 3


@dataclass(slots=True)
class Node:
    """A step, and which of its results may carry a derivative.

    ``call`` is the compiled call, branch or loop that it is part of; one that ``governs`` only decides what runs.
    """

    step: Step
    carries: tuple[bool, ...]
    call: Step | None = None
    governs: bool = False

    @property
    def time(self) -> int:
        """When it ran, as an id of that time."""
        return max((self.call or self.step).outputs, default=0)

    @property
    def location(self) -> Location | None:
        """The user's line."""
        where = self.step.origin
        return where if where is None or isinstance(where, Location) else resolve(where)


@dataclass
class Nodes:
    """Everything that ran.

    Attributes:
        all: the nodes, in order.
        values: the value of a traced program that an id stands for.
    """

    all: list[Node] = field(default_factory=list)
    values: dict[int, ProgramValue] = field(default_factory=dict)
    _fresh: Iterator[int] = field(default_factory=lambda: count(-1, -1))

    def add(self, node: Node) -> None:
        """Add a node, or what is inside of it."""
        step = node.step
        operation = step.operation
        if operation is not None:
            # A traced gradient has operands that nobody asked for: its weights, sources and stops.
            self.values.update(zip(step.inputs, operation.operands, strict=False))
            self.values.update(zip(step.outputs, operation.results, strict=True))
        if step.callee is not None:
            ids: dict[ProgramValue, int] = dict(zip(step.callee.args, step.inputs, strict=True))
            # What it reads of Variables that it assigned is a source of its own.
            ids.update(
                (value, output)
                for value, output in zip(step.callee.returns, step.outputs, strict=True)
                if value.op is not None and VARIABLE in value.op.attrs
            )
            self._block(step.callee.block, ids, step)
            self._links(step, step.callee.returns, ids, step.outputs, step)
            for value, output in zip(step.callee.returns, step.outputs, strict=True):
                self.values[output] = value
        elif operation is not None and isinstance(operation.defn, RegionOp):
            self._regions(operation.defn, node)
        else:
            self.all.append(node)

    def _block(self, block: Block, ids: dict[ProgramValue, int], call: Step) -> None:
        """Add the operations of a block; ``ids`` are those of its arguments, and then of all its values."""
        for op in block.ops[:-1]:
            for result in op.results:
                if result not in ids:
                    ids[result] = next(self._fresh)
            inner = Step(
                op.defn,
                tuple(ids[v] for v in op.operands),
                tuple(ids[v] for v in op.results),
                op.location or call.origin,
                call.state,
                op.parameters,
                tuple(v.tensor for v in op.operands),
                operation=op,
                rule=_code_of(op),
            )
            self.add(Node(inner, tuple(carries_gradient(v) for v in op.results), call))

    def _links(
        self,
        step: Step,
        values: Sequence[ProgramValue],
        ids: Mapping[ProgramValue, int],
        outputs: Sequence[int],
        call: Step,
    ) -> None:
        """Let values be known by other ids."""
        for value, output in zip(values, outputs, strict=False):
            if ids[value] == output:
                continue
            inner = Step(
                OPS["watch"], (ids[value],), (output,), step.origin, step.state, {}, (value.tensor,)
            )
            self.all.append(Node(inner, (carries_gradient(value),), call))

    def _regions(self, defn: RegionOp, node: Node) -> None:
        """Add what is in the regions of a branch or loop; of a loop, several turns."""
        step, op = node.step, node.step.operation
        assert op is not None
        call = node.call or step
        governing = set(range(len(step.inputs)))
        for number, body in enumerate(defn.bodies(op)):
            block = op.regions[number].block
            sources = defn.operands_of(op, number)
            entering = [step.inputs[i] for i in sources]
            for _ in range(min(len(body.updates), _TURNS) + 1):
                ids = {arg: next(self._fresh) for arg in block.args}
                for arg, came in zip(block.args, entering, strict=True):
                    self._links(step, [arg], {arg: came}, [ids[arg]], call)
                self._block(block, ids, call)
                yields = block.terminator.operands
                if defn.yields_results(number):
                    self._links(step, yields, ids, step.outputs, call)
                else:
                    self._governs(step, [ids[v] for v in yields], call)
                for result, argument in body.updates.items():
                    entering[argument] = ids[yields[result]]
            governing.difference_update(sources)
        self._governs(step, [step.inputs[i] for i in sorted(governing)], call)
        if isinstance(defn, Loop) and defn.may_be_empty(op):
            for result, operand in defn.overwritten(op).items():
                value = op.operands[operand]
                known = {value: step.inputs[operand]}
                self._links(step, [value], known, [step.outputs[result]], call)

    def _governs(self, step: Step, values: Sequence[int], call: Step) -> None:
        """Say that results depend on values that only decide what runs."""
        for value in values:
            inner = Step(step.defn, (value,), step.outputs, step.origin, step.state)
            self.all.append(Node(inner, (False,) * len(step.outputs), call, governs=True))


def nodes_of(trail: Trail, recording: Recording) -> Nodes:
    """Everything that ran, in order."""
    nodes = [_followed(record, recording.active) for record in recording.records]
    # Where a gradient was not recorded, the gradient made it, not the last sum that it took.
    unheard = {id for a in trail.answers if a.state is not State.ELSEWHERE for id in a.outputs}
    nodes += [
        Node(step, (True,) * len(step.outputs))
        for step in trail.steps
        if step.state is State.UNFOLLOWED or unheard.isdisjoint(step.outputs)
    ]
    made = {id for node in nodes for id in node.step.outputs}
    for answer in trail.answers:
        outputs = tuple(id for id in answer.outputs if id not in made)
        if outputs:
            step = Step(OPS["gradient"], answer.targets, outputs, answer.origin, answer.state)
            nodes.append(Node(step, (True,) * len(outputs)))
    nodes.sort(key=lambda node: node.time)
    found = Nodes()
    for node in nodes:
        found.add(node)
    return found


def _followed(record: Record, active: Collection[int]) -> Node:
    # Eager, only the user's function knows whether it gives a gradient.
    unknown = isinstance(record.defn, Custom) and record.operation is None
    step = Step(
        record.defn,
        record.inputs,
        record.outputs,
        record.origin,
        State.FOLLOWED,
        None if unknown else record.attrs,
        record.input_types,
        record.callee,
        record.operation,
        record.rule or _code_of(record.operation),
    )
    return Node(step, tuple(id in active for id in record.outputs))


def _code_of(op: Operation | None) -> Location | None:
    """Where the user's code of a traced derivative is."""
    custom = op is not None and isinstance(op.defn, Custom)
    return op.regions[0].block.terminator.location if op is not None and custom else None
