"""What a call that no program is for has to do with the programs that there are."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tapec.compiled.call import Call
from tapec.compiled.comparison import Description, changes
from tapec.compiled.decisions import other_outcomes
from tapec.compiled.dimensions import match, unmet
from tapec.compiled.retraces import Cause, Change
from tapec.traces.scalars import identical

if TYPE_CHECKING:
    from tapec.compiled.program import Program
    from tapec.traces.outcomes import Outcome

#: How many calls are remembered whose programs are gone.
_MOST_GONE = 32


def numbers_that_vary(call: Call, made: Sequence[Program]) -> list[bool]:
    """Which of a call's numbers become inputs of its program.

    A float that is an argument is one from the beginning: most flow into arithmetic. An integer is a size or an index
    as often, and a number in a structure one of several settings: they are constants until a call brings another one.
    """
    before: dict[str, list[Any]] = {}
    for program in made:
        for leaf in () if program.recipe is None else program.recipe.leaves:
            before.setdefault(leaf.path, []).append(leaf.value)
    return [
        (isinstance(number, float) and is_whole)
        or not all(identical(value, number) for value in before.get(path, ()))
        for path, number, is_whole in call.described_numbers
    ]


class History:
    """The programs that a function was traced as, the oldest first, and the calls that they were traced for.

    It keeps none of them alive: programs end with the object that they are for. Their calls are compared on.
    """

    def __init__(self) -> None:
        """None yet."""
        self._made: list[tuple[weakref.ref[Program], Description]] = []

    def add(self, program: Program) -> None:
        """Take note of a new one."""
        self._made.append((weakref.ref(program), program.description))
        gone = [entry for entry in self._made if entry[0]() is None]
        if len(gone) > _MOST_GONE:
            self._made.remove(gone[0])

    def programs(self) -> list[Program]:
        """Those that there are."""
        return [program for made, _ in self._made if (program := made()) is not None]

    def drop(self, program: Program) -> None:
        """Compare nothing with a program, nor its call, any more."""
        self._made = [entry for entry in self._made if entry[0]() is not program]

    def nearest_changes(self, call: Call, path: Sequence[Outcome] = ()) -> tuple[Change, ...]:
        """How a call differs from that earlier one that is most like it; ``path``: what its conditions are."""
        candidates = [
            tuple(_changes(description, made(), call, path))
            for made, description in reversed(self._made)
        ]
        return min((found for found in candidates if found), key=len, default=())


def _changes(
    description: Description, program: Program | None, call: Call, path: Sequence[Outcome]
) -> Iterator[Change]:
    found = changes(description, call.description)
    if not found and program is not None:
        found = program.refusal(call.numbers) or [*_misfits(program, call)]
        found = found or other_outcomes(program.path, path)
    yield from found


def _misfits(program: Program, call: Call) -> Iterator[Change]:
    """Open sizes that do not meet what the program assumes of them, or are outside of their bounds."""
    tensors = [d for d in call.description.leaves() if d.kind == "tensor"]
    sizes = match(program.pattern, tuple(d.key for d in tensors))
    if sizes is None:
        for wanted, given in zip(program.pattern, tensors, strict=True):
            if wanted != given.key:
                yield Change(given.path, Cause.SHAPE, str(wanted), given.text)
        return
    for guard in unmet(program.guards, sizes):
        known = ", ".join(f"{name} = {size}" for name, size in sorted(sizes.items()))
        where = program.guard_places.get(guard)
        yield Change("sizes", Cause.SHAPE, " = ".join(guard), known, where)
