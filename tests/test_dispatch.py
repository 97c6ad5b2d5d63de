"""The quick way of a call: natively from Tensors to Tensors, and never where something else is to be done."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapec
from tapec.compiled.call import Call
from tapec.compiled.function import CompiledFunction
from tapec.compiled.keys import Quick
from tapec.compiled.parameters import Parameters
from tapec.ir.errors import TargetError
from tapec.runtime.boxes import places_in

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


def test_tiles_that_are_cut_off_are_no_long_work() -> None:
    """How many rows are left of a tile is known only while it runs, but it is no more than the tile has."""
    w = tapec.Variable(np.zeros((67, 71), np.float32))

    @tapec.compile
    def step(x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
        for _ in range(3):
            w.assign_sub(tapec.tanh(tapec.matmul(x, y, transpose_a=True)) * 0.5 + w)
        return tapec.reduce_sum(w)

    x, y = (tapec.constant(np.ones((33, n), np.float32)) for n in w.shape)
    step(x, y)
    assert step.programs[0].executable.call_boxed is not None


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
    tapec.debugging.enable_check_numerics()
    try:
        assert [repr(f(X)) for _ in range(3)] == [repr(first)] * 3
        assert f._quick_look is not None
    finally:
        tapec.debugging.disable_check_numerics()


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


def test_prints_go_the_general_way(capfd: Any) -> None:
    f = tapec.compile(lambda x: tapec.print(x[0]))
    f(X), f(X)
    assert quick(f) is None
    assert capfd.readouterr().err.split() == ["1", "1"]


@pytest.mark.parametrize("results", [0, 1, 2])
def test_checks_that_fail_update_nothing(results: int) -> None:
    v = tapec.Variable(0.0)

    @tapec.compile
    def f(places: Any) -> Any:
        picked = tapec.gather(X, places)
        v.assign_add(tapec.reduce_sum(picked))
        return [None, picked, (picked, v * 2)][results]

    good, bad = tapec.constant([0, 2]), tapec.constant([0, 3])
    f(good), f(good)
    assert quick(f) is not None
    for n in range(3, 6):
        found = tapec.nest.flatten(f(good))
        assert [y.numpy().tolist() for y in found if y is not None] == [[1.0, 3.0], 8.0 * n][
            :results
        ]
        with pytest.raises(tapec.errors.InvalidArgumentError, match="3") as caught:
            f(bad)
        assert caught.value.location is not None
        assert caught.value.location.text == "picked = tapec.gather(X, places)"
        assert v.numpy() == 4.0 * n


def counting(size: int = 3) -> tuple[tapec.Variable, Any]:
    """A Variable, and a compiled function that adds to it and returns twice its value."""
    v = tapec.Variable(np.zeros(size, np.float32))

    @tapec.compile
    def step(x: Any) -> Any:
        v.assign_add(x)
        return v * 2

    return v, step


@pytest.mark.parametrize("size", [3, 1000])
def test_variables_are_updated_in_place(size: int) -> None:
    v, step = counting(size)
    one = tapec.ones([size])
    step(one), step(one)
    assert quick(step) is not None
    place = v._array.ctypes.data
    for n in range(3, 6):
        assert step(one).numpy().tolist() == [2.0 * n] * size
        assert v.numpy().tolist() == [float(n)] * size
    assert v._array.ctypes.data == place


@pytest.mark.parametrize("size", [3, 1000])
def test_what_others_hold_of_a_variable_stays(size: int) -> None:
    v, step = counting(size)
    one = tapec.ones([size])
    step(one), step(one)
    kept = [v.read_value(), v + 0, v._array, v._array[:1], np.asarray(v._array)]
    step(one)
    assert [float(np.asarray(k)[0]) for k in kept] == [2.0] * 5
    assert v.numpy()[0] == 3.0
    view = v._array[1:]
    step(one)
    assert (view[0], v.numpy()[1]) == (3.0, 4.0)
    given = np.full(2 * size, 10.0, np.float32)[::2]
    for value in (given, given.copy(), tapec.constant(given), np.full((size, 2), 10.0)[:, 0]):
        v.assign(value)
        step(one)
        assert float(np.asarray(value)[0]) == 10.0
        assert v.numpy().tolist() == [11.0] * size


def test_a_variable_that_is_an_argument_is_one() -> None:
    """The program for tensors does not take it: the function may update it."""

    @tapec.compile
    def f(x: Any) -> Any:
        if isinstance(x, tapec.Variable):
            x.assign_add(X)
        return x + 1

    v = tapec.Variable(X)
    for n in range(1, 4):
        assert f(X).numpy()[0] == f(X).numpy()[0] == 2.0
        assert f(v).numpy()[0] == 2.0 + n
    assert v.numpy()[0] == 4.0


def test_finalizers_may_do_anything() -> None:
    """Making results may collect garbage, and so run code that updates the same Variables."""
    v = tapec.Variable(np.zeros(3, np.float32))
    kept: list[Any] = []

    class Busy:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            kept.append(v.read_value())
            v.assign_add(X * 100)

    @tapec.compile
    def step(x: Any) -> Any:
        v.assign_add(x)
        return [v * k for k in range(1, 5)]

    step(X), step(X)
    assert quick(step) is not None
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(50):
            Busy()
            step(X)
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert len(kept) == 50
    assert v.numpy()[0] == 52 + 50 * 100
    values = [float(k.numpy()[0]) for k in kept]
    assert values == sorted(values)


def test_threads_share_variables() -> None:
    """Short steps beside long ones, eager updates and reads: none is lost, none is seen in part."""
    v = tapec.Variable(np.zeros(1000, np.float64))
    one = tapec.ones([1000], tapec.float64)

    @tapec.compile
    def short(x: Any) -> Any:
        v.assign_add(x)
        return v[0]

    @tapec.compile
    def long(x: Any) -> Any:
        total = tapec.constant(0.0, tapec.float64)
        for _ in tapec.range(2000):
            total = tapec.sin(total + tapec.reduce_sum(x))
        v.assign_add(x + 0 * total)

    torn: list[Any] = []

    def read(_: Any) -> None:
        found = v.numpy()
        if (found != found[0]).any():
            torn.append(found)

    short(one), short(one), long(one)
    assert quick(short) is not None
    counts = {short: 1000, long: 10, v.assign_add: 200, read: 400}
    threads = [
        threading.Thread(target=lambda f=f, n=n: [f(one) for _ in range(n)])
        for f, n in counts.items()
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not torn
    assert v.numpy().tolist() == [3.0 + 2 * (1000 + 10 + 200)] * 1000


def test_references_are_counted() -> None:
    f, g = tapec.compile(lambda x: x + 1), tapec.compile(lambda x: (x + 1, x * 2))
    v, step = counting()
    f(X), g(X), f(X), g(X), f(2.0), step(X), step(X)
    array = X.array
    watched = (X, array, X.type, None, NotImplemented, array.dtype, v, v._array)
    before = [sys.getrefcount(thing) for thing in watched]
    for _ in range(1000):
        f(X), g(X), f(2.0), step(X)
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
        def __init__(self, *parts: Any) -> None:
            self.parts = parts

    parts = [np.ones(1), object(), 2**40]
    with pytest.raises(TargetError, match="keeps its parts in an unknown way"):
        places_in(Hidden(*parts), *parts)


FIRST = """
import sys
import tapec

f = tapec.compile(lambda x: x + 1)
print(float(f(tapec.constant(1.0))))
print([m for m in ("networkx", "scipy", "numba", "rich", "optree", "click") if m in sys.modules])
"""


def test_a_first_call_loads_what_it_needs() -> None:
    """Small programs are compiled in less time than some packages take to be imported."""
    environment = {**os.environ, "TAPEC_CACHE": "0"}
    command = [sys.executable, "-c", FIRST]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["2.0", "[]", ""]


class Point(NamedTuple):
    x: Any
    y: Any


@dataclass
class Batch:
    y: Any
    x: Any
    scale: Any = 2.0


@dataclass(frozen=True, slots=True)
class Slotted:
    y: Any
    x: Any


def reordered(**fields: Any) -> Batch:
    """An instance whose attributes were set in another order, and one that is no field."""
    batch = Batch(0, 0)
    vars(batch).clear()
    vars(batch).update(fields)
    return batch


Y, ARRAY, V = tapec.constant([7.0]), np.arange(2.0, dtype=np.float32), tapec.Variable(1.0)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (({"y": Y, "x": [X, (1, 2.5)]}, "text"), {}),
        (({"b": 1, "a": {"d": X, "c": ARRAY}}, None, True), {}),
        ((Point(Y, {"k": 3}), Batch(X, Y), Slotted(1, X)), {}),
        ((Batch(X, Y), reordered(scale=1, x=X, y=Y), reordered(x=1, extra=X, y=2)), {}),
        (([], {}, (), V, [V]), {}),
        ((X, np.float32(2), np.float64(3)), {"flag": False, "also": [Y, 1]}),
    ],
)
def test_arguments_are_taken_apart_as_optree_does(args: Any, kwargs: Any) -> None:
    parameters = Parameters(lambda *args, **kwargs: None)
    call = Call(parameters, args, kwargs)
    key = call.key
    quickly = Quick()
    assert quickly.key(parameters, args, kwargs) == key
    assert [t.type for t in quickly.tensors] == [t.type for t in call.tensors]
    assert [t.numpy().tolist() for t in quickly.tensors] == [
        t.numpy().tolist() for t in call.tensors
    ]
    assert quickly.numbers == call.numbers
    assert list(map(id, quickly.objects)) == list(map(id, call.objects))


def test_structures_and_names_are_found_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[Any] = []

    @tapec.compile
    def f(batch: Any, training: bool = False, *, scale: float = 1.0) -> Any:
        traced.append(list(batch))
        first, second = batch["x"], batch["y"]
        return (first + second if training else first - second) * scale

    expected = {False: [-6.0, -5.0, -4.0], True: [8.0, 9.0, 10.0]}
    for training in (False, True):
        f({"x": X, "y": Y}, training=training)
        f({"x": X, "y": Y}, training, scale=3.0)
    f({"y": Y, "x": X}, training=True)  # a loop over it would go another way
    assert traced == [["x", "y"], ["x", "y"], ["y", "x"]]
    monkeypatch.setattr(CompiledFunction, "program_for", None)  # the slow way
    for training, values in expected.items():
        assert f({"x": X, "y": Y}, training=training).numpy().tolist() == values
        assert f(batch={"x": X, "y": Y}, training=training).numpy().tolist() == values
        tripled = f(scale=3.0, training=training, batch={"x": X, "y": Y}).numpy().tolist()
        assert tripled == [3 * v for v in values]
    assert len(traced) == 3
