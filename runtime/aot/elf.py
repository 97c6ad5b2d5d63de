"""What an object file defines and what it lacks: ELF of 32 and 64 bits, and WebAssembly."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tapec.ir.errors import TargetError

_SYMTAB, _UNDEFINED = 2, 0


class Symbols(NamedTuple):
    """Sizes of what is defined for others, by name, and names of what is missing."""

    defined: dict[str, int]
    missing: tuple[str, ...]


#: What linkers themselves define.
_LINKERS = ("_GLOBAL_OFFSET_TABLE_", ".TOC.")


def symbols(data: bytes, target: str = "some machine") -> Symbols:
    """Read an object for a target.

    Raises:
        TargetError: it is of a format not known here.
    """
    if data[:4] == b"\x7fELF" and data[5] == 1:
        return _elf(data)
    if data[:4] == b"\0asm":
        return Symbols({}, tuple(_wasm_imports(data)))
    raise TargetError(
        f"objects for {target} are of a format that is not read here (little-endian ELF and WebAssembly are)",
        hint="build it with emit='c' and let the machine's own C compiler do it",
    )


def _elf(data: bytes) -> Symbols:
    wide = data[4] == 2
    start = struct.unpack_from("<Q" if wide else "<I", data, 40 if wide else 32)[0]
    width, count = struct.unpack_from("<HH", data, 58 if wide else 46)
    layout, at = ("<IIQQQQIIQQ", 24) if wide else ("<IIIIIIIIII", 16)
    heads = [struct.unpack_from(layout, data, start + i * width) for i in range(count)]
    defined: dict[str, int] = {}
    missing = []
    for head in heads:
        if head[1] != _SYMTAB:
            continue
        names = heads[head[6]][4]
        for offset in range(head[4] + at * head[7], head[4] + head[5], at):
            if wide:
                name, _, _, section, _, size = struct.unpack_from("<IBBHQQ", data, offset)
            else:
                name, _, size, _, _, section = struct.unpack_from("<IIIBBH", data, offset)
            text = data[names + name : data.index(b"\0", names + name)].decode()
            if section == _UNDEFINED:
                missing += [text] * (text not in _LINKERS)
            else:
                defined[text] = size
    return Symbols(defined, tuple(sorted(missing)))


def _wasm_imports(data: bytes) -> Iterator[str]:
    """The functions that a WebAssembly object imports; its memory and stack pointer are the linker's."""
    at = 8
    while at < len(data):
        section = data[at]
        size, at = _number(data, at + 1)
        if section == 2:
            yield from _imported(data, at)
        at += size


def _imported(data: bytes, at: int) -> Iterator[str]:
    count, at = _number(data, at)
    for _ in range(count):
        _, at = _text(data, at)
        name, at = _text(data, at)
        kind = data[at]
        at += 1
        if kind == 0:  # a function, of a type
            _, at = _number(data, at)
            yield name
        elif kind == 1:  # a table: type of elements, then limits
            at = _limits(data, at + 1)
        elif kind == 2:
            at = _limits(data, at)
        else:  # a global: type and whether it varies
            at += 2


def _limits(data: bytes, at: int) -> int:
    has_most = data[at] & 1
    _, at = _number(data, at + 1)
    return _number(data, at)[1] if has_most else at


def _text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _number(data, at)
    return data[at : at + size].decode(), at + size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned number in groups of seven bits, and the place behind it."""
    total = shift = 0
    while True:
        byte = data[at]
        total |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return total, at
