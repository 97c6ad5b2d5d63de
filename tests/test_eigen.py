"""Eigenvalues of matrices that need not be symmetric."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapec
from tapec import linalg
from tapec.debugging import check_gradients
from tapec.errors import InvalidArgumentError, TargetError

rng = np.random.default_rng(0)
MATRICES = {
    "real": rng.normal(size=(3, 3)),
    "complex": rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3)),
    "a stack": rng.normal(size=(2, 2, 2)),
    "one number": rng.normal(size=(1, 1)),
    "none": np.zeros((0, 0)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_values_and_vectors(name: str) -> None:
    x = MATRICES[name]
    values, vectors = (y.numpy() for y in linalg.eig(x))
    assert values.dtype == vectors.dtype == np.complex128
    np.testing.assert_allclose(x @ vectors, vectors * values[..., None, :], atol=1e-13)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=-2), np.ones(values.shape))
    np.testing.assert_array_equal(tapec.eigvals(x), values)
    if x.size:
        places = np.abs(vectors).argmax(-2)[..., None, :]
        leading = np.take_along_axis(vectors, places, -2)
        np.testing.assert_allclose(leading, np.abs(leading), atol=1e-15)


@pytest.mark.parametrize("name", ["real", "complex", "a stack"])
@pytest.mark.parametrize("result", [0, 1])
def test_gradients(name: str, result: int) -> None:
    """To second order, as functions of real and imaginary parts."""
    x = MATRICES[name]
    weights = rng.normal(size=linalg.eig(x)[result].shape)

    def total(*parts: tapec.Tensor) -> tapec.Tensor:
        y = linalg.eig(tapec.complex(*parts) if len(parts) == 2 else parts[0])[result]
        return tapec.reduce_sum((tapec.math.real(y) + 2.0 * tapec.math.imag(y)) * weights)

    def slope(*parts: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            tape.watch(parts)
            y = total(*parts)
        found = tape.gradient(y, list(parts))
        return tapec.add_n([tapec.reduce_sum(g * g) for g in found])

    parts = [x.real, x.imag] if np.iscomplexobj(x) else [x]
    for function in (total, slope):
        check_gradients(function, parts, rtol=1e-5, atol=1e-6)


def test_what_is_not_finite_has_no_values() -> None:
    x = np.array([[[1.0, np.nan], [0, 1]], [[2, 0], [0, 3]]])
    values, vectors = linalg.eig(x)
    assert np.isnan(values.numpy()[0]).all()
    assert np.isnan(vectors.numpy()[0]).all()
    np.testing.assert_allclose(values.numpy()[1], [2, 3])


def test_a_compiled_function_refuses_it_by_name() -> None:
    def f(x: Any) -> Any:
        return linalg.eigvals(x)

    with pytest.raises(TargetError, match=r"eig has no native code(.|\n)*eigh") as caught:
        tapec.compile(f)(MATRICES["real"])
    assert "return linalg.eigvals(x)" in str(caught.value)


def test_bad_matrices() -> None:
    for x in (np.ones((2, 3)), np.ones((2, 2), np.int32), np.ones(2)):
        with pytest.raises(InvalidArgumentError, match="eig"):
            linalg.eig(x)
