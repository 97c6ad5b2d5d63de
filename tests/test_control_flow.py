"""Branches and loops: their values, their gradients, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_ways import value

import tapec
from tapec import errors

NOT_CALLABLE: Any = 3


def test_while_loop_keeps_the_structure_of_its_variables() -> None:
    def less(i: Any, state: Any) -> Any:
        return i < 3

    def body(i: Any, state: Any) -> Any:
        return i + 1, {"a": state["a"] * 2.0, "b": [state["b"][0] + state["a"]]}

    i, state = tapec.while_loop(less, body, (0, {"a": 1.0, "b": [0.0]}))
    assert (int(i), float(state["a"]), float(state["b"][0])) == (3, 8.0, 7.0)
    (found,) = tapec.while_loop(lambda i: i < 3, lambda i: i + 1, [0])
    assert int(found) == 3
    assert int(tapec.while_loop(lambda i: i < 3, lambda i: i + 1, tapec.constant(0))) == 3


@pytest.mark.parametrize("body", [lambda i: i + 1, lambda i: (i + 1,), lambda i: [i + 1]])
def test_a_single_variable_may_stand_alone(body: Any) -> None:
    (found,) = tapec.while_loop(lambda i: True, body, [tapec.constant(0)], maximum_iterations=5)
    assert int(found) == 5


def test_scan_and_folds() -> None:
    x = tapec.constant([1.0, 2.0, 3.0])
    assert value(tapec.scan(lambda a, e: a - e, x)).tolist() == [1.0, -1.0, -4.0]
    assert value(tapec.scan(lambda a, e: a - e, x, reverse=True)).tolist() == [0.0, 1.0, 3.0]
    found = tapec.scan(lambda a, e: a + e, x, initializer=10.0, reverse=True)
    assert value(found).tolist() == [16.0, 15.0, 13.0]
    total, product = tapec.scan(lambda a, e: (a[0] + e, a[1] * e), x, (0.0, 1.0))
    assert value(total).tolist() == [1.0, 3.0, 6.0]
    assert value(product).tolist() == [1.0, 2.0, 6.0]
    assert float(tapec.foldl(lambda a, e: a - e, x)) == -4.0
    assert float(tapec.foldr(lambda a, e: a - e, x)) == 0.0
    assert float(tapec.foldl(lambda a, e: a + e[0] * e[1], (x, x), 1.0)) == 15.0


def test_map_fn_returns_what_its_signature_says() -> None:
    x = tapec.constant([1.0, 2.0])
    signature = {"n": tapec.int32, "y": tapec.float32}
    found = tapec.map_fn(
        lambda e: {"n": tapec.cast(e, tapec.int32), "y": e * e}, x, fn_output_signature=signature
    )
    assert value(found["n"]).tolist() == [1, 2]
    assert value(found["y"]).tolist() == [1.0, 4.0]
    added = tapec.map_fn(lambda e: e[0] + e[1], (x, x), fn_output_signature=tapec.float32)
    assert value(added).tolist() == [2.0, 4.0]
    with pytest.raises(errors.InvalidArgumentError, match="expected float32"):
        tapec.map_fn(lambda e: tapec.cast(e, tapec.int32), x)
    with pytest.raises(errors.ValueError, match="nested structure"):
        tapec.map_fn(lambda e: (e, e), x)


def test_nothing_to_loop_over() -> None:
    empty = tapec.zeros([0, 2])
    assert tapec.map_fn(lambda e: e, empty).shape[0] == 0
    assert tapec.scan(lambda a, e: a + e, empty, tapec.zeros([2])).shape == (0, 2)
    assert value(tapec.foldl(lambda a, e: a + e, empty, tapec.ones([2]))).tolist() == [1.0, 1.0]
    with pytest.raises(errors.OutOfRangeError, match="initializer"):
        tapec.scan(lambda a, e: a + e, empty)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: tapec.cond(tapec.constant(True), NOT_CALLABLE, int), "TypeError"),
        (lambda: tapec.cond(tapec.constant([True, False]), int, int), "ValueError"),
        (lambda: tapec.case([]), "ValueError"),
        (lambda: tapec.case([(True, int)]), "TypeError"),
        (lambda: tapec.case([(tapec.constant(False), int)]), "InvalidArgumentError"),
        (
            lambda: tapec.case([(tapec.constant(True), int)] * 2, exclusive=True),
            "InvalidArgumentError",
        ),
        (lambda: tapec.switch_case(NOT_CALLABLE, [int, int]), "TypeError"),
        (lambda: tapec.switch_case(tapec.constant(1.0), [int, int]), "TypeError"),
        (lambda: tapec.switch_case(tapec.constant(1), []), "ValueError"),
        (lambda: tapec.switch_case(tapec.constant(1), {0: int, 2: int}), "ValueError"),
        (lambda: tapec.while_loop(NOT_CALLABLE, int, [1]), "TypeError"),
        (lambda: tapec.while_loop(bool, int, []), "ValueError"),
        (lambda: tapec.while_loop(lambda i: i < 3, lambda i: (i, i), [1]), "ValueError"),
        (lambda: tapec.map_fn(abs, 1.0), "ValueError"),
        (lambda: tapec.map_fn(abs, []), "ValueError"),
        (lambda: tapec.map_fn(abs, ([1.0], np.ones(2))), "ValueError"),
        (lambda: tapec.map_fn(NOT_CALLABLE, np.ones(2)), "TypeError"),
        (lambda: tapec.scan(NOT_CALLABLE, np.ones(2)), "TypeError"),
        (lambda: tapec.scan(lambda a, e: (a, a), np.ones(2)), "ValueError"),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, kind: str) -> None:
    with pytest.raises(getattr(errors, kind)) as caught:
        call()
    assert "test_control_flow.py" in str(caught.value)


def test_branches_by_number() -> None:
    fns = [lambda: 1, lambda: 2]
    assert tapec.switch_case(tapec.constant(0), fns) == 1
    assert tapec.switch_case(tapec.constant(7), fns) == 2
    assert tapec.switch_case(tapec.constant(-1), fns, default=lambda: 3) == 3
    assert tapec.switch_case(tapec.constant(1), [(1, fns[1]), (0, fns[0])]) == 2
    assert tapec.case([(tapec.constant(False), fns[0])], default=fns[1]) == 2
    tapec.group(tapec.constant(1), name="one")
    tapec.no_op()


# ---- TensorArray


def array(**options: Any) -> tapec.TensorArray:
    return tapec.TensorArray(tapec.float32, **{"size": 3, **options})


def test_tensor_arrays_are_written_and_read() -> None:
    rows = array().write(0, [1.0, 2.0]).write(2, [3.0, 4.0])
    assert value(rows.stack()).tolist() == [[1.0, 2.0], [0.0, 0.0], [3.0, 4.0]]
    assert value(rows.concat()).tolist() == [1.0, 2.0, 0.0, 0.0, 3.0, 4.0]
    assert rows.element_shape == [2]
    assert int(rows.size()) == 3
    assert value(rows.read(2)).tolist() == [3.0, 4.0]
    assert value(array().write(0, 1.0).write(0, 2.0).read(0)) == 2.0
    assert int(array(dynamic_size=True).write(5, 1.0).size()) == 6
    assert value(array().unstack([1.0, 2.0, 3.0]).gather([2, 0])).tolist() == [3.0, 1.0]
    assert value(array().scatter([2, 0], [5.0, 6.0]).stack()).tolist() == [6.0, 0.0, 5.0]
    parts = array(size=2).split([1.0, 2.0, 3.0], [1, 2])
    assert value(parts.concat()).tolist() == [1.0, 2.0, 3.0]
    assert value(array(element_shape=[2]).stack()).tolist() == [[0.0, 0.0]] * 3


def test_tensor_arrays_are_read_once_unless_they_keep() -> None:
    rows = array().write(0, 1.0)
    rows.read(0)
    with pytest.raises(errors.InvalidArgumentError, match="clear_after_read=False"):
        rows.read(0)
    kept = array(clear_after_read=False).write(0, 1.0)
    assert float(kept.read(0)) == float(kept.read(0)) == 1.0


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: array().write(3, 1.0), "OutOfRangeError"),
        (lambda: array().write(-1, 1.0), "OutOfRangeError"),
        (lambda: array().read(5), "OutOfRangeError"),
        (lambda: array().read(0), "ValueError"),
        (lambda: array().stack(), "ValueError"),
        (lambda: array().write(1, [1.0]).write(0, 1.0), "ValueError"),
        (lambda: array(element_shape=[2]).write(1, 1.0), "ValueError"),
        (lambda: array().write(1, tapec.constant(1)), "InvalidArgumentError"),
        (lambda: array(size=2).unstack([1.0, 2.0, 3.0]), "ValueError"),
        (lambda: array(size=2).split([1.0, 2.0, 3.0], [1, 1]), "InvalidArgumentError"),
        (lambda: tapec.TensorArray(tapec.float32), "ValueError"),
    ],
)
def test_what_tensor_arrays_refuse(call: Any, kind: str) -> None:
    with pytest.raises(getattr(errors, kind)):
        call()


# ---- whatever comes

ANYTHING: list[Any] = [
    None, 3, -1, 2.5, "word", b"x", [], [1, 2], (), {}, {"a": 1}, object(), float("nan"), 1j,
    np.ones(3), np.array(["a"]), np.zeros((0, 2)), tapec.constant([1.0, 2.0]), tapec.constant(1),
    tapec.constant(True), tapec.Variable(1.0), lambda: 1, lambda a: a, lambda a, b: a, [None],
    [object()],
]  # fmt: skip


def uses(thing: Any) -> list[Any]:
    """Calls in which something of any kind stands for each argument."""
    two, three = tapec.constant(True), np.ones(3)
    calls = [
        lambda: tapec.cond(thing, lambda: 1, lambda: 2),
        lambda: tapec.case(thing),
        lambda: tapec.case([thing]),
        lambda: tapec.case([(thing, lambda: 1)]),
        lambda: tapec.switch_case(thing, [lambda: 1]),
        lambda: tapec.switch_case(tapec.constant(0), {0: lambda: 1, thing: lambda: 2}),
        lambda: tapec.while_loop(lambda *a: False, lambda *a: a, thing),
        lambda: tapec.while_loop(lambda a: False, lambda a: a, [1], maximum_iterations=thing),
        lambda: tapec.while_loop(lambda a: True, lambda a: thing, [1], maximum_iterations=1),
        lambda: tapec.while_loop(lambda a: thing, lambda a: a, [1], maximum_iterations=1),
        lambda: tapec.map_fn(lambda a: a, thing),
        lambda: tapec.map_fn(lambda a: thing, three),
        lambda: tapec.map_fn(lambda a: a, three, fn_output_signature=thing),
        lambda: tapec.scan(lambda a, e: a, thing),
        lambda: tapec.scan(lambda a, e: a, three, thing),
        lambda: tapec.scan(lambda a, e: thing, three),
        lambda: tapec.foldr(lambda a, e: thing, thing),
        lambda: tapec.TensorArray(thing, 2),
        lambda: tapec.TensorArray(tapec.float32, thing),
        lambda: array(element_shape=thing),
        lambda: array().write(thing, 1.0),
        lambda: array().write(0, thing),
        lambda: array().read(thing),
        lambda: array().gather(thing),
        lambda: array().scatter(thing, [1.0]),
        lambda: array().scatter([0, 1], thing),
        lambda: array().unstack(thing),
        lambda: array().split(thing, [1, 1]),
        lambda: array().split([1.0, 2.0], thing),
    ]
    if not callable(thing):
        calls += [
            lambda: tapec.cond(True, thing, thing),
            lambda: tapec.case([(two, thing)]),
            lambda: tapec.switch_case(tapec.constant(0), thing),
            lambda: tapec.switch_case(tapec.constant(0), [thing]),
        ]
    return calls


def outcome(call: Any) -> str:
    """How a call ended; any error but ours goes on, and that of a dict's key."""
    try:
        call()
    except errors.TapecError:
        return "refused"
    except TypeError as error:
        if "unhashable" not in str(error):
            raise
    return "taken"


@pytest.mark.parametrize("number", range(len(ANYTHING)))
def test_whatever_comes_only_our_errors_go(number: int) -> None:
    assert "refused" in [outcome(call) for call in uses(ANYTHING[number])]


@pytest.mark.parametrize("options", [{}, {"jit": False}, {"dims": {"x": ("N", 2)}}, None])
@pytest.mark.parametrize("arguments", [{"size": 5}, {"size": 0, "dynamic_size": True}])
def test_an_array_is_as_long_as_what_it_takes_apart(arguments: Any, options: Any) -> None:
    """Also where only the run knows how long that is."""

    def run(x: Any) -> Any:
        rows = tapec.TensorArray(tapec.float32, clear_after_read=False, **arguments).unstack(x)
        return rows.size(), rows.stack(), rows.read(1) * 2

    f = run if options is None else tapec.compile(run, **options)
    for count in (3, 4):
        x = np.arange(2.0 * count, dtype=np.float32).reshape(count, 2)
        size, whole, second = f(tapec.constant(x))
        assert int(size) == count
        assert whole.numpy().tolist() == x.tolist()
        assert second.numpy().tolist() == [4, 6]
