"""Programs of one signature for several states of what the function reads; each call takes the one that fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tapec.tensor import Tensor

if TYPE_CHECKING:
    from tapec.compiled.program import Program

#: How many programs of one signature are kept: state that takes turns needs no trace, state that goes on no memory.
_MOST = 8


class Variants:
    """The programs of one signature, the latest used first.

    Attributes:
        programs: those kept.
    """

    def __init__(self, first: Program, trace: Callable[[], Program]) -> None:
        """``trace`` makes one more program, for the state of now."""
        self.programs = [first]
        self._trace = trace

    def run(self, inputs: Sequence[Tensor]) -> Any:
        """Run the program for the state of now."""
        program = self.programs[0]
        if program.state.holds():
            return program.run(inputs)
        return self._fitting().run(inputs)

    def _fitting(self) -> Program:
        """The program for the state of now, which is the first from now on."""
        known = list(self.programs)
        for program in known:
            if program.state.holds():
                self.programs = [program, *(p for p in known if p is not program)]
                return program
        latest = known[0]
        if latest.state.forgive():
            return latest
        program = self._trace()
        self.programs = [program, *self.programs][:_MOST]
        return program
