"""Products of matrices by tensor cores: the warps of a block make a tile, each a square of `SQUARE` rows and columns.

A step of a warp is `tapec.ir.ops.device.WarpProduct`. All numbers are shared as they are, so that copies need not look
at them. A float32 is rounded when a thread has read it; numbers of 16 bits are read by
`tapec.ir.ops.device.LoadMatrices`, whichever way their neighbours lie in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapec.ir.core import Value
from tapec.ir.dims import DimLike
from tapec.ir.op import OPS
from tapec.ir.ops.device import WARP_COLUMNS, WARP_DEPTH, WARP_ROWS
from tapec.ir.types import DType
from tapec.passes.device.tile import DEEP, PART, Shared, Tile

#: Rows and columns that a warp makes, and its threads.
SQUARE, _WARP = 32, 32
#: Where the halves of a square begin.
_HALVES = (0, 16)


class WarpTile(Tile):
    """One tile by each block, by tensor cores."""

    #: The form of the words that warps multiply.
    form = "tf32"
    #: Turns of the summed axes that are multiplied at once.
    step = WARP_DEPTH

    @property
    def threads(self) -> int:
        """A warp for each square."""
        return (self.tiling.rows // SQUARE) ** 2 * _WARP

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

        def step(deep: DimLike, sums: Sequence[Value]) -> Sequence[Value]:
            xs = [self._rows(left, stage, down + i, deep, thread) for i in _HALVES]
            ys = [y for j in _HALVES for y in self._columns(right, stage, across + j, deep, thread)]
            found: list[Value] = []
            for n, (x, y) in enumerate((x, y) for x in xs for y in ys):
                four = sums[4 * n : 4 * n + 4]
                found += k.effect(OPS["warp_product"], *x, *y, *four, form=self.form)
            return found

        return k.repeat(0, self.deep, step, sums, step=self.step)

    # ---- what a thread reads: 16 rows, and 16 columns, are four words each

    def _rows(
        self, part: Shared, stage: DimLike, at: DimLike, deep: DimLike, thread: DimLike
    ) -> list[Value]:
        """Words of rows, as `WarpProduct` takes them."""
        return [self._word(part, stage, at + n, deep + d, thread) for d in (0, 4) for n in (0, 8)]

    def _columns(
        self, part: Shared, stage: DimLike, at: DimLike, deep: DimLike, thread: DimLike
    ) -> list[list[Value]]:
        """Words of eight columns, and of the eight behind these."""
        return [[self._word(part, stage, at + n, deep + d, thread) for d in (0, 4)] for n in (0, 8)]

    def _word(
        self, part: Shared, stage: DimLike, at: DimLike, deep: DimLike, thread: DimLike
    ) -> Value:
        lane = thread % _WARP
        value = self.k.load(part.buffer, part.place(stage, at + lane // 4, deep + lane % 4))
        return self.k.pure(OPS["round_tf32"], value)


class HalfTile(WarpTile):
    """The same of numbers of 16 bits, which are copied as they are: a warp reads matrices of them, two to a word."""

    #: As many bytes as of float32.
    deep, together, step = 2 * DEEP, 2 * PART, 2 * WARP_DEPTH
    #: Eight rows of a matrix are in other banks.
    after_row, after_depth = 8, 8

    @property
    def form(self) -> str:  # type: ignore[override]
        """That of the operands' dtype."""
        return self.dtype.code

    @property
    def shared_dtype(self) -> DType:
        """As they are."""
        return self.dtype

    def _widened(self, value: Value) -> Value:
        """Tensor cores take them so."""
        return value

    def _rows(
        self, part: Shared, stage: DimLike, at: DimLike, deep: DimLike, thread: DimLike
    ) -> list[Value]:
        matrix = thread % _WARP // 8
        return self._matrices(part, stage, at + matrix % 2 * 8, deep + matrix // 2 * 8, thread)

    def _columns(
        self, part: Shared, stage: DimLike, at: DimLike, deep: DimLike, thread: DimLike
    ) -> list[list[Value]]:
        matrix = thread % _WARP // 8
        words = self._matrices(part, stage, at + matrix // 2 * 8, deep + matrix % 2 * 8, thread)
        return [words[:2], words[2:]]

    def _matrices(
        self, part: Shared, stage: DimLike, at: DimLike, deep: DimLike, thread: DimLike
    ) -> list[Value]:
        """Words of four matrices: of one of them, which begins at ``at`` and ``deep``, this thread gives a row."""
        row = thread % 8
        place = (
            part.place(stage, at + row, deep) if part.along else part.place(stage, at, deep + row)
        )
        index = [self.k.index(n) for n in place]
        words = self.k.effect(OPS["load_matrices"], part.buffer, *index, turned=not part.along)
        return list(words)
