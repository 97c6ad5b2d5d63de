"""What an explanation is, and the words for each way in which an operation ends a gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tapec.explanations.connections import Node
from tapec.ir.location import Location


@dataclass(frozen=True)
class Explanation:
    """Why a gradient is None.

    Attributes:
        cause: a short name, such as ``stop_gradient`` or ``not watched``; ``connected`` if the gradient is not None.
        message: what happened, in one sentence.
        location: the line at which the way from source to target ends, or the nearest to it that is known.
        remedy: what to change.
        path: the operations from the source to the cut, with their lines.
    """

    cause: str
    message: str
    location: Location | None
    remedy: str
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The message, the user's line, the remedy."""
        lines = [self.message]
        if self.location is not None:
            lines.append(f"  {self.location.describe()}")
        lines.append(f"  remedy: {self.remedy}")
        return "\n".join(lines)

    def __rich__(self) -> str:
        """The same as markup for the console of the rich library."""
        message, *others = str(self).replace("[", "\\[").splitlines()
        return "\n".join([f"[bold]{message}[/bold]", *others])


#: Remedies for operations that have no derivative.
_INSTEAD = {
    "argmax": "consider softmax, which is differentiable, or pick the value with reduce_max",
    "argmin": "consider softmax of the negative, or pick the value with reduce_min",
    "argsort": "use the sorted values (tapec.sort), which carry a gradient; their order has none",
    "round": "straight-through: v + stop_gradient(round(v) - v)",
    "floor": "straight-through: v + stop_gradient(floor(v) - v)",
    "ceil": "straight-through: v + stop_gradient(ceil(v) - v)",
    "floordiv": "use a true division, or straight-through: v + stop_gradient(v // d - v)",
}

_COMPARISON = (
    "a comparison is a step, with derivative zero: use sigmoid for a soft one, or let tapec.where "
    "choose between differentiable values"
)

_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "is_nan", "is_inf", "is_finite"}


def cut_remedy(cause: str, node: Node) -> str:
    """What to do about an operation that ends a gradient."""
    name = node.step.defn.name
    if cause == "no derivative":
        if name in _COMPARISONS:
            return _COMPARISON
        return _INSTEAD.get(name, "use a differentiable operation in its place")
    return {
        "stop_gradient": "take stop_gradient away if a gradient is to flow here",
        "cast to integers": "stay in floating point: integers carry no gradient",
        "stop_recording": "move the operation out of the stop_recording block",
        "outside the block": "move the operation into the block of the tape",
        "gradient outside the block": "take the inner gradient inside the block of the outer tape",
        "reset": "call reset() before the operations whose gradient is wanted",
        "other thread": "compute it in the thread that opened the tape",
        "watched after use": "watch it before its first use",
        "custom gradient": "let the grad function return a gradient for this argument",
        "rule without gradient": "the operation gives no gradient to this operand; compute the value in another way",
    }[cause]


def operation_name(node: Node) -> str:
    """The public function that the user called, or the operation behind an operator."""
    where = node.step.origin
    public = where.composite if isinstance(where, Location) else where[2] if where else None
    if not public or public.startswith("_"):
        return node.step.defn.name
    return public


def line_of(location: Location | None) -> str:
    """``line 3``, for use inside a sentence."""
    return "an unknown line" if location is None else f"line {location.line}"


def path_words(nodes: Sequence[Node]) -> tuple[str, ...]:
    """``mul (line 3)``, …; what one call of a public function consists of is named once."""
    words = [f"{operation_name(n)} ({line_of(n.location)})" for n in nodes]
    return tuple(w for i, w in enumerate(words) if i == 0 or w != words[i - 1])


def cut_words(
    cause: str,
    node: Node,
    path: Sequence[str],
    describe: Callable[[int], str],
    source: str,
    value: int,
) -> str:
    """The sentence that says how a way from the source ends."""
    name, line = operation_name(node), line_of(node.location)
    made = describe(node.step.outputs[0])
    chain = " -> ".join([source, *path])
    callee = None if node.call is None else node.call.callee
    inside = "" if callee is None else f" in {callee.name}"
    primitive = node.step.defn.name
    detail = f" ({primitive} in it)" if primitive not in (name, f"reduce_{name}") else ""
    if cause == "stop_gradient":
        return f"the path {chain} is cut by stop_gradient at {line}{inside}"
    if cause == "no derivative":
        return (
            f"the path {chain} is cut by {name}{detail} at {line}{inside}, which has no derivative"
        )
    if cause == "cast to integers":
        return f"the path {chain} is cut by {name} at {line}{inside}, which makes integers of it"
    if cause == "custom gradient":
        return f"the grad function of the custom gradient called at {line} returned None for {describe(value)}"
    if cause == "rule without gradient":
        return f"{name} at {line}{inside} gives no gradient to the operand that comes from {source} ({chain})"
    if cause == "stop_recording":
        return f"{made} was computed at {line} under stop_recording"
    if cause == "reset":
        return f"{made} was recorded at {line}, before reset()"
    if cause == "other thread":
        return f"{made} was computed at {line} in another thread, which the tape does not hear"
    if cause == "gradient outside the block":
        return f"{made} was computed by gradient() at {line}, outside of the tape's block: no tape recorded it"
    return (
        f"{made} was computed at {line}, outside of the tape's block; "
        f"{describe(value)} is the last value on the tape"
    )
