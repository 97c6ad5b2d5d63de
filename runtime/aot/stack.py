"""How much stack a call takes at most: frames of functions, along who calls whom."""

from __future__ import annotations

import re
from collections.abc import Mapping

_DEFINED = re.compile(r'^define [^@]*@("[^"]+"|[\w.$]+)\(')
_CALLED = re.compile(r'\bcall [^@\n]*@("[^"]+"|[\w.$]+)\(')
#: What a call itself puts on the stack where the processor does that, and saved registers that no frame counts.
CALL_BYTES = 16
#: Arrays of larger alignment than what the stack has anyway may cost as much again.
_ALIGNED = re.compile(r"= alloca .*, align (\d+)")
_STACK_ALIGNMENT = 8


#: Arguments that x86-64 passes in registers; others it pushes, beside the frame.
_IN_REGISTERS = 6


def deepest(text: str, frames: Mapping[str, int], *, pushes: bool = False) -> dict[str, int]:
    """For each function of a module's text, the bytes of stack that a call of it takes.

    ``text`` is the module after optimisation, so that a call in it is one in the code; ``frames`` are what functions
    take for themselves. Nothing in it calls itself. ``pushes``: the processor pushes arguments.
    """
    calls: dict[str, set[str]] = {}
    padding: dict[str, int] = {}
    pushed: dict[str, int] = {}
    current = ""
    for line in text.splitlines():
        start = _DEFINED.match(line)
        if start is not None:
            current = start[1].strip('"')
            calls[current] = set()
        elif current and line.startswith("  "):
            calls[current].update(name.strip('"') for name in _CALLED.findall(line))
            if pushes and "call " in line:
                count = line.count(", ") + 1 - _IN_REGISTERS
                pushed[current] = max(pushed.get(current, 0), 8 * (count + 1))
            array = _ALIGNED.search(line)
            if array is not None:
                most = max(int(array[1]) - _STACK_ALIGNMENT, 0)
                padding[current] = max(padding.get(current, 0), most)
    found: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in found:
            inner = max((depth(n) for n in calls[name] if n in calls), default=0)
            own = sum(table.get(name, 0) for table in (frames, padding, pushed))
            found[name] = own + CALL_BYTES + inner
        return found[name]

    for name in calls:
        depth(name)
    return found
