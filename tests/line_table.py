"""What a tool reads in a shared object: its functions, and the source line of each address (DWARF 4, section 6.2)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass
class _Reader:
    """Bytes, read one after the other."""

    data: bytes
    at: int = 0

    def number(self, size: int) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def unsigned(self) -> int:
        """A LEB128 number."""
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def signed(self) -> int:
        start = self.at
        value = self.unsigned()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        found = self.data[self.at : end].decode()
        self.at = end + 1
        return found


def sections(path: Path) -> dict[str, bytes]:
    """The contents of a file's sections, by name."""
    data = path.read_bytes()
    (start,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    heads = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i) for i in range(count)]
    reader = _Reader(data)
    found = {}
    for head in heads:
        reader.at = heads[names][4] + head[0]
        found[reader.text()] = data[head[4] : head[4] + head[5]]
    return found


def functions(path: Path) -> dict[str, range]:
    """The addresses of a file's functions, by name."""
    held = sections(path)
    strings = _Reader(held[".strtab"])
    found = {}
    for i in range(24, len(held[".symtab"]), 24):
        name, _, _, _, address, size = struct.unpack_from("<IBBHQQ", held[".symtab"], i)
        strings.at = name
        found[strings.text()] = range(address, address + size)
    return found


def lines(path: Path) -> list[tuple[int, str, int]]:
    """Rows of a file's line table: address, file, line."""
    reader = _Reader(sections(path)[".debug_line"])
    end = 4 + reader.number(4)
    assert reader.number(2) == 4, "DWARF version"
    program = reader.number(4) + reader.at
    shortest = reader.number(1)
    assert reader.number(1) == 1, "one operation in an instruction"
    reader.number(1)
    base, span, first = reader.number(1), reader.number(1), reader.number(1)
    base = base - 256 if base > 127 else base
    lengths = [reader.number(1) for _ in range(first - 1)]
    while reader.text():
        pass  # folders
    files = [""]
    while name := reader.text():
        files.append(name)
        for _ in range(3):
            reader.unsigned()
    reader.at = program
    return list(_run(reader, end, files, (shortest, base, span, first), lengths))


def _run(
    reader: _Reader,
    end: int,
    files: list[str],
    header: tuple[int, int, int, int],
    lengths: list[int],
) -> Iterator[tuple[int, str, int]]:
    """Run the line program."""
    shortest, base, span, first = header
    address, file, line = 0, 1, 1
    while reader.at < end:
        code = reader.number(1)
        if code >= first:
            address += (code - first) // span * shortest
            line += base + (code - first) % span
            yield address, files[file], line
        elif code == 0:
            size = reader.unsigned()
            after = reader.at + size
            kind = reader.number(1)
            if kind == 1:
                address, file, line = 0, 1, 1
            elif kind == 2:
                address = reader.number(8)
            reader.at = after
        elif code == 1:
            yield address, files[file], line
        elif code == 2:
            address += reader.unsigned() * shortest
        elif code == 3:
            line += reader.signed()
        elif code == 4:
            file = reader.unsigned()
        elif code == 8:
            address += (255 - first) // span * shortest
        elif code == 9:
            address += reader.number(2)
        else:
            for _ in range(lengths[code - 1]):
                reader.unsigned()
