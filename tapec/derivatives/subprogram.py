"""A function of tensors traced on its own, to be run again as operations that tapes hear.

What is to be mapped over an axis, or kept as the derivative of something, has to be a program first: also in eager
code, and inside of a trace that goes on around it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tapec.derivatives.replay import replay, watch_reads
from tapec.errors import RuntimeError
from tapec.frames import here
from tapec.ir.core import Function, Module
from tapec.ir.dims import DimLike
from tapec.ir.types import TensorType
from tapec.passes.batch import batch_function
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.recording import current_trace, tracing
from tapec.structure import flatten, unflatten
from tapec.tensor import Tensor, as_tensor
from tapec.tracing import Trace
from tapec.variable import Variable

_EXPAND = parse_pipeline("adjoint")


@dataclass
class Subprogram:
    """A traced function: its arguments are the inputs, then the ``captures``, which are tensors of the code around it.

    ``leaves`` and ``spec`` are what the Python function returned; each Tensor among the leaves is one result.
    """

    function: Function
    captures: list[Tensor]
    leaves: list[Any]
    spec: Any

    def filled(self, results: Sequence[Tensor]) -> Any:
        """What the Python function returned, with these results in place of its tensors."""
        left = iter(results)
        return unflatten(
            self.spec, [next(left) if isinstance(v, Tensor) else v for v in self.leaves]
        )


def trace_subprogram(
    name: str, function: Callable[[list[Tensor]], Any], types: Sequence[TensorType]
) -> Subprogram:
    """Trace a function of a list of tensors.

    Raises:
        RuntimeError: it assigns a Variable, or makes one.
    """
    trace = Trace(name, parent=current_trace())
    with tracing(trace):
        leaves, spec = flatten(function([trace.input(t, None) for t in types]))
        trace.finish([leaf for leaf in leaves if isinstance(leaf, Tensor)])
    if trace.function.updates or trace.created_variables:
        raise RuntimeError(
            f"a Variable is {'assigned' if trace.function.updates else 'made'} inside of {name}, which may run "
            "for many rows, or not at all",
            location=here(),
            hint="return the new value, and assign it outside",
        )
    captures = [
        thing.read_value() if isinstance(thing, Variable) else as_tensor(thing)
        for thing in trace.captures
    ]
    watch_reads(trace.function.block.ops, trace.function.args)  # read outside, just now
    return Subprogram(trace.function, captures, list(leaves), spec)


def map_rows(
    name: str, function: Callable[[list[Tensor]], Any], rows: Sequence[Tensor], size: DimLike
) -> Any:
    """What a function returns for each row of some tensors, with one leading axis more; done for all rows at once.

    Raises:
        RuntimeError: the function assigns a Variable, or makes one.
        NotDifferentiableError: it has an operation that cannot be mapped.
    """
    types = [r.type.with_shape(r.type.shape[1:]) for r in rows]
    program = trace_subprogram(name, function, types)
    run_pipeline(Module([program.function]), _EXPAND)
    batched = [True] * len(rows) + [False] * len(program.captures)
    batch_function(program.function, size, batched)
    return program.filled(replay(program.function.block, [*rows, *program.captures]))
