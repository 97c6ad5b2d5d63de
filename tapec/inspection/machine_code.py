"""The machine code of a program as lines, each with the user's line that it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tapec.inspection.lines import argument_names
from tapec.ir.core import Module, Operation, Value, clone_module
from tapec.ir.location import Location
from tapec.runtime import TARGETS

_PLACE = re.compile(r"\.loc\s+\d+ (\d+)")
_LABEL = re.compile(r"([\w.$]+):")
#: Functions in which the user's lines are computed; the others check arguments and hand them over.
_OWN = ("kernel.", "body.", "task.")


class MachineLine(NamedTuple):
    """An instruction, or a label if it is not indented, with the user's line and the values that it is about.

    ``values`` are those that the operation makes of which LLVM says that the instruction computes it, and what loops
    around it carry them to; or the one that it stores; as they are called for good. What sets up a function is about
    none.
    """

    text: str
    location: Location | None
    values: tuple[str, ...] = ()


def machine_code(loops: Module) -> list[MachineLine]:
    """The assembly of a program's kernels on this machine, without directives; the module is left alone.

    LLVM keeps a line of source with each instruction through all that it does. Here this is the number of the operation
    in the program.

    Args:
        loops: at loop level, with values named by `tapec.inspection.stages.Named`.

    Raises:
        TargetError: this machine has no code for the program.
    """
    numbered = clone_module(loops)
    known: list[MachineLine] = [MachineLine("", None)]
    for function in numbered.functions.values():
        arguments = dict(zip(function.args, argument_names(function), strict=True))
        for op in function.walk():
            names = [arguments.get(v, v.name) for v in _about(op)]
            values = tuple(dict.fromkeys(name for name in names if name))
            op.location, place = Location("operations", len(known)), op.location
            known.append(MachineLine("", place, values))
    return list(_lines(TARGETS["cpu"].text(numbered, "lines"), known))


def _about(op: Operation) -> list[Value]:
    """The values that the instructions of an operation are about.

    What a loop carries from turn to turn is computed inside of it; its own instructions count the turns.
    """
    counters = [a for r in op.regions for b in r.blocks for a in b.args[:1]]
    found = counters or list(op.results)
    for value in found:  # which grows: loops may stand in loops
        for user in value.users:
            block = user.block
            if block is None or block.region is None or user is not block.terminator:
                continue
            owner = block.region.owner
            if isinstance(owner, Operation):
                ends = zip(user.operands, owner.results, strict=False)
                found += [result for end, result in ends if end is value and result not in found]
    return found or list(op.operands[:1])


def _lines(text: str, known: Sequence[MachineLine]) -> Iterator[MachineLine]:
    """The instructions of an assembly whose lines of source are numbers of what is ``known``."""
    of = known[0]
    inside = ready = False
    waiting: list[str] = []  # labels; the assembler's own ones, which nobody jumps to, are left out
    jumps = set(re.findall(r"\.LBB\w+(?=\s|,|$)", re.sub(r"^\.LBB\w+:", "", text, flags=re.M)))
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label is not None:
            name = label[1]
            if not name.startswith(".L"):
                inside, ready, of, waiting = name.startswith(_OWN), False, known[0], [name]
            elif name in jumps:
                waiting.append(name)
        elif (found := _PLACE.search(line)) is not None:
            number = int(found[1])  # 0: it comes from several places, such as the turns of a loop
            of = known[number] if number else of._replace(values=())
            # Before that, registers are saved.
            ready = ready or "prologue_end" in line
        elif inside and line.startswith("\t") and not line.startswith("\t."):
            yield from (MachineLine(f"{name}:", None) for name in waiting)
            waiting = []
            instruction = "  " + line.strip().replace("\t", " ")
            yield of._replace(text=instruction, values=of.values if ready else ())
