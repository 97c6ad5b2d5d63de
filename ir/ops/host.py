"""What passes between a program and the host that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapec.ir.op import Op
from tapec.ir.types import Type

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Value


class Notify(Op):
    """Hand the operands to the host's function ``number``, after all that was handed over before; no result.

    ``what`` is for the reader. The operation itself does nothing: who runs the program calls the function, in the
    order of the program, when it has the values. The pass `commit` makes them results.
    """

    name = "notify"
    form = "structural"
    pure = False
    differentiable = False

    def infer(self, *types: Any, number: int, what: str = "") -> tuple[Type, ...]:
        """No results."""
        return ()

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """Nothing."""
        return ()

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """Once for all rows."""
        return b.emit(self, *operands, **attrs)


class NumpyFunction(Op):
    """What the user's function of arrays gave: on tapes, where no derivative goes on."""

    name = "numpy_function"
    form = "structural"
    pure = False
    differentiable = False

    def infer(self, *types: Any, results: tuple[Type, ...]) -> tuple[Type, ...]:
        """``results``, which only the function knows."""
        return results
