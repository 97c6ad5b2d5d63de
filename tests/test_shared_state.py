"""Variables and streams of random numbers that compiled functions find, get, make, share and replace."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

import tapec

ONE = tapec.constant(1.0)


def test_an_argument_may_be_what_the_function_has_found() -> None:
    v, w = tapec.Variable(1.0), tapec.Variable(5.0)

    def step(a: Any) -> Any:
        a.assign_add(1.0)
        v.assign_add(10.0)
        return a + v

    f = tapec.compile(step)
    assert float(f(v)) == 24.0
    assert float(v) == 12.0
    assert float(f(w)) == 28.0
    assert (float(v), float(w)) == (22.0, 6.0)


def test_two_arguments_may_be_one_variable() -> None:
    u, w = tapec.Variable(1.0), tapec.Variable(5.0)

    @tapec.compile
    def f(a: Any, b: Any) -> Any:
        a.assign_add(1.0)
        b.assign(b * 2.0)
        return a + b

    @tapec.compile
    def over(variables: Any) -> Any:
        for v in variables:
            v.assign(v * 2.0)
        return variables[0] + variables[1]

    assert float(f(u, u)) == 8.0
    assert float(f(u, w)) == 15.0
    assert float(f(u, u)) == 24.0
    assert float(over([u, u])) == 96.0
    assert float(over([u, w])) == 96.0 + 20.0


def test_functions_share_variables_in_turn_and_nested() -> None:
    v = tapec.Variable(0.0)
    add = tapec.compile(lambda x: v.assign_add(x) + 0.0)
    double = tapec.compile(lambda: v.assign(v * 2.0) + 0.0)

    @tapec.compile
    def both(x: Any) -> Any:
        add(x)
        double()
        return add(x)

    assert [float(r) for r in (add(ONE), double(), add(ONE), double())] == [1, 2, 3, 6]
    assert float(both(ONE)) == 15.0
    assert [float(r) for r in (double(), both(ONE))] == [30.0, 63.0]
    assert float(v) == 63.0


def test_a_variable_made_once_on_a_function_or_an_object_and_again_when_it_is_gone() -> None:
    class Counter:
        value: Any = None

    counter = Counter()

    def counted(x: Any) -> Any:
        if not hasattr(count, "calls"):
            count.calls = tapec.Variable(0.0)
        if counter.value is None:
            counter.value = tapec.Variable(10.0)
        return count.calls.assign_add(x) + counter.value.assign_add(x)

    count: Any = tapec.compile(counted)
    assert [float(count(ONE)) for _ in range(2)] == [12.0, 14.0]
    counter.value = None
    assert [float(count(ONE)) for _ in range(2)] == [14.0, 16.0]


def test_a_variable_lives_as_long_as_the_function() -> None:
    def made() -> Any:
        v = tapec.Variable(3.0)
        return tapec.compile(lambda x: v.assign_add(x) + 0.0)

    f = made()
    gc.collect()
    assert [float(f(ONE)) for _ in range(2)] == [4.0, 5.0]


def test_a_model_that_grows_and_an_optimizer_that_is_replaced() -> None:
    class Model(tapec.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = [tapec.Variable(1.0), tapec.Variable(2.0)]
            self.optimizer: Any = tapec.optimizers.Adam(0.1)

        def step(self, x: Any) -> Any:
            with tapec.GradientTape() as tape:
                loss = tapec.add_n([w * w * x for w in self.weights])
            gradients = tape.gradient(loss, self.weights)
            self.optimizer.apply_gradients(zip(gradients, self.weights, strict=True))
            return loss

    eager, compiled = Model(), Model()
    step = tapec.compile(compiled.step)

    def same(count: int) -> None:
        for _ in range(count):
            assert_allclose(float(step(ONE)), float(eager.step(ONE)), rtol=1e-5)

    same(3)
    for model in (eager, compiled):
        model.weights.append(tapec.Variable(3.0))
    same(2)
    for model in (eager, compiled):
        model.optimizer.learning_rate = 0.5
    traced = len(step.programs)
    same(2)
    assert len(step.programs) == traced
    for model in (eager, compiled):
        model.optimizer = tapec.optimizers.SGD(0.25, momentum=0.5)
    same(2)
    assert_allclose(
        [w.numpy() for w in compiled.weights], [w.numpy() for w in eager.weights], rtol=1e-5
    )


def test_a_learning_rate_that_a_function_of_python_gives() -> None:
    rate = 0.5
    optimizer, v = tapec.optimizers.SGD(lambda: rate), tapec.Variable(1.0)

    @tapec.compile
    def step() -> None:
        with tapec.GradientTape() as tape:
            y = v * v
        optimizer.apply_gradients([(tape.gradient(y, v), v)])

    step()
    assert float(v) == 0.0
    v.assign(1.0)
    rate = 0.25
    step()
    assert float(v) == 0.5


def test_streams_go_on_start_again_and_are_replaced() -> None:
    stream = tapec.random.Generator.from_seed(1)

    @tapec.compile
    def draw() -> Any:
        return stream.normal([2]), tapec.random.uniform([])

    first, second = draw(), draw()
    alone = tapec.random.Generator.from_seed(1)
    assert_allclose(first[0], alone.normal([2]), rtol=1e-6)
    assert_allclose(second[0], alone.normal([2]), rtol=1e-6)
    assert float(first[1]) != float(second[1])
    tapec.random.set_seed(3)
    again = draw()
    tapec.random.set_seed(3)
    assert float(draw()[1]) == float(again[1])
    stream.reset_from_seed(1)
    assert_allclose(draw()[0], first[0], rtol=1e-6)
    stream = tapec.random.Generator.from_seed(9)
    assert_allclose(draw()[0], tapec.random.Generator.from_seed(9).normal([2]), rtol=1e-6)


def test_updates_are_in_place_and_snapshots_stay() -> None:
    v = tapec.Variable(np.ones(4, np.float32))
    held = [v]
    f = tapec.compile(lambda: held[0].assign(held[0] * 2.0) + 0.0)
    f()
    place = v.array.ctypes.data
    f()
    assert v.array.ctypes.data == place
    snapshot = v.read_value()
    f()
    assert_array_equal(snapshot, np.full(4, 4.0))
    assert_array_equal(v, np.full(4, 8.0))


def test_what_is_updated_in_place_begins_at_a_line_of_the_cache() -> None:
    made = [tapec.Variable(np.full((n, 16), 0.5, np.float32)) for n in range(16, 24)]
    f = tapec.compile(lambda: [v.assign(v * 2.0) + 0.0 for v in made])
    f()
    places = [v.own_array().ctypes.data for v in made]
    assert not any(place % 64 for place in places)
    f()
    assert [v.own_array().ctypes.data for v in made] == places
    part = made[0].own_array()[1:].reshape(-1)[16:]  # a view of a view
    f()
    assert_array_equal(part, np.full(14 * 16, 2.0))
    assert_array_equal(made[0], np.full((16, 16), 4.0))
