"""Further optimizers, whose steps adapt in less common ways; `tapec.optimizers` offers them too."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapec.functions.arithmetic import abs as absolute
from tapec.functions.arithmetic import (
    add,
    clip_by_value,
    divide,
    greater,
    maximum,
    minimum,
    multiply,
    sign,
    square,
    subtract,
    where,
)
from tapec.functions.arithmetic import pow as power
from tapec.functions.elementary import rsqrt, sqrt
from tapec.functions.rearrangement import expand_dims
from tapec.functions.reductions import reduce_mean, reduce_sum
from tapec.optimizers.moments import MomentOptimizer
from tapec.optimizers.optimizer import Optimizer, Rate, Slots, blend
from tapec.tensor import Tensor
from tapec.variable import Variable


class Adadelta(Optimizer):
    """Steps ``d = g sqrt(b + epsilon) / sqrt(a + epsilon)`` whose size needs no tuning; ``w -= lr d``.

    ``a`` and ``b`` are moving means of ``g²`` and ``d²``, with share ``rho`` of the past.

    Source: Zeiler, "ADADELTA: an adaptive learning rate method", 2012.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-7,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        self.rho = rho
        self.epsilon = epsilon

    def slots(self, variable: Variable) -> dict[str, Any]:
        """The mean squares of gradients and of steps."""
        return {"accumulated_grad": 0.0, "accumulated_delta": 0.0}

    def update(self, g: Tensor, variable: Variable, slots: Slots, rate: Tensor) -> None:
        """See the class."""
        a = blend(self.rho, slots["accumulated_grad"], square(g))
        self.set(slots["accumulated_grad"], a)
        b = slots["accumulated_delta"]
        step = divide(multiply(g, sqrt(add(b, self.epsilon))), sqrt(add(a, self.epsilon)))
        self.set(b, blend(self.rho, b, square(step)))
        self.set(variable, subtract(variable, multiply(rate, step)))


class Adamax(MomentOptimizer):
    """``m = b1 m + (1 - b1) g; u = max(b2 u, |g|); w -= lr / (1 - b1 ** t) m / (u + epsilon)``.

    Source: Kingma, Ba 2015, Section 7.1.
    """

    def slots(self, variable: Variable) -> dict[str, Any]:
        """The moment and the norm."""
        return {"m": 0.0, "u": 0.0}

    def update(self, g: Tensor, variable: Variable, slots: Slots, rate: Tensor) -> None:
        """See the class."""
        m = blend(self.beta_1, slots["m"], g)
        u = maximum(multiply(self.beta_2, slots["u"]), absolute(g))
        self.set(slots["m"], m)
        self.set(slots["u"], u)
        alpha = divide(rate, self.bias(self.beta_1, g.dtype))
        step = divide(multiply(alpha, m), add(u, self.epsilon))
        self.set(variable, subtract(variable, step))


class Lion(Optimizer):
    """``w -= lr sign(b1 m + (1 - b1) g); m = b2 m + (1 - b2) g``.

    Source: Chen et al., "Symbolic discovery of optimization algorithms", 2023.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.99,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        self.beta_1 = beta_1
        self.beta_2 = beta_2

    def slots(self, variable: Variable) -> dict[str, Any]:
        """The moment."""
        return {"momentum": 0.0}

    def update(self, g: Tensor, variable: Variable, slots: Slots, rate: Tensor) -> None:
        """See the class."""
        m = slots["momentum"]
        direction = sign(blend(self.beta_1, m, g))
        self.set(variable, subtract(variable, multiply(rate, direction)))
        self.set(m, blend(self.beta_2, m, g))


class Nadam(MomentOptimizer):
    """`Adam` with Nesterov momentum, whose weight ``u_t = b1 (1 - 0.96 ** t / 2)`` grows.

    With ``U_t`` the product of ``u_1 … u_t``, ``w -= lr m' / (sqrt(v / (1 - b2 ** t)) + epsilon)``
    where ``m' = u_(t+1) m / (1 - U_(t+1)) + (1 - u_t) g / (1 - U_t)``.

    Source: Dozat, "Incorporating Nesterov momentum into Adam", 2015.
    """

    def slots(self, variable: Variable) -> dict[str, Any]:
        """The moments, and the product of weights, a scalar."""
        return super().slots(variable) | {"product": np.ones(())}

    def update(self, g: Tensor, variable: Variable, slots: Slots, rate: Tensor) -> None:
        """See the class."""
        t = self.step(g.dtype)
        now, following = self._weight(t), self._weight(add(t, 1))
        product = multiply(slots["product"], now)
        self.set(slots["product"], product)
        m, v = self.moments(g, slots)
        ahead = divide(multiply(following, m), subtract(1, multiply(product, following)))
        fresh = divide(multiply(subtract(1, now), g), subtract(1, product))
        root = add(sqrt(divide(v, self.bias(self.beta_2, g.dtype))), self.epsilon)
        step = divide(multiply(rate, add(ahead, fresh)), root)
        self.set(variable, subtract(variable, step))

    def _weight(self, t: Tensor) -> Tensor:
        decay = power(0.96, t)
        return multiply(self.beta_1, subtract(1.0, multiply(0.5, decay)))


class Ftrl(Optimizer):
    """Follow the regularised leader: the variable is recomputed from sums of gradients.

    ``n' = n + g²; z += g - (n' ** -p - n ** -p) / lr w``, then ``w`` is 0 where ``|z| <= l1`` and
    elsewhere ``(sign(z) l1 - z) / ((beta + n' ** -p) / lr + 2 l2)``, with ``p`` the learning rate
    power.

    Source: McMahan et al., "Ad click prediction: a view from the trenches", 2013.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        self.learning_rate_power = learning_rate_power
        self.initial_accumulator_value = initial_accumulator_value
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength
        self.l2_shrinkage_regularization_strength = l2_shrinkage_regularization_strength
        self.beta = beta

    def slots(self, variable: Variable) -> dict[str, Any]:
        """The sums."""
        return {"accumulator": self.initial_accumulator_value, "linear": 0.0}

    def update(self, g: Tensor, variable: Variable, slots: Slots, rate: Tensor) -> None:
        """See the class."""
        n = slots["accumulator"]
        grown = add(n, square(g))
        shrunk = add(g, multiply(2 * self.l2_shrinkage_regularization_strength, variable))
        exponent = -self.learning_rate_power
        root, former = power(grown, exponent), power(n, exponent)
        drift = multiply(divide(subtract(root, former), rate), variable)
        z = add(slots["linear"], subtract(shrunk, drift))
        l2 = self.l2_regularization_strength
        quadratic = add(divide(add(root, self.beta), rate), 2 * l2)
        l1 = self.l1_regularization_strength
        self.set(variable, divide(subtract(clip_by_value(z, -l1, l1), z), quadratic))
        self.set(slots["linear"], z)
        self.set(n, grown)


class Lamb(MomentOptimizer):
    """`Adam` steps scaled to the length of the variable: ``w -= lr |w| / |step| step``.

    Source: You et al., "Large batch optimization for deep learning", 2020.
    """

    def update(self, g: Tensor, variable: Variable, slots: Slots, rate: Tensor) -> None:
        """See the class."""
        m, v = self.moments(g, slots)
        mean = divide(m, self.bias(self.beta_1, g.dtype))
        root = add(sqrt(divide(v, self.bias(self.beta_2, g.dtype))), self.epsilon)
        step = divide(mean, root)
        own, its = (sqrt(reduce_sum(square(x))) for x in (variable, step))
        both = greater(minimum(own, its), 0)
        ratio = where(both, divide(own, where(both, its, 1)), 1)
        self.set(variable, subtract(variable, multiply(multiply(ratio, rate), step)))


class Adafactor(Optimizer):
    """Steps of a relative size, with the second moment of a matrix kept as row and column means.

    Source: Shazeer, Stern, "Adafactor: adaptive learning rates with sublinear memory cost", 2018.

    Args:
        learning_rate: see `Optimizer`; with ``relative_step`` an upper bound.
        beta_2_decay: the past's share is ``1 - t ** beta_2_decay``.
        epsilon_1: added to squared gradients.
        epsilon_2: the least scale of a variable.
        clip_threshold: the greatest root mean square of a step.
        relative_step: whether the rate is at most ``1 / sqrt(t)``.
        options: see `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_2_decay: float = -0.8,
        epsilon_1: float = 1e-30,
        epsilon_2: float = 1e-3,
        clip_threshold: float = 1.0,
        relative_step: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        self.beta_2_decay = beta_2_decay
        self.epsilon_1 = epsilon_1
        self.epsilon_2 = epsilon_2
        self.clip_threshold = clip_threshold
        self.relative_step = relative_step

    def slots(self, variable: Variable) -> dict[str, Any]:
        """The second moment, or its means over columns and over rows."""
        shape = tuple(variable.shape)
        if len(shape) < 2:
            return {"v": 0.0}
        return {"row": np.zeros(shape[:-1]), "column": np.zeros((*shape[:-2], shape[-1]))}

    def update(self, g: Tensor, variable: Variable, slots: Slots, rate: Tensor) -> None:
        """See the class."""
        t = self.step(g.dtype)
        if self.relative_step:
            rate = minimum(rate, rsqrt(t))
        squares = add(square(g), self.epsilon_1)
        fresh = power(t, self.beta_2_decay)
        if "v" in slots:
            v = self._moved(slots["v"], squares, fresh)
        else:
            row = self._moved(slots["row"], reduce_mean(squares, axis=-1), fresh)
            column = self._moved(slots["column"], reduce_mean(squares, axis=-2), fresh)
            relative = divide(row, reduce_mean(row, axis=-1, keepdims=True))
            v = multiply(expand_dims(relative, -1), expand_dims(column, -2))
        step = multiply(g, rsqrt(v))
        scale = maximum(self._size(variable), self.epsilon_2)
        limit = maximum(1.0, divide(self._size(step), self.clip_threshold))
        self.set(variable, subtract(variable, divide(multiply(multiply(scale, rate), step), limit)))

    def _moved(self, slot: Variable, value: Tensor, fresh: Tensor) -> Tensor:
        mean = add(slot, multiply(subtract(value, slot), fresh))
        self.set(slot, mean)
        return mean

    def _size(self, x: Tensor | Variable) -> Tensor:
        return sqrt(reduce_mean(square(x)))
