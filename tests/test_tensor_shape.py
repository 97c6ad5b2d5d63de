"""TensorShape, and the shapes that tensors give."""
# ruff: noqa: E711, RUF005 (the operators are what is tested)

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec import TensorShape as S

UNKNOWN = S(None)

#: Expressions, and what TensorFlow gives for them.
VALUES: dict[str, tuple[Callable[[], Any], Any]] = {
    "one size": (lambda: S(3), (3,)),
    "of a tensor": (lambda: S(tapec.constant([2, 3])), (2, 3)),
    "sizes that are tensors": (lambda: S([tapec.constant(2), None]), (2, None)),
    "of a shape": (lambda: S(S([2])), (2,)),
    "text": (
        lambda: (repr(S([2, None])), str(S([2, None]))),
        ("TensorShape([2, None])", "(2, None)"),
    ),
    "text of an unknown one": (
        lambda: (repr(UNKNOWN), str(UNKNOWN)),
        ("TensorShape(None)", "<unknown>"),
    ),
    "an index gives an int": (lambda: S([2, 3])[-1], 3),
    "a slice gives a shape": (lambda: S([2, 3, 4])[1:], S([3, 4])),
    "slices of an unknown one": (
        lambda: (UNKNOWN[0], UNKNOWN[:2], UNKNOWN[1:]),
        (None, S([None, None]), UNKNOWN),
    ),
    "unpacking": (lambda: [*S([2, 3])], [2, 3]),
    "in": (lambda: 3 in S([2, 3]), True),
    "equal to a tuple": (lambda: (S([2, 3]) == (2, 3), (2, 3) == S([2, 3])), (True, True)),
    "equal to a list": (lambda: S([2, 3]) == [2, 3], True),
    "equal to a number": (lambda: S([2]) == 2, True),
    "not equal": (
        lambda: (S([2]) == [3], S([2]) == None, S([2]) == "a", S([2]) != (2,)),
        (False,) * 4,
    ),
    "unknown ones are equal": (lambda: (UNKNOWN == S(None), UNKNOWN == None), (True, True)),
    "as a key": (lambda: {(2, 3): 1}[S([2, 3])], 1),  # type: ignore[index]
    "the shape of a scalar is true": (lambda: (bool(S([])), bool(UNKNOWN)), (True, False)),
    "sums": (
        lambda: (S([2]) + [3], [1] + S([2]), (1,) + S([2])),
        (S([2, 3]), S([1, 2]), S([1, 2])),
    ),
    "concatenate": (
        lambda: (S([2]).concatenate([None]), S([2]).concatenate(None)),
        (S([2, None]), UNKNOWN),
    ),
    "merge": (lambda: S([2, None]).merge_with([None, 3]), (2, 3)),
    "merge with an unknown one": (lambda: UNKNOWN.merge_with([2]), (2,)),
    "with a rank": (lambda: UNKNOWN.with_rank(2), (None, None)),
    "elements": (
        lambda: (S([2, 3]).num_elements(), S([]).num_elements(), UNKNOWN.num_elements()),
        (6, 1, None),
    ),
    "compatible": (
        lambda: [S([2, None]).is_compatible_with(o) for o in ([2, 3], [2], None)],
        [True, False, True],
    ),
    "most specific": (
        lambda: [S([2, 3]).most_specific_compatible_shape(o) for o in ([2, 4], [2])],
        [S([2, None]), UNKNOWN],
    ),
    "supertype": (lambda: S([2, 3]).most_specific_common_supertype([S([2, 4])]), S([2, None])),
    "subtype": (
        lambda: (S([2]).is_subtype_of(S([None])), S([None]).is_subtype_of(S([2]))),
        (True, False),
    ),
    "rank": (
        lambda: (S([2, 3]).rank, S([2, 3]).ndims, UNKNOWN.rank, S([2]).dims),
        (2, 2, None, [2]),
    ),
    "defined": (lambda: (S([2]).is_fully_defined(), S([None]).is_fully_defined()), (True, False)),
    "NumPy takes it": (lambda: np.zeros(S([2, 3])).shape, (2, 3)),
    "NumPy multiplies it": (lambda: int(np.prod(S([2, 3]))), 6),
    "pickled and copied": (
        lambda: pickle.loads(pickle.dumps(copy.deepcopy(S([2, None])))),
        (2, None),
    ),
}

MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "negative": (lambda: S([-1]), ValueError, "Dimension -1 must be >= 0"),
    "a float": (lambda: S([2.0]), TypeError, "must be integer or None"),
    "text": (lambda: S("ab"), TypeError, "must be integer or None"),
    "merge": (
        lambda: S([2]).merge_with([3]),
        ValueError,
        r"Shapes \(2,\) and \(3,\) are not compatible",
    ),
    "rank": (lambda: S([2]).with_rank(2), ValueError, r"Shape \(2,\) must have rank 2"),
    "rank at least": (lambda: S([2]).with_rank_at_least(2), ValueError, "rank at least 2"),
    "rank at most": (lambda: S([2]).with_rank_at_most(0), ValueError, "rank at most 0"),
    "same rank": (lambda: S([2]).assert_same_rank([2, 3]), ValueError, "must have the same rank"),
    "incompatible": (lambda: S([2]).assert_is_compatible_with([3]), ValueError, "are incompatible"),
    "not defined": (lambda: S([None]).assert_is_fully_defined(), ValueError, "not fully defined"),
    "list of an unknown one": (UNKNOWN.as_list, ValueError, "unknown TensorShape"),
    "length of an unknown one": (lambda: len(UNKNOWN), ValueError, "unknown rank"),
    "iteration over an unknown one": (lambda: list(UNKNOWN), ValueError, "unknown rank"),
    "no such axis": (lambda: S([2])[5], IndexError, "out of range"),
    "a tensor of a partly known shape": (
        lambda: tapec.zeros(S([2, None])),
        TypeError,
        "integer size",
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


def test_shapes_of_tensors_are_kept() -> None:
    assert tapec.ones([2, 3]).shape is tapec.zeros([2, 3]).shape
    assert tapec.Variable(tapec.ones([2])).shape == [2]


def test_equal_shapes_as_arguments_are_one_program() -> None:
    seen = []

    @tapec.compile
    def f(shape: S, x: tapec.Tensor) -> tapec.Tensor:
        seen.append(shape)
        return tapec.reshape(x, shape)

    for shape in (S([2, 3]), S([2, 3]), S([3, 2])):
        assert f(shape, tapec.ones([6])).shape == shape
    assert seen == [S([2, 3]), S([3, 2])]


def test_a_tensor_may_be_held_to_a_shape() -> None:
    for thing in (tapec.ones([2, 3]), tapec.Variable(tapec.ones([2, 3]))):
        thing.set_shape([None, 3])
        with pytest.raises(
            ValueError, match=r"shape \(2, 3\) is not compatible with supplied shape \(3,\)"
        ):
            thing.set_shape([3])
        assert thing.device.endswith("CPU:0")
