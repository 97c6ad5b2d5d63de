"""What two calls have to share for one program to serve both: the key of an argument."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
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
    if leaf is None or isinstance(
        leaf, Number | str | bytes | range | np.generic | np.dtype | TensorShape
    ):
        return kind, leaf
    parts = _parts(leaf)
    return _Identity(leaf) if parts is None else (kind, parts)


#: Classes whose instances were found to be no structure and equal to nothing but themselves: models, Variables.
_themselves: set[type] = set()
#: Values that are their own keys, beside their types.
_PLAIN = frozenset({bool, str, type(None)})


def flat_key(args: Sequence[Any]) -> tuple[tuple[Any, ...] | None, list[Any], list[Any]]:
    """The key of arguments of which none has parts, the numbers among them, the objects that are keys by themselves.

    The key is None if there are others. Objects stand in it by their ``id``: whoever keeps it keeps them.
    """
    key: list[Any] = []
    numbers: list[Any] = []
    objects: list[Any] = []
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
            key.append(id(value))
            objects.append(value)
        else:
            return None, numbers, objects
    return tuple(key), numbers, objects


def objects_among(leaves: Sequence[Any]) -> list[Any]:
    """The objects among arguments or parts of them that are keys by themselves, or whose methods are."""
    found = []
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            thing = leaf.__self__ if isinstance(leaf, MethodType) else leaf
            if isinstance(leaf_key(thing), _Identity):
                found.append(thing)
    return found


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
    """A key for what is no plain value, such as a Variable or a model: the object itself, held weakly if that can be.

    Once it is gone, the key equals no other.
    """

    __slots__ = ("_hash", "_thing")

    def __init__(self, thing: Any) -> None:
        self._hash = id(thing)
        try:
            self._thing: Callable[[], Any] = weakref.ref(thing)
        except TypeError:
            self._thing = lambda: thing

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Identity):
            return False
        thing = self._thing()
        return self is other or (thing is not None and other._thing() is thing)

    def __hash__(self) -> int:
        return self._hash
