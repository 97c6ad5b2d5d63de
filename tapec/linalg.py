"""The namespace ``tapec.linalg``: products, norms, factorisations, diagonals and bands of matrices.

A matrix is the last two axes of a tensor; the axes in front are a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapec.absences.names import namespace
from tapec.errors import FailedPreconditionError
from tapec.frames import here
from tapec.functions.arithmetic import (
    greater_equal,
    less_equal,
    subtract,
    where,
)
from tapec.functions.arrays import eye as eye
from tapec.functions.broadcasting import like
from tapec.functions.clipping import global_norm as global_norm
from tapec.functions.known import static_integer
from tapec.functions.logic import logical_and
from tapec.functions.matrices.banded import banded_triangular_solve as banded_triangular_solve
from tapec.functions.matrices.banded import eigh_tridiagonal as eigh_tridiagonal
from tapec.functions.matrices.banded import tensor_diag as tensor_diag
from tapec.functions.matrices.banded import tensor_diag_part as tensor_diag_part
from tapec.functions.matrices.banded import tridiagonal_matmul as tridiagonal_matmul
from tapec.functions.matrices.banded import tridiagonal_solve as tridiagonal_solve
from tapec.functions.matrices.decompositions import eigh as eigh
from tapec.functions.matrices.decompositions import eigvalsh as eigvalsh
from tapec.functions.matrices.decompositions import expm as expm
from tapec.functions.matrices.decompositions import qr as qr
from tapec.functions.matrices.decompositions import svd as svd
from tapec.functions.matrices.determinants import det as det
from tapec.functions.matrices.determinants import logdet as logdet
from tapec.functions.matrices.determinants import slogdet as slogdet
from tapec.functions.matrices.diagonals import diag as diag
from tapec.functions.matrices.diagonals import diag_part as diag_part
from tapec.functions.matrices.diagonals import set_diag as set_diag
from tapec.functions.matrices.eigen import eig as eig
from tapec.functions.matrices.eigen import eigvals as eigvals
from tapec.functions.matrices.factorization import cholesky as cholesky
from tapec.functions.matrices.factorization import cholesky_solve as cholesky_solve
from tapec.functions.matrices.factorization import inv as inv
from tapec.functions.matrices.factorization import lu as lu
from tapec.functions.matrices.factorization import lu_matrix_inverse as lu_matrix_inverse
from tapec.functions.matrices.factorization import lu_reconstruct as lu_reconstruct
from tapec.functions.matrices.factorization import lu_solve as lu_solve
from tapec.functions.matrices.factorization import matrices, places
from tapec.functions.matrices.factorization import solve as solve
from tapec.functions.matrices.factorization import triangular_solve as triangular_solve
from tapec.functions.matrices.least_squares import lstsq as lstsq
from tapec.functions.matrices.least_squares import matrix_rank as matrix_rank
from tapec.functions.matrices.least_squares import pinv as pinv
from tapec.functions.matrices.roots import sqrtm as sqrtm
from tapec.functions.products import einsum as einsum
from tapec.functions.products import matmul as matmul
from tapec.functions.products import matvec as matvec
from tapec.functions.products import tensordot as tensordot
from tapec.functions.products import trace as trace
from tapec.functions.rearrangement import stack, transpose
from tapec.functions.reductions import norm as norm
from tapec.nn import l2_normalize as l2_normalize
from tapec.nn import normalize as normalize
from tapec.tensor import Tensor, TensorLike, as_tensor


def matrix_transpose(a: TensorLike, name: str | None = None, conjugate: bool = False) -> Tensor:
    """The last two axes swapped, and conjugated if wanted."""
    x = matrices(a)
    rank = x.type.rank
    return transpose(x, [*range(rank - 2), rank - 1, rank - 2], conjugate=conjugate)


def adjoint(matrix: TensorLike, name: str | None = None) -> Tensor:
    """The conjugate transpose of the last two axes."""
    return matrix_transpose(matrix, conjugate=True)


def band_part(
    input: TensorLike, num_lower: TensorLike, num_upper: TensorLike, name: str | None = None
) -> Tensor:
    """The matrices with zeros outside of a band about the diagonal.

    Args:
        input: ``[..., m, n]``.
        num_lower: how many diagonals below are kept; negative: all.
        num_upper: how many above.

    Example: ``band_part(x, -1, 0)`` is the lower triangle.
    """
    x = matrices(input)
    lower, upper = (static_integer(v, "a number of diagonals") for v in (num_lower, num_upper))
    row, column = places(*x.type.shape[-2:])
    distance = subtract(row, column)
    kept = [less_equal(distance, lower)] if lower >= 0 else []
    kept += [greater_equal(distance, -upper)] if upper >= 0 else []
    if not kept:
        return x
    return where(logical_and(kept[0], kept[-1]), x, 0)


def cross(a: TensorLike, b: TensorLike, name: str | None = None) -> Tensor:
    """The vector product along the last axis, of size 3.

    Raises:
        FailedPreconditionError: it has another size.
        InvalidArgumentError: the shapes do not fit otherwise.
    """
    x = as_tensor(a)
    y = like(b, x.type.dtype)
    if x.type.shape[-1:] != (3,) or y.type.shape[-1:] != (3,):
        raise FailedPreconditionError(
            f"cross: expected vectors of 3 elements, got {x.shape} and {y.shape}", location=here()
        )
    u, v = ([t[..., i] for i in range(3)] for t in (x, y))
    return stack(
        [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]], -1
    )


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("linalg")
