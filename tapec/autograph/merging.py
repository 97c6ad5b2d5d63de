"""What a variable is behind a branch or loop whose parts leave different values in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapec.autograph.jumps import OURS, RETURNED
from tapec.autograph.places import UNBOUND
from tapec.control.regions import DifferentShapes, Merged
from tapec.control.tensor_array import TensorArray
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions.arrays import full
from tapec.ir.types import DType, TensorType
from tapec.structure import flatten, unflatten
from tapec.tensor import Tensor, as_array, as_tensor, type_of
from tapec.variable import Variable

_NUMBERS = (bool, int, float, complex, np.generic)
#: What is a value of a program.
_VALUES = (Tensor, Variable, np.ndarray, *_NUMBERS)
#: Types whose values are what they print as.
_PLAIN = (*_NUMBERS, str, bytes, type(None), DType)


def is_value(leaf: Any) -> bool:
    """Whether a program can compute something like it."""
    return isinstance(leaf, (*_VALUES, TensorArray))


def is_data(leaf: Any) -> bool:
    """Whether it is that, or a text: no object that code makes when it needs one."""
    return is_value(leaf) or isinstance(leaf, str | bytes)


def same(one: Any, other: Any) -> bool:
    """Whether two leaves are one, or plain values that are equal."""
    if one is other:
        return True
    return type(one) is type(other) and isinstance(one, _PLAIN) and repr(one) == repr(other)


def leaf_type(leaf: Any) -> TensorType:
    """The type of a value in a program."""
    if isinstance(leaf, Tensor | Variable):
        return leaf.type
    return type_of(as_array(leaf))


def leaves_of(structure: Any) -> tuple[list[Any], Any]:
    """The leaves, and the structure: equal for structures that are, whatever the leaves."""
    leaves, spec = flatten(structure)
    return leaves, flatten(unflatten(spec, [object() for _ in leaves]))[1]


def described(value: Any) -> str:
    """A value in a message."""
    if value is None or value is UNBOUND:
        return str(value)
    if isinstance(value, Tensor | Variable):
        return str(value.type)
    return f"{type(value).__name__} {value!r}"


def called(name: str) -> str:
    """A variable in a message."""
    if name == RETURNED:
        return "the returned value"
    return name if " " in name else f"'{name}'"


def merged(values: Sequence[tuple[str, Any, Any]], returned: bool = False) -> Merged:
    """What becomes of values, each with its name, of which one is there if a condition holds, else the other.

    A side that ends with a jump, as flags among the values say, need not have given a value to every variable: what
    follows runs only if there was no jump. So it is with the other side if that is where the function has ``returned``.

    Raises:
        TypeError: they have different dtypes or structures, or are no values of a program.
        ValueError: one is None.
        DifferentShapes: they have different shapes.
    """
    flags = [(one, other) for name, one, other in values if name.startswith(OURS)]
    left = [any(flag[side] is True for flag in flags) for side in (0, 1)]
    left[1] |= returned
    merges = [_Merge(name, one, other, left) for name, one, other in values]
    pairs = [pair for merge in merges for pair in merge.pairs]

    def result(found: list[Tensor]) -> list[Any]:
        tensors = iter(found)
        return [merge.result([next(tensors) for _ in merge.pairs]) for merge in merges]

    return pairs, result


class _Merge:
    """One variable: the leaves in which its two values differ, and how to put them together again."""

    def __init__(self, name: str, one: Any, other: Any, left: Sequence[bool]) -> None:
        self._name = name
        #: What the whole is where no part of it differs.
        self._whole = one
        self.pairs: list[tuple[Any, Any]] = []
        if one is other or (one is UNBOUND and other is UNBOUND):
            return
        if one is UNBOUND or other is UNBOUND:
            one, other = self._completed(one, other, left)
        if (one is None) != (other is None):
            side = "main" if one is None else "else"
            raise ValueError(
                f"{called(name)} is None at the end of the {side} branch, and "
                f"{described(one if other is None else other)} at the end of the other",
                location=here(),
                hint="give it a tensor in both branches, or none",
            )
        self._leaves, self._spec = leaves_of(one)
        leaves, spec = leaves_of(other)
        if spec != self._spec or len(leaves) != len(self._leaves):
            raise TypeError(
                f"{called(name)} has different structures: {described(one)} in the main branch, but "
                f"{described(other)} in the else branch",
                location=here(),
                hint="give it lists, tuples or dicts of the same kind and length in both branches",
            )
        self._places = []
        for place, pair in enumerate(zip(self._leaves, leaves, strict=True)):
            if not same(*pair):
                self._places.append(place)
                self.pairs.append(self._fitted(*pair))

    def _completed(self, one: Any, other: Any, left: Sequence[bool]) -> tuple[Any, Any]:
        """Zeros in the place of what nobody reads: a flag says that there was a jump, or no return yet."""
        if self._name != RETURNED and not left[one is not UNBOUND]:
            side = "main" if one is UNBOUND else "else"
            raise ValueError(
                f"{called(self._name)} must also be initialized in the {side} branch: it is used behind "
                "the if statement",
                location=here(),
                hint=f"give {called(self._name)} a value before the if statement, or in both branches",
            )
        leaves, spec = flatten(other if one is UNBOUND else one)
        types = [leaf_type(v) if isinstance(v, _VALUES) else None for v in leaves]
        zeros = [
            v if t is None else full(0, t.dtype, t.shape)
            for v, t in zip(leaves, types, strict=True)
        ]
        stand_in = unflatten(spec, zeros)
        return (stand_in, other) if one is UNBOUND else (one, stand_in)

    def _fitted(self, one: Any, other: Any) -> tuple[Any, Any]:
        """Two leaves of the same type; a Python number takes the dtype of a tensor in the other branch."""
        name = called(self._name)
        arrays = [isinstance(v, TensorArray) for v in (one, other)]
        if all(arrays):
            one.refuse_other_size(other, "does so in one branch only")
            return one, other
        if any(arrays) or not isinstance(one, _VALUES) or not isinstance(other, _VALUES):
            raise TypeError(
                f"{name} is {described(one)} in the main branch, but {described(other)} in the else branch",
                location=here(),
                hint="only tensors and numbers may depend on what the run finds",
            )
        one, other = _weakly(one, other), _weakly(other, one)
        first, second = leaf_type(one), leaf_type(other)
        if first.dtype != second.dtype:
            raise TypeError(
                f"{name} has dtype {first.dtype.name} in the main branch, but dtype {second.dtype.name} "
                "in the else branch",
                location=here(),
                hint="convert one of them with tapec.cast",
            )
        if first.shape != second.shape:
            raise DifferentShapes(
                f"{name} has shape {first} in the main branch, but {second} in the else branch",
                location=here(),
                hint="give it one shape in both: in loops, and where a program is looked at or built, it serves both",
            )
        return one, other

    def result(self, found: list[Tensor]) -> Any:
        """The value behind the branches."""
        if not self.pairs:
            return self._whole
        leaves = list(self._leaves)
        for place, tensor in zip(self._places, found, strict=True):
            leaf = leaves[place]
            leaves[place] = leaf.with_dense(tensor) if isinstance(leaf, TensorArray) else tensor
        return unflatten(self._spec, leaves)


def _weakly(value: Any, beside: Any) -> Any:
    """A Python number as the dtype of a tensor, where that holds such numbers."""
    if not isinstance(beside, Tensor | Variable) or isinstance(value, bool):
        return value
    dtype = beside.dtype
    fits = isinstance(value, int) and not dtype.is_bool
    if fits or (isinstance(value, float) and (dtype.is_floating or dtype.is_complex)):
        return as_tensor(value, dtype)
    return value
