"""What a call that no program is for has to do with the programs that there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tapec.compiled.call import Call
from tapec.compiled.comparison import changes
from tapec.compiled.retraces import Change
from tapec.compiled.scalars import identical

if TYPE_CHECKING:
    from tapec.compiled.program import Program


def numbers_that_vary(call: Call, alike: Sequence[Program]) -> list[bool]:
    """Which of a call's numbers become inputs of its program.

    A float that is an argument is one from the beginning: most flow into arithmetic. An integer is a size or an index
    as often, and a number in a structure one of several settings: they are constants until a call brings another one.
    """
    found = call.direct_floats
    for program in alike:
        assert program.recipe is not None
        for i, (leaf, number) in enumerate(zip(program.recipe.leaves, call.numbers, strict=False)):
            found[i] = found[i] or not identical(leaf.value, number)
    return found


def nearest_changes(programs: Sequence[Program], call: Call) -> tuple[Change, ...]:
    """How a call differs from that earlier one, traced as one of these programs, that is most like it."""
    candidates = [tuple(_changes(program, call)) for program in reversed(programs)]
    return min((found for found in candidates if found), key=len, default=())


def _changes(program: Program, call: Call) -> Iterator[Change]:
    yield from (differences := changes(program.description, call.description))
    if not differences:
        yield from program.refusal(call.numbers)
