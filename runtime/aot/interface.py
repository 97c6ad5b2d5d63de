"""What a C program sees of a model: its functions, what they take and give, and the state that they share."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from tapec.ir.core import Module
from tapec.ir.dims import DimLike, Symbol, substitute, symbols
from tapec.ir.errors import TargetError
from tapec.ir.lazy import lazy
from tapec.ir.types import DType, TensorType
from tapec.runtime.symbols import symbols_of

#: Every array of a model, its state and its arena begin at multiples of this many bytes, or of their items' size.
ALIGNMENT = 8

#: Errors of functions that check what they are called with; positive numbers are checks of the program.
ERRORS = {
    "NULL": (-1, "a pointer is null"),
    "MISALIGNED": (-2, "an address is no multiple of what its array needs"),
    "ARENA": (-3, "the arena is too small"),
    "SIZE": (-4, "a size is out of its bounds"),
}

#: Words and macros of C and C++, with the names of the types and macros that headers use.
_RESERVED = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const const_cast consteval constexpr constinit continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires restrict return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void volatile
    wchar_t while xor xor_eq linux unix NULL offsetof size_t ptrdiff_t max_align_t int8_t int16_t int32_t int64_t
    uint8_t uint16_t uint32_t uint64_t intptr_t uintptr_t intmax_t uintmax_t""".split()
)
#: The macros and types of ``stdint.h``, of which there are many.
_STDINT = re.compile(
    r"(U?INT\w*|SIZE|PTRDIFF|WCHAR|WINT|SIG_ATOMIC)_(MIN|MAX|C|WIDTH)|u?int_(fast|least)\d+_t"
)
#: What a model's header and module call by its name and one of these, so that no function of it can be.
TAKEN = ("state", "initial", "selftest", "initial_state", "layout", "arena_bytes", "state_bytes")


@dataclass(frozen=True)
class Parameter:
    """An array that a function takes or fills; one without axes that it takes is passed by value."""

    name: str
    type: TensorType

    @property
    def most(self) -> int:
        """Items, where sizes are as large as they may be."""
        return most(self.type.size) * (2 if self.type.dtype.is_complex else 1)

    @property
    def item(self) -> DType:
        """What C sees in it: complex numbers are two items."""
        return self.type.dtype.real_dtype if self.type.dtype.is_complex else self.type.dtype


@dataclass(frozen=True)
class Member:
    """A part of the state: where it begins, and what it is before the first call."""

    name: str
    type: TensorType
    initial: np.ndarray[Any, Any]
    offset: int

    @property
    def bytes(self) -> int:
        """Of all its elements."""
        return int(self.initial.nbytes)

    @property
    def item(self) -> DType:
        """What C sees in it: complex numbers are two items."""
        return self.type.dtype.real_dtype if self.type.dtype.is_complex else self.type.dtype

    @property
    def items(self) -> int:
        """How many of them there are in C, which has no arrays of none."""
        return max(self.bytes // self.item.bytes, 1)


class Slot(NamedTuple):
    """What an argument of the compiled program is: of ``number`` among its kind, or an array that never changes."""

    kind: Literal["input", "state", "constant", "output", "status", "arena"]
    number: int = 0
    array: np.ndarray[Any, Any] | None = None


@dataclass(frozen=True)
class EntryPoint:
    """One function.

    Attributes:
        name: what follows the model's name in C.
        module: the program, as loops; its entry takes one buffer for each of ``slots``.
        inputs: what callers give.
        outputs: what callers get.
        slots: the arguments of the entry.
        checks: what it says where a check fails; a function returns the number of the first that did, from 1 on.
        where: the line of the user's that defines it.
    """

    name: str
    module: Module
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    slots: tuple[Slot, ...]
    checks: tuple[str, ...] = ()
    where: str = ""

    @lazy
    def sizes(self) -> tuple[Symbol, ...]:
        """Sizes that a call tells, each with a bound."""
        known = {
            s.name: s
            for parameter in (*self.inputs, *self.outputs)
            for s in parameter.type.symbols()
        }
        return tuple(known[name] for name in symbols_of(self.module.entry))

    @lazy
    def arena_bytes(self) -> int:
        """Scratch memory of a call."""
        return most(self.module.entry.attrs.get("arena", 0))

    @lazy
    def reads_state(self) -> bool:
        """Whether it takes the state."""
        return any(slot.kind == "state" for slot in self.slots)

    @lazy
    def written(self) -> frozenset[int]:
        """The members of the state that it writes."""
        return frozenset(
            self.slots[i].number
            for i in self.module.entry.updates.values()
            if self.slots[i].kind == "state"
        )


@dataclass(frozen=True)
class Model:
    """Functions under one name, and the state that they share."""

    name: str
    entries: tuple[EntryPoint, ...]
    state: tuple[Member, ...]

    @property
    def state_bytes(self) -> int:
        """Of the whole state, as C lays it out."""
        return self._state_end + self.padding

    @property
    def padding(self) -> int:
        """Bytes behind the last part of the state, so that all compilers take it for equally large."""
        most = max((m.item.bytes for m in self.state), default=1)
        return aligned(self._state_end, most) - self._state_end

    @property
    def _state_end(self) -> int:
        if not self.state:
            return 0
        last = self.state[-1]
        return last.offset + last.items * last.item.bytes

    @property
    def arena_bytes(self) -> int:
        """Enough for a call of any function."""
        return max(entry.arena_bytes for entry in self.entries)

    def initial_state(self) -> bytes:
        """The state before the first call, as it lies in memory: little-endian, as all targets are."""
        memory = bytearray(self.state_bytes)
        for member in self.state:
            array = np.ascontiguousarray(member.initial)
            memory[member.offset : member.offset + member.bytes] = array.tobytes()
        return bytes(memory)


def lay_out(arrays: Sequence[tuple[str, np.ndarray[Any, Any], TensorType]]) -> tuple[Member, ...]:
    """Members in an order in which no compiler leaves gaps: those of larger items first."""
    found, offset = [], 0
    members = [Member(name, kind, array, 0) for name, array, kind in arrays]
    for member in sorted(members, key=lambda m: -m.item.bytes):
        found.append(replace(member, offset=offset))
        offset += member.items * member.item.bytes
    return tuple(found)


def most(dim: DimLike) -> int:
    """A size where every size in it is as large as it may be.

    Raises:
        TargetError: one has no bound.
    """
    if isinstance(dim, int):
        return dim
    bounds: dict[str, DimLike] = {}
    for of in symbols(dim):
        if of.high is None:
            raise TargetError(
                f"the size {of} has no bound, so no memory can be laid out for it",
                hint=f"declare one: 'f32[{of}<=32,…]' as the type of the argument, "
                f'or @tapec.compile(dims={{"x": ("{of}<=32", …)}})',
            )
        bounds[of.name] = of.high
    found = substitute(dim, bounds)
    assert isinstance(found, int)
    return found


def aligned(size: int, to: int) -> int:
    """The next multiple."""
    return -(-size // to) * to


def is_reserved(name: str) -> bool:
    """Whether a word means something to C, C++ or Python already."""
    return name in _RESERVED or keyword.iskeyword(name) or _STDINT.fullmatch(name) is not None


def function_names(model: str, names: Iterable[str]) -> dict[str, str]:
    """What follows a model's name in C, by the names of its functions: all are different, and mean nothing yet."""
    found: dict[str, str] = {}
    for name in names:
        used = [*TAKEN, *found.values()]
        called = c_name(name, used)
        while is_reserved(f"{model}_{called}"):
            used.append(called)
            called = c_name(name, used)
        found[name] = called
    return found


def c_name(text: str, taken: Iterable[str] = (), *, cased: bool = False) -> str:
    """A name for C, C++ and Python that is like a text, and like no other.

    Names that differ in capitals alone are alike, as macros are made of them, unless ``cased``.
    """
    fold: Callable[[str], str] = str if cased else str.upper
    plain = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "x"
    if plain[0].isdigit() or is_reserved(plain):
        plain = f"{plain}_" if not plain[0].isdigit() else f"_{plain}"
    used, name, number = set(map(fold, taken)), plain, 1
    while fold(name) in used:
        number += 1
        name = f"{plain}_{number}"
    return name
