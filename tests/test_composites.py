"""Functions of several operations that run as one: nobody can tell but by the time they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import tapec
from tapec import nn
from tapec.eager import composite
from tapec.errors import InvalidArgumentError
from tapec.frames import resolve
from tapec.tape import GradientTape
from tapec.tensor import EagerTensor

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
Y = np.abs(X) / np.abs(X).sum(1, keepdims=True)

CASES: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "softmax": (nn.softmax, [X]),
    "softmax along 0": (lambda x: nn.softmax(x, axis=0), [X]),
    "log_softmax": (nn.log_softmax, [X]),
    "sparse": (lambda x: nn.sparse_softmax_cross_entropy_with_logits([1, 0, 3], x), [X]),
    "softmax_xent": (nn.softmax_cross_entropy_with_logits, [Y, X]),
    "sigmoid_xent": (nn.sigmoid_cross_entropy_with_logits, [Y, X]),
    "one_hot": (lambda x: tapec.one_hot(tapec.argmax(x, 1), 4) * x, [X]),
    "stack": (lambda x, y: tapec.stack([x, y], axis=1), [X, Y]),
    "split": (lambda x: tapec.split(x, [1, 3], axis=1)[1], [X]),
    "variance": (lambda x: tapec.math.reduce_variance(x, [0, 1]), [X]),
    "logsumexp": (lambda x: tapec.reduce_logsumexp(x, 1, keepdims=True), [X]),
    "moments": (lambda x: tapec.add(*nn.moments(x, [1], keepdims=True)), [X]),
    "l2_normalize": (lambda x: nn.l2_normalize(x, 1), [X]),
    "gelu": (nn.gelu, [X]),
    "of one operand twice": (lambda x: nn.softmax_cross_entropy_with_logits(x, x), [Y]),
}


@pytest.fixture(autouse=True)
def plans(monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    """The plans, none at first."""
    found: dict[Any, Any] = {}
    monkeypatch.setattr(composite, "_plans", found)
    # Tapes of other tests, which may still wait for their gradient, would hear each operation.
    monkeypatch.setattr(composite, "bystanders", {})
    return found


def heard(function: Callable[..., Any], arrays: list[Any]) -> tuple[Any, list[Any], int]:
    """A result, what a tape's records say of it, and how many entries there are for them."""
    tensors = [tapec.constant(a) for a in arrays]
    with GradientTape() as tape:
        tape.watch(tensors)
        result = function(*tensors)
    assert tape._recording is not None
    numbers: dict[int, int] = {}

    def number(id: int) -> int:
        return numbers.setdefault(id, len(numbers))

    records = [
        (
            r.defn.name,
            dict(r.attrs),
            r.input_types,
            [number(i) for i in (*r.inputs, *r.outputs) if i in numbers or i in r.outputs],
            resolve(r.origin),
            sorted(
                (x.type.shape, x.array.tobytes())
                for id, x in r.saved.items()
                if id in numbers or id in r.inputs
            ),
        )
        for r in tape._recording.records
    ]
    steps = [s.defn.name for s in tape.trail.steps]
    return result.numpy(), [records, steps], len(tape._recording.entries)


@pytest.mark.parametrize("name", CASES)
def test_tapes_hear_the_same(name: str, plans: dict[Any, Any]) -> None:
    function, arrays = CASES[name]
    first, told, entries = heard(function, arrays)
    heard(function, arrays)
    assert any(plan is not None for plan in plans.values())
    third, told_again, fewer = heard(function, arrays)
    assert_array_equal(third, first)
    # Numbers that stand in the program are not repeated at each call, so nothing unfollowed is heard of them.
    assert told_again[0] == told[0]
    assert set(told_again[1]) <= set(told[1])
    assert fewer <= entries


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_the_same(name: str) -> None:
    function, arrays = CASES[name]

    def derivatives() -> list[Any]:
        x, *others = (tapec.constant(a) for a in arrays)
        with GradientTape() as outer:
            outer.watch(x)
            with GradientTape() as inner:
                inner.watch(x)
                y = function(x, *others)
                loss = tapec.reduce_sum(y * y)
            slope = inner.gradient(loss, x)
            bend = tapec.reduce_sum(slope * slope)
        return [slope.numpy(), outer.gradient(bend, x).numpy()]

    first = derivatives()
    derivatives()
    for found, wanted in zip(derivatives(), first, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_tape_has_one_entry_for_all_operations() -> None:
    counts = [heard(*CASES["softmax"])[2] for _ in range(3)]
    assert counts == [6, 6, 1]


def test_what_is_explained_and_held_is_the_same() -> None:
    def texts() -> tuple[str, str, str]:
        x = tapec.constant(X)
        with GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = tapec.one_hot(tapec.cast(x, tapec.int32), 3)
            z = nn.softmax(x)
        return str(tape.explain(y, x)), str(tape.memory()), str(tape.explain(z, tapec.ones([])))

    first = texts()
    texts()
    assert texts() == first


def test_errors_are_those_of_the_function() -> None:
    for _ in range(3):
        with pytest.raises(InvalidArgumentError, match="at least one axis"):
            nn.softmax(tapec.constant(1.0))
        with pytest.raises(InvalidArgumentError):
            nn.softmax(tapec.constant(X), axis=5)
        with pytest.raises(InvalidArgumentError, match="label value of 7"):
            nn.sparse_softmax_cross_entropy_with_logits([7, 0, 0], X)


def test_numpy_does_not_warn(recwarn: pytest.WarningsRecorder) -> None:
    for _ in range(3):
        assert np.isnan(nn.softmax(tapec.constant([np.inf, 1.0])).numpy()).any()
    assert not recwarn.list


def test_checks_see_every_operation() -> None:
    x = tapec.constant([3e38, -3e38])
    for _ in range(3):
        nn.log_softmax(x)
    tapec.debugging.enable_check_numerics()
    try:
        with pytest.raises(InvalidArgumentError, match="in log_softmax"):
            nn.log_softmax(x)
    finally:
        tapec.debugging.disable_check_numerics()


def test_constants_are_computed_once(plans: dict[Any, Any]) -> None:
    def scaled(x: Any) -> Any:
        return x * tapec.constant([1.0, 2.0]) + tapec.cast(tapec.constant([1, 2]), tapec.float32)

    x = tapec.constant([3.0, 4.0])
    assert [composite.composed(scaled, x).numpy().tolist() for _ in range(3)] == [[4.0, 10.0]] * 3
    (plan,) = plans.values()
    assert [step.signature.defn.name for step in plan.steps] == ["mul", "add"]


def test_what_has_captures_is_not_planned(plans: dict[Any, Any]) -> None:
    outside = tapec.Variable([1.0, 2.0])
    x = tapec.constant([3.0, 4.0])
    for value in (1.0, 2.0, 3.0):
        outside.assign([value, value])
        assert composite.composed(lambda x: x * outside, x).numpy().tolist() == [
            3 * value,
            4 * value,
        ]
    assert not any(plans.values())


def test_checks_take_no_plan_apart_where_all_is_well() -> None:
    calls = []

    def doubled(x: Any) -> Any:
        calls.append(x)
        return tapec.exp(x) * 2.0

    tapec.debugging.enable_check_numerics()
    try:
        for _ in range(5):
            composite.composed(doubled, tapec.constant([1.0, 2.0]))
        assert len(calls) == 3  # twice for its values, once for the plan
        composite.composed(doubled, tapec.constant([1.0, np.inf]))
        assert len(calls) == 3  # what was given is nobody's fault
        with pytest.raises(InvalidArgumentError, match='"exp"'):
            composite.composed(doubled, tapec.constant([1.0, 100.0]))
    finally:
        tapec.debugging.disable_check_numerics()


def test_keywords_that_cannot_be_told_apart_run_without_a_plan(plans: dict[Any, Any]) -> None:
    def summed(x: Any, axis: Any) -> Any:
        return tapec.reduce_sum(x * x, axis)

    for _ in range(3):
        assert composite.composed(summed, tapec.ones([2, 3]), axis=[0, 1]).numpy() == 6
    assert not plans


def test_what_cannot_be_planned_is_traced_once(plans: dict[Any, Any]) -> None:
    traced = []

    def itself(x: Any) -> Any:
        traced.append(not isinstance(x, EagerTensor))
        return x

    for _ in range(5):
        composite.composed(itself, tapec.ones([2]))
    assert traced == [False, True, False, False, False, False]
    assert list(plans.values()) == [False]


def test_plans_are_bounded(monkeypatch: pytest.MonkeyPatch, plans: dict[Any, Any]) -> None:
    monkeypatch.setattr(composite, "_CAPACITY", 4)
    for size in range(1, 12):
        for _ in range(3):
            nn.softmax(tapec.ones([size]))
        assert len(plans) <= 4
