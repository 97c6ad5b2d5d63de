"""What a ``for`` of converted code may go over that is known to the run alone: rows of tensors, and ranges."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from tapec.autograph.expressions import is_traced
from tapec.control.growth import set_range
from tapec.control.tensor_array import TensorArray
from tapec.errors import InvalidArgumentError, TapecError, TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    cast,
    ceil,
    divide_no_nan,
    maximum,
    multiply,
    negative,
    subtract,
)
from tapec.functions.arrays import constant, range_dtype
from tapec.functions.arrays import range as tensor_range
from tapec.functions.broadcasting import binary
from tapec.functions.domains import refuse_zero
from tapec.functions.known import known_elements
from tapec.functions.rearrangement import part, reshape
from tapec.ir.dims import Dim, DimLike
from tapec.ir.types import I32, DType, as_dtype
from tapec.recording import current_trace
from tapec.tensor import Tensor, as_tensor


class Turning:
    """A loop's way through something: how often it turns, and what the loop variable is in each turn.

    Attributes:
        columns: Tensors of which a turn takes a row.
        length: the number of turns, if it is known.
        count: the number of turns, if only the run knows it.
    """

    columns: Sequence[Tensor] = ()
    length: DimLike | None = None
    count: Tensor | None = None

    def value(self, turn: Tensor | None, rows: Sequence[Tensor], all: bool) -> Any:
        """The loop variable in a turn, an int32 that counts from 0; ``all``: whether no turn is left out."""
        raise NotImplementedError

    def item(self, turn: int) -> Any:
        """The loop variable in a turn."""
        raise NotImplementedError


class Rows(Turning):
    """Along the first axis of a Tensor, or of several at once."""

    def __init__(self, columns: Sequence[Tensor], together: bool) -> None:
        for column in columns:
            if not column.type.shape:
                raise TypeError("Cannot iterate over a scalar tensor.", location=here())
        lengths = [c.type.shape[0] for c in columns]
        self.length = lengths[0]
        if builtins.any(n != lengths[0] for n in lengths):
            known = [n for n in lengths if isinstance(n, int)]
            if len(known) < len(lengths):
                raise TypeError(
                    f"zip takes tensors with first axes of one size, or of known sizes, got {lengths}",
                    location=here(),
                )
            self.length = builtins.min(known)
            columns = [part(c, 0, 0, self.length) for c in columns]
        self.columns, self._together = columns, together

    def value(self, turn: Tensor | None, rows: Sequence[Tensor], all: bool) -> Any:
        """A row, or a tuple of rows."""
        return tuple(rows) if self._together else rows[0]

    def item(self, turn: int) -> Any:
        """The same."""
        return self.value(None, [column[turn] for column in self.columns], True)


class Range(Turning):
    """From a start to a limit in steps, of which some are known to the run alone."""

    def __init__(
        self, start: Tensor, limit: Tensor, delta: Tensor, dtype: DType, refusal: TapecError
    ) -> None:
        self._start, self._delta = start, delta
        self._dtype = dtype
        #: Whether the numbers are those of the turns, and the first and last of them if these are known.
        self._counts = False
        self._ends: tuple[DimLike, DimLike] | None = None
        bounds = [known_elements(t) for t in (start, limit, delta)]
        known = [b.reshape(()).item() for b in bounds if b is not None and b.size == 1]
        if len(known) == 3 and (known[0], known[2]) == (0, 1) and isinstance(known[1], Dim):
            self.length, self._counts = known[1], True
            if dtype.is_integer:
                self._ends = (0, known[1] - 1)
            return
        if len(known) == 3 and not builtins.any(isinstance(n, Dim) for n in known):
            first, last, step = known
            self.length = tensor_range(first, last, step, dtype).type.shape[0]
            self._counts = first == 0 and step == 1
            if dtype.is_integer and isinstance(self.length, int) and self.length:
                self._ends = (first, first + (self.length - 1) * step)
            return
        refuse_zero(delta, refusal)
        way = subtract(limit, start)
        if dtype.is_integer:
            turns = negative(binary("floordiv", negative(way), delta))  # rounded up
        else:
            turns = ceil(divide_no_nan(way, delta))  # who is refused does not wait for many turns
        self.count = maximum(cast(reshape(turns, []), I32), constant(0, I32))

    def value(self, turn: Tensor | None, rows: Sequence[Tensor], all: bool) -> Any:
        """A number."""
        assert turn is not None
        number = turn if self._dtype == I32 else cast(turn, self._dtype)
        if not self._counts:
            number = add(reshape(self._start, []), multiply(number, reshape(self._delta, [])))
        if self._ends is not None and all:
            set_range(number, *self._ends)
        return number

    def item(self, turn: int) -> Any:
        """A number."""
        return self.value(constant(turn, I32), [], False)


def range_of(
    start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = None
) -> Any:
    """`tapec.range` in the head of a loop, which counts instead of making all numbers."""
    ends = [as_tensor(v) for v in ((0, start) if limit is None else (start, limit))]
    ends.append(as_tensor(delta))
    wanted = as_dtype(dtype) if dtype is not None else range_dtype(*ends)
    zero = 0 if wanted.is_integer else 0.0
    refusal = InvalidArgumentError(f"Requires delta != 0: {zero}", location=here())
    return _range(ends, wanted, refusal)


def _range(ends: Sequence[Tensor], dtype: DType, refusal: TapecError) -> Range:
    """From start to limit by delta, all of one dtype; ``refusal`` is what a delta of 0 raises."""
    first, last, step = [cast(end, dtype) for end in ends]
    return Range(first, last, step, dtype, refusal)


def python_range(*bounds: Any) -> Any:
    """`range` in the head of a loop: the program's, if a bound is a tensor."""
    if len(bounds) > 3 or not builtins.any(is_traced(b) for b in bounds):
        return builtins.range(*bounds)
    whole = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: bounds}[len(bounds)]
    ends = [as_tensor(v) for v in whole]
    refusal = ValueError("range() arg 3 must not be zero", location=here())
    return _range(ends, range_dtype(*ends), refusal)


def python_zip(*parts: Any, strict: bool = False) -> Any:
    """`zip` in the head of a loop: over rows, if all parts are tensors."""
    if parts and builtins.all(is_traced(p) for p in parts):
        return Rows([as_tensor(p) for p in parts], True)
    return builtins.zip(*parts, strict=strict)


def turning(iterable: Any) -> Turning | None:
    """The way of a loop of the program through something; None if Python's ``for`` is to go through it."""
    if isinstance(iterable, Turning):
        return iterable
    if is_traced(iterable):
        return Rows([as_tensor(iterable)], False)
    if isinstance(iterable, TensorArray) and current_trace() is not None:
        return Rows([iterable.stack()], False)
    return None


def in_head(function: Any) -> Any:
    """What a ``for`` calls in the place of a function whose result it goes over."""
    return (
        _IN_HEADS.get(function, function)
        if callable(function) and _hashable(function)
        else function
    )


_IN_HEADS = {tensor_range: range_of, builtins.range: python_range, builtins.zip: python_zip}


def _hashable(function: Any) -> bool:
    return type(function).__hash__ is not None
