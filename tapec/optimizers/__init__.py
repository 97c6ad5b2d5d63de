"""Optimizers: the rules by which gradients change variables, with Keras' formulas and defaults.

``optimizer.apply_gradients(zip(gradients, variables))`` makes one update; inside of a
`tapec.compile` function it becomes part of the step. `schedules` has learning rates that change.

In the formulas ``w`` is the variable, ``g`` its gradient, ``lr`` the learning rate and ``t`` the
number of the update, from 1 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapec.absences.names import namespace
from tapec.errors import ValueError
from tapec.frames import here
from tapec.optimizers import schedules as schedules
from tapec.optimizers.adaptive import Adadelta as Adadelta
from tapec.optimizers.adaptive import Adafactor as Adafactor
from tapec.optimizers.adaptive import Adamax as Adamax
from tapec.optimizers.adaptive import Ftrl as Ftrl
from tapec.optimizers.adaptive import Lamb as Lamb
from tapec.optimizers.adaptive import Lion as Lion
from tapec.optimizers.adaptive import Nadam as Nadam
from tapec.optimizers.loss_scale import LossScaleOptimizer as LossScaleOptimizer
from tapec.optimizers.optimizer import Optimizer as Optimizer
from tapec.optimizers.rules import SGD as SGD
from tapec.optimizers.rules import Adagrad as Adagrad
from tapec.optimizers.rules import Adam as Adam
from tapec.optimizers.rules import AdamW as AdamW
from tapec.optimizers.rules import RMSprop as RMSprop


def get(identifier: Any, **options: Any) -> Any:
    """An optimizer from itself, its class, or its class name in any case.

    Example: ``get("adam", learning_rate=0.01)``.

    Raises:
        ValueError: no optimizer has that name.
    """
    if isinstance(identifier, Optimizer | LossScaleOptimizer):
        return identifier
    if isinstance(identifier, str):
        found = {
            name.lower(): value
            for name, value in globals().items()
            if isinstance(value, type) and issubclass(value, Optimizer)
        }.get(identifier.lower())
    else:
        found = identifier if callable(identifier) else None
    if found is None:
        raise ValueError(f"no optimizer is called {identifier!r}", location=here())
    return found(**options)


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("optimizers")
