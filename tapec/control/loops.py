"""`while_loop`: eagerly a loop of Python, whose operations tapes hear; in a compiled function a loop of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapec import arguments
from tapec.control.arguments import integer_of, length_of
from tapec.control.regions import truth
from tapec.control.repetition import repeated
from tapec.control.structures import leaves_like, tensors_in
from tapec.control.tensor_array import TensorArray
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import add, cast, less, stop_gradient
from tapec.functions.arrays import constant
from tapec.functions.logic import logical_and
from tapec.functions.rearrangement import reshape
from tapec.ir.types import I32
from tapec.recording import current_trace
from tapec.structure import unflatten
from tapec.tensor import Tensor, TensorLike


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

    ``body`` may assign Variables. In a compiled function gradients are cheaper where it is known how often the loop
    turns at most: from ``maximum_iterations``, or from a counter that ``cond`` compares with a constant.

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
        TypeError: ``cond`` or ``body`` is not callable, ``maximum_iterations`` is no integer; in a compiled function,
            ``body`` returns another dtype.
        ValueError: there are no loop variables, or ``body`` returns another structure; in a compiled function, other
            shapes.
    """
    for what, fn in (("cond", cond), ("body", body)):
        if not callable(fn):
            raise TypeError(f"'{what}' must be callable.", location=here())
    variables = LoopVariables(loop_vars)
    if current_trace() is None:
        most = maximum_iterations
        limit = None if most is None else integer_of(most, "maximum_iterations")
        leaves, turns = variables.leaves, 0
        while (limit is None or turns < limit) and truth(cond(*variables.arguments(leaves))):
            leaves = variables.returned(body(*variables.arguments(leaves)))
            turns += 1
    else:
        leaves = _looped(variables, cond, body, maximum_iterations)
    if not arguments.flag(back_prop, "back_prop"):
        leaves = [v if isinstance(v, TensorArray) else stop_gradient(v) for v in leaves]
    return variables.structure(leaves)


def _looped(
    variables: LoopVariables,
    cond: Callable[..., TensorLike],
    body: Callable[..., Any],
    maximum_iterations: TensorLike | None,
) -> list[Any]:
    """The loop as part of the program; a bound that is a number there is known to the derivative."""

    def step(leaves: list[Any]) -> list[Any]:
        return variables.returned(body(*variables.arguments(leaves)))

    def again(leaves: list[Any]) -> Tensor:
        return truth(cond(*variables.arguments(leaves)))

    limit = maximum_iterations
    if limit is not None:
        limit = length_of(limit, "maximum_iterations")
    if not isinstance(limit, Tensor):
        limit = max(limit, 0) if isinstance(limit, int) else limit
        return repeated(again, step, variables.leaves, limit)
    most = cast(reshape(limit, []), I32)
    counted = [*variables.leaves, constant(0, I32)]
    found = repeated(
        lambda leaves: logical_and(less(leaves[-1], most), again(leaves[:-1])),
        lambda leaves: [*step(leaves[:-1]), add(leaves[-1], constant(1, I32))],
        counted,
        None,
    )
    return found[:-1]


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
