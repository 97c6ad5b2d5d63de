"""Random tensors: streams, distributions, dropout."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tapec
from tapec import errors, nn


def test_random_streams() -> None:
    tapec.random.set_seed(1)
    first = [tapec.random.normal([3]).numpy() for _ in range(2)]
    assert (first[0] != first[1]).all()
    tapec.random.set_seed(1)
    np.testing.assert_array_equal(first[0], tapec.random.normal([3]).numpy())
    a, b = (tapec.random.stateless_uniform([3], [1, 2]).numpy() for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_random_distributions() -> None:
    tapec.random.set_seed(2)
    normal = tapec.random.normal([20000], mean=1.0, stddev=2.0).numpy()
    assert normal.mean() == pytest.approx(1.0, abs=0.05)
    assert normal.std() == pytest.approx(2.0, abs=0.05)
    cut = tapec.random.truncated_normal([20000]).numpy()
    assert np.abs(cut).max() <= 2.0
    assert cut.std() == pytest.approx(0.8796, abs=0.02)  # the exact standard deviation
    integers = tapec.random.uniform([5000], -2, 3, tapec.int32).numpy()
    assert set(integers.tolist()) == {-2, -1, 0, 1, 2}
    drawn = tapec.random.categorical([[0.0, np.log(3.0)]], 5000).numpy()
    assert drawn.mean() == pytest.approx(0.75, abs=0.03)
    assert sorted(tapec.random.shuffle(tapec.range(9)).numpy().tolist()) == list(range(9))


def test_dropout() -> None:
    x = tapec.ones([10000])
    kept = nn.dropout(x, 0.25, seed=3).numpy()
    assert set(np.unique(kept).tolist()) == {0.0, float(np.float32(1) / np.float32(0.75))}
    assert kept.mean() == pytest.approx(1.0, abs=0.03)
    with pytest.raises(errors.ValueError, match="range"):
        nn.dropout(x, 1.5)


@pytest.mark.parametrize("columns", [64, 37, 72])
def test_a_mask_behind_a_product_is_the_same_compiled(columns: int) -> None:
    """There it is drawn by vectors that begin at columns of tiles, some of which overlap."""

    def masked(x: tapec.Tensor, w: tapec.Tensor) -> tapec.Tensor:
        u = tapec.random.stateless_uniform([30, columns], [5, 2])
        return tapec.where(u < 0.5, x @ w, 0.0)

    x, w = (
        tapec.constant(np.arange(a * b, dtype=np.float32).reshape(a, b))
        for a, b in ((30, 4), (4, columns))
    )
    found = tapec.compile(masked)(x, w).numpy()
    np.testing.assert_array_equal(found, masked(x, w).numpy())
    assert 0.4 < (found == 0).mean() < 0.6


def test_the_module_may_be_loaded_while_a_function_is_compiled() -> None:
    """`tapec.math` loads it too: its first use may be in a compiled function."""
    program = (
        "import tapec; print(tapec.compile(lambda x: tapec.math.log(x))(tapec.ones([])).numpy())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("0.0\n", 0), done.stderr


def test_the_global_generator_is_the_one_that_is_drawn_from() -> None:
    tapec.random.set_seed(3)
    generator = tapec.random.get_global_generator()
    assert generator is tapec.random.get_global_generator()
    first = generator.state.numpy()
    drawn = tapec.random.normal([3]).numpy()
    assert (generator.state.numpy() != first).any()
    generator.reset(first)
    np.testing.assert_array_equal(generator.normal([3]).numpy(), drawn)


def test_streams_that_nobody_can_repeat() -> None:
    make = tapec.random.Generator.from_non_deterministic_state
    one, other = make(), make(alg="philox")
    assert (one.state.numpy() != other.state.numpy()).any()
    assert (one.uniform([4]).numpy() != other.uniform([4]).numpy()).any()


def test_a_seed_that_a_compiled_function_uses_first() -> None:
    """The stream of the seed is made while the function is traced, and outlives it."""
    x = tapec.ones([64])

    def draw(x: tapec.Tensor) -> tapec.Tensor:
        return tapec.nn.dropout(x, rate=0.5, seed=1234567)

    tapec.random.set_seed(5)
    wanted = [draw(x).numpy() for _ in range(3)]
    tapec.random.set_seed(5)
    compiled = tapec.compile(draw)
    for array in wanted:
        np.testing.assert_array_equal(compiled(x).numpy(), array)
