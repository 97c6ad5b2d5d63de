"""What a whole process goes by, changed in a branch or loop of the program: alike on both ways, or refused."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

import tapec
from tapec import errors

log = logging.getLogger("tests.settings")
event = threading.Event()
called: list[int] = []


def environment(value: int) -> None:
    os.environ["TAPEC_TEST"] = str(value)


def level(value: int) -> None:
    log.setLevel(value)


def happening(value: int) -> None:
    (event.set if value == 2 else event.clear)()


#: How a setting is changed, and what it is.
SETTINGS: dict[str, tuple[Callable[[int], None], Callable[[], Any]]] = {
    "environment": (environment, lambda: os.environ.get("TAPEC_TEST")),
    "logger": (level, lambda: log.level),
    "event": (happening, event.is_set),
}


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEC_TEST", "1")
    log.setLevel(1)
    event.clear()


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_not_changed_on_one_way(name: str) -> None:
    change, ask = SETTINGS[name]
    before = ask()

    def branch(x: Any) -> Any:
        if x > 0.0:
            change(2)
        return x

    def loop(x: Any) -> Any:
        for _ in tapec.range(3):
            change(2)
        return x

    for step, what in ((branch, "a branch of"), (loop, "a loop of")):
        with pytest.raises(errors.TypeError, match=f"{what} the program changes"):
            tapec.compile(step)(tapec.constant(1.0))
        assert ask() == before


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_changed_on_both_ways(name: str) -> None:
    change, ask = SETTINGS[name]
    before = ask()

    @tapec.compile
    def f(x: Any) -> Any:
        if x > 0.0:
            change(2)
            x = x * 2.0
        else:
            change(2)
        return x

    assert float(f(tapec.constant(1.0))) == 2.0
    assert ask() != before


def test_a_stack_is_entered_on_every_way_or_inside_of_one() -> None:
    def once(x: Any) -> Any:
        with contextlib.ExitStack() as stack:
            if x > 0.0:
                stack.callback(called.append, 1)
        return x

    def inside(x: Any) -> Any:
        if x > 0.0:
            with contextlib.ExitStack() as stack:
                stack.callback(int)
                x = x * 2.0
        return x

    with pytest.raises(errors.TypeError, match="a branch of the program changes stack"):
        tapec.compile(once)(tapec.constant(1.0))
    assert float(tapec.compile(inside)(tapec.constant(1.0))) == 2.0
