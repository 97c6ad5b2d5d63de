"""The update rules that most training uses: SGD, RMSprop, Adagrad, Adam, AdamW."""

from __future__ import annotations

from typing import Any

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arithmetic import (
    add,
    divide,
    maximum,
    multiply,
    negative,
    square,
    subtract,
)
from tapec.functions.elementary import rsqrt, sqrt
from tapec.optimizers.moments import MomentOptimizer
from tapec.optimizers.optimizer import Optimizer, Rate, Slots, blend
from tapec.tensor import Tensor
from tapec.tensors.indexed_slices import IndexedSlices
from tapec.variable import Variable


class SGD(Optimizer):
    """Gradient descent: ``w -= lr g``.

    With momentum ``mu``: ``m = mu m - lr g; w += m``; Nesterov's form adds ``mu m - lr g`` instead.

    Args:
        learning_rate: see `Optimizer`.
        momentum: ``mu``, between 0 and 1.
        nesterov: which form.
        options: see `Optimizer`.

    Raises:
        ValueError: ``momentum`` is out of range.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        if not 0 <= arguments.number(momentum, "momentum") <= 1:
            raise ValueError("`momentum` must be a float between [0, 1].", location=here())
        self.momentum = momentum
        self.nesterov = nesterov

    def slots(self, variable: Variable) -> dict[str, Any]:
        """The velocity, if there is momentum."""
        return {"momentum": 0.0} if self.momentum else {}

    def update(self, g: Tensor, variable: Variable, slots: Slots, rate: Tensor) -> None:
        """See the class."""
        step = multiply(rate, g)
        if not self.momentum:
            self.set(variable, subtract(variable, step))
            return
        m = subtract(multiply(self.momentum, slots["momentum"]), step)
        self.set(slots["momentum"], m)
        if self.nesterov:
            m = subtract(multiply(self.momentum, m), step)
        self.set(variable, add(variable, m))

    def update_slices(
        self, g: IndexedSlices, variable: Variable, slots: Slots, rate: Tensor
    ) -> None:
        """Without momentum, the rows that were read and no others."""
        if self.momentum:
            super().update_slices(g, variable, slots, rate)
        else:
            self.add_slices(variable, g.map(lambda values: negative(multiply(rate, values))))


class RMSprop(Optimizer):
    """``v = rho v + (1 - rho) g²; w -= lr g / sqrt(v + epsilon)``.

    ``centered`` subtracts the square of a moving mean of ``g`` from ``v``; ``momentum`` smooths the
    step. Source: Hinton, Coursera lecture 6e, 2012; Graves 2013 for the centred form.

    Args:
        learning_rate: see `Optimizer`.
        rho: the share of the past in the moving means.
        momentum: ``m = momentum m + step; w -= m``.
        epsilon: inside of the root.
        centered: divide by an estimate of the standard deviation.
        options: see `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        self.rho = rho
        self.momentum = momentum
        self.epsilon = epsilon
        self.centered = centered

    def slots(self, variable: Variable) -> dict[str, Any]:
        """The mean square, and what the options need."""
        wanted = {
            "velocity": True,
            "momentum": self.momentum > 0,
            "average_gradient": self.centered,
        }
        return {name: 0.0 for name, has in wanted.items() if has}

    def update(self, g: Tensor, variable: Variable, slots: Slots, rate: Tensor) -> None:
        """See the class."""
        v = blend(self.rho, slots["velocity"], square(g))
        self.set(slots["velocity"], v)
        if self.centered:
            mean = blend(self.rho, slots["average_gradient"], g)
            self.set(slots["average_gradient"], mean)
            v = subtract(v, square(mean))
        step = multiply(multiply(rate, g), rsqrt(add(v, self.epsilon)))
        if self.momentum > 0:
            step = add(multiply(self.momentum, slots["momentum"]), step)
            self.set(slots["momentum"], step)
        self.set(variable, subtract(variable, step))


class Adagrad(Optimizer):
    """``a += g²; w -= lr g / sqrt(a + epsilon)``.

    Source: Duchi, Hazan, Singer, "Adaptive subgradient methods", 2011.

    Args:
        learning_rate: see `Optimizer`.
        initial_accumulator_value: where ``a`` starts.
        epsilon: inside of the root.
        options: see `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        self.initial_accumulator_value = initial_accumulator_value
        self.epsilon = epsilon

    def slots(self, variable: Variable) -> dict[str, Any]:
        """The sum of squares."""
        return {"accumulator": self.initial_accumulator_value}

    def update(self, g: Tensor, variable: Variable, slots: Slots, rate: Tensor) -> None:
        """See the class."""
        a = add(slots["accumulator"], square(g))
        self.set(slots["accumulator"], a)
        step = divide(multiply(rate, g), sqrt(add(a, self.epsilon)))
        self.set(variable, subtract(variable, step))


class Adam(MomentOptimizer):
    """``m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g²; w -= alpha m / (sqrt(v) + epsilon)``.

    ``alpha = lr sqrt(1 - b2 ** t) / (1 - b1 ** t)``: epsilon is the "epsilon hat" of the paper's
    Section 2, outside of the root and not scaled by the bias correction.

    Source: Kingma, Ba, "Adam: a method for stochastic optimization", 2015; for ``amsgrad`` Reddi,
    Kale, Kumar, "On the convergence of Adam and beyond", 2018.

    Args:
        learning_rate: see `Optimizer`.
        beta_1: ``b1``.
        beta_2: ``b2``.
        epsilon: see above.
        amsgrad: divide by the greatest ``v`` so far.
        options: see `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, **options)
        self.amsgrad = amsgrad

    def slots(self, variable: Variable) -> dict[str, Any]:
        """The moments, and the greatest second one with ``amsgrad``."""
        return super().slots(variable) | ({"velocity_hat": 0.0} if self.amsgrad else {})

    def update(self, g: Tensor, variable: Variable, slots: Slots, rate: Tensor) -> None:
        """See the class."""
        alpha = divide(
            multiply(rate, sqrt(self.bias(self.beta_2, g.dtype))), self.bias(self.beta_1, g.dtype)
        )
        m, v = self.moments(g, slots)
        if self.amsgrad:
            v = maximum(slots["velocity_hat"], v)
            self.set(slots["velocity_hat"], v)
        step = divide(multiply(m, alpha), add(sqrt(v), self.epsilon))
        self.set(variable, subtract(variable, step))


class AdamW(Adam):
    """`Adam` with decoupled weight decay: ``w -= lr weight_decay w`` before each step.

    Source: Loshchilov, Hutter, "Decoupled weight decay regularization", 2019.
    """

    def __init__(
        self, learning_rate: Rate = 0.001, weight_decay: float = 0.004, **options: Any
    ) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay, **options)
