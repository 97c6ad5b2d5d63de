"""Branches and loops of compiled functions: the same values and gradients as the plain Python that eager code runs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from both_ways import Wrap, value
from hypothesis import given, settings
from hypothesis import strategies as st
from traced import traced_results

import tapec
from tapec import errors
from tapec.debugging import check_gradients
from tapec.passes import adjoint
from tapec.structure import flatten

Tree = Any
State = tuple[tapec.Tensor, tapec.Tensor]
X, Y, W = np.array([0.3, -0.4, 0.9]), np.array(0.7), np.array([1.1, 0.8, -0.6])
ROWS = tapec.constant(np.array([[0.1, 0.2, -0.3], [0.4, -0.5, 0.6]]))

# ---- programs of branches and loops within each other

STEPS: dict[str, Callable[..., State]] = {
    "mix": lambda x, y, w: (tapec.sin(x) * w + y, y),
    "sum": lambda x, y, w: (x, tapec.tanh(y + tapec.reduce_mean(x * x))),
    "trade": lambda x, y, w: (x * y, tapec.reduce_sum(x) * 0.3),
    "keep": lambda x, y, w: (tapec.stop_gradient(x) * 0.5 + w, y),
}


def run(tree: Tree, x: tapec.Tensor, y: tapec.Tensor, w: tapec.Tensor) -> State:
    """What a tree of branches, loops and steps makes of two values."""
    if isinstance(tree, str):
        return STEPS[tree](x, y, w)
    kind, first, second, number = tree
    if kind == "then":
        return run(second, *run(first, x, y, w), w)
    if kind == "cond":
        chosen: State = tapec.cond(
            y > number * 0.3, lambda: run(first, x, y, w), lambda: run(second, x, y, w)
        )
        return chosen
    if kind == "while":
        _, x, y = tapec.while_loop(
            lambda i, x, y: i < number, lambda i, x, y: (i + 1, *run(first, x, y, w)), (0, x, y)
        )
        return run(second, x, y, w)
    xs, ys = tapec.scan(
        lambda state, row: run(first, state[0] + row, state[1], w),
        ROWS[: max(number, 1)],
        (x, y),
        reverse=number == 2,
    )
    return run(second, xs[0] - xs[-1], tapec.reduce_mean(ys), w)


TREES = st.recursive(
    st.sampled_from(sorted(STEPS)),
    lambda t: st.tuples(
        st.sampled_from(["then", "cond", "while", "scan"]), t, t, st.integers(0, 2)
    ),
    max_leaves=5,
)


def loss_of(tree: Tree) -> Callable[..., tapec.Tensor]:
    def loss(x: tapec.Tensor, y: tapec.Tensor, w: tapec.Tensor) -> tapec.Tensor:
        x, y = run(tree, x, y, w)
        return tapec.reduce_sum(x * x) + y

    return loss


def derivatives(loss: Callable[..., tapec.Tensor]) -> Callable[..., Any]:
    """The loss, its gradient, and the gradient of that one's square."""

    def all_of(x: tapec.Tensor, y: tapec.Tensor, w: tapec.Tensor) -> Any:
        with tapec.GradientTape() as outer:
            outer.watch([x, y, w])
            with tapec.GradientTape() as inner:
                inner.watch([x, y, w])
                found = loss(x, y, w)
            first = inner.gradient(found, [x, y, w], unconnected_gradients="zero")
            size = tapec.add_n([tapec.reduce_sum(g * g) for g in first])
        second = outer.gradient(size, [x, y, w], unconnected_gradients="zero")
        return found, first, second

    return all_of


def close(found: Any, wanted: Any) -> None:
    for a, b in zip(flatten(found)[0], flatten(wanted)[0], strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-9, atol=1e-11)


@settings(max_examples=settings().max_examples // 8)
@given(TREES)
def test_any_program(tree: Tree) -> None:
    loss = loss_of(tree)
    inputs = [tapec.constant(a) for a in (X, Y, W)]
    eager = loss(*inputs)
    close(traced_results(loss, (X, Y, W)), [eager])
    compiled = tapec.compile(derivatives(loss))
    close(compiled(*inputs), derivatives(loss)(*inputs))


NESTED = ("while", ("scan", ("cond", "mix", "trade", 1), "sum", 2), ("cond", "trade", "sum", 0), 2)


@pytest.mark.parametrize("tree", [NESTED, ("scan", "mix", "sum", 2), ("while", "trade", "mix", 2)])
def test_gradients_are_differences(tree: Tree) -> None:
    loss = tapec.compile(loss_of(tree))
    check_gradients(loss, (X, Y, W), rtol=1e-6, atol=1e-8)
    slope = derivatives(loss_of(tree))
    size = tapec.compile(lambda *v: tapec.add_n([tapec.reduce_sum(g * g) for g in slope(*v)[1]]))
    check_gradients(size, (X, Y, W), rtol=1e-5, atol=1e-7)


def test_they_are_native() -> None:
    step = tapec.compile(derivatives(loss_of(NESTED)))
    step(*map(tapec.constant, (X, Y, W)))
    assert step.programs[0].executable.kernels > 0


# ---- how often


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_trips_that_only_the_run_knows(wrap: Wrap, trips: int) -> None:
    def power(x: Any, n: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            _, y = tapec.while_loop(
                lambda i, y: i < n,
                lambda i, y: (i + 1, y * x),
                (0, tapec.ones_like(x)),
                maximum_iterations=8,
            )
        return y, tape.gradient(y, x)

    y, slope = wrap(power)(tapec.constant(2.0), tapec.constant(trips))
    assert float(y) == 2.0**trips
    assert (0.0 if slope is None else float(slope)) == trips * 2.0 ** max(trips - 1, 0)


@pytest.mark.parametrize("limit", [0, 3])
def test_a_limit_that_only_the_run_knows(wrap: Wrap, limit: int) -> None:
    def count(limit: Any) -> Any:
        return tapec.while_loop(lambda i: True, lambda i: i + 1, [0], maximum_iterations=limit)

    assert value(wrap(count)(tapec.constant(limit))) == [limit]


def bounds() -> dict[str, tuple[Any, Any]]:
    """Conditions on a counter, with what a turn makes of it."""
    return {
        "below": (lambda i: i < 3, lambda i: i + 1),
        "up to": (lambda i: i <= 4, lambda i: 2 + i),
        "down": (lambda i: i > -3, lambda i: i - 1),
        "the other way round": (lambda i: tapec.constant(3) > i, lambda i: i + 1),
        "both": (lambda i: tapec.logical_and(i < 9, i < 2), lambda i: i + 1),
    }


@pytest.mark.parametrize("name", bounds())
def test_a_counter_bounds_the_derivative(name: str, wrap: Wrap) -> None:
    condition, step = bounds()[name]

    def power(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            _, y = tapec.while_loop(
                lambda i, y: condition(i), lambda i, y: (step(i), y * x), (0, x)
            )
        return tape.gradient(y, x)

    trips = 2 if name == "both" else 3
    assert float(wrap(power)(tapec.constant(2.0))) == (trips + 1) * 2.0**trips


@pytest.mark.parametrize("base", [3.0, 1.01])
def test_derivatives_of_loops_that_nothing_bounds(base: float) -> None:
    def power(x: Any) -> Any:
        with tapec.GradientTape() as outer:
            outer.watch(x)
            with tapec.GradientTape() as inner:
                inner.watch(x)
                (y,) = tapec.while_loop(lambda y: y < 100.0, lambda y: y * x, [x])
            slope = inner.gradient(y, x)
        return y, slope, outer.gradient(slope, x)

    n = int(np.ceil(np.log(100) / np.log(base)))
    expected = base**n, n * base ** (n - 1), n * (n - 1) * base ** (n - 2)
    found = tapec.compile(power)(tapec.constant(base, tapec.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_any_number_of_turns_of_a_loop_that_nothing_bounds() -> None:
    """One less, as many and one more than are kept at once, in parts, and in parts of parts."""

    @tapec.compile
    def power(x: Any, n: Any) -> Any:
        with tapec.GradientTape() as outer:
            outer.watch(x)
            with tapec.GradientTape() as inner:
                inner.watch(x)
                i, y = 0, tapec.ones_like(x)
                while i < n:
                    i, y = i + 1, y * x
            slope = inner.gradient(y, x)
        return slope, outer.gradient(slope, x)

    for n in (0, 1, 255, 256, 257, 512, 65_535, 65_536, 65_537, 131_073):
        found = power(tapec.constant(1.0, tapec.float64), tapec.constant(n))
        np.testing.assert_array_equal(found, (n, n * (n - 1)), str(n))
    assert len(power.programs) == 1


def test_programs_of_higher_derivatives_grow_by_a_factor_only() -> None:
    """A loop in a loop that nothing bounds: each order makes less than ten of one operation."""

    def nested(x: Any) -> Any:
        y = x
        while y < 100.0:
            j = 0
            while j < 3 and y < 50.0:
                y, j = tapec.sin(y) * x + y + 1.0, j + 1
            y = y * 1.5
        return y

    def derivative(order: int, x: Any) -> Any:
        if order == 0:
            return nested(x)
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = derivative(order - 1, x)
        return tape.gradient(y, x)

    sizes = []
    for order in (1, 2, 3):
        module = tapec.compile(lambda x, order=order: derivative(order, x)).trace(
            tapec.TensorSpec([])
        )
        adjoint.run(module)
        sizes.append(sum(1 for _ in module.entry.walk()))
    assert sizes[0] < 500
    assert max(b / a for a, b in itertools.pairwise(sizes)) < 10


def test_derivatives_of_unbounded_loops_for_many_rows() -> None:
    def slope(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            (y,) = tapec.while_loop(
                lambda y: tapec.reduce_sum(y) < 100.0, lambda y: y * x, [x + 1.0]
            )
        return tape.gradient(y, x)

    rows = tapec.constant([[2.0, 1.5], [20.0, 101.0], [1.02, 0.5]])
    each = np.stack([slope(row) for row in rows])
    mapped = tapec.compile(lambda rows: tapec.vectorized_map(slope, rows))
    np.testing.assert_allclose(mapped(rows), each, rtol=1e-4)


def test_what_an_unbounded_loop_keeps_is_planned_and_reported() -> None:
    """Nothing grows: 1,000 turns take the memory of three, and a call's report has it."""

    @tapec.compile
    def slope(x: Any, step: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            (y,) = tapec.while_loop(
                lambda y: tapec.reduce_max(y) < 10.0, lambda y: tapec.sqrt(y * y + step), [x]
            )
        return tape.gradient(y, x)

    one = tapec.ones([100])
    for turns, step in ((3, 33.0), (1000, 0.099)):
        np.testing.assert_allclose(
            slope(one, step), np.full(100, 0.1), rtol=1e-2, err_msg=str(turns)
        )
    assert len(slope.programs) == 1
    memory = slope.memory()
    assert memory.arena == slope.programs[0].executable.arena_bytes
    assert any(str(buffer.type) == "f32[256,100]" for buffer in memory.buffers)


def test_many_large_values_are_not_all_kept() -> None:
    def decay(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            _, y = tapec.while_loop(
                lambda i, y: tapec.reduce_max(y) > 0.5,
                lambda i, y: (i + 1, y * 0.5),
                (0, x),
                maximum_iterations=1_000_000,
            )
        return tape.gradient(y, x)

    compiled = tapec.compile(decay)
    np.testing.assert_allclose(compiled(tapec.ones([1000])), np.full(1000, 0.5))
    arena = compiled.programs[0].executable.arena_bytes
    assert isinstance(arena, int)
    assert arena < 1 << 26


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (1, 2)])
def test_rows_and_elements_that_are_not_there(wrap: Wrap, shape: tuple[int, ...]) -> None:
    def sums(rows: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(rows)
            total = tapec.scan(lambda a, r: a + r * r, rows, tapec.zeros(shape[1:]))
        return total, tape.gradient(total, rows)

    rows = np.arange(float(np.prod(shape)), dtype=np.float32).reshape(shape)
    total, slope = wrap(sums)(tapec.constant(rows))
    assert total.shape == shape
    np.testing.assert_allclose(total, np.cumsum(rows * rows, 0))
    left = np.arange(shape[0], 0, -1)[:, None]
    expected = np.zeros(shape) if slope is None else slope
    np.testing.assert_allclose(expected, 2 * rows * left)


# ---- checks


def test_checks_inside_raise_and_leave_the_state(wrap: Wrap) -> None:
    total = tapec.Variable(0.0)

    def add_up(x: Any) -> Any:
        def step(a: Any, e: Any) -> Any:
            tapec.debugging.assert_less(e, 10.0, message="too much")
            total.assign_add(e)
            return tapec.cond(
                e > 0.0, lambda: tapec.debugging.check_numerics(a / e, "quotient"), lambda: -a
            )

        return tapec.foldl(step, x, 1.0)

    wrapped = wrap(add_up)
    assert float(wrapped(tapec.constant([2.0, -1.0, 4.0]))) == -0.125
    assert float(total) == 5.0
    with pytest.raises(errors.InvalidArgumentError, match="quotient") as caught:
        wrapped(tapec.constant([1e-40, 1e-40]))
    assert "check_numerics(a / e" in str(caught.value)
    if wrap is tapec.compile:
        assert float(total) == 5.0
    with pytest.raises(errors.InvalidArgumentError, match="too much"):
        wrapped(tapec.constant([1.0, 20.0]))


def test_cases_that_the_run_decides(wrap: Wrap) -> None:
    def choose(x: Any, exclusive: bool) -> Any:
        pairs = [(x > 2, lambda: 1), (x > 1, lambda: 2)]
        return tapec.case(pairs, exclusive=exclusive)

    for exclusive in (False, True):
        wrapped = wrap(lambda x, e=exclusive: choose(x, e))
        assert int(wrapped(tapec.constant(2))) == 2
        with pytest.raises(errors.InvalidArgumentError, match="None of conditions"):
            wrapped(tapec.constant(0))
        if exclusive:
            with pytest.raises(errors.InvalidArgumentError, match="exclusive"):
                wrapped(tapec.constant(3))
        else:
            assert int(wrapped(tapec.constant(3))) == 1


# ---- what does not fit


@pytest.mark.parametrize(
    ("step", "kind", "says"),
    [
        (
            lambda x: tapec.cond(x[0] > 0, lambda: x, lambda: tapec.cast(x, "int32")),
            "TypeError",
            "cast",
        ),
        (
            lambda x: tapec.map_fn(lambda e: tapec.cond(e > 0, lambda: x, lambda: e), x),
            "ValueError",
            "false_fn",
        ),
        (lambda x: tapec.cond(x[0] > 0, lambda: x, lambda: (x, x)), "ValueError", "structures"),
        (lambda x: tapec.cond(x[0] > 0, lambda: x, lambda: None), "ValueError", "structures"),
        (lambda x: tapec.cond(x > 0, lambda: x, lambda: x), "ValueError", "one element"),
        (lambda x: tapec.scan(lambda a, e: [a, a], x), "ValueError", "scan"),
        (lambda x: tapec.foldl(lambda a, e: x, x, x[0]), "ValueError", "foldl"),
        (
            lambda x: tapec.map_fn(lambda e: tapec.Variable(1.0) * e, x),
            "ValueError",
            "at each call",
        ),
    ],
)
def test_what_does_not_fit_is_refused(step: Any, kind: str, says: str) -> None:
    with pytest.raises(getattr(errors, kind), match=says) as caught:
        tapec.compile(step)(tapec.constant([1.0, 2.0]))
    assert "test_loops.py" in str(caught.value)


def test_python_control_flow_names_the_remedy() -> None:
    step = tapec.compile(lambda x: x if x > 0 else -x, autograph=False)
    with pytest.raises(
        errors.OperatorNotAllowedInGraphError, match=r"use tapec\.cond, tapec\.while_loop"
    ):
        step(tapec.constant(1.0))


def test_a_step_of_nothing_takes_no_turns() -> None:
    """It is refused at once: as many turns as there are numbers would take seconds."""

    def f(x: Any, step: Any) -> Any:
        for _ in tapec.range(0, 4, step):
            x = x + 1.0
        return x

    start = time.process_time()
    with pytest.raises(errors.InvalidArgumentError, match="Requires delta != 0"):
        tapec.compile(f)(tapec.constant(1.0), tapec.constant(0.0))
    assert time.process_time() - start < 4
