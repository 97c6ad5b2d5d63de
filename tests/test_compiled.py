"""`tapec.compile`: state, signatures, results, and what it refuses."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import tapec


def layer() -> tuple[tapec.Variable, tapec.Variable]:
    rng = np.random.default_rng(0)
    w = tapec.Variable(rng.standard_normal((4, 3)).astype(np.float32), name="w")
    return w, tapec.Variable(tapec.zeros([3]), name="b")


def test_whole_step_equals_eager() -> None:
    """The README's step: loss, gradient, clipping, Adam; ten steps, eager and compiled."""
    rng = np.random.default_rng(1)
    x = tapec.constant(rng.standard_normal((8, 4)).astype(np.float32))
    y = tapec.constant(rng.integers(0, 3, 8).astype(np.int32))

    def train(compiled: bool) -> tuple[list[float], list[Any]]:
        w, b = layer()
        optimizer = tapec.optimizers.Adam(1e-2)

        def step(x: tapec.Tensor, y: tapec.Tensor) -> tuple[tapec.Tensor, tapec.Tensor]:
            with tapec.GradientTape() as tape:
                losses = tapec.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=y, logits=tapec.nn.relu(x @ w) + b
                )
                loss = tapec.reduce_mean(losses)
            gradients, norm = tapec.clip_by_global_norm(tape.gradient(loss, [w, b]), 0.5)
            optimizer.apply_gradients(zip(gradients, [w, b], strict=True))
            return loss, norm

        run = tapec.compile(step) if compiled else step
        losses = [float(v) for _ in range(10) for v in run(x, y)]
        return losses, [w.numpy(), b.numpy()]

    (eager_losses, eager_weights), (losses, weights) = train(False), train(True)
    np.testing.assert_allclose(losses, eager_losses, rtol=2e-5)
    for a, b in zip(weights, eager_weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
    assert losses[-2] < losses[0]


def test_the_step_is_native(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels run, and neither the evaluator nor any eager operation does."""
    w, b = layer()

    @tapec.compile
    def step(x: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_sum(tapec.square(x @ w + b))
        for v, g in zip((w, b), tape.gradient(loss, [w, b]), strict=True):
            v.assign_sub(0.1 * g)
        return loss

    x = tapec.ones([2, 4])
    step(x)
    assert step.programs[0].executable.kernels > 0

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("NumPy ran inside of a compiled call")

    for defn in tapec.ir.op.OPS.values():
        monkeypatch.setattr(type(defn), "evaluate", refuse)
    before = w.numpy()
    step(x)
    assert not np.array_equal(before, w.numpy())


def test_variables_change_in_place_and_snapshots_stay() -> None:
    v = tapec.Variable([1.0, 2.0])

    @tapec.compile
    def double() -> tapec.Tensor:
        v.assign(v * 2.0)
        return v.read_value()

    first = double()
    kept, copied = v.read_value(), v.numpy()
    array = v.array
    second = double()
    np.testing.assert_array_equal(first.numpy(), [2, 4])
    np.testing.assert_array_equal(kept.numpy(), [2, 4])
    np.testing.assert_array_equal(copied, [2, 4])
    np.testing.assert_array_equal(second.numpy(), [4, 8])
    np.testing.assert_array_equal(v.numpy(), [4, 8])
    assert v.array is not array  # somebody held it
    del array, kept
    address = v.array.ctypes.data
    double()
    assert v.array.ctypes.data == address


def test_results_do_not_alias_each_other_or_the_arguments() -> None:
    x = tapec.constant([1.0, 2.0])
    same = tapec.compile(lambda x: (x, x, x + 0.0))
    a, b, c = same(x)
    a.array[0] = 9.0
    np.testing.assert_array_equal(x.numpy(), [1, 2])
    np.testing.assert_array_equal(b.numpy(), [1, 2])
    np.testing.assert_array_equal(c.numpy(), [1, 2])


def test_swap_and_rotation_of_variables() -> None:
    a, b, c = (tapec.Variable([float(i)]) for i in range(3))

    @tapec.compile
    def rotate() -> None:
        x, y, z = a.read_value(), b.read_value(), c.read_value()
        a.assign(y)
        b.assign(z)
        c.assign(x)

    rotate()
    assert [float(v[0]) for v in (a, b, c)] == [1.0, 2.0, 0.0]


def test_assignment_then_read_then_assignment() -> None:
    v = tapec.Variable(1.0)

    @tapec.compile
    def f() -> tuple[tapec.Tensor, tapec.Tensor]:
        v.assign_add(1.0)
        before = v.read_value()
        v.assign(v * 10.0)
        return before, v + 0.0

    assert [float(t) for t in f()] == [2.0, 20.0]
    assert float(v) == 20.0


def test_one_program_for_each_signature() -> None:
    calls = []

    @tapec.compile
    def f(x: tapec.Tensor, factor: float, flag: bool = True) -> tapec.Tensor:
        calls.append(x.shape)
        return x * factor if flag else x

    f(tapec.ones([2]), 2.0)
    f(tapec.zeros([2]), 2.0)
    assert len(calls) == 1
    f(tapec.ones([3]), 2.0)
    f(tapec.ones([2], tapec.float64), 2.0)
    f(tapec.ones([2]), 3.0)
    assert f(tapec.ones([2]), 2.0, flag=False).numpy().tolist() == [1, 1]
    assert len(calls) == 4  # other factors need no other program
    array: Any = np.ones(2, np.float32)
    assert f(array, 2.0).numpy().tolist() == [2, 2]


def test_numbers_of_different_types_are_different_programs() -> None:
    f = tapec.compile(lambda n: tapec.convert_to_tensor(n))
    assert f(1).dtype == "int32"
    assert f(1.0).dtype == "float32"
    assert f(True).dtype == "bool"


def test_structures_of_arguments_and_results() -> None:
    @tapec.compile
    def f(batch: dict[str, Any], pair: tuple[Any, Any]) -> dict[str, Any]:
        return {
            "sum": batch["x"] + pair[0],
            "rest": [pair[1], None, "text", 3],
            "const": tapec.constant(7),
        }

    out = f({"x": tapec.constant(1.0), "unused": None}, (tapec.constant(2.0), tapec.constant([5])))
    assert float(out["sum"]) == 3.0
    assert out["rest"][0].numpy().tolist() == [5]
    assert out["rest"][1:] == [None, "text", 3]
    assert int(out["const"]) == 7


def test_variables_made_once_and_at_each_call() -> None:
    class Model:
        def __init__(self) -> None:
            self.v: tapec.Variable | None = None

        @tapec.compile
        def __call__(self, x: tapec.Tensor) -> tapec.Tensor:
            if self.v is None:
                self.v = tapec.Variable(3.0)
            return x * self.v

    assert float(Model()(tapec.constant(2.0))) == 6.0
    with pytest.raises(ValueError, match=r"makes a tapec.Variable at each call"):
        tapec.compile(lambda x: x * tapec.Variable(1.0))(tapec.constant(1.0))


def test_a_leaked_tensor_is_refused() -> None:
    leaked: list[tapec.Tensor] = []

    @tapec.compile
    def f(x: tapec.Tensor) -> tapec.Tensor:
        leaked.append(x * 2.0)
        return x

    f(tapec.constant(1.0))
    made = r"made in the compiled function f at .*test_compiled.py:\d+   leaked.append\(x \* 2.0\)"
    with pytest.raises(TypeError, match=made):
        leaked[0].numpy()
    with pytest.raises(TypeError, match="return it from f"):
        _ = leaked[0] + 1.0
    for asks in (bool, iter):
        with pytest.raises(TypeError, match=made):
            asks(leaked[0])
    with pytest.raises(TypeError, match=made):
        tapec.compile(lambda y: y + leaked[0])(tapec.constant(1.0))


def test_python_needs_a_value() -> None:
    with pytest.raises(TypeError, match="truth of this tensor"):
        tapec.compile(lambda x: bool(x > 0))(tapec.constant(1.0))
    with pytest.raises(
        TypeError, match=r"no elements.*which float\(\) asks for|values exist only at run time"
    ):
        tapec.compile(lambda x: float(x))(tapec.constant(1.0))


def test_errors_name_the_users_line() -> None:
    @tapec.compile
    def f(x: tapec.Tensor, w: tapec.Tensor) -> tapec.Tensor:
        return x @ w  # the wrong line

    with pytest.raises(ValueError, match=r"test_compiled.py:\d+   return x @ w  # the wrong line"):
        f(tapec.ones([2, 3]), tapec.ones([4, 5]))
    with pytest.raises(TypeError, match="f32 and f64"):
        tapec.compile(lambda a, b: a + b)(tapec.ones([2]), tapec.ones([2], tapec.float64))


def test_a_failed_trace_leaves_nothing_behind() -> None:
    v = tapec.Variable(1.0)

    @tapec.compile
    def f(x: tapec.Tensor) -> tapec.Tensor:
        v.assign_add(1.0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        f(tapec.constant(1.0))
    assert float(v) == 1.0
    assert float(tapec.constant(1.0) + v) == 2.0  # eager again


def test_compiled_functions_call_each_other() -> None:
    v = tapec.Variable(1.0)

    @tapec.compile
    def inner(x: tapec.Tensor) -> tapec.Tensor:
        v.assign_add(1.0)
        return x * v

    @tapec.compile
    def outer(x: tapec.Tensor) -> tapec.Tensor:
        return inner(x) + inner(x)

    assert float(outer(tapec.constant(10.0))) == 50.0
    assert float(inner(tapec.constant(10.0))) == 40.0


def test_methods_take_their_instance() -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.v = tapec.Variable(by)

        @tapec.compile
        def __call__(self, x: tapec.Tensor) -> tapec.Tensor:
            return x * self.v

    a, b = Scale(2.0), Scale(3.0)
    assert float(a(tapec.constant(5.0))) == 10.0
    assert float(b(tapec.constant(5.0))) == 15.0


def test_calls_from_threads() -> None:
    f = tapec.compile(lambda x: tapec.reduce_sum(x * x))
    xs = [tapec.constant(np.full(1000, i, np.float32)) for i in range(8)]
    results = [0.0] * 8

    def work(i: int) -> None:
        for _ in range(50):
            results[i] = float(f(xs[i]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == [1000.0 * i * i for i in range(8)]


def test_memory_is_planned() -> None:
    w, b = layer()

    @tapec.compile
    def step(x: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_mean(tapec.square(tapec.tanh(x @ w + b)))
        for v, g in zip((w, b), tape.gradient(loss, [w, b]), strict=True):
            v.assign_sub(0.1 * g)
        return loss

    step(tapec.ones([16, 4]))
    entry = step.ir(after="plan").entry
    assert (
        0 < entry.attrs["lower_bound"] <= entry.attrs["arena"] <= 1.05 * entry.attrs["lower_bound"]
    )


def test_a_variable_owns_what_a_step_writes_to() -> None:
    """A view that was assigned is not written to, nor are views of the same memory."""
    x = tapec.constant(np.arange(4, dtype=np.float32))
    v = tapec.Variable(np.zeros((2, 2), np.float32))
    v.assign(tapec.reshape(x, (2, 2)))
    view = tapec.reshape(v, (4,))
    update = tapec.compile(lambda: v.assign_add(tapec.ones((2, 2))))
    update()
    update()
    np.testing.assert_array_equal(v.numpy(), [[2, 3], [4, 5]])
    np.testing.assert_array_equal(x.numpy(), [0, 1, 2, 3])
    np.testing.assert_array_equal(view.numpy(), [0, 1, 2, 3])


def test_values_that_are_equal_but_not_the_same() -> None:
    """Zeros by sign, NaN like NaN, objects by identity, sets by what they hold, bound methods by both parts."""

    class Model:
        def __init__(self, value: float) -> None:
            self.w = tapec.Variable(value)

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Model)

        def __hash__(self) -> int:
            return 0

        def scale(self, x: tapec.Tensor) -> tapec.Tensor:
            return x * self.w

    function = tapec.compile(lambda x, value: tapec.constant(1.0) / (value * tapec.abs(x)))
    x = tapec.constant(1.0)
    assert function(x, 0.0).numpy() == np.inf
    assert function(x, -0.0).numpy() == -np.inf
    assert np.isnan(function(x, float("nan")).numpy())
    assert len(function.programs) == 1
    described = tapec.compile(lambda x, value: x * len(repr(value)))
    sizes = [float(described(x, value)) for value in (0.0, -0.0, float("nan"), float("nan"), -0.0)]
    assert sizes == [3.0, 4.0, 3.0, 3.0, 4.0]
    assert len(described.programs) == 3

    step = tapec.compile(lambda model, x: model.scale(x))
    assert [float(step(Model(v), x)) for v in (1.0, 2.0)] == [1.0, 2.0]

    by_method = tapec.compile(lambda method, x: method(x))
    model = Model(3.0)
    assert float(by_method(model.scale, x)) == float(by_method(model.scale, x)) == 3.0
    assert len(by_method.programs) == 1

    total = tapec.compile(lambda values, x: x * sum(values))
    values = {2.0}
    assert float(total(values, x)) == 2.0
    values.add(3.0)
    assert float(total(values, x)) == 5.0


def test_the_list_that_is_returned_stays_the_functions_own() -> None:
    function = tapec.compile(lambda x: [x * 2])
    function(tapec.constant(1.0)).append("more")
    assert [float(v) for v in function(tapec.constant(3.0))] == [6.0]
    assert len(function.programs) == 1


def test_a_list_of_others_with_what_an_earlier_call_made_is_refused() -> None:
    history: list[Any] = []

    @tapec.compile
    def function(x: tapec.Tensor) -> list[Any]:
        history.append(x * 2)
        return history

    function(tapec.constant(1.0))
    history.append("more")
    with pytest.raises(TypeError, match="left that function while it was compiled"):
        function(tapec.constant(3.0))


def test_callable_objects_keep_their_attributes() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = tapec.Variable(2.0)
            self._call = self.ir = "not the compiler's"

        def __call__(self, x: tapec.Tensor) -> tapec.Tensor:
            return x * self.w

    model = Model()
    compiled = tapec.compile(model)
    assert float(compiled(tapec.constant(3.0))) == 6.0
    model.w = tapec.Variable(4.0)
    assert compiled.w is model.w


def test_static_and_class_methods() -> None:
    class Steps:
        @tapec.compile
        @staticmethod
        def double(x: tapec.Tensor) -> tapec.Tensor:
            return x * 2

        @tapec.compile
        @classmethod
        def name(cls, x: tapec.Tensor) -> Any:
            return cls.__name__, x

    x = tapec.constant(1.0)
    assert float(Steps().double(x)) == float(Steps.double(x)) == 2.0
    assert Steps.name(x)[0] == Steps().name(x)[0] == "Steps"


def test_what_would_run_after_the_call_is_refused() -> None:
    with pytest.raises(tapec.errors.TypeError, match="generator or coroutine"):

        @tapec.compile
        def generator(x: tapec.Tensor) -> Any:
            yield x * 2

    @tapec.compile
    def lazy(x: tapec.Tensor) -> Any:
        return (x * i for i in range(3))

    with pytest.raises(tapec.errors.TypeError, match="returned a generator"):
        lazy(tapec.constant(1.0))


def test_copies_and_pickles_of_variables_and_tensors() -> None:
    """They have memory and numbers of their own: no tape takes one for the other."""
    v = tapec.Variable([1.0, 2.0], name="v", trainable=False)
    for copied in (copy.deepcopy(v), pickle.loads(pickle.dumps(v))):
        tapec.compile(lambda copied=copied: copied.assign_add([1.0, 1.0]))()
        np.testing.assert_array_equal(copied.numpy(), [2, 3])
        assert (copied.name, copied.trainable) == ("v:0", False)
    np.testing.assert_array_equal(v.numpy(), [1, 2])
    x = tapec.constant(2.0)
    again = pickle.loads(pickle.dumps(x))
    with tapec.GradientTape() as tape:
        tape.watch(again)
        y = x * again
    assert [g if g is None else float(g) for g in tape.gradient(y, [x, again])] == [None, 2.0]
