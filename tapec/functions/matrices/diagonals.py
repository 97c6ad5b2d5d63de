"""Diagonals of matrices: taken out, put in, a single one or a band of them.

A band ``k = (lower, upper)`` of an ``m`` by ``n`` matrix is packed as ``[upper - lower + 1, longest]``, the uppermost
diagonal first; shorter ones are aligned at one side of their row, and the rest of the row is padding.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import equal, where
from tapec.functions.broadcasting import like, misfit
from tapec.functions.indexing import entries
from tapec.functions.known import is_less, static_integer
from tapec.functions.matrices.factorization import matrices, places
from tapec.functions.products import main_diagonal
from tapec.functions.rearrangement import expand_dims, part, reshape
from tapec.ir.dims import Dim, DimLike
from tapec.ir.types import BOOL, I32, DType
from tapec.tensor import Array, Tensor, TensorLike, as_array, as_tensor


def diag(
    diagonal: TensorLike,
    name: str | None = None,
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: TensorLike = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with given diagonals, and ``padding_value`` elsewhere.

    Args:
        diagonal: ``[..., length]``; for a band ``[..., diagonals, length]``, see `diag_part`.
        k: which diagonal, positive above the main one; or a pair ``(lower, upper)``.
        num_rows: of the result; by default as few as hold the diagonals, and as many as columns.
        num_cols: the same for columns.
        padding_value: of all other elements.
        align: how a band is packed; see `diag_part`.

    Example: ``diag([1, 2])`` is ``[[1, 0], [0, 2]]``.

    Raises:
        InvalidArgumentError: shapes that do not fit.
    """
    x = as_tensor(diagonal)
    if not x.type.rank:
        raise misfit("diag: expected at least a vector, got a scalar")
    lower, upper = _band(k)
    rows, columns = (static_integer(n, "a size of diag") for n in (num_rows, num_cols))
    padding = _padding(padding_value, x.type.dtype)
    if lower == upper == 0 and rows == columns == -1 and _is_single(k):
        n = x.type.shape[-1]
        return where(equal(*places(n, n)), expand_dims(x, -1), padding)
    packed = expand_dims(x, -2) if _is_single(k) else x
    count, length = _fixed(packed.type.shape[-2:], "diag")
    if count != upper - lower + 1:
        raise misfit(f"diag: {count} diagonals given for k = {(lower, upper)}")
    least = length - builtins.min(upper, 0), length + builtins.max(lower, 0)
    square = builtins.max(least) if rows == columns == -1 else -1
    rows = builtins.max(rows, square) if rows != -1 or square != -1 else least[0]
    columns = builtins.max(columns, square) if columns != -1 or square != -1 else least[1]
    if rows < least[0] or columns < least[1]:
        raise misfit(f"diag: {rows} rows and {columns} columns do not hold diagonals of {length}")
    return _spread(packed, (rows, columns), (lower, upper), align, padding)


def diag_part(
    input: TensorLike,
    name: str | None = None,
    k: Any = 0,
    padding_value: TensorLike = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """The diagonals of matrices.

    Args:
        input: ``[..., m, n]``.
        k: which diagonal, positive above the main one; or a pair ``(lower, upper)``.
        padding_value: fills up the shorter diagonals of a band.
        align: the sides to which diagonals above and below the main one are moved:
            ``"RIGHT_LEFT"``, ``"LEFT_RIGHT"``, ``"LEFT_LEFT"`` or ``"RIGHT_RIGHT"``.

    Returns:
        ``[..., length]``; of a band ``[..., diagonals, length]``, the uppermost one first.

    Example: ``diag_part([[1, 2], [3, 4]])`` is ``[1, 4]``.

    Raises:
        InvalidArgumentError: a diagonal that the matrices do not have.
    """
    x = matrices(input)
    *lead, rows, columns = x.type.shape
    lower, upper = _band(k)
    if lower == upper == 0 and _is_single(k):
        size = _smaller(rows, columns)
        x = part(part(x, len(lead), 0, size), len(lead) + 1, 0, size)
        return main_diagonal(x, lead, size)
    shape = _fixed((rows, columns), "diag_part")
    row, column, valid = _packing(shape, (lower, upper), align)
    taken = _taken(x, np.where(valid, row * shape[1] + column, 0))
    packed = where(valid, taken, _padding(padding_value, x.type.dtype))
    return reshape(packed, (*lead, valid.shape[1])) if _is_single(k) else packed


def set_diag(
    input: TensorLike,
    diagonal: TensorLike,
    name: str | None = None,
    k: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """The matrices with other elements on their diagonals; for ``k`` and ``align`` see `diag_part`."""
    x = matrices(input)
    values = like(diagonal, x.type.dtype)
    rows, columns = x.type.shape[-2:]
    band = _band(k)
    if band == (0, 0) and _is_single(k):
        # Along the shorter side the diagonal reaches every row or every column.
        tall = is_less(columns, rows)
        line = expand_dims(values, -2 if tall else -1)
        return where(equal(*places(rows, columns)), line, x)
    packed = expand_dims(values, -2) if _is_single(k) else values
    return _spread(packed, _fixed((rows, columns), "set_diag"), band, align, x)


def _padding(value: TensorLike, dtype: DType) -> Tensor:
    """What fills up; of truths, the default 0 is False, as in TensorFlow."""
    return as_tensor(bool(value) if dtype == BOOL and isinstance(value, int) else value, dtype)


def _smaller(m: DimLike, n: DimLike) -> DimLike:
    if isinstance(n, Dim):
        m, n = n, m  # sizes that only a call knows are taken to be the larger ones
    return m if is_less(m, n) else n


def _is_single(k: Any) -> bool:
    return np.ndim(k) == 0


def _band(k: Any) -> tuple[int, int]:
    """The lowest and the highest diagonal."""
    known = k if isinstance(k, list | tuple) else np.atleast_1d(as_array(k)).tolist()
    numbers = [static_integer(v, "a diagonal") for v in known]
    if len(numbers) not in (1, 2):
        raise misfit(f"k must be one diagonal, or the lowest and the highest, got {k}")
    if numbers[0] > numbers[-1]:
        raise misfit(
            f"lower_diag_index must not be larger than upper_diag_index: {numbers[0]} > {numbers[-1]}"
        )
    return numbers[0], numbers[-1]


def _fixed(shape: Sequence[DimLike], what: str) -> tuple[int, int]:
    """The sizes of a matrix whose diagonals are looked up in a table."""
    if len(shape) < 2:
        raise misfit(f"{what}: expected matrices, got {len(shape)} axes")
    if any(isinstance(n, Dim) for n in shape):
        raise misfit(
            f"{what}: the size of the matrices must be known for other than the main diagonal"
        )
    return int(shape[0]), int(shape[1])  # type: ignore[arg-type]


def _packing(
    shape: tuple[int, int], band: tuple[int, int], align: str
) -> tuple[Array, Array, Array]:
    """Row, column and whether there is such an element, for each place of a packed band."""
    sides = arguments.text(align, "align").split("_")
    if len(sides) != 2 or not {"LEFT", "RIGHT"}.issuperset(sides):
        raise ValueError(f"align must be such as 'RIGHT_LEFT', got {align!r}", location=here())
    rows, columns = shape
    lower, upper = band
    if not -rows < lower <= upper < columns and shape != (0, 0):
        raise misfit(
            f"diagonals {lower} to {upper} of a matrix of {rows} rows and {columns} columns"
        )
    offsets = np.arange(upper, lower - 1, -1)[:, None]
    lengths = np.minimum(rows + np.minimum(offsets, 0), columns - np.maximum(offsets, 0))
    longest = int(lengths.max())
    right = np.where(offsets >= 0, sides[0] == "RIGHT", sides[1] == "RIGHT")
    step = np.arange(longest)[None, :] - np.where(right, longest - lengths, 0)
    row, column = step - np.minimum(offsets, 0), step + np.maximum(offsets, 0)
    return row, column, (step >= 0) & (step < lengths)


def _spread(
    packed: Tensor, shape: tuple[int, int], band: tuple[int, int], align: str, other: Tensor
) -> Tensor:
    """Matrices with the elements of a packed band, and those of ``other`` elsewhere."""
    row, column, valid = _packing(shape, band, align)
    if packed.type.shape[-2:] != valid.shape:
        raise misfit(
            f"diagonals of shape {list(packed.shape[-2:])} given, {list(valid.shape)} expected"
        )
    source, inside = np.zeros(shape, np.int32), np.zeros(shape, np.bool_)
    source[row[valid], column[valid]] = np.flatnonzero(valid)
    inside[row[valid], column[valid]] = True
    return where(inside, _taken(packed, source), other)


def _taken(x: Tensor, table: Array) -> Tensor:
    """Elements of the last two axes, by a table of their row-major positions."""
    *lead, rows, columns = x.type.shape
    flat = reshape(x, (*lead, rows * columns))
    return entries(flat, as_tensor(table, I32), len(lead))
