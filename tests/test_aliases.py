"""Containers that two names have on one way through a program: writes to them are refused, and nothing else is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from both_compiled import both

import tapec
from tapec import errors
from tapec.autograph import aliases
from tapec.structure import flatten


@dataclass
class Box:
    held: Any


class Holder:
    """Has a list that others may have, too."""

    def __init__(self, held: list[Any]) -> None:
        self.held = held


def another(x: Any) -> Any:
    a, b = [1.0], [2.0]
    if x > 0.0:
        b = a
    b[0] = x
    return a[0]


def written_through_the_other(x: Any) -> Any:
    a, b = [1.0], [2.0]
    if x > 0.0:
        b = a
    a[0] = x
    return b[0]


def the_same_items(x: Any) -> Any:
    a, b = [1.0], [1.0]
    if x > 0.0:
        b = a
    b[0] = x
    return a[0]


def made_anew_on_one_way(x: Any) -> Any:
    a = [0.0, 0.0]
    b = a
    if x > 0.0:
        b = [x, x]
    b[0] = x
    return a[0]


def of_a_dict(x: Any) -> Any:
    a, b = {"k": x}, {"k": x * 2.0}
    c = a if x > 0.0 else b
    c["k"] = x * 5.0
    return a["k"]


def of_a_deque(x: Any) -> Any:
    a, b = deque([x]), deque([x * 2.0])
    if x > 0.0:
        b = a
    b.append(x)
    return a[-1]


def of_a_record(x: Any) -> Any:
    a, b = Box(x), Box(x * 2.0)
    if x > 0.0:
        b = a
    b.held = x * 3.0
    return a.held


def nested(x: Any) -> Any:
    a = [x]
    b = (a, x)
    if x > 0.0:
        b = ([x * 2.0], x)
    b[0].append(x * 3.0)
    return a[-1]


def of_an_attribute(x: Any) -> Any:
    a = [x]
    holder = Holder([x * 2.0])
    if x > 0.0:
        holder.held = a
    holder.held[0] = x * 3.0
    return a[0]


def in_a_closure(x: Any) -> Any:
    a, b = [1.0], [2.0]

    def first() -> Any:
        return a[0]

    if x > 0.0:
        b = a
    b[0] = x
    return first()


def of_who_called(x: Any) -> Any:
    def inner(b: list[Any]) -> None:
        if x > 0.0:
            b = [x, x]
        b[0] = x * 2.0

    a = [x, x]
    inner(a)
    return a[0]


def round_a_loop(x: Any) -> Any:
    a = [x]
    b = a
    while x > 1.0:
        b = [b[0] * 2.0]
        x = x - 1.0
    b[0] = x * 9.0
    return a[0]


def in_the_first_turn(x: Any) -> Any:
    a = [x]
    b = a
    for _ in tapec.range(2):
        b[0] = b[0] * 9.0
        b = [b[0] + 1.0]
    return a[0]


@pytest.mark.parametrize(
    "step",
    [
        another,
        written_through_the_other,
        the_same_items,
        made_anew_on_one_way,
        of_a_dict,
        of_a_deque,
        of_a_record,
        nested,
        of_an_attribute,
        in_a_closure,
        of_who_called,
        round_a_loop,
        in_the_first_turn,
    ],
)
def test_a_write_to_one_of_two_is_refused(step: Callable[[Any], Any]) -> None:
    with pytest.raises(
        errors.TypeError, match="is changed in place, and may be the same"
    ) as caught:
        tapec.compile(step)(tapec.constant(2.0))
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


def only_read(x: Any) -> Any:
    a, b = [1.0], [2.0]
    if x > 0.0:
        b = a
    return a[0] * x + b[0]


def of_its_own(x: Any) -> Any:
    a = [x]
    if x > 0.0:
        a = [x * 2.0]
    a.append(x * 3.0)
    a[0] = a[0] * 4.0
    return a


def copied(x: Any) -> Any:
    a, b = [x], [x * 2.0]
    if x > 0.0:
        b = list(a)
    b[0] = b[0] * 3.0
    return a[0] + b[0]


def given(x: Any) -> Any:
    def inner(b: list[Any]) -> Any:
        if x > 0.0:
            b = [x, x]
        b[0] = x * 2.0
        return b[0] + b[1]

    return inner([x * 3.0, x * 4.0])


def surely_another(x: Any) -> Any:
    a = [x]
    b = a
    for _ in tapec.range(2):
        b = [b[0] * 2.0]
    b[0] = b[0] * 9.0
    return a[0] + b[0]


def bound_again(x: Any) -> Any:
    a, b = [1.0], [2.0]
    if x > 0.0:
        b = a
    y = b[0] * x
    a, b = [y], [x]
    a[0] = a[0] * 2.0
    b[0] = b[0] * 3.0
    return a[0] + b[0]


@pytest.mark.parametrize(
    "step", [only_read, of_its_own, copied, given, surely_another, bound_again]
)
@pytest.mark.parametrize("v", [2.0, -2.0])
def test_other_containers_are_written_to(step: Callable[[Any], Any], v: float) -> None:
    both(step, tapec.constant(v))


def test_nobody_looks_for_other_names_where_nothing_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That goes over all that code has in reach."""
    looked: list[Any] = []

    def reached(*asked: Any) -> set[int]:
        looked.append(asked)
        return set()

    monkeypatch.setattr(aliases, "_reached", reached)
    tapec.compile(only_read)(tapec.constant(2.0))
    assert not looked
    tapec.compile(of_its_own)(tapec.constant(2.0))
    assert looked


def returned_early(x: Any) -> Any:
    a = [x, x * 2.0]
    if x > 0.0:
        return x, a
    a[0] = x * 3.0
    if x > -1.0:
        return x * 2.0, a
    a.append(x)
    a.pop(0)
    return -x, a


def returned_in_a_structure(x: Any) -> Any:
    held = {"k": [x, x * 2.0]}
    if x > 0.0:
        held["k"][1] = x * 5.0
        return x, held
    held["k"] = [x * 7.0, *held["k"][:1]]
    return -x, held


@pytest.mark.parametrize("step", [returned_early, returned_in_a_structure])
@pytest.mark.parametrize("v", [2.0, -0.5, -2.0])
def test_what_is_returned_on_one_way_is_changed_on_another(
    step: Callable[[Any], Any], v: float
) -> None:
    one, other = step(tapec.constant(v)), tapec.compile(step)(tapec.constant(v))
    for a, b in zip(flatten(one)[0], flatten(other)[0], strict=True):
        assert float(a) == float(b)


def test_a_write_to_what_one_of_two_returns_gave_is_refused() -> None:
    def step(x: Any) -> Any:
        a, b = [x], [x * 2.0]

        def chosen() -> list[Any]:
            if x > 0.0:
                return a
            return b

        chosen()[0] = x * 9.0
        return a[0]

    with pytest.raises(errors.TypeError, match="is changed in place"):
        tapec.compile(step)(tapec.constant(2.0))


def changed_or_bound(x: Any) -> Any:
    a, d = [x, x * 2.0], {"k": [x, x]}
    if x > 3.0:
        a[0] = x * 9.0
        d["k"][0] = x * 5.0
    elif x > 0.0:
        if x > 0.5:
            a = [x * 3.0, x * 4.0]
        else:
            a[1] = x * 8.0
        d["k"] = [x * 6.0, x]
    else:
        a.reverse()
    a[0] = a[0] + 1.0
    return a, d


@pytest.mark.parametrize("v", [4.0, 1.0, 0.3, -2.0])
def test_one_way_changes_what_another_binds_anew(v: float) -> None:
    one, other = (f(tapec.constant(v)) for f in (changed_or_bound, tapec.compile(changed_or_bound)))
    for a, b in zip(flatten(one)[0], flatten(other)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_called_functions_do_not_do_both() -> None:
    def step(x: Any) -> Any:
        a = [x, x]

        def change() -> Any:
            a[0] = x * 9.0
            return x

        def bind() -> Any:
            nonlocal a
            a = [x * 3.0, x]
            return x

        tapec.cond(x > 0.0, change, bind)
        return a

    with pytest.raises(errors.TypeError, match="changed in place by one branch, and another one"):
        tapec.compile(step)(tapec.constant(2.0))
