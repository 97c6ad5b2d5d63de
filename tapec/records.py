"""What a tape keeps of one operation: its place in the program, and the arrays that its derivative will read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tapec.frames import Origin
from tapec.ir.core import Function, Operation
from tapec.ir.errors import NotDifferentiableError
from tapec.ir.op import OPS, Op
from tapec.ir.reachability import vjp_reads
from tapec.ir.types import TensorType

if TYPE_CHECKING:
    from tapec.ir.dims import DimLike
    from tapec.tensor import Array, Tensor
    from tapec.variable import Variable


@dataclass(slots=True)
class Record:
    """One operation on a tape; values are told apart by the ids of their tensors.

    ``saved`` holds the arrays of operands and results that the derivative reads, by id. ``operation`` is the
    operation itself where it was traced, ``callee`` the program where a compiled function was called, ``variables``
    those that it reads after assigning them (`tapec.derivatives.replay`). ``pull`` is the user's own derivative: from
    the cotangents of the outputs (None where there is none; with a leading axis of a size, if that is not None) to
    those of the inputs.
    """

    defn: Op
    attrs: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    input_types: tuple[TensorType, ...]
    origin: Origin | None
    saved: dict[int, Array]
    operation: Operation | None = None
    callee: Function | None = None
    variables: Sequence[Variable] = ()
    pull: Callable[[list[Tensor | None], DimLike | None], list[Tensor | None]] | None = None


@dataclass
class Recording:
    """What a tape knows: operations in order, ids of values that depend on something watched, Variables read."""

    records: list[Record] = field(default_factory=list)
    active: set[int] = field(default_factory=set)
    #: Variables by ``id``, each with the ids of what its reads gave.
    variables: dict[int, tuple[Variable, list[int]]] = field(default_factory=dict)


def record_eager(
    defn: Op,
    inputs: Sequence[Tensor],
    attrs: Mapping[str, Any],
    outputs: Sequence[Tensor],
    origin: Origin | None,
    active: Collection[int],
    operation: Operation | None,
) -> Record:
    """Note an operation; ``active`` are the ids that the tape follows."""
    input_types = tuple([x.type for x in inputs])
    saved: dict[int, Array] = {}
    if operation is None:
        wanted = tuple([i for i, x in enumerate(inputs) if x.id in active])
        for i in _reads(defn, input_types, attrs, wanted):
            tensor = inputs[i] if i >= 0 else outputs[~i]
            saved[tensor.id] = tensor.array
    return Record(
        defn,
        attrs,
        tuple([x.id for x in inputs]),
        tuple([y.id for y in outputs]),
        input_types,
        origin,
        saved,
        operation,
    )


def record_call(
    callee: Function,
    inputs: Sequence[Tensor],
    outputs: Sequence[int],
    origin: Origin | None,
    variables: Sequence[Variable] = (),
) -> Record:
    """Note the call of a compiled function: its gradient computes the function's values again from the inputs."""
    return Record(
        OPS["call"],
        {},
        tuple([x.id for x in inputs]),
        tuple(outputs),
        tuple([x.type for x in inputs]),
        origin,
        {x.id: x.array for x in inputs},
        callee=callee,
        variables=variables,
    )


def record_custom(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], pull: Any, origin: Origin | None
) -> Record:
    """Note outputs whose derivative is the user's own."""
    return Record(
        OPS["custom"],
        {},
        tuple([x.id for x in inputs]),
        tuple([y.id for y in outputs]),
        tuple([x.type for x in inputs]),
        origin,
        {},
        pull=pull,
    )


def _reads(
    defn: Op, types: tuple[TensorType, ...], attrs: Mapping[str, Any], wanted: tuple[int, ...]
) -> Collection[int]:
    try:
        return vjp_reads(defn, types, attrs, wanted)
    except NotDifferentiableError:
        return ()  # whoever asks for a gradient through it is told then


def with_stand_ins(records: Sequence[Record], watched: Mapping[int, int]) -> Sequence[Record]:
    """The records, reading stand-ins for tensors that were watched only after the operation ran.

    ``watched`` maps their ids to the time of the watch. What such an operation saved is not enough for them.
    """
    if not watched:
        return records
    result = []
    for record in records:
        late = {i for i in record.inputs if watched.get(i, 0) > max(record.outputs)}
        if late:
            inputs = tuple(~i if i in late else i for i in record.inputs)
            saved = {~i if i in late else i: array for i, array in record.saved.items()}
            record = replace(record, inputs=inputs, saved=saved)
        result.append(record)
    return result
