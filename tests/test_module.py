"""Modules, scopes and specs: what holds a model's Variables, and what describes tensors."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import tapec


class Dense(tapec.Module):
    def __init__(self, size: int, name: str | None = None) -> None:
        super().__init__(name=name)
        self.w = tapec.Variable(tapec.ones([size, 1]), name="w")
        self.b = tapec.Variable(tapec.zeros([1]), name="b")

    def __call__(self, x: Any) -> tapec.Tensor:
        return tapec.add(x @ self.w, self.b)


class Tower(tapec.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = tapec.Variable(0, trainable=False, name="steps")
        self.layers = {"first": Dense(2, "first"), "second": [Dense(1, "second")]}
        self.again = self.layers["first"]  # found once

    @tapec.compile
    def __call__(self, x: Any) -> tapec.Tensor:
        self.steps.assign_add(1)
        return self.layers["second"][0](self.layers["first"](x))  # type: ignore[index, operator, no-any-return]


def names(variables: Any) -> list[str]:
    return [v.name for v in variables]


def test_variables_are_found_level_by_level() -> None:
    tower = Tower()
    assert names(tower.variables) == ["steps:0", "b:0", "w:0", "b:0", "w:0"]
    assert len(tower.trainable_variables) == 4
    assert names(tower.non_trainable_variables) == ["steps:0"]
    assert [m.name for m in tower.submodules] == ["first", "second"]
    assert tower.name == "tower"


def test_paths() -> None:
    found = [
        path
        for path, _ in Tower()._flatten(
            predicate=lambda leaf: isinstance(leaf, Dense), with_path=True
        )
    ]
    assert found == [("again",), ("layers", "second", 0)]


def test_a_compiled_method_trains() -> None:
    tower = Tower()

    @tapec.compile
    def step(model: Tower, x: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_mean(model(x) ** 2)
        for v, g in zip(
            model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
        ):
            v.assign_sub(0.1 * g)
        return loss

    x = tapec.constant([[1.0, 2.0]])
    losses = [float(step(tower, x)) for _ in range(3)]
    assert losses == sorted(losses, reverse=True)
    assert tower.steps.numpy() == 3
    assert len(step.programs) == 1


def test_names() -> None:
    class MyHTTPLayer2(tapec.Module):
        @tapec.Module.with_name_scope
        def build(self) -> tapec.Variable:
            return tapec.Variable(1.0, name="w")

    assert MyHTTPLayer2().name == "my_http_layer2"
    with tapec.name_scope("net"):
        layer = MyHTTPLayer2()
    assert layer.build().name == "net/my_http_layer2/w:0"
    assert layer.name_scope.name == "net/my_http_layer2/"
    with pytest.raises(ValueError, match="not a valid module name"):
        tapec.Module(name="a/b")


def test_name_scopes() -> None:
    with tapec.name_scope("a") as outer, tapec.name_scope("b"):
        v = tapec.Variable(1.0, name="v")
        assert tapec.get_current_name_scope() == "a/b"
        with tapec.name_scope(outer):
            assert tapec.Variable(1.0).name == "a/Variable:0"
        assert copy.deepcopy(v).name == pickle.loads(pickle.dumps(v)).name == v.name == "a/b/v:0"
    assert tapec.get_current_name_scope() == ""
    with pytest.raises(ValueError, match="not a valid root scope name"), tapec.name_scope("a b"):
        pass


@pytest.mark.parametrize(
    "name",
    ["/CPU:0", "cpu", "/device:CPU:0", "/job:localhost/replica:0/task:0/device:CPU:0", "", None],
)
def test_the_device_there_is(name: Any) -> None:
    with tapec.device(name):
        assert tapec.ones([]).numpy() == 1


@pytest.mark.parametrize("name", ["/GPU:0", "/CPU:1", "TPU", "/gpu"])
def test_other_devices_are_refused(name: str) -> None:
    with (
        pytest.raises(
            tapec.errors.InvalidArgumentError, match=rf"{name} unknown device.*\n.*\n.*CPU:0"
        ),
        tapec.device(name),
    ):
        pass


def test_init_scope_is_outside_of_the_function() -> None:
    made: list[tapec.Variable] = []

    @tapec.compile
    def f(x: tapec.Tensor) -> tapec.Tensor:
        assert tapec.inside_function()
        assert tapec.is_symbolic_tensor(x)
        with tapec.init_scope():
            assert tapec.executing_eagerly()
            if not made:
                made.append(tapec.Variable(tapec.ones([2]) * 3.0))
        with tapec.control_dependencies([x]):
            return x * made[0]

    assert f(tapec.constant([1.0, 2.0])).numpy().tolist() == [3.0, 6.0]


def test_functions_can_run_as_plain_python() -> None:
    seen: list[bool] = []

    @tapec.compile
    def f(x: tapec.Tensor) -> tapec.Tensor:
        seen.append(tapec.executing_eagerly())
        return x + 1.0

    x = tapec.constant(1.0)
    tapec.config.run_functions_eagerly(True)
    try:
        assert tapec.config.functions_run_eagerly()
        assert f(x).numpy() == f(x).numpy() == 2.0
    finally:
        tapec.config.run_functions_eagerly(False)
    assert f(x).numpy() == f(x).numpy() == 2.0
    assert seen == [True, True, False]


def test_what_devices_there_are() -> None:
    assert tapec.config.list_physical_devices("GPU") == []
    (cpu,) = tapec.config.list_physical_devices()
    assert cpu.device_type == "CPU"
    tapec.config.set_visible_devices([], "GPU")
    with pytest.raises(ValueError, match="the devices are"):
        tapec.config.set_visible_devices([], "CPU")


def test_specs() -> None:
    spec = tapec.TensorSpec([None, 3])
    assert repr(spec) == "TensorSpec(shape=(None, 3), dtype=tapec.float32, name=None)"
    assert spec.is_compatible_with(tapec.ones([2, 3]))
    assert spec.is_compatible_with(tapec.TensorSpec([2, None]))
    assert not spec.is_compatible_with(tapec.ones([2, 3], tapec.float64))
    assert not spec.is_compatible_with(tapec.ones([3]))
    assert tapec.TensorSpec([2, 3]).is_subtype_of(spec)
    assert tapec.TensorSpec([2, 3]).most_specific_compatible_type(tapec.TensorSpec([4, 3])) == spec
    with pytest.raises(ValueError, match="No TypeSpec is compatible"):
        spec.most_specific_compatible_type(tapec.TensorSpec([2, 3], tapec.int32))
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert {spec: 1}[tapec.TensorSpec((None, 3), "float32")] == 1
    v = tapec.Variable(1.0, name="v")
    assert tapec.TensorSpec.from_tensor(v) == tapec.TensorSpec([], name="v:0")
    assert tapec.TensorSpec.from_spec(spec, "x").name == "x"
    assert tapec.type_spec_from_value([[1, 2]]) == tapec.TensorSpec([1, 2], tapec.int32)
    with pytest.raises(TypeError, match="Could not build a TypeSpec"):
        tapec.type_spec_from_value(object())
    assert isinstance(spec, tapec.TypeSpec)
