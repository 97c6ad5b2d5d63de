"""From a loss to the gradients that an optimizer applies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tapec import arguments
from tapec.errors import ValueError
from tapec.frames import here
from tapec.tape import GradientTape
from tapec.tensor import TensorLike
from tapec.variable import Variable


def slopes(
    loss: Callable[[], TensorLike] | TensorLike,
    var_list: Iterable[Variable] | Callable[[], Iterable[Variable]],
    tape: GradientTape | None,
    scaled: Callable[[TensorLike], TensorLike] | None = None,
) -> list[tuple[Any, Variable]]:
    """Pairs of a gradient and its variable.

    Args:
        loss: see `Optimizer.minimize`.
        var_list: see there.
        tape: see there.
        scaled: what is differentiated in place of the loss, as a function of it.

    Raises:
        ValueError: a tensor without its tape.
    """
    if tape is None:
        if not callable(loss):
            raise ValueError(
                "`tape` is required when a `Tensor` loss is passed",
                location=here(),
                hint="pass the tape that recorded it, or a function that computes it",
            )
        tape = GradientTape()
    if callable(loss) or scaled is not None:
        with tape:
            if not callable(var_list):
                var_list = arguments.items(var_list, "var_list")
                tape.watch(var_list)
            value = loss() if callable(loss) else loss
            value = value if scaled is None else scaled(value)
    else:
        value = loss
    variables = arguments.items(var_list() if callable(var_list) else var_list, "var_list")
    return list(zip(tape.gradient(value, variables), variables, strict=True))
