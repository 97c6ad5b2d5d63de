"""Random numbers as pure functions of a key: they may be moved, recomputed, and drawn in any order.

A key is two unsigned 64-bit integers, a seed and a counter. Element ``i`` of a result depends on
the key and ``i`` alone. A block ``(n, counter)`` of Philox-4x32-10 under the seed is four 32-bit
words; elements take as many as they need, one after the other: of 32-bit numbers block ``n`` makes
those from ``4 n`` on, of 64-bit numbers those from ``2 n`` on, and a normal number takes a block.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import pi, prod
from sys import byteorder
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.composed import QUIET_ARRAYS
from tapec.ir.dims import DimLike
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.op import Index, Kernel, Op, Sample, require_sizes
from tapec.ir.types import BF16, F16, F32, F64, I32, I64, U32, U64, DType, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF
_HALF = 32
_ROUNDS = 10
#: Where the low word of a u64 is in memory.
_LOW_PART = 0 if byteorder == "little" else 1
#: Blocks made at once: what a round reads and writes stays in the processor's cache.
_PIECE = 16384
_MULTIPLIER_PAIR = np.array(_MULTIPLIERS, np.uint64)
#: What is added to the keys until each round.
_WEYL_STEPS = np.arange(_ROUNDS, dtype=np.uint64)[:, None] * np.array(_WEYL, np.uint64)

#: Random bits in a uniform number: what the significand holds, so that none rounds up to 1.
_PRECISION = {F16: 11, BF16: 8, F32: 24, F64: 53}

Words = tuple[Any, ...]


def philox(k: Kernel, seed: Any, counter: Any, index: Any) -> Words:
    """The block ``(index, counter)`` under ``seed``: four words, each in the low half of a u64.

    All arithmetic is on u64, where a product of two words is exact. What is multiplied is masked, not what is kept:
    processors that multiply low halves need no instruction for that.
    """
    low = k.constant(_LOW, U64)
    half = k.constant(_HALF, U64)
    a, b = index, k.shr(index, half)
    c, d = counter, k.shr(counter, half)
    keys = [k.and_(seed, low), k.shr(seed, half)]
    m, n = (k.constant(value, U64) for value in _MULTIPLIERS)
    weyl = [k.constant(value, U64) for value in _WEYL]
    for number in range(_ROUNDS):
        if number:
            keys = [k.and_(k.add(key, w), low) for key, w in zip(keys, weyl, strict=True)]
        p, q = k.mul(m, k.and_(a, low)), k.mul(n, k.and_(c, low))
        a, c = (
            k.xor(k.xor(k.shr(q, half), b), keys[0]),
            k.xor(k.xor(k.shr(p, half), d), keys[1]),
        )
        b, d = q, p
    first, second, third, fourth = (k.and_(word, low) for word in (a, b, c, d))
    return first, second, third, fourth


def philox_blocks(seed: Any, counter: Any, index: Any) -> Words:
    """`philox` on arrays, of which the index may have a lower rank: three calls of NumPy in a round.

    Both multiplied words are in one array, and a product is seen as the two words that it consists of, so neither
    halves nor what is masked are computed.
    """
    shape = np.broadcast_shapes(seed.shape, index.shape)
    ones = (1,) * len(shape)
    keys = np.empty((2, *seed.shape), np.uint64)
    keys[0], keys[1] = seed & _LOW, seed >> _HALF
    schedule = (keys + _WEYL_STEPS.reshape(_ROUNDS, 2, *ones)).astype(np.uint32)
    multipliers = _MULTIPLIER_PAIR.reshape(2, *ones)
    state, products = np.empty((2, *shape), np.uint64), np.empty((2, 2, *shape), np.uint64)
    state[0], state[1] = index & _LOW, counter & _LOW
    products[1, 1], products[1, 0] = index >> _HALF, counter >> _HALF
    factors = state.view(np.uint32)[..., _LOW_PART::2]
    # The products cross: the second is in the place of the first.
    halves = products.view(np.uint32)[:, ::-1]
    low, high = halves[..., _LOW_PART::2], halves[..., 1 - _LOW_PART :: 2]
    this, last = (products[0], low[0], high[0]), (products[1], low[1], high[1])
    for round_key in schedule:
        np.multiply(state, multipliers, this[0])
        np.bitwise_xor(this[2], last[1], factors)
        np.bitwise_xor(factors, round_key, factors)
        this, last = last, this
    return state[0], last[1][0], state[1], last[1][1]


def joined(k: Kernel, high: Any, low: Any) -> Any:
    """A u64 from two words."""
    return k.or_(k.shl(high, k.constant(32, U64)), low)


def fraction(k: Kernel, words: Words, dtype: DType, *, positive: bool = False) -> Any:
    """A float in ``[0, 1)``, or in ``(0, 1]`` if ``positive``, from the top bits of a word, or of two for float64."""
    bits = _PRECISION[dtype]
    wide = dtype == F64
    integer = U64 if wide else U32
    held = joined(k, words[0], words[1]) if wide else k.cast(words[0], dtype=U32)
    top = k.shr(held, k.constant(integer.bits - bits, integer))
    if positive:
        top = k.add(top, k.constant(1, integer))
    # Through a signed integer of the float's width: the conversion that every processor has.
    number = k.cast(k.cast(top, dtype=I64 if wide else I32), dtype=dtype)
    return k.mul(number, k.constant(2.0**-bits, dtype))


def _words(k: Kernel, seed: Any, counter: Any, position: DimLike, taken: int) -> Words:
    """The ``taken`` words that are those of the number at a position.

    Neighbours that fill blocks share their work.
    """
    numbers = 4 // taken
    blocks = k.groups(position, numbers)
    if blocks is not None:
        words = philox(k, seed, counter, k.cast(blocks, dtype=U64))
        parts = [words[n : n + taken] for n in range(0, 4, taken)]
        return tuple(k.interleaved(*same) for same in zip(*parts, strict=True))
    number = k.number(position, U64)
    words = philox(k, seed, counter, k.shr(number, k.constant(numbers.bit_length() - 1, U64)))
    part = k.and_(number, k.constant(numbers - 1, U64))
    found = words[:taken]
    for n in range(1, numbers):
        here = k.eq(part, k.constant(n, U64))
        some = words[n * taken : (n + 1) * taken]
        found = tuple(k.where(here, x, y) for x, y in zip(some, found, strict=True))
    return found


class RandomOp(Op):
    """Numbers of the given type from a key u64[2]; keys u64[n,2] make n results in one."""

    typed = True
    differentiable = False
    dtypes: tuple[DType, ...] = (F16, BF16, F32, F64)

    def draw(self, k: Kernel, words: Words, dtype: DType) -> Any:
        """One number from its words, each in the low half of a u64."""
        raise NotImplementedError

    def taken(self, dtype: DType, **attrs: Any) -> int:
        """How many words of a block make a number: 1, 2 or 4."""
        return 2 if dtype.bits == 64 else 1

    def together(self, op: Operation) -> int:
        """Those of a block."""
        return 4 // self.taken(op.result.tensor.dtype, **op.parameters)

    def infer(self, *types: Any, **attrs: Any) -> Any:
        """The given type."""
        (key,), target = types, attrs["type"]
        if key.dtype != U64 or key.shape[-1:] != (2,):
            raise DTypeError(f"{self.name}: a key is u64[2], got {key}")
        if key.shape[:-1] != target.shape[: key.rank - 1]:
            raise ShapeError(f"{self.name}: keys {key} do not lead {target}")
        if target.dtype not in self.dtypes:
            raise DTypeError(f"{self.name} does not make {target.dtype.code}")
        require_sizes(self.name, target.shape)
        return target

    def evaluate(self, *arrays: Any, **attrs: Any) -> Any:
        """The formula of `lower`, on arrays."""
        return self.kernel(**attrs)(*arrays)

    def kernel(self, **attrs: Any) -> Callable[..., Any]:
        """The same for one type."""
        target = attrs["type"]
        return partial(
            self._numbers, target, attrs.get("half", 0), self.taken(target.dtype, **attrs)
        )

    def _numbers(self, target: TensorType, half: int, taken: int, key: Any) -> Any:
        seed, counter = key[..., :1], key[..., 1:]
        count = prod(target.static_shape[key.ndim - 1 :])
        numbers = 4 // taken
        blocks = -(-count // numbers)
        values = np.empty((*key.shape[:-1], blocks, numbers), target.dtype.numpy)
        for start in range(0, blocks, _PIECE):
            index = np.arange(start, min(start + _PIECE, blocks), dtype=np.uint64)
            words = philox_blocks(seed, counter, index)
            for n in range(numbers):
                some = words[2 * half + n * taken :][:taken]
                values[..., start : start + _PIECE, n] = self.draw(QUIET_ARRAYS, some, target.dtype)
        values = values.reshape(*key.shape[:-1], blocks * numbers)[..., :count]
        return values.reshape(target.static_shape)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """Every key makes its own result."""
        (keys,), target = operands, attrs["type"]
        attrs["type"] = target.with_shape((keys.tensor.shape[0], *target.shape))
        return b.emit(self, keys, **attrs)

    def lower(self, k: Kernel, i: Index, *operands: Any, **attrs: Any) -> Value:
        """Blocks are numbered by the position within the result of their key."""
        (key,), target = operands, attrs["type"]
        lead = key.type.rank - 1
        position: DimLike = 0
        for place, extent in zip(i[lead:], target.shape[lead:], strict=True):
            position = position * extent + place
        seed, counter = key[(*i[:lead], 0)], key[(*i[:lead], 1)]
        taken = self.taken(target.dtype, **attrs)
        words = _words(k, seed, counter, position, taken)[2 * attrs.get("half", 0) :]
        result: Value = self.draw(k, words, target.dtype)
        return result

    def samples(self) -> Iterator[Sample]:
        """Every dtype, a scalar, a zero-size shape, and a key for each row."""
        key = TensorType(U64, (2,))
        for dtype in self.dtypes:
            yield Sample((key,), {"type": TensorType(dtype, (2, 3))})
        yield Sample((key,), {"type": TensorType(self.dtypes[0])})
        yield Sample((key,), {"type": TensorType(self.dtypes[0], (0, 3))})
        yield Sample((TensorType(U64, (4, 2)),), {"type": TensorType(self.dtypes[0], (4, 3))})


class RandomBits(RandomOp):
    """Integers with every bit random."""

    name = "random_bits"
    repeats_natively = True
    dtypes = (U32, U64)

    def draw(self, k: Kernel, words: Words, dtype: DType) -> Any:
        """A word, or two."""
        if dtype == U64:
            return joined(k, words[0], words[1])
        return k.cast(words[0], dtype=dtype)


class RandomUniform(RandomOp):
    """Floats uniform in ``[0, 1)``, multiples of the spacing just below 1.

    ``half``, if given: each takes a block, of which it uses the first half (0) or the other (1).
    """

    name = "random_uniform"
    repeats_natively = True

    def draw(self, k: Kernel, words: Words, dtype: DType) -> Any:
        """The top bits of a word, or of two."""
        return fraction(k, words, dtype)

    def taken(self, dtype: DType, **attrs: Any) -> int:
        """All of a block, if a half of it is asked for."""
        return 4 if "half" in attrs else super().taken(dtype)

    def samples(self) -> Iterator[Sample]:
        """The other half, too."""
        yield from super().samples()
        yield Sample((TensorType(U64, (2,)),), {"type": TensorType(F64, (2, 3)), "half": 1})


class RandomNormal(RandomOp):
    """Floats from the standard normal distribution.

    Source: Box and Muller, "A note on the generation of random normal deviates", 1958.
    """

    name = "random_normal"
    repeats_natively = True

    def exact(self, b: Builder, *operands: Any, **attrs: Any) -> Sequence[Value]:
        """The two uniform numbers."""
        kind = attrs["type"].with_dtype(_working(attrs["type"].dtype))
        return [b.random_uniform(*operands, type=kind, half=half) for half in (0, 1)]

    def rest(self, *arrays: Any, **attrs: Any) -> Any:
        """The operations of `draw` in its order, in place."""
        (u, v), dtype = arrays, attrs["type"].dtype
        number = _working(dtype).numpy.type
        u += number(2.0 ** -_PRECISION[_working(dtype)])
        np.log(u, out=u)
        u *= number(-2)
        np.sqrt(u, out=u)
        v *= number(2 * pi)
        np.cos(v, out=v)
        u *= v
        return u.astype(dtype.numpy, copy=False)

    def draw(self, k: Kernel, words: Words, dtype: DType) -> Any:
        """``sqrt(-2 log u) * cos(2 pi v)``; half precision is computed in single."""
        working = _working(dtype)
        u = fraction(k, words[:2], working, positive=True)
        v = fraction(k, words[2:], working)
        radius = k.sqrt(k.mul(k.constant(-2, working), k.log(u)))
        number = k.mul(radius, k.cos(k.mul(k.constant(2 * pi, working), v)))
        return number if dtype == working else k.cast(number, dtype=dtype)

    def taken(self, dtype: DType, **attrs: Any) -> int:
        """Two numbers of up to 64 bits."""
        return 4


def _working(dtype: DType) -> DType:
    return dtype if dtype == F64 else F32
