"""Writing at positions that are data: into zeros, which is the transpose of gather, or into an array."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tapec.ir.dims import DimLike
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import AxesRead, Cotangents, Index, Kernel, Op, Sample, require_equal_dims, spread
from tapec.ir.ops.index import gather_samples, gathered, numpy_index, refuse_outside
from tapec.ir.types import Shape, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class ScatterAdd(Op):
    """Zeros of ``shape``, with each slice of the updates added where `gather` would have read it.

    Operands are the indices, then the updates. Slices for one place are added in order; a sum of bools is whether one
    of them holds.
    """

    name = "scatter_add"
    form = "nest"

    def infer(self, *types: Any, shape: Shape, axis: int, batch_dims: int = 0) -> TensorType:
        """``shape``; the updates have the shape that `gather` would give."""
        indices, updates = types
        result = TensorType(updates.dtype, tuple(shape))
        _require_updates(self.name, result, indices, updates, axis, batch_dims)
        return result

    @np.errstate(all="ignore")
    def evaluate(self, *arrays: Any, shape: Any, axis: int, batch_dims: int = 0) -> Any:
        """`numpy.add.at`."""
        indices, updates = arrays
        refuse_outside(self.name, indices, shape[axis])
        result = np.zeros(shape, updates.dtype)
        np.add.at(result, numpy_index(len(shape), shape, indices, axis, batch_dims), updates)
        return result

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """Gather the cotangent where the updates went."""
        attrs = {name: op.attrs[name] for name in ("axis", "batch_dims") if name in op.attrs}
        return None, b.gather(cts[0], op.operands[0], **attrs)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more leading axis, shared."""
        indices, updates = spread(b, operands, batched)
        shape = (indices.tensor.shape[0], *attrs["shape"])
        axis, batch_dims = attrs["axis"] + 1, attrs.get("batch_dims", 0) + 1
        return b.scatter_add(indices, updates, shape=shape, axis=axis, batch_dims=batch_dims)

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """Both parts alike."""
        return self.apart(b, *operands, **attrs)

    def lower_nest(
        self,
        k: Kernel,
        outs: Sequence[Value],
        *operands: Any,
        shape: Shape,
        axis: int,
        batch_dims: int = 0,
    ) -> None:
        """Write zeros, then go through the updates."""
        (out,) = outs
        indices, updates = operands
        zero = k.constant(0, updates.type.dtype)
        _each(k, shape, lambda i: lambda last: k.store(zero, out, (*i, last)))

        combine = k.or_ if updates.type.dtype.is_bool else k.add

        def add(i: Index, place: Index) -> None:
            k.store(combine(k.load(out, place), updates[i]), out, place)

        _each_update(k, indices, updates, shape, axis, batch_dims, add)

    def samples(self) -> Iterator[Sample]:
        """The shapes of `gather`, with indices that meet."""
        for sample in gather_samples():
            x, indices = sample.types
            updates = gathered(self.name, x, indices, **sample.attrs)
            yield Sample((indices, updates), {"shape": x.shape, **sample.attrs}, integers=(0, 5))


def _require_updates(
    name: str,
    x: TensorType,
    indices: TensorType,
    updates: TensorType,
    axis: int,
    batch_dims: int,
) -> None:
    """Hold updates to what `gather` would give.

    Raises:
        DTypeError: the indices are no integers, or the updates of another dtype than ``x``.
        ShapeError: shapes do not fit.
    """
    wanted = gathered(name, x, indices, axis, batch_dims)

    def message() -> str:
        return f"{name}: expected updates {wanted}, got {updates}"

    if updates.dtype != x.dtype:
        raise DTypeError(message())
    if wanted.rank != updates.rank:
        raise ShapeError(message())
    for m, n in zip(wanted.shape, updates.shape, strict=True):
        require_equal_dims(m, n, message)


def _each_update(
    k: Kernel,
    indices: Any,
    updates: Any,
    shape: Shape,
    axis: int,
    batch_dims: int,
    body: Callable[[Index, Index], None],
) -> None:
    """Run a body with the index of each update, and with where it goes.

    Where updates are rows, the elements of one go to neighbours and cannot meet: several at a time.
    """
    own = indices.type.rank - batch_dims

    def place(i: Index) -> Index:
        at = indices[(*i[:batch_dims], *i[axis : axis + own])]
        return (*i[:axis], k.position(at, shape[axis]), *i[axis + own :])

    def row(i: Index) -> Callable[[DimLike], None]:
        begin = place(i)
        return lambda last: body((*i, last), (*begin, last))

    space = updates.type.shape
    if axis + own < len(space):
        _each(k, space, row)
    else:
        k.loop(space, lambda i: body(i, place(i)))


def _each(k: Kernel, space: Shape, row: Callable[[Index], Callable[[DimLike], None]]) -> None:
    """Run what ``row`` gives for the other axes along the last, for several indices at a time."""
    *outer, last = space
    k.loop(tuple(outer), lambda i: k.along(last, row(i), vector=True))


class IndexUpdate(Op):
    """``x`` with each slice of the updates put where `gather` would have read it, one after the other.

    Operands are ``x``, the indices, the updates. Where the old ``x`` is read by nobody else, native code changes only
    the slices named: see ``starts_as``.
    """

    form = "nest"
    starts_as = 0
    #: NumPy's function that combines what is there with an update; None puts the update there.
    combine: ClassVar[np.ufunc | None] = None
    takes_complex: ClassVar[bool] = True

    def infer(self, *types: Any, axis: int, batch_dims: int = 0) -> TensorType:
        """The type of ``x``; the updates have the shape that `gather` would give."""
        x, indices, updates = types
        if (x.dtype.is_bool and self.combine) or (x.dtype.is_complex and not self.takes_complex):
            raise DTypeError(f"{self.name}: {x.dtype.code} is not supported")
        _require_updates(self.name, x, indices, updates, axis, batch_dims)
        return TensorType(x.dtype, x.shape)

    @np.errstate(all="ignore")
    def evaluate(self, *arrays: Any, axis: int, batch_dims: int = 0) -> Any:
        """A changed copy."""
        x, indices, updates = arrays
        result = np.array(x)
        self.put(result, indices, updates, axis, batch_dims)
        return result

    def put(self, out: Any, indices: Any, updates: Any, axis: int, batch_dims: int = 0) -> None:
        """Change a NumPy array in place.

        Raises:
            CheckError: an index is outside of the axis.
        """
        refuse_outside(self.name, indices, out.shape[axis])
        place = numpy_index(out.ndim, out.shape, indices, axis, batch_dims)
        if self.combine is None:
            out[place] = updates  # NumPy keeps the last of equal indices
        else:
            self.combine.at(out, place, updates)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more leading axis, shared."""
        axis, batch_dims = attrs["axis"] + 1, attrs.get("batch_dims", 0) + 1
        return b.emit(self, *spread(b, operands, batched), axis=axis, batch_dims=batch_dims)

    def axes_read(self, op: Operation) -> tuple[AxesRead, ...]:
        """``x`` is read where it is written."""
        return tuple(range(op.operands[0].tensor.rank)), None, None

    def lower_nest(
        self, k: Kernel, outs: Sequence[Value], *operands: Any, axis: int, batch_dims: int = 0
    ) -> None:
        """Go through the updates; the copy of ``x`` is there already."""
        (out,) = outs
        x, indices, updates = operands

        def update(i: Index, place: Index) -> None:
            k.store(self.combined(k, k.load(out, place), updates[i]), out, place)

        _each_update(k, indices, updates, x.type.shape, axis, batch_dims, update)

    def combined(self, k: Kernel, old: Value, update: Value) -> Value:
        """The element that replaces ``old``."""
        raise NotImplementedError

    def idle(self, b: Builder, op: Operation) -> Value:
        """Updates for the places of an operation that leave ``x`` as it is: what is there."""
        x, indices, _ = op.operands
        found: Value = b.gather(x, indices, **op.parameters)
        return found

    def samples(self) -> Iterator[Sample]:
        """The shapes of `gather`, with indices that meet."""
        for sample in gather_samples():
            x, indices = sample.types
            updates = gathered(self.name, x, indices, **sample.attrs)
            yield Sample((x, indices, updates), sample.attrs, integers=(0, 5))


class IndexAdd(IndexUpdate):
    """Slices added to those of ``x``. See `IndexUpdate`."""

    name = "index_add"
    combine = np.add

    def idle(self, b: Builder, op: Operation) -> Value:
        """Zeros, negative ones: ``-0.0 + -0.0`` is ``-0.0``."""
        updates = op.operands[2]
        return b.full_like(-0.0 if updates.tensor.dtype.is_differentiable else 0, updates)

    def combined(self, k: Kernel, old: Value, update: Value) -> Value:
        """The sum."""
        return k.add(old, update)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x`` gets the cotangent, each update its slice of it."""
        return cts[0], None, b.gather(cts[0], op.operands[1], **op.parameters)


class IndexMultiply(IndexUpdate):
    """Slices of ``x`` multiplied, once for each update. No derivative flows. See `IndexUpdate`."""

    name = "index_multiply"
    combine = np.multiply
    differentiable = False

    def idle(self, b: Builder, op: Operation) -> Value:
        """Ones."""
        updates = op.operands[2]
        return b.full_like(1, updates)

    def combined(self, k: Kernel, old: Value, update: Value) -> Value:
        """The product."""
        return k.mul(old, update)


class IndexDivide(IndexUpdate):
    """Slices of ``x`` divided, once for each update. No derivative flows. See `IndexUpdate`."""

    name = "index_divide"
    combine = np.divide
    differentiable = False

    def infer(self, *types: Any, axis: int, batch_dims: int = 0) -> TensorType:
        """As the others, for floats and complex numbers."""
        if not types[0].dtype.is_differentiable:
            raise DTypeError(f"{self.name}: {types[0].dtype.code} is not supported")
        return super().infer(*types, axis=axis, batch_dims=batch_dims)

    def idle(self, b: Builder, op: Operation) -> Value:
        """Ones."""
        updates = op.operands[2]
        return b.full_like(1, updates)

    def combined(self, k: Kernel, old: Value, update: Value) -> Value:
        """The quotient."""
        return k.div(old, update)

    def samples(self) -> Iterator[Sample]:
        """Divisors away from 0."""
        for sample in super().samples():
            yield Sample(sample.types, sample.attrs, domain=(0.5, 2.0), integers=(0, 5))


class IndexSet(IndexUpdate):
    """Slices in place of those of ``x``; the last one for a place stays. See `IndexUpdate`."""

    name = "index_set"

    def combined(self, k: Kernel, old: Value, update: Value) -> Value:
        """The update."""
        return update

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x`` gets the cotangent but for the slices replaced; each update gets its slice of it."""
        _, indices, updates = op.operands
        zeros = b.constant(value=0, type=updates.tensor)
        kept = b.emit(self, cts[0], indices, zeros, **op.parameters)
        return kept, None, b.gather(cts[0], indices, **op.parameters)

    def samples(self) -> Iterator[Sample]:
        """The shapes of `gather`, with indices that do not meet: which slice stays, a derivative cannot tell."""
        for sample in super().samples():
            shape = sample.types[1].static_shape
            if len(shape) - sample.attrs["batch_dims"] <= 1:
                own = np.arange(1, 1 + shape[-1]) if shape else np.array(2)
                span = (own, own + 1)
                yield Sample(sample.types, sample.attrs, integers=((0, 5), span, (0, 5)))


class IndexExtremum(IndexUpdate):
    """What `IndexMax` and `IndexMin` share: all that tie share the cotangent of a place."""

    takes_complex = False

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """Equal shares for ``x`` and all updates that have the value of the place."""
        x, indices, updates = op.operands
        result = op.result
        one, none = b.constant(value=1, type=x.tensor), b.constant(value=0, type=x.tensor)
        hit = b.where(b.eq(x, result), one, none)
        found = b.gather(result, indices, **op.parameters)
        ones = b.constant(value=1, type=updates.tensor)
        zeros = b.constant(value=0, type=updates.tensor)
        hits = b.where(b.eq(updates, found), ones, zeros)
        share = b.div(cts[0], b.index_add(hit, indices, hits, **op.parameters))
        return b.mul(hit, share), None, b.mul(hits, b.gather(share, indices, **op.parameters))


class IndexMax(IndexExtremum):
    """The greater of each slice and that of ``x``. See `IndexUpdate`."""

    name = "index_max"
    combine = np.maximum

    def combined(self, k: Kernel, old: Value, update: Value) -> Value:
        """The maximum."""
        return k.max(old, update)


class IndexMin(IndexExtremum):
    """The lesser of each slice and that of ``x``. See `IndexUpdate`."""

    name = "index_min"
    combine = np.minimum

    def combined(self, k: Kernel, old: Value, update: Value) -> Value:
        """The minimum."""
        return k.min(old, update)
