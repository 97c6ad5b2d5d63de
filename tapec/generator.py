"""Streams of random tensors: generators, and those that functions without a key draw from."""

from __future__ import annotations

import os
import threading
from enum import IntEnum
from typing import Any

import numpy as np

from tapec.draws import drawn
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions import distributions, rejection
from tapec.functions.arithmetic import add, cast
from tapec.ir.types import F32, I32, I64, U64, TensorType
from tapec.recording import current_trace, tracing
from tapec.tensor import Tensor, TensorLike, apply, as_tensor
from tapec.variable import Variable
from tapec.variables.claims import survive_fork

_MASK = 2**64 - 1
#: What a seeded operation starts from while nobody has called `set_seed`.
_DEFAULT_SEED = 87654321
#: What an eager draw adds to a state.
_ONE_DRAW = np.array([0, 1], np.uint64)


def _mixed(number: int) -> int:
    """A number spread over 64 bits: near seeds give far keys (splitmix64, Steele et al. 2014)."""
    z = (number + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def _start(seed: int) -> Any:
    """The first state of the stream of a seed."""
    return np.array([_mixed(seed), 0], np.uint64)


class Algorithm(IntEnum):
    """TensorFlow's names of what makes the numbers; here it is always Philox."""

    PHILOX = 1
    THREEFRY = 2
    AUTO_SELECT = 3


class Generator:
    """A stream of random tensors; ``state`` is a Variable u64[2], a seed and the number of draws.

    Example: ``Generator.from_seed(1).normal([2, 3])``.
    """

    state: Variable

    def __init__(
        self, copy_from: Generator | None = None, state: TensorLike = None, alg: Any = None
    ) -> None:
        """Start where another stream is, or from a state; see also `from_seed`.

        Raises:
            ValueError: neither is given, or both.
            TypeError: ``copy_from`` is no Generator.
        """
        if not isinstance(copy_from, Generator | None):
            raise TypeError(
                f"copy_from must be a Generator, got {type(copy_from).__name__}", location=here()
            )
        if (copy_from is None) == (state is None):
            raise ValueError("expected either copy_from or state", location=here())
        with tracing(None):  # it outlives a function that makes it while it is compiled
            start = as_tensor(state if copy_from is None else copy_from.state)
            if start.type.shape != (2,) or not start.type.dtype.is_integer:
                raise ValueError(f"a state has two integers, got {start.type}", location=here())
            self.state = Variable(cast(start, U64), trainable=False, name="random")
        self._lock = threading.RLock()
        survive_fork(self, "_lock")

    def __getstate__(self) -> dict[str, Any]:
        """What copies and pickles keep: all but the lock, which is of this stream."""
        return {"state": self.state}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())
        survive_fork(self, "_lock")

    @classmethod
    def from_seed(cls, seed: Any, alg: Any = None) -> Generator:
        """A stream that is the same for the same seed; ``alg`` is ignored, there is one."""
        return cls(state=_start(_integer(seed, "seed")))

    @classmethod
    def from_non_deterministic_state(cls, alg: Any = None) -> Generator:
        """A stream that nobody can repeat."""
        return cls(state=_start(int.from_bytes(os.urandom(8), "little")))

    @classmethod
    def from_state(cls, state: TensorLike, alg: Any = None) -> Generator:
        """The stream that continues from a state taken with ``generator.state``."""
        return cls(state=state)

    @classmethod
    def from_key_counter(cls, key: Any, counter: Any, alg: Any = None) -> Generator:
        """The stream of a key, from a counter on: a number, or TensorFlow's low and high half of one."""
        return cls(state=_joined(key, counter))

    @property
    def algorithm(self) -> int:
        """The number of `Algorithm.PHILOX`."""
        return int(Algorithm.PHILOX)

    @property
    def key(self) -> Tensor:
        """The first half of the state, which draws do not change."""
        return self.state.read_value()[0]

    def reset_from_key_counter(self, key: Any, counter: Any) -> None:
        """Continue as a stream of `from_key_counter` begins, in place."""
        self.state.assign(_joined(key, counter))

    def reset_from_seed(self, seed: Any) -> None:
        """Start the stream of a seed, in place: compiled functions see it."""
        self.state.assign(_start(_integer(seed, "seed")))

    def reset(self, state: TensorLike) -> None:
        """Continue from a state taken with ``generator.state``."""
        self.state.assign(state)

    def next_key(self) -> Tensor:
        """The key of the next draw; the state moves on."""
        return drawn(self._draw)

    def _draw(self) -> Tensor:
        trace = current_trace()
        if trace is not None:
            trace.root.call.streams[id(self)] = self
        with self._lock:
            key = self.state.read_value()
            if trace is None:  # no tape needs to hear of this
                self.state.adopt(key.array + _ONE_DRAW)
            else:
                self.state.assign(add(key, as_tensor([0, 1], U64)))
        return key

    def skip(self, delta: int) -> None:
        """Pass over ``delta`` draws."""
        self.state.assign_add(as_tensor([0, _integer(delta, "delta")], U64))

    def split(self, count: int = 1) -> list[Generator]:
        """Independent streams, made from the next draws."""
        bits = apply("random_bits", self.next_key(), type=TensorType(U64, (_count(count),)))
        return [Generator.from_seed(int(b)) for b in bits.array]

    def make_seeds(self, count: int = 1) -> Tensor:
        """``[2, count]`` int64 seeds for the stateless functions."""
        bits = apply("random_bits", self.next_key(), type=TensorType(U64, (2, _count(count))))
        return cast(bits, I64)

    def uniform(
        self,
        shape: Any,
        minval: TensorLike = 0,
        maxval: TensorLike = None,
        dtype: Any = F32,
        name: str | None = None,
    ) -> Tensor:
        """See `tapec.random.uniform`."""
        return distributions.uniform(self.next_key(), shape, minval, maxval, dtype)

    def normal(
        self,
        shape: Any,
        mean: TensorLike = 0.0,
        stddev: TensorLike = 1.0,
        dtype: Any = F32,
        name: str | None = None,
    ) -> Tensor:
        """See `tapec.random.normal`."""
        return distributions.normal(self.next_key(), shape, mean, stddev, dtype)

    def truncated_normal(
        self,
        shape: Any,
        mean: TensorLike = 0.0,
        stddev: TensorLike = 1.0,
        dtype: Any = F32,
        name: str | None = None,
    ) -> Tensor:
        """See `tapec.random.truncated_normal`."""
        return distributions.truncated_normal(self.next_key(), shape, mean, stddev, dtype)

    def uniform_full_int(self, shape: Any, dtype: Any = U64, name: str | None = None) -> Tensor:
        """Integers of 32 or 64 bits with every bit random."""
        return distributions.full_integers(self.next_key(), shape, dtype)

    def binomial(
        self,
        shape: Any,
        counts: TensorLike,
        probs: TensorLike,
        dtype: Any = I32,
        name: str | None = None,
    ) -> Tensor:
        """See `tapec.random.stateless_binomial`."""
        return rejection.binomial(
            self.next_key(), distributions.sizes_of(shape), counts, probs, dtype
        )


def create_rng_state(seed: int, alg: Any = None) -> Any:
    """The state of `Generator.from_seed`, a NumPy array u64[2]."""
    return _start(_integer(seed, "seed"))


def _joined(key: Any, counter: Any) -> Any:
    parts = counter if isinstance(counter, list | tuple) else list(np.ravel(np.asarray(counter)))
    low, *high = [_integer(c, "counter") for c in parts] or [0]
    if any(high):
        raise ValueError(f"expected a counter below 2 ** 64, got {counter}", location=here())
    return np.array([_integer(key, "key") & _MASK, low & _MASK], np.uint64)


def _integer(value: Any, what: str) -> int:
    """A Python integer from a number or a tensor of one element.

    Raises:
        TypeError: it is none.
    """
    if isinstance(value, int):
        return value
    array = np.asarray(value if hasattr(value, "dtype") else None)
    if array.size != 1 or array.dtype.kind not in "iu":
        raise TypeError(f"expected {what} to be an integer, got {value!r}", location=here())
    return int(array.reshape(())[()])


def _count(value: Any) -> int:
    """How many are wanted."""
    count = _integer(value, "count")
    if count < 0:
        raise ValueError(f"expected a count that is not negative, got {count}", location=here())
    return count


class Streams:
    """The global generator, and one for each ``seed`` argument; `set_seed` restarts them all."""

    def __init__(self) -> None:
        # Eagerly, also where the first name of tapec.random is used in a compiled function.
        with tracing(None):
            self.main = Generator.from_non_deterministic_state()
        self.seed: int | None = None
        self.seeded: dict[int, Generator] = {}

    def next_key(self, seed: int | None) -> Tensor:
        """The next key of the stream for a ``seed`` argument."""
        if seed is None:
            return self.main.next_key()
        seed = _integer(seed, "seed")
        stream = self.seeded.get(seed)
        if stream is None:
            stream = self.seeded[seed] = Generator.from_seed(self._start(seed))
        return stream.next_key()

    def _start(self, seed: int) -> int:
        return _mixed(_DEFAULT_SEED if self.seed is None else self.seed) ^ seed

    def restart(self, seed: int) -> None:
        """Seed every stream anew, in place."""
        self.seed = seed
        self.main.reset_from_seed(seed)
        for own, stream in self.seeded.items():
            stream.reset_from_seed(self._start(own))
