"""What is known of one kernel: its text, its parameters, and how it is launched."""

from __future__ import annotations

from dataclasses import dataclass

from tapec.ir.dims import DimLike


@dataclass(frozen=True)
class KernelText:
    """A kernel's text and how it is launched.

    Attributes:
        name: of the function.
        body: its lines; they use ``block`` and ``blocks``, the number of the block and how many there are.
        pointers: its first parameters, with the dtypes of what they point to.
        tables: constants that it reads, by number: pointers behind those of its buffers.
        sizes: its last parameters, sizes that are known at a call, with the dtype that they have.
        threads: of a block.
        turns: how many turns its threads (``over`` the grid) or blocks take.
        over: ``grid`` or ``blocks``.
        shared: bytes that a block shares.
    """

    name: str
    body: tuple[str, ...]
    pointers: tuple[tuple[str, str], ...]
    tables: tuple[int, ...]
    sizes: tuple[tuple[str, str], ...]
    threads: int
    turns: DimLike
    over: str
    shared: int

    @property
    def parameters(self) -> tuple[str, ...]:
        """All parameters' names."""
        return (*(n for n, _ in self.pointers), *(n for n, _ in self.sizes))

    def source(self, *, part: bool = False) -> str:
        """The function; as a ``part`` of a larger kernel it is told which of how many blocks it has."""
        first = ("block", "blocks") if part else ()
        name = f"{self.name}_part" if part else self.name
        head = f"def {name}({', '.join((*first, *self.parameters))}):"
        own = () if part else ("    block = block_index()", "    blocks = block_count()")
        return "\n".join([head, *own, *(self.body or ("    pass",)), ""])
