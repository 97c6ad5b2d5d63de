"""What tapes hear of a compiled call: one operation, that is differentiated when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tapec.derivatives.replay import VARIABLE, watch_reads
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Value
from tapec.ir.ops.host import Notify
from tapec.recording import active_tapes
from tapec.tensor import EagerTensor, Tensor, as_array, next_id, type_of
from tapec.variable import Variable


class Callee:
    """A compiled program as tapes outside differentiate it.

    What it reads of a Variable before it assigns is an input. What it reads later is a source of its own, and one
    more result.

    Attributes:
        function: the program, with these results behind its own.
    """

    def __init__(
        self, function: Function, captures: Sequence[Any], reads: Mapping[int, Sequence[int]]
    ) -> None:
        """Turn reads into what tapes follow.

        Args:
            function: a copy of the program as traced, which becomes this one's.
            captures: what it reads from outside, its last arguments.
            reads: of which captures it reads Variables, with the places of these operations in its block.
        """
        ops = list(function.block.ops)
        args = function.args[len(function.args) - len(captures) :]
        #: For each capture, whether it is read before it is assigned.
        self._heard = [False] * len(captures)
        later: list[tuple[Variable, Value]] = []
        for index, places in reads.items():
            found = [ops[place] for place in places]
            self._heard[index] = watch_reads(found, args[index : index + 1])
            for op in found:
                if op.operands[0] is not args[index]:
                    op.attrs[VARIABLE] = len(later)
                    later.append((captures[index], op.result))
        for op in list(function.walk()):
            if isinstance(op.defn, Notify) and not op.results:
                op.erase()  # told when it ran
        results = [*function.returns, *(value for _, value in later)]
        function.block.ops.pop().drop()
        Builder(function.block).emit("return", *results)
        self.function = function
        self._later = [variable for variable, _ in later]

    def captured(self, captures: Sequence[Any]) -> Iterator[Tensor]:
        """Tensors for what the program reads from outside, as it is now."""
        for captured, heard in zip(captures, self._heard, strict=True):
            if isinstance(captured, Variable):
                yield (
                    captured.read_value() if heard else EagerTensor(captured.array, captured.type)
                )
            elif isinstance(captured, Tensor):
                yield captured
            else:
                array = as_array(captured)
                yield EagerTensor(array, type_of(array))

    def tell_tapes(self, operands: Sequence[Tensor], outputs: Sequence[Tensor], where: Any) -> None:
        """Record a call.

        Args:
            operands: inputs and captures.
            outputs: what the caller gets, in order.
            where: the code location of the call.
        """
        returned = iter(outputs)
        results = [
            next_id() if i in self.function.updates else next(returned).id
            for i in range(len(self.function.returns) - len(self._later))
        ]
        reads = [Tensor(None, variable.type) for variable in self._later]
        results += [read.id for read in reads]
        for tape in active_tapes():
            for variable, read in zip(self._later, reads, strict=True):
                tape.variable_read(variable, read)
            tape.record_call(self.function, operands, results, where, self._later)
