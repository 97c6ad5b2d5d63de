"""What two calls have to share for one program to serve both: the key of an argument."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from types import MethodType
from typing import Any

import numpy as np

from tapec.compiled.scalars import KINDS, is_number
from tapec.tensor import EagerTensor, Tensor, as_array, type_of
from tapec.tensor_shape import TensorShape


def as_input(leaf: Any) -> Any:
    """A tensor for what is an input at run time; anything else is a constant of the program."""
    if isinstance(leaf, np.ndarray) or _is_small_float(leaf):
        array = as_array(leaf)
        return EagerTensor(array, type_of(array))
    return leaf


def _is_small_float(leaf: Any) -> bool:
    """Whether it is one of NumPy's numbers that are not Python's too: its float64 is a float."""
    return isinstance(leaf, np.inexact) and not isinstance(leaf, float | complex)


def leaf_key(leaf: Any) -> Any:
    """By what an argument, or a part of one, selects a program; equal keys, equal programs."""
    if isinstance(leaf, Tensor):
        return leaf.type
    kind = type(leaf)  # 1, 1.0 and True are equal, but not the same program
    if is_number(leaf):
        return kind  # whether its value matters, the program itself says
    if isinstance(leaf, float | complex):
        return kind, repr(leaf)  # -0.0 and 0.0 are equal, NaN is not equal to itself
    if isinstance(leaf, Number | str | bytes | range | np.generic | np.dtype | TensorShape):
        return kind, leaf
    parts = _parts(leaf)
    return _Identity(leaf) if parts is None else (kind, parts)


#: Classes whose instances were found to be no structure and equal to nothing but themselves: models, Variables.
_themselves: set[type] = set()
#: Values that are their own keys, beside their types.
_PLAIN = frozenset({bool, str, type(None)})


def flat_key(args: Sequence[Any]) -> tuple[tuple[Any, ...] | None, list[Any]]:
    """The key of arguments of which none has parts, and the numbers among them; None if there are others."""
    key: list[Any] = []
    numbers: list[Any] = []
    for value in args:
        kind = type(value)
        if kind is EagerTensor or kind is Tensor:
            key.append(value.type)
        elif kind in KINDS:
            key.append(kind)
            numbers.append(value)
        elif kind in _PLAIN:
            key.append((kind, value))
        elif kind in _themselves:
            key.append(_Identity(value))
        else:
            return None, numbers
    return tuple(key), numbers


def learn(leaf: Any) -> None:
    """Take note of the class of an argument that has no parts and is a key by itself."""
    if type(leaf) not in _themselves and isinstance(leaf_key(leaf), _Identity):
        _themselves.add(type(leaf))


def _parts(leaf: Any) -> Any:
    """The keys of what a value is made of; None for an object that is itself, equal to others or not."""
    if isinstance(leaf, set | frozenset):
        return frozenset(map(_exact_key, leaf))
    if isinstance(leaf, slice):
        return _exact_key(leaf.start), _exact_key(leaf.stop), _exact_key(leaf.step)
    if isinstance(leaf, MethodType):  # a new object for each look at it
        return _Identity(leaf.__self__), leaf.__func__
    return None


def _exact_key(leaf: Any) -> Any:
    """The key of what is inside of a value that is no structure: numbers are constants there."""
    return (type(leaf), repr(leaf)) if is_number(leaf) else leaf_key(leaf)


class _Identity:
    """A key for what is no plain value, such as a Variable or a model: the object itself, kept alive."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)
