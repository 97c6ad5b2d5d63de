"""What two calls have to share for one program to serve both: the key of an argument."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from numbers import Number
from types import MethodType
from typing import Any

import numpy as np

from tapec.tensor import EagerTensor, Tensor, as_array, type_of
from tapec.tensor_shape import TensorShape


def as_input(leaf: Any) -> Any:
    """A tensor for what is an input at run time; anything else is a constant of the program."""
    if isinstance(leaf, np.ndarray):
        array = as_array(leaf)
        return EagerTensor(array, type_of(array))
    return leaf


def leaf_key(leaf: Any) -> Any:
    """By what an argument, or a part of one, selects a program; equal keys, equal programs."""
    if isinstance(leaf, Tensor):
        return leaf.type
    kind = type(leaf)  # 1, 1.0 and True are equal, but not the same program
    if isinstance(leaf, float | complex | np.floating | np.complexfloating):
        return kind, repr(leaf)  # -0.0 and 0.0 are equal, NaN is not equal to itself
    if isinstance(leaf, Number | str | bytes | range | np.generic | np.dtype | TensorShape):
        return kind, leaf
    parts = _parts(leaf)
    return _Identity(leaf) if parts is None else (kind, parts)


def _parts(leaf: Any) -> Any:
    """The keys of what a value is made of; None for an object that is itself, equal to others or not."""
    if isinstance(leaf, set | frozenset):
        return frozenset(map(leaf_key, leaf))
    if isinstance(leaf, slice):
        return leaf_key(leaf.start), leaf_key(leaf.stop), leaf_key(leaf.step)
    if isinstance(leaf, MethodType):  # a new object for each look at it
        return _Identity(leaf.__self__), leaf.__func__
    if is_dataclass(leaf) and not isinstance(leaf, type) and _is_frozen(leaf):
        return tuple([leaf_key(getattr(leaf, field.name)) for field in fields(leaf)])
    return None


def _is_frozen(leaf: Any) -> bool:
    return bool(leaf.__dataclass_params__.frozen)


class _Identity:
    """A key for what is no plain value, such as a Variable or a model: the object itself, kept alive."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)
