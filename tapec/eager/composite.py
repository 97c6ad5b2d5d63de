"""Functions that consist of several operations, run in eager code as if they were one.

The second call with operands of the same types traces the function once, and from then on a call only runs its NumPy
functions one after the other, between which nothing is looked up and no tensors are made. A tape gets one entry for
all of them, which it takes apart when somebody asks for its records: they are the operations that it would have heard
of one by one, at the user's line, with the values that their derivatives read. So gradients of any order, explanations
and `tape.memory()` see no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import numpy as np

from tapec.eager.signatures import Saving, Signature, signature_of
from tapec.frames import origin
from tapec.ir.core import Function, Operation, Value
from tapec.ir.op import Op
from tapec.ir.quiet import audible, silently
from tapec.ir.types import TensorType
from tapec.recording import active_tapes, bystanders, current_trace, inspectors, tracing
from tapec.tensor import Array, EagerTensor, Tensor, next_id
from tapec.tracing import Trace, TracedTensor

#: Plans kept; the table starts anew when it is full. None: what was met once; False: what cannot be planned.
_CAPACITY = 4096
_plans: dict[Any, Plan | Literal[False] | None] = {}

#: Up to the caller of the public function that calls `composed`, seen from what is called here.
_ABOVE = 3


def composed(function: Callable[..., Any], *tensors: Tensor, **static: Any) -> Any:
    """What a function of tensors gives, whose operations depend on nothing but types and the keywords.

    It is called by the public function that the operations are part of. The function itself runs where it is not eager
    code that calls, and whenever something is not as it should be, for that it knows how to say.
    """
    # Tapes that only overhear get single operations.
    if current_trace() is not None or len(bystanders) > len(active_tapes()):
        return function(*tensors, **static)
    # Types by identity, as in `signature_of`; 1, 1.0 and True are equal.
    key = (function, *[id(x.type) for x in tensors], *static.items(), *map(type, static.values()))
    try:
        plan = _plans.get(key)
    except TypeError:  # a list, say, which the function may take
        return function(*tensors, **static)
    if plan:
        values = plan.evaluated(tensors)
        if not inspectors or not inspectors[0].blames(plan.steps, values):
            return plan.results(tensors, values)
        # The error is that of the single operation.
    elif key not in _plans:
        if len(_plans) >= _CAPACITY:
            _plans.clear()
        _plans[key] = None
    elif plan is None:
        _plans[key] = plan_of(function, tensors, static) or False
    return function(*tensors, **static)


class Step(NamedTuple):
    """An operation of a plan; ``operands`` and ``result`` are places among its values."""

    signature: Signature
    operands: tuple[int, ...]
    result: int


class Kept(NamedTuple):
    """What a tape keeps that follows some of the operands.

    Attributes:
        followed: the operations that are part of the tape's program, each with the places of its operands and results.
        others: those that are not, each with the places of its operands and result.
        saved: the places of the values that derivatives read.
        flows: the places of the values that depend on something watched.
        looks_up: there are lookups among the operations.
    """

    followed: tuple[tuple[Saving, tuple[int, ...]], ...]
    others: tuple[tuple[Op, tuple[int, ...], int], ...]
    saved: tuple[int, ...]
    flows: tuple[int, ...]
    looks_up: bool


class Plan:
    """The operations of a function for operands of certain types.

    The values have places: the operands first, then the constants, then what the operations make, one each.
    """

    def __init__(self, inputs: Sequence[TensorType], constants: Sequence[Tensor]) -> None:
        """Operands of these types, and constants; no operation yet."""
        self.inputs = tuple(inputs)
        self.constants = tuple(constants)
        self.types = [*inputs, *(c.type for c in constants)]
        self.steps: list[Step] = []
        self._calls: list[tuple[Callable[..., Any], tuple[int, ...]]] = []
        #: The places of what the function returns, which is one tensor or a list of them.
        self.outputs: tuple[int, ...] = ()
        #: The places that operations around it may know: operands and results.
        self.ends: tuple[int, ...] = ()
        self.single = True
        self._kept: dict[tuple[bool, ...], Kept] = {}

    def add(self, signature: Signature, operands: Sequence[int]) -> int:
        """One more operation; return the place of its result."""
        place = len(self.types)
        self.types.append(signature.outputs[0])
        self.steps.append(Step(signature, tuple(operands), place))
        self._calls.append((audible(signature.kernel), tuple(operands)))
        return place

    def returns(self, places: Sequence[int]) -> None:
        """Say what is returned."""
        self.outputs = tuple(places)
        self.ends = (*range(len(self.inputs)), *self.outputs)

    def evaluated(self, tensors: Sequence[Tensor]) -> list[Array]:
        """The arrays of all values."""
        given = [x.array for x in tensors]
        given += [c.array for c in self.constants]
        values: list[Array] = silently(_evaluate, given, self._calls)
        return values

    def results(self, tensors: Sequence[Tensor], values: Sequence[Array]) -> Any:
        """What the function returns, from all values; tapes hear of it."""
        types, tapes = self.types, active_tapes()
        if not tapes:
            made = [EagerTensor(values[p], types[p]) for p in self.outputs]
            return made[0] if self.single else made
        ids = [x.id for x in (*tensors, *self.constants)]
        ids += [next_id() for _ in self.steps]
        where = origin(_ABOVE)
        for tape in tapes:
            tape.record_composite(self, tensors, values, ids, where)
        made = [EagerTensor(values[p], types[p], ids[p]) for p in self.outputs]
        return made[0] if self.single else made

    def kept(self, followed: tuple[bool, ...]) -> Kept:
        """What a tape keeps that follows these operands."""
        found = self._kept.get(followed)
        if found is None:
            found = self._kept[followed] = self._keep(followed)
        return found

    def _keep(self, followed: tuple[bool, ...]) -> Kept:
        active = {place for place, has in enumerate(followed) if has}
        inside, outside, saved = [], [], {}
        for step in self.steps:
            mask = tuple([p in active for p in step.operands])
            if True not in mask or not step.signature.defn.differentiable:
                outside.append((step.signature.defn, step.operands, step.result))
                continue
            saving = step.signature.saving(mask)
            places = (*step.operands, step.result)
            inside.append((saving, places))
            saved.update(dict.fromkeys(saving.pick(places)))
            if step.signature.flows:
                active.add(step.result)
        flows = tuple(sorted(active - set(range(len(followed)))))
        looks_up = any(s.signature.looks_up for s in self.steps)
        return Kept(tuple(inside), tuple(outside), tuple(saved), flows, looks_up)


def _evaluate(
    given: Sequence[Array], calls: Sequence[tuple[Callable[..., Any], tuple[int, ...]]]
) -> list[Array]:
    """Run NumPy functions on the values at these places; each appends one to them."""
    values = list(given)
    for call, places in calls:
        if len(places) == 1:
            result = call(values[places[0]])
        elif len(places) == 2:
            result = call(values[places[0]], values[places[1]])
        else:
            result = call(*itemgetter(*places)(values))
        values.append(result if type(result) is np.ndarray else np.asarray(result))
    return values


def plan_of(
    function: Callable[..., Any], tensors: Sequence[Tensor], static: Mapping[str, Any]
) -> Plan | None:
    """The plan of a function for operands like these; None if there can be none."""
    trace = Trace("composite")
    try:
        with tracing(trace):
            given = [trace.input(x.type, None) for x in tensors]
            found = function(*given, **static)
    except Exception:
        return None  # called without a plan, the function says what is wrong
    if trace.captures or trace.function.guards:
        return None
    results = found if isinstance(found, list) else [found]
    if not all(isinstance(result, TracedTensor) for result in results):
        return None
    plan = _planned(trace.function, [x.type for x in tensors], [r.value for r in results])
    if plan is not None:
        plan.single = not isinstance(found, list)
    return plan


def _planned(
    function: Function, inputs: Sequence[TensorType], results: Sequence[Value]
) -> Plan | None:
    """A program's operations as a plan; what depends on no operand is computed here."""
    constants: dict[Value, Tensor] = {}
    ops: list[tuple[Operation, Signature]] = []
    for op in function.block.ops:
        if op.regions or len(op.results) != 1 or not op.defn.pure:
            return None
        if all(v in constants for v in op.operands):
            given = [constants[v].array for v in op.operands]
            array = np.asarray(op.defn.evaluate(*given, **op.parameters))
            constants[op.result] = EagerTensor(array, op.result.tensor)
        else:
            types = [v.tensor for v in op.operands]
            ops.append((op, signature_of(op.name, types, op.parameters)))
    used = {v for op, _ in ops for v in op.operands}
    kept = [v for v in constants if v in used]
    plan = Plan(inputs, [constants[v] for v in kept])
    places = {v: i for i, v in enumerate((*function.args, *kept))}
    for op, signature in ops:
        places[op.result] = plan.add(signature, [places[v] for v in op.operands])
    if any(v not in places or places[v] < len(plan.inputs) for v in results):
        return None  # an operand or a constant itself is returned
    plan.returns([places[v] for v in results])
    return plan
