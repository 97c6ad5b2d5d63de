"""Whether what is not one object is the same to a program: equal numbers and texts, containers with the same items."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from operator import is_
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np

from tapec.tensors.tensor_shape import TensorShape
from tapec.tracing import TracedTensor

#: What has no parts that change, and is compared by value.
PLAIN = (int, float, complex, str, bytes, range, type(None), type(...), np.generic, np.dtype)


def same_items(owner: Any, copy: list[Any]) -> bool:
    """Whether a sequence has the same items."""
    if len(owner) != len(copy):
        return False
    return all(map(is_, owner, copy)) or all(map(is_or_same, owner, copy))


def same_entries(owner: Mapping[Any, Any], copy: dict[Any, Any]) -> bool:
    """Whether a dict has the same keys in the same order, with the same values."""
    if len(owner) != len(copy):
        return False
    if all(map(is_, owner, copy)) and all(map(is_, owner.values(), copy.values())):
        return True
    if not all(map(is_or_same, owner, copy)):
        return False
    return all(map(is_or_same, owner.values(), copy.values()))


def same_members(owner: Any, copy: frozenset[Any]) -> bool:
    """Whether a set has the same members, of the same types."""
    if owner != copy:
        return False
    return not copy or {(type(x), x) for x in owner} == {(type(x), x) for x in copy}


def same_bytes(owner: Any, copy: Any) -> bool:
    """Whether something with a buffer holds the same bytes."""
    return bool(bytes(owner) == copy)


class Elements(NamedTuple):
    """What an array held."""

    held: bytes
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, array: Any) -> Elements:
        """What it holds now."""
        return cls(np.ndarray.tobytes(array), array.shape, array.dtype)

    def __repr__(self) -> str:
        array = np.frombuffer(self.held, self.dtype).reshape(self.shape)
        return np.array2string(array, threshold=6, edgeitems=2, separator=", ").replace("\n", "")


def same_array(owner: Any, copy: Elements) -> bool:
    """Whether an array has the same type and the same elements, bit by bit."""
    held, shape, dtype = copy
    return bool(np.ndarray.tobytes(owner) == held and owner.shape == shape and owner.dtype == dtype)


def is_or_same(a: Any, b: Any) -> bool:
    """Whether two values make no difference."""
    return a is b or same(a, b)


def same(a: Any, b: Any) -> bool:
    """Whether two values that are not one object make no difference: equal numbers, texts, functions of one source."""
    kind = type(a)
    if kind is not type(b):
        return False
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)  # 0.0 and -0.0 are equal
    if isinstance(a, complex):
        return repr(a) == repr(b)
    if isinstance(a, np.generic):
        return bool(a.tobytes() == b.tobytes())
    if isinstance(a, PLAIN) or kind is TensorShape:
        return bool(a == b)
    if kind is slice:
        return all(is_or_same(getattr(a, n), getattr(b, n)) for n in ("start", "stop", "step"))
    if kind is tuple:
        return len(a) == len(b) and all(map(is_or_same, a, b))
    if kind is frozenset:
        return same_members(a, b)
    if kind is MethodType:
        return a.__self__ is b.__self__ and a.__func__ is b.__func__
    if kind is TracedTensor:  # of functions that were compiled: who reads either is refused
        return bool(a.type == b.type and a.trace.has_ended and b.trace.has_ended)
    return kind is FunctionType and _same_function(a, b)


def _same_function(a: FunctionType, b: FunctionType) -> bool:
    """Whether two functions come from one place and nothing around them can differ."""
    return (
        a.__code__ is b.__code__
        and a.__globals__ is b.__globals__
        and not (a.__closure__ or b.__closure__ or a.__kwdefaults__ or b.__kwdefaults__)
        and is_or_same(a.__defaults__, b.__defaults__)
    )
