"""Reading at positions that are data: gather. Its transpose and its kin are in `tapec.ir.ops.scatter`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.errors import CheckError, DTypeError, ShapeError
from tapec.ir.op import Cotangents, Index, Kernel, Op, Sample, require_equal_dims, spread
from tapec.ir.types import F64, I32, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Gather(Op):
    """``y[b, p, i, s] = x[b, p, indices[b, i], s]``: slices of ``x`` along ``axis``, TensorFlow's gather.

    ``b`` are the first ``batch_dims`` axes, which both operands share; ``p`` those up to ``axis``, ``s`` those after.
    """

    name = "gather"

    def infer(self, *types: Any, axis: int, batch_dims: int = 0) -> TensorType:
        """The operand's shape with ``axis`` replaced by the indices' own axes."""
        x, indices = types
        return gathered(self.name, x, indices, axis, batch_dims)

    def evaluate(self, *arrays: Any, axis: int, batch_dims: int = 0) -> Any:
        """`numpy.take`, which an index outside of the axis stops; NumPy's fancy indexing where there is a batch.

        Raises:
            CheckError: an index is not in ``[0, size)``.
        """
        x, indices = arrays
        if batch_dims == 0 and indices.dtype == np.int32 and x.shape[axis] < 2**31:
            try:
                # As unsigned, a negative index is outside, so nobody has to look for one.
                return np.asarray(x.take(indices.view(np.uint32), axis=axis))
            except IndexError:
                pass  # said below
        refuse_outside(self.name, indices, x.shape[axis])
        return x[numpy_index(x.ndim, x.shape, indices, axis, batch_dims)]

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """Add each slice of the cotangent where it came from."""
        x, indices = op.operands
        return b.scatter_add(indices, cts[0], shape=x.tensor.shape, **op.parameters), None

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more leading axis; shared by both operands unless one of them can do without it."""
        x, indices = operands
        axis, batch_dims = attrs["axis"], attrs.get("batch_dims", 0)
        if batch_dims == 0 and not batched[1]:
            return b.gather(x, indices, axis=axis + 1, batch_dims=0)
        if batch_dims == 0 and not batched[0]:
            y = b.gather(x, indices, axis=axis, batch_dims=0)
            order = (axis, *(a for a in range(y.tensor.rank) if a != axis))
            return b.transpose(y, permutation=order) if axis else y
        x, indices = spread(b, operands, batched)
        return b.gather(x, indices, axis=axis + 1, batch_dims=batch_dims + 1)

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """Both parts alike."""
        return self.apart(b, *operands, **attrs)

    def lower(self, k: Kernel, i: Index, *operands: Any, axis: int, batch_dims: int = 0) -> Value:
        """The element that the index names."""
        x, indices = operands
        own = indices.type.rank - batch_dims
        at = indices[(*i[:batch_dims], *i[axis : axis + own])]
        place = k.position(at, x.type.shape[axis])
        element: Value = x[(*i[:axis], place, *i[axis + own :])]
        return element

    def samples(self) -> Iterator[Sample]:
        """Rows, columns, scalars, stacks of indices, shared leading axes."""
        return gather_samples()


class Lookup(Gather):
    """`gather` of rows by a list of them, whose gradient a tape gives as the slices of the rows that were read."""

    name = "lookup"

    def infer(self, *types: Any, axis: int, batch_dims: int = 0) -> TensorType:
        """As for `gather`, along the first axis."""
        if axis or batch_dims:
            raise ShapeError(f"{self.name}: rows are along axis 0, got axis {axis}")
        return super().infer(*types, axis=axis)

    def samples(self) -> Iterator[Sample]:
        """Rows."""
        for sample in gather_samples():
            if not sample.attrs["axis"]:
                yield Sample(sample.types, {"axis": 0}, integers=sample.integers)


def gathered(
    name: str, x: TensorType, indices: TensorType, axis: int, batch_dims: int
) -> TensorType:
    """The type of what `gather` reads.

    Raises:
        DTypeError: the indices are no integers.
        ShapeError: axes or shapes do not fit.
    """
    if not indices.dtype.is_integer:
        raise DTypeError(f"{name}: indices must be integers, got {indices.dtype.code}")
    if not 0 <= axis < x.rank:
        raise ShapeError(f"{name}: axis {axis} is outside of {x}")
    if not 0 <= batch_dims <= min(axis, indices.rank):
        raise ShapeError(
            f"{name}: batch_dims {batch_dims} must be at most axis {axis} and the rank of {indices}"
        )
    for m, n in zip(x.shape[:batch_dims], indices.shape[:batch_dims], strict=True):
        require_equal_dims(m, n, lambda: f"{name}: leading axes of {x} and {indices} differ")
    return TensorType(x.dtype, (*x.shape[:axis], *indices.shape[batch_dims:], *x.shape[axis + 1 :]))


def numpy_index(
    rank: int, shape: Sequence[int], indices: Any, axis: int, batch_dims: int
) -> tuple[Any, ...]:
    """A NumPy index that gives the gathered shape: slices, or index arrays that broadcast to it."""
    if batch_dims == 0:
        return (*(slice(None),) * axis, indices)
    own = indices.ndim - batch_dims
    total = rank - 1 + own
    found: list[Any] = []
    for a in range(rank):
        if a == axis:
            middle = (1,) * (axis - batch_dims)
            after = (1,) * (rank - axis - 1)
            found.append(
                indices.reshape(
                    (*indices.shape[:batch_dims], *middle, *indices.shape[batch_dims:], *after)
                )
            )
        else:
            place = a if a < axis else a - 1 + own
            lengths = [1] * total
            lengths[place] = shape[a]
            found.append(np.arange(shape[a]).reshape(lengths))
    return tuple(found)


def refuse_outside(name: str, indices: Any, size: DimLike) -> None:
    """Say which index is outside of an axis.

    Raises:
        CheckError: one is.
    """
    wrong = (indices < 0) | (indices >= size)
    if wrong.any():
        place = tuple(int(p) for p in np.argwhere(wrong)[0])
        where = "" if not place else f"[{', '.join(map(str, place))}]"
        raise CheckError(f"{name}: indices{where} = {indices[place]} is not in [0, {size})")


def gather_samples() -> Iterator[Sample]:
    """An array and indices for `gather`, as float64 and int32."""
    for x, indices, axis, batch_dims in (
        ((5, 3), (2,), 0, 0),
        ((3, 5), (2,), 1, 0),
        ((5,), (), 0, 0),
        ((5, 2), (2, 3), 0, 0),
        ((2, 5, 3), (2, 4), 1, 1),
        ((2, 3, 5), (2,), 2, 1),
        ((5, 3), (0,), 0, 0),
    ):
        types = (TensorType(F64, x), TensorType(I32, indices))
        yield Sample(types, {"axis": axis, "batch_dims": batch_dims}, integers=(0, 5))
