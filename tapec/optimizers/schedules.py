"""Learning rates that depend on the number of the step: ``schedule(step)`` is a float32 scalar.

An optimizer takes one as its ``learning_rate`` and calls it with its ``iterations``. Formulas are
Keras'.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import TYPE_CHECKING

from tapec import arguments
from tapec.absences.names import namespace
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    cast,
    ceil,
    divide,
    equal,
    floor,
    less_equal,
    maximum,
    minimum,
    multiply,
    subtract,
    where,
)
from tapec.functions.arithmetic import pow as power
from tapec.functions.elementary import cos
from tapec.ir.types import F32
from tapec.tensor import Tensor, TensorLike, as_tensor


class LearningRateSchedule:
    """Base class: subclasses define ``__call__(step)``."""

    def __call__(self, step: TensorLike) -> Tensor:
        """The learning rate at a step."""
        raise NotImplementedError("a schedule defines __call__(step)")

    def __repr__(self) -> str:
        """The class and what it was made with."""
        shown = [f"{key}={value!r}" for key, value in vars(self).items() if key[0] != "_"]
        return f"{type(self).__name__}({', '.join(shown)})"


def _steps(value: float) -> float:
    """Over how many steps a rate falls."""
    count = arguments.number(value, "decay_steps")
    if not count > 0:
        raise ValueError(f"`decay_steps` must be > 0, got {count}", location=here())
    return count


def _numbers(values: Sequence[float], what: str) -> list[float]:
    return [arguments.number(v, what) for v in arguments.items(values, what)]


def _float(step: TensorLike) -> Tensor:
    return cast(as_tensor(step), F32)


class ExponentialDecay(LearningRateSchedule):
    """``initial * decay_rate ** (step / decay_steps)``, the exponent rounded down if ``staircase``."""

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        decay_rate: float,
        staircase: bool = False,
    ) -> None:
        self.initial_learning_rate = arguments.number(
            initial_learning_rate, "initial_learning_rate"
        )
        self.decay_steps = _steps(decay_steps)
        self.decay_rate = arguments.number(decay_rate, "decay_rate")
        self.staircase = arguments.flag(staircase, "staircase")

    def __call__(self, step: TensorLike) -> Tensor:
        """The learning rate at a step."""
        exponent = divide(_float(step), self.decay_steps)
        if self.staircase:
            exponent = floor(exponent)
        return multiply(self.initial_learning_rate, power(self.decay_rate, exponent))


class InverseTimeDecay(ExponentialDecay):
    """``initial / (1 + decay_rate * step / decay_steps)``, the fraction rounded down if ``staircase``."""

    def __call__(self, step: TensorLike) -> Tensor:
        """The learning rate at a step."""
        progress = divide(_float(step), self.decay_steps)
        if self.staircase:
            progress = floor(progress)
        return divide(self.initial_learning_rate, add(1, multiply(self.decay_rate, progress)))


class PiecewiseConstantDecay(LearningRateSchedule):
    """``values[i]`` up to and with step ``boundaries[i]``, the last value after all boundaries."""

    def __init__(self, boundaries: Sequence[float], values: Sequence[float]) -> None:
        self.boundaries = _numbers(boundaries, "boundaries")
        self.values = _numbers(values, "values")
        if len(self.boundaries) != len(self.values) - 1:
            raise ValueError(
                f"{len(self.boundaries)} boundaries need {len(self.boundaries) + 1} values, "
                f"got {len(self.values)}",
                location=here(),
            )

    def __call__(self, step: TensorLike) -> Tensor:
        """The learning rate at a step."""
        x = _float(step)
        rate = as_tensor(self.values[-1], F32)
        for bound, value in reversed(list(zip(self.boundaries, self.values, strict=False))):
            rate = where(less_equal(x, float(bound)), float(value), rate)
        return rate


class PolynomialDecay(LearningRateSchedule):
    """From ``initial`` to ``end`` in ``decay_steps`` along a power of the remaining share.

    ``(initial - end) * (1 - step / decay_steps) ** power + end``; the step stops at
    ``decay_steps``, or with ``cycle`` the decay is stretched to the next multiple of it.
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
    ) -> None:
        self.initial_learning_rate = arguments.number(
            initial_learning_rate, "initial_learning_rate"
        )
        self.decay_steps = _steps(decay_steps)
        self.end_learning_rate = arguments.number(end_learning_rate, "end_learning_rate")
        self.power = arguments.number(power, "power")
        self.cycle = arguments.flag(cycle, "cycle")

    def __call__(self, step: TensorLike) -> Tensor:
        """The learning rate at a step."""
        x = _float(step)
        length: TensorLike = float(self.decay_steps)
        if self.cycle:
            cycles = where(equal(x, 0), 1.0, ceil(divide(x, self.decay_steps)))
            length = multiply(self.decay_steps, cycles)
        else:
            x = minimum(x, self.decay_steps)
        share = power(subtract(1, divide(x, length)), self.power)
        span = self.initial_learning_rate - self.end_learning_rate
        return add(multiply(span, share), self.end_learning_rate)


class CosineDecay(LearningRateSchedule):
    """Half a cosine from ``initial`` down to ``alpha * initial``, after an optional linear warm-up.

    With ``warmup_target`` the rate rises from ``initial`` to it in ``warmup_steps`` first, and the
    cosine falls from it in the ``decay_steps`` that follow.

    Source: Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm restarts", 2017.
    """

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        alpha: float = 0.0,
        warmup_target: float | None = None,
        warmup_steps: float = 0,
    ) -> None:
        self.initial_learning_rate = arguments.number(
            initial_learning_rate, "initial_learning_rate"
        )
        self.decay_steps = _steps(decay_steps)
        self.alpha = arguments.number(alpha, "alpha")
        self.warmup_target = (
            None if warmup_target is None else arguments.number(warmup_target, "warmup_target")
        )
        self.warmup_steps = arguments.number(warmup_steps, "warmup_steps")

    def __call__(self, step: TensorLike) -> Tensor:
        """The learning rate at a step."""
        x = _float(step)
        if self.warmup_target is None:
            return self._decayed(x, self.initial_learning_rate)
        rise = self.warmup_target - self.initial_learning_rate
        share = divide(minimum(x, self.warmup_steps), max(self.warmup_steps, 1))
        warm = add(multiply(rise, share), self.initial_learning_rate)
        later = self._decayed(maximum(subtract(x, self.warmup_steps), 0), self.warmup_target)
        return where(less_equal(x, self.warmup_steps), warm, later)

    def _decayed(self, x: Tensor, start: float) -> Tensor:
        share = divide(minimum(x, self.decay_steps), self.decay_steps)
        fall = multiply(0.5, add(1, cos(multiply(pi, share))))
        return multiply(start, add(multiply(1 - self.alpha, fall), self.alpha))


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("optimizers.schedules")
