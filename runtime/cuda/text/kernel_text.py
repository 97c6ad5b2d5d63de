"""What is known of one kernel: its text, its parameters, and how it is launched."""

from __future__ import annotations

from dataclasses import dataclass

from tapec.ir.dims import DimLike

#: Blocks of a kernel at most: what a large device runs at once.
BLOCKS = 1056
#: Threads of a block at most.
MOST_THREADS = 1024


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
        is_whole: whether it takes exactly ``turns`` blocks, not fewer.
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
    is_whole: bool = False

    @property
    def parameters(self) -> tuple[str, ...]:
        """All parameters' names."""
        return (*(n for n, _ in self.pointers), *(n for n, _ in self.sizes))

    @property
    def part_name(self) -> str:
        """Its name as a part of a larger kernel."""
        return f"{self.name}_of_{self.threads}"

    @property
    def blocks(self) -> int:
        """How many blocks it takes, if that is known: at most `BLOCKS`, unless it takes no fewer."""
        assert isinstance(self.turns, int)
        if self.is_whole:
            return self.turns
        blocks = self.turns if self.over == "blocks" else -(-self.turns // self.threads)
        return max(1, min(blocks, BLOCKS))

    def source(self, *, part: bool = False) -> str:
        """The function; as a ``part`` of a larger kernel it is told which of how many blocks it has."""
        first = ("block", "blocks") if part else ()
        name = self.part_name if part else self.name
        head = f"def {name}({', '.join((*first, *self.parameters))}):"
        own = [] if part else ["    block = block_index()", "    blocks = block_count()"]
        if self.is_whole:
            del own[1:]
        return "\n".join([head, *own, *(self.body or ("    pass",)), ""])
