"""Orthogonal decompositions and what is made of them: eager, compiled, derivatives to second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_ways import Wrap, slope

import tapec
from tapec import linalg
from tapec.debugging import check_gradients
from tapec.errors import InvalidArgumentError

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(5)

SQUARE, TALL, WIDE = (rng.uniform(-1, 1, shape) for shape in ((3, 3), (4, 2), (2, 4)))
STACK = rng.uniform(-1, 1, (2, 3, 2))
MATRICES = {"square": SQUARE, "tall": TALL, "wide": WIDE, "stack": STACK, "one": SQUARE[:1, :1]}
SINGULAR = {
    "one value is 0": np.diag([2.0, 0.0, 3.0, 1.0, 4.0]) @ np.linalg.qr(rng.normal(size=(5, 5)))[0],
    "two values are 0": np.diag([2.0, 0.0, 3.0, 0.0, 4.0]),
    "equal values": np.eye(5),
}


def t(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def symmetric(x: Any) -> Any:
    return x + tapec.linalg.matrix_transpose(x)


# ---- values


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", MATRICES)
def test_qr_has_the_signs_of_lapack(name: str, full: bool, wrap: Wrap) -> None:
    x = MATRICES[name]
    found = wrap(lambda x: tuple(linalg.qr(x, full_matrices=full)))(tapec.constant(x))
    expected = np.linalg.qr(x, "complete" if full else "reduced")
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-14)


def test_qr_of_columns_that_need_no_reflection(wrap: Wrap) -> None:
    x = np.array([[2.0, 1.0], [0.0, 0.0], [0.0, 3.0]])
    q, r = wrap(lambda x: tuple(linalg.qr(x, full_matrices=True)))(tapec.constant(x))
    expected = np.linalg.qr(x, "complete")
    np.testing.assert_allclose(q, expected[0], atol=1e-15)
    np.testing.assert_allclose(r, expected[1], atol=1e-15)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("name", MATRICES)
def test_svd(name: str, full: bool, wrap: Wrap) -> None:
    x = MATRICES[name]
    s, u, v = (
        y.numpy() for y in wrap(lambda x: linalg.svd(x, full_matrices=full))(tapec.constant(x))
    )
    expected = np.linalg.svd(x, full_matrices=full)
    np.testing.assert_allclose(s, expected[1], rtol=1e-13)
    assert (u.shape, v.shape) == (expected[0].shape, t(expected[2]).shape)
    for vectors in (u, v):
        unit = np.broadcast_to(np.eye(vectors.shape[-1]), (*x.shape[:-2], *vectors.shape[-1:] * 2))
        np.testing.assert_allclose(t(vectors) @ vectors, unit, atol=1e-14)
    k = s.shape[-1]
    np.testing.assert_allclose((u[..., :k] * s[..., None, :]) @ t(v[..., :k]), x, atol=1e-14)


def test_eigh(wrap: Wrap) -> None:
    x = SQUARE + SQUARE.T
    below = np.tril(x) + np.triu(np.full((3, 3), 7.0), 1)  # what is above is not read
    values, vectors = wrap(linalg.eigh)(tapec.constant(below))
    np.testing.assert_allclose(values, np.linalg.eigvalsh(x), rtol=1e-13)
    np.testing.assert_allclose(x @ vectors.numpy(), vectors * values, atol=1e-14)
    np.testing.assert_allclose(linalg.eigvalsh(below), values, rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_eager_and_compiled_vectors_are_the_same(dtype: Any) -> None:
    x = np.random.default_rng(0).normal(size=(20, 6, 6)).astype(dtype)
    for f in (linalg.eigh, linalg.svd, lambda x: tuple(linalg.qr(x))):
        for ours, compiled in zip(f(x), tapec.compile(f)(x), strict=True):
            tolerance = 3e4 * np.finfo(dtype).eps
            np.testing.assert_allclose(ours, compiled, atol=tolerance)


@pytest.mark.parametrize(
    ("vector", "sign"),
    [([3, -4], -1), ([1, -1], 1), ([-1, 1], -1), ([0, 1], 1), ([-0.9999, 1], -1)],
)
def test_first_of_the_largest_elements_is_positive(
    vector: list[float], sign: int, wrap: Wrap
) -> None:
    v = np.array(vector) / np.linalg.norm(vector)
    _, vectors = wrap(linalg.eigh)(tapec.constant(np.outer(v, v)))
    np.testing.assert_allclose(vectors[:, 1], sign * v, atol=1e-15)


def test_vectors_of_no_values_are_completed(wrap: Wrap) -> None:
    for x in (np.zeros((3, 2)), np.ones((3, 3)), np.diag([1.0, 0.0, 2.0])):
        s, u, v = (y.numpy() for y in wrap(linalg.svd)(tapec.constant(x)))
        np.testing.assert_allclose(u.T @ u, np.eye(x.shape[1]), atol=1e-14)
        np.testing.assert_allclose(u * s @ v.T, x, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_squares_neither_overflow_nor_vanish(scale: float, wrap: Wrap) -> None:
    x = np.array([[3.0, 0.0], [4.0, 5.0]]) * scale
    s = wrap(lambda x: linalg.svd(x, compute_uv=False))(tapec.constant(x))
    np.testing.assert_allclose(s, np.sqrt([45.0, 5.0]) * scale, rtol=1e-14)
    r = wrap(lambda x: linalg.qr(x).r)(tapec.constant(x))
    np.testing.assert_allclose(r, np.array([[-5.0, -4.0], [0.0, 3.0]]) * scale, rtol=1e-14, atol=0)


@pytest.mark.parametrize("name", ["qr", "svd", "eigh", "expm"])
def test_not_a_number_stays_one(name: str, wrap: Wrap) -> None:
    results = wrap(getattr(linalg, name))(tapec.constant([[np.nan, 1.0], [1.0, 2.0]]))
    assert np.isnan(np.asarray(results[0])).any()


def test_half_precision_is_computed_in_single() -> None:
    q, r = linalg.qr(tapec.constant(SQUARE, tapec.float16))
    assert (q.dtype, r.dtype) == (tapec.float16, tapec.float16)
    np.testing.assert_allclose(np.asarray(q) @ np.asarray(r), SQUARE, atol=3e-3)
    inverse = linalg.inv(tapec.constant([[2.0, 0.0], [0.0, 4.0]], tapec.float16))
    assert inverse.numpy().tolist() == [[0.5, 0.0], [0.0, 0.25]]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 3)])
def test_no_elements(shape: tuple[int, ...], full: bool, wrap: Wrap) -> None:
    x = tapec.zeros(shape, tapec.float64)
    q, r = wrap(lambda x: tuple(linalg.qr(x, full_matrices=full)))(x)
    expected = np.linalg.qr(np.zeros(shape), "complete" if full else "reduced")
    assert (q.shape, r.shape) == (expected[0].shape, expected[1].shape)
    s, u, v = wrap(lambda x: linalg.svd(x, full_matrices=full))(x)
    parts = np.linalg.svd(np.zeros(shape), full_matrices=full)
    assert (u.shape, s.shape, t(v.numpy()).shape) == tuple(y.shape for y in parts)
    assert linalg.matrix_rank(x).numpy().sum() == 0
    assert linalg.pinv(x).shape == (*shape[:-2], shape[-1], shape[-2])


def test_exponential(wrap: Wrap) -> None:
    angle = np.array([[0.0, -2.0], [2.0, 0.0]])
    turned = [[np.cos(2), -np.sin(2)], [np.sin(2), np.cos(2)]]
    np.testing.assert_allclose(wrap(linalg.expm)(tapec.constant(angle)), turned, rtol=1e-14)
    nilpotent = np.array([[0.0, 1e6, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    expected = [[1.0, 1e6, 5e5], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]]
    np.testing.assert_allclose(wrap(linalg.expm)(tapec.constant(nilpotent)), expected, rtol=1e-9)
    values = [-700.0, 0.0, 700.0]
    found = wrap(linalg.expm)(tapec.constant(np.diag(values)))
    np.testing.assert_allclose(np.diagonal(found), np.exp(values), rtol=1e-12)


def test_gradient_of_the_exponential_does_not_lose_precision_to_a_large_cotangent() -> None:
    x = tapec.constant([[0.5, 0.25], [0.0, 0.5]])
    with tapec.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = linalg.expm(x)
    small, large = (tape.gradient(y, x, tapec.fill([2, 2], size)) for size in (1.0, 1e12))
    np.testing.assert_allclose(large, small * 1e12, rtol=1e-6)


@pytest.mark.parametrize("name", MATRICES)
def test_pseudo_inverse(name: str, wrap: Wrap) -> None:
    x = MATRICES[name]
    np.testing.assert_allclose(wrap(linalg.pinv)(tapec.constant(x)), np.linalg.pinv(x), atol=1e-13)


def test_rank(wrap: Wrap) -> None:
    x = np.stack([np.ones((3, 3)), np.eye(3), np.zeros((3, 3)), np.diag([1.0, 1e-3, 0.0])])
    assert wrap(linalg.matrix_rank)(tapec.constant(x)).numpy().tolist() == [1, 3, 0, 2]
    found = wrap(lambda x: linalg.matrix_rank(x, tol=0.01))(tapec.constant(x))
    assert found.numpy().tolist() == [1, 3, 0, 1]
    assert linalg.pinv(np.diag([1.0, 0.1]), rcond=0.5).numpy().tolist() == [[1, 0], [0, 0]]


def test_least_squares_of_any_rank(wrap: Wrap) -> None:
    x, y = np.ones((3, 2)), np.array([[1.0], [2.0], [6.0]])
    found = wrap(lambda a, b: linalg.lstsq(a, b, fast=False))(*map(tapec.constant, (x, y)))
    np.testing.assert_allclose(found, [[1.5], [1.5]], rtol=1e-14)


@pytest.mark.parametrize("ord", ["fro", 1, 2, np.inf])
def test_matrix_norm(ord: Any, wrap: Wrap) -> None:
    x = STACK.transpose(1, 0, 2)
    found = wrap(lambda x: linalg.norm(x, ord, axis=[0, 2]))(tapec.constant(x))
    np.testing.assert_allclose(found, np.linalg.norm(x, ord, axis=(0, 2)), rtol=1e-14)
    kept = linalg.norm(x, ord, axis=[-1, 0], keepdims=True)
    np.testing.assert_allclose(kept, np.linalg.norm(x, ord, axis=(2, 0), keepdims=True), rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: linalg.eigh(tapec.ones([2, 3])), "square"),
        (lambda: linalg.expm(tapec.ones([2, 3])), "square"),
        (lambda: linalg.qr([1.0]), "expected a matrix"),
        (lambda: linalg.svd([[1, 2]]), "float32 and float64"),
        (lambda: linalg.eigh(tapec.ones([2, 2], tapec.float16)), "float32 and float64"),
        (lambda: linalg.pinv([[1, 2], [3, 4]]), "matrices of floats"),
        (lambda: linalg.sqrtm([[1, 2], [3, 4]]), "matrices of floats"),
        (lambda: linalg.lu_reconstruct(np.eye(2), [0.0, 1.0]), "as integers"),
    ],
)
def test_is_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        call()


def test_square_root(wrap: Wrap) -> None:
    cases: list[Any] = [
        np.diag([4.0, 1e-8, 1e8]),
        [[4.0, 1.0], [0.0, 9.0]],
        [[0.0, -4.0], [4.0, 0.0]],
    ]
    for x in cases:
        y = wrap(linalg.sqrtm)(tapec.constant(x, tapec.float64)).numpy()
        np.testing.assert_allclose(y @ y, x, rtol=1e-9, atol=1e-12)
    turn = np.array([[1j, 0.0], [1.0, 4.0]])
    y = wrap(linalg.sqrtm)(tapec.constant(turn)).numpy()
    np.testing.assert_allclose(y @ y, turn, atol=1e-14)
    assert linalg.sqrtm(tapec.zeros([0, 0])).shape == (0, 0)
    with pytest.raises(InvalidArgumentError, match="not invertible"):
        linalg.sqrtm(tapec.zeros([2, 2]))


# ---- derivatives


def weighed(*results: tapec.Tensor) -> tapec.Tensor:
    """A number that depends on every element, each with a weight of its own."""
    terms = []
    for y in results:
        shape = y.type.static_shape
        weights = np.arange(1, np.prod(shape, dtype=int) + 1).reshape(shape)
        terms.append(tapec.reduce_sum(y * weights))
    return tapec.add_n(terms)


SMOOTH: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "qr": (linalg.qr, (SQUARE,)),
    "qr of a tall matrix": (linalg.qr, (TALL,)),
    "qr of a wide matrix": (linalg.qr, (WIDE,)),
    "full qr": (lambda x: linalg.qr(x, full_matrices=True), (TALL,)),
    "eigh": (lambda x: linalg.eigh(symmetric(x)), (SQUARE,)),
    "svd": (linalg.svd, (SQUARE,)),
    "svd of a tall matrix": (linalg.svd, (TALL,)),
    "svd of a wide matrix": (linalg.svd, (WIDE,)),
    "full svd": (lambda x: linalg.svd(x, full_matrices=True), (TALL,)),
    "singular values": (lambda x: [linalg.svd(x, compute_uv=False)], (STACK,)),
    "expm": (lambda x: [linalg.expm(3 * x)], (SQUARE,)),
    "pinv": (lambda x: [linalg.pinv(x)], (TALL,)),
    "pinv of a wide matrix": (lambda x: [linalg.pinv(x)], (WIDE,)),
    "pinv at equal values": (lambda x: [linalg.pinv(x)], (np.eye(3, 2),)),
    "lstsq of any rank": (lambda a, b: [linalg.lstsq(a, b, fast=False)], (TALL, TALL[:, :1])),
    "sqrtm": (
        lambda x: [linalg.sqrtm(x @ x + 0.5 * x)],
        (np.stack([SQUARE, SQUARE.T]) + 2 * np.eye(3),),
    ),
    "spectral norm": (lambda x: [linalg.norm(x, 2, axis=[0, 1])], (SQUARE,)),
    "det": (lambda x: [linalg.det(x)], (rng.uniform(-1, 1, (2, 5, 5)),)),
    **{f"det where {n}": ((lambda x: [linalg.det(x)]), (x,)) for n, x in SINGULAR.items()},
}


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")
    function, operands = SMOOTH[name]

    def scalar(*xs: tapec.Tensor) -> tapec.Tensor:
        return weighed(*function(*xs))

    check_gradients(scalar, operands, rtol=1e-6, atol=1e-7)
    check_gradients(slope(scalar), operands, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["full qr", "eigh", "full svd", "expm", "pinv", "det"])
def test_gradients_in_a_compiled_function(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")
    function, operands = SMOOTH[name]
    gradient = slope(lambda *xs: weighed(*function(*xs)))
    twice = slope(gradient)
    xs = [tapec.constant(x) for x in operands]
    for f in (gradient, twice):
        np.testing.assert_allclose(tapec.compile(f)(*xs), f(*xs), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("f", [linalg.eigh, linalg.svd])
def test_gradients_where_values_are_equal_are_finite(f: Callable[..., Any], wrap: Wrap) -> None:
    def gradients(x: tapec.Tensor) -> Any:
        with tapec.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tapec.GradientTape() as tape:
                tape.watch(x)
                results = f(x)
                y = weighed(*results)
            first = tape.gradient(y, x)
        return first, outer.gradient(first, x), outer.gradient(results[0], x)

    first, second, values = wrap(gradients)(tapec.eye(3, dtype=tapec.float64))
    assert np.isfinite(first.numpy()).all()
    assert np.isfinite(second.numpy()).all()
    assert values.numpy().tolist() == np.eye(3).tolist()


# ---- complex matrices


def complex_matrix(*shape: int) -> Array:
    return np.asarray(rng.uniform(-1, 1, shape) + 1j * rng.uniform(-1, 1, shape))


def turned(vectors: Array, along: Array | None = None) -> Array:
    """Columns whose largest elements are real and positive; ``along``: they turn with those of another matrix."""
    guide = vectors if along is None else along
    leading = np.take_along_axis(guide, np.abs(guide).argmax(0)[None], 0)
    return np.asarray(vectors * leading.conj() / np.abs(leading))


def singular_vectors(x: Array) -> tuple[Array, Array]:
    u, _, adjoint = np.linalg.svd(x, full_matrices=False)
    v = adjoint.conj().T
    return turned(u, v), turned(v)


SYSTEM, COLUMNS = complex_matrix(3, 3), complex_matrix(3, 2)
HERMITIAN = SYSTEM @ SYSTEM.conj().T + np.eye(3)
BOTH: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Array, ...]]] = {
    "solve": (linalg.solve, np.linalg.solve, (SYSTEM, COLUMNS)),
    "solve with the adjoint": (
        lambda a, b: linalg.solve(a, b, adjoint=True),
        lambda a, b: np.linalg.solve(a.conj().T, b),
        (SYSTEM, COLUMNS),
    ),
    "inv of a stack": (linalg.inv, np.linalg.inv, (complex_matrix(2, 3, 3),)),
    "cholesky": (
        linalg.cholesky,
        lambda x: np.linalg.cholesky((x + x.conj().T) / 2),
        (HERMITIAN,),
    ),
    "cholesky_solve": (
        lambda a, b: linalg.cholesky_solve(linalg.cholesky(a), b),
        lambda a, b: np.linalg.solve((a + a.conj().T) / 2, b),
        (HERMITIAN, COLUMNS),
    ),
    "triangular_solve": (
        linalg.triangular_solve,
        lambda a, b: np.linalg.solve(np.tril(a), b),
        (SYSTEM + 2 * np.eye(3), COLUMNS),
    ),
    "triangular_solve with the adjoint": (
        lambda a, b: linalg.triangular_solve(a, b, lower=False, adjoint=True),
        lambda a, b: np.linalg.solve(np.triu(a).conj().T, b),
        (SYSTEM + 2 * np.eye(3), COLUMNS),
    ),
    "det": (linalg.det, np.linalg.det, (SYSTEM,)),
    "singular values": (
        lambda x: linalg.svd(x, compute_uv=False),
        lambda x: np.linalg.svd(x, compute_uv=False),
        (complex_matrix(2, 4),),
    ),
    "spectral norm": (
        lambda x: linalg.norm(x, 2, axis=[0, 1]),
        lambda x: np.linalg.norm(x, 2),
        (complex_matrix(4, 2),),
    ),
    "eigenvalues": (
        lambda x: tapec.math.real(linalg.eigvalsh(x)),
        np.linalg.eigvalsh,
        (HERMITIAN,),
    ),
    "eigenvectors": (
        lambda x: linalg.eigh(x)[1],
        lambda x: turned(np.linalg.eigh(x)[1]),
        (HERMITIAN,),
    ),
    "left singular vectors": (
        lambda x: linalg.svd(x)[1],
        lambda x: singular_vectors(x)[0],
        (complex_matrix(4, 2),),
    ),
    "right singular vectors": (
        lambda x: linalg.svd(x)[2],
        lambda x: singular_vectors(x)[1],
        (complex_matrix(3, 3),),
    ),
    "pinv": (linalg.pinv, np.linalg.pinv, (complex_matrix(4, 2),)),
    "lstsq": (
        linalg.lstsq,
        lambda a, b: np.linalg.lstsq(a, b)[0],
        (complex_matrix(4, 2), complex_matrix(4, 1)),
    ),
}


@pytest.mark.parametrize("name", BOTH)
def test_complex_matrices(name: str, wrap: Wrap) -> None:
    ours, theirs, arrays = BOTH[name]
    found = wrap(lambda *xs: ours(*xs))(*map(tapec.constant, arrays))
    np.testing.assert_allclose(found, theirs(*arrays), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", BOTH)
def test_gradients_of_complex_matrices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As functions of real and imaginary parts."""
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")
    ours, _, arrays = BOTH[name]

    def of_parts(*parts: tapec.Tensor) -> tapec.Tensor:
        half = len(parts) // 2
        pairs = zip(parts[:half], parts[half:], strict=True)
        y = ours(*(tapec.complex(a, b) for a, b in pairs))
        return weighed(tapec.math.real(y), tapec.math.imag(y) * 2.0)

    parts = [x.real for x in arrays] + [x.imag for x in arrays]
    check_gradients(of_parts, parts, rtol=1e-6, atol=1e-7)


def test_exponential_of_a_complex_matrix(wrap: Wrap) -> None:
    values, vectors = np.linalg.eig(SYSTEM)
    expected = vectors @ np.diag(np.exp(values)) @ np.linalg.inv(vectors)
    np.testing.assert_allclose(wrap(linalg.expm)(tapec.constant(SYSTEM)), expected, rtol=1e-12)


# ---- complex factors


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1), (0, 0)])
@pytest.mark.parametrize("compiled", [False, True])
def test_complex_qr_is_lapacks(shape: tuple[int, ...], compiled: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    function = tapec.compile(lambda t: tapec.linalg.qr(t)) if compiled else tapec.linalg.qr
    q, r = function(tapec.constant(x))
    wanted = np.linalg.qr(x)
    np.testing.assert_allclose(q.numpy(), wanted[0], atol=1e-13)
    np.testing.assert_allclose(r.numpy(), wanted[1], atol=1e-13)


def test_complex_qr_has_gradients() -> None:
    """Of real and imaginary parts, by differences; the columns are independent."""
    rng = np.random.default_rng(1)
    x = [tapec.constant(rng.normal(size=(3, 2))) for _ in range(2)]
    weights = rng.normal(size=(3, 2)) + 1j * rng.normal(size=(3, 2))

    def total(re: tapec.Tensor, im: tapec.Tensor) -> tapec.Tensor:
        q, r = tapec.linalg.qr(tapec.complex(re, im))
        parts = [tapec.math.real(q * weights), tapec.math.imag(r * weights[:2])]
        return tapec.add_n([tapec.reduce_sum(p) for p in parts])

    check_gradients(total, x, rtol=1e-6, atol=1e-8)


def test_complex_vectors_of_equal_values(wrap: Wrap) -> None:
    for x in (np.zeros((3, 2)), np.ones((3, 2)) * (1 + 2j), np.diag([1j, 1, 2])):
        s, u, v = (y.numpy() for y in wrap(linalg.svd)(tapec.constant(x.astype(complex))))
        np.testing.assert_allclose(t(u).conj() @ u, np.eye(x.shape[1]), atol=1e-14)
        np.testing.assert_allclose(u * s @ t(v).conj(), x, atol=1e-14)
    y = np.array([[1, 2j, 0], [-2j, 1, 0], [0, 0, 3]])
    values, vectors = (z.numpy() for z in wrap(linalg.eigh)(tapec.constant(y)))
    np.testing.assert_allclose(vectors * values @ t(vectors).conj(), y, atol=1e-14)


@pytest.mark.parametrize("compiled", [False, True])
def test_second_derivative_where_singular_values_are_equal(compiled: bool) -> None:
    """The slope of the sum of singular values is the polar factor; at the unit matrix that turns with what is skew."""
    way = np.array([[0.3, 1.0], [-0.4, 0.7]])

    def slope(x: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as outer:
            outer.watch(x)
            with tapec.GradientTape() as inner:
                inner.watch(x)
                total = tapec.reduce_sum(tapec.linalg.svd(x, compute_uv=False))
            turned = tapec.reduce_sum(inner.gradient(total, x) * way)
        result: tapec.Tensor = outer.gradient(turned, x)
        return result

    function = tapec.compile(slope) if compiled else slope
    found = function(tapec.constant(2.0 * np.eye(2)))
    np.testing.assert_allclose(found.numpy(), (way - way.T) / 4, atol=1e-12)
