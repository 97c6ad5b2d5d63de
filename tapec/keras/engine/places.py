"""Places of elements, of which it is known only when a program runs how many there are."""

from __future__ import annotations

from typing import Any, NoReturn

import tapec
from tapec.keras.engine.conversion import convert_to_tensor
from tapec.tensor import Tensor
from tapec.tracing import TracedTensor


def shape_unknown(what: str, remedy: str) -> NotImplementedError:
    """The error of an operation that needs values while a function is compiled."""
    return NotImplementedError(
        f"{what} cannot be compiled: the shape of its result depends on values; {remedy}"
    )


class Places(TracedTensor):
    """What `nonzero` gives for one axis in a function that is being compiled: single places, and nothing else.

    The place of the first element other than zero has a shape, and programs ask for no other: it is the first up to
    which one is counted. All of them together have none, so whatever else is done with them is refused by name.
    """

    __slots__ = ("_axis", "_x")

    def __init__(self, x: Tensor, axis: int) -> None:
        """Computes nothing yet.

        Args:
            x: what to look through.
            axis: whose coordinate a place is.
        """
        self._array = None
        self._x, self._axis = x, axis

    def __getitem__(self, number: Any) -> Tensor:
        """The coordinate, int32, of a place by its number from the first on.

        Raises:
            NotImplementedError: the number is none of Python's, or counts from the end.
            InvalidArgumentError: there are not so many, when the program runs.
        """
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            self._refuse()
        found = tapec.reshape(tapec.not_equal(self._x, tapec.zeros([], self._x.dtype)), [-1])
        counts = tapec.cumsum(tapec.cast(found, "int32"))
        count = tapec.reduce_sum(tapec.cast(found, "int32"))
        tapec.debugging.assert_less(
            number, count, message=f"nonzero: there is no element {number} other than zero"
        )
        flat = tapec.reduce_sum(tapec.cast(counts <= number, "int32"))
        sizes = tapec.shape(self._x)
        return flat // tapec.reduce_prod(sizes[self._axis + 1 :]) % sizes[self._axis]

    def _refuse(self, *_: Any) -> NoReturn:
        raise shape_unknown("nonzero", "use where with three operands")

    __len__ = __iter__ = __bool__ = __repr__ = _refuse
    type = value = trace = shape = array = property(_refuse)


def places_of(x: Any) -> tuple[Places, ...]:
    """For each axis of a tensor of a program, the places of elements other than zero."""
    tensor = convert_to_tensor(x)
    return tuple([Places(tensor, axis) for axis in range(tensor.type.rank)])
