"""Definitions of operations: the `Op` class, its families, and the registry `OPS`.

A definition holds everything there is to know about an operation, so that passes and back ends need not know its
name: the type rule (`infer`), the meaning (`evaluate`, NumPy), the derivative (`vjp`, which emits program text through
the Builder, so any order of derivative follows), vectorised mapping (`batch`), complex numbers as pairs of reals
(`pairs`), loops (`lower`), and example inputs (`samples`) from which the generic tests, the documentation table and
random programs are made. The class docstring
documents the operation. Subclassing with a ``name`` registers the one instance.

Lowering takes one of three forms (`Form`):

* ``index``: `lower` returns the value of the result at index ``i``; fusion is composition of these.
* ``nest``: `lower_nest` writes the loops that fill the result's buffers.
* ``contraction``: `contraction` describes iteration space and operand maps; the schedule chooses the loops.

``structural`` marks operations that passes expand (gradient, kernel, return …).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from tapec.ir.dims import DimLike, bounds
from tapec.ir.errors import (
    DTypeError,
    NotDifferentiableError,
    ShapeError,
    TargetError,
)
from tapec.ir.guards import assume_at_least, assume_equal
from tapec.ir.loops.kernel import Index as Index
from tapec.ir.loops.kernel import Kernel as Kernel
from tapec.ir.loops.kernel import Operand as Operand
from tapec.ir.pairs import Pair
from tapec.ir.quiet import quiet
from tapec.ir.scalar import Scalar
from tapec.ir.types import (
    BOOL,
    C128,
    F64,
    I32,
    DType,
    Shape,
    TensorType,
    Type,
    VectorType,
)

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value

Form = Literal["index", "nest", "contraction", "structural"]
Cotangents = tuple["Value | None", ...]


class Sample(NamedTuple):
    """Example inputs: operand types, attributes, and from where to draw the values.

    ``domain`` bounds float operands (away from kinks and poles, so that differences make sense); ``integers`` bounds
    integer operands (upper bound excluded). Either may be one pair for all operands or one pair for each. A bound in a
    pair for each may be an array, which broadcasts to the operand's shape.
    """

    types: tuple[TensorType, ...]
    attrs: Mapping[str, Any] = MappingProxyType({})
    domain: tuple[float, float] | tuple[tuple[Any, Any], ...] = (-2.0, 2.0)
    integers: tuple[int, int] | tuple[tuple[Any, Any], ...] = (0, 5)


class Contraction(NamedTuple):
    """``out[o] = sum over r of a[maps[0]] * b[maps[1]]``: the iteration space of a matmul or a convolution.

    ``space`` are the extents of the loops: the result's axes first, then ``reduced`` more. Each map gives, from the
    loop indices, the index into that operand. Sums of 16-bit floats, which are made in float32, are rounded to 16 bits
    unless the contraction is ``wide``.
    """

    space: Shape
    reduced: int
    maps: tuple[Callable[[Index], Index], Callable[[Index], Index]]
    wide: bool = False


#: How the element of an operand depends on the index of the result, in the index form: for each axis of the operand the
#: axis of the result that indexes it, `RUNS` if it takes its whole range, `FIXED` if its size is 1; or None: in no such
#: simple way.
AxesRead = tuple[int, ...] | None
RUNS, FIXED = -1, -2

OPS: dict[str, Op] = {}


class Op:
    """The definition of an operation. See the module docstring; override what the defaults do not say."""

    name: ClassVar[str] = ""
    form: ClassVar[Form] = "index"
    #: Form ``nest``: the operand that the one result is a changed copy of. The loops find the copy made, or both in one
    #: place where nobody else reads the operand, and write only what changes.
    starts_as: ClassVar[int | None] = None
    #: Legal at tensor level, at loop level, or at both.
    levels: ClassVar[frozenset[str]] = frozenset({"tensor"})
    #: The result type is given, not inferred; it is the attr ``type`` and prints as the annotation alone.
    typed: ClassVar[bool] = False
    #: No effect but its results: may be removed, moved and merged.
    pure: ClassVar[bool] = True
    #: Passes must keep it apart until the adjoint has run: it marks what a tape watched.
    marks_path: ClassVar[bool] = False
    #: It ends a block.
    terminator: ClassVar[bool] = False
    #: Its regions read no value from outside: their arguments are its operands.
    isolated: ClassVar[bool] = False
    #: One element takes so many instructions that fusion should not compute it often.
    costly: ClassVar[bool] = True
    #: One element of the result takes a loop (index form): reductions.
    loops: ClassVar[bool] = False
    #: Cheap enough that fusion may compute it twice rather than store it.
    cheap: ClassVar[bool] = False
    commutative: ClassVar[bool] = False
    #: It can add up what it gives for each row of a batch without making that: see `batch_sum`.
    sums_batch: ClassVar[bool] = False
    #: What to do where a result, or its derivative, is NaN or infinite though no operand is.
    remedy: ClassVar[str] = ""
    #: It has a derivative, which the generic tests check to the third order.
    differentiable: ClassVar[bool] = True
    #: What to do where it has none, for explanations.
    no_derivative: ClassVar[str] = ""
    #: Why devices of many threads have no form of it; empty where they have.
    no_device: ClassVar[str] = ""
    #: Native code gives the results of `exact` to the bit and saves many calls of NumPy: eager code that repeats it may
    #: use that.
    repeats_natively: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            if cls.name in OPS:
                raise TypeError(f"two operations are called {cls.name!r}")
            OPS[cls.name] = cls()

    def infer(self, *types: Any, **attrs: Any) -> TensorType | tuple[Type, ...]:
        """Result type or types from operand types and attributes.

        Raises:
            ShapeError: shapes do not fit.
            DTypeError: dtypes do not fit.
        """
        raise NotImplementedError(f"{self.name} has no type rule")

    def result_types(self, op: Operation) -> tuple[Type, ...] | None:
        """Result types of an operation as it stands, regions included; by default `infer`'s.

        None where only the module knows: the results of a call stand in another function.
        """
        inferred = self.infer(*(v.type for v in op.operands), **op.parameters)
        return inferred if isinstance(inferred, tuple) else (inferred,)

    def region_types(self, op: Operation) -> Sequence[tuple[Type, ...]]:
        """For each region of an isolated operation the types of its arguments; by default the operands'."""
        return [tuple(v.type for v in op.operands)] * len(op.regions)

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """The result or results as NumPy arrays: the meaning of the operation.

        With regions there are two keywords more: ``regions``, functions of arrays, and ``results``, the types.
        """
        raise NotImplementedError(f"{self.name} cannot be evaluated")

    def kernel(self, **attrs: Any) -> Callable[..., Any]:
        """`evaluate` with these attributes, a function of the arrays alone: made once where it is called often."""
        return partial(self.evaluate, **attrs) if attrs else self.evaluate

    def exact(self, b: Builder, *operands: Any, **attrs: Any) -> Sequence[Value]:
        """What native code gives to the bit: the operation, or what NumPy's `rest` makes it of."""
        return (b.emit(self, *operands, **attrs),)

    def rest(self, *arrays: Any, **attrs: Any) -> Any:
        """The result from arrays of `exact`, which may be written to."""
        return arrays[0]

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """Cotangents of the operands from those of the results (None where a result has none).

        Returns one entry per operand: a value of the operand's own type, or None where no derivative flows.
        """
        if not self.differentiable:
            return (None,) * len(op.operands)
        raise NotDifferentiableError(f"{self.name} has no derivative", location=op.location)

    def passes_back(self, op: Operation, given: Sequence[bool]) -> Sequence[bool] | None:
        """For each operand, whether `vjp` has a cotangent for it when the ``given`` results have one.

        None: only trying it tells. An operation with regions knows, where trying would write their whole derivative.
        """
        return None

    def stands_for(self, op: Operation) -> Sequence[Value] | None:
        """The values that the results are, if the operation only says something about them to the adjoint.

        They take its place when the adjoint is written.
        """
        return None

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """The operation mapped over a new leading axis of the operands that are ``batched``.

        An operation with regions gets them in the keyword ``regions``. Returns the result or results, each with the
        new leading axis.
        """
        raise NotDifferentiableError(f"{self.name} cannot be mapped over a batch axis")

    def merges_batch(self, op: Operation, batched: Sequence[bool]) -> bool:
        """Whether `batch` makes one large operation of it, better than many small ones, and not these side by side."""
        return False

    def prepared(
        self, b: Builder, op: Operation, fixed: Sequence[bool]
    ) -> tuple[Value, Value] | None:
        """The operation written anew, better where it runs again and again with some operands ``fixed``.

        Returns:
            What can be made of a fixed operand once, and the result; None if there is nothing to make.
        """
        return None

    def batch_sum(self, b: Builder, operands: Sequence[Value], **attrs: Any) -> Value:
        """The sum, over a leading axis that all operands have, of what the operation gives for each (`sums_batch`)."""
        raise NotImplementedError(f"{self.name} does not sum a batch")

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """The operation on complex numbers, in operations on reals: native code knows no others.

        Complex operands come, and complex results are returned, as a `Pair`; others as they are. By default the
        operation's own loops run on pairs.
        """
        if self.form != "nest" and not self.loops:
            raise TargetError(f"{self.name} has no native code for complex numbers")
        loops: Any = OPS["pairwise"]
        return loops.of(b, self, operands, attrs)

    def apart(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """`pairs` of an operation that treats both parts alike."""
        re, im = (
            b.emit(
                self, *(getattr(x, part) if isinstance(x, Pair) else x for x in operands), **attrs
            )
            for part in ("re", "im")
        )
        return Pair(re, im)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The value of the result at index ``i`` (form ``index``)."""
        raise NotImplementedError(f"{self.name} has no index form")

    def axes_read(self, op: Operation) -> tuple[AxesRead, ...]:
        """For each operand, which axes of the result index it (see `AxesRead`); fusion asks this."""
        return (None,) * len(op.operands)

    def together(self, op: Operation) -> int:
        """Neighbours in the result that are made from the same 64-bit words, so that making all takes what one does."""
        return 1

    def lower_nest(self, k: Kernel, outs: Sequence[Value], *operands: Any, **attrs: Any) -> None:
        """Write loops that fill the buffers ``outs`` (form ``nest``)."""
        raise NotImplementedError(f"{self.name} has no loop nest")

    def contraction(self, *types: Any, **attrs: Any) -> Contraction:
        """The iteration space (form ``contraction``)."""
        raise NotImplementedError(f"{self.name} is no contraction")

    def samples(self) -> Iterator[Sample]:
        """Example inputs for the generic tests, at least one for every behaviour that attributes select."""
        return iter(())

    def flops(self, op: Operation) -> DimLike:
        """Floating-point operations of one execution; an elementwise operation counts one per element."""
        result = op.results[0].type
        return result.size if isinstance(result, TensorType) else 0


class Elementwise(Op):
    """The same scalar function at every index; all operands have one shape.

    At loop level the same definitions act on scalars and on vector registers.
    """

    scalar: ClassVar[Scalar]
    #: `Scalar.numpy`, without warnings.
    silent: ClassVar[Callable[..., Any]]
    #: Number of operands, and the kinds of dtype they may have: the primitive's.
    arity: ClassVar[int]
    kinds: ClassVar[frozenset[str]]
    #: The result is bool, whatever the operands are.
    predicate: ClassVar[bool] = False
    #: Where an operand is NaN or infinite the result is so too: it hides neither.
    spreads: ClassVar[bool] = False
    #: Of finite real operands the result is finite: it makes neither.
    stays_finite: ClassVar[bool] = False
    levels = frozenset({"tensor", "loop"})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "scalar" in vars(cls):
            cls.arity = cls.scalar.arity
            cls.kinds = cls.scalar.kinds
            cls.predicate = cls.scalar.result == "bool"
            cls.costly = cls.scalar.is_costly
            cls.silent = staticmethod(quiet(cls.scalar.numpy))
        super().__init_subclass__(**kwargs)

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """Operands agree in shape and dtype; the dtype's kind is one the operation takes."""
        if len(types) != self.arity:
            raise ShapeError(f"{self.name} takes {self.arity} operands, got {len(types)}")
        first = types[0]
        for type in types:
            if type.dtype != first.dtype:
                raise DTypeError(
                    f"{self.name}: dtypes differ: {' and '.join(t.dtype.code for t in types)}",
                    hint="convert one of them with tapec.cast",
                )
            require_same_shape(self.name, first, type)
        if first.dtype.kind not in self.kinds:
            raise DTypeError(f"{self.name} does not take {first.dtype.code}")
        return first.with_dtype(BOOL) if self.predicate else first

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """``scalar.numpy``, silent about infinities and NaN as the hardware is."""
        return self.silent(*arrays)

    def kernel(self, **attrs: Any) -> Callable[..., Any]:
        """The primitive itself, where nothing else is said of the meaning."""
        plain = type(self).evaluate is Elementwise.evaluate
        return type(self).silent if plain else super().kernel(**attrs)

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """The primitive's formula."""
        formula = self.scalar.pairs
        return super().pairs(b, *operands, **attrs) if formula is None else formula(b, *operands)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """The scalar function of the operands' elements at the same index."""
        return k.apply(self, *(x[i] for x in operands), **attrs)

    def axes_read(self, op: Operation) -> tuple[AxesRead, ...]:
        """The same index everywhere."""
        return (tuple(range(op.results[0].tensor.rank)),) * len(op.operands)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """The same operation; unbatched operands are repeated along the new axis."""
        return b.emit(self, *spread(b, operands, batched), **attrs)

    def samples(self) -> Iterator[Sample]:
        """A matrix, a scalar and a zero-size shape; subclasses narrow the domain."""
        dtype = sample_dtype(self.kinds)
        for shape in ((2, 3), (), (0, 3)):
            yield Sample((TensorType(dtype, shape),) * self.arity, domain=self.domain)

    #: Where samples are drawn from: away from kinks and poles.
    domain: ClassVar[tuple[float, float]] = (0.3, 2.0)


class AlongAxis(Op):
    """The family of operations along the attribute ``axis``."""

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """The axis moves by one; unbatched operands are repeated along the new axis."""
        return b.emit(self, *spread(b, operands, batched), **(attrs | {"axis": attrs["axis"] + 1}))


def sample_dtype(kinds: frozenset[str]) -> DType:
    """A dtype of one of these kinds: float64 if floats are among them."""
    return (
        F64 if "float" in kinds else I32 if "int" in kinds else C128 if "complex" in kinds else BOOL
    )


def spread(b: Builder, operands: Sequence[Value], batched: Sequence[bool]) -> list[Value]:
    """Give every operand the leading batch axis of those that have one."""
    size = next(v.tensor.shape[0] for v, has in zip(operands, batched, strict=True) if has)
    pairs = zip(operands, batched, strict=True)
    return [v if has else repeated(b, v, size) for v, has in pairs]


def repeated(b: Builder, value: Value, size: DimLike) -> Value:
    """A value that is the same for every index of a new leading axis."""
    shape = (size, *value.tensor.shape)
    result: Value = b.broadcast(value, shape=shape, axes=tuple(range(1, len(shape))))
    return result


def require_same_shape(name: str, a: TensorType | VectorType, b: TensorType | VectorType) -> None:
    """Hold two types to be of one shape, or of as many lanes."""
    if isinstance(a, TensorType) and isinstance(b, TensorType):
        if len(a.shape) != len(b.shape):
            raise ShapeError(f"{name}: ranks differ: {a} and {b}")
        for m, n in zip(a.shape, b.shape, strict=True):
            require_equal_dims(m, n, lambda: f"{name}: shapes differ: {a} and {b}")
    elif a.with_dtype(b.dtype) != b:
        raise ShapeError(f"{name}: {a} and {b} do not mix")


def require_equal_dims(m: DimLike, n: DimLike, message: Callable[[], str]) -> DimLike:
    """Hold two dims to be equal: check numbers, record a guard where symbols are involved; return the simpler."""
    if m == n:
        return m
    if isinstance(m, int) and isinstance(n, int):
        raise ShapeError(message())
    assume_equal(m, n, message)
    return m if isinstance(m, int) else n


def require_at_least(m: DimLike, n: DimLike, message: Callable[[], str]) -> None:
    """Hold a dim to be no less than another: check what is known, record a guard otherwise."""
    low, high = bounds(m - n)
    if high is not None and high < 0:
        raise ShapeError(message())
    if low is None or low < 0:
        assume_at_least(m, n, message)


def require_sizes(name: str, shape: Shape) -> None:
    """Refuse sizes that are no sizes.

    Raises:
        ShapeError: one is negative, or no integer.
    """
    for n in shape:
        if isinstance(n, int) and n >= 2**63:
            raise ShapeError(f"{name}: {list(shape)} is no shape: sizes are in [0, 2**63)")
        require_at_least(
            n, 0, lambda: f"{name}: {list(shape)} is no shape: sizes are in [0, 2**63)"
        )


def normal_axes(name: str, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Check axes against a rank: distinct, in ``[0, rank)``; negative ones are resolved by the public function."""
    for axis in axes:
        if not 0 <= axis < rank:
            raise ShapeError(f"{name}: axis {axis} is outside of rank {rank}")
    if len(set(axes)) != len(axes):
        raise ShapeError(f"{name}: an axis is named twice in {list(axes)}")
    return tuple(axes)
