"""Random tensors.

Numbers are a pure function of a key, a pair of a seed and a counter, so that the same key gives the
same numbers eagerly, compiled and on every target. The functions without a key take one from the
global generator, whose state is a Variable: a compiled step advances it as an eager one does. The
values are not TensorFlow's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapec import arguments
from tapec.absences.names import namespace
from tapec.eager.composite import composed
from tapec.errors import TypeError
from tapec.frames import here
from tapec.functions import distributions, rejection
from tapec.functions.arithmetic import cast, divide
from tapec.functions.broadcasting import binary, misfit
from tapec.functions.known import as_dim
from tapec.functions.ordering import argsort
from tapec.functions.rearrangement import reshape, stack
from tapec.generator import Algorithm as Algorithm
from tapec.generator import Generator as Generator
from tapec.generator import Streams
from tapec.generator import create_rng_state as create_rng_state
from tapec.ir.types import F32, I32, I64, U64, TensorType
from tapec.tensor import Tensor, TensorLike, apply, as_tensor

_STREAMS = Streams()


def set_seed(seed: int) -> None:
    """Make all that follows repeatable.

    Example: ``set_seed(1)`` before two equal programs gives them the same numbers.
    """
    _STREAMS.restart(arguments.integer(seed, "seed"))


def get_global_generator() -> Generator:
    """The generator that `normal`, `uniform` and the others draw from."""
    return _STREAMS.main


def set_global_generator(generator: Generator) -> None:
    """Let another generator take its place; functions compiled before keep the old one."""
    if not isinstance(generator, Generator):
        raise TypeError(f"expected a Generator, got {arguments.shown(generator)}", location=here())
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
    return distributions.uniform(_STREAMS.next_key(seed), shape, minval, maxval, dtype)


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
    return distributions.normal(_STREAMS.next_key(seed), shape, mean, stddev, dtype)


def truncated_normal(
    shape: Any,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: Any = F32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """`normal` numbers no further than two standard deviations from the mean."""
    return distributions.truncated_normal(_STREAMS.next_key(seed), shape, mean, stddev, dtype)


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
    return distributions.categorical(
        _STREAMS.next_key(seed), logits, num_samples, I64 if dtype is None else dtype
    )


def gamma(
    shape: Any,
    alpha: TensorLike,
    beta: TensorLike = None,
    dtype: Any = F32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers from the gamma distribution of shape ``alpha`` and rate ``beta``.

    Args:
        shape: how many for each pair of parameters.
        alpha: greater than 0, else the numbers are NaN.
        beta: broadcasts with ``alpha``; 1 if None.
        dtype: of the result; parameters that are no tensors take it.
        seed: see `uniform`.
        name: not used.

    Returns:
        ``[*shape, *parameters]``, the broadcast shape of the parameters last. Gradients flow to both:
        a number is taken as the value at a fixed place of the distribution function.

    Source: Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients", 2018.
    """
    a, b = rejection.parameters(alpha, 1 if beta is None else beta, dtype)
    sizes = (*distributions.sizes_of(shape), *a.type.shape)
    return divide(rejection.gamma(_STREAMS.next_key(seed), sizes, a), b)


def poisson(
    shape: Any,
    lam: TensorLike,
    dtype: Any = F32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers from the Poisson distribution of mean ``lam``, ``[*shape, *lam.shape]``.

    Args:
        shape: how many for each mean.
        lam: the means; the numbers are 0 where it is negative.
        dtype: of the result, floats or integers.
        seed: see `uniform`.
        name: not used.
    """
    mean = rejection.wide(lam)
    sizes = (*distributions.sizes_of(shape), *mean.type.shape)
    return rejection.poisson(_STREAMS.next_key(seed), sizes, mean, dtype)


def shuffle(value: TensorLike, seed: int | None = None, name: str | None = None) -> Tensor:
    """The entries of the first axis in random order; a scalar itself."""
    x = as_tensor(value)
    if not x.type.rank:
        return x
    return composed(_shuffled, x, _STREAMS.next_key(seed))  # type: ignore[no-any-return]


def _shuffled(x: Tensor, key: Tensor) -> Tensor:
    """The entries of the first axis in the order of random numbers; places are in range, so nothing checks them."""
    ranks = apply("random_bits", key, type=TensorType(U64, x.type.shape[:1]))
    found: Tensor = apply("lookup", x, argsort(ranks), axis=0)
    return found


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
    return distributions.uniform(_key(seed), shape, minval, maxval, dtype)


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
    return distributions.normal(_key(seed), shape, mean, stddev, dtype)


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
    return distributions.truncated_normal(_key(seed), shape, mean, stddev, dtype)


def stateless_categorical(
    logits: TensorLike,
    num_samples: Any,
    seed: TensorLike,
    dtype: Any = I64,
    name: str | None = None,
) -> Tensor:
    """`categorical` draws that depend on ``seed``, two integers, alone."""
    return distributions.categorical(_key(seed), logits, num_samples, dtype)


def stateless_gamma(
    shape: Any,
    seed: TensorLike,
    alpha: TensorLike,
    beta: TensorLike = None,
    dtype: Any = F32,
    name: str | None = None,
) -> Tensor:
    """`gamma` numbers that depend on ``seed``, two integers, alone.

    ``shape`` is that of the result; the parameters broadcast to it.
    """
    a, b = rejection.parameters(alpha, 1 if beta is None else beta, dtype)
    return divide(rejection.gamma(_key(seed), distributions.sizes_of(shape), a), b)


def stateless_poisson(
    shape: Any, seed: TensorLike, lam: TensorLike, dtype: Any = I32, name: str | None = None
) -> Tensor:
    """`poisson` numbers that depend on ``seed``, two integers, alone.

    ``shape`` is that of the result; ``lam`` broadcasts to it.
    """
    return rejection.poisson(_key(seed), distributions.sizes_of(shape), rejection.wide(lam), dtype)


def stateless_binomial(
    shape: Any,
    seed: TensorLike,
    counts: TensorLike,
    probs: TensorLike,
    output_dtype: Any = I32,
    name: str | None = None,
) -> Tensor:
    """How many of ``counts`` trials succeed, each with probability ``probs``; depends on ``seed`` alone.

    Args:
        shape: of the result; the parameters broadcast to it.
        seed: two integers.
        counts: the numbers of trials.
        probs: between 0 and 1.
        output_dtype: floats or integers.
        name: not used.
    """
    return rejection.binomial(
        _key(seed), distributions.sizes_of(shape), counts, probs, output_dtype
    )


def stateless_parameterized_truncated_normal(
    shape: Any,
    seed: TensorLike,
    means: TensorLike = 0.0,
    stddevs: TensorLike = 1.0,
    minvals: TensorLike = -2.0,
    maxvals: TensorLike = 2.0,
    name: str | None = None,
) -> Tensor:
    """Normal numbers between two bounds, that depend on ``seed``, two integers, alone.

    Args:
        shape: of the result; the parameters broadcast to it.
        seed: two integers.
        means: of the distribution before it is cut; floats, whose dtype the result has.
        stddevs: greater than 0.
        minvals: the lower bounds, in the unit of the numbers.
        maxvals: the upper bounds.
        name: not used.

    Gradients flow to all four, as far as the inverse of the distribution function is accurate.
    """
    return distributions.bounded_normal(_key(seed), shape, means, stddevs, (minvals, maxvals))


def split(seed: TensorLike, num: int = 2, alg: Any = "auto_select") -> Tensor:
    """``[num, 2]`` seeds from one, of its dtype, as good as independent."""
    key = as_tensor(seed)
    bits = apply("random_bits", _key(key), type=TensorType(U64, (as_dim(num), 2)))
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


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("random")
