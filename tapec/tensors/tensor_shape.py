"""TensorShape: the shape of a tensor as users compare and print it; dims or the rank may be unknown."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any, SupportsIndex, overload

from tapec import arguments
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.ir.types import TensorType

Dims = tuple[int | None, ...]


class TensorShape(Sequence[Any]):
    """The sizes of a tensor's axes. It equals the tuple or list of them; an unknown size is None.

    Two shapes are *compatible* if some tensor has both; `merge_with` is what such a tensor is known to have.

    Example: ``rows, columns = tapec.ones([2, 3]).shape``.

    Args:
        dims: a sequence of sizes (integers, None, scalar integer tensors), one size, another shape, or None for
            a shape of which not even the rank is known.

    Raises:
        TypeError: a size is no integer.
        ValueError: a size is negative.
    """

    __slots__ = ("_dims",)

    def __init__(self, dims: Any) -> None:
        self._dims: Dims | None = _dims_of(dims)

    # -- what it is

    @property
    def rank(self) -> int | None:
        """Number of axes; None if it is not known."""
        return None if self._dims is None else len(self._dims)

    @property
    def ndims(self) -> int | None:
        """Number of axes; None if it is not known."""
        return self.rank

    @property
    def dims(self) -> list[int | None] | None:
        """The sizes; None if the rank is not known."""
        return None if self._dims is None else list(self._dims)

    def as_list(self) -> list[Any]:
        """The sizes as a list.

        Raises:
            ValueError: the rank is not known.
        """
        if self._dims is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.", location=here())
        return list(self._dims)

    def num_elements(self) -> int | None:
        """Number of elements, or None if a size is not known."""
        return prod(self._dims) if self.is_fully_defined() else None  # type: ignore[arg-type]

    def is_fully_defined(self) -> bool:
        """Whether every size is known."""
        return self._dims is not None and None not in self._dims

    def assert_is_fully_defined(self) -> None:
        """Raise ValueError if a size is not known."""
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined", location=here())

    # -- beside another one

    def is_compatible_with(self, other: Any) -> bool:
        """Whether some tensor has both shapes."""
        theirs = TensorShape(other)._dims
        if self._dims is None or theirs is None:
            return True
        return len(self._dims) == len(theirs) and all(
            m == n or m is None or n is None for m, n in zip(self._dims, theirs, strict=True)
        )

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise ValueError if no tensor has both shapes."""
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {other} are incompatible", location=here())

    def merge_with(self, other: Any) -> TensorShape:
        """What is known of a tensor that has both shapes.

        Raises:
            ValueError: there is none.
        """
        second = TensorShape(other)
        if not self.is_compatible_with(second):
            raise ValueError(f"Shapes {self} and {second} are not compatible", location=here())
        if self._dims is None or second._dims is None:
            return second if self._dims is None else self
        pairs = zip(self._dims, second._dims, strict=True)
        return TensorShape([n if m is None else m for m, n in pairs])

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """What is known of a tensor that has one of the two shapes."""
        theirs = TensorShape(other)._dims
        if self._dims is None or theirs is None or len(self._dims) != len(theirs):
            return TensorShape(None)
        return TensorShape([m if m == n else None for m, n in zip(self._dims, theirs, strict=True)])

    def most_specific_common_supertype(self, others: Sequence[Any]) -> TensorShape | None:
        """What is known of a tensor that has one of all these shapes; None if one is no shape."""
        common = self
        for other in others:
            if not isinstance(other, TensorShape):
                return None
            common = common.most_specific_compatible_shape(other)
        return common

    def is_subtype_of(self, other: Any) -> bool:
        """Whether every tensor of this shape has the other one too."""
        if not isinstance(other, TensorShape):
            return False
        return other._dims is None or (
            self._dims is not None
            and len(self._dims) == len(other._dims)
            and all(n in (m, None) for m, n in zip(self._dims, other._dims, strict=True))
        )

    def concatenate(self, other: Any) -> TensorShape:
        """These axes, then those of another shape."""
        theirs = TensorShape(other)._dims
        unknown = self._dims is None or theirs is None
        return TensorShape(None if unknown else (*self._dims, *theirs))  # type: ignore[misc]

    # -- its rank

    def with_rank(self, rank: int) -> TensorShape:
        """The shape, known to have so many axes.

        Raises:
            ValueError: it has another number of axes.
        """
        wanted = arguments.integer(rank, "rank")
        if self._dims is None:
            return TensorShape([None] * wanted)
        return self._if_rank(len(self._dims) == wanted, f"rank {wanted}")

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """The shape; ValueError if it has less axes than that."""
        least = arguments.integer(rank, "rank")
        known = self._dims is not None
        return self._if_rank(not known or len(self) >= least, f"rank at least {least}")

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """The shape; ValueError if it has more axes than that."""
        most = arguments.integer(rank, "rank")
        known = self._dims is not None
        return self._if_rank(not known or len(self) <= most, f"rank at most {most}")

    def assert_has_rank(self, rank: int) -> None:
        """Raise ValueError if the number of axes is another one."""
        self.with_rank(rank)

    def assert_same_rank(self, other: Any) -> None:
        """Raise ValueError if another shape has another number of axes."""
        second = TensorShape(other)
        if None not in (self.rank, second.rank) and self.rank != second.rank:
            raise ValueError(f"Shapes {self} and {second} must have the same rank", location=here())

    def _if_rank(self, fits: bool, wanted: str) -> TensorShape:
        if not fits:
            raise ValueError(f"Shape {self} must have {wanted}", location=here())
        return self

    # -- Python's protocol

    def __bool__(self) -> bool:
        """Whether the rank is known, as in TensorFlow: the shape of a scalar is true."""
        return self._dims is not None

    def __len__(self) -> int:
        if self._dims is None:
            raise ValueError("Cannot take the length of shape with unknown rank.", location=here())
        return len(self._dims)

    def __iter__(self) -> Iterator[Any]:
        if self._dims is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.", location=here())
        return iter(self._dims)

    @overload
    def __getitem__(self, key: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> TensorShape: ...
    def __getitem__(self, key: Any) -> Any:
        if self._dims is not None:
            if isinstance(key, slice):
                return TensorShape(self._dims[key])
            return self._dims[arguments.integer(key, "an index of a shape")]
        if not isinstance(key, slice):
            return None
        start, stop = key.start or 0, key.stop
        counted = stop is not None and 0 <= start <= stop and key.step is None
        return TensorShape([None] * (stop - start) if counted else None)

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other).concatenate(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TensorShape):
            return self._dims == other._dims
        if isinstance(other, tuple | list):
            return self._dims is not None and self._dims == tuple(other)
        try:
            return self._dims == _dims_of(other)
        except (TypeError, ValueError):
            return False

    def __hash__(self) -> int:
        return hash(self._dims)

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorShape, (self._dims,)

    def __repr__(self) -> str:
        return f"TensorShape({None if self._dims is None else list(self._dims)})"

    def __str__(self) -> str:
        return "<unknown>" if self._dims is None else str(self._dims)


def _dims_of(dims: Any) -> Dims | None:
    if dims is None:
        return None
    if isinstance(dims, TensorShape):
        return dims._dims
    if isinstance(dims, str) or not isinstance(dims, Iterable):
        return (_dim_of(dims),)
    return tuple(map(_dim_of, arguments.items(dims, "a shape")))


def _dim_of(dim: Any) -> int | None:
    if type(dim) is int and dim >= 0:
        return dim
    if dim is None:
        return None
    try:
        size: int = dim.__index__()
    except (AttributeError, builtins.TypeError):
        raise TypeError(
            f"Dimension value must be integer or None or have an __index__ method, got value "
            f"'{dim}' with type '{type(dim)}'",
            location=here(),
        ) from None
    if size < 0:
        raise ValueError(f"Dimension {size} must be >= 0", location=here())
    return size


@lru_cache(maxsize=4096)
def shape_of(type: TensorType) -> TensorShape:
    """The shape of a type; a size that only a call will know is None."""
    return TensorShape([d if isinstance(d, int) else None for d in type.shape])
