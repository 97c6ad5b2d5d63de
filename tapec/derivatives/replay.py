"""A program run again as operations of the code around it, which tapes and a trace hear one by one."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tapec.derivatives.attachment import attach
from tapec.errors import InvalidArgumentError
from tapec.frames import here, origin, resolve
from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Operation, Value, clone_operation
from tapec.ir.errors import CheckError
from tapec.ir.evaluator import evaluate_function
from tapec.ir.op import OPS
from tapec.ir.ops.control import Read
from tapec.ir.ops.custom import Custom
from tapec.ir.ops.source import Constant
from tapec.recording import active_tapes, current_trace
from tapec.tensor import EagerTensor, Tensor, apply
from tapec.tracing import Trace, TracedTensor
from tapec.variable import Variable

#: The attr of a `read` that a tape around the program counts as a source: which of the Variables it reads.
VARIABLE = "variable"


def watch_reads(ops: Iterable[Operation], arguments: Container[Value]) -> bool:
    """Let gradients out to Variables that are read in front of a program, whose values come in here.

    Args:
        ops: the program's operations, or some; reads of these arguments become sources of gradients.
        arguments: those that hold Variables' values.

    Returns:
        Whether there was one.
    """
    reads = [op for op in ops if isinstance(op.defn, Read) and op.operands[0] in arguments]
    for op in reads:
        op.defn = OPS["watch"]
    return bool(reads)


def replay(
    block: Block,
    inputs: Sequence[Tensor],
    variables: Sequence[Variable] = (),
    heard: Callable[[Operation, Sequence[Tensor]], None] | None = None,
) -> list[Tensor]:
    """Run a block on tensors.

    Args:
        block: what to run, ending in a terminator; what that reads is returned.
        inputs: one for each argument.
        variables: those that its operations `read`, by the number in their attr `VARIABLE`; tapes hear of it.
        heard: called after each operation with its results.
    """
    known = dict(zip(block.args, inputs, strict=True))
    for op in block.ops[:-1]:
        operands = [known[v] for v in op.operands]
        if isinstance(op.defn, Custom):
            results: Any = _custom(op, operands)
        elif isinstance(op.defn, Read) and VARIABLE in op.attrs:
            results = (_read(variables[op.attrs[VARIABLE]], operands[0]),)
        elif isinstance(op.defn, Constant) and current_trace() is None:
            array = np.asarray(op.defn.evaluate(**op.parameters))
            results = (EagerTensor(array, op.result.tensor),)
        elif op.regions:
            results = _with_regions(op, operands)
        else:
            results = apply(op.name, *operands, **op.parameters)
            results = results if isinstance(results, tuple) else (results,)
        known.update(zip(op.results, results, strict=True))
        if heard is not None:
            heard(op, results)
    return [known[v] for v in block.terminator.operands]


def _read(variable: Variable, state: Tensor) -> Tensor:
    """What the program's read of a Variable gives: not the value it has now, but a source of the same name."""
    trace = current_trace()
    if trace is None:
        value: Tensor = EagerTensor(state.array, state.type)
    else:
        value = trace.read(variable, state=state)
    for tape in active_tapes():
        tape.variable_read(variable, value)
    return value


def _custom(op: Operation, operands: Sequence[Tensor]) -> list[Tensor]:
    """Values whose derivative is a program of the user's."""
    count, flows = op.attrs["outputs"], op.attrs["flows"]
    outputs, inputs = operands[:count], operands[count:]
    region = op.regions[0].block

    def pull(cotangents: Sequence[Tensor]) -> list[Tensor | None]:
        found: list[Tensor | None] = [None] * len(inputs)
        for position, gradient in zip(flows, replay(region, [*cotangents, *inputs]), strict=True):
            found[position - count] = gradient
        return found

    return attach(outputs, inputs, pull)


def _with_regions(op: Operation, operands: Sequence[Tensor]) -> list[Tensor]:
    """An operation with regions: part of the trace, or on eager tapes a program of one operation that is called."""
    trace = current_trace()
    if trace is not None:
        return _traced(trace, op, operands)
    function = _alone(op)
    try:
        arrays = evaluate_function(function, [x.array for x in operands])
    except CheckError as error:
        raise InvalidArgumentError(
            error.message, location=error.location or here(), hint=error.hint
        ) from None
    results: list[Tensor] = [
        EagerTensor(a, v.tensor) for a, v in zip(arrays, function.returns, strict=True)
    ]
    where = origin()
    for tape in active_tapes():
        tape.record_call(function, operands, [y.id for y in results], where)
    return results


@lru_cache(maxsize=256)
def _alone(op: Operation) -> Function:
    """A program of one operation, the same whenever it is run."""
    function = Function(op.name, [v.type for v in op.operands])
    copy = clone_operation(op, {})
    copy.set_operands(function.args)
    builder = Builder(function.block)
    builder.insert(copy)
    builder.emit("return", *copy.results)
    return function


def _traced(trace: Trace, op: Operation, operands: Sequence[Tensor]) -> list[Tensor]:
    where = origin()
    copy = clone_operation(op, {})
    copy.set_operands([trace.value_of(x) for x in operands])
    copy.location = resolve(where)
    trace.builder.insert(copy)
    results: list[Tensor] = [TracedTensor(v, trace) for v in copy.results]
    for tape in active_tapes():
        tape.record_operation(copy, operands, results, where)
    return results
