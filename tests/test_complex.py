"""Complex tensors in whole functions: eager and compiled alike, gradients in TensorFlow's convention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_ways import Wrap

import tapec
from tapec.ir.evaluator import evaluate_module
from tapec.ir.parser import parse_module
from tapec.ir.verifier import verify
from tapec.passes import pairs


def numbers(*shape: int, seed: int = 0, dtype: Any = np.complex128) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def gram(z: Any) -> Any:
    """A Hermitian, positive definite matrix."""
    return tapec.matmul(z, z, adjoint_b=True) + tapec.eye(3, dtype=z.dtype)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "polynomial": lambda z: z * z + (2 - 1j) * z - 3,
    "quotient": lambda z: (z + 1) / (z * z + 3j),
    "analysis": lambda z: tapec.exp(tapec.sin(z)) + tapec.math.log(z) * tapec.sqrt(z),
    "inverse": lambda z: tapec.asinh(z) + tapec.atan(z / 3) + tapec.acos(z / 2),
    "power": lambda z: z**3 + z ** (0.5 + 1j),
    "parts": lambda z: tapec.complex(tapec.math.imag(z), tapec.math.real(z)),
    "modulus": lambda z: tapec.cast(tapec.abs(z), z.dtype) * tapec.math.conj(z),
    "angle": lambda z: tapec.cast(tapec.math.angle(z), z.dtype),
    "matmul": lambda z: tapec.matmul(z, z, adjoint_b=True),
    "sums": lambda z: tapec.reduce_sum(z, axis=0) * tapec.reduce_mean(z),
    "products": lambda z: tapec.math.reduce_prod(z, axis=1) + tapec.math.cumprod(z, axis=1)[:, 1],
    "movement": lambda z: tapec.concat([tapec.transpose(z), z[::-1, 1:3]], axis=1),
    "choice": lambda z: tapec.where(tapec.math.real(z) > 0, z, 1 / z),
    "gather": lambda z: tapec.gather(z, [2, 0, 0]),
    "norm": lambda z: tapec.cast(tapec.norm(z), z.dtype),
    "inv": lambda z: tapec.linalg.inv(z, adjoint=True),
    "solve": lambda z: tapec.linalg.solve(z, z[:, :1] * 1j, adjoint=True),
    "cholesky": lambda z: tapec.linalg.cholesky(gram(z)),
    "cholesky_solve": lambda z: tapec.linalg.cholesky_solve(tapec.linalg.cholesky(gram(z)), z),
    "triangular_solve": lambda z: tapec.linalg.triangular_solve(z, z, lower=False, adjoint=True),
    "det": lambda z: tapec.linalg.det(z) + tapec.linalg.slogdet(z)[1],
    "lstsq": lambda z: tapec.linalg.lstsq(z[:, :2], z),
    "expm": tapec.linalg.expm,
    "eigvalsh": lambda z: tapec.linalg.eigvalsh(gram(z)),
    "singular values": lambda z: tapec.linalg.svd(z[:2], compute_uv=False),
    "eigenvectors": lambda z: tapec.linalg.eigh(gram(z))[1],
    "left singular vectors": lambda z: tapec.linalg.svd(z[:, :2])[1],
    "right singular vectors": lambda z: tapec.linalg.svd(z[:2])[2],
    "branch": lambda z: tapec.cond(tapec.math.real(z[0, 0]) > 0, lambda: z * z, lambda: 1 / z),
    "loop": lambda z: tapec.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * z), (0, z))[1],
    "scan": lambda z: tapec.scan(lambda a, x: a * x + 1j, z),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_is_eager(name: str) -> None:
    """Value, gradient and second gradient."""
    f = FUNCTIONS[name]

    def all_of(z: Any) -> Any:
        with tapec.GradientTape() as outer:
            outer.watch(z)
            with tapec.GradientTape() as inner:
                inner.watch(z)
                y = f(z)
                loss = tapec.reduce_sum(tapec.math.real(y * tapec.math.conj(y)))
            first = inner.gradient(loss, z)
            scalar = tapec.reduce_sum(tapec.math.real(first * (1 - 2j)))
        return y, first, outer.gradient(scalar, z)

    z = tapec.constant(numbers(3, 3))
    for found, expected in zip(tapec.compile(all_of)(z), all_of(z), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-11, atol=1e-11)


MATRICES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "det": (tapec.linalg.det, np.linalg.det),
    "inv": (tapec.linalg.inv, np.linalg.inv),
    "slogdet": (
        lambda z: tapec.stack(tapec.linalg.slogdet(z)),
        lambda z: np.stack(np.linalg.slogdet(z)),
    ),
    "cholesky": (
        lambda z: tapec.linalg.cholesky(z @ tapec.linalg.adjoint(z)),
        lambda z: np.linalg.cholesky(z @ np.swapaxes(z, -1, -2).conj()),
    ),
    "eigvalsh": (
        lambda z: tapec.math.real(tapec.linalg.eigvalsh(z + tapec.linalg.adjoint(z))),
        lambda z: np.linalg.eigvalsh(z + np.swapaxes(z, -1, -2).conj()),
    ),
    "svd": (
        lambda z: tapec.linalg.svd(z[..., :3, :], compute_uv=False),
        lambda z: np.linalg.svd(z[..., :3, :], compute_uv=False),
    ),
}


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name: str, size: int) -> None:
    """A batch, against NumPy."""
    ours, theirs = MATRICES[name]
    z = numbers(2, size, size)
    np.testing.assert_allclose(ours(tapec.constant(z)).numpy(), theirs(z), rtol=1e-9, atol=1e-12)


def test_gradient_points_uphill() -> None:
    """TensorFlow's convention: of ``|z|²`` the gradient is 2z, of a holomorphic function the conjugate derivative."""
    z = tapec.Variable(numbers(4))
    with tapec.GradientTape(persistent=True) as tape:
        square = tapec.reduce_sum(tapec.abs(z) ** 2)
        y = z * z
    np.testing.assert_allclose(tape.gradient(square, z).numpy(), 2 * z.numpy())
    np.testing.assert_allclose(tape.gradient(y, z).numpy(), np.conj(2 * z.numpy()))


def test_modulus_at_zero_has_the_gradient_zero() -> None:
    z = tapec.Variable([0j, 3 + 4j])
    with tapec.GradientTape() as tape:
        size = tapec.abs(z)
    np.testing.assert_allclose(tape.gradient(size, z).numpy(), [0, 0.6 + 0.8j])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_variables_are_updated_in_compiled_steps(dtype: Any) -> None:
    target = numbers(3, 2, seed=1, dtype=dtype)

    def trained(decorate: Callable[[Any], Any]) -> list[Any]:
        w = tapec.Variable(numbers(3, 2, dtype=dtype))
        still = tapec.Variable(target)
        optimizer = tapec.optimizers.SGD(0.1, momentum=0.5)

        @decorate
        def step(x: Any) -> Any:
            with tapec.GradientTape() as tape:
                loss = tapec.reduce_sum(tapec.abs(w * x - still) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
            still.assign_add(x * 0)
            return loss

        losses = [float(step(tapec.constant(target))) for _ in range(4)]
        assert losses[-1] < losses[0]
        return [*losses, w.numpy()]

    for found, expected in zip(trained(tapec.compile), trained(lambda f: f), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_arguments_and_results_that_are_the_same() -> None:
    """What is returned twice, or as it came, is memory of its own."""

    @tapec.compile
    def f(z: Any) -> Any:
        y = z + 1
        return z, z, y, y, tapec.reshape(y, [4])

    z = numbers(2, 2)
    results = [t.numpy() for t in f(z)]
    for found, expected in zip(results, [z, z, z + 1, z + 1, (z + 1).ravel()], strict=True):
        np.testing.assert_array_equal(found, expected)
    assert not any(np.shares_memory(a, b) for a in results for b in (z, *results) if a is not b)


def test_a_scalar_and_nothing() -> None:
    f = tapec.compile(lambda z: tapec.exp(z) * 2)
    for z in (np.complex64(1 + 2j), np.zeros((0, 3), np.complex64)):
        np.testing.assert_allclose(f(z).numpy(), np.exp(z) * 2, rtol=1e-6)


def test_what_is_inside_of_regions() -> None:
    """A region keeps as many arguments and results as it has, with a last axis of parts."""
    text = """
    func @f(%x: c128[2], %s: f64) -> c128[2] {
      %y = custom %x, %x {flows = [1], outputs = 1} : c128[2] {
      ^(%ct: c128[2], %a: c128[2]):
        %0 = conj %a : c128[2]
        %1 = mul %ct, %0 : c128[2]
        yield %1
      }
      return %y
    }
    """
    module = parse_module(text)
    pairs.run(module)
    verify(module)
    (custom,) = [op for op in module.walk() if op.name == "custom"]
    assert [str(v.type) for v in (*custom.operands, *custom.results)] == ["f64[2,2]"] * 3
    assert [str(a.type) for a in custom.regions[0].block.args] == ["f64[2,2]"] * 2
    assert not any(op.name == "conj" for op in module.walk())
    x = numbers(2)
    np.testing.assert_array_equal(evaluate_module(module, [x, np.array(1.0)])[0], x)


@pytest.mark.parametrize("shape", [(3, 2), (4, 1), (2, 4, 2), (2, 3), (3, 0), (2, 2)])
def test_complex_vectors_are_completed(shape: tuple[int, ...], wrap: Wrap) -> None:
    x = numbers(*shape)
    q, r = (y.numpy() for y in wrap(lambda x: tuple(tapec.linalg.qr(x, True)))(tapec.constant(x)))
    s, u, v = (y.numpy() for y in wrap(lambda x: tapec.linalg.svd(x, True))(tapec.constant(x)))
    assert (q.shape, r.shape) == tuple(part.shape for part in np.linalg.qr(x, "complete"))
    np.testing.assert_allclose(q @ r, x, atol=1e-14)
    k = s.shape[-1]
    np.testing.assert_allclose(
        (u[..., :k] * s[..., None, :]) @ np.swapaxes(v[..., :k], -1, -2).conj(), x, atol=1e-14
    )
    for vectors in (q, u, v):
        unit = np.broadcast_to(np.eye(vectors.shape[-1]), (*shape[:-2], *vectors.shape[-1:] * 2))
        np.testing.assert_allclose(np.swapaxes(vectors, -1, -2).conj() @ vectors, unit, atol=1e-14)


def test_gradients_through_completed_complex_vectors() -> None:
    """Of what does not depend on which columns complete the others: the projection on these."""
    x, weights = numbers(3, 2), numbers(3, 3, seed=1)

    def total(re: tapec.Tensor, im: tapec.Tensor) -> tapec.Tensor:
        rest = tapec.linalg.qr(tapec.complex(re, im), True).q[:, 2:]
        return tapec.math.real(tapec.reduce_sum(weights * (rest @ tapec.linalg.adjoint(rest))))

    tapec.debugging.check_gradients(total, [x.real, x.imag], rtol=1e-6, atol=1e-8)
