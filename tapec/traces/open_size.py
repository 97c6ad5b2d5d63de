"""Sizes that a program leaves open although nobody asked for it, as Python code sees them.

Python code that was written for numbers must not notice: where a size only flows into other sizes and into arithmetic
with tensors, it stays open; where anything else is done with it, `SizeRead` ends the trace, and the function is traced
for the number instead (`tapec.compiled.dimensions`).
"""

from __future__ import annotations

import gc
import operator
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from tapec.ir.dims import Dim, DimLike
from tapec.ir.types import Shape
from tapec.tensors.tensor_shape import TensorShape

#: The open sizes that Python code has seen, while they were declared by nobody, so that a program which needs their
#: numbers has to be told. None at other times.
guessing: ContextVar[list[weakref.ref[OpenSize]] | None] = ContextVar("guessing", default=None)


@contextmanager
def guessing_sizes() -> Iterator[list[weakref.ref[OpenSize]]]:
    """Let Python code see open sizes of traced tensors as `OpenSize`; those that still live afterwards were kept."""
    seen: list[weakref.ref[OpenSize]] = []
    token = guessing.set(seen)
    try:
        yield seen
    finally:
        guessing.reset(token)


def are_kept(seen: Sequence[weakref.ref[OpenSize]]) -> bool:
    """Whether one of these sizes is in use after its trace; local functions keep their variables until a collection."""
    if any(size() is not None for size in seen):
        gc.collect()
    return any(size() is not None for size in seen)


class SizeRead(BaseException):
    """Python code needs the number; this never reaches the user.

    It is no ``Exception``, so that the user's handlers do not take it for theirs.
    """


def _needs_number(*_: object) -> NoReturn:
    raise SizeRead


class OpenSize:
    """One size: sums, products and quotients with other sizes are sizes, anything else needs the number."""

    __slots__ = ("__weakref__", "dim")

    def __init__(self, dim: Dim) -> None:
        """Stand for a dim of the program."""
        self.dim = dim
        if (seen := guessing.get()) is not None:
            seen.append(weakref.ref(self))

    def __bool__(self) -> bool:
        """An open size is at least 1."""
        return True

    def _combine(self, other: object, combine: Callable[[Any, Any], DimLike], swap: bool) -> Any:
        if not isinstance(other, int | OpenSize) or isinstance(other, bool):
            if isinstance(other, float | complex):
                raise SizeRead
            return NotImplemented  # a tensor knows what to do
        size = other.dim if isinstance(other, OpenSize) else other
        pair = (size, self.dim) if swap else (self.dim, size)
        try:
            return opened(combine(*pair))
        except ValueError:
            raise SizeRead from None

    def __add__(self, other: object) -> Any:
        return self._combine(other, operator.add, False)

    def __radd__(self, other: object) -> Any:
        return self._combine(other, operator.add, True)

    def __sub__(self, other: object) -> Any:
        return self._combine(other, operator.sub, False)

    def __rsub__(self, other: object) -> Any:
        return self._combine(other, operator.sub, True)

    def __mul__(self, other: object) -> Any:
        return self._combine(other, operator.mul, False)

    def __rmul__(self, other: object) -> Any:
        return self._combine(other, operator.mul, True)

    def __floordiv__(self, other: object) -> Any:
        return self._combine(other, operator.floordiv, False)

    def __mod__(self, other: object) -> Any:
        return self._combine(other, operator.mod, False)

    __index__ = __int__ = __float__ = __neg__ = __abs__ = _needs_number
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __hash__ = _needs_number
    __str__ = __repr__ = __format__ = _needs_number

    def __truediv__(self, other: object) -> Any:
        if isinstance(other, int | float | complex | OpenSize):
            raise SizeRead
        return NotImplemented

    def __rtruediv__(self, other: object) -> Any:
        return self.__truediv__(other)


def opened(dim: DimLike) -> int | OpenSize:
    """A dim as Python code is to see it."""
    return OpenSize(dim) if isinstance(dim, Dim) else dim


class GuessedShape(TensorShape):
    """The shape of a tensor with open sizes: they are `OpenSize`, and no shape that is compared or printed."""

    __slots__ = ("shape",)

    def __init__(self, shape: Shape) -> None:
        """Take the dims."""
        self.shape = shape

    @property
    def _dims(self) -> NoReturn:  # type: ignore[override]
        raise SizeRead

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def as_list(self) -> list[Any]:
        """The sizes as a list."""
        return list(self)

    def concatenate(self, other: Any) -> TensorShape:
        """The axes of both."""
        return GuessedShape((*self.shape, *_sizes(other)))

    def __radd__(self, other: Any) -> TensorShape:
        return GuessedShape((*_sizes(other), *self.shape))

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.shape)

    def __iter__(self) -> Iterator[Any]:
        return iter([opened(dim) for dim in self.shape])

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, slice):
            return opened(self.shape[key])
        part = self.shape[key]
        if any(isinstance(dim, Dim) for dim in part):
            return GuessedShape(part)
        return TensorShape(part)


def _sizes(shape: Any) -> Shape:
    """The dims of a shape, or of a list that may hold open sizes."""
    if isinstance(shape, GuessedShape):
        return shape.shape
    if isinstance(shape, TensorShape) or not isinstance(shape, list | tuple):
        return tuple(TensorShape(shape))
    return tuple([d.dim if isinstance(d, OpenSize) else operator.index(d) for d in shape])
