"""What holds for every operation: its type rule, meaning, derivative and batch rule agree.

Nothing here names an operation: each brings samples of its inputs. Values that are particular to one
are in test_op_values.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from sampling import arrays, cases, draw, evaluated, results, retyped, tensor_ops

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Value
from tapec.ir.evaluator import evaluate_function, evaluate_module
from tapec.ir.op import OPS, Op, Sample
from tapec.ir.types import BF16, C128, DTYPES, F16, F32, F64, DType, TensorType
from tapec.ir.verifier import verify
from tapec.passes import adjoint

#: Distance of 1 from the next number.
EPSILON = {F16: 2.0**-10, BF16: 2.0**-7, F32: 2.0**-23}
CASES = [pytest.param(defn, sample, id=name) for defn, sample, name in cases()]


# ---- definitions


@pytest.mark.parametrize("defn", OPS.values(), ids=lambda defn: defn.name)
def test_is_documented(defn: Op) -> None:
    assert vars(type(defn)).get("__doc__"), f"{type(defn).__name__} has no docstring"


@pytest.mark.parametrize("defn", tensor_ops(), ids=lambda defn: defn.name)
def test_is_complete(defn: Op) -> None:
    """Type rule, meaning, samples, and the lowering that its form promises."""
    promised = {
        "index": "lower",
        "nest": "lower_nest",
        "contraction": "contraction",
    }
    for method in ("infer", "evaluate", promised[defn.form]):
        assert getattr(type(defn), method) is not getattr(Op, method, None), method
    samples = list(defn.samples())
    assert samples
    for sample in samples:
        inspect.signature(defn.infer).bind(*sample.types, **sample.attrs)


@pytest.mark.parametrize("defn", tensor_ops(), ids=lambda defn: defn.name)
def test_has_a_sample_of_no_elements(defn: Op) -> None:
    assert any(
        0 in t.shape for sample in defn.samples() for t in (*sample.types, *results(defn, sample))
    )


# ---- types


@pytest.mark.parametrize(("defn", "sample"), CASES)
def test_infer_agrees_with_evaluate(defn: Op, sample: Sample) -> None:
    """In shape and dtype, for every dtype that infer lets through."""
    for dtype in DTYPES:
        variant = retyped(defn, sample, dtype)
        if variant is None:
            continue
        values = evaluated(defn, variant, arrays(variant))
        for value, t in zip(values, results(defn, variant), strict=True):
            assert (value.dtype, value.shape) == (t.dtype.numpy, t.shape), dtype


@pytest.mark.parametrize("dtype", [F16, BF16, F32], ids=str)
@pytest.mark.parametrize(("defn", "sample"), CASES)
def test_precision(defn: Op, sample: Sample, dtype: DType) -> None:
    """Narrow floats give what float64 gives for the same inputs, but for their own rounding."""
    variant = retyped(defn, sample, dtype)
    if variant is None or variant.types == sample.types:
        return
    narrow = arrays(variant)
    wide = [
        a.astype(np.float64) if t.dtype == F64 else a
        for a, t in zip(narrow, sample.types, strict=True)
    ]
    tolerance = 16 * EPSILON[dtype]
    pairs = zip(evaluated(defn, variant, narrow), evaluated(defn, sample, wide), strict=True)
    for found, expected in pairs:
        if expected.dtype.kind in "biu":
            np.testing.assert_array_equal(found, expected)
        else:
            numbers = found.astype(expected.dtype)
            np.testing.assert_allclose(numbers, expected, rtol=tolerance, atol=tolerance)


# ---- derivatives


def differentiable(sample: Sample) -> list[int]:
    """Which operands carry a gradient."""
    return [i for i, t in enumerate(sample.types) if t.dtype.is_differentiable]


def precise(defn: Op, sample: Sample) -> bool:
    """Whether differences make sense: there is a gradient, and every float is wide."""
    types = (*sample.types, *results(defn, sample))
    carrying = [t for t in types if t.dtype.is_differentiable]
    return (
        defn.differentiable
        and all(t.dtype in (F64, C128) for t in carrying)
        and bool(differentiable(sample))
        and any(t.dtype.is_differentiable for t in results(defn, sample))
    )


def contracted(b: Builder, values: Sequence[Value], rng: np.random.Generator) -> Value:
    """A real scalar that depends on every element of the values, each with a weight of its own."""
    total = b.full(0.0, TensorType(F64))
    for value in values:
        t = value.tensor
        weights: Any = rng.uniform(0.5, 1.5, t.static_shape)
        if t.dtype.is_complex:
            weights = weights + 1j * rng.uniform(0.5, 1.5, t.static_shape)
        product = b.mul(value, b.dense(np.asarray(weights), t.dtype))
        if t.dtype.is_complex:
            product = b.real(product)
        total = b.add(total, b.sum(product, axes=tuple(range(t.rank))))
    return total


def derivatives(defn: Op, sample: Sample, order: int) -> Module:
    """``@f(operands…) -> (s, ds…)``, where s contracts the derivatives of ``order - 1``."""
    rng = np.random.default_rng(order)
    function = Function("f", sample.types)
    b = Builder(function.block)
    made = b.emit(defn, *function.args, **sample.attrs)
    results = made if isinstance(made, tuple) else (made,)
    values = [v for v in results if v.tensor.dtype.is_differentiable]
    sources = [function.args[i] for i in differentiable(sample)]
    for _ in range(order):
        scalar = contracted(b, values, rng)
        slopes = b.gradient(scalar, *sources, segments=(1, 0, len(sources), 0))
        values = list(slopes) if isinstance(slopes, tuple) else [slopes]
    b.emit("return", scalar, *values)
    module = Module([function])
    adjoint.run(module)
    verify(module)
    return module


DIFFERENTIABLE = [
    pytest.param(defn, variant, id=f"{name}-{dtype.code}")
    for defn, sample, name in cases()
    for dtype in (F64, C128)
    if (variant := retyped(defn, sample, dtype)) is not None
    and (dtype == F64 or variant.types != sample.types)
    and precise(defn, variant)
]


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(("defn", "sample"), DIFFERENTIABLE)
def test_derivative_against_differences(defn: Op, sample: Sample, order: int) -> None:
    """The derivative along a random direction, by one difference of the order below."""
    module = derivatives(defn, sample, order)
    operands = arrays(sample)
    rng = np.random.default_rng(1)
    moved = {i: draw(rng, sample, i) - operands[i] for i in differentiable(sample)}
    _, *slopes = evaluate_module(module, operands)
    if not any(d.size for d in moved.values()):
        return  # nowhere to go; that the derivative can be computed is all there is to see
    step = 1e-5

    def at(distance: float) -> Any:
        shifted = [a + distance * moved[i] if i in moved else a for i, a in enumerate(operands)]
        return evaluate_module(module, shifted)[0]

    expected = (at(step) - at(-step)) / (2 * step)
    found = sum(np.vdot(d, s).real for d, s in zip(moved.values(), slopes, strict=True))
    scale = sum(np.abs(d * s).sum() for d, s in zip(moved.values(), slopes, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8 + 1e-8 * scale)


def with_gradients() -> Iterator[Any]:
    """Samples through which a derivative goes, in every dtype that carries one."""
    for defn, sample, name in cases():
        kinds = {t.dtype for t in sample.types}
        for dtype in (d for d in DTYPES if d.is_differentiable):
            variant = retyped(defn, sample, dtype) if dtype == F64 or F64 in kinds else None
            if variant and any(t.dtype.is_differentiable for t in results(defn, variant)):
                yield pytest.param(defn, variant, id=f"{name}-{dtype.code}")


@pytest.mark.parametrize(("defn", "sample"), [*with_gradients()])
def test_cotangents_have_the_operands_types(defn: Op, sample: Sample) -> None:
    function = Function("f", [*sample.types, *results(defn, sample)])
    b = Builder(function.block)
    operands, cotangents = (
        function.args[: len(sample.types)],
        function.args[len(sample.types) :],
    )
    b.emit(defn, *operands, **sample.attrs)
    op = function.block.ops[0]
    given = [ct if ct.tensor.dtype.is_differentiable else None for ct in cotangents]
    pulled = defn.vjp(b, op, *given)
    assert len(pulled) == len(operands)
    for operand, cotangent in zip(operands, pulled, strict=True):
        if cotangent is not None:
            assert operand.tensor.dtype.is_differentiable
            assert cotangent.type == operand.type


# ---- batches


def masks(count: int) -> list[tuple[bool, ...]]:
    """All operands batched, and each alone."""
    alone = [tuple(i == j for j in range(count)) for i in range(count)]
    return [(True,) * count, *alone] if count > 1 else alone


@pytest.mark.parametrize("size", [3, 0])
@pytest.mark.parametrize(("defn", "sample"), CASES)
def test_batch_is_a_loop(defn: Op, sample: Sample, size: int) -> None:
    for batched in masks(len(sample.types)):
        stacks = [arrays(sample, seed) for seed in range(size or 1)]
        operands = [
            np.stack([stack[i] for stack in stacks])[:size] if has else stacks[0][i]
            for i, has in enumerate(batched)
        ]
        types = [
            t.with_shape((size, *t.shape)) if has else t
            for t, has in zip(sample.types, batched, strict=True)
        ]
        function = Function("f", types)
        b = Builder(function.block)
        mapped = defn.batch(b, function.args, batched, **sample.attrs)
        b.emit("return", *(mapped if isinstance(mapped, tuple) else [mapped]))
        verify(Module([function]))
        found = evaluate_function(function, operands)
        rows = []
        for n in range(size):
            row = [a[n] if has else a for a, has in zip(operands, batched, strict=True)]
            rows.append(evaluated(defn, sample, row))
        for number, t in enumerate(results(defn, sample)):
            assert found[number].dtype == t.dtype.numpy
            assert found[number].shape == (size, *t.shape)
            for n in range(size):
                np.testing.assert_allclose(found[number][n], rows[n][number], rtol=1e-12)
