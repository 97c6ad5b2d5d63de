"""String tensors, and Variables whose shape varies."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec
from tapec import errors


def test_strings_are_made_compared_and_moved() -> None:
    words = tapec.constant(["a", "bé"])
    assert words.dtype == tapec.string
    assert words.numpy().tolist() == [b"a", "bé".encode()]
    assert tapec.constant("abc").numpy() == b"abc"
    assert repr(words) == "<tapec.Tensor: shape=(2,), dtype=string, numpy=[b'a', b'b\\xc3\\xa9']>"
    assert (words == "a").numpy().tolist() == [True, False]
    assert (words != tapec.constant(np.array(["a", "a"]))).numpy().tolist() == [False, True]
    assert tapec.concat([words, tapec.reverse(words, [0])], 0)[3].numpy() == b"a"
    state = tapec.Variable("idle")
    state.assign("busy")
    assert state.numpy() == b"busy"
    assert copy.deepcopy(state).dtype.name == "string"


REFUSED: dict[str, tuple[Callable[[tapec.Tensor], Any], type[Exception], str]] = {
    "arithmetic": (lambda s: s + s, errors.InvalidArgumentError, "add does not take str"),
    "sums": (tapec.reduce_sum, errors.InvalidArgumentError, "sum does not take str"),
    "casts": (
        lambda s: tapec.cast(s, tapec.int32),
        errors.InvalidArgumentError,
        "cast does not take str",
    ),
    "casts to strings": (
        lambda s: tapec.cast(1.0, tapec.string),
        errors.InvalidArgumentError,
        "cast does not take str",
    ),
    "numbers among them": (
        lambda s: tapec.constant(["a", 1]),
        ValueError,
        "cannot make a tensor of list",
    ),
    "as a number": (
        lambda s: tapec.constant("a", tapec.float32),
        TypeError,
        "Cannot convert 'a' to a tensor of dtype float32",
    ),
    "of a number": (lambda s: tapec.constant(1.0, tapec.string), TypeError, "dtype string"),
    "shapes": (
        lambda s: tapec.equal(s, ["a", "b", "c"]),
        errors.InvalidArgumentError,
        "Incompatible shapes",
    ),
    "as an argument": (
        lambda s: tapec.compile(tapec.identity)(s),
        NotImplementedError,
        "cannot be compiled",
    ),
    "from outside": (
        lambda s: tapec.compile(lambda: tapec.reshape(s, [1, 2]))(),
        NotImplementedError,
        "cannot be compiled",
    ),
    "in a function": (
        lambda s: tapec.compile(lambda: tapec.constant("a"))(),
        NotImplementedError,
        r"string tensors \(str\) cannot be compiled",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    use, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        use(tapec.constant(["a", "b"]))


def test_properties_of_dtypes() -> None:
    assert tapec.as_dtype(str) == tapec.as_dtype("string") == tapec.string
    assert (tapec.uint8.limits, tapec.int8.limits, tapec.float32.limits) == (
        (0, 255),
        (0, 127),
        (0, 1),
    )
    assert tapec.int32.is_compatible_with("int32")
    with pytest.raises(TypeError, match=r"minimum value of tapec\.string"):
        _ = tapec.string.min


def test_a_variable_of_varying_shape() -> None:
    v = tapec.Variable([1.0], shape=[None])
    assert v.shape == [None]
    with tapec.GradientTape() as tape:
        before = tapec.reduce_sum(v * v)
        v.assign([1.0, 2.0])
        after = tapec.reduce_sum(v * v)
    assert (before.numpy(), after.numpy()) == (1.0, 5.0)
    assert tape.gradient(after, v).numpy().tolist() == [2.0, 4.0]
    assert copy.deepcopy(v).shape == [None]
    with pytest.raises(ValueError, match="Shape mismatch"):
        v.assign([[1.0]])
    with pytest.raises(ValueError, match="the initial value has shape"):
        tapec.Variable([1.0], shape=[2])


def test_a_compiled_function_keeps_the_shape_it_met() -> None:
    v = tapec.Variable([1.0], shape=[None])

    @tapec.compile
    def grow() -> None:
        v.assign(tapec.concat([v, [2.0]], 0))

    with pytest.raises(ValueError, match="assign outside"):
        grow()
    double = tapec.compile(lambda: v * 2.0)
    assert double().numpy().tolist() == [2.0]
    v.assign([1.0, 2.0])
    with pytest.raises(ValueError, match=r"Variable is f32\[1\], got shape \[2\]"):
        double()
