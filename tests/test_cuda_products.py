"""Products and convolutions by tiles on the CUDA target, with no device: by the simulator, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.runtime.cuda.text.primitives import TWINS


def layer(a: Any, b: Any, c: Any) -> Any:
    return tapec.nn.relu(tapec.matmul(a, b) + c)


def transposed(a: Any, b: Any, c: Any) -> Any:
    return tapec.nn.relu(tapec.matmul(a, b, transpose_a=True, transpose_b=True) + c)


#: Rows, depth, columns: tiles come out even, or they do not, in one part of the depth or in several.
SIZES = [(40, 33, 35), (64, 16, 33), (32, 64, 32)]


def operands(m: int, k: int, n: int) -> list[Any]:
    """Small integers, of which sums are exact in any order."""
    rng = np.random.default_rng(m)
    return [rng.integers(-3, 4, s).astype(np.float32) for s in ((m, k), (k, n), (n,))]


@pytest.fixture
def tf32() -> Iterator[None]:
    tapec.config.experimental.enable_tensor_float_32_execution(True)
    try:
        yield
    finally:
        tapec.config.experimental.enable_tensor_float_32_execution(False)


def on_device(function: Any) -> Any:
    return tapec.compile(function, target="cuda", engine="simulator")


@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_products_by_tiles(m: int, k: int, n: int) -> None:
    """What is copied as it is, is copied in the background while the part before it is multiplied."""
    a, b, c = operands(m, k, n)
    found = on_device(layer)
    text = found.lower(a, b, c).text("cuda")
    assert "bytes shared" in text
    assert ("copy4_f32(" in text) == (k % 16 == 0)
    assert ("wait_copies(0)" in text) == (k % 16 == 0)
    np.testing.assert_array_equal(found(a, b, c).numpy(), np.maximum(a @ b + c, 0))
    found = on_device(transposed)
    np.testing.assert_array_equal(found(a.T, b.T, c).numpy(), np.maximum(a @ b + c, 0))


@pytest.mark.usefixtures("tf32")
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_tensor_cores_multiply_float32_if_they_may(m: int, k: int, n: int) -> None:
    a, b, c = operands(m, k, n)
    for function, given in ((layer, (a, b, c)), (transposed, (a.T, b.T, c))):
        found = on_device(function)
        assert found.lower(*given).text("cuda").count("mma_tf32(") == 8
        np.testing.assert_array_equal(found(*given).numpy(), np.maximum(a @ b + c, 0))


@pytest.mark.usefixtures("tf32")
def test_tf32_rounds_operands_and_nothing_else() -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.normal(size=s).astype(np.float32) for s in ((32, 64), (64, 32)))
    rounded = np.vectorize(TWINS["tf32"], otypes=[np.float32])
    expected = rounded(a).astype(np.float64) @ rounded(b).astype(np.float64)
    product = on_device(tapec.matmul)(a, b).numpy()
    assert np.abs(product - expected).max() < 64 * np.spacing(np.float32(np.abs(expected).max()))
    assert np.abs(product - a.astype(np.float64) @ b).max() > 1e-4


def test_the_choice_counts_for_what_was_compiled_before_it() -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.normal(size=(32, 32)).astype(np.float32) for _ in range(2))
    product, usual = on_device(tapec.matmul), tapec.compile(tapec.matmul)
    choose = tapec.config.experimental.enable_tensor_float_32_execution
    found = []
    try:
        for chosen in (False, True, False, True):
            choose(chosen)
            found.append(product(a, b).numpy())
            usual(a, b)
    finally:
        choose(False)
    assert np.abs(found[0] - found[1]).max() > 1e-4
    np.testing.assert_array_equal(found[2:], found[:2])
    (retrace,) = product.retraces()
    assert retrace.path == "config.experimental.tensor_float_32_execution_enabled"
    assert (retrace.old, retrace.new) == ("False", "True")
    assert usual.retraces() == []


@pytest.mark.parametrize("dtype", [tapec.float16, tapec.bfloat16])
@pytest.mark.parametrize(("m", "k", "n"), SIZES[::2])
def test_tensor_cores_multiply_floats_of_16_bits(dtype: Any, m: int, k: int, n: int) -> None:
    """Without being asked for: sums are of float32, as elsewhere.

    Warps read matrices, turned or not, of what was copied in the background.
    """
    a, b, c = (tapec.cast(x, dtype) for x in operands(m, k, n))
    for function, given in (
        (layer, (a, b, c)),
        (transposed, (tapec.transpose(a), tapec.transpose(b), c)),
    ):
        found = on_device(function)
        text = found.lower(*given).text("cuda")
        assert text.count(f"mma_{dtype.name.replace('loat', '')}(") == 8
        # Two of rows, two of columns; of these, one kind is turned in either function.
        turned, plain = text.count(" = matrices4_turned("), text.count(" = matrices4(")
        assert (turned, plain) == (2, 2)
        assert text.count(" copy8_u16(") == 4 * (k % 32 == 0)
        result, expected = found(*given), function(*given)
        np.testing.assert_array_equal(
            *(tapec.cast(x, "float32").numpy() for x in (result, expected))
        )


def convolve(x: Any, w: Any) -> Any:
    return tapec.nn.conv2d(x, w, 1, "SAME")


def pictures() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.integers(-2, 3, (2, 5, 5, 8)).astype(np.float32)
    return x, rng.integers(-2, 3, (3, 3, 8, 16)).astype(np.float32)


def test_convolutions_by_tiles() -> None:
    """The rows of all pictures are rows of one product."""
    x, w = pictures()
    found = on_device(convolve)
    assert "bytes shared" in found.lower(x, w).text("cuda")
    np.testing.assert_array_equal(found(x, w).numpy(), convolve(x, w).numpy())


@pytest.mark.usefixtures("tf32")
def test_convolutions_by_tensor_cores() -> None:
    x, w = pictures()
    found = on_device(convolve)
    assert "mma_tf32(" in found.lower(x, w).text("cuda")
    np.testing.assert_array_equal(found(x, w).numpy(), convolve(x, w).numpy())
