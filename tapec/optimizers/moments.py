"""The base of the rules that follow Adam's."""

from __future__ import annotations

from typing import Any

from tapec.functions.arithmetic import cast, square, subtract
from tapec.functions.arithmetic import pow as power
from tapec.ir.types import DType
from tapec.optimizers.optimizer import Optimizer, Rate, Slots, blend
from tapec.tensor import Tensor
from tapec.variable import Variable


class MomentOptimizer(Optimizer):
    """Base of the rules that keep moving means of the gradient and of its square.

    Args:
        learning_rate: see `Optimizer`.
        beta_1: the share of the past in the mean of gradients.
        beta_2: the share of the past in the mean of squares.
        epsilon: keeps the divisor from 0.
        options: see `Optimizer`.
    """

    def __init__(
        self,
        learning_rate: Rate = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        **options: Any,
    ) -> None:
        super().__init__(learning_rate, **options)
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon

    def slots(self, variable: Variable) -> dict[str, Any]:
        """The moments."""
        return {"momentum": 0.0, "velocity": 0.0}

    def moments(self, g: Tensor, slots: Slots) -> tuple[Tensor, Tensor]:
        """Both means, moved on by a gradient."""
        m = blend(self.beta_1, slots["momentum"], g)
        v = blend(self.beta_2, slots["velocity"], square(g))
        self.set(slots["momentum"], m)
        self.set(slots["velocity"], v)
        return m, v

    def bias(self, beta: float, dtype: DType) -> Tensor:
        """``1 - beta ** t``, with ``beta`` in float32 whatever the dtype, as in Keras."""
        known = {} if self._updating.biases is None else self._updating.biases
        key = (
            id(beta),
            dtype,
        )  # by identity: a number that is an input has no value to be compared
        if key not in known:
            known[key] = subtract(1, power(cast(beta, dtype), self.step(dtype)))
        return known[key]
