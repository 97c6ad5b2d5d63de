"""Operations about the program itself: its end, its calls, and what a tape marked in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tapec.ir.errors import DTypeError, NotDifferentiableError, ShapeError
from tapec.ir.op import AxesRead, Cotangents, Index, Kernel, Op, Sample
from tapec.ir.types import F64, I32, Shape, TensorType, Type

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Return(Op):
    """Terminator of a function: its operands are the function's results."""

    name = "return"
    form = "structural"
    levels = frozenset({"tensor", "loop"})
    pure = False
    terminator = True
    differentiable = False

    def infer(self, *types: Any, **attrs: Any) -> tuple[Type, ...]:
        """No results."""
        return ()


class Call(Op):
    """The results of the module's function ``callee`` for these arguments.

    Who emits it gives the result types: they stand in another function, which `infer` cannot see.
    """

    name = "call"
    form = "structural"
    # The callee may hold an ordered operation; `inline` runs before anybody profits from knowing.
    pure = False

    def result_types(self, op: Operation) -> None:
        """Not to be known here; the verifier compares with the callee."""
        return None

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """None of its own: the callee's body has one."""
        raise NotDifferentiableError(
            f"the call of @{op.attrs['callee']} has no derivative of its own",
            location=op.location,
            hint="run the pass inline first",
        )


class KernelOp(Op):
    """A group of operations that becomes one kernel.

    The region's arguments are the operands, one for one. It reads nothing else, and ends in a
    ``yield`` of the results.
    """

    name = "kernel"
    form = "structural"
    isolated = True

    def result_types(self, op: Operation) -> tuple[Type, ...]:
        """What the region yields."""
        return tuple(v.type for v in op.regions[0].block.terminator.operands)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """None: fusion comes after the adjoint."""
        raise NotDifferentiableError("kernel has no derivative", location=op.location)


class Gradient(Op):
    """``source_bar = sum over targets of seed * d target / d source``, a result for each source.

    Operands are targets, seeds, sources, stops; ``segments`` says how many of each. Without seeds
    every target is seeded with ones. The walk goes backwards from the targets and never past a
    stop; a source does not end it. A source that is not reached gets zeros. The adjoint pass
    replaces this operation by the program that computes it.

    ``batched`` seeds have one leading axis more than their targets: a gradient for every row of
    them. The results have that axis too, and the walk is done once for all rows.
    """

    name = "gradient"
    form = "structural"

    def infer(
        self, *types: Any, segments: tuple[int, int, int, int], batched: bool = False
    ) -> tuple[Type, ...]:
        """The types of the sources, with the seeds' leading axis if they are batched."""
        targets, seeds, sources, _ = segments
        if min(segments) < 0 or sum(segments) != len(types):
            raise ShapeError(
                f"gradient: segments {list(segments)} do not add up to {len(types)} operands"
            )
        if seeds not in (0, targets):
            raise ShapeError(f"gradient: {targets} targets need no seeds or {targets}, got {seeds}")
        results = types[targets + seeds : targets + seeds + sources]
        for end in (*types[:targets], *results):
            if not end.dtype.is_differentiable:
                raise DTypeError(f"gradient: values of type {end} carry no gradient")
        lead: Shape = ()
        if batched:
            first = types[targets : targets + seeds][:1]
            if not first or not first[0].rank:
                raise ShapeError("gradient: batched seeds are missing")
            lead = first[0].shape[:1]
        for target, seed in zip(types[:targets], types[targets : targets + seeds], strict=False):
            wanted = target.with_shape((*lead, *target.shape))
            if wanted != seed:
                raise ShapeError(f"gradient: the seed of a {wanted} is a {seed}")
        return tuple(r.with_shape((*lead, *r.shape)) for r in results)

    def split(self, op: Operation) -> tuple[tuple[Value, ...], ...]:
        """The operands of an operation by role: targets, seeds, sources, stops."""
        parts, start = [], 0
        for count in op.attrs["segments"]:
            parts.append(op.operands[start : start + count])
            start += count
        return tuple(parts)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """None of its own: the program that it stands for has one."""
        raise NotDifferentiableError(
            "gradient has no derivative before it is expanded",
            location=op.location,
            hint="run the pass adjoint, which expands the inner one first",
        )


class Identity(Op):
    """``x``: the family of operations that say something about a value and leave it as it is."""

    cheap = True
    #: The mark (`tapec.ir.core.MARKS`) that what makes the value has when this is taken down.
    leaves_mark: str | None = None

    def infer(self, *types: Any, **attrs: Any) -> TensorType:
        """The operand's type."""
        if len(types) != 1:
            raise ShapeError(f"{self.name} takes 1 operand, got {len(types)}")
        operand: TensorType = types[0]
        return operand

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """The operand."""
        return arrays[0]

    def stands_for(self, op: Operation) -> Sequence[Value] | None:
        """The operand."""
        return op.operands

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """The same of the whole batch."""
        return b.emit(self, *operands, **attrs)

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """Both parts alike."""
        return self.apart(b, *operands, **attrs)

    def axes_read(self, op: Operation) -> tuple[AxesRead, ...]:
        """The same index."""
        return (tuple(range(op.result.tensor.rank)),)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The operand's element."""
        element: Value = operands[0][i]
        return element

    def samples(self) -> Iterator[Sample]:
        """A matrix, a scalar, integers and a zero-size shape."""
        yield Sample((TensorType(F64, (2, 3)),))
        yield Sample((TensorType(F64),))
        yield Sample((TensorType(I32, (2,)),))
        yield Sample((TensorType(F64, (0, 3)),))


class StopGradient(Identity):
    """``x``, through which no derivative flows."""

    name = "stop_gradient"
    differentiable = False


class Watch(Identity):
    """``x``, kept apart from equal values because a tape refers to this one."""

    name = "watch"
    marks_path = True

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct``."""
        return (cts[0],)


class Keep(Identity):
    """``x``, which is not to be computed again for a gradient."""

    name = "keep"
    leaves_mark = "keep"

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``x_bar = ct``."""
        return (cts[0],)


class Read(Identity):
    """The value of a Variable where it is read: a source of gradients, past which none flows."""

    name = "read"
    marks_path = True
    differentiable = False
