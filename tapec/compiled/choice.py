"""What a call that no program is for has to do with the programs that there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tapec.compiled.call import Call
from tapec.compiled.comparison import changes
from tapec.compiled.dimensions import match, unmet
from tapec.compiled.retraces import Cause, Change
from tapec.compiled.scalars import identical

if TYPE_CHECKING:
    from tapec.compiled.program import Program


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


def nearest_changes(programs: Sequence[Program], call: Call) -> tuple[Change, ...]:
    """How a call differs from that earlier one, traced as one of these programs, that is most like it."""
    candidates = [tuple(_changes(program, call)) for program in reversed(programs)]
    return min((found for found in candidates if found), key=len, default=())


def _changes(program: Program, call: Call) -> Iterator[Change]:
    yield from (differences := changes(program.description, call.description))
    if not differences:
        yield from (refused := program.refusal(call.numbers))
        if not refused:
            yield from _misfits(program, call)


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
