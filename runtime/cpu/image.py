"""A program as an image: bytes to put anywhere in memory, with nothing left to resolve.

`tapec.runtime.cpu.machine_code.linker` makes it. A process that finds the image on disk starts without LLVM, and
without the linker.

Layout: code and constants first, then, on pages of their own, what is written to. Format of the file: one line
of JSON, then the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple


class Image(NamedTuple):
    """``code`` to be mapped; from ``writable`` on it is data; ``symbols`` are offsets of exported names."""

    code: bytes
    writable: int
    symbols: Mapping[str, int]
    #: Offsets of 8-byte fields to which the image's address must be added.
    bases: tuple[int, ...] = ()

    def to_bytes(self) -> bytes:
        """The form for a file."""
        head = {"writable": self.writable, "symbols": dict(self.symbols), "bases": self.bases}
        return json.dumps(head).encode() + b"\n" + self.code

    @classmethod
    def from_bytes(cls, data: bytes) -> Image:
        """What `to_bytes` wrote."""
        head, code = data.split(b"\n", 1)
        fields = json.loads(head)
        return cls(code, fields["writable"], fields["symbols"], tuple(fields["bases"]))
