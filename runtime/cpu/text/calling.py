"""Calls of the host's functions from inside of a program.

The function takes two tables: where operands and results are, and how long all their axes are. It takes the interpreter
for as long as it needs it, whether the program has given it away or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapec.ir.types import BufferType

if TYPE_CHECKING:
    from tapec.ir.core import Operation
    from tapec.runtime.cpu.text.llvm import KernelWriter


def invoke(writer: KernelWriter, op: Operation) -> None:
    """Call the function at an address if the token is 0; say with the next token how it went."""
    inputs = op.attrs["inputs"]
    address, token, *given = op.operands[:inputs]
    following, *made = op.operands[inputs:]
    memory = [*given, *made]
    old = writer.emit(f"load i32, ptr {writer.name(token)}")
    going = writer.emit(f"icmp eq i32 {old}, 0")

    def call() -> list[str]:
        pointers = [f"ptr {writer.name(v)}" for v in memory]
        dims = [d for v in memory if isinstance(v.type, BufferType) for d in v.type.shape]
        extents = [f"i64 {writer.index(writer.dim(d))}" for d in dims]
        places, sizes = _table(writer, pointers), _table(writer, extents)
        number = writer.emit(f"load i64, ptr {writer.name(address)}")
        function = writer.emit(f"inttoptr i64 {number} to ptr")
        return [writer.emit(f"call i32 {function}(ptr {places}, ptr {sizes})")]

    (new,) = writer.branch(going, ["i32"], call, lambda: [old])
    writer.line(f"store i32 {new}, ptr {writer.name(following)}")


def _table(writer: KernelWriter, entries: list[str]) -> str:
    """Memory of this call that holds these, of 8 bytes each."""
    table = writer.alloca(8 * max(len(entries), 1), 8)
    for i, entry in enumerate(entries):
        place = writer.emit(f"getelementptr i8, ptr {table}, i64 {8 * i}")
        writer.line(f"store {entry}, ptr {place}")
    return table
