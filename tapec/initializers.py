"""The namespace ``tapec.initializers``: what new Variables begin with.

An initializer is called with a shape, and a dtype (float32 if None). With a ``seed`` it gives the same numbers at each
call; without, new ones from the global generator of `tapec.random`.

Example: ``w = tapec.Variable(tapec.initializers.GlorotUniform()([784, 128]))``.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING, Any, ClassVar

from tapec import arguments
from tapec.absences.names import namespace
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import greater_equal, multiply, where
from tapec.functions.arrays import constant as constant_tensor
from tapec.functions.arrays import eye
from tapec.functions.arrays import ones as ones_tensor
from tapec.functions.arrays import zeros as zeros_tensor
from tapec.functions.known import as_shape
from tapec.functions.rearrangement import reshape, transpose
from tapec.ir.types import F32, as_dtype
from tapec.linalg import diag_part, qr
from tapec.random import (
    normal,
    stateless_normal,
    stateless_truncated_normal,
    stateless_uniform,
    uniform,
)
from tapec.random import truncated_normal as truncated
from tapec.tensor import Tensor

#: The standard deviation of a standard normal number that is at most 2: what truncation leaves of 1.
_TRUNCATED = 0.87962566103423978


class Initializer:
    """Base class: a subclass has ``__call__(shape, dtype=None)``."""

    #: The arguments of the constructor, in order.
    _ARGUMENTS: ClassVar[tuple[str, ...]] = ()

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        """A tensor of a shape, which a subclass makes."""
        raise NotImplementedError("a subclass of Initializer must have __call__(shape, dtype=None)")

    def get_config(self) -> dict[str, Any]:
        """The arguments with which an equal initializer is made."""
        return {name: getattr(self, name) for name in self._ARGUMENTS}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        """The initializer that `get_config` describes."""
        return cls(**config)

    def clone(self) -> Initializer:
        """An equal initializer."""
        return type(self).from_config(self.get_config())

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"


class Zeros(Initializer):
    """Zeros."""

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return zeros_tensor(shape, F32 if dtype is None else dtype)


class Ones(Initializer):
    """Ones."""

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return ones_tensor(shape, F32 if dtype is None else dtype)


class Constant(Initializer):
    """One number everywhere, or the elements of an array or nested list of as many."""

    _ARGUMENTS = ("value",)

    def __init__(self, value: Any = 0.0) -> None:
        self.value = value

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return constant_tensor(self.value, F32 if dtype is None else dtype, shape)


class Identity(Initializer):
    """The identity matrix times ``gain``; for shapes of two axes."""

    _ARGUMENTS = ("gain",)

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        dims = as_shape(shape)
        if len(dims) != 2:
            raise ValueError(
                f"Identity matrix initializer can only be used for 2D matrices. Received: shape={list(dims)} "
                f"of rank {len(dims)}.",
                location=here(),
            )
        return multiply(eye(*dims, dtype=F32 if dtype is None else dtype), self.gain)


class _Random(Initializer):
    """What random initializers share: numbers from the global stream, or from one of their own."""

    seed: int | None

    def _uniform(self, shape: Any, low: float, high: float, dtype: Any) -> Tensor:
        if self.seed is None:
            return uniform(shape, low, high, dtype)
        return stateless_uniform(shape, [self.seed, 0], low, high, dtype)

    def _normal(self, shape: Any, mean: float, stddev: float, dtype: Any) -> Tensor:
        if self.seed is None:
            return normal(shape, mean, stddev, dtype)
        return stateless_normal(shape, [self.seed, 0], mean, stddev, dtype)

    def _truncated(self, shape: Any, mean: float, stddev: float, dtype: Any) -> Tensor:
        if self.seed is None:
            return truncated(shape, mean, stddev, dtype)
        return stateless_truncated_normal(shape, [self.seed, 0], mean, stddev, dtype)


class RandomNormal(_Random):
    """Normal numbers."""

    _ARGUMENTS = ("mean", "stddev", "seed")

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> None:
        self.mean, self.stddev, self.seed = mean, stddev, seed

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return self._normal(shape, self.mean, self.stddev, _float(dtype))


class TruncatedNormal(RandomNormal):
    """Normal numbers no further than two standard deviations from the mean."""

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return self._truncated(shape, self.mean, self.stddev, _float(dtype))


class RandomUniform(_Random):
    """Numbers uniform in ``[minval, maxval)``."""

    _ARGUMENTS = ("minval", "maxval", "seed")

    def __init__(
        self, minval: float = -0.05, maxval: float = 0.05, seed: int | None = None
    ) -> None:
        self.minval, self.maxval, self.seed = minval, maxval, seed

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return self._uniform(shape, self.minval, self.maxval, F32 if dtype is None else dtype)


class VarianceScaling(_Random):
    """Random numbers whose variance is ``scale / n``, so that layers keep the size of what goes through.

    Args:
        scale: positive.
        mode: what ``n`` is: ``fan_in``, the number of inputs; ``fan_out``, of outputs; ``fan_avg``, their mean.
        distribution: ``truncated_normal``, ``untruncated_normal`` or ``uniform``.
        seed: see the module.
        input_axes: the axes whose sizes multiply to the number of inputs; by default all but the last, where a
            matrix is ``[inputs, outputs]`` and a filter ``[..., inputs, outputs]``.
        output_axes: the same for outputs.

    Source: He, Zhang, Ren, Sun, "Delving deep into rectifiers", 2015; Glorot, Bengio, "Understanding the difficulty
    of training deep feedforward neural networks", 2010.

    Raises:
        ValueError: an unknown mode or distribution, or a scale that is not positive.
    """

    _ARGUMENTS: ClassVar[tuple[str, ...]] = (
        "scale",
        "mode",
        "distribution",
        "seed",
        "input_axes",
        "output_axes",
    )

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        input_axes: Any = None,
        output_axes: Any = None,
    ) -> None:
        if arguments.number(scale, "scale") <= 0:
            raise ValueError(
                f"Argument `scale` must be positive float. Received: scale={scale}", location=here()
            )
        if arguments.text(mode, "mode") not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(
                f"Invalid `mode` argument: {mode}. Please use one of ['fan_in', 'fan_out', 'fan_avg']",
                location=here(),
            )
        distribution = arguments.text(distribution, "distribution")
        distribution = "truncated_normal" if distribution == "normal" else distribution
        if distribution not in ("truncated_normal", "untruncated_normal", "uniform"):
            raise ValueError(
                f"Invalid `distribution` argument: {distribution}. Please use one of ['uniform', "
                "'truncated_normal', 'untruncated_normal']",
                location=here(),
            )
        self.scale, self.mode, self.distribution, self.seed = scale, mode, distribution, seed
        self.input_axes, self.output_axes = input_axes, output_axes

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        dims = as_shape(shape)
        inputs, outputs = _fans(dims, self.input_axes, self.output_axes)
        n = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}[self.mode]
        variance = self.scale / max(1.0, n)
        if self.distribution == "uniform":
            limit = sqrt(3 * variance)
            return self._uniform(dims, -limit, limit, _float(dtype))
        if self.distribution == "truncated_normal":
            return self._truncated(dims, 0.0, sqrt(variance) / _TRUNCATED, _float(dtype))
        return self._normal(dims, 0.0, sqrt(variance), _float(dtype))


class _Scaled(VarianceScaling):
    """A `VarianceScaling` with fixed scale, mode and distribution."""

    _ARGUMENTS = ("seed", "input_axes", "output_axes")
    _SCALING: ClassVar[tuple[float, str, str]]

    def __init__(
        self, seed: int | None = None, input_axes: Any = None, output_axes: Any = None
    ) -> None:
        super().__init__(*self._SCALING, seed, input_axes, output_axes)


class GlorotUniform(_Scaled):
    """Uniform numbers of variance ``2 / (inputs + outputs)``."""

    _SCALING = (1.0, "fan_avg", "uniform")


class GlorotNormal(_Scaled):
    """Truncated normal numbers of variance ``2 / (inputs + outputs)``."""

    _SCALING = (1.0, "fan_avg", "truncated_normal")


class HeNormal(_Scaled):
    """Truncated normal numbers of variance ``2 / inputs``."""

    _SCALING = (2.0, "fan_in", "truncated_normal")


class HeUniform(_Scaled):
    """Uniform numbers of variance ``2 / inputs``."""

    _SCALING = (2.0, "fan_in", "uniform")


class LecunNormal(_Scaled):
    """Truncated normal numbers of variance ``1 / inputs``."""

    _SCALING = (1.0, "fan_in", "truncated_normal")


class LecunUniform(_Scaled):
    """Uniform numbers of variance ``1 / inputs``."""

    _SCALING = (1.0, "fan_in", "uniform")


class Orthogonal(_Random):
    """A matrix with orthonormal rows or columns, times ``gain``; the axes in front of the last are one.

    Source: Saxe, McClelland, Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep linear neural
    networks", 2014.
    """

    _ARGUMENTS = ("gain", "seed")

    def __init__(self, gain: float = 1.0, seed: int | None = None) -> None:
        self.gain, self.seed = gain, seed

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        dims = as_shape(shape)
        if len(dims) < 2:
            raise ValueError(
                f"The tensor to initialize must be at least two-dimensional. Received: shape={list(dims)} of "
                f"rank {len(dims)}.",
                location=here(),
            )
        rows, columns = (int(n) for n in (prod(dims[:-1]), dims[-1]))  # type: ignore[arg-type]
        tall = (rows, columns) if rows >= columns else (columns, rows)
        q, r = qr(self._normal(tall, 0.0, 1.0, _float(dtype)))
        # With the signs of R's diagonal the result is uniform among such matrices.
        q = multiply(q, where(greater_equal(diag_part(r), 0), 1.0, -1.0))
        q = q if rows >= columns else transpose(q)
        return multiply(reshape(q, dims), self.gain)


def _float(dtype: Any) -> Any:
    found = F32 if dtype is None else as_dtype(dtype)
    if not found.is_floating:
        raise ValueError(f"Expected float point type, got {found.name}.", location=here())
    return found


def _fans(shape: Any, input_axes: Any, output_axes: Any) -> tuple[int, int]:
    """The numbers of inputs and outputs of weights of a shape."""
    if input_axes is not None and output_axes is not None:
        return prod(shape[a] for a in input_axes), prod(shape[a] for a in output_axes)
    if len(shape) < 2:
        return prod(shape), prod(shape)
    field = prod(shape[:-2])
    return shape[-2] * field, shape[-1] * field


constant = Constant
glorot_normal = GlorotNormal
glorot_uniform = GlorotUniform
he_normal = HeNormal
he_uniform = HeUniform
identity = IdentityInitializer = Identity
lecun_normal = LecunNormal
lecun_uniform = LecunUniform
ones = Ones
orthogonal = OrthogonalInitializer = Orthogonal
random_normal = RandomNormal
random_uniform = RandomUniform
truncated_normal = TruncatedNormal
variance_scaling = VarianceScaling
zeros = Zeros


class constant_initializer(Constant):
    """`Constant` as ``tapec.constant_initializer``; ``support_partition`` has no effect."""

    def __init__(self, value: Any = 0, support_partition: bool = False) -> None:
        super().__init__(value)
        self.support_partition = support_partition


_BY_NAME = {
    name: kind
    for name, kind in list(globals().items())
    if isinstance(kind, type) and issubclass(kind, Initializer) and not name.startswith("_")
}


def get(identifier: Any) -> Any:
    """An initializer by name, by ``{"class_name": …, "config": {…}}``, or the one given.

    Example: ``get("glorot_uniform")``.

    Raises:
        ValueError: there is none of that name.
    """
    if identifier is None or callable(identifier):
        return identifier() if isinstance(identifier, type) else identifier
    name, config = identifier, {}
    if isinstance(identifier, dict):
        name, config = identifier.get("class_name"), identifier.get("config", {})
    if not isinstance(name, str) or name not in _BY_NAME:
        raise ValueError(
            f"Could not interpret initializer identifier: {identifier}", location=here()
        )
    return _BY_NAME[name](**config)


def serialize(initializer: Initializer) -> dict[str, Any]:
    """What `deserialize` makes an equal initializer of.

    Raises:
        TypeError: it is no initializer.
    """
    if not isinstance(initializer, Initializer):
        raise TypeError(
            f"expected an initializer, got {arguments.shown(initializer)}", location=here()
        )
    return {"class_name": type(initializer).__name__, "config": initializer.get_config()}


def deserialize(config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """The initializer that `serialize` describes; ``custom_objects`` has further classes by name."""
    if (
        isinstance(custom_objects, dict)
        and isinstance(config, dict)
        and config.get("class_name") in custom_objects
    ):
        return custom_objects[config["class_name"]](**config.get("config", {}))
    return get(config)


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("initializers")
