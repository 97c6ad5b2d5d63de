"""Structures as arguments and results of compiled functions: what is inside of them is input, like tensors alone."""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapec
import tapec.structure
from tapec.compiled.options import Options

X, Y = tapec.constant([1.0, 2.0]), tapec.constant([3.0, 4.0])


class Batch(NamedTuple):
    """Inputs and targets."""

    x: Any
    y: Any


@dataclass(frozen=True)
class Frozen:
    """What cannot be assigned to."""

    x: Any
    scale: float = 2.0


@dataclass
class State:
    """What training carries on, with a value that is no argument of its constructor."""

    x: Any
    rest: list[Any] = field(default_factory=list)
    total: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.made = True


@dataclass(slots=True)
class Slotted:
    """Without a dict."""

    x: Any


class Attrs:
    """Like a class that attrs makes: it says of which attributes it consists, and keeps them."""

    __attrs_attrs__ = (namedtuple("Attribute", "name")("x"), namedtuple("Attribute", "name")("y"))

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y


CASES: dict[str, Any] = {
    "list": lambda x, y: [x, [y]],
    "tuple": lambda x, y: (x, y, None),
    "dict": lambda x, y: {"y": y, "x": x},
    "ordered": lambda x, y: OrderedDict([("y", y), ("x", x)]),
    "named tuple": Batch,
    "frozen dataclass": lambda x, y: [Frozen(x), y],
    "dataclass": lambda x, y: State(x, [y]),
    "slots": lambda x, y: {"s": Slotted(x), "y": y},
    "attrs": Attrs,
    "slices": lambda x, y: [tapec.IndexedSlices(x, tapec.constant([0, 1])), y],
}


@pytest.mark.parametrize("kind", CASES)
def test_structures_go_in_and_come_out(kind: str) -> None:
    """One program for other tensors of the same types; results are new structures of the same kind."""
    make = CASES[kind]
    f = tapec.compile(lambda structure: structure)
    for x, y in ((X, Y), (Y, X)):
        found, given = f(make(x, y)), make(x, y)
        assert type(found) is type(given)
        one, other = (tapec.structure.flatten(s, parts=True)[0] for s in (found, given))
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            if isinstance(b, tapec.Tensor):
                np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert len(f.programs) == 1


def test_methods_and_attributes_of_records_are_there() -> None:
    f = tapec.compile(lambda s: s.x * 2 if s.made and s.total is None else s.rest)
    np.testing.assert_array_equal(f(State(X)).numpy(), [2.0, 4.0])
    g = tapec.compile(lambda s, x: Frozen(s.x + x, 3.0))
    result = g(Frozen(X), Y)
    assert isinstance(result, Frozen)
    np.testing.assert_array_equal(result.x.numpy(), [4.0, 6.0])
    assert float(result.scale) == 3.0


def test_tensors_of_a_record_are_inputs() -> None:
    """A frozen record is not a constant: what it holds may differ from call to call."""
    f = tapec.compile(lambda s: s.x * s.scale)
    for x, scale in ((X, 2.0), (Y, 2.0), (X, 3.0), (Y, 4.0)):
        wanted = x.numpy() * np.float32(scale)
        np.testing.assert_array_equal(f(Frozen(x, scale)).numpy(), wanted)
    assert len(f.programs) == 2  # the scale is an input once it changed


def test_modules_are_taken_as_they_are() -> None:
    class Layer(tapec.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = tapec.Variable(2.0)

    f = tapec.compile(lambda layer, x: layer.w.assign_add(1.0) * x)
    one, other = Layer(), Layer()
    assert [float(f(layer, tapec.constant(1.0))) for layer in (one, one, other)] == [3.0, 4.0, 3.0]
    assert len(f.programs) == 2


@pytest.mark.parametrize(
    ("argument", "change"),
    [
        ([X], lambda s: s.append(X)),
        ([X, Y], lambda s: s.reverse()),
        ({"x": X, "y": Y}, lambda s: s.pop("y")),
        ({"a": {"x": X}}, lambda s: s["a"].update(x=Y)),
        (State(X), lambda s: setattr(s, "total", s.x)),
    ],
)
def test_arguments_are_not_to_be_modified(argument: Any, change: Any) -> None:
    """As in TensorFlow: the function has copies, so nobody would see it."""

    @tapec.compile
    def f(structure: Any) -> None:
        change(structure)

    with pytest.raises(ValueError, match=r"f\(\) should not modify its Python input arguments"):
        f(argument)


def test_numbers_and_variables_come_back_as_tensors() -> None:
    v = tapec.Variable(2.0)

    @tapec.compile
    def f(n: float) -> Any:
        return {
            "n": n * 2,
            "int": 3,
            "flag": True,
            "v": v.assign_add(n),
            "array": np.ones(2),
            "none": None,
        }

    for n in (1.0, 0.5):
        found = f(n)
        kinds = {key: None if value is None else value.dtype.name for key, value in found.items()}
        assert kinds == {
            "n": "float32",
            "int": "int32",
            "flag": "bool",
            "v": "float32",
            "array": "float64",
            "none": None,
        }
        assert float(found["n"]) == n * 2
        assert float(found["v"]) == float(v)
        assert not isinstance(found["v"], tapec.Variable)


def test_exceptions_of_the_user_pass_unchanged() -> None:
    error = KeyError("mine")

    @tapec.compile
    def f(x: tapec.Tensor, n: float) -> tapec.Tensor:
        if n > 1.0:
            raise error
        return x * n

    f(X, 0.5)
    with pytest.raises(KeyError) as caught:
        f(X, 2.0)
    assert caught.value is error
    assert caught.traceback[-1].name == "f"
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'n'"):
        f(X)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'm'"):
        f(X, m=1)  # type: ignore[call-arg]


def test_a_check_in_native_code_names_what_is_wrong_and_the_line() -> None:
    f = tapec.compile(lambda x: tapec.debugging.check_numerics(tapec.math.log(x), "log"))
    f(X)
    with pytest.raises(
        tapec.errors.InvalidArgumentError, match=r"log : .* NaN values: 1 of 2"
    ) as caught:
        f(tapec.constant([1.0, -1.0]))
    assert "the first at [1]" in str(caught.value)
    assert "tapec.debugging.check_numerics(tapec.math.log(x)" in str(caught.value)


def test_an_index_in_native_code_is_named_with_its_range_and_line() -> None:
    f = tapec.compile(lambda x, i: tapec.gather(x, i))
    f(X, tapec.constant([0, 1]))
    with pytest.raises(
        tapec.errors.InvalidArgumentError, match=r"indices\[1\] = 5 is not in \[0, 2\)"
    ) as caught:
        f(X, tapec.constant([0, 5]))
    assert "tapec.gather(x, i)" in str(caught.value)


def test_concrete_functions() -> None:
    v = tapec.Variable(2.0)

    @tapec.compile
    def f(x: tapec.Tensor, n: int = 2, flag: bool = True) -> Any:
        return {"y": x * v * n} if flag else x

    concrete = f.get_concrete_function(tapec.TensorSpec([None], tapec.float32), 3)
    for size in (2, 5):
        np.testing.assert_array_equal(concrete(tapec.ones([size]))["y"].numpy(), np.full(size, 6.0))
        np.testing.assert_array_equal(f(tapec.ones([size]), 3)["y"].numpy(), np.full(size, 6.0))
    assert len(f.programs) == 1
    assert concrete.variables == (v,)
    assert concrete.structured_outputs == {"y": tapec.TensorSpec([None], tapec.float32)}
    assert concrete.structured_input_signature[0][1:] == (3, True)
    for wrong in (tapec.ones([2, 2]), tapec.ones([2], tapec.float64)):
        with pytest.raises(TypeError, match="Binding inputs to the compiled function failed"):
            concrete(wrong)
    with pytest.raises(TypeError, match="takes 1 tensors, got 2 arguments"):
        concrete(X, X)
    with pytest.raises(TypeError, match="was made for 3, got 4"):
        concrete(X, 4, True)


def test_objects_without_parts_are_found_by_themselves() -> None:
    """Instances of methods, Variables, functions: each has its program, whatever was called in between."""

    class Scale:
        def __init__(self, by: float) -> None:
            self.w = tapec.Variable(by)

        @tapec.compile
        def __call__(self, x: tapec.Tensor, times: float = 1.0) -> tapec.Tensor:
            return x * self.w * times

    one, other, x = Scale(2.0), Scale(3.0), tapec.constant(5.0)
    for _ in range(3):
        assert [float(one(x)), float(other(x, 2.0)), float(one(x, times=3.0))] == [10.0, 30.0, 30.0]
    assert len(Scale.__call__.programs) == 2

    apply = tapec.compile(lambda f, v, x: f(x) * v)
    v, w = tapec.Variable(1.0), tapec.Variable(10.0)
    for _ in range(2):
        found = [float(apply(f, s, x)) for f in (tapec.square, tapec.abs) for s in (v, w)]
        assert found == [25.0, 250.0, 5.0, 50.0]
    assert len(apply.programs) == 4


def test_a_loop_over_a_dict_goes_by_its_own_order() -> None:
    def along(x: Any, table: Any = None, **names: Any) -> Any:
        for key, y in (table or names).items():
            x = x + y if key == "plus" else x * y
        return x

    f = tapec.compile(along)
    one, two, three = map(tapec.constant, (1.0, 2.0, 3.0))
    for _ in range(2):
        assert float(f(one, {"plus": two, "times": three})) == 9.0
        assert float(f(one, {"times": three, "plus": two})) == 5.0
        assert float(f(one, plus=two, times=three)) == 9.0
        assert float(f(one, times=three, plus=two)) == 5.0
    assert len(f.programs) == 4
    assert f.retraces()[-1].path == "arguments"
    assert f.retraces()[0].path == "table"
    assert f.retraces()[0].new == "keys 'times', 'plus'"


def test_type_checkers_see_the_options_that_there_are() -> None:
    parameters = inspect.signature(tapec.compile).parameters
    declared = {name: p.annotation for name, p in parameters.items() if name != "func"}
    seen = {name: getattr(a, "__forward_arg__", a) for name, a in Options.__annotations__.items()}
    assert declared == seen


def test_functions_that_are_not_of_python_get_the_arguments_that_are_given() -> None:
    x = tapec.constant([1.0, 2.0])
    for function in (np.add, np.dot, functools.partial(np.add)):
        found = tapec.compile(function)(x, x)
        np.testing.assert_allclose(found, np.asarray(function(x, x)))


def test_what_contains_itself_is_refused() -> None:
    """As an argument, a result, an operand or a part of a Module: with the line, and no bare RecursionError."""
    endless: list[Any] = [X]
    endless.append(endless)
    record, slotted = State(X), Slotted(X)
    deep: Any = X
    record.rest.append({"whole": record})
    slotted.x = slotted
    for _ in range(2000):
        deep = [deep]
    model: Any = tapec.Module()
    model.parts = endless
    again = "a list contains itself: it is its own [1]"
    cases: list[tuple[Any, str]] = [
        (lambda: first(endless), again),
        (lambda: first([endless]), again),
        (lambda: first(values=endless), again),
        (lambda: first.trace(endless), again),
        (lambda: tapec.compile(lambda x: endless)(X), again),
        (lambda: first([record]), "a State contains itself: it is its own .rest[0]['whole']"),
        (lambda: first([slotted]), "a Slotted contains itself: it is its own .x"),
        (lambda: first([X, [deep, deep]]), "nested 200"),
        (lambda: tapec.stack(endless), again),
        (lambda: X + endless, again),
        (lambda: tapec.nest.flatten(endless), again),
        (lambda: tapec.nest.assert_same_structure(endless, endless), again),
        (lambda: tapec.nest.map_structure_up_to(endless, len, endless), again),
        (lambda: tapec.print(endless), again),
        (lambda: model.variables, again),
        (lambda: tapec.compile(lambda x: x, input_signature=endless), again),
    ]
    for give, says in cases:
        with pytest.raises(ValueError, match=r"no structure of tensors") as told:
            give()
        assert says in str(told.value)
        assert "test_structures.py" in str(told.value)
    np.testing.assert_array_equal(tapec.compile(lambda x: x + endless[0])(X), 2 * X)


def test_a_function_of_the_user_that_never_ends_is_no_structure() -> None:
    def endless(x: Any) -> Any:
        return endless(tapec.nest.flatten([x]))

    with pytest.raises(RecursionError):
        endless(1)


@tapec.compile
def first(values: Any) -> Any:
    """What comes first."""
    return values[0]
