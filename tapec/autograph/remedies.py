"""What to do where Python asks a tensor for what only the run knows."""

from __future__ import annotations

from tapec.autograph.conversion import is_converting, why_not
from tapec.frames import Origin

#: What does in the program what functions of Python's do with items.
_INSTEAD = {
    "sum": "tapec.reduce_sum(x, 0)",
    "max": "tapec.reduce_max(x, 0)",
    "min": "tapec.reduce_min(x, 0)",
    "any": "tapec.reduce_any(x)",
    "all": "tapec.reduce_all(x)",
    "sorted": "tapec.sort(x)",
    "reversed": "tapec.reverse(x, [0])",
    "set": "tapec.unique(x)",
    "fsum": "tapec.reduce_sum(x)",
    "prod": "tapec.reduce_prod(x)",
}


def remedy_for_truth(origin: Origin | None) -> str:
    """For ``bool(tensor)``: why the code at an origin does not decide in the program, and what does."""
    reason = _reason(origin)
    if reason is not None:
        return (
            f"{reason}; use tapec.cond, tapec.while_loop, or tapec.where to choose between values"
        )
    return (
        "assertions, match, conditions in comprehensions, bool(), any(), max() and their kin ask Python: use "
        "tapec.debugging.Assert, tapec.where, tapec.reduce_any, tapec.maximum, or an if statement"
    )


def remedy_for_iteration(origin: Origin | None) -> str:
    """For ``iter(tensor)``."""
    reason = _reason(origin)
    if reason is not None:
        return f"{reason}; use tapec.map_fn, tapec.scan, tapec.while_loop, or tapec.unstack"
    for name in _called_at(origin):
        if name in _INSTEAD:
            return f"use {_INSTEAD[name]} in the place of {name}"
    return (
        "unpack tapec.unstack(x); loops take `for row in x`, `for a, b in zip(x, y)` and `for i in "
        "tapec.range(n)`, comprehensions `for row in x`"
    )


def _called_at(origin: Origin | None) -> set[str]:
    """The names of what the user's code calls there."""
    if origin is None:
        return set()
    # It knows code, and is not needed before something is wrong.
    from tapec.compiled.guards.flow import flow_of

    flow = flow_of(origin[0])
    return flow.callees(flow.number(origin[1]))


def _reason(origin: Origin | None) -> str | None:
    if origin is None:
        return None
    code = origin[0]
    if not is_converting():
        return f"nothing is converted here (autograph=False, or do_not_convert), so {code.co_name} runs as it is"
    reason = why_not(code)
    return None if reason is None else f"{code.co_name} is not converted: {reason}"
