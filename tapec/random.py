"""Random tensors.

Numbers are a pure function of a key, a pair of a seed and a counter, so that the same key gives the
same numbers eagerly, compiled and on every target. The functions without a key take one from the
global generator, whose state is a Variable: a compiled step advances it as an eager one does. The
values are not TensorFlow's.
"""

from __future__ import annotations

import secrets
import threading
from typing import Any

import numpy as np

from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    cast,
    floormod,
    maximum,
    multiply,
    negative,
    subtract,
)
from tapec.functions.broadcasting import binary, like, misfit
from tapec.functions.elementary import log
from tapec.functions.indexing import gather
from tapec.functions.known import as_shape, static_value
from tapec.functions.ordering import argsort
from tapec.functions.rearrangement import expand_dims, reshape, stack
from tapec.functions.reductions import argmax
from tapec.functions.special import erfinv
from tapec.ir.types import F32, I64, U64, DType, Shape, TensorType, as_dtype
from tapec.recording import tracing
from tapec.tensor import Tensor, TensorLike, apply, as_tensor
from tapec.variable import Variable

_MASK = 2**64 - 1
#: What a seeded operation starts from while nobody has called `set_seed`.
_DEFAULT_SEED = 87654321


def _mixed(number: int) -> int:
    """A number spread over 64 bits: near seeds give far keys (splitmix64, Steele et al. 2014)."""
    z = (number + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def _start(seed: int) -> Any:
    """The first state of the stream of a seed."""
    return np.array([_mixed(seed), 0], np.uint64)


class Generator:
    """A stream of random tensors; ``state`` is a Variable u64[2], a seed and the number of draws.

    Example: ``Generator.from_seed(1).normal([2, 3])``.
    """

    def __init__(self, seed: int) -> None:
        """Start a stream; use `from_seed` or `from_non_deterministic_state`."""
        with tracing(None):  # it outlives a function that makes it while it is compiled
            self.state = Variable(_start(seed), trainable=False, name="random")
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles keep: all but the lock, which is of this stream."""
        return {"state": self.state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    @classmethod
    def from_seed(cls, seed: int, alg: Any = None) -> Generator:
        """A stream that is the same for the same seed; ``alg`` is ignored, there is one."""
        return cls(int(seed))

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """A stream that nobody can repeat."""
        return cls(secrets.randbits(64))

    def reset_from_seed(self, seed: int) -> None:
        """Start the stream of a seed, in place: compiled functions see it."""
        self.state.assign(_start(int(seed)))

    def reset(self, state: TensorLike) -> None:
        """Continue from a state taken with ``generator.state``."""
        self.state.assign(state)

    def next_key(self) -> Tensor:
        """The key of the next draw; the state moves on."""
        with self._lock:
            key = self.state.read_value()
            self.state.assign(add(key, as_tensor([0, 1], U64)))
        return key

    def skip(self, delta: int) -> None:
        """Pass over ``delta`` draws."""
        self.state.assign_add(as_tensor([0, int(delta)], U64))

    def split(self, count: int = 1) -> list[Generator]:
        """Independent streams, made from the next draws."""
        bits = apply("random_bits", self.next_key(), type=TensorType(U64, (int(count),)))
        return [Generator(int(b)) for b in bits.array]

    def make_seeds(self, count: int = 1) -> Tensor:
        """``[2, count]`` int64 seeds for the stateless functions."""
        bits = apply("random_bits", self.next_key(), type=TensorType(U64, (2, int(count))))
        return cast(bits, I64)

    def uniform(
        self, shape: Any, minval: TensorLike = 0, maxval: TensorLike = None, dtype: Any = F32
    ) -> Tensor:
        """See `tapec.random.uniform`."""
        return _uniform(self.next_key(), shape, minval, maxval, dtype)

    def normal(
        self, shape: Any, mean: TensorLike = 0.0, stddev: TensorLike = 1.0, dtype: Any = F32
    ) -> Tensor:
        """See `tapec.random.normal`."""
        return _normal(self.next_key(), shape, mean, stddev, dtype)

    def truncated_normal(
        self, shape: Any, mean: TensorLike = 0.0, stddev: TensorLike = 1.0, dtype: Any = F32
    ) -> Tensor:
        """See `tapec.random.truncated_normal`."""
        return _truncated_normal(self.next_key(), shape, mean, stddev, dtype)


class _Streams:
    """The global generator, and one for each ``seed`` argument; `set_seed` restarts them all."""

    def __init__(self) -> None:
        self.main = Generator.from_non_deterministic_state()
        self.seed: int | None = None
        self.seeded: dict[int, Generator] = {}

    def next_key(self, seed: int | None) -> Tensor:
        """The next key of the stream for a ``seed`` argument."""
        if seed is None:
            return self.main.next_key()
        stream = self.seeded.get(seed)
        if stream is None:
            stream = self.seeded[seed] = Generator(self._start(seed))
        return stream.next_key()

    def _start(self, seed: int) -> int:
        return _mixed(_DEFAULT_SEED if self.seed is None else self.seed) ^ seed

    def restart(self, seed: int) -> None:
        """Seed every stream anew, in place."""
        self.seed = seed
        self.main.reset_from_seed(seed)
        for own, stream in self.seeded.items():
            stream.reset_from_seed(self._start(own))


_STREAMS = _Streams()


def set_seed(seed: int) -> None:
    """Make all that follows repeatable.

    Example: ``set_seed(1)`` before two equal programs gives them the same numbers.
    """
    _STREAMS.restart(int(seed))


def get_global_generator() -> Generator:
    """The generator that `normal`, `uniform` and the others draw from."""
    return _STREAMS.main


def set_global_generator(generator: Generator) -> None:
    """Let another generator take its place; functions compiled before keep the old one."""
    _STREAMS.main = generator


def uniform(
    shape: Any,
    minval: TensorLike = 0,
    maxval: TensorLike = None,
    dtype: Any = F32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers uniform in ``[minval, maxval)``: floats, or integers.

    Args:
        shape: of the result.
        minval: the lower bound; bounds may be tensors that broadcast to ``shape``.
        maxval: the upper bound; 1 for floats, required for integers.
        dtype: of the result.
        seed: selects a stream of its own, repeatable even without `set_seed`.

    Raises:
        ValueError: integers without ``maxval``.
    """
    return _uniform(_STREAMS.next_key(seed), shape, minval, maxval, dtype)


def normal(
    shape: Any,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: Any = F32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """``mean + stddev * e`` with ``e`` from the standard normal distribution.

    Gradients flow to ``mean`` and ``stddev``, which broadcast to ``shape``. For ``seed`` see
    `uniform`.
    """
    return _normal(_STREAMS.next_key(seed), shape, mean, stddev, dtype)


def truncated_normal(
    shape: Any,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: Any = F32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`normal` numbers no further than two standard deviations from the mean."""
    return _truncated_normal(_STREAMS.next_key(seed), shape, mean, stddev, dtype)


def categorical(
    logits: TensorLike,
    num_samples: Any,
    dtype: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Classes drawn from unnormalised log-probabilities.

    Args:
        logits: ``[batch, classes]``.
        num_samples: draws for each row.
        dtype: of the result, an integer; int64 if None.
        seed: see `uniform`.

    Returns:
        ``[batch, num_samples]`` integers in ``[0, classes)``.
    """
    return _categorical(
        _STREAMS.next_key(seed), logits, num_samples, I64 if dtype is None else dtype
    )


def shuffle(value: TensorLike, seed: int | None = None, name: str | None = None) -> Tensor:
    """The entries of the first axis in random order."""
    x = as_tensor(value)
    bits = apply("random_bits", _STREAMS.next_key(seed), type=TensorType(U64, x.type.shape[:1]))
    return gather(x, argsort(bits))


# -- the same of a key


def stateless_uniform(
    shape: Any,
    seed: TensorLike,
    minval: TensorLike = 0,
    maxval: TensorLike = None,
    dtype: Any = F32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """`uniform` numbers that depend on ``seed``, two integers, alone."""
    return _uniform(_key(seed), shape, minval, maxval, dtype)


def stateless_normal(
    shape: Any,
    seed: TensorLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: Any = F32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """`normal` numbers that depend on ``seed``, two integers, alone."""
    return _normal(_key(seed), shape, mean, stddev, dtype)


def stateless_truncated_normal(
    shape: Any,
    seed: TensorLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: Any = F32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """`truncated_normal` numbers that depend on ``seed``, two integers, alone."""
    return _truncated_normal(_key(seed), shape, mean, stddev, dtype)


def stateless_categorical(
    logits: TensorLike,
    num_samples: Any,
    seed: TensorLike,
    dtype: Any = I64,
    name: str | None = None,
) -> Tensor:
    """`categorical` draws that depend on ``seed``, two integers, alone."""
    return _categorical(_key(seed), logits, num_samples, dtype)


def split(seed: TensorLike, num: int = 2, alg: Any = "auto_select") -> Tensor:
    """``[num, 2]`` seeds from one, of its dtype, as good as independent."""
    key = as_tensor(seed)
    bits = apply("random_bits", _key(key), type=TensorType(U64, (int(num), 2)))
    return cast(bits, key.type.dtype)


def fold_in(seed: TensorLike, data: TensorLike, alg: Any = "auto_select") -> Tensor:
    """A seed from a seed and an integer, such as the number of a step."""
    key = as_tensor(seed)
    bits = apply("random_bits", _key(key), type=TensorType(U64, (2,)))
    word = reshape(cast(as_tensor(data), U64), ())
    return cast(binary("xor", bits, stack([word, as_tensor(0, U64)])), key.type.dtype)


def _key(seed: TensorLike) -> Tensor:
    key = as_tensor(seed)
    if key.type.shape != (2,) or not key.type.dtype.is_integer:
        raise misfit(f"seed must have shape [2] and an integer dtype, got {key.type}")
    return cast(key, U64)


def _shape_and_dtype(shape: Any, dtype: Any) -> tuple[Shape, DType]:
    return as_shape(shape), as_dtype(dtype)


def _uniform(key: Tensor, shape: Any, minval: TensorLike, maxval: TensorLike, dtype: Any) -> Tensor:
    sizes, target = _shape_and_dtype(shape, dtype)
    if target.is_integer:
        return _integers(key, sizes, minval, maxval, target)
    numbers: Tensor = apply("random_uniform", key, type=TensorType(target, sizes))
    if maxval is None and _is(minval, 0):
        return numbers
    low, high = like(minval, target), like(1 if maxval is None else maxval, target)
    return add(multiply(numbers, subtract(high, low)), low)


def _is(value: TensorLike, number: float) -> bool:
    return isinstance(value, int | float) and value == number


def _integers(
    key: Tensor, shape: Shape, minval: TensorLike, maxval: TensorLike, dtype: DType
) -> Tensor:
    if maxval is None:
        raise ValueError(f"Must specify maxval for integer dtype {dtype.name}", location=here())
    low, high = like(minval, dtype), like(maxval, dtype)
    bits = apply("random_bits", key, type=TensorType(U64, shape))
    # 64 bits modulo the range: the bias is below the range times 2 ** -64.
    return add(cast(floormod(bits, cast(subtract(high, low), U64)), dtype), low)


def _normal(key: Tensor, shape: Any, mean: TensorLike, stddev: TensorLike, dtype: Any) -> Tensor:
    sizes, target = _shape_and_dtype(shape, dtype)
    numbers: Tensor = apply("random_normal", key, type=TensorType(target, sizes))
    return _scaled(numbers, mean, stddev)


def _scaled(numbers: Tensor, mean: TensorLike, stddev: TensorLike) -> Tensor:
    dtype = numbers.type.dtype
    if not _is(stddev, 1):
        numbers = multiply(numbers, like(stddev, dtype))
    return numbers if _is(mean, 0) else add(numbers, like(mean, dtype))


def _truncated_normal(
    key: Tensor, shape: Any, mean: TensorLike, stddev: TensorLike, dtype: Any
) -> Tensor:
    """By the inverse of the distribution function, so that no draw is rejected."""
    sizes, target = _shape_and_dtype(shape, dtype)
    working = target if target.bits >= 32 else F32
    numbers = apply("random_uniform", key, type=TensorType(working, sizes))
    bound = 0.9544997361036416  # erf(sqrt(2)): the probability of being within two deviations
    spread = multiply(subtract(multiply(numbers, 2.0), 1.0), bound)
    return _scaled(cast(multiply(erfinv(spread), 2**0.5), target), mean, stddev)


def _categorical(key: Tensor, logits: TensorLike, num_samples: Any, dtype: Any) -> Tensor:
    """The greatest of logits plus Gumbel noise (Gumbel 1954)."""
    x = as_tensor(logits)
    if x.type.rank != 2:
        raise misfit(f"logits should be a matrix [batch, classes], got {x.type}")
    count = static_value(num_samples, "num_samples")
    shape = (x.type.shape[0], count, x.type.shape[1])
    numbers = apply("random_uniform", key, type=TensorType(F32, shape))
    waiting = maximum(negative(log(subtract(1.0, numbers))), 1e-30)
    noise = cast(negative(log(waiting)), x.type.dtype)
    return argmax(add(expand_dims(x, 1), noise), axis=2, output_type=dtype)
