"""Programs of one signature, for different numbers and states of what the function reads; a call takes what fits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapec.compiled.program import Program

#: A program, and arrays for the numbers that are inputs of it.
Found = tuple["Program", Sequence[Any]]
#: How many programs of one signature are kept: state that takes turns needs no trace, state that goes on no memory.
_MOST = 32


class Variants:
    """The programs of one signature, the latest used first.

    Attributes:
        programs: those kept.
    """

    def __init__(self, objects: Sequence[Any] = ()) -> None:
        """None yet. ``objects``: those that the signature has by their ``id``, which is not to be used again."""
        self.programs: list[Program] = []
        self._objects = tuple(objects)

    def find(self, numbers: Sequence[Any]) -> Found | None:
        """The program for these numbers and the state of now, which is the first from now on; None if there is none."""
        known = self.programs
        for place, program in enumerate(known):
            found: Sequence[Any] | None = ()
            if not (program.is_unconditional and program.build.fits):
                found = program.admits(numbers)
            if found is not None:
                if place:
                    self.programs = [program, *(p for p in known if p is not program)]
                return program, found
        return None

    def forgiven(self, numbers: Sequence[Any]) -> Found | None:
        """The program that was used last, if it goes on with state that changed; see `Guard.forgive`."""
        if not self.programs or not self.programs[0].state.forgive():
            return None
        found = self.programs[0].admits(numbers)
        return None if found is None else (self.programs[0], found)

    def add(self, program: Program) -> None:
        """Keep one more program."""
        self.programs = [program, *self.programs][:_MOST]
