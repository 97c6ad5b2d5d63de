"""Discrete Fourier transforms along the last axis, without a factor in front."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from math import cos, pi, prod, sin
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir import pairs
from tapec.ir.dims import DimLike
from tapec.ir.errors import DTypeError, ShapeError, TargetError
from tapec.ir.op import OPS, Cotangents, Index, Kernel, Op, Sample, require_same_shape, spread
from tapec.ir.pairs import Pair
from tapec.ir.types import C128, F32, F64, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value

#: Numbers of points that one butterfly takes; other sizes are convolved (`_convolved`).
_RADICES = (4, 2, 3, 5, 7, 11, 13)
#: From this many on, neighbours in a loop are computed together.
_WIDE = 8


class Fft(Op):
    """``y[k] = sum over n of x[n] e ** (-2 pi i k n / N)`` along the last axis; ``inverse``: with a plus there.

    There is no factor ``1 / N``: with ``inverse`` it is N times the inverse of the transform without.
    """

    name = "fft"
    form = "nest"

    def infer(self, *types: Any, inverse: bool) -> TensorType:
        """The operand's type."""
        (x,) = types
        if not x.dtype.is_complex:
            raise DTypeError(f"fft takes complex numbers, got {x.dtype.code}")
        if not x.rank:
            raise ShapeError("fft: a scalar has no axis to transform")
        result: TensorType = x
        return result

    def evaluate(self, *arrays: Any, inverse: bool) -> Any:
        """`numpy.fft`, in the operand's own precision."""
        (x,) = arrays
        if not x.shape[-1]:
            return x.copy()
        with np.errstate(all="ignore"):
            y = np.fft.ifft(x, norm="forward") if inverse else np.fft.fft(x)
        return y.astype(x.dtype, copy=False)

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The transform with the other sign: the matrix is symmetric, and the cotangent meets its conjugate."""
        return (b.fft(cts[0], inverse=not op.attrs["inverse"]),)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more axis in front."""
        return b.fft(*operands, **attrs)

    def pairs(self, b: Builder, *operands: Any, inverse: bool) -> Any:
        """`dft` for sizes that have small factors only; others by way of a convolution."""
        (z,) = operands
        n = z.re.tensor.shape[-1]
        if isinstance(n, int) and factors(n) is None:
            return _convolved(b, z, n, inverse)
        return Pair(*b.dft(z.re, z.im, inverse=inverse))

    def lower_nest(self, k: Kernel, outs: Sequence[Value], *operands: Any, **attrs: Any) -> None:
        """There are no complex loops."""
        raise TargetError("fft: loops cannot be written over complex numbers")

    def samples(self) -> Iterator[Sample]:
        """Sizes of each radix and of several, a large prime factor, batches, one element, none."""
        for shape in ((1,), (2,), (2, 3), (4,), (5,), (7,), (17,), (0,), (0, 4)):
            yield Sample((TensorType(C128, shape),), {"inverse": False})
        yield Sample((TensorType(C128, (2, 12)),), {"inverse": True})
        yield Sample((TensorType(C128, (19,)),), {"inverse": True})

    def flops(self, op: Operation) -> DimLike:
        """``5 N log2 N`` for each line."""
        return _flops(op)


class Dft(Op):
    """`fft` on parts: operands and results are real and imaginary parts. The size has no prime factor above 13."""

    name = "dft"
    form = "nest"

    def infer(self, *types: Any, inverse: bool) -> tuple[TensorType, TensorType]:
        """The operands' common type, twice."""
        re, im = types
        if re.dtype not in (F32, F64) or re.dtype != im.dtype:
            raise DTypeError(
                f"dft takes float32 or float64 parts, got {re.dtype.code} and {im.dtype.code}"
            )
        require_same_shape(self.name, re, im)
        if not re.rank:
            raise ShapeError("dft: a scalar has no axis to transform")
        n = re.shape[-1]
        if isinstance(n, int) and factors(n) is None:
            raise ShapeError(f"dft: {n} has a prime factor above {max(_RADICES)}", hint="use fft")
        return re, re

    def evaluate(self, *arrays: Any, inverse: bool) -> Any:
        """The parts of `numpy.fft`'s result."""
        y = OPS["fft"].evaluate(OPS["complex"].evaluate(*arrays), inverse=inverse)
        return y.real.copy(), y.imag.copy()

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """The transform with the other sign."""
        given = [b.full_like(0, op.operands[0]) if ct is None else ct for ct in cts]
        re, im = b.dft(*given, inverse=not op.attrs["inverse"])
        return re, im

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more axis in front."""
        return b.dft(*spread(b, operands, batched), **attrs)

    def lower_nest(self, k: Kernel, outs: Sequence[Value], *operands: Any, inverse: bool) -> None:
        """For each line, stages of butterflies: the first reads the operands, the others work in the results.

        Source: Cooley and Tukey, "An algorithm for the machine calculation of complex Fourier series", 1965.
        """
        *lead, n = operands[0].type.shape
        if not isinstance(n, int):
            raise TargetError(f"dft: the size {n} must be known")
        radices = factors(n)
        assert radices is not None
        if n == 0:
            return
        lengths = list(accumulate(radices, mul, initial=1))

        def line(i: Index) -> None:
            stages = _Stages(k, outs, operands, i, inverse)
            stages.first(radices)
            for radix, length in zip(radices[1:], lengths[1:], strict=False):
                stages.combine(radix, length, n)

        k.loop(tuple(lead), line)

    def samples(self) -> Iterator[Sample]:
        """Sizes of each radix and of several, batches, one element, none."""
        for shape in ((1,), (2, 3), (8,), (5,), (6,), (0,), (0, 4)):
            yield Sample((TensorType(F64, shape),) * 2, {"inverse": False})
        yield Sample((TensorType(F64, (2, 4)),) * 2, {"inverse": True})

    def flops(self, op: Operation) -> DimLike:
        """``5 N log2 N`` for each line."""
        return _flops(op)


class _Stages:
    """The butterflies of one line."""

    def __init__(
        self, k: Kernel, outs: Sequence[Value], operands: Sequence[Any], line: Index, inverse: bool
    ) -> None:
        self.k = k
        self.outs = outs
        self.operands = operands
        self.line = line
        self.sign = 1 if inverse else -1
        self.dtype = operands[0].type.dtype

    def first(self, radices: tuple[int, ...]) -> None:
        """Transforms of the first radix, of elements far apart, into the places where the next stage wants them.

        An element's number has a digit for each radix, the last radix's the lowest; its place has them in the other
        order.
        """
        radix, rest = radices[0], radices[1:]
        steps = [prod(rest[t + 1 :]) for t in range(len(rest))]
        places = [radix * prod(rest[:t]) for t in range(len(rest))]

        def butterfly(digits: Index) -> None:
            number: DimLike = 0
            place: DimLike = 0
            for digit, t in zip(digits, reversed(range(len(rest))), strict=True):
                number = number + digit * steps[t]
                place = place + digit * places[t]
            points = [
                Pair(*(x[(*self.line, number + q * prod(rest))] for x in self.operands))
                for q in range(radix)
            ]
            self._store(self._transform(points), place, 1)

        self.k.loop(tuple(reversed(rest)), butterfly)

    def combine(self, radix: int, length: int, size: int) -> None:
        """Make one transform of ``radix`` neighbouring ones of this length, everywhere in the line."""
        angles = np.outer(np.arange(1, radix), np.arange(length)) * (2 * pi / (radix * length))
        cosines = self.k.table(np.cos(angles), self.dtype)
        sines = self.k.table(self.sign * np.sin(angles), self.dtype)

        def block(i: Index) -> None:
            start = i[0] * (radix * length)

            def butterfly(j: DimLike) -> None:
                points = [self._load(start + j)]
                for q in range(1, radix):
                    turn = Pair(self.k.load(cosines, (q - 1, j)), self.k.load(sines, (q - 1, j)))
                    value = self._load(start + q * length + j)
                    points.append(pairs.mul(self.k, value, turn))
                self._store(self._transform(points), start + j, length)

            self.k.along(length, butterfly, vector=length >= _WIDE)

        self.k.loop((size // (radix * length),), block)

    def _load(self, place: DimLike) -> Pair:
        return Pair(*(self.k.load(out, (*self.line, place)) for out in self.outs))

    def _store(self, points: Sequence[Pair], place: DimLike, step: int) -> None:
        for q, z in enumerate(points):
            for part, out in zip((z.re, z.im), self.outs, strict=True):
                self.k.store(part, out, (*self.line, place + q * step))

    def _transform(self, points: Sequence[Pair]) -> list[Pair]:
        """The transform of as many points as there are."""
        k, count = self.k, len(points)
        if count == 1:
            return list(points)
        if count % 2:
            return self._odd(points)
        # Transforms of the even and of the odd points, of 1 or 2 each: their turns are by 1 and by i.
        even, odd = self._transform(points[::2]), self._transform(points[1::2])
        if count == 4:
            odd[1] = (pairs.turned if self.sign > 0 else pairs.turned_back)(k, odd[1])
        sums = [pairs.add(k, a, c) for a, c in zip(even, odd, strict=True)]
        return sums + [pairs.sub(k, a, c) for a, c in zip(even, odd, strict=True)]

    def _odd(self, points: Sequence[Pair]) -> list[Pair]:
        """Points q and -q have conjugate turns: their sum meets cosines, their difference sines."""
        k, count = self.k, len(points)
        half = range(1, count // 2 + 1)
        sums = [pairs.add(k, points[q], points[-q]) for q in half]
        differences = [pairs.sub(k, points[q], points[-q]) for q in half]
        total = points[0]
        for z in sums:
            total = pairs.add(k, total, z)
        results = [total] * count
        for p in half:
            along, across = points[0], None
            for q, s, d in zip(half, sums, differences, strict=True):
                angle = 2 * pi * (p * q % count) / count
                along = pairs.add(k, along, self._scaled(cos(angle), s))
                term = self._scaled(self.sign * sin(angle), d)
                across = term if across is None else pairs.add(k, across, term)
            assert across is not None
            turned = pairs.turned(k, across)
            results[p], results[-p] = pairs.add(k, along, turned), pairs.sub(k, along, turned)
        return results

    def _scaled(self, factor: float, z: Pair) -> Pair:
        number = self.k.constant(factor, self.dtype)
        return Pair(self.k.mul(number, z.re), self.k.mul(number, z.im))


@cache
def factors(n: int) -> tuple[int, ...] | None:
    """The radices whose product a size is; None if it has another prime factor."""
    found = []
    for radix in _RADICES:
        while n and n % radix == 0:
            found.append(radix)
            n //= radix
    # Long loops are fast, and the larger the first radix the longer are those of the next stages.
    return tuple(sorted(found, reverse=True)) or (1,) if n <= 1 else None


def _convolved(b: Builder, z: Pair, n: int, inverse: bool) -> Pair:
    """The transform of any size as a convolution, which is done by transforms of a power of 2.

    With ``2 k n = k² + n² - (k - n)²`` the sum over n is a convolution with the chirp ``e ** (i pi n² / N)``.

    Source: Bluestein, "A linear filtering approach to the computation of the discrete Fourier transform", 1970.
    """
    size = 1 << (2 * n - 2).bit_length()
    squares = np.arange(n, dtype=np.int64) ** 2 % (2 * n)  # exact: the chirp has this period
    chirp = np.exp((1 if inverse else -1) * 1j * pi / n * squares)
    kernel = np.zeros(size, np.complex128)
    kernel[:n] = np.conj(chirp)
    kernel[size - n + 1 :] = np.conj(chirp[:0:-1])

    def constant(values: Any, like: Value) -> Pair:
        parts = (b.dense(p.copy(), like.tensor.dtype) for p in (values.real, values.imag))
        return Pair(*(b.broadcast_to(p, like.tensor.shape) for p in parts))

    rank = z.re.tensor.rank
    none = (0,) * rank
    turned = pairs.mul(b, z, constant(chirp, z.re))
    room = {"low": none, "high": (*none[1:], size - n), "interior": none}
    long = Pair(*(b.pad(x, value=0.0, **room) for x in (turned.re, turned.im)))
    spectrum = Pair(*b.dft(long.re, long.im, inverse=False))
    product = pairs.mul(b, spectrum, constant(np.fft.fft(kernel) / size, spectrum.re))
    back = b.dft(product.re, product.im, inverse=True)
    part = {"starts": none, "sizes": z.re.tensor.shape, "strides": (1,) * rank}
    return pairs.mul(b, Pair(*(b.slice(x, **part) for x in back)), constant(chirp, z.re))


def _flops(op: Operation) -> DimLike:
    x = op.results[0].tensor
    n = x.shape[-1]
    return 5 * x.size * (n.bit_length() if isinstance(n, int) else 1)
