"""From relocatable ELF objects to an image.

Compiled programs refer to nothing outside of themselves (what they need from outside is in ``@tapec.host``), so a
linker for them is small: lay the sections out, apply the relocations between them, remember the exported names.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tapec.ir.errors import TargetError
from tapec.runtime.cpu.image import Image

#: Pages of the two machines; the larger sort that ARM systems may use.
PAGES = {62: 4096, 183: 65536}
_ALLOCATED, _WRITABLE = 2, 1  # section flags
_NOBITS, _RELA, _SYMTAB = 8, 4, 2  # section types
_FUNCTION = 2  # type of a symbol


@dataclass
class Section:
    """A section of the object; ``address`` is its place in the image, -1 if it has none."""

    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    address: int = -1


class Symbol(NamedTuple):
    """A function of the object: its name, its place in the image, its bytes, whether it is not exported."""

    name: str
    address: int
    size: int
    is_local: bool


@dataclass
class Object:
    """What one object holds."""

    data: bytes
    sections: list[Section]

    def tables(self) -> list[Section]:
        """Its tables of symbols."""
        return [section for section in self.sections if section.kind == _SYMTAB]

    def symbol(self, table: Section, index: int) -> tuple[str, int]:
        """Name and address of a symbol; the address of one that is not here is -1."""
        entry = struct.unpack_from("<IBBHQQ", self.data, table.offset + 24 * index)
        start = self.sections[table.link].offset + entry[0]
        name = self.data[start : self.data.index(b"\0", start)].decode()
        here = 0 < entry[3] < len(self.sections) and self.sections[entry[3]].address >= 0
        return name, self.sections[entry[3]].address + entry[4] if here else -1

    def functions(self) -> list[Symbol]:
        """Every function, those that are not exported among them."""
        found = []
        for table in self.tables():
            for i in range(table.size // 24):
                name, address = self.symbol(table, i)
                _, info, _, _, _, size = struct.unpack_from(
                    "<IBBHQQ", self.data, table.offset + 24 * i
                )
                if address >= 0 and info & 15 == _FUNCTION:
                    found.append(Symbol(name, address, size, i < table.info))
        return found

    def exports(self) -> dict[str, int]:
        """Every global symbol with a place."""
        found = {}
        for table in self.tables():
            # `info` is the number of local symbols, which come first.
            for i in range(table.info, table.size // 24):
                name, address = self.symbol(table, i)
                if address >= 0:
                    found[name] = address
        return found


@dataclass
class Linker:
    """Objects, linked: their sections have places in ``memory``. What the last of them exports, the image does."""

    objects: list[Object]
    machine: int
    memory: bytearray = field(default_factory=bytearray)
    writable: int = 0
    bases: list[int] = field(default_factory=list)
    #: Slots that hold addresses, for code that goes through a global offset table.
    slots: dict[int, int] = field(default_factory=dict)

    def lay_out(self) -> None:
        """Give every section that is loaded its place."""
        for wanted in (0, _WRITABLE):
            if wanted:
                self.memory += bytes(-len(self.memory) % PAGES[self.machine])
                self.writable = len(self.memory)
            for part in self.objects:
                for section in part.sections:
                    if section.flags & _ALLOCATED and section.flags & _WRITABLE == wanted:
                        self._place(part.data, section)

    def _place(self, data: bytes, section: Section) -> None:
        self.memory += bytes(-len(self.memory) % max(section.align, 1))
        section.address = len(self.memory)
        end = section.offset + section.size
        held = data[section.offset : end] if section.kind != _NOBITS else b""
        self.memory += held.ljust(section.size, b"\0")

    def functions(self) -> list[Symbol]:
        """Every function of every object."""
        return [function for part in self.objects for function in part.functions()]

    def relocate(self) -> None:
        """Apply every relocation of a section that is loaded."""
        exported: dict[str, int] = {}
        for part in self.objects:
            exported |= part.exports()
        for part in self.objects:
            for section in part.sections:
                if section.kind == _RELA and part.sections[section.info].address >= 0:
                    self._relocate(part, section, exported)

    def _relocate(self, part: Object, section: Section, exported: Mapping[str, int]) -> None:
        rules = _RULES[self.machine]
        base, table = part.sections[section.info].address, part.sections[section.link]
        for at in range(section.offset, section.offset + section.size, 24):
            offset, info, addend = struct.unpack_from("<QQq", part.data, at)
            name, target = part.symbol(table, info >> 32)
            rule = rules.get(info & 0xFFFFFFFF)
            if target < 0:
                target = exported.get(name, -1)
            if target < 0:
                raise TargetError(f"the compiled program calls {name}, which no target has")
            if rule is None:
                raise TargetError(f"relocation {info & 0xFFFFFFFF} of {name} is not known")
            rule(self, base + offset, target, addend)

    def slot(self, target: int) -> int:
        """The place of a field that holds the address of ``target``."""
        if target not in self.slots:
            self.memory += bytes(-len(self.memory) % 8)
            self.slots[target] = len(self.memory)
            self.bases.append(len(self.memory))
            self.memory += struct.pack("<Q", target)
        return self.slots[target]

    def image(self) -> Image:
        """What was linked."""
        exports = self.objects[-1].exports()
        return Image(bytes(self.memory), self.writable, exports, tuple(self.bases))


def link(*objects: bytes) -> Image:
    """Make one image of objects.

    Raises:
        TargetError: they refer to something that they do not hold, or are for a machine not known here.
    """
    return linked(*objects).image()


def linked(*objects: bytes) -> Linker:
    """Link objects; errors as of `link`."""
    read = [_read(data) for data in objects]
    (machine,) = struct.unpack_from("<H", objects[0], 18)
    if machine not in _RULES:
        raise TargetError(f"objects for ELF machine {machine} cannot be loaded")
    linker = Linker(read, machine)
    linker.lay_out()
    linker.relocate()
    return linker


def _read(data: bytes) -> Object:
    if data[:6] != b"\x7fELF\x02\x01":
        raise TargetError("the compiler's output is no 64-bit little-endian ELF object")
    (start,) = struct.unpack_from("<Q", data, 40)
    width, count, names = struct.unpack_from("<HHH", data, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * width) for i in range(count)]
    sections = []
    for f in heads:
        begin = heads[names][4] + f[0]
        name = data[begin : data.index(b"\0", begin)].decode()
        sections.append(Section(name, f[1], f[2], f[4], f[5], f[6], f[7], f[8]))
    return Object(data, sections)


_Rule = Callable[[Linker, int, int, int], None]


def _relative(size: int) -> _Rule:
    """The distance from the field to the target."""

    def rule(linker: Linker, at: int, target: int, addend: int) -> None:
        struct.pack_into("<i" if size == 4 else "<q", linker.memory, at, target + addend - at)

    return rule


def _absolute(linker: Linker, at: int, target: int, addend: int) -> None:
    struct.pack_into("<Q", linker.memory, at, target + addend)
    linker.bases.append(at)


def _through_slot(linker: Linker, at: int, target: int, addend: int) -> None:
    struct.pack_into("<i", linker.memory, at, linker.slot(target) + addend - at)


def _word(linker: Linker, at: int, mask: int, bits: int) -> None:
    (old,) = struct.unpack_from("<I", linker.memory, at)
    struct.pack_into("<I", linker.memory, at, (old & ~mask & 0xFFFFFFFF) | bits)


def _arm_branch(linker: Linker, at: int, target: int, addend: int) -> None:
    _word(linker, at, 0x03FFFFFF, (target + addend - at >> 2) & 0x03FFFFFF)


def _arm_page(linker: Linker, at: int, target: int, addend: int) -> None:
    # An image is loaded at the start of a page, so pages of offsets are pages of addresses.
    pages = ((target + addend) >> 12) - (at >> 12)
    _word(linker, at, 0x60FFFFE0, (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5)


def _arm_low(shift: int) -> _Rule:
    """The offset in the page, in units of the access's size."""

    def rule(linker: Linker, at: int, target: int, addend: int) -> None:
        _word(linker, at, 0x003FFC00, ((target + addend & 0xFFF) >> shift) << 10)

    return rule


def _through_arm_slot(rule: _Rule) -> _Rule:
    """As ``rule``, but for the field that holds the address of the target."""

    def through(linker: Linker, at: int, target: int, addend: int) -> None:
        rule(linker, at, linker.slot(target + addend), 0)

    return through


_X86_64 = {
    1: _absolute,
    2: _relative(4),
    4: _relative(4),
    24: _relative(8),
    9: _through_slot,
    41: _through_slot,
    42: _through_slot,
}
_AARCH64 = {
    257: _absolute,
    260: _relative(8),
    261: _relative(4),
    275: _arm_page,
    277: _arm_low(0),
    278: _arm_low(0),
    282: _arm_branch,
    283: _arm_branch,
    284: _arm_low(1),
    285: _arm_low(2),
    286: _arm_low(3),
    299: _arm_low(4),
    311: _through_arm_slot(_arm_page),
    312: _through_arm_slot(_arm_low(3)),
}
_RULES: Mapping[int, Mapping[int, _Rule]] = {62: _X86_64, 183: _AARCH64}
