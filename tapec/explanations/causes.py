"""The words for each way in which an operation ends a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tapec.explanations.connections import Cut
from tapec.explanations.explanation import Cause
from tapec.explanations.nodes import Node
from tapec.frames import function_of
from tapec.ir.location import Location

#: Remedies for operations that have no derivative.
_INSTEAD = {
    "argmax": "consider softmax, which is differentiable, or pick the value with reduce_max",
    "argmin": "consider softmax of the negative, or pick the value with reduce_min",
    "argsort": "use the sorted values (tapec.sort), which carry a gradient; their order has none",
    "sign": "straight-through: v + stop_gradient(sign(v) - v), or tanh for a soft one",
    "round": "straight-through: v + stop_gradient(round(v) - v)",
    "floor": "straight-through: v + stop_gradient(floor(v) - v)",
    "ceil": "straight-through: v + stop_gradient(ceil(v) - v)",
    "numpy_function": "write it with the functions of tapec, or give it a derivative: tapec.custom_gradient",
    "floordiv": "use a true division, or straight-through: v + stop_gradient(v // d - v)",
}

_COMPARISON = (
    "a comparison is a step, with derivative zero: use sigmoid for a soft one, or let tapec.where "
    "choose between differentiable values"
)

#: Comparisons, with their public names.
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "is_nan": "is_nan",
    "is_inf": "is_inf",
    "is_finite": "is_finite",
}

#: Operations whose derivative is zero wherever there is one.
_STEPS = {"round", "floor", "ceil", "sign", "floordiv", *_COMPARISONS}

#: How much of both ends of a way is named, and of how many operations.
_SHOWN = 4
_SEARCHED = 40

_REMEDIES = {
    Cause.STOP_GRADIENT: "take stop_gradient away if a gradient is to flow here",
    Cause.CAST: "stay in floating point: integers carry no gradient",
    Cause.STOP_RECORDING: "move the operation out of the stop_recording block",
    Cause.AFTER: "move the operation into the block of the tape",
    Cause.GRADIENT_AFTER: "take the inner gradient inside the block of the outer tape",
    Cause.RESET: "call reset() before the operations whose gradient is wanted",
    Cause.OTHER_THREAD: "compute it in the thread that opened the tape",
    Cause.ASSIGNED: "use the Tensor that is assigned in the place of the Variable",
    Cause.CUSTOM: "let the grad function return a gradient for this argument; by name it gets none",
    Cause.NO_RULE: "the operation gives no gradient to this operand; compute the value in another way",
}


def cut_remedy(cause: Cause, node: Node) -> str:
    """What to do about an operation that ends a gradient."""
    name = node.step.defn.name
    if cause is not Cause.NO_DERIVATIVE:
        return _REMEDIES[cause]
    if name in _COMPARISONS:
        return _COMPARISON
    own = node.step.defn.no_derivative
    return own or _INSTEAD.get(name, "use a differentiable operation in its place")


def operation_name(node: Node) -> str:
    """The public function that the user called, or the operation behind an operator."""
    name = node.step.defn.name
    return function_of(node.step.origin) or _COMPARISONS.get(name, name)


def path_words(nodes: Sequence[Node], line: Callable[[Location | None], str]) -> tuple[str, ...]:
    """``mul (line 3)``, …; one call of a public function is named once, and of a long way both ends."""
    ends = (nodes[:_SEARCHED], nodes[-_SEARCHED:]) if len(nodes) > 2 * _SEARCHED else (nodes, ())
    first, last = (_named(part, line) for part in ends)
    if not last and len(first) > 2 * _SHOWN:
        first, last = first[:_SHOWN], first[-_SHOWN:]
    return (*first[:_SHOWN], "...", *last[-_SHOWN:]) if last else tuple(first)


def _named(nodes: Sequence[Node], line: Callable[[Location | None], str]) -> list[str]:
    words = [f"{operation_name(n)} ({line(n.location)})" for n in nodes]
    return [w for i, w in enumerate(words) if i == 0 or w != words[i - 1]]


def cut_words(
    cut: Cut,
    path: Sequence[str],
    describe: Callable[[int], str],
    line_of: Callable[[Location | None], str],
    source: str,
    tape: str,
) -> str:
    """The sentence that says how a way from the source ends; ``tape`` is the line where the tape's block opens."""
    node, cause = cut.node, cut.cause
    name, line = operation_name(node), line_of(node.location)
    made = describe(node.step.outputs[0])
    chain = " -> ".join([source, *path])
    callee = None if node.call is None else node.call.callee
    at = line if callee is None else f"{line}, inside of {callee.name}"
    the_path = f"behind that, the path {chain}" if cut.behind else f"the path {chain}"
    primitive = node.step.defn.name
    known = (name, f"reduce_{name}", *(p for p, public in _COMPARISONS.items() if public == name))
    detail = "" if primitive in known else f" ({primitive} in it)"
    if cause is Cause.NO_DERIVATIVE:
        why = "whose derivative is zero" if primitive in _STEPS else "which has no derivative"
        return f"{the_path} is cut by {name}{detail} at {at}, {why}"
    return {
        Cause.STOP_GRADIENT: f"{the_path} is cut by stop_gradient at {at}",
        Cause.CAST: f"{the_path} is cut by {name}{_dtypes(node)} at {at}, which makes integers of it",
        Cause.CUSTOM: f"the grad function of {name}, called at {line}, returned None for {describe(cut.value)}",
        Cause.NO_RULE: f"{name} at {at} gives no gradient to the operand that comes from {source} ({chain})",
        Cause.ASSIGNED: f"{the_path} goes into a Variable that is assigned and then read at {at}: gradients do "
        "not flow through assign",
        Cause.STOP_RECORDING: f"{made} was computed at {line} under stop_recording",
        Cause.RESET: f"{made} was recorded at {line}, before reset()",
        Cause.OTHER_THREAD: f"{made} was computed at {line} in another thread, which the tape does not hear",
        Cause.GRADIENT_AFTER: f"{made} was computed by gradient() at {line}, outside of the block of the tape "
        f"at {tape}: no tape recorded it",
        Cause.AFTER: f"{made} was computed at {line}, outside of the block of the tape at {tape}; "
        f"{describe(cut.value)} is the last value on the tape",
    }[cause]


def _dtypes(node: Node) -> str:
    """`` float32 -> int32``, of a cast whose types are known."""
    step = node.step
    to = (step.attrs or {}).get("dtype")
    return f" {step.input_types[0].dtype.name} -> {to.name}" if step.input_types and to else ""
