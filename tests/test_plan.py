"""Plans of memory: nothing that is needed is written over, little is wasted, what a step keeps ends when it is read."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from benchmark_steps import BENCHMARKS, load, traced
from hypothesis import given, settings
from hypothesis import strategies as st

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, clone_module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.placement import lifetimes
from tapec.ir.types import F32, TensorType
from tapec.ir.verifier import verify
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.passes.plan import Interval, lower_bound, place

PLAN = parse_pipeline(
    "inline,canonicalize,cse,dce,adjoint,prune,commit,canonicalize,cse,dce,fuse,schedule,plan"
)
LOWER = parse_pipeline("lower")


@st.composite
def intervals(draw: st.DrawFn) -> list[Interval]:
    """Intervals of a program with some twenty kernels."""
    found = []
    for _ in range(draw(st.integers(0, 30))):
        first = draw(st.integers(0, 20))
        last = first + draw(st.integers(0, 8))
        found.append(Interval.of([], draw(st.integers(0, 20)) * 100, first, last))
    return found


@given(intervals())
def test_no_two_share_bytes(found: list[Interval]) -> None:
    offsets, total = place(found)
    assert total >= lower_bound(found)
    for i, a in enumerate(found):
        assert offsets[a] % 64 == 0
        assert offsets[a] + a.bytes <= total
        for b in found[:i]:
            together = a.first <= b.last and b.first <= a.last
            apart = offsets[a] + a.bytes <= offsets[b] or offsets[b] + b.bytes <= offsets[a]
            assert apart or not together or 0 in (a.bytes, b.bytes)


@settings(max_examples=settings().max_examples // 2)
@given(intervals())
def test_nested_lifetimes_waste_nothing(found: list[Interval]) -> None:
    """A forward pass and its adjoint: what is made first is needed longest."""
    nested = [Interval.of([], a.bytes, n, 100 - n) for n, a in enumerate(found)]
    assert place(nested)[1] == lower_bound(nested)


def random_intervals(rng: np.random.Generator) -> list[Interval]:
    """Some sixty values of a program, of which a few live long."""
    found = []
    for _ in range(60):
        first = int(rng.integers(0, 80))
        length = int(rng.geometric(0.2)) if rng.random() < 0.8 else int(rng.integers(0, 80))
        found.append(Interval.of([], int(2 ** rng.uniform(4, 14)), first, first + length))
    return found


def test_little_is_wasted() -> None:
    """The geometric mean of what plans take, over what no plan can do without."""
    rng = np.random.default_rng(0)
    cases = [random_intervals(rng) for _ in range(100)]
    excess = [place(case)[1] / lower_bound(case) for case in cases]
    assert np.exp(np.mean(np.log(excess))) <= 1.005
    assert max(excess) <= 1.05


def network(depth: int, width: int = 32, batch: int = 16) -> Module:
    """A step of gradient descent on a network of ``depth`` tanh layers."""
    weight = TensorType(F32, (width, width))
    function = Function(
        "step",
        [TensorType(F32, (batch, width)), *[weight] * depth],
        ["x", *(f"w{n}" for n in range(depth))],
        updates={n + 1: n + 1 for n in range(depth)},
    )
    b = Builder(function.block)
    x, *weights = function.args
    for n, w in enumerate(weights):
        x = b.tanh(b.matmul(x, w))
        x.name = f"h{n}"
    loss = b.sum(b.mul(x, x), axes=(0, 1))
    cotangents = b.gradient(loss, *weights, segments=(1, 0, depth, 0))
    cotangents = cotangents if isinstance(cotangents, tuple) else (cotangents,)
    rate = b.full(0.01, weight)
    moved = [b.sub(w, b.mul(rate, ct)) for w, ct in zip(weights, cotangents, strict=True)]
    b.emit("return", loss, *moved)
    return Module([function])


def planned(module: Module) -> Function:
    """The entry after the passes up to plan."""
    copy = clone_module(module)
    run_pipeline(copy, PLAN)
    verify(copy)
    return copy.entry


@pytest.mark.parametrize("depth", [1, 2, 3, 8])
def test_weights_are_updated_in_place(depth: int) -> None:
    entry = planned(network(depth))
    places = [p for op in entry.block.ops for p in op.attrs.get("place", ())]
    assert {f"arg {n + 1}" for n in range(depth)} <= set(places)
    assert places.count("result 0") == 1


@pytest.mark.parametrize("depth", [2, 3, 8, 20])
def test_memory_is_that_of_the_activations(depth: int) -> None:
    """All activations are alive at one time, and then only two cotangents; not one more for each layer."""
    entry = planned(network(depth))
    activation = 16 * 32 * 4
    assert entry.attrs["lower_bound"] <= (depth + 2) * activation
    assert entry.attrs["arena"] <= 1.05 * entry.attrs["lower_bound"]


def test_an_activation_lives_to_its_last_adjoint_read() -> None:
    """Backwards, each activation dies in the kernel that makes the cotangent or the update that reads it."""
    entry = planned(network(4))
    ends = {
        str(life.value.name): life.last
        for life in lifetimes(entry)
        if life.op is not None and re.fullmatch(r"h\d", life.value.name or "")
    }
    order = sorted(ends, key=lambda name: ends[name], reverse=True)
    assert order == sorted(ends)
    for life in lifetimes(entry):
        if life.value.name in ends:
            readers = [n for n, op in enumerate(entry.block.ops) if life.value in op.operands]
            assert life.last == max(readers)


def test_planned_programs_compute_the_same() -> None:
    module = network(3)
    rng = np.random.default_rng(0)
    arrays = [
        rng.normal(size=a.tensor.static_shape).astype(np.float32) * 0.2 for a in module.entry.args
    ]
    tensors = clone_module(module)
    run_pipeline(tensors, parse_pipeline("adjoint,prune"))
    wanted = evaluate_module(tensors, arrays)
    run_pipeline(module, PLAN)
    run_pipeline(module, LOWER)
    verify(module)
    for got, want in zip(evaluate_module(module, arrays), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def swap(results: list[str]) -> tuple[Module, list[Any]]:
    """A function of two arguments whose results replace both, in ways that must not meet."""
    type = TensorType(F32, (8,))
    function = Function("f", [type, type], ["a", "b"], updates={0: 0, 1: 1})
    b = Builder(function.block)
    x, y = function.args
    made = {
        "a": x,
        "b": y,
        "sum": b.add(x, y),
        "back": b.reverse(x, axes=(0,)),
        "double": b.add(x, x),
    }
    b.emit("return", *(made[name] for name in results))
    return Module([function]), [np.arange(8, dtype=np.float32), np.ones(8, np.float32)]


@pytest.mark.parametrize(
    "results",
    [["b", "a"], ["sum", "a"], ["sum", "double"], ["back", "back"], ["double", "sum"], ["a", "a"]],
    ids=" ".join,
)
def test_old_values_are_read_before_they_are_replaced(results: list[str]) -> None:
    module, arrays = swap(results)
    wanted = evaluate_module(module, arrays)
    run_pipeline(module, PLAN)
    verify(module)
    run_pipeline(module, LOWER)
    verify(module)
    for got, want in zip(evaluate_module(module, arrays), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


#: Steps that the benchmarks time; the latter do not train.
TRAINING = (
    "batchnorm_dropout_mlp cnn_train gmm lstm_train mlp_small mlp_train pinn transformer_train wgan_gp"
).split()
STEPS = [*TRAINING, "dispatch", "elementwise"]


@pytest.mark.parametrize("name", STEPS)
def test_benchmarks_waste_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arena is hardly larger than what is alive at one time."""
    entry = planned(traced(name, monkeypatch))
    assert entry.attrs["arena"] <= 1.02 * entry.attrs["lower_bound"]


def test_train_steps_take_less_than_their_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than 60 % (geometric mean) of what they take if each result is materialised, in program order."""
    memory = load(BENCHMARKS / "memory.py")
    found = [memory.figures(traced(name, monkeypatch)) for name in TRAINING]
    parts = [f.arena / f.baseline for f in found]
    assert np.exp(np.mean(np.log(parts))) <= 0.6
    assert max(f.ratio for f in found) <= 1.005
