"""NumPy arrays that a trace reads: inputs of the program where it takes them, constants where NumPy reads elements.

An array that becomes a tensor is an input: what it holds at each call counts. But ``x * table.max()`` has an element
for a constant, so such an array is compared with a copy. Where each load of an array goes, the bytecode tells, and
the trace where it took one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any
from zlib import crc32

import numpy as np

from tapec.compiled.guards import places
from tapec.compiled.guards.asked import Asked
from tapec.compiled.guards.flow import CONSTRUCTIONS, Flow, flow_of, kind_of
from tapec.compiled.guards.places import Place, text_of
from tapec.compiled.guards.reads import parts
from tapec.compiled.retraces import Cause, Change
from tapec.instructions import kept_for

#: By the id of an array, where user code handed it to an operation: code object and instruction.
Sites = Mapping[int, set[tuple[CodeType, int]]]

#: What an array tells without its elements.
_ABOUT = {"shape", "dtype", "ndim", "size", "nbytes", "itemsize"}
#: Arrays of more bytes are not copied, nor looked at as long as no code ran that may write to arrays.
_MOST_COPIED = 1 << 16
#: Instructions, and functions and methods of NumPy's, that do.
_STORES = {"STORE_SUBSCR", "STORE_SLICE", "DELETE_SUBSCR"}
_WRITING = {
    "at", "byteswap", "copyto", "data", "fill", "fill_diagonal", "flat", "frombuffer", "getattr", "integers",
    "itemset", "memoryview", "nditer", "operator", "partition", "place", "put", "put_along_axis", "putmask", "resize",
    "setfield", "setflags", "shuffle", "sort", "unsafe",
}  # fmt: skip
#: Functions that do not look at elements.
_ASKING = {"len", "isinstance", "type", "id"}


class Arrays:
    """The arrays that one trace found, and the code that ran."""

    def __init__(self) -> None:
        self._places: dict[int, list[Place]] = {}
        self._code: list[CodeType] = []
        #: What arrays held before code ran that may write to them, by ``id``.
        self._before: dict[int, Place] = {}
        self._writes = False

    def entered(self, code: CodeType) -> None:
        """Hear of code that runs."""
        self._code += parts(code)
        if not self._writes and _writes(code):
            self._writes = True
            for identity, found in self._places.items():
                self._before.setdefault(identity, _held_by(found[0]))

    def found(self, place: Place) -> None:
        """Hear of a place with an array."""
        identity = id(place.value)
        self._places.setdefault(identity, []).append(place)
        if identity not in self._before and (self._writes or _is_small(place.value)):
            self._before[identity] = _held_by(place)

    def guarded(self, sites: Sites, flags: bool) -> Iterator[Place]:
        """The contents of arrays that something else than the program may have read.

        Args:
            sites: where the program took them.
            flags: whether code asks how they lie in memory, too.
        """
        for identity, found in self._places.items():
            yield Form(found[0].value, found[0].path, flags)
            before = self._before.get(identity)
            if before is not None and not before.holds():
                yield before  # the function itself changed it
                continue
            taken = {(code, flow_of(code).number(at)) for code, at in sites.get(identity, ())}
            if not all(self._is_input(place.key, taken) for place in found):
                yield places.Contents(found[0].value, found[0].path)

    def _is_input(self, name: Any, taken: set[tuple[CodeType, int]]) -> bool:
        """Whether all that is loaded by a name becomes an input."""
        loads = [
            (flow, i)
            for flow in map(flow_of, self._code)
            for i, instruction in enumerate(flow.instructions)
            if instruction.argval == name and kind_of(instruction) is not None
        ]
        return bool(loads) and all(_Takers(flow, taken).are_inputs(i) for flow, i in loads)


def _held_by(place: Place) -> Place:
    """What an array holds: a copy, or of many elements a checksum."""
    kind = places.Contents if _is_small(place.value) else Checksum
    return kind(place.value, place.path)


def _is_small(array: Any) -> bool:
    return int(array.nbytes) <= _MOST_COPIED


@kept_for(4096)
def _writes(code: CodeType) -> bool:
    """Whether code may write to arrays."""
    for part in parts(code):
        if not _WRITING.isdisjoint(part.co_names) or any(
            isinstance(c, tuple) and "out" in c for c in part.co_consts
        ):
            return True
        for instruction in flow_of(part).instructions:
            name, text = instruction.opname, instruction.argrepr
            if name in _STORES or (name == "BINARY_OP" and text.endswith("=")):
                return True
    return False


class Checksum(Asked):
    """What a large array holds."""

    def __init__(self, owner: Any, path: str) -> None:
        super().__init__(owner, None, None, path, Cause.CONTENTS)
        self.value = self.now()

    def now(self) -> Any:
        """Its form, and a sum of its bytes."""
        return self.owner.shape, self.owner.dtype, crc32(np.ndarray.tobytes(self.owner))

    def holds(self) -> bool:
        """Whether nothing changed."""
        return bool(self.now() == self.value)

    def change(self) -> Change:
        """What it is, and that it holds something else."""
        return Change(self.path, self.cause, text_of(self.owner), "other elements")


class Form(Place):
    """The shape and the dtype of an array, which both can be assigned to."""

    def __init__(self, owner: Any, path: str, flags: bool = False) -> None:
        """``flags``: whether steps and flags count, too."""
        self._flags = flags
        super().__init__(owner, None, (), path, Cause.CONTENTS)
        self.value = self.now()

    def now(self) -> Any:
        """Those of now."""
        form = self.owner.shape, self.owner.dtype
        return (*form, self.owner.strides, self.owner.flags.num) if self._flags else form

    def source(self, owner: str, value: str) -> str:
        """A comparison of all."""
        more = f", {owner}.strides, {owner}.flags.num" if self._flags else ""
        return f"({owner}.shape, {owner}.dtype{more}) == {value}"

    def holds(self) -> bool:
        """Whether both are the same."""
        return bool(self.now() == self.value)

    def change(self) -> Change:
        """Both, as of a type."""
        old, new = (f"{dtype}{list(shape)}" for shape, dtype, *_ in (self.value, self.now()))
        if old == new:
            old, new = str(self.value[2:]), str(self.now()[2:])
            return Change(f"{self.path}.flags", self.cause, old, new)
        return Change(self.path, self.cause, old, new)


class _Takers:
    """Who takes what is loaded, in one piece of code."""

    def __init__(self, flow: Flow, taken: set[tuple[CodeType, int]]) -> None:
        """``taken``: the instructions, by code and number, where the trace took the array."""
        self._flow = flow
        self._taken = taken
        self._asked: set[int] = set()

    def are_inputs(self, load: int) -> bool:
        """Whether all who take a value are operations of the program, or ask for no elements."""
        if load in self._asked:
            return True
        self._asked.add(load)
        uses = self._flow.uses[load]
        return bool(uses) and all(self._is_input(use.taker) for use in uses)

    def _is_input(self, taker: int) -> bool:
        instruction = self._flow.instructions[taker]
        name = instruction.opname
        if (self._flow.code, taker) in self._taken or name in ("POP_TOP", "IS_OP"):
            return True
        if name.startswith(("LOAD_ATTR", "LOAD_METHOD")):
            return instruction.argval in _ABOUT
        if name == "STORE_FAST":
            return all(map(self.are_inputs, self._flow.loads_of(instruction)))
        if name == "CALL":
            return self._asks(taker)
        return name in CONSTRUCTIONS and self.are_inputs(taker)

    def _asks(self, call: int) -> bool:
        below = self._flow.operands[call][:2]  # the function, and a place that is for methods
        callees = [self._flow.instructions[i] for pushed in below for i in pushed]
        return any(i.opname == "LOAD_GLOBAL" and i.argval in _ASKING for i in callees)
