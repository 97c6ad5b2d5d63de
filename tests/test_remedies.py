"""What cannot become part of a program is refused with what does the same there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from both_compiled import both

import tapec
from tapec import errors
from tapec.autograph import loops

X = tapec.constant([3.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("function", "instead"),
    [
        (lambda x: sum(x), "tapec.reduce_sum(x, 0)"),
        (lambda x: max(x), "tapec.reduce_max(x, 0)"),
        (lambda x: min(x), "tapec.reduce_min(x, 0)"),
        (lambda x: any(x > 1.0), "tapec.reduce_any(x)"),
        (lambda x: x if all(x > 1.0) else -x, "tapec.reduce_all(x)"),
        (lambda x: sorted(x), "tapec.sort(x)"),
        (lambda x: set(x), "tapec.unique(x)"),
        (lambda x: dict(x), "tapec.unstack(x)"),
        (lambda x: x if 2.0 in x else -x, "tapec.reduce_any(x == value)"),
        (lambda x: 2.0 not in x, "tapec.reduce_any(x == value)"),
    ],
)
def test_what_goes_over_a_tensor_has_a_counterpart(
    function: Callable[[Any], Any], instead: str
) -> None:
    with pytest.raises(errors.OperatorNotAllowedInGraphError) as caught:
        tapec.compile(function)(X)
    assert instead in str(caught.value.hint)


def test_eager_tensors_and_variables_hold_numbers() -> None:
    for x in (X, tapec.Variable(X)):
        assert 2.0 in x
        assert 5.0 not in x
    with pytest.raises(ValueError, match="more than one element"):
        assert 2.0 in tapec.constant([[2.0, 3.0]])


def ones() -> Iterator[float]:
    while True:
        yield 1.0


@pytest.mark.parametrize(
    "items",
    [itertools.count, lambda: itertools.cycle([1.0, 2.0]), lambda: itertools.repeat(1.0), ones],
)
def test_loops_without_end_are_not_written_out(
    items: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "_MOST_TURNS", 20)

    def f(x: Any) -> Any:
        for item in items():
            x = x + item
            if x > 10.0:
                break
        return x

    f(tapec.constant(1.0))
    with pytest.raises(errors.NotImplementedError, match="ends by break") as caught:
        tapec.compile(f)(tapec.constant(1.0))
    assert "while loop" in str(caught.value.hint)


def test_loops_with_an_end_are_written_out() -> None:
    def f(x: Any) -> Any:
        for item in itertools.repeat(1.0, 5):
            x = x + item
            if x > 4.0:
                break
        return x

    both(f, tapec.constant(1.0))
    both(f, tapec.constant(-9.0))


def test_a_variable_with_the_name_of_the_operators_is_said() -> None:
    def f(x: Any) -> Any:
        ag__ = 2.0
        if x[0] > 0.0:
            x = x * ag__
        return x

    with pytest.raises(errors.OperatorNotAllowedInGraphError) as caught:
        tapec.compile(f)(X)
    assert "a variable named ag__" in str(caught.value.hint)
