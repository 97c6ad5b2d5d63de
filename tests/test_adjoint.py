"""The adjoint pass: nets against differences to third order, and what a gradient means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Value, clone_module
from tapec.ir.errors import NotDifferentiableError, PassError
from tapec.ir.evaluator import evaluate_module
from tapec.ir.location import Location
from tapec.ir.op import OPS, Cotangents, Op
from tapec.ir.parser import parse_module
from tapec.ir.printer import print_module
from tapec.ir.reachability import vjp_reads
from tapec.ir.types import F32, F64, I32, TensorType
from tapec.ir.verifier import verify
from tapec.passes import adjoint
from tapec.passes.pipeline import parse_pipeline, run_pipeline

SCALAR = TensorType(F64)
PAIR = TensorType(F64, (2,))
SIMPLIFIED = "inline,canonicalize,cse,dce,adjoint,prune,canonicalize,cse,dce"


def gradient(
    b: Builder,
    targets: Value | Sequence[Value],
    sources: Sequence[Value],
    *,
    seeds: Sequence[Value] = (),
    stops: Sequence[Value] = (),
) -> tuple[Value, ...]:
    """The cotangents of the sources, always as a tuple."""
    targets = (targets,) if isinstance(targets, Value) else targets
    segments = (len(targets), len(seeds), len(sources), len(stops))
    result = b.gradient(*targets, *seeds, *sources, *stops, segments=segments)
    return result if isinstance(result, tuple) else (result,)


# ---- nets


def typed(value: Any) -> Value:
    """A value from a Builder, whose methods have no types."""
    assert isinstance(value, Value)
    return value


def dense(b: Builder, x: Value, w: Value, bias: Value) -> Value:
    y = b.matmul(x, w)
    return typed(b.add(y, b.broadcast_to(bias, y.tensor.shape)))


def total(b: Builder, x: Value) -> Value:
    return typed(b.sum(x, axes=tuple(range(x.tensor.rank))))


def mean_square(b: Builder, x: Value) -> Value:
    count = b.full(float(x.tensor.size), SCALAR)  # type: ignore[arg-type]
    return typed(b.div(total(b, b.mul(x, x)), count))


def mlp(b: Builder, x: Value, w1: Value, b1: Value, w2: Value, b2: Value) -> Value:
    """Regression by one hidden layer of tanh."""
    hidden = b.tanh(dense(b, x, w1, b1))
    return mean_square(b, dense(b, hidden, w2, b2))


def wgan_gp(b: Builder, x: Value, w1: Value, b1: Value, w2: Value, b2: Value) -> Value:
    """Wasserstein critic: its score, and how far the norm of its slope is from 1."""
    score = dense(b, b.tanh(dense(b, x, w1, b1)), w2, b2)
    (slope,) = gradient(b, score, [x])
    norm = b.sqrt(b.sum(b.mul(slope, slope), axes=(1,)))
    penalty = mean_square(b, b.sub(norm, b.full_like(1.0, norm)))
    return typed(b.add(total(b, score), penalty))


def pinn(b: Builder, x: Value, w1: Value, b1: Value, w2: Value, b2: Value) -> Value:
    """Residual of ``u'' + u = 0`` in the first coordinate: two derivatives inside the loss."""
    u = dense(b, b.tanh(dense(b, x, w1, b1)), w2, b2)
    (first,) = gradient(b, u, [x])
    (second,) = gradient(b, first, [x])
    return mean_square(b, b.add(b.sum(second, axes=(1,)), b.sum(u, axes=(1,))))


SHAPES: dict[str, tuple[int, ...]] = {
    "x": (3, 2),
    "w1": (2, 4),
    "b1": (4,),
    "w2": (4, 1),
    "b2": (1,),
}
Net = Callable[..., Value]


def arrays(seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [np.asarray(rng.normal(0, 0.7, shape)) for shape in SHAPES.values()]


def contracted(b: Builder, values: Sequence[Value]) -> Value:
    """A scalar that depends on every element of every value, each with its own weight."""
    terms = []
    for i, value in enumerate(values):
        shape = value.tensor.static_shape
        weights = np.cos(np.arange(np.prod(shape)).reshape(shape) + i)
        terms.append(total(b, b.mul(value, b.dense(weights, F64))))
    result = terms[0]
    for term in terms[1:]:
        result = b.add(result, term)
    return result


def derivatives(net: Net, order: int) -> Module:
    """``@f(x, w1, …) -> (s, ds/dw1, …)`` where s contracts the derivatives of ``order - 1``."""
    function = Function("f", [TensorType(F64, s) for s in SHAPES.values()], SHAPES)
    b = Builder(function.block)
    _, *weights = function.args
    scalar = net(b, *function.args)
    for _ in range(order - 1):
        scalar = contracted(b, gradient(b, scalar, weights))
    b.emit("return", scalar, *gradient(b, scalar, weights))
    return Module([function])


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("net", [mlp, wgan_gp, pinn])
@pytest.mark.parametrize("pipeline", ["adjoint", SIMPLIFIED], ids=["adjoint", "simplified"])
def test_net_against_differences(net: Net, order: int, pipeline: str) -> None:
    """The n-th derivative along a random direction, by one difference of the one below it."""
    module = derivatives(net, order)
    verify(module)
    run_pipeline(module, parse_pipeline(pipeline))
    verify(module)
    x, *weights = arrays()
    directions = arrays(1)[1:]
    _, *slopes = evaluate_module(module, [x, *weights])
    step = 1e-5
    ends = [
        evaluate_module(
            module, [x, *(w + sign * step * d for w, d in zip(weights, directions, strict=True))]
        )[0]
        for sign in (1, -1)
    ]
    expected = (ends[0] - ends[1]) / (2 * step)
    found = sum(np.vdot(s, d) for s, d in zip(slopes, directions, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_same_program_same_text() -> None:
    texts = set()
    for _ in range(2):
        module = derivatives(wgan_gp, 2)
        adjoint.run(module)
        texts.add(print_module(module, full_constants=True))
    assert len(texts) == 1


# ---- what a gradient means


def evaluated(function: Function, *values: Any) -> list[Any]:
    module = Module([function])
    verify(module)
    assert adjoint.run(module)
    verify(module)
    return evaluate_module(module, [np.asarray(v, float) for v in values])


def test_a_target_that_is_a_source() -> None:
    function = Function("f", [PAIR], ["x"])
    b = Builder(function.block)
    (x,) = function.args
    b.emit("return", *gradient(b, x, [x, x]))
    for result in evaluated(function, [3, 4]):
        np.testing.assert_array_equal(result, [1, 1])


def test_targets_add_up() -> None:
    function = Function("f", [PAIR, PAIR], ["x", "seed"])
    b = Builder(function.block)
    x, seed = function.args
    square = b.mul(x, x)
    ones = b.full_like(1.0, x)
    found = gradient(b, [square, x, square], [x], seeds=[seed, ones, ones])
    b.emit("return", *found)
    (result,) = evaluated(function, [3, 4], [10, 100])
    np.testing.assert_array_equal(result, [6 * 11 + 1, 8 * 101 + 1])


def test_a_source_does_not_end_the_walk() -> None:
    function = Function("f", [SCALAR], ["x"])
    b = Builder(function.block)
    (x,) = function.args
    middle = b.watch(b.mul(x, x))
    b.emit("return", *gradient(b, b.mul(middle, middle), [x, middle]))
    assert evaluated(function, 3) == [4 * 27, 2 * 9]


def test_a_stop_ends_the_walk_even_if_it_is_a_source() -> None:
    function = Function("f", [SCALAR], ["x"])
    b = Builder(function.block)
    (x,) = function.args
    middle = b.watch(b.mul(x, x))
    target = b.mul(middle, x)
    b.emit("return", *gradient(b, target, [x, middle], stops=[middle]))
    assert evaluated(function, 3) == [9, 3]


def test_a_target_that_is_a_stop_has_no_gradient() -> None:
    function = Function("f", [SCALAR], ["x"])
    b = Builder(function.block)
    (x,) = function.args
    y = b.watch(b.mul(x, x))
    assert adjoint.reachable([y], [x], [y]) == [False]
    b.emit("return", *gradient(b, y, [x], stops=[y]))
    assert evaluated(function, 3) == [0]


def test_two_gradients_share_nothing() -> None:
    """A second gradient of the same target starts over; cotangents of the first do not leak in."""
    function = Function("f", [SCALAR], ["x"])
    b = Builder(function.block)
    (x,) = function.args
    y = b.mul(x, x)
    b.emit("return", *gradient(b, y, [x]), *gradient(b, y, [x]))
    assert evaluated(function, 3) == [6, 6]


def test_written_operations_know_the_users_line() -> None:
    function = Function("f", [SCALAR], ["x"])
    b = Builder(function.block)
    (x,) = function.args
    with b.at(Location("model.py", 7)):
        y = b.exp(x)
    with b.at(Location("train.py", 30)):
        (found,) = gradient(b, y, [x])
    b.emit("return", found)
    adjoint.run(Module([function]))
    places = [op.location and (op.name, op.location.line) for op in function.block.ops]
    assert places == [("exp", 7), ("constant", 30), ("mul", 7), None]


def test_dims_that_a_guard_holds_equal() -> None:
    """Cotangents have the type of their primal even where that is written otherwise."""
    module = parse_module("""
        func @f(%x: f64[N], %y: f64[M]) -> (f64[N], f64[M]) where N == M {
          %0 = mul %x, %y : f64[N]
          %1, %2 = gradient %0, %x, %y {segments = [1, 0, 2, 0]} : f64[N], f64[M]
          return %1, %2
        }""")
    adjoint.run(module)
    verify(module)
    found = evaluate_module(module, [np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    np.testing.assert_array_equal(found, [[3, 4], [1, 2]])


def test_no_derivative_names_the_operation() -> None:
    module = parse_module("""
        func @f(%x: f64) -> f64 {
          %0 = call %x {callee = "g"} : f64
          %1 = gradient %0, %x {segments = [1, 0, 1, 0]} : f64
          return %1
        }
        func @g(%x: f64) -> f64 {
          return %x
        }""")
    before = clone_module(module)
    with pytest.raises(NotDifferentiableError, match="the call of @g"):
        adjoint.run(module)
    assert len(module.entry.block.ops) >= len(before.entry.block.ops)


class WrongRule(Op):
    """An operation whose rule gives a cotangent of another type; it has no name in the registry."""

    def infer(self, *types: Any, **attrs: Any) -> TensorType:
        return types[0]  # type: ignore[no-any-return]

    def vjp(self, b: Builder, op: Any, *cts: Any) -> Cotangents:
        return (b.cast(cts[0], dtype=F32),)


def test_a_wrong_rule_is_found_out() -> None:
    function = Function("f", [PAIR], ["x"])
    b = Builder(function.block)
    y = b.emit(WrongRule(), *function.args)
    b.emit("return", *gradient(b, y, function.args))
    with pytest.raises(PassError, match=r"the cotangent of a f64\[2\] came out as f32\[2\]"):
        adjoint.run(Module([function]))


# ---- questions of the tape


def reach(build: Callable[[Builder, Value, Value], Value]) -> list[bool]:
    """Which of two arguments the value that ``build`` makes of them reaches."""
    function = Function("f", [PAIR, PAIR], ["x", "y"])
    b = Builder(function.block)
    target = build(b, *function.args)
    before = [(op.name, op.operands) for op in function.block.ops]
    users = {v: dict(v.users) for v in function.args}
    answer = adjoint.reachable([target], function.args)
    assert before == [(op.name, op.operands) for op in function.block.ops]
    assert users == {v: dict(v.users) for v in function.args}
    return answer


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda b, x, y: b.mul(x, y), [True, True]),
        (lambda b, x, y: b.mul(x, b.stop_gradient(y)), [True, False]),
        (lambda b, x, y: b.mul(b.read(x), y), [False, True]),
        (lambda b, x, y: b.mul(b.watch(x), y), [True, True]),
        (lambda b, x, y: b.add(x, b.floor(y)), [True, False]),
        (lambda b, x, y: b.where(b.lt(x, y), y, y), [False, True]),
        (lambda b, x, y: b.cast(b.cast(x, dtype=I32), dtype=F64), [False, False]),
        (lambda b, x, y: x, [True, False]),
        # The slope of x*x is 2x, that of x*y by x is y alone.
        (lambda b, x, y: gradient(b, b.mul(b.mul(x, x), y), [x])[0], [True, True]),
        (lambda b, x, y: gradient(b, b.mul(x, y), [x])[0], [False, True]),
        (lambda b, x, y: gradient(b, b.add(x, y), [x])[0], [False, False]),
        (lambda b, x, y: gradient(b, b.stop_gradient(b.mul(x, y)), [x])[0], [False, False]),
    ],
)
def test_reachable(build: Callable[[Builder, Value, Value], Value], expected: list[bool]) -> None:
    assert reach(build) == expected


def test_reachable_respects_stops() -> None:
    function = Function("f", [PAIR], ["x"])
    b = Builder(function.block)
    (x,) = function.args
    middle = b.exp(x)
    target = b.mul(middle, middle)
    assert adjoint.reachable([target], [x, middle], [middle]) == [False, True]
    assert adjoint.reachable([target], [x, middle]) == [True, True]


@pytest.mark.parametrize(
    ("name", "count", "reads"),
    [
        ("add", 2, set()),
        ("neg", 1, set()),
        ("mul", 2, {0, 1}),
        ("exp", 1, {~0}),
        ("sin", 1, {0}),
        ("watch", 1, set()),
        ("floor", 1, set()),
    ],
)
def test_what_a_rule_reads(name: str, count: int, reads: set[int]) -> None:
    assert vjp_reads(OPS[name], [PAIR] * count, {}) == reads


def test_what_a_rule_reads_for_some_operands() -> None:
    assert vjp_reads(OPS["mul"], [PAIR] * 2, {}, active={0}) == {1}
    assert vjp_reads(OPS["mul"], [PAIR] * 2, {}, active=()) == set()


def test_shapes_are_not_read() -> None:
    """To reshape a cotangent back takes the type of the operand, not its elements."""
    assert vjp_reads(OPS["reshape"], [PAIR], {"shape": (1, 2)}) == set()


def test_a_gradient_goes_through_what_has_no_elements() -> None:
    """The mean of nothing is NaN, and what is multiplied by it has a gradient of NaN, evaluated or compiled."""

    def step(x: Any, g: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(g)
            y = tapec.reduce_sum(x * (g * tapec.reduce_mean(x)))
        return tape.gradient(y, g)

    given = tapec.zeros([0]), tapec.constant(1.0)
    for found in (step(*given), tapec.compile(step)(*given)):
        assert np.isnan(found.numpy())
