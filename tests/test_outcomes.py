"""Branches that give different shapes: a program for each outcome of their condition, and one that computes it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from both_compiled import numbers
from random_shapes import check

import tapec
from tapec import errors

Step = Callable[..., Any]


def hold_to_eager(step: Step, calls: Sequence[Any], **options: Any) -> Any:
    """Call a function eagerly and compiled, each with state of its own; the compiled one."""
    plain, compiled = step(), tapec.compile(step(), **options)
    for args in calls:
        args = [tapec.constant(a, tapec.float32) for a in args]
        wanted, found = numbers(plain(*args)), numbers(compiled(*args))
        assert [a.shape for a in found] == [a.shape for a in wanted]
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6)
    return compiled


def two_ways() -> Step:
    def f(x: Any) -> Any:
        y = x * 2.0
        if tapec.reduce_sum(y) > 0.0:
            z = y[:1]
        else:
            z = tapec.concat([y, y], 0)
        return z + 1.0

    return f


ONE, OTHER = [1.0, 2.0], [-1.0, -2.0]


@pytest.mark.parametrize(
    "options",
    [{}, {"jit": False}, {"engine": "numba"}, {"target": "cuda", "engine": "simulator"}],
    ids=["native", "evaluated", "numba", "simulator"],
)
def test_a_call_takes_the_way_that_python_does(options: Any) -> None:
    f = hold_to_eager(two_ways, [[ONE], [OTHER], [ONE], [OTHER]], **options)
    one, other = map(repr, f.programs)
    assert one == other.replace("is False", "is True")
    assert one.startswith("<Program f(f32[2]) where ")
    (retrace,) = f.retraces()
    assert (retrace.cause, retrace.path, retrace.old, retrace.new) == (
        "outcome",
        "if tapec.reduce_sum(y) > 0.0",
        "True",
        "False",
    )
    assert "one shape" in retrace.remedy


def returning() -> Step:
    def f(x: Any) -> Any:
        if x > 2.0:
            return tapec.ones([2]) * x
        if x > 1.0:
            return tapec.ones([3]) * x
        return tapec.ones([1, 1]) * x

    return f


def nested() -> Step:
    def f(x: Any) -> Any:
        y = tapec.stack([x, x])
        if x > 0.0:
            if x > 5.0:
                y = y[:1]
            y = y * 3.0
        else:
            y = -y
        return y

    return f


def expression() -> Step:
    return lambda x: (tapec.ones([2]) if x > 1.0 else tapec.zeros([0, 3])) + x


def by_functions() -> Step:
    def f(x: Any) -> Any:
        i = tapec.cast(x, tapec.int32)
        a = tapec.cond(x > 1.0, lambda: tapec.ones([2]), lambda: tapec.ones([3]))
        b = tapec.switch_case(i, [lambda k=k: tapec.fill([k + 1], x) for k in range(4)])
        c = tapec.case([(x > 2.0, lambda: a[:1]), (x > 1.0, lambda: a)], default=lambda: b)
        return a, b, c

    return f


def many() -> Step:
    def f(x: Any) -> Any:
        parts = []
        for k in range(3):
            part = tapec.fill([2], x)
            if x > float(k):
                part = part[:1]
            parts.append(part)
        return tapec.concat(parts, 0)

    return f


@pytest.mark.parametrize("step", [returning, nested, expression, by_functions, many])
def test_ways_of_writing_it(step: Step) -> None:
    hold_to_eager(step, [[x] for x in (3.5, 1.5, 0.5, 7.0, -1.0, 2.5, 3.5)])


def training() -> Step:
    w = tapec.Variable([1.0, 2.0, 3.0])
    count = tapec.Variable(0.0)

    def f(x: Any) -> Any:
        count.assign_add(1.0)
        with tapec.GradientTape() as tape:
            y = w * x
            if tapec.reduce_sum(y) > 4.0:
                y = y[1:]
            loss = tapec.reduce_sum(y * y)
        w.assign_sub(0.01 * tape.gradient(loss, w))
        return y, w.read_value(), count.read_value()

    return f


def test_steps_update_what_eager_ones_do() -> None:
    calls = [[[0.5, 0.5, 0.5]], [[1.0, 1.0, 1.0]], [[0.1, 0.2, 0.3]], [[2.0, 0.0, 1.0]]]
    f = hold_to_eager(training, calls * 2)
    assert len(f.programs) == 2


def test_tapes_outside_go_through_the_way_taken() -> None:
    f = tapec.compile(two_ways())
    for given, wanted in ((ONE, [2.0, 0.0]), (OTHER, [4.0, 4.0])):
        x = tapec.constant(given)
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.reduce_sum(f(x))
        assert numbers(tape.gradient(y, x))[0].tolist() == wanted


def test_random_numbers_are_those_that_the_condition_was_computed_from() -> None:
    @tapec.compile
    def f() -> Any:
        u = tapec.random.uniform([])
        u_again = u * 1.0
        return tapec.fill([2], u_again) if u > 0.5 else tapec.fill([3], u_again)

    tapec.random.set_seed(3)
    found = [numbers(f())[0] for _ in range(12)]
    assert {len(a) for a in found} == {2, 3}
    assert all((a[0] > 0.5) == (len(a) == 2) for a in found)
    assert len({float(a[0]) for a in found}) == 12


def test_what_is_told_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    heard = []

    def listen(a: Any) -> Any:
        heard.append(a)
        return a

    @tapec.compile
    def f(x: Any) -> Any:
        tapec.print("before", x)
        for _ in tapec.range(2):
            x = x + 1.0
            tapec.print("turn", x)
        y = tapec.numpy_function(listen, [x], tapec.TensorSpec([]))
        z = tapec.ones([2]) if x > 3.0 else tapec.ones([3])
        tapec.print("behind", x)
        return z * y

    assert numbers(f(tapec.constant(2.0)))[0].tolist() == [4.0, 4.0]
    assert numbers(f(tapec.constant(0.0)))[0].tolist() == [2.0, 2.0, 2.0]
    told = [line.split()[0] for line in capsys.readouterr().err.splitlines()]
    assert told == ["before", "turn", "turn", "behind"] * 2
    assert len(heard) == 2


def test_checks_come_before_the_condition() -> None:
    total = tapec.Variable(0.0)

    @tapec.compile
    def f(x: Any, i: Any) -> Any:
        total.assign_add(1.0)
        return tapec.ones([2]) if tapec.gather(x, i) > 0.0 else tapec.ones([3])

    x = tapec.constant([1.0, -1.0])
    assert [numbers(f(x, tapec.constant(i)))[0].size for i in (0, 1)] == [2, 3]
    with pytest.raises(errors.InvalidArgumentError, match="gather"):
        f(x, tapec.constant(2))
    assert float(total) == 2.0


def test_sizes_stay_open() -> None:
    f = hold_to_eager(two_ways, [[ONE], [OTHER]], dims={"x": ("N",)})
    for n in (3, 4, 1):
        for sign in (1.0, -1.0):
            x = sign * np.ones(n, np.float32)
            assert numbers(f(x))[0].size == (1 if sign > 0 else 2 * n)
    assert len(f.programs) == 2
    auto = tapec.compile(two_ways())
    for n in (2, 3, 4, 5):
        for sign in (1.0, -1.0):
            x = sign * np.ones(n, np.float32)
            assert numbers(auto(x))[0].size == (1 if sign > 0 else 2 * n)
    assert len(auto.programs) == 4


def test_state_and_numbers_are_noticed_behind_a_condition() -> None:
    settings = {"scale": 2.0, "limit": 0.0}

    @tapec.compile
    def f(x: Any, rate: float) -> Any:
        if x > settings["limit"]:
            return tapec.ones([2]) * settings["scale"] * rate
        return tapec.ones([3]) * rate

    x = tapec.constant(1.0)
    assert numbers(f(x, 0.5))[0].tolist() == [1.0, 1.0]
    assert numbers(f(x, 0.25))[0].tolist() == [0.5, 0.5]
    settings["scale"] = 4.0
    assert numbers(f(x, 0.5))[0].tolist() == [2.0, 2.0]
    settings["limit"] = 3.0
    assert numbers(f(x, 0.5))[0].tolist() == [0.5, 0.5, 0.5]
    assert f.retraces()[0].path == "settings['scale']"


def test_variables_made_once_and_methods() -> None:
    class Model:
        weight: Any = None

        @tapec.compile
        def __call__(self, x: Any) -> Any:
            if self.weight is None:
                self.weight = tapec.Variable(1.0)
            self.weight.assign_add(x)
            return tapec.ones([2]) if self.weight > 2.0 else tapec.zeros([1])

    model = Model()
    sizes = [numbers(model(tapec.constant(x)))[0].size for x in (0.5, 1.0, -2.0)]
    assert sizes == [1, 2, 1]
    assert float(model.weight) == 0.5


def test_threads_see_whole_steps() -> None:
    """One outcome adds, the other takes away: a step that acted on an old condition would leave the range."""
    v = tapec.Variable(0.0)
    worst = []

    @tapec.compile
    def f() -> Any:
        if v > 0.5:
            v.assign_sub(1.0)
            return tapec.ones([1]) * v
        v.assign_add(1.0)
        return tapec.ones([2]) * v

    def work() -> None:
        for _ in range(200):
            worst.append(numbers(f())[0])

    f(), f()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(a[0] == (0.0 if len(a) == 1 else 1.0) for a in worst)
    assert float(v) == 0.0


@pytest.mark.parametrize("where", ["loop", "rows", "looked at", "python"])
def test_what_serves_both_outcomes_is_refused(where: str) -> None:
    def f(x: Any) -> Any:
        y = tapec.zeros([2])
        if where == "loop":
            for _ in tapec.range(3):
                y = tapec.ones([2]) if x > 0.0 else tapec.ones([1])
            return y
        if where == "rows":
            g = tapec.cond(True, lambda: two_ways(), lambda: None)
            return (
                tapec.vectorized_map(
                    tapec.autograph.experimental.do_not_convert(
                        lambda r: tapec.cond(r > 0.0, lambda: y, lambda: y[:1])
                    ),
                    tapec.stack([x, -x]),
                )
                if g
                else y
            )
        if where == "python":
            x = tapec.numpy_function(np.sign, [x], tapec.TensorSpec([]))
        return tapec.ones([2]) if x > 0.0 else tapec.ones([1])

    compiled, x = tapec.compile(f), tapec.constant(1.0)
    kind = NotImplementedError if where == "python" else ValueError
    with pytest.raises(kind, match=r"test_outcomes.py:[0-9]+ .*(if|cond)"):
        compiled.lower(x) if where == "looked at" else compiled(x)


def test_dtypes_and_structures_are_still_to_be_the_same() -> None:
    @tapec.compile
    def dtypes(x: Any) -> Any:
        return tapec.ones([2]) if x > 0.0 else tapec.ones([2], tapec.int32)

    @tapec.compile
    def structures(x: Any) -> Any:
        return [x] if x > 0.0 else [x, x]

    with pytest.raises(TypeError, match="dtype float32"):
        dtypes(tapec.constant(1.0))
    with pytest.raises(TypeError, match="different structures"):
        structures(tapec.constant(1.0))


@pytest.mark.parametrize("seed", [0, 13, 14, 17, 27])
def test_random_programs(seed: int) -> None:
    """``python tests/random_shapes.py COUNT SEED`` runs more."""
    assert check(seed) > 2
