"""`factor`: sums of products are what they were, of fewer products."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tapec
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, clone_module
from tapec.ir.dims import typical
from tapec.ir.evaluator import evaluate_module
from tapec.ir.types import F64, TensorType
from tapec.ir.verifier import verify
from tapec.passes import factor

rng = np.random.default_rng(0)


def summed(
    batch: tuple[int, ...], sizes: tuple[int, int, int], turned: tuple[bool, bool], axes: set[int]
) -> Module:
    """A sum, over axes counted from the last, of minus a product of ``[m, k]`` and ``[k, n]``."""
    m, k, n = sizes
    shapes = ((k, m) if turned[0] else (m, k), (n, k) if turned[1] else (k, n))
    function = Function("f", [TensorType(F64, (*batch, *shape)) for shape in shapes])
    b = Builder(function.block)
    product = b.matmul(*function.args, transpose_a=turned[0], transpose_b=turned[1])
    last = len(batch) + 1
    b.return_(b.sum(b.neg(product), axes=tuple(sorted(last - a for a in axes if a <= last))))
    return Module([function])


@given(
    st.sampled_from([(), (1,), (3,), (2, 3)]),
    st.tuples(*[st.integers(1, 4)] * 3),
    st.tuples(st.booleans(), st.booleans()),
    st.sets(st.integers(0, 3), min_size=1),
)
def test_sums_are_what_they_were(
    batch: tuple[int, ...],
    sizes: tuple[int, int, int],
    turned: tuple[bool, bool],
    axes: set[int],
) -> None:
    module = summed(batch, sizes, turned, axes)
    factored = clone_module(module)
    assert factor.run(factored) == (not axes.isdisjoint({0, 1}) and min(sizes[0], sizes[2]) > 1)
    verify(factored)
    arrays = [rng.normal(size=v.tensor.static_shape) for v in module.functions["f"].args]
    (found,), (expected,) = (evaluate_module(m, arrays) for m in (factored, module))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_comes_through(number: float) -> None:
    """To the bit where the rows have it; what an infinite column gives may be infinite or NaN."""
    module = summed((2,), (3, 3, 4), (False, False), {1})
    factored = clone_module(module)
    assert factor.run(factored)
    x, y = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3, 4))
    x[0, 1, 2], y[0, 2, 3], y[1, 0, 0] = number, 0, number
    with np.errstate(invalid="ignore"):
        (found,), (expected,) = (evaluate_module(m, [x, y]) for m in (factored, module))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(found[1, 1:], expected[1, 1:], rtol=1e-12)
    assert not np.isfinite([found[1, 0], expected[1, 0]]).any()


def test_the_gradient_of_a_centre_is_that_of_eager_code() -> None:
    def gradients(centre: tapec.Tensor, w: tapec.Tensor, x: tapec.Tensor) -> list[tapec.Tensor]:
        with tapec.GradientTape() as tape:
            tape.watch([centre, w])
            loss = tapec.reduce_sum(tapec.tanh((x - centre[:, None, :]) @ w))
        return tape.gradient(loss, [centre, w])  # type: ignore[no-any-return]

    arrays = [tapec.constant(rng.normal(size=s)) for s in ((2, 3), (2, 3, 4), (20, 3))]
    step = tapec.compile(gradients)
    for found, expected in zip(step(*arrays), gradients(*arrays), strict=True):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-12)
    # The forward product has 20 rows, the weight's gradient sums as many; the centre's takes one of each matrix.
    products = [
        typical(k.cost.flops) for k in step.profile(*arrays).kernels if "matmul" in k.cost.ops
    ]
    assert len(products) == 3
    assert min(products) == 2 * (2 * 1 * 3 * 4)
