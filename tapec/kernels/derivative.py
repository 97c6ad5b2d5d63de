"""The derivative of a user's kernel: the function that the user wrote for it, as a program.

It is traced when a derivative is asked for, once for operands of certain types, so a kernel's derivative may be made of
the kernel itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from tapec import errors
from tapec.errors import RuntimeError
from tapec.frames import here
from tapec.functions.broadcasting import broadcast, compatible
from tapec.ir.builder import Builder
from tapec.ir.core import Function
from tapec.ir.foreign import Derivative
from tapec.ir.location import Location
from tapec.ir.types import TensorType
from tapec.recording import tracing
from tapec.tensor import Tensor, as_array, as_tensor
from tapec.tracing import Trace
from tapec.variable import Variable


def trace_vjp(
    name: str,
    vjp: Callable[..., Any],
    operands: Sequence[TensorType],
    results: Sequence[TensorType],
    *,
    spread: bool,
) -> Derivative:
    """The program of ``vjp(*operands, *results, *cotangents)``.

    Args:
        name: the kernel's, for messages.
        vjp: returns a cotangent for each operand, or None where there is none; of one operand it may be alone.
        operands: types of the kernel's operands.
        results: types of its results; those that are no floats have no cotangent, and None is passed for it.
        spread: a cotangent that is smaller than its operand is repeated, as is right for elementwise kernels.

    Raises:
        TypeError: it takes another number of arguments.
        ValueError: it returned too few, too many, or others than fit.
        RuntimeError: it uses a Variable or a tensor from outside of it that has no value.
    """
    trace = Trace(f"{name}.vjp")
    where = _place(vjp)
    with tracing(trace):
        given = [trace.input(t, None) for t in (*operands, *results)]
        cotangents = [trace.input(t, None) if t.dtype.is_differentiable else None for t in results]
        _hold_to_arguments(name, vjp, len(operands), len(results), where)
        returned = vjp(*given, *cotangents)
        found = list(returned) if isinstance(returned, tuple | list) else [returned]
        if len(found) != len(operands):
            raise errors.ValueError(
                f"the vjp of {name} returned {len(found)} cotangents for {len(operands)} operands",
                location=where or here(),
                hint="return one for each operand, None where no gradient flows",
            )
        flows, outputs = [], []
        for i, (cotangent, operand) in enumerate(zip(found, operands, strict=True)):
            if cotangent is None or not operand.dtype.is_differentiable:
                continue
            flows.append(i)
            outputs.append(_fitted(name, i, cotangent, operand, where, spread=spread))
        trace.finish(outputs)
    _freeze(name, trace, len(given) + sum(c is not None for c in cotangents), where)
    return Derivative(trace.function, tuple(flows))


def _hold_to_arguments(
    name: str, vjp: Callable[..., Any], operands: int, results: int, where: Location | None
) -> None:
    count = operands + 2 * results
    try:
        inspect.signature(vjp).bind(*range(count))
    except TypeError as error:
        raise errors.TypeError(
            f"the vjp of {name} is called with {count} arguments: {operands} operands, {results} results, {results} "
            f"cotangents of results; it does not take them: {error}",
            location=where or here(),
            hint="as in vjp=lambda x, y, dy: dy * tapec.cos(x), where y is the result",
        ) from None
    except ValueError:  # nobody knows what it takes
        return


def _fitted(
    name: str, number: int, given: Any, operand: TensorType, where: Location | None, *, spread: bool
) -> Tensor:
    """A cotangent of its operand's own type.

    Raises:
        ValueError: it is of another.
    """
    cotangent = as_tensor(given) if isinstance(given, Tensor) else as_tensor(given, operand.dtype)
    if (
        spread
        and cotangent.type.dtype == operand.dtype
        and compatible(cotangent.type.shape, operand.shape)
    ):
        cotangent = broadcast(cotangent, operand.shape)
    if cotangent.type != operand:
        raise errors.ValueError(
            f"the vjp of {name} returned {cotangent.type} for operand {number}, which is {operand}",
            location=where or here(),
            hint="a cotangent has the dtype and the shape of its operand",
        )
    return cotangent


def _freeze(name: str, trace: Trace, given: int, where: Location | None) -> None:
    """Make what the function took from outside constants of the program.

    Raises:
        RuntimeError: it took a Variable, or a tensor that has no value.
    """
    function: Function = trace.function
    if any(isinstance(c, Variable) for c in trace.captures) or trace.created_variables:
        raise RuntimeError(
            f"the vjp of {name} uses a Variable",
            location=where or here(),
            hint="make it an operand of the kernel, so that its gradient has a place",
        )
    block = function.block
    first = block.ops[0] if block.ops else None
    builder = Builder(block, before=first)
    for captured in trace.captures:
        argument = block.args[given]
        array = captured.array if isinstance(captured, Tensor) else as_array(captured)
        constant = builder.emit("constant", value=array, type=argument.tensor)
        argument.replace_all_uses(constant)
        block.remove_arg(given)


def _place(function: Callable[..., Any]) -> Location | None:
    code = getattr(function, "__code__", None)
    return None if code is None else Location(code.co_filename, code.co_firstlineno)
