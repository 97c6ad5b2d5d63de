"""Products of matrices by tensor cores: the warps of a block make a tile, each a square of `SQUARE` rows and columns.

A step of a warp is `tapec.ir.ops.device.WarpProduct`. Numbers of 16 bits are shared two by two along the summed axes,
those of float32 as they are: each is rounded when a thread has read it, so that copies need not look at them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapec.ir.core import Value
from tapec.ir.dims import DimLike
from tapec.ir.op import OPS
from tapec.ir.ops.device import WARP_COLUMNS, WARP_DEPTH, WARP_ROWS, WORDS
from tapec.ir.types import DType
from tapec.passes.device.tile import DEEP, Shared, Tile

#: Rows and columns that a warp makes, and its threads.
SQUARE, _WARP = 32, 32


class WarpTile(Tile):
    """One tile by each block, by tensor cores."""

    @property
    def form(self) -> str:
        """The form of the words that warps multiply."""
        return self.dtype.code if self.problem.small else "tf32"

    @property
    def packed(self) -> int:
        """Numbers in a word."""
        return 2 if self.problem.small else 1

    @property
    def threads(self) -> int:
        """A warp for each square."""
        return (self.tiling.rows // SQUARE) ** 2 * _WARP

    @property
    def word(self) -> DType:
        """Two numbers, or one."""
        return WORDS[self.form]

    def _widened(self, value: Value) -> Value:
        """Tensor cores take numbers of 16 bits as they are."""
        return value

    def copied(self, part: Shared, at: DimLike, deep: DimLike, more: int) -> Value:
        """Two numbers that follow each other in depth, or one."""
        if self.packed == 1:
            return self.element(part, at, deep, more)
        pair = [self.element(part, at, deep * 2, more * 2 + n) for n in range(2)]
        return self.k.pure(OPS["pack_halves"], *pair)

    def _corner(self, thread: DimLike) -> tuple[DimLike, DimLike]:
        """Where the square of a thread's warp is."""
        warp, wide = thread // _WARP, self.tiling.rows // SQUARE
        return warp // wide * SQUARE, warp % wide * SQUARE

    def cells(self, thread: DimLike) -> list[tuple[DimLike, DimLike]]:
        """As a `WarpProduct` deals them out, one after the other."""
        down, across = self._corner(thread)
        row, column = thread % _WARP // 4, thread % 4 * 2
        return [
            (down + i + row + half, across + j + column + n)
            for i in range(0, SQUARE, WARP_ROWS)
            for j in range(0, SQUARE, WARP_COLUMNS)
            for half in (0, WARP_ROWS // 2)
            for n in range(2)
        ]

    def add(
        self, left: Shared, right: Shared, stage: DimLike, thread: DimLike, sums: Sequence[Value]
    ) -> Sequence[Value]:
        """Add what one part of the summed axes gives."""
        k = self.k
        down, across = self._corner(thread)
        row, word = thread % _WARP // 4, thread % 4

        def words(part: Shared, at: DimLike, deep: DimLike, rows: int) -> list[Value]:
            return [
                self._word(part, stage, at + row + n, deep + word + d)
                for d in (0, WARP_DEPTH // 2)
                for n in range(0, rows, 8)
            ]

        def step(deep: DimLike, sums: Sequence[Value]) -> Sequence[Value]:
            xs = [words(left, down + i, deep, WARP_ROWS) for i in range(0, SQUARE, WARP_ROWS)]
            ys = [words(right, across + j, deep, 8) for j in range(0, SQUARE, WARP_COLUMNS)]
            found: list[Value] = []
            for n, (x, y) in enumerate((x, y) for x in xs for y in ys):
                four = sums[4 * n : 4 * n + 4]
                found += k.effect(OPS["warp_product"], *x, *y, *four, form=self.form)
            return found

        return k.repeat(0, DEEP, step, sums, step=WARP_DEPTH)

    def _word(self, part: Shared, stage: DimLike, at: DimLike, deep: DimLike) -> Value:
        value = self.k.load(part.buffer, part.place(stage, at, deep))
        return value if self.problem.small else self.k.pure(OPS["round_tf32"], value)
