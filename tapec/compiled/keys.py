"""What two calls have to share for one program to serve both: the key of an argument."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Number
from types import MethodType
from typing import Any

import numpy as np

from tapec.compiled.parameters import Parameters
from tapec.records import fields_of
from tapec.structure import is_record
from tapec.tensor import EagerTensor, Tensor, as_array, is_on_device, type_of
from tapec.tensors.device_tensor import DeviceTensor, of_interface
from tapec.tensors.tensor_shape import TensorShape
from tapec.traces.scalars import KINDS, is_number


def as_input(leaf: Any) -> Any:
    """A tensor for what is an input at run time; anything else is a constant of the program."""
    if isinstance(leaf, np.ndarray) or _is_small_float(leaf):
        array = as_array(leaf)
        return EagerTensor(array, type_of(array))
    return of_interface(leaf) if is_on_device(leaf) else leaf


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
#: Classes whose instances were found to be made of fields, and the names of these; None for named tuples.
_records: dict[type, tuple[str, ...] | None] = {}
#: Values that are their own keys, beside their types.
_PLAIN = frozenset({bool, str, type(None)})
#: What becomes a tensor; see `as_input`.
_ARRAYS = frozenset({np.ndarray, np.float16, np.float32, np.longdouble, np.complex64})


class Quick:
    """The leaves of arguments as `tapec.structure.flatten` gives them, found without optree while the key is made.

    Attributes:
        tensors: those that are inputs.
        numbers: Python's.
        objects: those that are keys by themselves. In a key they stand by their ``id``: whoever keeps it keeps them.
    """

    __slots__ = ("numbers", "objects", "tensors")

    def __init__(self) -> None:
        """Nothing yet."""
        self.tensors: list[Tensor] = []
        self.numbers: list[Any] = []
        self.objects: list[Any] = []

    def key(self, parameters: Parameters, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Any:
        """What selects programs for a call whose arguments are bound; None if one is of another kind."""
        try:
            key = self._of(args)
            if key is None or not kwargs:
                return key
            names = sorted(kwargs)
            named = self._of([kwargs[name] for name in names])
        except RecursionError:  # a structure contains itself: refused where it is taken apart
            return None
        return None if named is None else (key, parameters.order(kwargs), tuple(names), named)

    def _of(self, values: Iterable[Any]) -> tuple[Any, ...] | None:
        key: list[Any] = []
        for value in values:
            kind = type(value)
            if kind is EagerTensor or kind is Tensor or kind is DeviceTensor:
                key.append(value.type)
                self.tensors.append(value)
            elif kind in _ARRAYS:
                value = as_input(value)
                key.append(value.type)
                self.tensors.append(value)
            elif kind in KINDS:
                key.append(kind)
                self.numbers.append(value)
            elif kind in _PLAIN:
                key.append((kind, value))
            elif kind in _themselves:
                key.append(id(value))
                self.objects.append(value)
            else:
                made_of = _made_of(value, kind)
                inner = None if made_of is None else self._of(made_of[1])
                if made_of is None or inner is None:
                    return None
                key.append((made_of[0], inner))
        return tuple(key)


def _made_of(value: Any, kind: type) -> tuple[Any, Iterable[Any]] | None:
    """What tells a structure from others, and its parts in the order of `tapec.structure.flatten`; None if it is none.

    A dict's keys are told in their own order, which a loop over it goes by.
    """
    if kind is dict:
        names = tuple(value)
        order = _sorted(names)
        return None if order is None else ((kind, names), [value[name] for name in order])
    if kind is list or kind is tuple:
        return kind, value
    if kind not in _records:
        return None
    fields = _records[kind]
    if fields is None:
        return kind, value
    held = getattr(value, "__dict__", None)
    if held is None or tuple(held) != fields:
        values, _, fields = fields_of(value)
        return (kind, fields), values
    return (kind, fields), held.values()


@functools.lru_cache(1024)
def _sorted(names: tuple[Any, ...]) -> tuple[Any, ...] | None:
    try:
        return tuple(sorted(names))
    except TypeError:
        return None  # optree has an order for these


def objects_among(leaves: Sequence[Any]) -> list[Any]:
    """The objects among arguments or parts of them that are keys by themselves, or whose methods are."""
    found = []
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            thing = leaf.__self__ if isinstance(leaf, MethodType) else leaf
            if isinstance(leaf_key(thing), _Identity):
                found.append(thing)
    return found


def learn(structure: Any, leaves: Iterable[Any]) -> None:
    """Take note of the classes of what arguments are made of: records, and objects that are keys by themselves."""
    for leaf in leaves:
        if type(leaf) not in _themselves and isinstance(leaf_key(leaf), _Identity):
            _themselves.add(type(leaf))
    asked = [structure]
    while asked:
        node = asked.pop()
        kind = type(node)
        if kind is dict:
            asked += node.values()
        elif kind is list or kind is tuple:
            asked += node
        elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
            _records[kind] = None
            asked += node
        elif is_record(kind):
            values, _, names = fields_of(node)
            _records.setdefault(kind, names)
            asked += values


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
