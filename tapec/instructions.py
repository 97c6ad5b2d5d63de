"""The instructions of a piece of code, as all versions of Python have them.

From 3.13 on one instruction may stand for two that were there before; those who go over bytecode find the two.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Iterator
from types import CodeType
from typing import TypeVar

R = TypeVar("R")

#: Instructions on two local variables, and what they do with one after the other.
_TWO = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
    "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
}
#: Those that differ only in what Python counts or stores, by what they do.
_SAME = {"LOAD_FAST_BORROW": "LOAD_FAST", "LOAD_SMALL_INT": "LOAD_CONST"}


def kept_for(most: int) -> Callable[[Callable[[CodeType], R]], Callable[[CodeType], R]]:
    """Keep what a function gives for so many pieces of code, by identity: a hash goes over all instructions."""

    def keeping(function: Callable[[CodeType], R]) -> Callable[[CodeType], R]:
        kept: dict[int, tuple[CodeType, R]] = {}  # with the code, so that no other has its id

        @functools.wraps(function)
        def of(code: CodeType) -> R:
            found = kept.get(id(code))
            if found is None:
                if len(kept) >= most:
                    kept.clear()
                found = kept[id(code)] = code, function(code)
            return found[1]

        return of

    return keeping


def instructions_of(code: CodeType) -> list[dis.Instruction]:
    """The instructions in order; two that one stands for are at the same place."""
    return [plain for i in dis.get_instructions(code) for plain in plainly(i)]


def plainly(instruction: dis.Instruction) -> Iterator[dis.Instruction]:
    """An instruction, or those that do the same in Python 3.12."""
    name = instruction.opname
    if name in _TWO:
        for part, variable in zip(_TWO[name], instruction.argval, strict=True):
            yield _as(part, instruction)._replace(argval=variable, argrepr=variable)
    elif name in _SAME:
        yield _as(_SAME[name], instruction)
    elif name == "CALL_KW":  # with the names of arguments on the stack
        yield _as("POP_TOP", instruction)._replace(arg=None, argval=None, argrepr="")
        yield _as("CALL", instruction)
    elif name == "BINARY_OP" and instruction.argrepr == "[]":
        yield instruction._replace(opname="BINARY_SUBSCR")
    else:
        yield instruction


def _as(name: str, instruction: dis.Instruction) -> dis.Instruction:
    return instruction._replace(opname=name, opcode=dis.opmap[name])
