"""A compiled program as a shared object with its line table: the form that gdb, perf and their like read.

They ask the system's loader what is in memory and look into the files. So a program that is to be looked at is written
to one and loaded by ``dlopen``; the bytes that run are the same that are mapped otherwise. Layout of the file: headers
and what the loader needs, on pages of their own the image (`tapec.runtime.cpu.image`), then what only tools read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from tapec.ir.errors import TargetError
from tapec.runtime.cpu.machine_code.linker import PAGES, Linker, Section, linked

_RELATIVE = {62: 8, 183: 1027}  # relocation: add where the object was loaded
#: Relocations in debug sections: how many bytes the sum of symbol and addend has.
_PLAIN = {62: {1: 8, 10: 4, 11: 4}, 183: {257: 8, 258: 4}}
_PROGBITS, _SYMTAB, _STRTAB, _RELA, _HASH, _DYNAMIC, _DYNSYM = 1, 2, 3, 4, 5, 6, 11
_ALLOC, _WRITE = 2, 1
_FUNCTION = 2
_HEADER, _PROGRAM = 64, 56  # bytes of the file's header, and of that of a segment
_SEGMENTS = 5


class _Part(NamedTuple):
    """A section of the file."""

    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: str = ""
    entry: int = 0
    info: int = 0


def shared_object(data: bytes, rename: Callable[[str], str] = str) -> bytes:
    """The shared object of a relocatable one.

    Args:
        data: what the compiler made.
        rename: names of functions, for tools.

    Raises:
        TargetError: it refers to something that it does not hold.
    """
    return _Writer(linked(data), rename).write()


class _Writer:
    """One file while it is written."""

    def __init__(self, linker: Linker, rename: Callable[[str], str]) -> None:
        self.linker = linker
        (self.object,) = linker.objects
        self.image = linker.image()
        self.page = PAGES[linker.machine]
        self.rename = rename
        self.data = bytearray(_HEADER + _SEGMENTS * _PROGRAM)
        self.parts = [_Part("", 0, 0, 0, 0, 0)]
        self.base = 0

    def write(self) -> bytes:
        """All of it."""
        self._front()
        front = len(self.data)
        self._align(self.page)
        self.data += self.image.code
        self._sections()
        self._tools()
        self._heads(front)
        return bytes(self.data)

    def _align(self, size: int) -> None:
        self.data += bytes(-len(self.data) % size)

    def _add(self, name: str, kind: int, held: bytes, *, flags: int = 0, **rest: int | str) -> int:
        """A section at the end, whose address is its place if it is loaded."""
        self._align(16)
        offset = len(self.data)
        address = offset if flags & _ALLOC else 0
        self.parts.append(_Part(name, kind, flags, address, offset, len(held), **rest))  # type: ignore[arg-type]
        self.data += held
        return offset

    # ---- what the loader needs

    def _front(self) -> None:
        """Exported names, relocations and the table that lists them."""
        exported = sorted(self.image.symbols)
        count = len(exported) + 1
        strings = b"\0" + b"".join(name.encode() + b"\0" for name in exported)
        # The image comes behind all this; sizes are known before it is written.
        sizes = (
            24 * count + len(strings) + 4 * (2 + 1 + count) + 24 * len(self.image.bases) + 16 * 12
        )
        self.base = -(-(len(self.data) + sizes + 6 * 16) // self.page) * self.page
        symbols, start = bytearray(24), 1
        for name in exported:
            address = self.base + self.image.symbols[name]
            symbols += struct.pack("<IBBHQQ", start, 0x10, 0, 1, address, 0)
            start += len(name.encode()) + 1
        # One bucket: all names in a row.
        chain = [*range(2, count), 0] if count > 1 else []
        table = struct.pack(f"<{3 + count}I", 1, count, min(1, count - 1), 0, *chain)
        relocations = b"".join(
            struct.pack("<QQq", self.base + at, _RELATIVE[self.linker.machine], self._target(at))
            for at in self.image.bases
        )
        places = {
            5: self._add(".dynstr", _STRTAB, strings, flags=_ALLOC),
            6: self._add(
                ".dynsym", _DYNSYM, bytes(symbols), flags=_ALLOC, link=".dynstr", entry=24, info=1
            ),
            4: self._add(".hash", _HASH, table, flags=_ALLOC, link=".dynsym", entry=4),
            7: self._add(".rela.dyn", _RELA, relocations, flags=_ALLOC, link=".dynsym", entry=24),
        }
        entries = [*places.items(), (10, len(strings)), (11, 24), (8, len(relocations)), (9, 24)]
        if any(at < self.image.writable for at in self.image.bases):
            entries.append((22, 0))  # relocations in what is not written to otherwise
        dynamic = b"".join(struct.pack("<QQ", *entry) for entry in [*entries, (0, 0)])
        flags = _ALLOC | _WRITE
        self._add(".dynamic", _DYNAMIC, dynamic, flags=flags, link=".dynstr", entry=16)

    def _target(self, at: int) -> int:
        (offset,) = struct.unpack_from("<Q", self.image.code, at)
        return self.base + int(offset)

    # ---- what is in the image, and what tools read

    def _sections(self) -> None:
        """The sections of the object at their places in the image."""
        for section in self.object.sections:
            if section.address >= 0 and section.size:
                place = self.base + section.address
                self.parts.append(
                    _Part(section.name, _PROGBITS, section.flags, place, place, section.size)
                )

    def _tools(self) -> None:
        for section in self.object.sections:
            if section.name.startswith(".debug_") and section.kind == _PROGBITS:
                self._add(section.name, _PROGBITS, self._debug(section))
        symbols, strings, count = bytearray(24), bytearray(b"\0"), 1
        found = sorted(self.linker.functions(), key=lambda s: not s.is_local)
        text = next(i for i, part in enumerate(self.parts) if part.name == ".text")
        for symbol in found:
            info = _FUNCTION | (0 if symbol.is_local else 0x10)
            symbols += struct.pack(
                "<IBBHQQ", len(strings), info, 0, text, self.base + symbol.address, symbol.size
            )
            strings += self.rename(symbol.name).encode() + b"\0"
            count += symbol.is_local
        self._add(".symtab", _SYMTAB, bytes(symbols), link=".strtab", entry=24, info=count)
        self._add(".strtab", _STRTAB, bytes(strings))

    def _debug(self, section: Section) -> bytes:
        """A section for tools, with the addresses that it speaks of."""
        linker, read = self.linker, self.object
        held = bytearray(read.data[section.offset : section.offset + section.size])
        number = read.sections.index(section)
        for table in read.sections:
            if table.kind != _RELA or table.info != number:
                continue
            for at in range(table.offset, table.offset + table.size, 24):
                offset, info, addend = struct.unpack_from("<QQq", read.data, at)
                size = _PLAIN[linker.machine].get(info & 0xFFFFFFFF)
                if size is None:
                    raise TargetError(
                        f"relocation {info & 0xFFFFFFFF} in {section.name} is not known"
                    )
                value = self._value(read.sections[table.link], info >> 32) + addend
                struct.pack_into("<Q" if size == 8 else "<I", held, offset, value)
        return bytes(held)

    def _value(self, table: Section, index: int) -> int:
        """Where a symbol is: in the file's address space, or in a section that is not loaded."""
        _, address = self.object.symbol(table, index)
        if address >= 0:
            return self.base + address
        entry = struct.unpack_from("<IBBHQQ", self.object.data, table.offset + 24 * index)
        return int(entry[4])

    # ---- headers

    def _heads(self, front: int) -> None:
        """The file's header, its segments, and the list of its sections."""
        names, starts = bytearray(b"\0"), []
        for part in [*self.parts[1:], _Part(".shstrtab", _STRTAB, 0, 0, 0, 0)]:
            starts.append(len(names))
            names += part.name.encode() + b"\0"
        self._add(".shstrtab", _STRTAB, bytes(names))
        self._align(8)
        table = len(self.data)
        index = {part.name: i for i, part in enumerate(self.parts)}
        for part, name in zip(self.parts, [0, *starts], strict=True):
            self.data += struct.pack(
                "<IIQQQQIIQQ", name, part.kind, part.flags, part.address, part.offset, part.size,
                index[part.link] if part.link else 0, part.info, 16 if part.size else 0, part.entry,
            )  # fmt: skip
        count = len(self.parts)
        struct.pack_into(
            "<16sHHIQQQIHHHHHH", self.data, 0, b"\x7fELF\x02\x01\x01", 3, self.linker.machine, 1, 0,
            _HEADER, table, 0, _HEADER, _PROGRAM, _SEGMENTS, 64, count, count - 1,
        )  # fmt: skip
        self._segments(front)

    def _segments(self, front: int) -> None:
        dynamic = next(part for part in self.parts if part.name == ".dynamic")
        size, writable = len(self.image.code), self.image.writable
        listed = [
            (1, 6, 0, front, self.page),  # the loader writes into .dynamic
            (1, 5, self.base, writable, self.page),
            (1, 6, self.base + writable, size - writable, self.page),
            (2, 6, dynamic.offset, dynamic.size, 8),
            (0x6474E551, 6, 0, 0, 16),  # the stack is not executable
        ]
        for i, (kind, flags, offset, length, align) in enumerate(listed):
            struct.pack_into(
                "<IIQQQQQQ", self.data, _HEADER + i * _PROGRAM,
                kind, flags, offset, offset, offset, length, length, align,
            )  # fmt: skip
