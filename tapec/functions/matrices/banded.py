"""Matrices given by a few diagonals. Each is written out in full, so nothing is saved but memory of the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapec import arguments
from tapec.errors import UnimplementedError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import conj, greater, less_equal, logical_and
from tapec.functions.broadcasting import misfit, refuse_in_trace
from tapec.functions.indexing import boolean_mask
from tapec.functions.known import static_value
from tapec.functions.matrices.decompositions import eigh
from tapec.functions.matrices.diagonals import diag, diag_part
from tapec.functions.matrices.factorization import matrices, solve, transposed, triangular_solve
from tapec.functions.products import matmul
from tapec.functions.rearrangement import expand_dims, part, reshape, squeeze
from tapec.tensor import Tensor, TensorLike, as_tensor

#: A band packed with the diagonals above at the left of their rows, those below at the right.
_PACKING = "LEFT_RIGHT"


def tensor_diag(diagonal: TensorLike, name: str | None = None) -> Tensor:
    """``y[i..., i...] = diagonal[i...]``, and 0 elsewhere: of twice the rank.

    Raises:
        InvalidArgumentError: a scalar.
    """
    x = as_tensor(diagonal)
    if not x.type.rank:
        raise misfit("tensor_diag: expected at least a vector, got a scalar")
    return reshape(diag(reshape(x, [-1])), [*x.type.shape, *x.type.shape])


def tensor_diag_part(input: TensorLike, name: str | None = None) -> Tensor:
    """``y[i...] = input[i..., i...]``: of half the rank.

    Raises:
        InvalidArgumentError: the shape is not one shape twice.
    """
    x = as_tensor(input)
    half = x.type.rank // 2
    shape = x.type.shape[:half]
    if not half or x.type.shape != shape * 2:
        raise misfit(f"tensor_diag_part: expected a shape that repeats itself, got {x.shape}")
    size = 1
    for n in shape:
        size = size * n  # type: ignore[assignment]
    return reshape(diag_part(reshape(x, (size, size))), shape)


def tridiagonal_matmul(
    diagonals: Any, rhs: TensorLike, diagonals_format: str = "compact", name: str | None = None
) -> Tensor:
    """The product of tridiagonal matrices ``[..., n, n]`` with ``rhs [..., n, k]``.

    Args:
        diagonals: see `tridiagonal_solve`.
        rhs: the other factor; the axes in front broadcast.
        diagonals_format: see `tridiagonal_solve`.
        name: not used.
    """
    return matmul(_tridiagonal(diagonals, diagonals_format), rhs)


def tridiagonal_solve(
    diagonals: Any,
    rhs: TensorLike,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """The solution of a tridiagonal system, by `solve` of the matrix written out.

    Args:
        diagonals: ``[..., 3, n]`` if ``"compact"``: above, on and below the diagonal; the last
            element above and the first below do not count. A list of the three if ``"sequence"``;
            those beside the diagonal may then have ``n - 1`` elements. ``[..., n, n]`` if
            ``"matrix"``.
        rhs: ``[..., n]`` or ``[..., n, k]``.
        diagonals_format: ``"compact"``, ``"sequence"`` or ``"matrix"``.
        transpose_rhs: whether ``rhs`` is ``[..., k, n]``.
        conjugate_rhs: whether it is conjugated.
        name: not used.
        partial_pivoting: not used: rows are always exchanged.
        perturb_singular: must be False.

    Returns:
        ``[..., n]`` or ``[..., n, k]``.

    Raises:
        ValueError: an unknown format.
        InvalidArgumentError: shapes that do not fit; eager, a singular matrix.
        UnimplementedError: ``perturb_singular=True``.
    """
    if arguments.flag(perturb_singular, "perturb_singular"):
        raise UnimplementedError(
            "tridiagonal_solve: perturb_singular=True is not implemented",
            location=here(),
            hint="add a small number to the diagonal",
        )
    a = _tridiagonal(diagonals, diagonals_format)
    b = as_tensor(rhs)
    vector = b.type.rank == a.type.rank - 1
    if vector:
        b = expand_dims(b, -1)
    elif arguments.flag(transpose_rhs, "transpose_rhs"):
        b = transposed(b)
    if arguments.flag(conjugate_rhs, "conjugate_rhs"):
        b = conj(b)
    y = solve(a, b)
    return squeeze(y, -1) if vector else y


def _tridiagonal(diagonals: Any, form: str) -> Tensor:
    """The matrices ``[..., n, n]``."""
    if arguments.text(form, "diagonals_format") == "compact":
        return diag(matrices(diagonals), k=(-1, 1), align=_PACKING)
    if form == "matrix":
        x = matrices(diagonals)
        return diag(diag_part(x, k=(-1, 1)), k=(-1, 1))
    if form == "sequence":
        given = arguments.items(diagonals, "diagonals")
        if len(given) != 3:
            raise ValueError(f"expected three diagonals, got {len(given)}", location=here())
        above, middle, below = (as_tensor(d) for d in given)
        if not (above.type.rank and middle.type.rank and below.type.rank):
            raise misfit("expected three diagonals [..., n], got a scalar")
        n = middle.type.shape[-1]
        above = part(above, above.type.rank - 1, 0, n - 1)
        below = part(below, below.type.rank - 1, below.type.shape[-1] - (n - 1), n - 1)
        return diag(above, k=1) + diag(middle) + diag(below, k=-1)
    raise ValueError(f"Unrecognized diagonals_format: {form}", location=here())


def banded_triangular_solve(
    bands: TensorLike,
    rhs: TensorLike,
    lower: bool = True,
    adjoint: bool = False,
    name: str | None = None,
) -> Tensor:
    """The solution of a triangular system with few diagonals.

    Args:
        bands: ``[..., count, n]``, the uppermost diagonal first: the main one is the first if
            ``lower``, else the last. Those below it count from the right, those above from the left.
        rhs: ``[..., n, k]``; the axes in front broadcast.
        lower: whether the bands are below the main diagonal.
        adjoint: whether the matrix is transposed.
        name: not used.

    Returns:
        ``[..., n, k]``.
    """
    x = matrices(bands)
    others = static_value(x.type.shape[-2], "the number of bands") - 1
    band = (-others, 0) if arguments.flag(lower, "lower") else (0, others)
    return triangular_solve(diag(x, k=band, align=_PACKING), rhs, lower=lower, adjoint=adjoint)


def eigh_tridiagonal(
    alpha: TensorLike,
    beta: TensorLike,
    eigvals_only: bool = True,
    select: str = "a",
    select_range: Sequence[Any] | None = None,
    tol: TensorLike = None,
    name: str | None = None,
) -> Any:
    """Eigenvalues of symmetric tridiagonal matrices, by `eigh` of the matrix written out.

    Args:
        alpha: the diagonal, ``[..., n]``.
        beta: the diagonals beside it, ``[..., n - 1]``.
        eigvals_only: whether the eigenvectors are left out.
        select: ``"a"`` for all, ``"i"`` for those numbered from ``select_range[0]`` to
            ``select_range[1]``, ``"v"`` (eager, one matrix) for those greater than
            ``select_range[0]`` and not greater than ``select_range[1]``.
        select_range: two numbers, unless all are selected.
        tol: not used: all digits are right.
        name: not used.

    Returns:
        The eigenvalues, ascending; and the eigenvectors in columns.

    Raises:
        ValueError: an unknown selection.
    """
    beside = as_tensor(beta)
    values, vectors = eigh(diag(alpha) + diag(beside, k=-1) + diag(beside, k=1))
    if arguments.is_one_of(select, "i") and select_range is not None:
        first, last = (static_value(v, "select_range") for v in select_range)
        axis = values.type.rank
        values = part(values, axis - 1, first, last + 1 - first)
        vectors = part(vectors, axis, first, last + 1 - first)
    elif arguments.is_one_of(select, "v") and select_range is not None:
        refuse_in_trace("eigh_tridiagonal with select='v'", "select by number: select='i'")
        low, high = select_range
        wanted = logical_and(greater(values, low), less_equal(values, high))
        values, vectors = boolean_mask(values, wanted), boolean_mask(vectors, wanted, axis=1)
    elif not arguments.is_one_of(select, "a"):
        raise ValueError(
            f"select={select!r} with select_range={select_range!r}: expected 'a', or 'i' or 'v' "
            "with a range",
            location=here(),
        )
    return values if arguments.flag(eigvals_only, "eigvals_only") else (values, vectors)
