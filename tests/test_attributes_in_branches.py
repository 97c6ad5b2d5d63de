"""Attributes that branches and loops assign, of classes that do something of their own then: once, as eagerly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from both_compiled import both

import tapec


class Doubling:
    """A property whose setter is not the inverse of its getter, and counts."""

    def __init__(self, value: Any) -> None:
        self._value, self.count = value, 0

    @property
    def value(self) -> Any:
        return self._value

    @value.setter
    def value(self, given: Any) -> None:
        self._value = given * 2.0
        self.count += 1


class Around(Doubling):
    """A property that assigns another one."""

    @property
    def outer(self) -> Any:
        return self.value

    @outer.setter
    def outer(self, given: Any) -> None:
        self.value = given + 1.0


class Noting:
    """A class that changes what it is given."""

    def __init__(self, value: Any) -> None:
        self.__dict__.update(value=value, count=0)

    def __setattr__(self, name: str, given: Any) -> None:
        self.__dict__["count"] += 1
        self.__dict__[name] = given * 2.0


class Halving:
    """A descriptor that does."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, thing: Any, owner: Any) -> Any:
        return getattr(thing, self.name)

    def __set__(self, thing: Any, given: Any) -> None:
        setattr(thing, self.name, given * 0.5)


class Described:
    value = Halving()
    count = 0

    def __init__(self, value: Any) -> None:
        self._value = value


class Meta(type):
    def __setattr__(cls, name: str, given: Any) -> None:
        super().__setattr__(name, given * 2.0)


class Shared(metaclass=Meta):
    value: Any = 1.0


KINDS: dict[str, Callable[[Any], Any]] = {
    "property": Doubling,
    "class": Noting,
    "descriptor": Described,
}


def branch(thing: Any, x: Any) -> Any:
    if x > 0.0:
        thing.value = x + 1.0
    else:
        thing.value = x - 1.0
        thing.value += x
    return thing.value


def one_way(thing: Any, x: Any) -> Any:
    if x > 0.0:
        thing.value = x + 1.0
    return thing.value


def called(thing: Any, x: Any) -> Any:
    def assign(value: Any) -> None:
        thing.value = value

    if x > 0.0:
        assign(x * 3.0)
    return thing.value


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [branch, one_way, called])
@pytest.mark.parametrize("v", [1.5, -1.5])
def test_a_branch_assigns_once(kind: str, step: Callable[..., Any], v: float) -> None:
    both(lambda x: step(KINDS[kind](x * 0.5), x), tapec.constant(v))


def test_counts_of_setters_are_as_eagerly() -> None:
    def step(x: Any) -> Any:
        thing = Around(x)
        if x > 0.0:
            thing.outer = x
        else:
            thing.outer = x * 2.0
            thing.value = thing.outer
        return thing.value, thing.count

    both(step, tapec.constant(1.5))
    both(step, tapec.constant(-1.5))


class Tripling:
    """As `Noting`, without a count that no loop would carry."""

    def __init__(self, value: Any) -> None:
        self.__dict__["value"] = value

    def __setattr__(self, name: str, given: Any) -> None:
        self.__dict__[name] = given * 3.0


def loops(thing: Any) -> Any:
    for _ in tapec.range(3):
        thing.value = thing.value * 0.75
    while thing.value < 20.0:
        thing.value = thing.value + 1.0
    return thing.value


@pytest.mark.parametrize("kind", [Doubling, Around, Tripling])
def test_a_loop_assigns_once_a_turn(kind: Any) -> None:
    both(lambda x: loops(kind(x)), tapec.constant(1.5))


def test_a_loop_calls_no_descriptor_that_assigns() -> None:
    with pytest.raises(tapec.errors.TypeError, match=r"thing\._value is .* after one iteration"):
        tapec.compile(lambda x: loops(Described(x)))(tapec.constant(1.5))


def test_a_loop_carries_what_the_setter_counts() -> None:
    def step(x: Any) -> Any:
        thing = Doubling(x)
        for _ in tapec.range(3):
            thing.value = thing.value * 0.75
        return thing.value, tapec.cast(thing.count, tapec.float32)

    both(step, tapec.constant(1.5))


def test_a_class_is_assigned_once() -> None:
    def step(x: Any) -> Any:
        type.__setattr__(Shared, "value", x)
        if x > 0.0:
            Shared.value = x + 1.0
        found = Shared.value
        type.__setattr__(Shared, "value", 1.0)
        return found

    both(step, tapec.constant(1.5))
    both(step, tapec.constant(-1.5))
