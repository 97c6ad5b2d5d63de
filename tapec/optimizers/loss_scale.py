"""Loss scaling: gradients of half precision kept out of the range where they vanish."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tapec.functions.arithmetic import (
    add,
    cast,
    divide,
    equal,
    is_finite,
    multiply,
    where,
)
from tapec.functions.logic import logical_and, logical_not
from tapec.functions.reductions import reduce_all
from tapec.ir.types import F32, I32
from tapec.optimizers.minimization import slopes
from tapec.optimizers.optimizer import Optimizer
from tapec.optimizers.undo import Undo
from tapec.tape import GradientTape
from tapec.tensor import Tensor, TensorLike, as_tensor
from tapec.variable import Variable


class LossScaleOptimizer:
    """Another optimizer, fed with the gradients of a loss that was multiplied by a large number.

    A step whose gradients are not all finite is left out, and the scale is halved; after
    ``dynamic_growth_steps`` good steps in a row it is doubled.

    Source: Micikevicius et al., "Mixed precision training", 2018.

    Args:
        inner_optimizer: what makes the updates.
        initial_scale: the factor at first.
        dynamic_growth_steps: see above.

    Example: ``loss = optimizer.scale_loss(loss)`` inside of the tape, then ``apply_gradients``.
    """

    def __init__(
        self,
        inner_optimizer: Optimizer,
        initial_scale: float = 2.0**15,
        dynamic_growth_steps: int = 2000,
    ) -> None:
        self.inner_optimizer = inner_optimizer
        self.dynamic_growth_steps = dynamic_growth_steps
        self.dynamic_scale = Variable(
            initial_scale, trainable=False, name="dynamic_scale", dtype=F32
        )
        self._good_steps = Variable(0, trainable=False, name="good_steps", dtype=I32)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner_optimizer, name)

    @property
    def variables(self) -> list[Variable]:
        """All state, that of the inner optimizer last."""
        return [self.dynamic_scale, self._good_steps, *self.inner_optimizer.variables]

    def scale_loss(self, loss: TensorLike) -> Tensor:
        """The loss times the scale."""
        value = as_tensor(loss)
        return multiply(value, cast(self.dynamic_scale, value.dtype))

    def apply_gradients(self, grads_and_vars: Iterable[tuple[TensorLike | None, Variable]]) -> Any:
        """Divide by the scale, update if all gradients are finite, and adapt the scale.

        Raises:
            ValueError, InvalidArgumentError, AttributeError: see `Optimizer.apply_gradients`.
        """
        scale = as_tensor(self.dynamic_scale)
        pairs = [(None if g is None else _unscaled(g, scale), v) for g, v in grads_and_vars]
        finite = as_tensor(True)
        for gradient, _ in pairs:
            if gradient is not None:
                finite = logical_and(finite, reduce_all(is_finite(gradient)))
        steps = add(self._good_steps, 1)
        grown = equal(steps, self.dynamic_growth_steps)
        factor = where(finite, where(grown, 2.0, 1.0), 0.5)
        with Undo() as undo:
            undo.keep(self.dynamic_scale)
            undo.keep(self._good_steps)
            self.dynamic_scale.assign(multiply(scale, factor))
            self._good_steps.assign(where(logical_and(finite, logical_not(grown)), steps, 0))
            # Last: this cannot be taken back once it is done.
            return self.inner_optimizer.apply_where(finite, pairs)

    def minimize(
        self,
        loss: Callable[[], TensorLike] | TensorLike,
        var_list: Iterable[Variable] | Callable[[], Iterable[Variable]],
        tape: GradientTape | None = None,
    ) -> Any:
        """`Optimizer.minimize` of the loss times the scale.

        Raises:
            ValueError: see there.
        """
        return self.apply_gradients(slopes(loss, var_list, tape, self.scale_loss))


def _unscaled(gradient: TensorLike, scale: Tensor) -> Tensor:
    g = as_tensor(gradient)
    return divide(g, cast(scale, g.dtype))
