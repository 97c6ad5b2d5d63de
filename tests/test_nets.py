"""Small networks train alike: eagerly, compiled, and as each level of the program says when passes are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from native_programs import run_native

import tapec
from tapec.ir.core import Module, clone_module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.verifier import verify
from tapec.passes.pipeline import parse_pipeline, run_pipeline

#: Weights, the function that moves them, and what it is called with.
Net = tuple[list[tapec.Variable], Callable[..., Any], list[Any]]

VARIANTS = {
    "no canonicalize": "inline,cse,dce,adjoint,prune,commit,cse,dce,fuse,schedule,plan,lower",
    "no cse": "inline,canonicalize,dce,adjoint,prune,commit,canonicalize,dce,fuse,schedule,plan,lower",
    "no dce": "inline,canonicalize,cse,adjoint,prune,commit,canonicalize,cse,fuse,schedule,plan,lower",
    "one by one": "adjoint,prune,commit,dce,fuse{max_ops=1},schedule{vector_bytes=0},plan,lower",
    "narrow": "inline,canonicalize,cse,dce,adjoint,prune,commit,canonicalize,cse,dce,fuse,"
    "schedule{vector_bytes=16,masked=false},plan,lower",
}


def weights(*shapes: Sequence[int]) -> list[tapec.Variable]:
    rng = np.random.default_rng(7)
    return [tapec.Variable(rng.normal(0.0, 0.5, shape)) for shape in shapes]


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def classifier() -> Net:
    """Two layers, cross-entropy, clipping by the norm of all gradients, Adam."""
    params = weights([5, 18], [18], [18, 3], [3])
    optimizer = tapec.optimizers.Adam(0.01)

    def step(x: Any, y: Any) -> Any:
        with tapec.GradientTape() as tape:
            hidden = tapec.nn.relu(x @ params[0] + params[1])
            logits = hidden @ params[2] + params[3]
            losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            loss = tapec.reduce_mean(losses)
        gradients, norm = tapec.clip_by_global_norm(tape.gradient(loss, params), 0.5)
        optimizer.apply_gradients(zip(gradients, params, strict=True))
        return loss, norm

    return params, step, [numbers(9, 5), np.arange(9, dtype=np.int32) % 3]


def critic() -> Net:
    """WGAN-GP: the slope of the critic between real and fake points is held near one."""
    params = weights([4, 17], [17], [17, 1])

    def score(x: Any) -> Any:
        return tapec.nn.leaky_relu(x @ params[0] + params[1], 0.2) @ params[2]

    def step(real: Any, fake: Any, mix: Any) -> Any:
        with tapec.GradientTape() as tape:
            between = mix * real + (1.0 - mix) * fake
            with tapec.GradientTape() as inner:
                inner.watch(between)
                value = score(between)
            slope = inner.gradient(value, between)
            steepness = tapec.sqrt(tapec.reduce_sum(tapec.square(slope), axis=1))
            penalty = tapec.reduce_mean(tapec.square(steepness - 1.0))
            gap = tapec.reduce_mean(score(fake)) - tapec.reduce_mean(score(real))
            loss = gap + 10.0 * penalty
        for w, g in zip(params, tape.gradient(loss, params), strict=True):
            if g is not None:
                w.assign_sub(0.01 * g)
        return loss, penalty

    return params, step, [numbers(6, 4), numbers(6, 4) + 1.0, np.linspace(0.0, 1.0, 6)[:, None]]


def equation() -> Net:
    """A physics-informed net: the second derivative by nested tapes."""
    params = weights([1, 16], [16], [16, 16], [16], [16, 1])

    def u(x: Any) -> Any:
        x = tapec.tanh(x @ params[0] + params[1])
        return tapec.tanh(x @ params[2] + params[3]) @ params[4]

    def step(x: Any, f: Any) -> Any:
        with tapec.GradientTape() as tape:
            with tapec.GradientTape() as outer:
                outer.watch(x)
                with tapec.GradientTape() as inner:
                    inner.watch(x)
                    y = u(x)
                slope = inner.gradient(y, x)
            bend = outer.gradient(slope, x)
            loss = tapec.reduce_mean(tapec.square(bend + f)) + tapec.reduce_sum(u(0.0 * x[:1]) ** 2)
        for w, g in zip(params, tape.gradient(loss, params), strict=True):
            w.assign_sub(0.01 * g)
        return loss

    x = np.linspace(-1.0, 1.0, 9)[:, None]
    return params, step, [tapec.constant(x), tapec.constant(np.sin(x))]


def q_learning() -> Net:
    """Deep Q-learning: the goal stands behind a stop_gradient, the frozen weights follow slowly."""
    params = weights([4, 16], [16, 2], [4, 16], [16, 2])

    def values(state: Any, first: Any, second: Any) -> Any:
        return tapec.tanh(state @ first) @ second

    def step(state: Any, action: Any, reward: Any, after: Any) -> Any:
        online, frozen = params[:2], params[2:]
        with tapec.GradientTape() as tape:
            best = tapec.reduce_max(values(after, *frozen), axis=1)
            goal = tapec.stop_gradient(reward + 0.99 * best)
            chosen = tapec.gather(values(state, *online), action, axis=1, batch_dims=1)
            loss = tapec.reduce_mean(tapec.square(chosen - goal))
        for w, g in zip(online, tape.gradient(loss, online), strict=True):
            w.assign_sub(0.1 * g)
        for old, new in zip(frozen, online, strict=True):
            old.assign(0.9 * old + 0.1 * new)
        return loss

    actions = np.arange(8, dtype=np.int32) % 2
    return params, step, [numbers(8, 4), actions, numbers(8), numbers(8, 4) * 0.5]


def attention() -> Net:
    """Softmax by rows between products, layer normalisation, weights used twice."""
    params = weights([6, 6], [6, 6], [6], [6])

    def normal(x: Any) -> Any:
        centred = x - tapec.reduce_mean(x, axis=1, keepdims=True)
        spread = tapec.reduce_mean(tapec.square(centred), axis=1, keepdims=True)
        return centred / tapec.sqrt(spread + 1e-3) * params[2] + params[3]

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            keys = x @ params[0]
            attended = tapec.nn.softmax(keys @ tapec.transpose(x @ params[1])) @ keys
            y = normal(attended + x) @ params[0]
            loss = tapec.reduce_mean(tapec.square(y - x))
        for w, g in zip(params, tape.gradient(loss, params), strict=True):
            w.assign_sub(0.1 * g)
        return loss, y

    return params, step, [numbers(11, 6)]


def swap() -> Net:
    """State that changes places, and moves from what it was."""
    params = weights([7, 3], [7, 3], [3, 3])

    def step(x: Any) -> Any:
        a, b, c = (p.read_value() for p in params)
        params[0].assign(b)
        params[1].assign(a + x @ c)
        params[2].assign(c - tapec.transpose(a) @ b)
        return a, params[2].read_value()

    return params, step, [numbers(7, 3)]


NETS = [classifier, critic, equation, q_learning, attention, swap]


def trained(net: Callable[[], Net], compiled: bool) -> list[Any]:
    """What three steps return, and the weights after them."""
    params, step, inputs = net()
    run: Any = tapec.compile(step) if compiled else step
    args = [tapec.constant(x) for x in inputs]
    found: list[Any] = []
    for _ in range(3):
        results = run(*args)
        found += results if isinstance(results, tuple) else [results]
    return [np.array(x.numpy()) for x in [*found, *params]]


def close(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.__name__)
def test_compiled_is_eager(net: Callable[[], Net]) -> None:
    close(trained(net, compiled=True), trained(net, compiled=False))


def traced(net: Callable[[], Net]) -> tuple[Module, list[Any]]:
    """The program of a step, and an array for each of its arguments."""
    _, step, inputs = net()
    compiled = tapec.compile(step)
    compiled(*map(tapec.constant, inputs))
    module = compiled.ir()
    rng = np.random.default_rng(5)
    arrays = [np.asarray(tapec.constant(x).numpy()) for x in inputs]
    for arg in module.entry.args[len(arrays) :]:
        shape, dtype = arg.tensor.static_shape, arg.tensor.dtype.numpy
        arrays.append(np.asarray(rng.uniform(0.1, 1.0, shape)).astype(dtype))
    return module, arrays


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.__name__)
def test_levels_and_passes(net: Callable[[], Net]) -> None:
    module, arrays = traced(net)
    tensors = clone_module(module)
    run_pipeline(tensors, parse_pipeline("inline,adjoint,prune,commit"))
    wanted = evaluate_module(tensors, arrays)
    for pipeline in VARIANTS.values():
        lowered = clone_module(module)
        run_pipeline(lowered, parse_pipeline(pipeline))
        verify(lowered)
        close(evaluate_module(lowered, arrays), wanted)
        close(run_native(lowered, arrays), wanted)
