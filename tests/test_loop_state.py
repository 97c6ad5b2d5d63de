"""Variables, tapes and arrays in branches and loops: eagerly and compiled they do the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_ways import Wrap, value
from test_loops import X, close

import tapec
from tapec import errors


def test_a_loop_of_train_steps(wrap: Wrap) -> None:
    w = tapec.Variable(2.0)

    def train(n: Any) -> Any:
        def body(i: Any, loss: Any) -> Any:
            with tapec.GradientTape() as tape:
                loss = (w - 5.0) ** 2
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return i + 1, loss

        _, last = tapec.while_loop(lambda i, loss: i < n, body, (0, 0.0))
        return last, w.read_value()

    last, after = wrap(train)(tapec.constant(3))
    assert float(after) == pytest.approx(5 - 3 * 0.8**3)
    assert float(w) == float(after)
    assert float(last) == pytest.approx((3 * 0.8**2) ** 2)


@pytest.mark.parametrize("most", [3.0, 99.0])
def test_rows_that_a_loop_does_not_come_to_have_no_gradient(wrap: Wrap, most: float) -> None:
    def f(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.constant(0.0)
            for row in x:
                y += row * row
                if y > most:
                    break
        return tape.gradient(y, x)

    x = np.arange(6, dtype=np.float32)
    want = 2.0 * x if most > 55.0 else [0.0, 2.0, 4.0, 0.0, 0.0, 0.0]
    assert value(wrap(f)(tapec.constant(x))).tolist() == list(want)


def test_an_optimizer_makes_its_state_in_a_branch(wrap: Wrap) -> None:
    w, optimizer = tapec.Variable(tapec.ones([2])), tapec.optimizers.Adam(0.1)

    def step(x: Any) -> Any:
        def update() -> Any:
            with tapec.GradientTape() as tape:
                loss = tapec.reduce_sum((w - x) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
            return loss

        return tapec.cond(tapec.reduce_sum(x) > 0.0, update, lambda: tapec.constant(0.0))

    wrapped = wrap(step)
    losses = [float(wrapped(tapec.constant(x))) for x in ([2.0, 2.0], [-1.0, 0.0], [2.0, 2.0])]
    np.testing.assert_allclose(losses, [2.0, 0.0, 2 * 0.9**2], rtol=1e-5)
    assert int(optimizer.iterations) == 2


def test_one_branch_assigns(wrap: Wrap) -> None:
    v, steps = tapec.Variable(1.0), tapec.Variable(0)

    def step(x: Any) -> Any:
        def jump() -> Any:
            v.assign(v * x)
            return x

        y = tapec.cond(x > 0.0, jump, lambda: -x)
        steps.assign_add(1)
        return y, v.read_value()

    wrapped = wrap(step)
    assert value(wrapped(tapec.constant(3.0))) == (3.0, 3.0)
    assert value(wrapped(tapec.constant(-2.0))) == (2.0, 3.0)
    assert int(steps) == 2


def test_gradients_reach_variables_that_a_body_reads(wrap: Wrap) -> None:
    w = tapec.Variable(2.0)

    def slope(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            y = tapec.foldl(lambda a, e: a * w + e, x)
        return tape.gradient(y, w)

    assert float(wrap(slope)(tapec.constant([1.0, 2.0, 3.0]))) == 6.0


@pytest.mark.parametrize("x", [1.5, -1.5])
def test_each_read_between_assignments_is_a_source(x: float) -> None:
    def run() -> tuple[Any, ...]:
        v, u = tapec.Variable(2.0), tapec.Variable(1.0)

        def slopes(x: Any) -> Any:
            def body(i: Any, s: Any) -> Any:
                s = s + v * x
                v.assign_add(1.0)
                s = s * tapec.cond(x > 0.0, lambda: u.assign_add(v) * 1.0, lambda: u * 1.0)
                return i + 1, s + v * v

            with tapec.GradientTape() as tape:
                _, s = tapec.while_loop(lambda i, s: i < 3, body, (0, 0.0))
            return s, *tape.gradient(s, [v, u])

        return slopes, v, u

    (eager, *before), (traced, *after) = run(), run()
    given = tapec.constant(x)
    close(tapec.compile(traced)(given), eager(given))
    assert [float(a) for a in after] == [float(b) for b in before]


def test_tapes_around_a_compiled_loop_that_assigns() -> None:
    v = tapec.Variable(2.0)

    @tapec.compile
    def total(x: Any) -> Any:
        def body(i: Any, s: Any) -> Any:
            s = s + v * x
            v.assign_add(1.0)
            return i + 1, s

        return tapec.while_loop(lambda i, s: i < 3, body, (0, 0.0))[1]

    with tapec.GradientTape() as tape:
        y = total(tapec.constant(1.5))
    assert (float(y), float(tape.gradient(y, v))) == (13.5, 4.5)


def test_a_gradient_of_the_code_around_asked_inside(wrap: Wrap) -> None:
    def slopes(x: Any) -> Any:
        with tapec.GradientTape() as outer:
            outer.watch(x)
            with tapec.GradientTape() as tape:
                tape.watch(x)
                y = tapec.reduce_sum(x**3)
            slope = tapec.cond(
                y > 0.0,
                lambda: tapec.cond(y > 1.0, lambda: 2.0 * tape.gradient(y, x), lambda: x),
                lambda: tapec.zeros([2]),
            )
        return slope, outer.gradient(slope, x)

    found = wrap(slopes)(tapec.constant([1.0, 2.0]))
    np.testing.assert_allclose(np.stack(found), [[6.0, 24.0], [12.0, 24.0]])


def test_a_tape_outside_hears_of_a_branch_as_a_whole() -> None:
    def slope(x: Any) -> Any:
        with tapec.GradientTape(persistent=True) as tape:
            tape.watch(x)
            return tapec.cond(x > 0.0, lambda: tape.gradient(x * x, x), lambda: x)

    with pytest.raises(errors.RuntimeError, match="open the tape inside"):
        tapec.compile(slope)(tapec.constant(1.0))


def test_what_no_path_reaches_has_no_gradient(wrap: Wrap) -> None:
    def slopes(x: Any, y: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch([x, y])
            z = tapec.scan(lambda a, e: a * e[0] + tapec.stop_gradient(e[1]), (x, y), 1.0)
        return tape.gradient(z, [x, y])

    to_x, to_y = wrap(slopes)(tapec.constant([1.0, 2.0]), tapec.constant([3.0, 4.0]))
    assert to_x is not None
    assert to_y is None


def test_tapes_outside_of_compiled_loops() -> None:
    x = tapec.constant(X)
    fold = tapec.compile(lambda x: tapec.scan(lambda a, e: tapec.sin(a) * e, x))

    def second(f: Any) -> Any:
        with tapec.GradientTape() as outer:
            outer.watch(x)
            with tapec.GradientTape() as inner:
                inner.watch(x)
                y = f(x)
            slope = inner.gradient(y, x)
        return slope, outer.gradient(slope, x)

    close(second(fold), second(fold.python_function))


def test_random_numbers_go_on_from_turn_to_turn() -> None:
    def draws(n: Any) -> Any:
        return tapec.map_fn(
            lambda _: tapec.random.uniform([2]), n, fn_output_signature=tapec.float32
        )

    tapec.random.set_seed(1)
    eager = draws(tapec.zeros([3]))
    tapec.random.set_seed(1)
    compiled = tapec.compile(draws)(tapec.zeros([3]))
    close(compiled, eager)
    assert len(np.unique(eager.numpy())) == 6


def test_mapped_over_rows(wrap: Wrap) -> None:
    rows = tapec.constant([[1.0, 1.0], [3.0, 0.1], [20.0, 1.0]])

    def doubled(row: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(row)
            (y,) = tapec.while_loop(
                lambda y: tapec.reduce_sum(y) < 10.0,
                lambda y: y * row,
                [row + 1.0],
                maximum_iterations=6,
            )
            z = tapec.cond(y[0] > 9.0, lambda: y * 3.0, lambda: y * y)
        return z, tape.gradient(z, row)

    each = [doubled(row) for row in rows]
    found = wrap(lambda rows: tapec.vectorized_map(doubled, rows))(rows)
    for part in (0, 1):
        np.testing.assert_allclose(found[part], np.stack([e[part] for e in each]), rtol=1e-6)


def test_arrays_that_a_loop_writes(wrap: Wrap) -> None:
    def powers(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            rows = tapec.TensorArray(tapec.float32, size=4, clear_after_read=False)
            _, rows = tapec.while_loop(
                lambda i, rows: i < 4,
                lambda i, rows: (i + 1, rows.write(i, rows.read(i - 1) * x)),
                (1, rows.write(0, x)),
            )
            y = rows.stack()
        return y, tape.gradient(y, x)

    def without_reading(x: Any) -> Any:
        rows = tapec.TensorArray(tapec.float32, size=3)
        return tapec.while_loop(
            lambda i, _: i < 3, lambda i, rows: (i + 1, rows.write(i, [x, x])), (0, rows)
        )[1].stack()

    assert value(wrap(without_reading)(tapec.constant(2.0))).tolist() == [[2.0, 2.0]] * 3
    y, slope = wrap(powers)(tapec.constant(2.0))
    assert value(y).tolist() == [2.0, 4.0, 8.0, 16.0]
    assert float(slope) == 1 + 4 + 12 + 32


def test_arrays_grow_where_the_index_is_known(wrap: Wrap) -> None:
    def rows(x: Any) -> Any:
        array = tapec.TensorArray(tapec.float32, size=0, dynamic_size=True)
        for i in range(3):
            array = array.write(i, x * float(i))
        return array.stack(), array.size()

    found, size = wrap(rows)(tapec.constant(2.0))
    assert value(found).tolist() == [0.0, 2.0, 4.0]
    assert int(size) == 3


@pytest.mark.parametrize("most", [4, "x"])
def test_arrays_grow_with_a_range_of_known_length(most: int | str) -> None:
    def rows(x: Any) -> Any:
        array = tapec.TensorArray(tapec.float32, size=0, dynamic_size=True)
        for i in tapec.range(tapec.shape(x)[0] if most == "x" else most):
            array = array.write(i, x[i] * x[0])
        return array.stack()

    compiled = tapec.compile(rows, dims={"x": ("N",)} if most == "x" else None)
    for count in (4, 6):
        x = tapec.constant(np.arange(1.0, count + 1.0, dtype=np.float32))
        assert value(compiled(x)).tolist() == value(rows(x)).tolist()


@pytest.mark.parametrize("size", [0, 3])
def test_no_element_of_a_growing_array_gets_lost(size: int) -> None:
    state = tapec.Variable(0.0)

    @tapec.compile
    def rows(n: Any) -> Any:
        array = tapec.TensorArray(tapec.float32, size=size, dynamic_size=True)
        state.assign_add(1.0)
        with tapec.GradientTape() as tape:
            for i in tapec.range(n):
                array = array.write(i, state * state)
            y = tapec.reduce_sum(array.stack())
        return y, tape.gradient(y, state)

    if size:
        assert [float(part) for part in rows(tapec.constant(3))] == [3.0, 6.0]
    with pytest.raises((errors.InvalidArgumentError, errors.TypeError), match="known") as found:
        rows(tapec.constant(4))
    assert "array.write(i" in str(found.value)
    assert float(state) == (1.0 if size else 0.0)
