"""The quick way of a call: natively from Tensors to Tensors, and never where something else is to be done."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.compiled.function import CompiledFunction
from tapec.ir.errors import TargetError
from tapec.runtime.boxes import Boxes

X = tapec.constant([1.0, 2.0, 3.0])


def quick(f: Any) -> Any:
    """What a call tries first."""
    assert isinstance(f, CompiledFunction)
    return f._quick


def test_a_call_is_native() -> None:
    f = tapec.compile(lambda x: x + 1)
    results = [f(X) for _ in range(3)]
    assert quick(f) is f.programs[0].executable.call_boxed
    for result in results:
        assert type(result) is type(X)
        assert result.type == X.type
        assert result.numpy().tolist() == [2.0, 3.0, 4.0]
    assert len({x.id for x in (*results, X)}) == 4
    assert len({x.array.ctypes.data for x in (*results, X)}) == 4
    assert (f(f(f(X))) + 1).numpy().tolist() == [5.0, 6.0, 7.0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x, x * 2, {"a": x - 1, "n": 3}),
        lambda x: [],
        lambda x: None,
        lambda x: [tapec.reduce_sum(x)],
        lambda x: tapec.linalg.matvec(np.ones((2, 3), np.float32), x),
        lambda x: tapec.cumsum(x) / tapec.reduce_max(x),
    ],
)
def test_results_have_their_structure(function: Any) -> None:
    f = tapec.compile(function)
    first = f(X)
    f(X)
    assert quick(f) is not None
    assert repr(f(X)) == repr(first)


def test_other_arguments_go_the_general_way() -> None:
    f = tapec.compile(lambda x, y=None: x + 1 if y is None else x + y, dynamic=False)
    for _ in range(2):
        assert f(X).numpy().tolist() == [2.0, 3.0, 4.0]
        assert f(X, X).numpy().tolist() == [2.0, 4.0, 6.0]
        assert f(X, None).numpy().tolist() == [2.0, 3.0, 4.0]
        assert f(X.numpy()).numpy().tolist() == [2.0, 3.0, 4.0]
        assert f(X.numpy()[::-1]).numpy().tolist() == [4.0, 3.0, 2.0]
        assert f(X.numpy().astype(">f4")).numpy().tolist() == [2.0, 3.0, 4.0]
        assert f(tapec.constant([[1.0]])).numpy().tolist() == [[2.0]]
        assert f(1.0).numpy() == 2.0
    with pytest.raises(TypeError):
        f()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        f(X, X, X)  # type: ignore[call-arg]


def test_a_default_that_is_a_flag_is_part_of_the_signature() -> None:
    @tapec.compile
    def f(x: Any, twice: bool = True) -> Any:
        return x * 2 if twice else x

    for _ in range(3):
        assert f(X).numpy()[0] == 2.0
        assert f(X, False).numpy()[0] == 1.0


factor = 2.0


def test_guards_hold_on_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    f = tapec.compile(lambda x: x * factor)
    assert [f(X).numpy()[0] for _ in range(3)] == [2.0] * 3
    assert quick(f) is not None
    monkeypatch.setitem(globals(), "factor", 5.0)
    assert [f(X).numpy()[0] for _ in range(3)] == [5.0] * 3


def test_captured_arrays_are_read_at_each_call() -> None:
    table = np.ones(3, np.float32)
    f = tapec.compile(lambda x: x * table)
    f(X), f(X)
    assert quick(f) is not None
    table[:] = 7.0
    assert f(X).numpy().tolist() == [7.0, 14.0, 21.0]


def test_tapes_and_inspectors_see_the_call() -> None:
    f = tapec.compile(lambda x: tapec.math.log(x))
    f(X), f(X)
    assert quick(f) is not None
    with tapec.GradientTape() as tape:
        tape.watch(X)
        y = f(X)
    assert tape.gradient(y, X).numpy().tolist() == (1 / X.numpy()).tolist()
    tapec.debugging.enable_check_numerics()
    try:
        with pytest.raises(tapec.errors.InvalidArgumentError):
            f(-X)
    finally:
        tapec.debugging.disable_check_numerics()
    assert np.isnan(f(-X).numpy()).all()


def test_variables_and_checks_and_prints_go_the_general_way(capfd: Any) -> None:
    v = tapec.Variable(1.0)
    for function in (
        lambda x: v.assign_add(x[0]),
        lambda x: x * v,
        lambda x: tapec.print(x[0]),
        lambda x: tapec.gather(x, tapec.cast(x, tapec.int32) - 1),
    ):
        f = tapec.compile(function)
        f(X), f(X)
        assert quick(f) is None
    assert capfd.readouterr().err.split() == ["1", "1"]


def test_references_are_counted() -> None:
    f, g = tapec.compile(lambda x: x + 1), tapec.compile(lambda x: (x + 1, x * 2))
    f(X), g(X), f(X), g(X), f(2.0)
    array = X.array
    watched = (X, array, X.type, None, NotImplemented, array.dtype)
    before = [sys.getrefcount(thing) for thing in watched]
    for _ in range(1000):
        f(X), g(X), f(2.0)
    gc.collect()
    grown = [sys.getrefcount(t) - n for t, n in zip(watched, before, strict=True)]
    assert max(grown) < 100, grown


def test_threads() -> None:
    f = tapec.compile(lambda x: x * 2, dynamic=False)
    wrong: list[Any] = []

    def work(size: int) -> None:
        x = tapec.range(size, dtype=tapec.float32)
        for _ in range(500):
            y = f(x)
            if y.shape != [size] or y.numpy()[-1] != 2 * (size - 1):
                wrong.append(y)

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 4, 5, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_unknown_way_of_keeping_parts_is_refused() -> None:
    class Hidden:
        def __init__(self, array: Any, type: Any, number: int) -> None:
            self.parts = array, type, number

    with pytest.raises(TargetError, match="keeps its parts in an unknown way"):
        Boxes.of(Hidden, iter(()), lambda kind: kind)
