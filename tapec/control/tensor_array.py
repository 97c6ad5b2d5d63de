"""TensorArray: tensors that a loop writes one by one, and that are read one by one or stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapec import arguments
from tapec.control.arguments import dtype_of, index_of, integers_of, length_of
from tapec.control.growth import (
    count_behind,
    is_behind,
    is_decided,
    is_scouting,
    last_of,
    require_place,
    unknown_size,
)
from tapec.errors import InvalidArgumentError, OutOfRangeError, TypeError, ValueError
from tapec.frames import here
from tapec.functions.arrays import constant, full
from tapec.functions.indexing import gather
from tapec.functions.known import dim_tensor
from tapec.functions.rearrangement import concat, expand_dims, reshape, split, stack, unstack
from tapec.functions.scattering import tensor_scatter_nd_update
from tapec.ir.dims import DimLike
from tapec.ir.types import I32, DType, Shape
from tapec.recording import current_trace
from tapec.tensor import Tensor, TensorLike, as_tensor
from tapec.tensors.tensor_shape import TensorShape


class _Rows:
    """Elements one by one, as eager code has them: None where nothing was written."""

    def __init__(self, size: int) -> None:
        self.rows: list[Tensor | None] = [None] * size

    @property
    def size(self) -> int:
        return len(self.rows)

    def extended(self, size: int) -> _Rows:
        """With more elements."""
        self.rows += [None] * (size - len(self.rows))
        return self

    def write(self, at: int | Tensor, row: Tensor) -> _Rows:
        self.rows[int(at)] = row
        return self

    def read(self, at: int | Tensor, zeros: Callable[[], Tensor]) -> Tensor:
        row = self.rows[int(at)]
        return zeros() if row is None else row


class _Stack:
    """Elements as one Tensor of the program that is being traced, each state of them another one."""

    def __init__(self, size: DimLike, value: Tensor | None) -> None:
        self.size = size
        self.value = value

    def extended(self, size: DimLike) -> _Stack:
        """With more elements."""
        if self.value is None:
            return _Stack(size, None)
        shape = (size - self.size, *self.value.type.shape[1:])
        return _Stack(size, concat([self.value, full(0, self.value.dtype, shape)], 0))

    def write(self, at: int | Tensor, row: Tensor) -> _Stack:
        """The next state."""
        whole = self.value
        if whole is None:
            whole = full(0, row.dtype, (self.size, *row.type.shape))
        index = reshape(as_tensor(at), [1, 1])
        updates = expand_dims(row, 0)
        return _Stack(self.size, tensor_scatter_nd_update(whole, index, updates))

    def read(self, at: int | Tensor, zeros: Callable[[], Tensor]) -> Tensor:
        return zeros() if self.value is None else gather(self.value, as_tensor(at))


class TensorArray:
    """Tensors of one dtype, by number; what was never written is zeros, once the shape is known.

    ::

        rows = tapec.TensorArray(tapec.float32, size=3)
        for i in range(3):
            rows = rows.write(i, x ** float(i))
        y = rows.stack()

    Writing returns the array to go on with: in a compiled function it is another one, which loops carry as one Tensor.
    There an index that only the run knows is checked when it runs, nothing is cleared by reading, and an array grows
    only where it is known while the function is compiled how many elements it will have.

    Args:
        dtype: of the elements.
        size: how many there are; a number that is known while a function is compiled.
        dynamic_size: whether writing behind the end makes the array longer; in a compiled function, to a length that is
            known: where the index counts the turns of a loop whose number is known, also as `size()` does.
        clear_after_read: whether an element can be read once only, which is so unless it is False.
        tensor_array_name: without effect.
        handle: without effect.
        flow: without effect.
        infer_shape: whether all elements must have the shape of the first one written.
        element_shape: the shape that elements must have.
        colocate_with_first_write_call: without effect.
        name: without effect.

    Raises:
        ValueError: no size is given.
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        if size is None:
            raise ValueError(
                "Size must be declared for TensorArrays when eager execution is enabled.",
                location=here(),
            )
        self._dtype = dtype_of(dtype)
        self._dynamic = arguments.flag(dynamic_size, "dynamic_size")
        self._clears = clear_after_read is not False
        self._infers = infer_shape
        shape = TensorShape(element_shape)
        self._shape: tuple[Any, ...] | None = None if shape.rank is None else tuple(shape)
        count = length_of(size, "the size of a TensorArray")
        if isinstance(count, Tensor):
            raise TypeError(
                "the size of a TensorArray must be known while a function is compiled",
                location=here(),
                hint="pass a Python number, or a size from tapec.shape",
            )
        self._cells: _Rows | _Stack
        traced = current_trace() is not None or not isinstance(count, int)
        self._cells = _Stack(count, None) if traced else _Rows(count)  # type: ignore[arg-type]
        self._cleared: set[int] = set()
        #: Whether this is an array in a loop that has elements from the first turn on which are still to come.
        self._is_ahead = False
        #: How many elements there are by now, in a loop that asks for that.
        self._count: Tensor | None = None

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self._dtype

    @property
    def dynamic_size(self) -> bool:
        """Whether writing behind the end makes the array longer."""
        return self._dynamic

    @property
    def element_shape(self) -> TensorShape | None:
        """The shape of the elements; None if nothing is known."""
        return None if self._shape is None else TensorShape(self._shape)

    @property
    def handle(self) -> None:
        """Always None."""
        return None

    @property
    def flow(self) -> Tensor:
        """A number that means nothing."""
        return constant(0, "int32")

    def identity(self) -> TensorArray:
        """This array."""
        return self

    def close(self, name: str | None = None) -> None:
        """Do nothing: memory is given back when nobody refers to the array."""

    def size(self, name: str | None = None) -> Tensor:
        """How many elements there are, an int32 Tensor.

        `stack`, `concat` and `gather` raise TypeError in a loop that is being compiled and in which the array grows.
        """
        trace = current_trace()
        if trace is not None and self._dynamic:
            trace.asks_sizes = True
        if self._count is not None:
            return self._count
        self._refuse_ahead("size")
        return dim_tensor(self._cells.size, I32)

    # -- elements

    def write(self, index: TensorLike, value: TensorLike, name: str | None = None) -> TensorArray:
        """The array with an element replaced.

        Raises:
            InvalidArgumentError: the value has another dtype.
            OutOfRangeError: the index is negative, or behind the end.
            TypeError: how long the array gets is known to the run alone, and it has no elements to begin with.
            ValueError: the value has another shape.
        """
        cells, at = self._current(), self._index(index, "write")
        last = at if isinstance(at, int) else last_of(at)
        if self._dynamic and not is_decided(last, cells.size):
            cells = self._placed(at, cells)
        elif last is not None and is_behind(last, cells.size):
            if not self._dynamic:
                raise OutOfRangeError(
                    f"Tried to write to index {last} but array is not resizeable and size is: {cells.size}",
                    location=here(),
                )
            cells = _extended(cells, last + 1)
        row = self._fitted(value)
        if isinstance(at, int):
            self._cleared.discard(at)
        array = self._with(cells.write(at, row))
        if self._count is not None:
            array._count = count_behind(self._count, as_tensor(at))
        return array

    def _placed(self, at: int | Tensor, cells: _Rows | _Stack) -> _Rows | _Stack:
        """Elements to write one of, where nothing says how far the array has to grow."""
        if is_scouting():
            return cells if cells.size != 0 else _extended(cells, 1)
        require_place(at, cells.size)
        return cells

    def _current(self) -> _Rows | _Stack:
        """The elements; while a function is traced, those from outside of it as one Tensor."""
        if current_trace() is None or isinstance(self._cells, _Stack):
            return self._cells
        written = any(row is not None for row in self._cells.rows)
        return _Stack(self._cells.size, self._stacked() if written else None)

    def _with(self, cells: _Rows | _Stack) -> TensorArray:
        """An array like this one; of eager ones a caller may count on either."""
        other = object.__new__(TensorArray)
        if cells is self._cells:
            other.__dict__ = self.__dict__
        else:
            other.__dict__ = {**self.__dict__, "_cells": cells}
        return other

    def _index(self, index: TensorLike, doing: str) -> int | Tensor:
        """A number that is known, or an index of the program."""
        at = index_of(index, "an index")
        if isinstance(at, int) and at < 0:
            raise OutOfRangeError(
                f"TensorArray.{doing}: negative indices (index {at}) are not allowed.",
                location=here(),
            )
        return at

    def _fitted(self, value: TensorLike) -> Tensor:
        """A value as an element."""
        given = isinstance(value, Tensor) or hasattr(value, "read_value")
        tensor = as_tensor(value) if given else as_tensor(value, self._dtype)
        if tensor.dtype != self._dtype:
            raise InvalidArgumentError(
                f"TensorArray dtype is {self._dtype.name} but Op is trying to write dtype {tensor.dtype.name}",
                location=here(),
            )
        if self._shape is None and (self._infers or isinstance(self._cells, _Stack)):
            self._shape = tensor.type.shape
        elif self._shape is not None and not _fits(self._shape, tensor.type.shape):
            raise ValueError(
                f"Incompatible shape for value ({tensor.shape}), expected ({self._shape})",
                location=here(),
            )
        return tensor

    def read(self, index: TensorLike, name: str | None = None) -> Tensor:
        """An element.

        Raises:
            InvalidArgumentError: it was read before, and the array clears what was read.
            OutOfRangeError: the index is outside of the array.
            ValueError: it was never written, and the shape is not known.
        """
        cells, at = self._current(), self._index(index, "read")
        if isinstance(at, int) and is_behind(at, cells.size):
            raise OutOfRangeError(
                f"Tried to read from index {at} but array size is: {cells.size}", location=here()
            )
        if isinstance(at, int) and at in self._cleared:
            raise InvalidArgumentError(
                f"Could not read index {at} twice because it was cleared after a previous read",
                location=here(),
                hint="make the array with clear_after_read=False",
            )
        row = cells.read(at, self._zeros)
        if self._clears and isinstance(cells, _Rows) and isinstance(at, int):
            cells.rows[at] = None
            self._cleared.add(at)
        return row

    def _zeros(self) -> Tensor:
        if self._shape is None or None in self._shape:
            raise ValueError(
                "an element was never written, and the shape of elements is not known",
                location=here(),
                hint="give element_shape",
            )
        return full(0, self._dtype, self._shape)

    # -- all of them

    def stack(self, name: str | None = None) -> Tensor:
        """All elements along a new leading axis.

        Raises:
            ValueError: some were never written, and the shape is not known.
        """
        self._refuse_ahead("stack")
        return self._stacked()

    def _stacked(self) -> Tensor:
        cells = self._current()
        if isinstance(cells, _Stack):
            if cells.value is not None:
                return cells.value
            return full(0, self._dtype, (cells.size, *self._zeros().type.shape))
        rows = [cells.read(i, self._zeros) for i in range(cells.size)]
        return stack(rows) if rows else full(0, self._dtype, (0, *self._zeros().type.shape))

    def concat(self, name: str | None = None) -> Tensor:
        """All elements along their first axis."""
        self._refuse_ahead("concat")
        cells = self._current()
        if isinstance(cells.size, int):
            return concat([cells.read(i, self._zeros) for i in range(cells.size)], 0)
        whole = self.stack()
        return reshape(whole, [-1, *whole.type.shape[2:]])

    def gather(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """The elements with these numbers along a new leading axis."""
        self._refuse_ahead("gather")
        cells = self._current()
        if isinstance(cells, _Stack):
            return gather(self.stack(), indices)
        return stack([self.read(i) for i in integers_of(indices, "indices")])

    def unstack(self, value: TensorLike, name: str | None = None) -> TensorArray:
        """The array with the entries of a Tensor along its leading axis as elements.

        How many there are is the array's size from now on.

        Raises:
            ValueError: these are more than there is place for.
        """
        cells, whole = self._current(), as_tensor(value, self._dtype)
        if whole.type.rank and not isinstance(count := whole.type.shape[0], int):
            self._fitted(whole[0])
            return self._with(_Stack(count, whole))
        rows = unstack(whole)
        if is_behind(len(rows) - 1, cells.size) and not self._dynamic:
            raise ValueError(
                f"Cannot unstack {len(rows)} tensors into a TensorArray of static size {cells.size}",
                location=here(),
            )
        if isinstance(cells, _Rows):
            del cells.rows[len(rows) :]
        elif rows and not self._is_ahead and not is_behind(len(rows) - 1, cells.size):
            self._fitted(rows[0])
            return self._with(_Stack(len(rows), whole))
        return self._filled(range(len(rows)), rows)

    def scatter(
        self, indices: TensorLike, value: TensorLike, name: str | None = None
    ) -> TensorArray:
        """The array with the entries of a Tensor as the elements with these numbers."""
        return self._filled(integers_of(indices, "indices"), unstack(as_tensor(value, self._dtype)))

    def split(self, value: TensorLike, lengths: TensorLike, name: str | None = None) -> TensorArray:
        """The array with parts of a Tensor along its leading axis, of these lengths, as elements.

        Raises:
            InvalidArgumentError: the lengths do not add up to the axis.
        """
        tensor, sizes = as_tensor(value, self._dtype), integers_of(lengths, "lengths")
        if tensor.type.shape[:1] != (sum(sizes),):
            raise InvalidArgumentError(
                f"Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {sum(sizes)} and "
                f"value's shape is: {tensor.shape}",
                location=here(),
            )
        if len(set(sizes)) > 1:
            self._infers = False
        return self._filled(range(len(sizes)), split(tensor, sizes))

    def _filled(self, numbers: Sequence[int], rows: Sequence[Tensor]) -> TensorArray:
        if len(numbers) != len(rows):
            raise InvalidArgumentError(
                f"{len(numbers)} indices do not go with {len(rows)} values", location=here()
            )
        array = self
        for i, row in zip(numbers, rows, strict=True):
            array = array.write(i, row)
        return array

    def __repr__(self) -> str:
        return f"<tapec.TensorArray: {self._cells.size} x {self._dtype.name}{self.element_shape}>"

    # -- as one Tensor, which loops of a program carry

    @property
    def is_settled(self) -> bool:
        """Whether the shape of the elements is known, and that there will not be more of them."""
        return self._shape is not None and None not in self._shape and not self._dynamic

    def dense(self) -> Tensor:
        """All elements as one Tensor; zeros where nothing was written."""
        return self._stacked()

    def with_dense(self, value: Tensor) -> TensorArray:
        """An array like this one with these elements."""
        return self._with(_Stack(self._cells.size, value))

    def settled_like(self, other: TensorArray) -> TensorArray:
        """An array like this one with as many elements as another, of the same shape."""
        array = self._with(self._current())
        array.__dict__ = {**self.__dict__, "_shape": other._shape}
        cells, wanted = array._current(), other._cells.size
        if is_behind(wanted - 1, cells.size):
            array._cells = _extended(cells, wanted)
            array._is_ahead = True
        return array

    def behind_loop(self, before: TensorArray) -> TensorArray:
        """This array behind a loop that it went through, which began with another one."""
        array = self._with(self._current())
        array.__dict__ = {**self.__dict__, "_is_ahead": before._is_ahead}
        return array

    @property
    def count(self) -> Tensor | None:
        """How many elements there are by now, if a loop counts that."""
        return self._count

    def counted(self, count: Tensor | None) -> TensorArray:
        """An array like this one that says how many elements it has by now."""
        array = self._with(self._current())
        array.__dict__ = {**self.__dict__, "_count": count}
        return array

    def refuse_other_size(self, other: TensorArray, what: str) -> None:
        """Hold another array to have as many elements as this one.

        Raises:
            TypeError: it has not; ``what`` says where.
        """
        counts = (self._count, other._count)
        if self._cells.size != other._cells.size or (
            None not in counts and counts[0] is not counts[1]
        ):
            raise unknown_size(what)

    def _refuse_ahead(self, doing: str) -> None:
        """Refuse what depends on how many elements there are by now."""
        if self._is_ahead:
            raise unknown_size(f"is asked for its {doing} in the loop in which it grows")


def _fits(wanted: tuple[Any, ...], shape: Shape) -> bool:
    return len(wanted) == len(shape) and all(
        m is None or m == n for m, n in zip(wanted, shape, strict=True)
    )


def _extended(cells: _Rows | _Stack, size: DimLike) -> _Rows | _Stack:
    """Elements with more of them; eager ones have numbers for sizes."""
    if isinstance(cells, _Stack):
        return cells.extended(size)
    assert isinstance(size, int)
    return cells.extended(size)
