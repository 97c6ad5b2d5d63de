"""`gradients`: derivatives of a compiled function's own values, without a tape."""

from __future__ import annotations

from typing import Any

from tapec.derivatives.arguments import checked
from tapec.derivatives.cotangents import given_cotangents, total
from tapec.derivatives.traced_gradient import walk_back
from tapec.derivatives.unconnected import UnconnectedGradients
from tapec.errors import RuntimeError
from tapec.frames import here
from tapec.recording import current_trace
from tapec.structure import flatten
from tapec.tensor import Tensor, apply
from tapec.variable import Variable


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str | None = None,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: UnconnectedGradients | str = UnconnectedGradients.NONE,
) -> list[Tensor | None]:
    """The gradient of the sum of ``ys`` with respect to each of ``xs``, inside of a compiled function.

    It follows all operations of the function so far; no tape is needed.

    Args:
        ys: a Tensor, or a structure of them.
        xs: a Tensor or Variable, or a structure of them; a Variable stands for all its reads so far.
        grad_ys: weights of the elements of ``ys``, one Tensor for each; ones if None.
        name: not used, as are the next two: TensorFlow's advice to its own graph.
        gate_gradients: not used.
        aggregation_method: not used.
        stop_gradients: Tensors past which nothing flows.
        unconnected_gradients: None or zeros for those of ``xs`` that ``ys`` do not depend on.

    Returns:
        A list with one entry for each of ``xs``: of its shape and dtype, or None.

    Raises:
        RuntimeError: called in eager code.
        TypeError: something is no Tensor or Variable.
        ValueError: ``grad_ys`` do not fit ``ys``, or ``unconnected_gradients`` is none of its values.
    """
    trace = current_trace()
    if trace is None:
        raise RuntimeError(
            "tapec.gradients is not supported when eager execution is enabled. Use tapec.GradientTape instead.",
            location=here(),
        )
    unconnected = UnconnectedGradients.of(unconnected_gradients)
    targets, sources = _tensors(ys, "ys"), _tensors(xs, "xs")
    stops = [] if stop_gradients is None else _tensors(stop_gradients, "stop_gradients")
    ends = [t.read_value() if isinstance(t, Variable) else t for t in targets]
    seeds = given_cotangents(ends, grad_ys)
    groups = [trace.values_behind(s) for s in sources]
    starts = [v for group in groups for v in group]
    walls = [v for stop in stops for v in trace.values_behind(stop)]
    flat = iter(walk_back(trace, ends, starts, walls, seeds))
    results: list[Tensor | None] = []
    for source, group in zip(sources, groups, strict=True):
        gradient = total([next(flat) for _ in group])
        if gradient is None and unconnected is UnconnectedGradients.ZERO:
            gradient = apply("constant", value=0, type=source.type)
        results.append(gradient)
    return results


def _tensors(structure: Any, what: str) -> list[Tensor | Variable]:
    return [checked(leaf, what) for leaf in flatten(structure)[0]]
