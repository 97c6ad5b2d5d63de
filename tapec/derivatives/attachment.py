"""Give values a derivative that is a function of the user's: what `tapec.custom_gradient` does at each call.

Eager, tapes keep the function and call it in their walk back. In a trace it is traced at once, into the region of a
`custom` operation: the program holds it, and differentiates like any other wherever it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapec.frames import Origin, origin, resolve
from tapec.ir.builder import Builder
from tapec.ir.core import Block, Region
from tapec.ir.dims import DimLike
from tapec.ir.location import Location
from tapec.ir.types import TensorType
from tapec.recording import active_tapes, current_trace
from tapec.tensor import EagerTensor, Tensor, apply
from tapec.tracing import Trace, TracedTensor

#: From the cotangents of the outputs to those of the inputs.
Pull = Callable[[Sequence[Tensor]], list[Tensor | None]]


def attach(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    pull: Pull,
    name: str | None = None,
    rule: Location | None = None,
) -> list[Tensor]:
    """The outputs, as a function of the inputs whose derivative is ``pull``.

    ``name`` is what the user calls it, ``rule`` where the user's code of the derivative is: both for explanations.
    """
    trace = current_trace()
    if trace is not None:
        return _attach_traced(trace, outputs, inputs, pull, name, rule)
    results: list[Tensor] = [EagerTensor(y.array, y.type) for y in outputs]
    types = [y.type for y in outputs]  # all that the derivative has to know of them

    def pulled(given: Sequence[Tensor | None], size: DimLike | None) -> list[Tensor | None]:
        cotangents = [
            _zeros(type, size) if ct is None else ct for type, ct in zip(types, given, strict=True)
        ]
        if size is None:
            return pull(cotangents)
        # Not at the top: it comes here for derivatives in what is mapped.
        from tapec.derivatives.subprogram import map_rows

        rows: list[Tensor | None] = map_rows("gradient", pull, cotangents, size)
        return rows

    tapes = active_tapes()
    where = _named(origin(), name) if tapes else None
    for tape in tapes:
        tape.record_custom(inputs, results, pulled, where, rule)
    return results


def _zeros(type: TensorType, size: DimLike | None) -> Tensor:
    lead = () if size is None else (size,)
    zeros: Tensor = apply("constant", value=0, type=type.with_shape((*lead, *type.shape)))
    return zeros


def _named(where: Origin | None, name: str | None) -> Origin | None:
    return where if where is None or name is None else (*where[:2], name)


def _attach_traced(
    trace: Trace,
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    pull: Pull,
    name: str | None,
    rule: Location | None,
) -> list[Tensor]:
    from tapec.derivatives.subprogram import trace_subprogram  # see above

    where = _named(origin(), name)
    program = trace_subprogram("gradient", pull, [y.type for y in outputs])
    block = program.function.block
    _take_inputs(block, len(outputs), inputs, rule)
    flows = [len(outputs) + i for i, leaf in enumerate(program.leaves) if leaf is not None]
    attrs: dict[str, Any] = {"outputs": len(outputs), "flows": tuple(flows)}
    read = [*outputs, *inputs, *program.captures]
    operands = [trace.value_of(x) for x in read]
    trace.function.guards += program.function.guards
    with trace.builder.at(resolve(where)):
        trace.builder.emit("custom", *operands, regions=[Region([block])], **attrs)
    operation = trace.builder.block.ops[-1]
    results = [TracedTensor(v, trace) for v in operation.results]
    for tape in active_tapes():
        tape.record_operation(operation, read, results, where)
    return list(results)


def _take_inputs(block: Block, count: int, inputs: Sequence[Tensor], rule: Location | None) -> None:
    """Make the body of a traced gradient a region: inputs stand after the cotangents, and it ends in a yield."""
    captured = block.args[count:]
    block.args[count:] = []
    for x in inputs:
        block.add_arg(x.type)
    block.args += captured
    for index, arg in enumerate(block.args):
        arg.index = index
    last = block.ops.pop()
    builder = Builder(block)
    with builder.at(rule):
        builder.emit("yield", *last.operands)
    last.drop()
