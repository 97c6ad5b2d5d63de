"""Sizes that a call decides: declared, found out, bounded, and what programs assume of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.errors import InvalidArgumentError

RNG = np.random.default_rng(0)


def rows(n: int, width: int = 3) -> Any:
    """A batch."""
    return RNG.normal(size=(n, width)).astype(np.float32)


def counted(**options: Any) -> tuple[Any, list[int]]:
    """A compiled function of a batch, and a list that grows with each trace."""
    traces: list[int] = []

    def f(x: Any) -> Any:
        traces.append(1)
        return tapec.reduce_sum(x * 2.0, axis=1), tapec.shape(x)

    return tapec.compile(f, **options), traces


@pytest.mark.parametrize(
    ("options", "traces"),
    [
        ({"input_signature": [tapec.TensorSpec([None, 3])]}, 1),
        ({"dims": {"x": ("N", 3)}}, 1),
        ({"dims": {"x": ("N<=64", None)}}, 1),
        ({"dynamic": True}, 1),
        ({}, 2),
        ({"reduce_retracing": True, "dynamic": False}, 2),
        ({"dynamic": False}, 5),
    ],
)
def test_how_often_it_is_traced(options: Any, traces: int) -> None:
    f, seen = counted(**options)
    for n in (4, 7, 1, 33, 2, 7):
        x = rows(n)
        sums, shape = f(x)
        np.testing.assert_allclose(sums, 2 * x.sum(1), rtol=1e-5)
        assert sums.shape == (n,)
        assert shape.numpy().tolist() == [n, 3]
    assert len(seen) == len(f.programs) == traces


class Training:
    """A step with dropout, batch statistics, Adam and clipping, of batches of any size."""

    def __init__(self, compile: Callable[..., Any]) -> None:
        """Make the weights; ``compile`` makes the step of a function."""
        self.weights = [
            tapec.Variable(np.linspace(-0.5, 0.5, 3 * 40, dtype=np.float32).reshape(3, 40)),
            tapec.Variable(tapec.zeros([40])),
            tapec.Variable(np.linspace(0.5, -0.5, 40 * 5, dtype=np.float32).reshape(40, 5)),
        ]
        self.optimizer = tapec.optimizers.Adam(1e-2)
        self.optimizer.build(self.weights)
        self.traces = 0
        self.step = compile(self.train)

    def train(self, x: Any, y: Any) -> Any:
        """One step; the loss."""
        self.traces += 1
        w1, b1, w2 = self.weights
        with tapec.GradientTape() as tape:
            h = x @ w1 + b1
            mean, variance = tapec.nn.moments(h, [0])
            h = tapec.nn.relu((h - mean) * tapec.math.rsqrt(variance + 1e-3))
            h = tapec.nn.dropout(h, 0.25, seed=1)
            logits = h @ w2
            losses = tapec.nn.softmax_cross_entropy_with_logits(tapec.one_hot(y, 5), logits)
            loss = tapec.reduce_mean(losses)
        gradients, _ = tapec.clip_by_global_norm(tape.gradient(loss, self.weights), 1.0)
        self.optimizer.apply_gradients(zip(gradients, self.weights, strict=True))
        return loss


@pytest.mark.parametrize("bound", ["N", "N<=50"])
def test_a_short_last_batch_compiles_nothing(bound: str) -> None:
    dims = {"x": (bound, 3), "y": (bound,)}
    ours = Training(lambda f: tapec.compile(f, dims=dims))
    eager = Training(lambda f: f)
    for n in (32, 32, 19, 32, 1, 50):
        x, y = rows(n), RNG.integers(0, 5, n).astype(np.int32)
        tapec.random.set_seed(3)
        expected = eager.step(x, y)
        tapec.random.set_seed(3)
        np.testing.assert_allclose(ours.step(x, y), expected, rtol=1e-4)
    assert ours.traces == 1
    for a, b in zip(ours.weights, eager.weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_a_bound_fixes_the_arena() -> None:
    def f(x: Any) -> Any:
        return tapec.matmul(tapec.nn.softmax(x @ tapec.transpose(x)), x)

    bounded = tapec.compile(f, dims={"x": ("N<=20", 3)})
    free = tapec.compile(f, dims={"x": ("N", 3)})
    for n in (5, 20, 11):
        x = rows(n)
        np.testing.assert_allclose(bounded(x), free(x), rtol=1e-5)
    assert isinstance(bounded.programs[0].executable.arena_bytes, int)
    assert "N" in str(free.programs[0].executable.arena_bytes)
    with pytest.raises(ValueError, match="N of at most 20, got shape \\[21, 3\\]"):
        bounded(rows(21))


@tapec.compile(input_signature=[tapec.TensorSpec([None, 3]), tapec.TensorSpec([None, 3])])
def added(x: Any, y: Any) -> Any:
    return x + y  # here


def test_what_was_assumed_is_checked() -> None:
    assert added(rows(4), rows(4)).shape == (4, 3)
    assert added(rows(6), rows(6)).shape == (6, 3)
    assert len(added.programs) == 1
    with pytest.raises(
        InvalidArgumentError, match=r"x.shape\[0\] and y.shape\[0\] must be.* got 4 and 5"
    ) as error:
        added(rows(4), rows(5))
    assert "# here" in str(error.value)
    # A size of 1 is repeated, and an empty batch is another program.
    assert added(rows(4), rows(1)).shape == (4, 3)
    assert added(rows(0), rows(0)).shape == (0, 3)
    assert len(added.programs) == 3
    assert added(rows(7), rows(1)).shape == (7, 3)
    assert len(added.programs) == 3


def test_python_that_needs_the_number_gets_it() -> None:
    """A size that nobody declared is left open only where Python does not ask for it."""

    @tapec.compile
    def f(x: Any) -> Any:
        total = tapec.zeros([3])
        for i in range(x.shape[0]):
            total = total + x[i]
        return total / x.shape[0] if x.shape[0] > 2 else total

    for n in (3, 4, 5, 2):
        x = rows(n)
        expected = x.mean(0) if n > 2 else x.sum(0)
        np.testing.assert_allclose(f(x), expected, rtol=1e-5, atol=1e-6)
    assert len(f.programs) == 4


def test_declared_sizes_are_none_in_python() -> None:
    @tapec.compile(dims={"x": ("N", 3)})
    def f(x: Any) -> Any:
        assert x.shape == [None, 3]
        return tapec.reshape(x, [tapec.shape(x)[0] * 3]), tapec.concat([x, x], 0)

    for n in (2, 5):
        flat, twice = f(rows(n))
        assert (flat.shape, twice.shape) == ((3 * n,), (2 * n, 3))

    @tapec.compile(dims={"x": ("N",)})
    def g(x: Any) -> Any:
        return len(x)

    with pytest.raises(TypeError, match=r"len\(\) of a tensor of shape .None.*only when the"):
        g(np.ones(3, np.float32))


def test_a_tape_outside_hears_the_sizes_of_the_call() -> None:
    w = tapec.Variable(tapec.ones([3]))

    @tapec.compile(dims={"x": ("N", 3)})
    def f(x: Any) -> Any:
        return tapec.reduce_mean(tapec.linalg.matvec(x, w) ** 2)

    for n in (4, 9):
        x = tapec.constant(rows(n))
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        dx, dw = tape.gradient(y, [x, w])
        r = x.numpy().sum(1)
        np.testing.assert_allclose(dx, np.outer(2 * r / n, np.ones(3)), rtol=1e-4)
        np.testing.assert_allclose(dw, (2 * r[:, None] * x.numpy() / n).sum(0), rtol=1e-4)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"dims": {"z": ("N",)}}, ValueError, "dims names 'z', which is no parameter"),
        ({"dims": {"x": "3N"}}, ValueError, "'3N' names no size"),
        ({"dims": {"x": 1.5}}, ValueError, "a shape is a tuple"),
        ({"dynamic": "never"}, ValueError, "dynamic is"),
        ({"dims": {}, "input_signature": []}, ValueError, "both declare"),
        ({"input_signature": 3}, TypeError, "either a tuple or a list"),
        ({"input_signature": [3]}, TypeError, "sequence of TensorSpec, got int"),
        ({"input_signature": []}, TypeError, "missing type constraint for x"),
    ],
)
def test_bad_declarations(options: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        tapec.compile(lambda x: x, **options)


def test_bad_calls() -> None:
    @tapec.compile(dims={"x": ("N", 3), "y": {"z": ("N",)}})
    def f(x: Any, y: Any) -> Any:
        return x * y["z"][:, None]

    assert f(rows(4), {"z": rows(4)[:, 0]}).shape == (4, 3)
    with pytest.raises(ValueError, match=r"the size N is 4 in x and 5 in y\['z'\]"):
        f(rows(4), {"z": rows(5)[:, 0]})
    with pytest.raises(ValueError, match="x is declared with 3, got shape"):
        f(rows(4, 2), {"z": rows(4)[:, 0]})
    with pytest.raises(ValueError, match="x is declared with 2 axes"):
        f(rows(4)[0], {"z": rows(4)[:, 0]})


def test_sizes_that_flow_into_sizes_stay_open() -> None:
    """What code written for numbers does most: reshape by them, make tensors of them, divide by them."""

    @tapec.compile
    def f(x: Any) -> Any:
        n, width = x.shape
        flat = tapec.reshape(x, [x.shape[0] * width])
        ones = tapec.ones([n + 1, 2]) + tapec.zeros(x.shape[:1].concatenate([2]))[:1]
        return flat, ones, tapec.zeros_like(x) + tapec.ones(x.shape), tapec.reduce_sum(x) / n

    for n in (3, 5, 8, 2):
        x = rows(n)
        flat, ones, same, mean = f(x)
        np.testing.assert_array_equal(flat, x.reshape(-1))
        assert (ones.shape, same.shape) == ((n + 1, 2), (n, 3))
        np.testing.assert_allclose(mean, x.sum() / n, rtol=1e-5)
    assert len(f.programs) == 2


@pytest.mark.parametrize(
    "use",
    [
        lambda n: n == 4,
        lambda n: n > 3,
        lambda n: {3: 1.0, 4: 2.0}.get(n, 0.0),
        lambda n: f"{n}" == "4",
        lambda n: n * 0.5,
        lambda n: 1.0 / n,
        lambda n: float(n),
        lambda n: len(range(n)),
        lambda n: n - 7 if n % 2 else n,
        lambda n: -n,
        lambda n: np.ones(n).sum(),
        lambda n: [1.0] * n == [1.0] * 4,
    ],
)
def test_numbers_are_never_guessed(use: Callable[[Any], Any]) -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        return tapec.reduce_sum(x) * 0.0 + float(use(x.shape[0]))

    for n in (3, 4, 5, 6):
        assert float(f(rows(n))) == pytest.approx(float(use(n)))


def test_a_size_that_has_to_be_a_number() -> None:
    @tapec.compile(input_signature=[tapec.TensorSpec([None])])
    def f(x: Any) -> Any:
        return x + tapec.range(5.0)

    assert f(tapec.ones([5])).numpy().tolist() == [1, 2, 3, 4, 5]
    with pytest.raises(InvalidArgumentError, match="must be equal here, got 6 and 5"):
        f(tapec.ones([6]))
    assert f(tapec.ones([1])).shape == (5,)
    assert len(f.programs) == 2


def test_many_sizes_take_little_memory() -> None:
    f = tapec.compile(lambda x: x * 2.0, dims={"x": ("N",)})
    for n in range(1, 1500):
        assert f(np.ones(n, np.float32)).shape == (n,)
    assert len(f._shelves.own.programs) < 1100
    assert len(f.programs) == 1


@pytest.mark.parametrize(
    ("f", "least"),
    [
        (lambda x: x[:5] * 1.0, 5),
        (lambda x: x[2:7:2] + x[-3:], 7),
        (lambda x: x[-4:], 4),
        (lambda x: x[3], 4),
        (lambda x: tapec.linalg.diag_part(x), 3),
        (lambda x: tapec.math.top_k(tapec.transpose(x), 4)[0], 4),
        (lambda x: tapec.nn.max_pool1d(x[None], 5, 1, "VALID"), 5),
    ],
)
def test_sizes_that_are_too_small_are_never_read_beyond(f: Any, least: int) -> None:
    """What a program takes to be there is checked; smaller sizes get what they give eagerly, or its error."""
    run = tapec.compile(lambda x: f(x), dims={"x": ("N", 3)})
    for n in (9, least, 12, least - 1, 2, 7):
        x = tapec.constant(rows(n))
        try:
            expected = f(x)
        except (ValueError, InvalidArgumentError):
            with pytest.raises((ValueError, InvalidArgumentError)):
                run(x)
            continue
        np.testing.assert_allclose(run(x), expected, rtol=1e-6)
    assert len(run.programs) <= 3
    assert run.programs[0].guards


def test_images_of_any_size() -> None:
    filters = tapec.constant(RNG.normal(size=(3, 3, 2, 4)).astype(np.float32))

    def net(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(filters)
            h = tapec.nn.relu(tapec.nn.conv2d(x, filters, 2, "SAME"))
            h = tapec.nn.max_pool2d(h, 3, 2, "SAME") + tapec.nn.avg_pool2d(h, 2, 2, "SAME")
            y = tapec.reduce_mean(h, [1, 2])
        return y, tape.gradient(y, filters)

    run = tapec.compile(lambda x: net(x), dims={"x": ("N", None, None, 2)})
    for shape in ((2, 8, 8, 2), (1, 9, 14, 2), (3, 5, 6, 2)):
        x = tapec.constant(RNG.normal(size=shape).astype(np.float32))
        for found, expected in zip(run(x), net(x), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert len(run.programs) == 1


def test_rows_of_open_size_in_arrays() -> None:
    """A recurrent net over sequences of any length, for any batch, in one program."""
    weight = tapec.Variable(np.linspace(-0.3, 0.3, 36, dtype=np.float32).reshape(6, 6))

    def states(x: tapec.Tensor) -> tuple[tapec.Tensor, tapec.Tensor]:
        with tapec.GradientTape() as tape:
            h = tapec.zeros([tapec.shape(x)[1], 3])
            found = tapec.TensorArray(tapec.float32, size=tapec.shape(x)[0])
            for i in tapec.range(tapec.shape(x)[0]):
                h = tapec.tanh(tapec.concat([x[i], h], 1) @ weight[:, :3])
                found = found.write(i, h)
            result = found.stack()
            loss = tapec.reduce_sum(result**2)
        return result, tape.gradient(loss, weight)

    run: Any = tapec.compile(states, dims={"x": ("T", "B", 3)})
    for steps, rows in ((4, 2), (7, 1), (2, 5)):
        x = np.random.default_rng(steps).normal(size=(steps, rows, 3)).astype(np.float32)
        for got, want in zip(run(x), states(tapec.constant(x)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert len(run.programs) == 1


def test_a_size_that_is_stored_is_a_number() -> None:
    """What is open in the program must not be met outside of it."""
    sizes: list[Any] = []

    @tapec.compile
    def f(x: Any) -> Any:
        sizes.append(x.shape[0])
        return x * x.shape[0], x.shape[0]

    for n in (2, 3, 4):
        scaled, size = f(tapec.ones([n]))
        assert scaled.numpy().tolist() == [float(n)] * n
        assert size.numpy() == n
    assert all(type(size) is int for size in sizes[-1:])
    assert not [size for size in sizes if type(size) is int and size not in (2, 3, 4)]


def test_a_local_function_that_knows_a_size_leaves_it_open() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        n = x.shape[0]

        def scaled(times: int) -> Any:
            return x * n if times == 0 else scaled(times - 1)

        return scaled(2)

    for n in (2, 3, 4, 5):
        assert f(tapec.ones([n])).numpy().tolist() == [float(n)] * n
    assert len(f.programs) == 2


def test_a_shape_that_is_printed_stays_open(capsys: pytest.CaptureFixture[str]) -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        print("shape", x.shape, x.shape[0])
        return x + 1

    for n in (2, 3, 4, 5):
        f(tapec.ones([n, 7]))
    assert len(f.programs) == 2
    assert capsys.readouterr().out.splitlines() == ["shape (2, 7) 2", "shape (None, 7) None"]
