"""`tapec.nest` against what TensorFlow gives."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from typing import Any

import pytest

import tapec
from tapec import nest

Pair = namedtuple("Pair", ["a", "b"])

VALUES: dict[str, tuple[Callable[[], Any], Any]] = {
    "leaves in order of keys": (
        lambda: nest.flatten({"b": [2, (3, None)], "a": 1}),
        [1, 2, 3, None],
    ),
    "an ordered dict by keys too": (lambda: nest.flatten(OrderedDict(b=1, a=2)), [2, 1]),
    "a leaf alone": (lambda: nest.flatten("ab"), ["ab"]),
    "nothing": (lambda: nest.flatten([[], {}]), []),
    "a named tuple": (lambda: nest.map_structure(lambda x: -x, Pair(1, [2])), Pair(-1, [-2])),
    "a defaultdict": (
        lambda: nest.map_structure(lambda x: -x, defaultdict(int, b=1, a=2)),
        {"b": -1, "a": -2},
    ),
    "order of keys is kept": (
        lambda: list(nest.map_structure(lambda x: x, OrderedDict(b=1, a=2)).items()),
        [("b", 1), ("a", 2)],
    ),
    "two structures": (
        lambda: nest.map_structure(lambda x, y: x + y, [1, {"a": 2}], [3, {"a": 4}]),
        [4, {"a": 6}],
    ),
    "lists and tuples, unchecked": (
        lambda: nest.map_structure(lambda x, y: x + y, [1, 2], (3, 4), check_types=False),
        [4, 6],
    ),
    "pack": (
        lambda: nest.pack_sequence_as({"b": [0, 0], "a": 0}, [1, 2, 3]),
        {"a": 1, "b": [2, 3]},
    ),
    "pack a leaf": (lambda: nest.pack_sequence_as(0, [5]), 5),
    "nested": (
        lambda: list(map(nest.is_nested, ([], (), {}, "ab", 1))),
        [True] * 3 + [False] * 2,
    ),
    "up to": (
        lambda: nest.map_structure_up_to({"a": 0, "b": 0}, len, {"a": [1, 2], "b": "xyz"}),
        {"a": 2, "b": 3},
    ),
    "slices": (
        lambda: len(nest.flatten(tapec.IndexedSlices([1.0], [0], [2]), expand_composites=True)),
        3,
    ),
}

MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "too few": (
        lambda: nest.pack_sequence_as([0, 0], [1]),
        ValueError,
        "had 2 atoms, but flat_sequence had 1",
    ),
    "no sequence": (lambda: nest.pack_sequence_as([0], 1), TypeError, "instead of a sequence"),  # type: ignore[arg-type]
    "no function": (lambda: nest.map_structure(1, [2]), TypeError, "func must be callable"),  # type: ignore[arg-type]
    "no structure": (lambda: nest.map_structure(len), ValueError, "at least one structure"),
    "unknown option": (
        lambda: nest.map_structure(len, [1], depth=2),
        ValueError,
        "Only valid keyword",
    ),
    "lengths": (
        lambda: nest.assert_same_structure([1, 2], [1]),
        ValueError,
        "same nested structure",
    ),
    "leaf and list": (lambda: nest.assert_same_structure([1], [[1]]), ValueError, "one is a leaf"),
    "list and tuple": (
        lambda: nest.assert_same_structure([1], (1,)),
        TypeError,
        "same sequence type",
    ),
    "keys": (lambda: nest.assert_same_structure({"a": 1}, {"b": 1}), ValueError, "keys"),
    "unsortable": (lambda: nest.flatten({1: 0, "a": 0}), TypeError, "sortable keys"),
    "too shallow": (
        lambda: nest.map_structure_up_to([[0]], len, [1]),
        TypeError,
        "must also be a sequence",
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_value(name: str) -> None:
    expression, expected = VALUES[name]
    assert expression() == expected


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name: str) -> None:
    mistake, kind, message = MISTAKES[name]
    with pytest.raises(kind, match=message):
        mistake()


def test_gradients_in_a_structure() -> None:
    weights = {"w": tapec.Variable(2.0), "b": [tapec.Variable(1.0)]}
    with tapec.GradientTape() as tape:
        loss = weights["w"] * 3.0 + weights["b"][0] ** 2  # type: ignore[operator, index]
    doubled = nest.map_structure(lambda g: 2 * g, tape.gradient(loss, weights))
    assert (doubled["w"].numpy(), doubled["b"][0].numpy()) == (6.0, 4.0)
