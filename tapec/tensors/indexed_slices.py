"""IndexedSlices: the gradient of what was only looked up, as the slices that were read and their indices.

A tape answers with it where a source was read by `tapec.gather` and its kin alone, along the first axis
(`tapec.derivatives.slices`). Nothing of the size of the source is made until somebody asks for the dense Tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions.broadcasting import broadcast, misfit, refuse_outside
from tapec.functions.known import as_shape, dims_tensor
from tapec.ir.dims import Dim
from tapec.ir.types import I32, I64, DType, Shape, TensorType
from tapec.tensor import Array, Tensor, TensorLike, apply, as_tensor
from tapec.tensors.tensor_shape import TensorShape

if TYPE_CHECKING:
    from tapec.tensors.operators import SliceOperators
else:
    SliceOperators = object  # tapec.tensors.operators adds its methods, as to Tensor


class IndexedSlices(SliceOperators):
    """Slices of a tensor along its first axis; those with equal indices stand for their sum, the others are zero.

    Whatever takes a tensor takes it too, as the dense Tensor that it stands for. ``tapec.convert_to_tensor`` makes
    that one. Optimizers and `Variable.scatter_add` use the slices alone where they can.

    Args:
        values: ``indices.shape + dense_shape[1:]``.
        indices: integers in ``[0, dense_shape[0])``, which may repeat.
        dense_shape: the shape of the whole; None if it does not matter.

    Example: ``IndexedSlices([[1.0], [2.0]], [0, 0], [3, 1])`` stands for ``[[3.0], [0.0], [0.0]]``.

    Raises:
        TypeError: the indices are no integers.
    """

    __slots__ = ("__weakref__", "indices", "known_dims", "name", "values")

    def __init__(self, values: TensorLike, indices: TensorLike, dense_shape: Any = None) -> None:
        #: The slices.
        self.values = as_tensor(values)
        #: Where they belong.
        self.indices = as_tensor(indices)
        #: The shape of the whole as dims, or None.
        self.known_dims: Shape | None = None if dense_shape is None else as_shape(dense_shape)
        self.name: str | None = None
        if not self.indices.type.dtype.is_integer:
            raise TypeError(
                f"indices of IndexedSlices must be integers, got {self.indices.dtype.name}",
                location=here(),
            )

    @property
    def dense_shape(self) -> Tensor | None:
        """The shape of the whole as an integer tensor, or None."""
        return None if self.known_dims is None else dims_tensor(self.known_dims, I32)

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole; what is not known of it is None."""
        rest = self.values.type.shape[self.indices.type.rank :]
        dims: tuple[object, ...] = (None, *rest) if self.known_dims is None else self.known_dims
        return TensorShape([d if isinstance(d, int) else None for d in dims])

    @property
    def dims(self) -> Shape:
        """The shape of the whole as dims.

        Raises:
            ValueError: it is not known.
        """
        if self.known_dims is None:
            raise ValueError(
                "IndexedSlices without dense_shape stand for no tensor: "
                f"indices {self.indices.type}, values {self.values.type}",
                location=here(),
                hint="pass dense_shape",
            )
        return self.known_dims

    @property
    def dtype(self) -> DType:
        """The element type of the values."""
        return self.values.dtype

    @property
    def type(self) -> TensorType:
        """The type of the dense Tensor."""
        return TensorType(self.dtype, self.dims)

    @property
    def id(self) -> int:
        """The number by which tapes know the values."""
        return self.values.id

    def get_shape(self) -> TensorShape:
        """The shape of the whole."""
        return self.shape

    def read_value(self) -> Tensor:
        """The dense Tensor: zeros, with the slices added.

        Raises:
            ValueError: ``dense_shape`` is not known.
            InvalidArgumentError: eager, an index is out of range; or shapes that do not fit.
        """
        dims = self.dims
        refuse_outside(self.indices, dims[0])
        values = fitted_slices(self.values, self.indices, dims)
        result: Tensor = apply(
            "scatter_add", self.indices, values, shape=dims, axis=0, batch_dims=0
        )
        return result

    def numpy(self) -> Any:
        """The elements of the dense Tensor, as a NumPy array."""
        return self.read_value().numpy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.read_value(), dtype=dtype)

    def map(self, function: Callable[[Tensor], Tensor]) -> Any:
        """The same slices with other values: those that a function makes of them."""
        return IndexedSlices(function(self.values), self.indices, self.known_dims)

    def joined(self, other: IndexedSlices) -> IndexedSlices:
        """The sum with others of the same whole: all slices, one after the other."""
        values, indices = zip(*(part.in_a_row() for part in (self, other)), strict=True)
        if indices[0].type.dtype != indices[1].type.dtype:
            indices = tuple(
                i if i.type.dtype == I64 else apply("cast", i, dtype=I64) for i in indices
            )
        return IndexedSlices(
            apply("concat", *values, axis=0),
            apply("concat", *indices, axis=0),
            self.known_dims or other.known_dims,
        )

    def in_a_row(self) -> tuple[Tensor, Tensor]:
        """Values and indices with the indices in one axis."""
        size, rank = self.indices.type.size, self.indices.type.rank
        if rank == 1:
            return self.values, self.indices
        rest = self.values.type.shape[rank:]
        values = apply("reshape", self.values, shape=(size, *rest))
        return values, apply("reshape", self.indices, shape=(size,))

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexedSlices, (self.values, self.indices, self.known_dims)

    def __repr__(self) -> str:
        shape = None if self.known_dims is None else list(self.known_dims)
        return f"IndexedSlices(indices={self.indices}, values={self.values}, dense_shape={shape})"


def fitted_slices(values: Tensor, indices: Tensor, dims: Shape) -> Tensor:
    """Values for indices into the first axis of a shape; one value may stand for all of them.

    Raises:
        InvalidArgumentError: they do not fit (ValueError while a function is compiled).
    """
    wanted = (*indices.type.shape, *dims[1:])
    if not values.type.rank and wanted:
        return broadcast(values, wanted)
    same = len(wanted) == values.type.rank and all(
        m == n or isinstance(m, Dim) or isinstance(n, Dim)
        for m, n in zip(wanted, values.type.shape, strict=True)
    )
    if not same:
        raise misfit(
            f"values of shape {values.shape} for indices of shape {indices.shape} into a tensor of shape "
            f"{TensorShape(dims)}",
            "values have the shape indices.shape + dense_shape[1:]",
        )
    return values
