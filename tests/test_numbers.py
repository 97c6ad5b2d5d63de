"""Python numbers in compiled functions: inputs of the program, with Python's own arithmetic and float's weak type."""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tapec

Plain = Callable[..., Any]


def agree(plain: Plain, compiled: Any, *args: Any) -> None:
    """The same bits, or the same error, from the function and its compiled form."""
    try:
        wanted = plain(*args)
    except (ArithmeticError, ValueError, TypeError) as error:
        with pytest.raises(type(error), match=re.escape(str(error).splitlines()[0])):
            compiled(*args)
        return
    found = compiled(*args)
    assert found.dtype == wanted.dtype
    assert found.numpy().tobytes() == wanted.numpy().tobytes(), (args, found, wanted)


# ---- one program


def test_a_thousand_learning_rates_are_one_program() -> None:
    w = tapec.Variable([1.0, 2.0])

    @tapec.compile
    def step(x: tapec.Tensor, rate: float) -> None:
        w.assign_sub(rate * x)

    for n in range(1000):
        step(tapec.ones([2]), 1.0 / (n + 1))
    assert len(step.programs) == 1
    assert not step.retraces()


def test_integers_and_numbers_in_structures_are_constants_until_they_change() -> None:
    """An integer is an index as often as a factor; so is one of many settings."""
    traced = []

    @tapec.compile
    def f(x: tapec.Tensor, n: int, settings: dict[str, float]) -> tapec.Tensor:
        traced.append((type(n), type(settings["scale"])))
        return x * n + settings["scale"]

    x = tapec.ones([2])
    for n in range(5):
        assert f(x, n, {"scale": 0.5, "eps": 1e-7}).numpy()[0] == n + 0.5
    for n in range(5):
        assert f(x, 3, {"scale": 0.5 + n, "eps": 1e-7}).numpy()[0] == 3.5 + n
    assert len(f.programs) == len(traced) == 3
    assert traced[0] == (int, float)


def test_state_that_is_a_number_is_an_input_once_it_changed() -> None:
    class Model:
        def __init__(self) -> None:
            self.rate, self.w = 0.5, tapec.Variable([4.0])

        @tapec.compile
        def step(self) -> tapec.Tensor:
            return self.w * self.rate

    model, factor = Model(), 1.0

    @tapec.compile
    def scaled(x: tapec.Tensor) -> tapec.Tensor:
        return x * factor

    for factor in (1.0, 2.0, 3.0, 4.0):
        model.rate = factor / 2
        assert float(model.step()[0]) == 2 * factor
        assert float(scaled(tapec.constant(1.0))) == factor
        assert type(model.rate) is float
    assert len(model.step.programs) == len(scaled.programs) == 2
    (retrace,) = scaled.retraces()
    assert (retrace.path, retrace.cause, retrace.old, retrace.new) == (
        "factor",
        "closure",
        "1.0",
        "2.0",
    )


def test_settings_of_optimizers_do_not_compile_again_and_again() -> None:
    v = tapec.Variable([1.0, 2.0])
    other = tapec.Variable([1.0, 2.0])
    optimizers = [tapec.optimizers.Adam(0.1) for _ in range(2)]

    def update(optimizer: Any, v: tapec.Variable) -> None:
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_sum(v * v)
        optimizer.apply_gradients([(tape.gradient(loss, v), v)])

    step = tapec.compile(lambda: update(optimizers[0], v))
    for n in range(8):
        for optimizer in optimizers:
            optimizer.learning_rate = 0.1 / (n + 1)
            optimizer.beta_1 = 0.9 - n / 100
        step()
        update(optimizers[1], other)
        np.testing.assert_allclose(v.numpy(), other.numpy(), rtol=1e-6)
    assert len(step.programs) == 2  # the first change of beta_1 makes it an input


def test_what_a_function_changes_itself_is_plain_again() -> None:
    class Schedule:
        rate = 8.0

    schedule = Schedule()
    schedule.rate = 4.0

    @tapec.compile
    def f(x: tapec.Tensor) -> tapec.Tensor:
        y = x * schedule.rate
        schedule.rate *= 0.5
        return y

    for wanted in (4.0, 3.0, 5.0, 7.0):
        schedule.rate = wanted
        assert float(f(tapec.constant(1.0))) == wanted
        assert type(schedule.rate) is float


# ---- what Python sees of a number


LOOKS: dict[str, Plain] = {
    "comparison": lambda x, n: x * 2 if n > 1.0 else x - n,
    "chained": lambda x, n: x if -1.0 <= n < 2.0 else x + n,
    "truth": lambda x, n: x * 3 if n else x,
    "int": lambda x, n: x * int(n),
    "round": lambda x, n: x * round(n) + round(n, 1),
    "floor": lambda x, n: x * math.floor(n) + math.ceil(n) - math.trunc(n),
    "format": lambda x, n: x * len(f"{n:.2f} {n} {n!r}"),
    "percent": lambda x, n: x * len("%.1f" % n),  # noqa: UP031  which asks in C
    "key": lambda x, n: x * {0.5: 2.0, 2.0: 3.0}.get(n, 4.0),
    "isinstance": lambda x, n: x * 2.0 if isinstance(n, float) else x,
    "math": lambda x, n: x * math.exp(n / 10) + math.hypot(n, 1.0),
    "numpy": lambda x, n: x * np.float32(n) + np.asarray([n, 1.0], np.float32)[0],
    "ufunc": lambda x, n: x * np.sqrt(abs(n)),
    "extremes": lambda x, n: x * max(n, 0.25) + min([n, 3.0]),
    "sum": lambda x, n: x * sum([n, n * 2, 1]),
    "while": lambda x, n: x * _halved(n),
    "index": lambda x, n: x + [1.0, 2.0, 3.0][int(n) % 3],
    "attributes": lambda x, n: x * n.real + n.imag + n.is_integer(),
    "complex": lambda x, n: x * abs(complex(n, 1.0)),
    "list": lambda x, n: x + tapec.constant([n, 1.0, n * 2])[0],
}


def _halved(n: float) -> float:
    while 1.0 < abs(n) < 1e40:
        n = n / 2
    return n


@pytest.mark.filterwarnings("ignore:.*was traced again")  # as it has to be
@pytest.mark.parametrize("look", LOOKS)
def test_what_python_sees_is_a_condition(look: str) -> None:
    """Whatever is asked of a number, a program is used only where the answer is the same."""
    plain, compiled = LOOKS[look], tapec.compile(LOOKS[look])
    x = tapec.constant(3.0)
    for n in (0.5, 2.0, -1.5, 0.0, 7.25, 0.5, 2.0, -0.0, 1e6, math.inf, math.nan, 0.75):
        try:
            wanted = plain(x, n)
        except (OverflowError, ValueError) as error:
            with pytest.raises(type(error)):
                compiled(x, n)
            continue
        np.testing.assert_array_equal(compiled(x, n).numpy(), wanted.numpy())


def test_few_programs_for_few_answers() -> None:
    f = tapec.compile(LOOKS["comparison"])
    for n in range(100):
        f(tapec.ones([2]), n / 10)
    assert len(f.programs) == 2
    (retrace,) = f.retraces()
    assert (retrace.path, retrace.cause) == ("n", "decision")
    assert retrace.changes[0].location is not None
    assert "n > 1.0" in retrace.changes[0].location.text


def test_sizes_and_axes() -> None:
    f = tapec.compile(lambda x, n, axis: tapec.reduce_sum(tapec.reshape(x, [n, -1]), axis) * n)
    x = tapec.reshape(tapec.range(12.0), [12])
    for n, axis in ((2, 0), (3, 1), (4, -1), (6, 0), (2, 0)):
        wanted = x.numpy().reshape(n, -1).sum(axis) * n
        np.testing.assert_array_equal(f(x, n, axis).numpy(), wanted)


def test_numbers_that_a_function_keeps_are_plain_afterwards() -> None:
    kept: list[Any] = []

    @tapec.compile
    def f(x: tapec.Tensor, n: float) -> tapec.Tensor:
        kept.append(n * 2)
        return x * n

    f(tapec.constant(1.0), 1.5)
    assert kept[0] == 3.0
    assert kept[0] + 1 == 4.0
    assert f"{kept[0]}" == "3.0"
    assert float(kept[0]) == 3.0
    assert float(f(tapec.constant(1.0), kept[0])) == 3.0
    assert float(tapec.constant(1.0) * kept[0]) == 3.0


def test_code_in_c_gets_numbers_of_pythons_own() -> None:
    """It takes nothing else; so the program is for that number."""
    f = tapec.compile(lambda x, n: x * json.loads(json.dumps({"n": n}))["n"])
    for n in (0.5, 2.0, 0.5):
        assert float(f(tapec.constant(1.0), n)) == n
    assert len(f.programs) == 2

    class Temperature:
        def __init__(self) -> None:
            self.degrees = 1.0

        def __float__(self) -> float:
            return self.degrees

    now = Temperature()
    g = tapec.compile(lambda x: x * float(now))
    for n in (1.0, 2.0, 3.0):
        now.degrees = n
        assert float(g(tapec.constant(1.0))) == n


# ---- arithmetic

BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
]
NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 0.5, -2.0, 3.0, 1e-8, 7.25, 1e30, math.inf, math.nan])
Step = tuple[Any, bool, Any]


@st.composite
def expressions(draw: Any) -> list[Step]:
    """Steps of arithmetic on a number: an operator, whether it comes first, and the other operand (None: itself)."""
    others = st.one_of(st.none(), NUMBERS, st.integers(-3, 3))
    steps = st.tuples(st.sampled_from(BINARY), st.booleans(), others)
    found: list[Step] = draw(st.lists(steps, max_size=6))
    return found


@given(
    expressions(), st.lists(NUMBERS, min_size=1, max_size=5), st.sampled_from(["f2", "f4", "f8"])
)
def test_arithmetic_is_pythons(steps: list[Step], numbers: list[float], dtype: str) -> None:
    """Random arithmetic in Python on one side of a tensor's: equal bits, for each number and in each dtype."""

    def plain(x: tapec.Tensor, n: float) -> tapec.Tensor:
        value = n
        for function, first, other in steps:
            operand = n if other is None else other
            value = function(value, operand) if first else function(operand, value)
        return x * value

    compiled = tapec.compile(plain, jit=False)  # what Python does is the same, and sooner there
    x = tapec.constant(np.array([1.5, -2.0], dtype))
    with np.errstate(all="ignore"):
        for number in numbers:
            agree(plain, compiled, x, number)


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "int32"]
)
@pytest.mark.parametrize("number", [0.1, 2, np.float64(0.1), 3.5])
def test_a_number_takes_the_dtype_of_the_tensor_it_meets(dtype: str, number: Any) -> None:
    if dtype == "int32" and isinstance(number, float):
        number = 7  # a float beside integers is an error
    plain = lambda x, n: x * n + n  # noqa: E731
    compiled = tapec.compile(plain)
    x = tapec.cast(tapec.constant([1.0, 3.0]), dtype)
    for value in (number, type(number)(number + 1)):
        agree(plain, compiled, x, value)


def test_a_number_too_large_for_float32_is_refused_as_eagerly() -> None:
    f = tapec.compile(lambda n: tapec.constant(n) + 1)
    assert float(f(2.0)) == 3.0
    with pytest.raises(ValueError, match="a Python number is out of range"):
        f(1e300)
    assert f(1).dtype == tapec.int32
    assert f(2).dtype == tapec.int32
    assert f(2**40).dtype == tapec.int64


def test_errors_of_pythons_arithmetic_are_the_users_own() -> None:
    f = tapec.compile(lambda x, n: x / (1.0 / n))
    assert float(f(tapec.constant(1.0), 2.0)) == 2.0
    with pytest.raises(ZeroDivisionError, match="float division by zero"):
        f(tapec.constant(1.0), 0.0)
    assert float(f(tapec.constant(1.0), 4.0)) == 4.0
    assert len(f.programs) == 1


def test_tapes_and_checks_take_numbers_too() -> None:
    v = tapec.Variable(3.0)
    f = tapec.compile(lambda n: v * v * n)
    for n in (1.0, 2.5):
        with tapec.GradientTape() as tape:
            y = f(n)
        assert float(tape.gradient(y, v)) == 6.0 * n
    checked = tapec.compile(lambda x, n: tapec.debugging.check_numerics(x / n, "quotient"))
    assert float(checked(tapec.constant(1.0), 2.0)) == 0.5
    with pytest.raises(tapec.errors.InvalidArgumentError, match="quotient"):
        checked(tapec.constant(1.0), 0.0)
    assert len(checked.programs) == len(f.programs) == 1


def test_numbers_in_branches_and_loops() -> None:
    def plain(x: tapec.Tensor, n: float) -> tapec.Tensor:
        y = tapec.cond(x > 0, lambda: x * n, lambda: x - n)
        loop = tapec.while_loop(lambda y: y < 10.0, lambda y: [tapec.abs(y) * 2 + n], [y])
        result: tapec.Tensor = loop[0]
        return result

    compiled = tapec.compile(plain)
    for x in (1.0, -1.0):
        for n in (0.5, 2.0):
            agree(plain, compiled, tapec.constant(x), n)
    assert len(compiled.programs) == 1


def test_the_type_of_a_number_is_its_own() -> None:
    @tapec.compile
    def f(x: Any, rate: Any) -> Any:
        return x * rate if type(rate) is float else x

    for rate in (0.5, 0.25, 4.0):
        assert f(tapec.constant(2.0), rate).numpy() == 2.0 * rate
    assert f(tapec.constant(2.0), "text").numpy() == 2.0
    assert len(f.programs) == 2


@pytest.mark.parametrize("function", [math.sqrt, math.exp, math.floor, math.cos, round, str])
def test_what_c_code_reads_is_never_stale(function: Any) -> None:
    """An argument, a number in a captured list, one in a captured dict: another value, another result."""
    listed, known = [1.5], {"k": 2.5}

    @tapec.compile
    def f(x: Any, number: float) -> Any:
        values = [function(n) for n in (number, listed[0], known["k"])]
        return [x * float(value) for value in values]

    for number in (0.25, 4.75, 0.25):
        for place in range(3):
            listed[0], known["k"] = 1.5 + place, 2.5 + 2 * place
            wanted = [float(function(n)) for n in (number, listed[0], known["k"])]
            got = [y.numpy() for y in f(tapec.constant(1.0, tapec.float64), number)]
            assert got == wanted
