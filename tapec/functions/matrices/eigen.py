"""Eigenvalues of matrices that need not be symmetric."""

from __future__ import annotations

from tapec.functions.matrices.factorization import matrices
from tapec.tensor import Tensor, TensorLike, apply


def eig(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues and eigenvectors of square matrices ``[..., n, n]``, real or complex; eager only.

    Returns:
        The eigenvalues ``[..., n]``, in no order, and ``[..., n, n]`` with a vector of length 1 in each
        column; both are complex. Of the largest elements of a vector, the first is real and positive.
        There are gradients of any order where the eigenvalues differ.

    Raises:
        InvalidArgumentError: no square matrices.
        TargetError: a function is compiled; `eigh` of symmetric matrices has native code.
    """
    values, vectors = apply("eig", matrices(tensor))
    return values, vectors


def eigvals(tensor: TensorLike, name: str | None = None) -> Tensor:
    """The eigenvalues of `eig` alone."""
    return eig(tensor)[0]
