"""Python's control flow over tensors in compiled functions: what is converted, and that it means what Python means."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np
import pytest
from both_compiled import both, scalar

import tapec
from tapec import errors

FACTOR = 2.0


# ---- branches


def helper(x: Any) -> Any:
    if x > 0:
        return x * FACTOR
    return x


class Model:
    scale = 3.0

    def __init__(self) -> None:
        self.__steps = 0.0

    def step(self, x: Any) -> Any:
        if x > 0:
            self.__steps = self.__steps + x
        return self.__steps * self.scale

    def __call__(self, x: Any, *, times: int = 2) -> Any:
        y = x
        while y < 20.0:
            y = y * times
        return y


class Child(Model):
    def step(self, x: Any) -> Any:
        if x > 1:
            y = super().step(x)
        else:
            y = x
        return y


@pytest.mark.parametrize("value", [-1.5, 0.5, 2.0, 7.0])
def test_branches(value: float) -> None:
    def nested(x: Any) -> Any:
        if x > 0 and not (x > 5):
            y = x * 2.0
            if x > 1:
                y, z = y + 1.0, 1
            else:
                z = 2
        elif 0 < x < 10 or x == -1.5:
            y, z = x - 1.0, 3
        else:
            return x * 0.0, 4
        return y, z

    both(nested, scalar(value))
    both(lambda x: x if x > 0 else -x, scalar(value))
    both(lambda x: [helper(x), functools.partial(helper)(x)], scalar(value))
    both(lambda x: Model()(x + 2.0, times=3), scalar(value))
    both(lambda x: Model().step(x), scalar(value))
    both(lambda x: Child().step(x), scalar(value))


def test_two_lambdas_on_a_line_are_told_apart() -> None:
    first, second = (lambda x: 1.0 if x > 0 else 2.0), (lambda x: 3.0 if x > 0 else 4.0)
    assert [float(tapec.compile(f)(scalar(1.0))) for f in (first, second)] == [1.0, 3.0]


def test_python_values_are_decided_by_python() -> None:
    met = []

    def f(x: Any, flag: Any) -> Any:
        if flag:
            met.append("yes")
            return x
        for i in range(3):
            met.append(str(i))
        return None if flag is None else "no"

    assert tapec.compile(f)(scalar(1.0), None) is None
    assert met == ["0", "1", "2"]


def test_branches_take_python_numbers_for_the_dtype_of_the_other() -> None:
    def f(x: Any) -> Any:
        return (x if x > 1 else 0), (2 if x > 1 else 2), ("same" if x > 1 else "same")

    found = tapec.compile(f)(tapec.constant(3.0, tapec.float64))
    assert found[0].dtype == tapec.float64
    assert found[1:] == (2, "same")


def test_what_branches_leave_must_be_alike() -> None:
    def one_sided(x: Any) -> Any:
        if x > 0:
            y = x
        return y

    def dtypes(x: Any) -> Any:
        y = 1 if x > 0 else 1.0
        return y

    def structures(x: Any) -> Any:
        if x > 0:
            return x, x
        return x

    def texts(x: Any) -> Any:
        name = "a" if x > 0 else "b"
        return name

    def nothing(x: Any) -> Any:
        if x > 0:
            return x

    cases = [
        (one_sided, errors.ValueError, "'y' must also be initialized in the else branch"),
        (dtypes, errors.TypeError, "dtype int32 in the main branch, but dtype float32"),
        (structures, errors.TypeError, "the returned value has different structures"),
        (texts, errors.TypeError, "str 'a' in the main branch, but str 'b'"),
        (nothing, errors.ValueError, "the returned value is None at the end of the else branch"),
    ]
    for function, kind, words in cases:
        with pytest.raises(kind, match=words) as caught:
            tapec.compile(function)(scalar(1.0))
        line = function.__code__.co_firstlineno + 1
        assert f"test_autograph.py:{line} " in str(caught.value)


def test_a_temporary_of_one_branch_is_no_ones_business() -> None:
    def f(x: Any) -> Any:
        if x > 0:
            t = tapec.ones([2]) * x
            y = tapec.reduce_sum(t)
        else:
            t = "nothing"
            y = x
        return y

    both(f, scalar(2.0))


# ---- loops


def trips(x: Any) -> Any:
    n = 0
    while x < 100.0:
        x = x * 2.0
        n += 1
    return x, n


def jumps(x: Any) -> Any:
    s = x
    for i in tapec.range(10):
        if i == 3:
            continue
        if i == 6:
            break
        s = s + tapec.cast(i, tapec.float32)
    else:
        s = -s
    return s


def nested(x: Any) -> Any:
    s = 0.0
    for i in tapec.range(4):
        for j in tapec.range(i):
            if j == 2:
                break
            s += x * tapec.cast(i * j + 1, tapec.float32)
    return s


def walrus(x: Any) -> Any:
    s: Any
    while (s := x * 1.5) < 20.0:
        x = s
    return x, s


def endless(x: Any) -> Any:
    n = 0
    while True:
        x = x * 2.0
        n += 1
        if x > 50.0:
            break
    return x, n


def unrolled(x: Any) -> Any:
    for i in range(6):
        if x > 9.0:
            break
        x = x * 2.0 + float(i)
    return x


def returns(x: Any) -> Any:
    for i in range(6):
        if x > 9.0:
            return -x
        x = x * 2.0
    return x


def bounds(x: Any) -> Any:
    n = tapec.cast(x, tapec.int32)
    s: Any = 0
    i: Any
    for i in range(n):
        s += i
    for i in tapec.range(10, n, -3):
        s += i * 100
    for a in tapec.range(0.0, x, 0.5):
        x = x + a
    return s, x, i


@pytest.mark.parametrize("value", [1.5, 3.0])
@pytest.mark.parametrize("loop", [trips, jumps, nested, walrus, endless, unrolled, returns, bounds])
def test_loops(loop: Any, value: float) -> None:
    both(loop, scalar(value))


def in_steps(x: Any, step: Any) -> Any:
    for _ in range(0, 4, step):
        x = x + 1.0
    return x


def in_tensor_steps(x: Any, step: Any) -> Any:
    for _ in tapec.range(0, 4, step):
        x = x + 1.0
    return x


@pytest.mark.parametrize("step", [0, 0.0])
@pytest.mark.parametrize(
    ("loop", "message"),
    [
        (in_steps, r"range\(\) arg 3 must not be zero"),
        (in_tensor_steps, "Requires delta != 0: {}"),
    ],
)
def test_steps_of_nothing(loop: Any, message: str, step: float) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=message.format(step)):
        tapec.compile(loop)(scalar(1.0), tapec.constant(step))


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_loop_that_forgets_where_it_began_has_no_gradient_by_that(turns: int) -> None:
    def f(x: Any, n: Any) -> Any:
        y, z = x * 2.0, tapec.stack([x, x])
        for i in tapec.range(n):
            y = tapec.cast(i, tapec.float32)
            z = tapec.ones([2])
        return y + tapec.reduce_sum(z)

    for function in (f, tapec.compile(f)):
        x = scalar(3.0)
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = function(x, tapec.constant(turns))
        gradient = tape.gradient(y, x, unconnected_gradients="zero")
        assert float(gradient) == (0.0 if turns else 4.0)


def test_rows() -> None:
    def f(x: Any, y: Any) -> Any:
        s = tapec.zeros([2])
        for row in x:
            s = s * 0.5 + row
        for a, b in zip(x, y):
            s = s + a * b
        for t in (x, y):
            s = s + tapec.reduce_sum(t)
        return s, row, [2.0 * r for r in x]

    both(f, tapec.constant([[1.0, 2.0], [3.0, 4.0]]), tapec.constant([[5.0, 6.0], [7.0, 8.0]]))


def test_a_loop_is_one_operation() -> None:
    traced = []

    @tapec.compile
    def f(x: Any) -> Any:
        for _ in tapec.range(1000):
            traced.append(0)
            x = x * 1.01
        return x

    f(scalar(1.0))
    assert len(traced) == 1
    assert [op.name for op in f.ir().entry.block.ops].count("loop") == 1


def test_arrays_grow_with_a_loop() -> None:
    def f(x: Any) -> Any:
        ta = tapec.TensorArray(tapec.float32, size=0, dynamic_size=True)
        for i in tapec.range(2, 5):
            ta = ta.write(i, x * tapec.cast(i, tapec.float32))
        total: Any = 0.0
        for row in ta.stack():
            total += row
        return ta.stack(), total

    both(f, scalar(3.0))


def test_attributes_and_items_are_state_too() -> None:
    def f(x: Any) -> Any:
        thing = types.SimpleNamespace(h=x, kept="text")
        table: dict[str, Any] = {"sum": 0.0, "list": [x, x]}
        for i in tapec.range(3):
            thing.h = thing.h * 2.0
            if thing.h > 5.0:
                table["sum"] = table["sum"] + thing.h
            table["list"] = [table["list"][1], thing.h]
        return thing.h, table["sum"], table["list"]

    both(f, scalar(1.0))


def test_items_by_keys_of_any_kind_are_state_too() -> None:
    def f(x: Any, n: Any) -> Any:
        layers = [{"w": x, "b": 0.5, "name": "first"}, {"w": 2.0 * x, "b": 1.0, "name": "second"}]
        thing = types.SimpleNamespace(parts=([x], x))
        kinds = "wb"
        for _ in tapec.range(n):
            for i in range(2):
                for key in kinds:
                    layers[i][key] = layers[i][key] * 0.5 + x
            if x > 0.0:
                thing.parts[0][-1] = thing.parts[0][0] * 2.0
        return [[layer[key] for key in kinds] for layer in layers], thing.parts[0]

    for value in (1.0, -1.0):
        both(f, scalar(value), tapec.constant(3))


def test_lists_and_dicts_get_items_in_branches() -> None:
    def f(x: Any) -> Any:
        seen: list[Any] = []
        lists: list[list[Any]] = [[], []]
        table: dict[str, Any] = {"a": x}
        for i in range(3):
            if x > i:
                seen.append(x - i)
                lists[i % 2].extend([x, i])
            elif x < -5.0:
                seen.append(-x)
                lists[i % 2].extend([2.0 * x, i])
            else:
                seen.append(tapec.zeros([]))
                lists[i % 2].extend([3.0 * x, i])
            for key in "ab":
                if x > 0.0:
                    table[key] = x * 2.0
                else:
                    table.update({key: x})
            table.setdefault("c", x)
        return seen, lists, [table[key] for key in "abc"]

    for value in (1.5, -1.0, -9.0):
        both(f, scalar(value))


def test_items_of_one_branch_are_refused() -> None:
    notes = []

    @tapec.compile
    def f(x: Any) -> Any:
        found = [x]
        if x > 0.0:
            notes.append("positive")  # no value of the program: once, while it is traced
            found.append(x)
        return found

    with pytest.raises(errors.TypeError, match=r"what the list gets .*(?s:.*)if x > 0"):
        f(scalar(-1.0))
    assert notes == ["positive"]


def test_items_that_a_loop_leaves_alone_stay_numbers_of_python() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        table = {"size": 3, "x": x, "later": None}
        for _ in tapec.range(2):
            for key in ["x"]:
                table[key] = table[key] * 2.0
        return tapec.ones([table["size"]]) * table["x"]

    np.testing.assert_array_equal(f(scalar(1.0)), [4.0, 4.0, 4.0])


def test_loop_variables_stay_as_they_are() -> None:
    def dtype(x: Any) -> Any:
        s = 0
        for i in tapec.range(3):
            s = tapec.cast(s, tapec.float32) + x
        return s

    def number(x: Any) -> Any:
        s: Any = 0.0
        for i in tapec.range(3):
            s = s + tapec.cast(x, tapec.float64)
        return s

    def shape(x: Any) -> Any:
        s = tapec.zeros([1])
        for i in tapec.range(3):
            s = tapec.concat([s, s], 0)
        return s

    def nothing(x: Any) -> Any:
        s = None
        for i in tapec.range(3):
            s = x if s is None else s + x
        return s

    def returns(x: Any) -> Any:
        while x < 10.0:
            x = x * 2.0
            if x > 5.0:
                return x
        return -x

    cases = [
        (
            dtype,
            errors.TypeError,
            "'s' has dtype int32 before the loop, but dtype float32 after one",
        ),
        (
            shape,
            errors.ValueError,
            r"'s' has shape f32\[1\] before the loop(.|\n)*shape_invariants",
        ),
        (nothing, errors.TypeError, "'s' is None before the loop, but f32 after one iteration"),
        (returns, errors.NotImplementedError, "return statement cannot be placed inside this loop"),
    ]
    for function, kind, words in cases:
        with pytest.raises(kind, match=words) as caught:
            tapec.compile(function)(scalar(1.0))
        assert "test_autograph.py:" in str(caught.value)


def test_loop_options() -> None:
    options = tapec.autograph.experimental.set_loop_options

    def most(x: Any) -> Any:
        while x < 100.0:
            options(maximum_iterations=2)
            x = x * 2.0
        for i in tapec.range(10):
            options(maximum_iterations=3)
            x = x + 1.0
        for row in tapec.ones([5]):
            options(maximum_iterations=4)
            x = x + row
        return x

    def grows(n: Any) -> Any:
        s = tapec.zeros([1])
        for i in tapec.range(n):
            options(shape_invariants=[(s, tapec.TensorShape([None]))])
            s = tapec.concat([s, s], 0)
        return s

    assert float(tapec.compile(most)(scalar(1.0))) == 4.0 + 3.0 + 4.0
    assert tapec.compile(grows)(3).shape == [8]
    with pytest.raises(errors.ValueError, match="only the run knows how often it turns"):
        tapec.compile(grows)(tapec.constant(3))
