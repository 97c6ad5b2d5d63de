"""What a compiled function keeps alive: nothing that only its calls brought, as TensorFlow keeps nothing."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any, cast

import pytest

import tapec
from tapec.compiled.retraces import Cause
from tapec.runtime.cpu import program
from tapec.runtime.cpu.machine_code.linker import link

X = tapec.ones([3])


class Layer:
    """An object with Variables and a compiled method."""

    def __init__(self, factor: float = 2.0) -> None:
        self.w = tapec.Variable(tapec.ones([3]))
        self.factor = factor
        self.parent: Any = None

    @tapec.compile
    def __call__(self, x: tapec.Tensor) -> Any:
        return tapec.reduce_sum(x * self.w) * self.factor

    @tapec.compile
    def step(self, x: tapec.Tensor) -> None:
        self.w.assign_add(x)


class Net(tapec.Module):
    """A model of layers that know it."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = [Layer(), Layer()]
        for layer in self.layers:
            layer.parent = self
        self.optimizer = tapec.optimizers.Adam(0.1)

    @tapec.compile
    def train(self, x: tapec.Tensor) -> Any:
        with tapec.GradientTape() as tape:
            loss = self.layers[0](x) * self.layers[1].parent.layers[0].factor
        variables = [self.layers[0].w]
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss


class Slotted:
    """An object on which nothing can hang."""

    __slots__ = ("factor",)

    def __init__(self) -> None:
        self.factor = 3.0


@tapec.compile
def scaled(model: Any, x: tapec.Tensor) -> Any:
    """A function of an object."""
    return x * model.w


@tapec.compile
def applied(function: Callable[..., Any], x: tapec.Tensor) -> Any:
    """A function of a function."""
    return function(x)


@tapec.compile
def both(first: Any, second: Any, x: tapec.Tensor) -> Any:
    """A function of two objects."""
    return x * first.w + second.w


@tapec.compile
def read(variable: Any) -> Any:
    """A function of a Variable."""
    return variable + 1.0


def closure() -> Callable[..., Any]:
    layer = Layer()
    return lambda x: x * layer.w


def compiled_closure() -> Callable[..., Any]:
    layer = Layer()
    return tapec.compile(lambda x: x * layer.w)


CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "a method": (Layer, lambda m: m(X)),
    "a method that updates": (Layer, lambda m: m.step(X)),
    "nested modules": (Net, lambda m: m.train(X)),
    "an argument": (Layer, lambda m: scaled(m, X)),
    "an argument by name": (Layer, lambda m: scaled(model=m, x=X)),
    "inside of a dict": (Layer, lambda m: applied(lambda d: d["m"].w + 1.0, cast("Any", {"m": m}))),
    "a bound method": (Layer, lambda m: applied(m.__call__, X)),
    "a closure": (closure, lambda f: applied(f, X)),
    "a compiled closure": (compiled_closure, lambda f: f(X)),
    "a Variable": (lambda: tapec.Variable(1.0), read),
    "a concrete function": (Layer, lambda m: scaled.get_concrete_function(m, X)(X)),
    "under a tape": (Layer, lambda m: gradient(m)),
}


def gradient(layer: Layer) -> Any:
    with tapec.GradientTape() as tape:
        loss = layer(X)
    return tape.gradient(loss, layer.w)


@pytest.mark.parametrize("name", CASES)
def test_objects_end(name: str) -> None:
    make, call = CASES[name]
    thing = make()
    call(thing)
    call(thing)
    seen = weakref.ref(thing)
    del thing
    gc.collect()
    assert seen() is None


def test_programs_of_objects_that_are_gone_are_gone() -> None:
    @tapec.compile
    def f(model: Any, x: tapec.Tensor) -> Any:
        return x * model.w

    kept = Layer()
    f(kept, X)
    for _ in range(3):
        f(Layer(), X)
    gc.collect()
    assert len(f.programs) == 1
    assert [r.cause for r in f.retraces()] == [Cause.OBJECT] * 3


def test_a_new_argument_ends_beside_an_old_one() -> None:
    first, second = Layer(), Layer()
    both(first, second, X)
    third = Layer()
    both(first, third, X)
    both(first, third, tapec.ones([1]))
    seen = weakref.ref(third)
    del third
    gc.collect()
    assert seen() is None
    traced = len(both.programs)
    both(first, second, X)
    assert len(both.programs) == traced


def test_functions_end_before_their_arguments() -> None:
    layer = Layer()
    for _ in range(3):
        f = tapec.compile(lambda model, x: x * model.w)
        f(layer, X)
        seen = weakref.ref(f.programs[0])
        del f
        gc.collect()
        assert seen() is None


def test_instances_share_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Each has a program; what was compiled for the first serves the others, by its text."""
    monkeypatch.setenv("TAPEC_CACHE", str(tmp_path))
    compiled: list[Any] = []

    def noted(*objects: bytes) -> Any:
        compiled.append(objects)
        return link(*objects)

    monkeypatch.setattr(program, "link", noted)
    layers = [Layer() for _ in range(4)]
    for i, layer in enumerate(layers):
        layer.w.assign_add([float(i)] * 3)
        assert layer(X).numpy() == 2 * 3 * (1 + i)
    assert len(compiled) == 1
    assert len({id(layer) for layer in layers}) == len(layers)


def test_copies_have_their_own() -> None:
    layer = Layer()
    layer.step(X)
    for made in (copy.copy(layer), copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        before = layer.w.numpy()
        made.w = tapec.Variable(tapec.zeros([3]))
        made.step(X)
        assert made.w.numpy().tolist() == [1.0] * 3
        assert layer.w.numpy().tolist() == before.tolist()


def test_what_hangs_on_a_module_is_none_of_its_parts() -> None:
    net = Net()
    before = list(net._flatten(with_path=True))
    net.train(X)
    assert [path for path, _ in net._flatten(with_path=True)] == [path for path, _ in before]


def test_objects_on_which_nothing_hangs() -> None:
    f = tapec.compile(lambda x, thing: x * thing.factor)
    things = [Slotted() for _ in range(3)]
    things[1].factor = 5.0
    assert [f(X, thing).numpy()[0] for thing in things * 2] == [3.0, 5.0, 3.0] * 2
    assert len(f.programs) == 3


def test_state_of_an_instance_is_guarded() -> None:
    layer = Layer()
    assert layer(X).numpy() == 6.0
    layer.factor = 4.0
    assert layer(X).numpy() == 12.0
