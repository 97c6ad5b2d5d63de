"""What explanations say, who passes them on, and what they cost in memory."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import tapec
from tapec.explanations.trail import AFTERWARDS, CAPACITY
from tapec.recording import bystanders

# ---- what an explanation says


def test_whole_text() -> None:
    v = tapec.Variable([1.0, 2.0])
    with tapec.GradientTape() as tape:
        a = tapec.stop_gradient(v * v)
        loss = tapec.reduce_sum(a)
    found = tape.explain(loss, v)
    line = found.location.line if found.location else 0
    assert str(found) == (
        f"the gradient of loss with respect to v is None: the path v -> mul (line {line}) -> "
        f"stop_gradient (line {line}) is cut by stop_gradient at line {line}\n"
        f"  {__file__}:{line}   a = tapec.stop_gradient(v * v)\n"
        "  remedy: take stop_gradient away if a gradient is to flow here"
    )
    assert found.__rich__().startswith("[bold]the gradient of loss")


def test_names_in_containers() -> None:
    weights = [tapec.Variable(1.0), tapec.Variable(2.0)]
    model = {"bias": tapec.Variable(0.5)}
    with tapec.GradientTape() as tape:
        y = weights[0] * 2.0
    found = tape.explain(y, model["bias"])
    assert "respect to model['bias'] is None" in found.message
    assert "y depends on: weights[0]" in found.message


def test_several_cuts() -> None:
    v = tapec.Variable(2.0)
    with tapec.GradientTape() as tape:
        a = tapec.round(v)
        b = tapec.stop_gradient(v)
        y = a * b
    found = tape.explain(y, v)
    assert found.location is not None
    assert found.cause == "no derivative"
    (other,) = found.further
    assert other.cause == "stop_gradient"
    assert other.location is not None
    assert other.location.line == found.location.line + 1
    assert other.message in str(found)


def test_cuts_before_elements_left_the_tape() -> None:
    v = tapec.Variable([2.0, 3.0])
    with tapec.GradientTape() as tape:
        a = tapec.round(v)
        b = tapec.stop_gradient(a * 2.0)
        y = tapec.constant(b.numpy()) * 2.0
    found = tape.explain(y, v)
    assert "(one of 3 reasons)" in found.message
    causes = [part.cause for part in (found, *found.further)]
    assert causes == ["no derivative", "stop_gradient", "left the tape"]
    lines = [part.location.line for part in (found, *found.further) if part.location is not None]
    assert [line - lines[0] for line in lines] == [0, 1, 2]


def test_an_argument_by_name_of_a_custom_gradient() -> None:
    @tapec.custom_gradient
    def scaled(x: Any, by: Any) -> Any:
        return x * by, lambda upstream: upstream * by

    v = tapec.Variable(2.0)
    with tapec.GradientTape() as tape:
        y = scaled(tapec.constant(1.0), by=v)
    assert tape.explain(y, v).cause == "custom gradient"


def test_what_a_function_stops_inside_is_not_blamed() -> None:
    v = tapec.Variable([1.0, 2.0])
    with tapec.GradientTape() as tape:
        a = tapec.nn.softmax(v)  # stops the gradient of the greatest element, and passes the others
        b = tapec.round(a)
        y = tapec.reduce_sum(b)
    found = tape.explain(y, v)
    assert found.cause == "no derivative"
    assert [operation.split()[0] for operation in found.path] == ["softmax", "round"]


def test_connected() -> None:
    v = tapec.Variable(2.0)
    with tapec.GradientTape() as tape:
        y = v * float(v)
    found = tape.explain(y, v)
    assert found.cause == "connected"
    assert "float()" in found.message
    assert tape.gradient(y, v) is not None


def test_refused() -> None:
    with pytest.raises(tapec.errors.RuntimeError, match="never recorded"):
        tapec.GradientTape().explain(tapec.constant(1.0), tapec.constant(1.0))
    with tapec.GradientTape() as tape:
        pass
    with pytest.raises(tapec.errors.TypeError, match="source must be a Tensor or Variable"):
        tape.explain(tapec.constant(1.0), 1.0)


# ---- optimizers


def test_optimizer_warns_with_the_explanation() -> None:
    v, w = tapec.Variable(2.0, name="v"), tapec.Variable(1.0, name="w")
    optimizer = tapec.optimizers.SGD(0.1)

    def step() -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            loss = tapec.stop_gradient(v) * w
        gradients = tape.gradient(loss, [v, w])
        optimizer.apply_gradients(zip(gradients, [v, w], strict=True))
        return loss

    for run in (step, tapec.compile(step)):
        with pytest.warns(
            UserWarning, match=r"(?s)for variables \['v:0'\].*cut by stop_gradient at"
        ):
            run()


def test_optimizer_refuses_with_the_explanation() -> None:
    v = tapec.Variable(2.0, name="v")
    with tapec.GradientTape() as tape:
        loss = tapec.round(v) * 3.0
    gradient = tape.gradient(loss, v)
    with pytest.raises(tapec.errors.ValueError, match=r"cut by round at line \d+"):
        tapec.optimizers.SGD(0.1).apply_gradients([(gradient, v)])


def test_the_reason_outlives_the_tape() -> None:
    v = tapec.Variable(2.0, name="v")

    def gradient() -> tapec.Tensor | None:
        with tapec.GradientTape() as tape:
            loss = tapec.round(v) * 3.0
        found: tapec.Tensor | None = tape.gradient(loss, v)
        return found

    for run in (gradient, tapec.compile(gradient)):
        missing = run()
        gc.collect()
        for refuse in (
            lambda g: tapec.optimizers.SGD(0.1).apply_gradients([(g, v)]),
            lambda g: tapec.clip_by_norm(g, 1.0),
            lambda g: tapec.clip_by_value(g, -1.0, 1.0),
            lambda g: tapec.debugging.check_numerics(g, "gradient"),
            lambda g: tapec.convert_to_tensor(g),
            lambda g: v - 0.1 * v * g,
        ):
            with pytest.raises(tapec.errors.ValueError, match=r"loss .* v .*cut by round at line"):
                refuse(missing)


def test_a_none_that_is_no_gradient() -> None:
    v = tapec.Variable(2.0)
    with tapec.GradientTape() as tape:
        y = v * v
    assert tape.gradient(y, v, unconnected_gradients="zero") is not None
    optimizer = tapec.optimizers.SGD(0.1)
    with pytest.raises(tapec.errors.ValueError, match=r"tape.explain.loss, variable. says why"):
        optimizer.apply_gradients([(None, v)])


# ---- memory


def test_nothing_keeps_arrays_or_tapes_alive() -> None:
    # What a function without assertions leaves behind: pytest's read the locals, and so keep them.
    def program() -> tuple[bool, bool]:
        v = tapec.Variable(np.ones(3, np.float32))
        with tapec.GradientTape() as tape:
            a = tapec.exp(v)
            loss = tapec.reduce_sum(tapec.stop_gradient(a) * 2.0) + tapec.reduce_sum(a * a)
        array, trail = weakref.ref(a.array), weakref.ref(tape.trail)
        gradient = tape.gradient(loss, tapec.constant(1.0))
        del a
        kept = array() is not None
        del tape
        return kept or gradient is not None, trail() is not None

    gc.disable()
    try:
        assert program() == (False, False)
    finally:
        gc.enable()


def test_a_tape_that_waits_listens_for_a_while() -> None:
    v = tapec.Variable(2.0)
    gc.collect()
    before = len(bystanders)
    with tapec.GradientTape(persistent=True) as tape:
        y = v * v
    assert len(bystanders) == before + 1
    z = y
    for _ in range(AFTERWARDS + 1):
        z = z * 1.0
    assert len(bystanders) == before
    g = tape.gradient(y, v)
    assert tape.explain(g, v).cause == "gradient outside the block"
    assert len(bystanders) == before + 1
    del tape
    gc.collect()


def test_a_tape_that_gave_its_gradient_listens_no_longer() -> None:
    v = tapec.Variable(2.0)
    gc.collect()
    before = len(bystanders)
    with tapec.GradientTape() as tape:
        y = v * v
    assert tape.gradient(y, v) is not None
    assert len(bystanders) == before


def test_many_steps_are_bounded() -> None:
    x = tapec.constant(2.0)
    with tapec.GradientTape() as tape:
        y = x
        for _ in range(CAPACITY + 10):
            y = y * 1.0
            y.numpy()
    assert len(tape.trail.steps) == len(tape.trail.departures) == CAPACITY
    assert tape.explain(y, x).cause in ("not used", "not watched", "left the tape")


# ---- programs of more than one function


class Dense:
    """A layer that forgets its bias."""

    def __init__(self) -> None:
        self.kernel = tapec.Variable([[1.0, 2.0], [3.0, 4.0]])
        self.bias = tapec.Variable([0.0, 0.0])

    def __call__(self, x: Any) -> Any:
        return tapec.tanh(x @ self.kernel)


class Stack:
    __slots__ = ("layers",)

    def __init__(self, count: int) -> None:
        self.layers = [Dense() for _ in range(count)]

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def test_names_deep_in_objects() -> None:
    model = Stack(2)
    variables = [v for layer in model.layers for v in (layer.kernel, layer.bias)]
    with tapec.GradientTape() as tape:
        loss = tapec.reduce_sum(model(tapec.ones([1, 2])))
    found = tape.explain(loss, variables)
    assert [e.cause for e in found] == ["connected", "not read", "connected", "not read"]
    assert "respect to model.layers[1].bias is None" in found[3].message
    assert "loss depends on: model.layers[0].kernel, model.layers[1].kernel" in found[3].message


def test_the_ends_of_a_long_way() -> None:
    model = Stack(100)
    with tapec.GradientTape() as tape:
        y = tapec.stop_gradient(model(tapec.ones([1, 2])))
    found = tape.explain(y, model.layers[0].kernel)
    assert found.cause == "stop_gradient"
    assert len(found.path) == 9
    assert found.path[4] == "..."
    assert found.path[0].startswith("matmul (line ")
    assert found.path[-1].startswith("stop_gradient (line ")


def test_a_loop_that_cuts_often_is_one_cut() -> None:
    v = tapec.Variable(1.5)
    with tapec.GradientTape() as tape:
        y: Any = v
        for _ in range(5):
            y = tapec.round(y) * 2.0
    assert not tape.explain(y, v).further


def test_cuts_one_behind_the_other() -> None:
    v = tapec.Variable(1.5)
    with tapec.GradientTape() as tape:
        a = tapec.round(v)
        b = tapec.nn.softmax(tapec.stack([a, a]))  # stops a gradient inside, and passes others
        c = tapec.stop_gradient(b)
    y = c * 2.0
    found = tape.explain(y, v)
    assert [found.cause, *(e.cause for e in found.further)] == [
        "no derivative",
        "stop_gradient",
        "outside the block",
    ]
    assert "behind that, the path v -> round" in found.further[0].message


def test_not_watched_and_cut_besides() -> None:
    x = tapec.constant(1.5)
    with tapec.GradientTape() as tape:
        y = tapec.floor(x) * 2.0
    z = y * 3.0
    found = tape.explain(z, x)
    assert [found.cause, *(e.cause for e in found.further)] == [
        "not watched",
        "no derivative",
        "outside the block",
    ]


def test_equal_values_make_no_copy() -> None:
    """Variables that begin with the same number everywhere are many; copies of a model are few."""
    v, w = tapec.Variable(tapec.zeros([2])), tapec.Variable(tapec.zeros([2]))
    with tapec.GradientTape() as tape:
        y = w * 2.0
    assert tape.explain(y, v).cause == "not read"
    copied = copy.deepcopy(v)
    with tapec.GradientTape() as tape:
        y = copied * 2.0
    assert tape.explain(y, v).cause == "another variable"


def test_code_without_a_file() -> None:
    names: dict[str, Any] = {"tf": tapec}
    code = "v = tf.Variable(1.0)\nwith tf.GradientTape() as t:\n    y = tf.round(v)\ne = t.explain(y, v)"
    exec(compile(code, "<cell 1>", "exec"), names)
    assert str(names["e"]).splitlines()[1] == "  <cell 1>:3"


def test_a_tensor_made_in_the_block() -> None:
    h: Any = tapec.Variable(1.0) * 2.0
    with tapec.GradientTape() as tape:
        h = tapec.constant(3.0)  # here
        y = h * h
    found = tape.explain(y, h)
    assert found.cause == "not watched"
    assert found.location is not None
    assert found.location.text.endswith("# here")


def test_many_variables_share_what_is_known() -> None:
    model = Stack(20)
    with tapec.GradientTape() as tape:
        y = tapec.stop_gradient(model(tapec.ones([1, 2])))
    kernels = {str(i): layer.kernel for i, layer in enumerate(model.layers)}
    found = tape.explain(y, kernels)
    assert found["3"] is found.structure["3"]
    assert len(found) == len(found.missing) == 20
    assert (found.cause, str(found).count("is cut by stop_gradient")) == ("stop_gradient", 20)
    assert found.location == found["0"].location
    assert found._repr_html_().count("<b>") == 21
    assert "20 of 20 gradients are None" in found.__rich__()
    assert not tape.explain(y, []).missing
    assert "there are no sources" in str(tape.explain(y, []))


def test_computed_after_the_gradient() -> None:
    v = tapec.Variable(3.0)
    with tapec.GradientTape() as tape:
        y = v * v
        slope = tape.gradient(y, v)  # here
        z = slope * v
    found = tape.explain(z, v)
    assert found.cause == "outside the block"
    assert "z was computed after the tape gave its gradient" in found.message
    assert found.location is not None
    assert found.location.text.endswith("# here")
    assert tape.explain(y, v).cause == "connected"


class Shared:
    scale = tapec.Variable(1.0)
    parts: ClassVar = [tapec.Variable(2.0)]


class Pair(NamedTuple):
    first: tapec.Variable
    second: tapec.Variable


def test_names_of_class_attributes_and_named_tuples() -> None:
    pair = Pair(tapec.Variable(1.0), tapec.Variable(2.0))
    shared = Shared()
    with tapec.GradientTape() as tape:
        y = pair.first * shared.parts[0]
    assert "respect to pair.second is None" in tape.explain(y, pair)[1].message
    assert "respect to shared.scale is None" in tape.explain(y, shared.scale).message
    assert "y depends on: pair.first, shared.parts[0]" in tape.explain(y, Shared.scale).message


def test_names_that_nobody_gave() -> None:
    """Notebooks keep results of cells, Python the iterable of a comprehension."""
    v = tapec.Variable(1.0)
    names: dict[str, Any] = {"_": v, "_3": v, "Out": {3: v}, "kernel": v, "tf": tapec}
    exec("with tf.GradientTape() as t: y = tf.round(kernel)\ne = t.explain(y, Out[3])", names)
    assert "respect to kernel is None" in names["e"].message


def test_a_loop_whose_turns_differ_is_explained_a_few_times() -> None:
    """What is said of it may be that of an earlier turn, for saying it anew each time would cost."""
    v = tapec.Variable(1.0, name="v")
    made = []
    for turn in range(20):
        with tapec.GradientTape() as tape:
            y: Any = v
            for _ in range(turn + 1):
                y = y * 1.0
            y = tapec.round(y)
        assert tape.gradient(y, v) is None
        made.append(id(v.missing))
    assert v.missing is not None
    assert v.missing.cause == "no derivative"
    assert len(set(made)) < 20
    assert made[-1] == made[-2]
