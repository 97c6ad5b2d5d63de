"""Static libraries: one object in an archive with an index of its symbols, without dates or owners."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def archive(name: str, data: bytes, names: Sequence[str]) -> bytes:
    """An archive in the System V format, which GNU's and LLVM's linkers take.

    Args:
        name: of the object inside.
        data: the object.
        names: the symbols that it defines for others.
    """
    listed = b"".join(n.encode() + b"\0" for n in names)
    index_size = 4 + 4 * len(names) + len(listed)
    long_names = f"{name}/\n".encode()
    place = 8 + _padded(60 + index_size) + _padded(60 + len(long_names))
    index = struct.pack(f">I{len(names)}I", len(names), *[place] * len(names)) + listed
    parts = [("/", index), ("//", long_names), ("/0", data)]
    return b"!<arch>\n" + b"".join(_member(title, held) for title, held in parts)


def _member(title: str, held: bytes) -> bytes:
    head = f"{title:16}{0:<12}{0:<6}{0:<6}{644 if title == '/0' else 0:<8}{len(held):<10}`\n"
    return head.encode() + held + b"\n" * (len(held) % 2)


def _padded(size: int) -> int:
    return size + size % 2
