"""The methods of a Variable that change parts of it: slices by index, entries by tuples of indices.

Eager, the Variable's own array is changed if nobody else holds it; compiled, only the slices named are written
(`tapec.ir.ops.scatter`).
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from tapec.at_line import AtLine
from tapec.errors import InvalidArgumentError, TypeError
from tapec.frames import here
from tapec.functions.arrays import counting
from tapec.functions.assertions import require_inside
from tapec.functions.broadcasting import (
    broadcast,
    compatible,
    like,
    misfit,
    refuse_outside,
    shape_text,
)
from tapec.functions.indexing import gather, gather_nd, getitem, linear_index
from tapec.functions.rearrangement import reshape
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import OPS
from tapec.ir.ops.scatter import IndexUpdate
from tapec.ir.types import I32, I64, Shape
from tapec.recording import current_trace
from tapec.tensor import Array, Tensor, TensorLike, apply, as_tensor
from tapec.tensors.indexed_slices import IndexedSlices, fitted_slices

if TYPE_CHECKING:
    from tapec.variable import Variable


class VariableUpdates:
    """What `Variable` has beside ``assign``; each method returns the Variable.

    Indices are in range: eagerly another one is an InvalidArgumentError. Tapes follow no assignment.
    """

    __slots__ = ()

    def scatter_add(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> Variable:
        """Add slices: ``v[i] += values`` for each index.

        Raises:
            TypeError: ``sparse_delta`` is no IndexedSlices.
        """
        return self._scatter("index_add", sparse_delta)

    def scatter_sub(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> Variable:
        """Subtract slices; see `scatter_add`."""
        return self._scatter("index_add", sparse_delta, negated=True)

    def scatter_mul(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> Variable:
        """Multiply by slices; see `scatter_add`."""
        return self._scatter("index_multiply", sparse_delta)

    def scatter_div(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> Variable:
        """Divide by slices; see `scatter_add`."""
        return self._scatter("index_divide", sparse_delta)

    def scatter_max(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> Variable:
        """The greater of what is there and the slices; see `scatter_add`."""
        return self._scatter("index_max", sparse_delta)

    def scatter_min(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> Variable:
        """The lesser of what is there and the slices; see `scatter_add`."""
        return self._scatter("index_min", sparse_delta)

    def scatter_update(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> Variable:
        """Put slices in the place of what is there; of equal indices the last counts. See `scatter_add`."""
        return self._scatter("index_set", sparse_delta)

    def batch_scatter_update(
        self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
    ) -> Variable:
        """Put slices by one index for each row: ``v[b, i] = values[b]`` with ``i`` from ``indices[b]``."""
        slices = _checked(sparse_delta)
        axis = slices.indices.type.rank - 1
        shape = self._shape()
        if not 0 <= axis < len(shape):
            raise misfit(f"batch_scatter_update: indices {slices.indices.type} for {shape}")
        refuse_outside(slices.indices, shape[axis])
        require_inside(slices.indices, shape[axis])
        values = like(slices.values, self._variable().dtype)
        return self._put("index_set", shape, slices.indices, values, axis=axis, batch_dims=axis)

    def scatter_nd_add(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Variable:
        """Add at tuples of indices; see `tapec.tensor_scatter_nd_add`."""
        return self._scatter_nd("index_add", indices, updates)

    def scatter_nd_sub(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Variable:
        """Subtract at tuples of indices; see `tapec.tensor_scatter_nd_sub`."""
        values = as_tensor(like(updates, self._variable().dtype))
        return self._scatter_nd("index_add", indices, apply("neg", values))

    def scatter_nd_max(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Variable:
        """The greater of what is there and the updates; see `tapec.tensor_scatter_nd_max`."""
        return self._scatter_nd("index_max", indices, updates)

    def scatter_nd_min(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Variable:
        """The lesser of what is there and the updates; see `tapec.tensor_scatter_nd_min`."""
        return self._scatter_nd("index_min", indices, updates)

    def scatter_nd_update(
        self, indices: TensorLike, updates: TensorLike, name: str | None = None
    ) -> Variable:
        """Put updates at tuples of indices; see `tapec.tensor_scatter_nd_update`."""
        return self._scatter_nd("index_set", indices, updates)

    def sparse_read(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """The entries of the first axis at indices: `tapec.gather`."""
        return gather(self, indices)

    def gather_nd(self, indices: TensorLike, name: str | None = None) -> Tensor:
        """The entries at tuples of indices: `tapec.gather_nd`."""
        return gather_nd(self, indices)

    # -- how

    def _variable(self) -> Variable:
        """Itself, as what it is."""
        return self  # type: ignore[return-value]

    def _shape(self) -> Shape:
        return self._variable().type.shape

    def _scatter(self, op: str, slices: Any, *, negated: bool = False) -> Variable:
        checked = _checked(slices)
        shape = self._shape()
        if not shape:
            raise misfit("a scalar Variable has no slices")
        refuse_outside(checked.indices, shape[0])
        require_inside(checked.indices, shape[0])
        values = like(checked.values, self._variable().dtype)
        values = fitted_slices(values, checked.indices, shape)
        if negated:
            values = apply("neg", values)
        return self._put(op, shape, checked.indices, values)

    def _scatter_nd(self, op: str, indices: TensorLike, updates: TensorLike) -> Variable:
        places, shape = as_tensor(indices), self._shape()
        flat, count = linear_index(places, shape)
        rows = (prod(shape[:count]), *shape[count:])
        values = fitted_slices(like(updates, self._variable().dtype), flat, rows)
        return self._put(op, rows, flat, values)

    def _put(
        self,
        op: str,
        shape: Shape,
        indices: Tensor,
        values: Tensor,
        *,
        axis: int = 0,
        batch_dims: int = 0,
    ) -> Variable:
        """Run an `IndexUpdate` on the Variable in another shape, in place if that is possible."""
        variable = self._variable()
        if current_trace() is not None:
            whole = reshape(variable._peek(), shape)
            new = apply(op, whole, indices, values, axis=axis, batch_dims=batch_dims)
            return variable.assign(reshape(new, variable.type.shape))
        defn = OPS[op]
        assert isinstance(defn, IndexUpdate)
        type = variable.type.with_shape(shape)
        try:
            defn.infer(type, indices.type, values.type, axis=axis, batch_dims=batch_dims)
        except (ShapeError, DTypeError) as error:
            raise InvalidArgumentError(error.message, location=here(), hint=error.hint) from None

        def put(own: Array) -> None:
            defn.put(own.reshape(shape), indices.array, values.array, axis, batch_dims)

        with AtLine(f"no memory to update {variable.name}"):
            variable.write(put)
        return variable.written(values)


def _checked(slices: Any) -> IndexedSlices:
    if not isinstance(slices, IndexedSlices):
        raise TypeError(
            f"Argument `sparse_delta` must be a `tapec.IndexedSlices`. Received arg: {slices}",
            location=here(),
            hint="tapec.IndexedSlices(values, indices); or scatter_nd_add(indices, updates)",
        )
    return slices


def assign_slice(
    variable: Variable, key: Any, value: TensorLike, name: str | None = None
) -> Variable:
    """``v[key] = value``, which broadcasts: what ``v[key].assign(value)`` does.

    Raises:
        InvalidArgumentError: the value does not broadcast (ValueError while a function is compiled).
    """
    type = variable.type
    numbers = counting(I32 if prod(type.static_shape) < 2**31 else I64, type.size)
    places = getitem(reshape(numbers, type.shape), key)
    new, wanted = like(value, type.dtype), places.type.shape
    if not compatible(new.type.shape, wanted) or new.type.rank > len(wanted):
        raise misfit(
            f"Cannot broadcast input shape {shape_text(new.type.shape)} into final shape {shape_text(wanted)}"
        )
    flat = (type.size,)
    return variable._put(
        "index_set", flat, reshape(places, (-1,)), reshape(broadcast(new, wanted), (-1,))
    )
