"""Gradients of a program that is being traced: one `gradient` operation each, whose results are known to exist.

What a tape distinguishes and arithmetic does not is held apart until then: see "A gradient is an operation" in the
README.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapec.frames import origin, resolve
from tapec.ir.core import Block, Operation, Value
from tapec.ir.op import OPS
from tapec.ir.ops.control import Gradient
from tapec.ir.reachability import carries_gradient
from tapec.ir.types import TensorType
from tapec.passes.adjoint import reachable
from tapec.recording import active_tapes
from tapec.tensor import Tensor
from tapec.traces.hearing import unheard
from tapec.tracing import Trace, TracedTensor

if TYPE_CHECKING:
    from tapec.tapes.records import Record


@unheard
def gradient(
    trace: Trace,
    records: Sequence[Record],
    targets: Sequence[Tensor],
    sources: Sequence[tuple[int, TensorType]],
    seeds: Sequence[Tensor] | None,
    batched: bool = False,
) -> list[Tensor | None]:
    """Append a ``gradient`` operation for what a tape recorded; None where there is no path."""
    recorded = {r.operation for r in records if r.operation is not None}
    starts = _source_values(trace, records, targets, sources)
    known = [v for v in starts if v is not None]
    stops = _boundary([trace.value_of(t) for t in targets], known, recorded)
    return walk_back(trace, targets, starts, stops, seeds, batched)


def walk_back(
    trace: Trace,
    targets: Sequence[Tensor],
    starts: Sequence[Value | None],
    stops: Sequence[Value],
    seeds: Sequence[Tensor] | None,
    batched: bool = False,
) -> list[Tensor | None]:
    """Append a ``gradient`` operation from targets to starts and stops; None where there is no path."""
    ends = [trace.value_of(t) for t in targets]
    known = [v for v in starts if v is not None]
    flows = iter(reachable(ends, known, stops))
    reached = [v is not None and next(flows) for v in starts]
    wanted = [v for v, has in zip(starts, reached, strict=True) if has and v is not None]
    if not wanted:
        return [None] * len(starts)
    wanted = [_mark(trace, v) for v in wanted]
    stops = [_mark(trace, v) for v in stops]
    ends = [trace.marked.get(v, v) for v in ends]
    weights = [trace.value_of(s) for s in seeds or ()]
    operands = [*ends, *weights, *wanted, *stops]
    attrs: dict[str, Any] = {
        "segments": (len(ends), len(weights), len(wanted), len(stops)),
        **({"batched": True} if batched else {}),
    }
    where = origin()
    with trace.builder.at(resolve(where)):
        trace.builder.emit("gradient", *operands, **attrs)
    operation = trace.builder.block.ops[-1]
    outputs = [TracedTensor(v, trace) for v in operation.results]
    # The gradient depends on whatever its targets and seeds depend on.
    heard = [*targets, *(seeds or ())]
    for tape in active_tapes():
        tape.record_operation(operation, heard, outputs, where)
    left = iter(outputs)
    return [next(left) if has else None for has in reached]


def _source_values(
    trace: Trace,
    records: Sequence[Record],
    targets: Sequence[Tensor],
    sources: Sequence[tuple[int, TensorType]],
) -> list[Value | None]:
    """The values behind the ids that a tape knows; None for one that the tape's operations never used."""
    values: dict[int, Value] = {}
    for record in records:
        if record.operation is None:
            continue
        operands = record.operation.operands
        if isinstance(record.defn, Gradient):
            operands = operands[: len(record.inputs)]
        values.update(zip(record.inputs, operands, strict=True))
        values.update(zip(record.outputs, record.operation.results, strict=True))
    values.update((t.id, trace.value_of(t)) for t in targets)
    found = [values.get(id) for id, _ in sources]
    return [None if v is None else trace.marked.get(v, v) for v in found]


def _mark(trace: Trace, value: Value) -> Value:
    """Put a `watch` behind a value that a gradient names, so that simplification keeps it apart.

    All readers, and all operations to come, read the watch instead. Arguments and reads of Variables are
    apart already.
    """
    value = trace.marked.get(value, value)
    op = value.op
    if op is None or op.defn.marks_path:
        return value
    block = op.block
    assert isinstance(block, Block)
    readers = list(value.users)
    position = block.ops.index(op)
    watch = Operation(OPS["watch"], [value], [value.type], location=op.location)
    watch.block = block
    block.ops.insert(position + 1, watch)
    for reader in readers:
        for i, operand in enumerate(reader.operands):
            if operand is value:
                reader.set_operand(i, watch.result)
    trace.marked[value] = watch.result
    for state, current in trace.states.items():
        if current is value:
            trace.states[state] = watch.result
    return watch.result


def _boundary(
    targets: Sequence[Value], sources: Sequence[Value], recorded: set[Operation]
) -> list[Value]:
    """Where the way back from the targets meets an operation that the tape did not record, yet depends on a source.

    A source may be such a value itself: it gets its cotangent, and the walk ends there.
    """
    dependent = _dependents(sources)
    stops: dict[Value, None] = {}
    seen: set[Value] = set()
    stack = list(targets)
    while stack:
        value = stack.pop()
        if value in seen or value not in dependent:
            continue
        seen.add(value)
        op = value.op
        if op is None:
            continue
        if op in recorded or op.defn.marks_path:
            stack.extend(op.operands)
        else:
            stops[value] = None
    return list(stops)


def _dependents(sources: Sequence[Value]) -> set[Value]:
    """All values that carry gradients and depend on one of the sources."""
    found: set[Value] = set()
    stack = list(sources)
    while stack:
        value = stack.pop()
        if value not in found:
            found.add(value)
            for user in value.users:
                stack.extend(r for r in user.results if carries_gradient(r))
    return found
