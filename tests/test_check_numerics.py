"""`enable_check_numerics` finds the operation that made the first number that is NaN or infinite, by its line."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tapec
from tapec import debugging, nn
from tapec.alarms import culprit, numerics
from tapec.compiler import compile_module
from tapec.derivatives import eager_gradient
from tapec.errors import InvalidArgumentError
from tapec.recording import inspectors


@pytest.fixture(autouse=True)
def checking() -> Iterator[None]:
    debugging.enable_check_numerics()
    yield
    debugging.disable_check_numerics()


def marked_line(function: Callable[..., Any]) -> int:
    """The line of a function that is marked as the origin."""
    lines, start = inspect.getsourcelines(function)
    return start + next(n for n, line in enumerate(lines) if "# here" in line)


def failure(function: Callable[..., Any], *args: Any) -> InvalidArgumentError:
    """The error that a call raises."""
    with pytest.raises(InvalidArgumentError) as caught:
        function(*args)
    return caught.value


# ---- sixteen origins: each is what makes the first bad number, and has its line marked


def forward_log(x: Any) -> Any:
    y = x * 2.0
    z = tapec.math.log(y - 2.0)  # here
    return tapec.reduce_sum(z * x)


def forward_division(x: Any) -> Any:
    total = tapec.reduce_sum(x - x)
    mean = x / total  # here
    return tapec.tanh(mean) + x


def forward_overflow(x: Any) -> Any:
    big = tapec.exp(x * 100.0)  # here
    return tapec.sigmoid(big)


def forward_hidden_by_where(x: Any) -> Any:
    logs = tapec.math.log(x - 1.0)  # here
    return tapec.where(x > 1.5, logs, 0.0)


def forward_hidden_by_comparison(x: Any) -> Any:
    roots = tapec.sqrt(x - 2.0)  # here
    return tapec.cast(roots > 1.0, tapec.float32)


def forward_product(x: Any) -> Any:
    large = x * 1e30
    square = tapec.matmul(large[None], large[:, None])  # here
    return nn.relu(square)


def forward_power(x: Any) -> Any:
    y = (x - 2.0) ** 0.5  # here
    return y + 1.0


def adjoint_root(x: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = tapec.sqrt(x - 1.0)  # here
        z = tapec.reduce_sum(y * 3.0)
    return tape.gradient(z, x)


def adjoint_of_what_where_does_not_choose(x: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = tapec.sqrt(tapec.abs(x - 1.0))  # here
        z = tapec.where(x > 1.0, y * 0.5, x * y)
    return tape.gradient(z, x)


def adjoint_power(x: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = (x - 1.0) ** 0.5  # here
        z = tapec.reduce_mean(y)
    return tape.gradient(z, x)


def adjoint_arc(x: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = tapec.asin(x * 0.5)  # here
    return tape.gradient(y, x)


def adjoint_overflow(x: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = x * 1e-35
        z = y * 1e30  # here
        loss = tapec.reduce_sum(z * 1e10)
    return tape.gradient(loss, x)


def adjoint_norm(x: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        distance = tapec.sqrt(tapec.reduce_sum((x - x) * x))  # here
    return tape.gradient(distance, x)


def second_power(x: Any) -> Any:
    with tapec.GradientTape() as outer:
        outer.watch(x)
        with tapec.GradientTape() as inner:
            inner.watch(x)
            y = (x - 1.0) ** 1.5  # here
        slope = inner.gradient(y, x)
    return outer.gradient(slope, x)


def second_root(x: Any) -> Any:
    with tapec.GradientTape() as outer:
        outer.watch(x)
        with tapec.GradientTape() as inner:
            inner.watch(x)
            y = tapec.reduce_sum(x * x)
        slope = inner.gradient(y, x)
        penalty = tapec.sqrt(slope - 2.0)  # here
    return outer.gradient(penalty, x)


def second_in_the_inner_gradient(x: Any) -> Any:
    with tapec.GradientTape() as outer:
        outer.watch(x)
        with tapec.GradientTape() as inner:
            inner.watch(x)
            y = tapec.sqrt(x - 1.0)  # here
        slope = inner.gradient(y, x)
        z = slope * slope
    return outer.gradient(z, x)


ORIGINS = [
    f
    for name, f in list(globals().items())
    if name.split("_")[0] in ("forward", "adjoint", "second")
]


def test_there_are_sixteen() -> None:
    assert len(ORIGINS) == 16


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("origin", ORIGINS, ids=lambda f: f.__name__)
def test_the_origin_is_found_by_its_line(origin: Callable[..., Any], compiled: bool) -> None:
    run = tapec.compile(origin) if compiled else origin
    error = failure(run, tapec.constant([1.0, 2.0]))
    assert error.location is not None
    assert error.location.line == marked_line(origin), str(error)
    assert "Detected Infinity or NaN in output 0 of operation" in str(error)
    assert ("in the gradient of" in str(error)) == (not origin.__name__.startswith("forward"))


# ---- what the error says


def test_the_error_says_all_there_is_to_know() -> None:
    error = failure(tapec.math.log, tapec.constant([[-1.0, 0.0], [-3.0, 2.0]]))
    text = str(error)
    for part in ('output 0 of operation "log"', "dtype: float32", "shape: (2, 2)"):
        assert part in text
    assert "# of -Inf elements: 1\n  # of NaN elements: 2\n  the first at: [0, 0]" in text
    assert "operand 0: f32[2,2], from -3.0 to 2.0" in text
    assert "hint: log takes positive numbers" in text
    assert "hint: the numbers grow out of float32" in str(
        failure(lambda x: x * x, tapec.constant(1e30))
    )


def test_a_gradient_names_the_forward_operation_and_its_line() -> None:
    def slope(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.sqrt(x)  # here
        return tape.gradient(y, x)

    for run in (slope, tapec.compile(slope)):
        text = str(failure(run, tapec.constant([0.0, 1.0])))
        place = f'in the gradient of "sqrt", made at {__file__}:{marked_line(slope)}'
        assert place in text
        assert "hint: sqrt takes positive numbers, and its derivative is infinite at 0" in text


def test_what_a_function_consists_of_is_named_after_it() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        return nn.softmax(x, axis=-1) + nn.l2_loss(x)

    assert '"mul" in l2_loss' in str(failure(f, tapec.constant([1e30, 1.0])))
    assert "in l2_loss" in str(failure(nn.l2_loss, tapec.constant([1e30, 1.0])))


# ---- whom it does not blame


def test_bad_operands_are_not_blamed_on_who_is_given_them() -> None:
    bad = tapec.constant([np.nan, np.inf])

    def f(x: Any, y: Any) -> Any:
        return tapec.exp(x) + 1.0, 1.0 / y

    for run in (f, tapec.compile(f)):
        assert np.isnan(run(bad, tapec.ones([2]))[0].numpy()[0])
        assert '"div"' in str(failure(run, bad, tapec.zeros([2])))


def test_infinities_that_the_program_names_are_meant() -> None:
    def f(x: Any) -> Any:
        masked = tapec.where(x > 1.0, x, -np.inf)
        return nn.softmax(masked), nn.max_pool1d(x[None, :, None], 2, 1, "SAME")

    for run in (f, tapec.compile(f)):
        assert_array_equal(run(tapec.constant([1.0, 2.0]))[0], [0, 1])


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a program was evaluated again after an alarm."""
    found: Counter[str] = Counter()
    search = culprit.search

    def searched(function: Any, *args: Any) -> None:
        found[function.name] += 1
        search(function, *args)

    monkeypatch.setattr(culprit, "search", searched)
    monkeypatch.setattr(numerics, "search", searched)
    return found


def attention_step(scores: Any, mask: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(scores)
        weights = nn.softmax(scores * 2.0 + mask)
        loss = tapec.reduce_sum(weights[:, 0] ** 2 + nn.log_softmax(scores + mask)[:, 0])
    return loss, tape.gradient(loss, scores)


def test_infinities_that_are_given_raise_no_alarm(searches: Counter[str]) -> None:
    """A mask of scores that comes as data, forwards and in gradients."""
    mask = tapec.constant(np.where(np.tri(5, 5, dtype=bool), 0, -np.inf).astype(np.float32))
    scores = tapec.constant(np.random.default_rng(0).random((5, 5), np.float32))
    for run in (attention_step, tapec.compile(attention_step)):
        for _ in range(3):
            loss, gradient = run(scores, mask)
            assert np.isfinite(gradient.numpy()).all()
            assert np.isfinite(loss.numpy())
    assert not searches


@pytest.mark.parametrize("place", [(0, 0), (0, 4), (4, 4)])
@pytest.mark.parametrize("scale", [0.0, 1e38])
def test_what_arises_beside_infinities_that_are_given_is_found(
    scale: float, place: tuple[int, int]
) -> None:
    """In the same kernel, in the same lane and in others; what hides it there is the mask."""
    mask = np.where(np.tri(5, 5, dtype=bool), 0, -np.inf).astype(np.float32)

    @tapec.compile
    def f(x: Any, mask: Any) -> Any:
        made = tapec.math.log(x) + x * x - 80.0  # here
        return tapec.exp(made + mask)

    x = np.ones((5, 5), np.float32)
    assert np.isfinite(f(x, mask).numpy()).all()
    x[place] = scale
    error = failure(f, x, mask)
    assert error.location is not None
    assert error.location.line == marked_line(f.python_function)


def test_a_loop_of_tapes_runs_its_gradient_natively(
    searches: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Counter[str] = Counter()

    def compiled(module: Any, pipeline: str) -> Any:
        made[pipeline] += 1
        return compile_module(module, pipeline)

    monkeypatch.setattr(eager_gradient, "compile_module", compiled)
    w = tapec.Variable([[0.25, 0.5]])

    def slope(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            y = tapec.sqrt(w * x - 1.0)  # here
        return tape.gradient(y, w).numpy()

    found = [slope(x) for x in (6.0, 7.0, 8.0)]
    assert made == {"alarmed": 1}
    assert not searches
    error = failure(slope, 4.0)
    assert error.location is not None
    assert error.location.line == marked_line(slope)
    assert searches == {"gradient": 1}
    debugging.disable_check_numerics()
    for value, x in zip(found, (6.0, 7.0, 8.0), strict=True):
        np.testing.assert_allclose(value, slope(x), rtol=1e-6)


def test_what_stays_inside_of_a_derivative_is_not_blamed() -> None:
    """The cotangent of a root at 0 is 0 where nothing comes in, as the rule itself says."""

    def f(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.where(x > 0.0, tapec.sqrt(x), 0.0)
        return tape.gradient(y, x)

    for run in (f, tapec.compile(f)):
        assert_array_equal(run(tapec.constant([0.0, 4.0])), [0, 0.25])


# ---- state, switching, cost


def test_a_step_that_fails_changes_no_variable() -> None:
    w, steps = tapec.Variable([1.0, 2.0]), tapec.Variable(0)

    @tapec.compile
    def step(x: Any) -> Any:
        steps.assign_add(1)
        w.assign_add(x)
        return 1.0 / (w - 3.0)

    step(tapec.constant([1.0, 2.0]))
    assert_array_equal(w, [2, 4])
    failure(step, tapec.constant([1.0, 2.0]))
    assert_array_equal(w, [2, 4])
    assert steps.numpy() == 1
    debugging.disable_check_numerics()
    assert step(tapec.constant([1.0, 2.0])).numpy()[0] == np.inf
    assert_array_equal(w, [3, 6])


def test_a_short_step_is_looked_at_without_python() -> None:
    w, last = tapec.Variable([1.0, 2.0]), tapec.Variable(0.0)

    @tapec.compile
    def step(x: Any) -> Any:
        debugging.assert_less(x, 9.0)
        w.assign_add(x)
        last.assign(tapec.reduce_sum(x))
        return tapec.reduce_sum(1.0 / (w - 9.0)), {"w": w}  # here

    for n in range(4):
        _, state = step(tapec.constant([1.0, 1.0]))
        assert_array_equal(state["w"], [2 + n, 3 + n])
        assert_array_equal(w, [2 + n, 3 + n])
    program = step.programs[0]
    assert step._quick_look is program.quick_look is not None
    assert program._inspected is not None
    boxed = program._inspected.boxed_at({})
    assert boxed is not None
    assert boxed(tapec.constant([4.0, 1.0]), w, last) is NotImplemented
    assert failure(step, tapec.constant([4.0, 1.0])).location.line == marked_line(  # type: ignore[union-attr]
        step.python_function
    )
    assert "9" in str(failure(step, tapec.constant([0.0, 9.0])))
    assert_array_equal(w, [5, 6])
    assert last.numpy() == 2.0
    debugging.disable_check_numerics()
    step(tapec.constant([1.0, 1.0]))
    assert_array_equal(w, [6, 7])


def test_results_are_the_same_with_the_alarm() -> None:
    x = tapec.random.normal([9, 33], seed=1)
    w = tapec.Variable(tapec.random.normal([33, 21], seed=2))
    f = tapec.compile(lambda x: (nn.softmax(x @ w), tapec.reduce_sum(nn.gelu(x), 0)))
    on = f(x)
    debugging.disable_check_numerics()
    for found, expected in zip(on, f(x), strict=True):
        assert_array_equal(found, expected)


def test_off_nothing_is_looked_at() -> None:
    debugging.disable_check_numerics()
    assert not inspectors
    assert np.isnan(tapec.math.log(tapec.constant(-1.0)).numpy())
    debugging.disable_check_numerics()
    debugging.enable_check_numerics()
    debugging.enable_check_numerics()
    assert len(inspectors) == 1


def test_a_tape_around_a_compiled_function() -> None:
    @tapec.compile
    def root(x: Any) -> Any:
        return tapec.sqrt(x)

    x = tapec.Variable([0.0, 4.0])
    with tapec.GradientTape() as tape:
        y = root(x)
    assert '"sqrt"' in str(failure(tape.gradient, y, x))


def test_a_jacobian_is_looked_at() -> None:
    x = tapec.Variable([0.0, 4.0])
    with tapec.GradientTape() as tape:
        y = tapec.sqrt(x)
    assert "Inf elements" in str(failure(tape.jacobian, y, x))


def test_a_failed_check_that_stands_first_is_told_first() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        debugging.assert_positive(x, "positive")
        return tapec.math.log(x)

    assert "positive" in str(failure(f, tapec.constant(-1.0)))


# ---- a NaN that was there before


@pytest.mark.parametrize("compiled", [False, True])
def test_a_nan_in_the_padding_hides_no_new_infinity(compiled: bool) -> None:
    """An elementwise operation is judged element by element."""

    def logs(x: Any) -> Any:
        return tapec.math.log(x)  # here

    x = np.array([1.0, np.nan, 0.0], np.float32)
    error = failure(tapec.compile(logs) if compiled else logs, tapec.constant(x))
    assert error.location is not None
    assert error.location.line == marked_line(logs)
    assert "the first at: [2]" in str(error)
    assert "from 0.0 to 1.0, and NaN" in str(error)


def test_a_nan_goes_through_elementwise_operations_unblamed() -> None:
    x = tapec.constant([1.0, np.nan, 2.0])
    y = tapec.exp(x) * x + tapec.where(x > 0.0, x, 1.0 / x)
    assert np.isnan(y.numpy()).tolist() == [False, True, False]
