"""The machine code of a program as lines, each with the user's line that it comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from tapec.compiler import native_text
from tapec.ir.core import Module
from tapec.ir.location import Location

_FILE = re.compile(r'\.file\s+(\d+)(?: "((?:[^"\\]|\\.)*)")? "((?:[^"\\]|\\.)*)"')
_PLACE = re.compile(r"\.loc\s+(\d+) (\d+)")
_LABEL = re.compile(r"([\w.$]+):")
#: Functions in which the user's lines are computed; the others check arguments and hand them over.
_OWN = ("kernel.", "body.", "task.")


class MachineLine(NamedTuple):
    """An instruction, or a label if it is not indented, and the user's line."""

    text: str
    location: Location | None


def machine_code(module: Module) -> list[MachineLine]:
    """The assembly of a program's kernels on this machine, without directives; the module is left alone.

    Raises:
        TargetError: this machine has no code for the program.
    """
    return list(_lines(native_text(module, "lines")))


def _lines(text: str) -> Iterator[MachineLine]:
    files: dict[str, str] = {}
    place: Location | None = None
    inside = False
    waiting: list[str] = []  # labels; the assembler's own ones, which nobody jumps to, are left out
    jumps = set(re.findall(r"\.LBB\w+(?=\s|,|$)", re.sub(r"^\.LBB\w+:", "", text, flags=re.M)))
    for line in text.splitlines():
        label = _LABEL.match(line)
        if label is not None:
            name = label[1]
            if not name.startswith(".L"):
                inside, place, waiting = name.startswith(_OWN), None, [name]
            elif name in jumps:
                waiting.append(name)
        elif (named := _FILE.search(line)) is not None:
            files[named[1]] = os.path.join(named[2] or "", named[3])
        elif (found := _PLACE.search(line)) is not None:
            number = int(found[2])
            place = Location(files[found[1]], number) if number and found[1] in files else place
        elif inside and line.startswith("\t") and not line.startswith("\t."):
            yield from (MachineLine(f"{name}:", None) for name in waiting)
            waiting = []
            yield MachineLine("  " + line.strip().replace("\t", " "), place)
