"""Factorisations and what they solve, against NumPy: eager, compiled, derivatives to second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_ways import slope

import tapec
from tapec import linalg
from tapec.debugging import check_gradients
from tapec.errors import InvalidArgumentError

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(3)


def matrix(*shape: int) -> Array:
    """Far from singular, with pivots beside the diagonal."""
    return np.asarray(rng.uniform(-1, 1, shape)) + 2 * np.eye(shape[-1])[..., ::-1]


def definite(*shape: int) -> Array:
    a = rng.uniform(-1, 1, shape)
    return np.asarray(a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1]))


def t(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def least_squares(a: Array, b: Array, ridge: float = 0.0) -> Array:
    return np.asarray(np.linalg.pinv(t(a) @ a + ridge * np.eye(a.shape[-1])) @ t(a) @ b)


A, B = matrix(3, 3), rng.uniform(-1, 1, (3, 2))
STACK, TALL = matrix(2, 2, 2), rng.uniform(-1, 1, (4, 2))

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Array, ...]]] = {
    "cholesky": (linalg.cholesky, np.linalg.cholesky, (definite(3, 3),)),
    "cholesky of a stack": (linalg.cholesky, np.linalg.cholesky, (definite(2, 2, 2),)),
    "cholesky takes the symmetric part": (
        linalg.cholesky,
        lambda x: np.linalg.cholesky((x + x.T) / 2),
        (definite(2, 2) + np.array([[0, 0.1], [-0.1, 0]]),),
    ),
    "triangular_solve": (
        linalg.triangular_solve,
        lambda a, b: np.linalg.solve(np.tril(a), b),
        (A + 3 * np.eye(3), B),
    ),
    "triangular_solve of the upper, transposed": (
        lambda a, b: linalg.triangular_solve(a, b, lower=False, adjoint=True),
        lambda a, b: np.linalg.solve(np.triu(a).T, b),
        (A + 3 * np.eye(3), B),
    ),
    "cholesky_solve": (
        lambda a, b: linalg.cholesky_solve(linalg.cholesky(a), b),
        lambda a, b: np.linalg.solve((a + a.T) / 2, b),
        (definite(3, 3), B),
    ),
    "solve": (linalg.solve, np.linalg.solve, (A, B)),
    "solve transposed": (
        lambda a, b: linalg.solve(a, b, adjoint=True),
        lambda a, b: np.linalg.solve(a.T, b),
        (A, B),
    ),
    "solve a stack for one right-hand side": (
        linalg.solve,
        np.linalg.solve,
        (STACK, np.array([[1.0], [2.0]])),
    ),
    "inv": (linalg.inv, np.linalg.inv, (A,)),
    "inv transposed, of a stack": (
        lambda a: linalg.inv(a, adjoint=True),
        lambda a: t(np.linalg.inv(a)),
        (STACK,),
    ),
    "det of one number": (linalg.det, np.linalg.det, (np.array([[3.0]]),)),
    "det of 2": (linalg.det, np.linalg.det, (STACK,)),
    "det of 3": (linalg.det, np.linalg.det, (A,)),
    "det of 4": (linalg.det, np.linalg.det, (matrix(4, 4),)),
    "det of 5": (linalg.det, np.linalg.det, (matrix(5, 5),)),
    "slogdet": (
        lambda a: linalg.slogdet(a).log_abs_determinant,
        lambda a: np.linalg.slogdet(a)[1],
        (STACK,),
    ),
    "logdet": (linalg.logdet, lambda a: np.linalg.slogdet((a + a.T) / 2)[1], (definite(3, 3),)),
    "lstsq": (linalg.lstsq, least_squares, (TALL, rng.uniform(-1, 1, (4, 1)))),
    "lstsq with a ridge": (
        lambda a, b: linalg.lstsq(a, b, l2_regularizer=0.5),
        lambda a, b: least_squares(a, b, 0.5),
        (TALL, rng.uniform(-1, 1, (4, 1))),
    ),
    "lstsq of few equations": (linalg.lstsq, least_squares, (TALL.T, B[:2])),
    "lu_solve": (lambda a, b: linalg.lu_solve(*linalg.lu(a), b), np.linalg.solve, (A, B)),
    "lu_solve a stack for one right-hand side": (
        lambda a, b: linalg.lu_solve(*linalg.lu(a), b),
        np.linalg.solve,
        (STACK, np.array([[1.0], [2.0]])),
    ),
    "lu_matrix_inverse": (
        lambda a: linalg.lu_matrix_inverse(*linalg.lu(a)),
        np.linalg.inv,
        (STACK,),
    ),
    "lu_reconstruct": (lambda a: linalg.lu_reconstruct(*linalg.lu(a)), lambda a: a, (STACK,)),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_numpy(name: str) -> None:
    ours, theirs, arrays = CASES[name]
    operands = [tapec.constant(a) for a in arrays]
    expected = theirs(*arrays)
    np.testing.assert_allclose(ours(*operands), expected, rtol=1e-10, atol=1e-12)
    compiled = tapec.compile(lambda *xs: ours(*xs))
    np.testing.assert_allclose(compiled(*operands), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")
    ours, _, arrays = CASES[name]
    check_gradients(ours, arrays, rtol=1e-6, atol=1e-7)
    check_gradients(slope(ours), arrays, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["cholesky_solve", "solve", "det of 5", "slogdet", "lstsq"])
def test_gradients_in_a_compiled_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")
    ours, _, arrays = CASES[name]

    def slopes(*operands: tapec.Tensor) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(operands)
            y = tapec.reduce_sum(tapec.square(ours(*operands)))
        return tape.gradient(y, operands)

    operands = [tapec.constant(a) for a in arrays]
    for found, expected in zip(tapec.compile(slopes)(*operands), slopes(*operands), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)


def test_factors_make_up_the_matrix() -> None:
    packed, order = linalg.lu(STACK)
    lower = linalg.band_part(linalg.set_diag(packed, tapec.ones([2, 2], tapec.float64)), -1, 0)
    product = tapec.matmul(lower, linalg.band_part(packed, 0, -1))
    exchanged = tapec.gather(tapec.constant(STACK), order, batch_dims=1, axis=1)
    np.testing.assert_allclose(product, exchanged, rtol=1e-13)


@pytest.mark.parametrize("rows", [[0, 1, 2], [1, 0, 2], [1, 2, 0], [2, 1, 0]])
def test_sign_of_a_determinant(rows: list[int]) -> None:
    x = np.diag([1.0, -2.0, 3.0])[rows]
    sign, size = linalg.slogdet(x)
    expected = np.linalg.slogdet(x)
    assert (sign.numpy(), size.numpy()) == (expected[0], pytest.approx(expected[1]))


def test_determinant_of_no_rows() -> None:
    assert linalg.det(tapec.zeros([2, 0, 0])).numpy().tolist() == [1.0, 1.0]


def test_gradient_of_a_determinant_of_zero_is_the_adjugate() -> None:
    x = tapec.constant([[1.0, 2.0], [2.0, 4.0]])
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = linalg.det(x)
    assert y.numpy() == 0.0
    assert tape.gradient(y, x).numpy().tolist() == [[4.0, -2.0], [-2.0, 1.0]]


SINGULAR = [[1.0, 2.0], [2.0, 4.0]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linalg.cholesky([[1.0, 2.0], [2.0, 1.0]]), "not positive definite"),
        (lambda: linalg.inv(SINGULAR), "not invertible"),
        (lambda: linalg.solve(SINGULAR, [[1.0], [1.0]]), "not invertible"),
        (lambda: linalg.triangular_solve([[0.0]], [[1.0]]), "not invertible"),
        (lambda: linalg.solve(SINGULAR, [[1.0]]), "the rows of a matrix"),
        (lambda: linalg.inv([1.0]), "expected a matrix"),
        (lambda: linalg.inv([[1.0, 2.0]]), "square"),
        (lambda: linalg.cholesky(tapec.ones([2, 2], tapec.float16)), "float32 and float64"),
    ],
)
def test_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        call()


@pytest.mark.parametrize("compiled", [False, True])
def test_what_has_no_answer_is_refused(compiled: bool) -> None:
    """Also in a compiled function, where nothing else is computed with it and no Variable changes."""
    steps = tapec.Variable(0)

    def run(function: Any, *arrays: Any) -> Any:
        def f(*tensors: Any) -> Any:
            steps.assign_add(1)
            return function(*tensors)

        return (tapec.compile(f) if compiled else f)(*map(tapec.constant, arrays))

    indefinite = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]])
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    upper = np.array([[1.0, 2.0], [0.0, 0.0]])
    with pytest.raises(InvalidArgumentError, match="cholesky: the matrix is not positive definite"):
        run(tapec.linalg.cholesky, indefinite)
    for function, arrays in (
        (tapec.linalg.inv, [singular]),
        (tapec.linalg.solve, [singular, np.ones((2, 1))]),
        (lambda a, b: tapec.linalg.triangular_solve(a, b, lower=False), [upper, np.ones((2, 1))]),
    ):
        with pytest.raises(InvalidArgumentError, match=r"Input matrix is not invertible\."):
            run(function, *arrays)
    assert run(tapec.linalg.cholesky, indefinite[:1]).shape == [1, 2, 2]
    if compiled:
        assert steps.numpy() == 1
