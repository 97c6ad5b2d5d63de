"""TensorShape: the shape of a tensor as users compare and print it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, SupportsIndex, overload


class TensorShape(tuple[Any, ...]):
    """A tuple of dims that also equals a list; None stands for a dim that is not known."""

    __slots__ = ()

    def as_list(self) -> list[Any]:
        """The dims as a list."""
        return list(self)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self)

    @property
    def ndims(self) -> int:
        """Number of axes."""
        return len(self)

    def num_elements(self) -> int | None:
        """Number of elements, or None if a dim is not known."""
        return None if None in tuple(self) else prod(self)

    def is_fully_defined(self) -> bool:
        """No dim is None."""
        return None not in tuple(self)

    @overload
    def __getitem__(self, key: SupportsIndex) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> TensorShape: ...
    def __getitem__(self, key: Any) -> Any:
        item = tuple.__getitem__(self, key)
        return TensorShape(item) if isinstance(key, slice) else item

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str):
            return tuple(self) == tuple(other)
        return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return f"TensorShape({list(self)})"

    def __str__(self) -> str:
        return str(tuple(self))
