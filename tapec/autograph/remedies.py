"""What to do where Python asks a tensor for what only the run knows."""

from __future__ import annotations

from tapec.autograph.conversion import is_converting, why_not
from tapec.frames import Origin


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
    return (
        "unpack tapec.unstack(x); loops take `for row in x`, `for a, b in zip(x, y)` and `for i in "
        "tapec.range(n)`, comprehensions `for row in x`"
    )


def _reason(origin: Origin | None) -> str | None:
    if origin is None:
        return None
    code = origin[0]
    if not is_converting():
        return f"nothing is converted here (autograph=False, or do_not_convert), so {code.co_name} runs as it is"
    reason = why_not(code)
    return None if reason is None else f"{code.co_name} is not converted: {reason}"
