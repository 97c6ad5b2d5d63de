"""How much stack a call takes at most: frames of functions, along who calls whom."""

from __future__ import annotations

import re
from collections.abc import Mapping

_DEFINED = re.compile(r'^define [^@]*@("[^"]+"|[\w.$]+)\(')
_CALLED = re.compile(r'\bcall [^@\n]*@("[^"]+"|[\w.$]+)\(')
#: What a call itself puts on the stack where the processor does that, and saved registers that no frame counts.
CALL_BYTES = 16


def deepest(text: str, frames: Mapping[str, int]) -> dict[str, int]:
    """For each function of a module's text, the bytes of stack that a call of it takes.

    ``text`` is the module after optimisation, so that a call in it is one in the code; ``frames`` are what functions
    take for themselves. Nothing in it calls itself.
    """
    calls: dict[str, set[str]] = {}
    current = ""
    for line in text.splitlines():
        start = _DEFINED.match(line)
        if start is not None:
            current = start[1].strip('"')
            calls[current] = set()
        elif current and line.startswith("  "):
            calls[current].update(name.strip('"') for name in _CALLED.findall(line))
    found: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in found:
            inner = max((depth(n) for n in calls[name] if n in calls), default=0)
            found[name] = frames.get(name, 0) + CALL_BYTES + inner
        return found[name]

    for name in calls:
        depth(name)
    return found
