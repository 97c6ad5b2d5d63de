"""Matrices given by a few diagonals, against the same written out: eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_ways import Wrap, slope

import tapec
from tapec import linalg
from tapec.debugging import check_gradients
from tapec.errors import InvalidArgumentError, UnimplementedError

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(2)

ABOVE, BELOW = rng.uniform(-1, 1, (2, 4))
MIDDLE = rng.uniform(2, 3, 4)
FULL = np.diag(ABOVE[:3], 1) + np.diag(MIDDLE) + np.diag(BELOW[1:], -1)
FORMS: dict[str, Any] = {
    "compact": np.stack([ABOVE, MIDDLE, BELOW]),
    "sequence": [ABOVE, MIDDLE, BELOW],
    "matrix": FULL + np.diag([9.0, 9.0], 2),
}
RIGHT = rng.uniform(-1, 1, (4, 2))


@pytest.mark.parametrize("form", FORMS)
def test_tridiagonal(form: str, wrap: Wrap) -> None:
    def both(b: tapec.Tensor) -> Any:
        product = linalg.tridiagonal_matmul(FORMS[form], b, diagonals_format=form)
        return product, linalg.tridiagonal_solve(FORMS[form], b, diagonals_format=form)

    product, solution = wrap(both)(tapec.constant(RIGHT))
    np.testing.assert_allclose(product, FULL @ RIGHT, rtol=1e-12)
    np.testing.assert_allclose(solution, np.linalg.solve(FULL, RIGHT), rtol=1e-12)


def test_right_hand_sides_of_tridiagonal_systems() -> None:
    expected = np.linalg.solve(FULL, RIGHT)
    short = [ABOVE[:3], MIDDLE, BELOW[1:]]
    vector = linalg.tridiagonal_solve(short, RIGHT[:, 0], diagonals_format="sequence")
    np.testing.assert_allclose(vector, expected[:, 0], rtol=1e-12)
    turned = linalg.tridiagonal_solve(FORMS["compact"], RIGHT.T, transpose_rhs=True)
    np.testing.assert_allclose(turned, expected, rtol=1e-12)
    stack = linalg.tridiagonal_solve(
        np.stack([FORMS["compact"]] * 2), np.stack([RIGHT] * 2), conjugate_rhs=True
    )
    np.testing.assert_allclose(stack, [expected, expected], rtol=1e-12)


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("lower", [False, True])
def test_banded_triangular_solve(lower: bool, adjoint: bool, wrap: Wrap) -> None:
    bands = np.stack([MIDDLE, BELOW] if lower else [ABOVE, MIDDLE])
    full = np.tril(FULL) if lower else np.triu(FULL)
    found = wrap(lambda x: linalg.banded_triangular_solve(bands, x, lower=lower, adjoint=adjoint))(
        tapec.constant(RIGHT)
    )
    np.testing.assert_allclose(found, np.linalg.solve(full.T if adjoint else full, RIGHT))


def test_eigenvalues_of_tridiagonal_matrices(wrap: Wrap) -> None:
    full = np.diag(MIDDLE) + np.diag(ABOVE[:3], 1) + np.diag(ABOVE[:3], -1)
    expected = np.linalg.eigvalsh(full)
    find = wrap(lambda a, b: linalg.eigh_tridiagonal(a, b, eigvals_only=False))
    values, vectors = find(tapec.constant(MIDDLE), tapec.constant(ABOVE[:3]))
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    np.testing.assert_allclose(full @ vectors.numpy(), vectors * values, atol=1e-13)


def test_some_eigenvalues_of_tridiagonal_matrices() -> None:
    values, vectors = linalg.eigh_tridiagonal(MIDDLE, ABOVE[:3], eigvals_only=False)
    number: Any = {"select": "i", "select_range": [1, 2]}
    some = linalg.eigh_tridiagonal(MIDDLE, ABOVE[:3], eigvals_only=False, **number)
    np.testing.assert_array_equal(some[0], values[1:3])
    np.testing.assert_array_equal(some[1], vectors[:, 1:3])
    size: Any = {"select": "v", "select_range": [values.numpy()[0], values.numpy()[1]]}
    some = linalg.eigh_tridiagonal(MIDDLE, ABOVE[:3], eigvals_only=False, **size)
    np.testing.assert_array_equal(some[0], values[1:2])
    np.testing.assert_array_equal(some[1], vectors[:, 1:2])


def test_tensor_diagonals(wrap: Wrap) -> None:
    x = np.arange(6.0).reshape(2, 3)
    full = wrap(linalg.tensor_diag)(tapec.constant(x))
    assert full.shape == (2, 3, 2, 3)
    np.testing.assert_array_equal(full.numpy().reshape(6, 6), np.diag(x.ravel()))
    np.testing.assert_array_equal(wrap(linalg.tensor_diag_part)(full), x)


@pytest.mark.parametrize(
    "function",
    [
        lambda d: linalg.tridiagonal_matmul(d, RIGHT),
        lambda d: linalg.tridiagonal_solve(d, RIGHT),
        lambda d: linalg.banded_triangular_solve(d[:2], RIGHT, lower=False),
        lambda d: linalg.eigh_tridiagonal(d[1], d[0, :3]),
        lambda d: linalg.tensor_diag_part(linalg.tensor_diag(d) ** 2),
    ],
)
def test_gradients(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")
    check_gradients(function, [FORMS["compact"]], rtol=1e-6, atol=1e-7)
    check_gradients(slope(function), [FORMS["compact"]], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: linalg.tensor_diag(1.0), InvalidArgumentError, "at least a vector"),
        (lambda: linalg.tensor_diag_part([1.0, 2.0]), InvalidArgumentError, "repeats itself"),
        (lambda: linalg.tridiagonal_matmul(FULL, RIGHT, "full"), ValueError, "full"),
        (lambda: linalg.tridiagonal_matmul(MIDDLE, RIGHT), InvalidArgumentError, "a matrix"),
        (lambda: linalg.tridiagonal_matmul([MIDDLE], RIGHT, "sequence"), ValueError, "three"),
        (lambda: linalg.norm(FULL, [1]), TypeError, "number or a name"),
        (
            lambda: linalg.tridiagonal_solve(FULL, RIGHT, perturb_singular=True),
            UnimplementedError,
            "perturb_singular",
        ),
        (
            lambda: linalg.tridiagonal_solve(np.zeros((3, 3)), np.ones(3)),
            InvalidArgumentError,
            "inv",
        ),
        (lambda: linalg.eigh_tridiagonal(MIDDLE, ABOVE[:3], select="i"), ValueError, "select='i'"),
    ],
)
def test_is_refused(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
