"""TensorArray: tensors that a loop writes one by one, and that are read one by one or stacked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapec.errors import InvalidArgumentError, OutOfRangeError, ValueError
from tapec.frames import here
from tapec.functions.arrays import constant, full
from tapec.functions.broadcasting import refuse_in_trace
from tapec.functions.rearrangement import concat, split, stack, unstack
from tapec.ir.types import DType, Shape, as_dtype
from tapec.tensor import Tensor, TensorLike, as_tensor
from tapec.tensor_shape import TensorShape


class TensorArray:
    """Tensors of one dtype, by number; what was never written is zeros, once the shape is known.

    ::

        rows = tapec.TensorArray(tapec.float32, size=3)
        for i in range(3):
            rows = rows.write(i, x ** float(i))
        y = rows.stack()

    Args:
        dtype: of the elements.
        size: how many there are.
        dynamic_size: whether writing behind the end makes the array longer.
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
        refuse_in_trace("TensorArray", "collect tensors in a list, and stack them")
        if size is None:
            raise ValueError(
                "Size must be declared for TensorArrays when eager execution is enabled.",
                location=here(),
            )
        self._dtype = as_dtype(dtype)
        self._dynamic = bool(dynamic_size)
        self._clears = clear_after_read is not False
        self._infers = infer_shape
        self._shape = None if element_shape is None else tuple(element_shape)
        self._rows: list[Tensor | None] = [None] * int(as_tensor(size))
        self._cleared: set[int] = set()

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
        """How many elements there are, an int32 Tensor."""
        return constant(len(self._rows), "int32")

    # -- elements

    def write(self, index: TensorLike, value: TensorLike, name: str | None = None) -> TensorArray:
        """The array with an element replaced.

        Raises:
            InvalidArgumentError: the value has another dtype.
            OutOfRangeError: the index is negative, or behind the end.
            ValueError: the value has another shape.
        """
        at = self._index(index, "write")
        if at >= len(self._rows):
            if not self._dynamic:
                raise OutOfRangeError(
                    f"Tried to write to index {at} but array is not resizeable and size is: {len(self._rows)}",
                    location=here(),
                )
            self._rows += [None] * (at + 1 - len(self._rows))
        self._rows[at] = self._fitted(value)
        self._cleared.discard(at)
        return self._sharing()

    def _sharing(self) -> TensorArray:
        """Another object for the same array: a caller may count on either."""
        other = object.__new__(TensorArray)
        other.__dict__ = self.__dict__
        return other

    def _index(self, index: TensorLike, doing: str) -> int:
        at = int(as_tensor(index))
        if at < 0:
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
        if self._shape is None and self._infers:
            self._shape = tuple(tensor.shape)
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
        at = self._index(index, "read")
        if at >= len(self._rows):
            raise OutOfRangeError(
                f"Tried to read from index {at} but array size is: {len(self._rows)}",
                location=here(),
            )
        if at in self._cleared:
            raise InvalidArgumentError(
                f"Could not read index {at} twice because it was cleared after a previous read",
                location=here(),
                hint="make the array with clear_after_read=False",
            )
        row = self._row(at)
        if self._clears:
            self._rows[at] = None
            self._cleared.add(at)
        return row

    def _row(self, at: int) -> Tensor:
        row = self._rows[at]
        return self._zeros() if row is None else row

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
        rows = [self._row(i) for i in range(len(self._rows))]
        return stack(rows) if rows else full(0, self._dtype, (0, *self._zeros().type.shape))

    def concat(self, name: str | None = None) -> Tensor:
        """All elements along their first axis."""
        return concat([self._row(i) for i in range(len(self._rows))], 0)

    def gather(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """The elements with these numbers along a new leading axis."""
        return stack([self.read(i) for i in _numbers(indices)])

    def unstack(self, value: TensorLike, name: str | None = None) -> TensorArray:
        """The array with the entries of a Tensor along its leading axis as elements.

        Raises:
            ValueError: these are more than there is place for.
        """
        rows = unstack(as_tensor(value, self._dtype))
        if len(rows) > len(self._rows) and not self._dynamic:
            raise ValueError(
                f"Cannot unstack {len(rows)} tensors into a TensorArray of static size {len(self._rows)}",
                location=here(),
            )
        return self._filled(range(len(rows)), rows)

    def scatter(
        self, indices: TensorLike, value: TensorLike, name: str | None = None
    ) -> TensorArray:
        """The array with the entries of a Tensor as the elements with these numbers."""
        return self._filled(_numbers(indices), unstack(as_tensor(value, self._dtype)))

    def split(self, value: TensorLike, lengths: TensorLike, name: str | None = None) -> TensorArray:
        """The array with parts of a Tensor along its leading axis, of these lengths, as elements.

        Raises:
            InvalidArgumentError: the lengths do not add up to the axis.
        """
        tensor, sizes = as_tensor(value, self._dtype), _numbers(lengths)
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
        array = self
        for i, row in zip(numbers, rows, strict=True):
            array = array.write(i, row)
        return array

    def __repr__(self) -> str:
        return f"<tapec.TensorArray: {len(self._rows)} x {self._dtype.name}{self.element_shape}>"


def _fits(wanted: tuple[Any, ...], shape: Shape) -> bool:
    return len(wanted) == len(shape) and all(
        m is None or m == n for m, n in zip(wanted, shape, strict=True)
    )


def _numbers(indices: TensorLike) -> list[int]:
    return [int(i) for i in as_tensor(indices).array.reshape(-1)]
