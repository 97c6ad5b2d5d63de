"""`while_loop`: eagerly a loop of Python, whose operations tapes hear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapec.control.structures import leaves_like, tensors_in
from tapec.control.tensor_array import TensorArray
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import stop_gradient
from tapec.functions.broadcasting import refuse_in_trace
from tapec.structure import unflatten
from tapec.tensor import TensorLike, as_tensor


def while_loop(
    cond: Callable[..., TensorLike],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: TensorLike | None = None,
    name: str | None = None,
) -> Any:
    """Run ``loop_vars = body(*loop_vars)`` while ``cond(*loop_vars)``.

    Args:
        cond: takes the loop variables and returns a bool of one element.
        body: takes the loop variables and returns their next values; if there is one, it may stand alone.
        loop_vars: a list or tuple of Tensors and structures of them; or one Tensor, which is then returned as such.
        shape_invariants: without effect: eagerly shapes may change, in a compiled function they stay.
        parallel_iterations: without effect.
        back_prop: whether gradients flow through the loop.
        swap_memory: without effect.
        maximum_iterations: how often the body runs at most.
        name: without effect.

    Returns:
        The last values of the loop variables, in a structure like ``loop_vars``.

    Raises:
        TypeError: ``cond`` or ``body`` is not callable.
        ValueError: there are no loop variables, or ``body`` returns another structure.
    """
    for what, fn in (("cond", cond), ("body", body)):
        if not callable(fn):
            raise TypeError(f"'{what}' must be callable.", location=here())
    variables = LoopVariables(loop_vars)
    refuse_in_trace("while_loop", "write the loop in Python, or outside of the compiled function")
    limit = None if maximum_iterations is None else int(as_tensor(maximum_iterations))
    leaves, turns = variables.leaves, 0
    while (limit is None or turns < limit) and as_tensor(cond(*variables.arguments(leaves))):
        leaves = variables.returned(body(*variables.arguments(leaves)))
        turns += 1
    if not back_prop:
        leaves = [v if isinstance(v, TensorArray) else stop_gradient(v) for v in leaves]
    return variables.structure(leaves)


class LoopVariables:
    """The structure of a loop's variables, and their first values as Tensors and TensorArrays (``leaves``)."""

    def __init__(self, loop_vars: Any) -> None:
        """Take a user's structure.

        Raises:
            ValueError: there is nothing in it.
        """
        self._single = not isinstance(loop_vars, Sequence)
        variables = [loop_vars] if self._single else loop_vars
        self.leaves, self._spec = tensors_in(variables)
        if not self.leaves:
            raise ValueError("'loop_vars' must be provided.", location=here())
        self._count = len(variables)

    def arguments(self, leaves: Sequence[Any]) -> Any:
        """What `cond` and `body` take."""
        return unflatten(self._spec, list(leaves))

    def structure(self, leaves: Sequence[Any]) -> Any:
        """Values in the user's structure."""
        arguments = self.arguments(leaves)
        return arguments[0] if self._single else arguments

    def returned(self, result: Any) -> list[Any]:
        """The leaves of what the body returned.

        Raises:
            ValueError: its structure is not that of the loop variables.
        """
        like = self.arguments(self.leaves)
        if self._count == 1 and not self._stands_alone(result):
            result = type(like)([result])
        elif isinstance(result, list | tuple) and not hasattr(like, "_fields"):
            result = type(like)(result)  # a list and a tuple of variables are alike
        return leaves_like("while_loop", result, self.leaves, self._spec)

    def _stands_alone(self, result: Any) -> bool:
        """Whether the next value of the one variable came in a list or tuple of one."""
        (like,) = self.arguments(self.leaves)
        wrapped = isinstance(result, list | tuple) and len(result) == 1
        return wrapped and tensors_in(result[0])[1] == tensors_in(like)[1]
