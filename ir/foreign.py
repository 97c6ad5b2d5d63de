"""Native code that tapec did not write: the LLVM functions of a user's kernel, with what is known of them.

`tapec.runtime.cpu.machine_code.adoption` makes these of what a compiler of Python gives,
`tapec.runtime.cpu.text.foreign` puts them into programs. In their text, the name `KERNEL` stands for the kernel; a
program gives it a name of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tapec.ir.types import DType, TensorType, Type

if TYPE_CHECKING:
    from tapec.ir.core import Function

#: Stands in a text for the name of the kernel's function, and begins those of what it calls.
KERNEL = '@"<kernel>'


class Step(NamedTuple):
    """One instruction of a straight-line kernel, for any number of lanes.

    ``form`` is the instruction with ``{0} {1}`` for its operands, ``{t0} {t1}`` for their types, ``{m0}`` for the type
    of the first inside the name of an intrinsic, and ``{t}`` for the type of the result, whose lanes are of ``kind``.
    Each operand is the LLVM type of its lanes and the name of a register or a constant.
    """

    result: str
    kind: str
    form: str
    operands: tuple[tuple[str, str], ...]


class StraightLine(NamedTuple):
    """A kernel without branches and memory: its steps, and the register or constant that it returns."""

    steps: tuple[Step, ...]
    result: str


class ForeignSymbol(NamedTuple):
    """A function outside of the text, with its LLVM types; it is found by its address, so in this process only."""

    name: str
    result: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class ForeignCode:
    """One kernel for operands of certain dtypes.

    Attributes:
        content: a hash of the text: two kernels with the same hash are the same program.
        results: dtypes of the results.
        text: LLVM functions; the kernel's own is called ``KERNEL"``.
        line: the same as straight-line code, which runs on vectors; None where there are loops or memory in it.
        maths: mathematical functions of ours that the text calls: name, LLVM type, lanes.
        foreign: functions that are neither in the text nor ours. Where there are any, the kernel runs in the process
            that compiled it and nowhere else: no program for another target can hold it.
    """

    content: str
    results: tuple[DType, ...]
    text: str
    line: StraightLine | None = None
    maths: tuple[tuple[str, str, int], ...] = ()
    foreign: tuple[ForeignSymbol, ...] = ()


class Derivative(NamedTuple):
    """The program of a kernel's derivative, and which operands it has cotangents for.

    Its arguments are the operands, the results, and the cotangents of those results that carry any.
    """

    function: Function
    flows: tuple[int, ...]


class ForeignSource(Protocol):
    """A user's kernel, as an operation sees it; see `tapec.kernels.kernel`."""

    def code(self, operands: Sequence[Type], results: Sequence[Type] = ()) -> ForeignCode:
        """The native code for operands of these types; of a kernel of arrays the results' types are given too.

        Raises:
            DTypeError: the kernel does not take them.
        """

    def meaning(self, operands: Sequence[Type], results: Sequence[Type] = ()) -> Any:
        """The kernel as a function of NumPy arrays: a scalar one of arrays of one shape, another of all its arrays."""

    def result_types(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The types of the results, by the rule that the user declared.

        Raises:
            ShapeError, DTypeError: the operands do not fit.
        """

    def derivative(
        self, operands: Sequence[TensorType], results: Sequence[TensorType]
    ) -> Derivative:
        """The derivative for operands of these types."""

    def address(self, content: str, symbol: str) -> int:
        """Where a foreign symbol of the code with this hash is in this process."""
