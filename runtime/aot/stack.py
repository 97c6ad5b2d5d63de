"""How much stack a call takes at most: frames of functions, along who calls whom.

LLVM tells the frame of each function, saved registers included. What lies beside frames depends on the processor: the
address to return to, arguments that are pushed, gaps that align an array, and what functions of the compiler's library
take, which compute what the processor has no instructions for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tapec.runtime.aot.targets import EdgeTarget

_DEFINED = re.compile(r'^define [^@]*@("[^"]+"|[\w.$]+)\((.*)\)')
_CALLED = re.compile(r'\bcall [^@\n]*@("[^"]+"|[\w.$]+)\((.*)\)')
_ALIGNED = re.compile(r"= alloca .*, align (\d+)")
#: Instructions with a float in them; those with an integer of 64 bits that a processor of fewer may lack.
_FLOATS = {"f32": re.compile(r"\bfloat\b"), "f64": re.compile(r"\bdouble\b")}
_LONG = re.compile(r"\b(mul|[su](div|rem|itofp)) (\w+ )?i64\b|@llvm\.fpto[su]i\.sat\.i64")
_MOVES = re.compile(r"\b(load|store|ret|phi|select|bitcast|getelementptr)\b")


class _Convention(NamedTuple):
    """What calls of a processor put on the stack, beside frames.

    Attributes:
        back: bytes of the address to return to, where a call pushes it.
        pushes: the caller pushes arguments; elsewhere its frame has room for those of all its calls.
        alignment: where the stack may end.
        words: arguments, as wide as addresses, that registers hold.
        library: what functions of the compiler's library take, by what they compute with; measured.
    """

    back: int
    pushes: bool
    alignment: int
    words: int
    library: Mapping[str, int]


_UNKNOWN = {"f32": 64, "f64": 128, "i64": 128}
#: By the first letters of a triple, the first that fits.
_CONVENTIONS = (
    (r"x86_64", _Convention(8, True, 16, 6, {})),
    (r"aarch64|arm64", _Convention(0, False, 16, 8, {})),
    (r"riscv", _Convention(0, False, 16, 8, {"f32": 32, "f64": 80, "i64": 80})),
    (r"thumbv6m", _Convention(0, False, 8, 4, {"f32": 32, "f64": 104, "i64": 80})),
    (r"arm|thumb", _Convention(0, False, 8, 4, {"f32": 32, "f64": 48, "i64": 48})),
    (r"wasm", _Convention(0, False, 16, 1000, {})),
    (r"avr", _Convention(3, False, 1, 9, {"f32": 12, "f64": 64, "i64": 32})),
    (r"", _Convention(16, True, 4, 0, _UNKNOWN)),
)  # fmt: skip


@dataclass
class _Function:
    """What one function puts on the stack: for itself, and where it calls others of the module."""

    incoming: int
    calls: dict[str, int] = field(default_factory=dict)
    gap: int = 0
    library: int = 0


def deepest(text: str, frames: Mapping[str, int], target: EdgeTarget) -> dict[str, int]:
    """For each function of a module's text, the bytes of stack that a call of it takes, its own included.

    ``text`` is the module after optimisation, so that a call in it is one in the code; ``frames`` are what functions
    take for themselves. Nothing in it calls itself.
    """
    convention = next(c for start, c in _CONVENTIONS if re.match(start, target.triple))
    library = {k: v for k, v in convention.library.items() if k not in target.floats}
    convention = convention._replace(library=library)
    functions: dict[str, _Function] = {}
    current: _Function | None = None
    for line in text.splitlines():
        start = _DEFINED.match(line)
        if start is not None:
            current = _Function(_on_stack(start[2], target, convention))
            functions[start[1].strip('"')] = current
        elif current is not None and line.startswith("  "):
            _read(line, current, target, convention)
    known: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in known:
            of = functions[name]
            inner = [depth(n) + more for n, more in of.calls.items() if n in functions]
            inside = max([of.library, *inner])
            known[name] = frames.get(name, 0) + of.gap + convention.back + inside
        return known[name]

    return {name: depth(name) + of.incoming for name, of in functions.items()}


def _read(line: str, function: _Function, target: EdgeTarget, convention: _Convention) -> None:
    """Note what an instruction takes."""
    array = _ALIGNED.search(line)
    if array is not None:
        function.gap = max(function.gap, int(array[1]) - convention.alignment, 0)
    function.library = max(function.library, _library(line, target, convention.library))
    for name, given in _CALLED.findall(line):
        pushed = _on_stack(given, target, convention) if convention.pushes else 0
        name = name.strip('"')
        function.calls[name] = max(function.calls.get(name, 0), pushed)


def _library(line: str, target: EdgeTarget, library: Mapping[str, int]) -> int:
    """What the compiler's library takes for an instruction, if it has to be asked."""
    if _MOVES.search(line):
        return 0
    taken = [library.get(kind, 0) for kind, found in _FLOATS.items() if found.search(line)]
    if target.bits < 64 and _LONG.search(line):
        taken.append(library.get("i64", 0))
    return max(taken, default=0)


def _on_stack(listed: str, target: EdgeTarget, convention: _Convention) -> int:
    """Bytes of arguments that registers do not hold."""
    word = max(target.bits // 8, 2)
    words = sum(max(_width(part) // word, 1) for part in listed.split(", ") if part)
    over = max(words - convention.words, 0) * word
    return -(-over // convention.alignment) * convention.alignment


def _width(argument: str) -> int:
    """Bytes of an argument, by its type; of addresses, as few as there may be."""
    kind = argument.split(" ", 1)[0]
    return {"i64": 8, "double": 8, "float": 4, "i32": 4}.get(kind, 2)
