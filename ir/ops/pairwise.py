"""`pairwise`: the loops of an operation on complex numbers, over buffers of real ones.

Where a formula of tensors would not do, because one element of the result needs others (a cumulative product, a
factorisation), the operation's own loops run: on elements that are pairs, in buffers that are pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.errors import DTypeError
from tapec.ir.loops.reduction import neutral
from tapec.ir.op import OPS, Elementwise, Index, Kernel, Op, Sample
from tapec.ir.ops.movement import example
from tapec.ir.pairs import Pair
from tapec.ir.types import C64, C128, F32, F64, BufferType, DType, Shape, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Value


class Pairwise(Op):
    """The operation ``operation`` of complex operands, each of which is two real ones: its parts.

    ``complex`` tells for each operand of the operation whether it is complex; so are its complex results two results.
    The other attributes are the operation's.
    """

    name = "pairwise"
    form = "nest"
    differentiable = False

    def infer(
        self, *types: Any, operation: str, complex: tuple[bool, ...], **attrs: Any
    ) -> tuple[TensorType, ...]:
        """The operation's results, with two real types for a complex one."""
        joined = [_complex(t) if is_pair else t for is_pair, (t, *_) in _grouped(types, complex)]
        inferred: Any = OPS[operation].infer(*joined, **attrs)
        results = inferred if isinstance(inferred, tuple) else (inferred,)
        return tuple(
            t.with_dtype(t.dtype.real_dtype) for t in results for _ in range(1 + t.dtype.is_complex)
        )

    def of(self, b: Builder, defn: Op, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """Emit this operation for another one, whose complex operands are given, and results returned, as pairs."""
        flags = tuple(isinstance(x, Pair) for x in operands)
        types = [_complex(x.re.tensor) if isinstance(x, Pair) else x.tensor for x in operands]
        inferred: Any = defn.infer(*types, **attrs)
        results = inferred if isinstance(inferred, tuple) else (inferred,)
        made = b.emit(self, *_flat(operands), operation=defn.name, complex=flags, **attrs)
        values = made if isinstance(made, tuple) else (made,)
        found = tuple(_paired(values, [t.dtype.is_complex for t in results]))
        return found if isinstance(inferred, tuple) else found[0]

    def evaluate(
        self, *arrays: Any, operation: str, complex: tuple[bool, ...], **attrs: Any
    ) -> Any:
        """The operation's meaning."""
        joined = [
            OPS["complex"].evaluate(*group) if is_pair else group[0]
            for is_pair, group in _grouped(arrays, complex)
        ]
        made = OPS[operation].evaluate(*joined, **attrs)
        parts: list[Any] = []
        for result in made if isinstance(made, tuple) else (made,):
            both = np.iscomplexobj(result)
            parts += [result.real.copy(), result.imag.copy()] if both else [result]
        return tuple(parts)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """The operation's own rule, on complex values."""
        defn, flags = OPS[attrs.pop("operation")], attrs.pop("complex")
        size = next(v.tensor.shape[0] for v, has in zip(operands, batched, strict=True) if has)
        pairs = list(zip(operands, batched, strict=True))
        joined, mapped = [], []
        for is_pair, group in _grouped(pairs, flags):
            has = any(own for _, own in group)
            parts = [
                v if own or not has else b.broadcast_to(v, (size, *v.tensor.shape))
                for v, own in group
            ]
            joined.append(b.complex(*parts) if is_pair else parts[0])
            mapped.append(has)
        made = defn.batch(b, joined, mapped, **attrs)
        results: list[Value] = []
        for result in made if isinstance(made, tuple) else (made,):
            both = result.tensor.dtype.is_complex
            results += [b.real(result), b.imag(result)] if both else [result]
        return tuple(results)

    def lower_nest(
        self,
        k: Kernel,
        outs: Sequence[Value],
        *operands: Any,
        operation: str,
        complex: tuple[bool, ...],
        **attrs: Any,
    ) -> None:
        """The operation's loops; of an index form, one turn for each element."""
        defn, kernel = OPS[operation], PairKernel(k)
        given = [
            _Pairs(group, _complex(group[0].type)) if is_pair else group[0]
            for is_pair, group in _grouped(operands, complex)
        ]
        inferred: Any = defn.infer(*(x.type for x in given), **attrs)
        results = inferred if isinstance(inferred, tuple) else (inferred,)
        made: list[Any] = [
            _Pairs(group, BufferType(t.dtype, t.shape)) if t.dtype.is_complex else group[0]
            for t, (_, group) in zip(
                results, _grouped(outs, [t.dtype.is_complex for t in results]), strict=True
            )
        ]
        if defn.starts_as is not None:
            first: Any = given[defn.starts_as]
            k.loop(first.type.shape, lambda i: kernel.store(first[i], made[0], i))
        if defn.form == "nest":
            defn.lower_nest(kernel, made, *given, **attrs)
            return

        def element(i: Index) -> None:
            kernel.store(defn.lower(kernel, i, *given, **attrs), made[0], i)

        k.loop(results[0].shape, element)

    def samples(self) -> Iterator[Sample]:
        """Loops that carry a value along, and loops that reduce."""
        for shape in ((2, 3), (0, 3)):
            cumulative = {"operation": "cumprod", "complex": (True,), "axis": 1}
            for attrs in (
                cumulative,
                {"operation": "reduce_prod", "complex": (True,), "axes": (1,)},
            ):
                sample = example(shape, **attrs)
                yield Sample(sample.types * 2, sample.attrs)


class PairKernel:
    """A kernel whose elements are numbers or pairs: what it is told of pairs, it tells another of their parts."""

    def __init__(self, kernel: Kernel) -> None:
        """Write through this kernel."""
        self._k = kernel

    def full_like(self, value: Any, like: Value) -> Value:
        """A number of the dtype of an element."""
        return self._k.constant(value, like.type.dtype)

    def constant(self, value: Any, dtype: DType) -> Any:
        """A literal."""
        if not dtype.is_complex:
            return self._k.constant(value, dtype)
        number, kind = np.complex128(value), dtype.real_dtype
        return Pair(*(self._k.constant(float(v), kind) for v in (number.real, number.imag)))

    def apply(self, op: Op, *values: Any, **attrs: Any) -> Any:
        """An elementwise operation, on pairs by its formula."""
        if any(isinstance(v, Pair) for v in values) or _makes_pairs(attrs):
            return op.pairs(self, *values, **attrs)  # type: ignore[arg-type]
        return self._k.apply(op, *values, **attrs)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """An elementwise operation, or what is the same for pairs as for numbers."""
        defn = OPS.get(name.removesuffix("_"))
        if not isinstance(defn, Elementwise):
            return getattr(self._k, name)  # type: ignore[no-any-return]
        return lambda *values, **attrs: self.apply(defn, *values, **attrs)

    def reduce(
        self, combine: str, extents: Shape, dtype: DType, body: Callable[[Index], Any]
    ) -> Any:
        """Combine values over all indices; pairs in order."""
        if not dtype.is_complex:
            return self._k.reduce(combine, extents, dtype, body)
        start = self.constant(neutral(combine, dtype), dtype)

        def step(r: Index, carried: Sequence[Any]) -> Sequence[Any]:
            return (self.apply(OPS[combine], carried[0], body(r)),)

        return self.fold(extents, (start,), step)[0]

    def fold(
        self,
        extents: Shape,
        init: Sequence[Any],
        body: Callable[[Index, Sequence[Any]], Sequence[Any]],
    ) -> tuple[Any, ...]:
        """Carry values along, both parts of pairs."""
        flags = [isinstance(v, Pair) for v in init]

        def step(r: Index, carried: Sequence[Value]) -> Sequence[Value]:
            return _flat(body(r, _paired(carried, flags)))

        return tuple(_paired(self._k.fold(extents, _flat(init), step), flags))

    def store(self, value: Any, buffer: Any, index: Index) -> None:
        """Write an element."""
        if isinstance(value, Pair):
            self._k.store(value.re, buffer.re, index)
            self._k.store(value.im, buffer.im, index)
        else:
            self._k.store(value, buffer, index)

    def load(self, buffer: Any, index: Index) -> Any:
        """Read an element."""
        if isinstance(buffer, _Pairs):
            return Pair(self._k.load(buffer.re, index), self._k.load(buffer.im, index))
        return self._k.load(buffer, index)


def _makes_pairs(attrs: Mapping[str, Any]) -> bool:
    """Whether numbers become complex: a conversion says so."""
    return isinstance(attrs.get("dtype"), DType) and attrs["dtype"].is_complex


class _Pairs:
    """Two operands, or two buffers, that hold the parts of complex numbers."""

    def __init__(self, parts: Sequence[Any], type: Any) -> None:
        self.re, self.im = parts
        self.type = type

    def __getitem__(self, index: Index) -> Pair:
        return Pair(self.re[index], self.im[index])


def _complex(t: TensorType) -> TensorType:
    """The complex type whose parts are of a type.

    Raises:
        DTypeError: there is none.
    """
    if t.dtype not in (F32, F64):
        raise DTypeError(f"pairwise: the parts must be float32 or float64, got {t.dtype.code}")
    return t.with_dtype(C64 if t.dtype == F32 else C128)


def _grouped(items: Sequence[Any], flags: Sequence[bool]) -> list[tuple[bool, tuple[Any, ...]]]:
    """The items one by one, or two where the flag is set, with the flags."""
    left = iter(items)
    return [(flag, tuple(next(left) for _ in range(1 + flag))) for flag in flags]


def _flat(values: Sequence[Any]) -> list[Any]:
    return [p for v in values for p in ((v.re, v.im) if isinstance(v, Pair) else (v,))]


def _paired(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [Pair(*group) if flag else group[0] for flag, group in _grouped(values, flags)]
