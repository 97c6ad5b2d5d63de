"""Passes over programs: what there is, in which order, and why.

A pass is a function ``run(module, options) -> changed``. It works in place, leaves a module that
the verifier accepts, prints nothing and reads no environment. `tapec.passes.pipeline` runs them.
"""

from __future__ import annotations

from tapec.passes import adjoint, canonicalize, cse, dce, inline, prune
from tapec.passes.table import Constraint, Pass, check

PASSES = {
    "inline": Pass(inline.run, "tensor", "tensor", "Replace calls by what they call."),
    "canonicalize": Pass(
        canonicalize.run,
        "tensor",
        "tensor",
        "Rewrite to simpler forms of exactly equal value; fold constants.",
        canonicalize.Options,
    ),
    "cse": Pass(cse.run, "tensor", "tensor", "Merge operations that compute the same."),
    "dce": Pass(dce.run, "tensor", "tensor", "Remove what nobody reads."),
    "adjoint": Pass(
        adjoint.run, "tensor", "tensor", "Write the reverse-mode program of gradients."
    ),
    "prune": Pass(
        prune.run, "tensor", "tensor", "Take the tape's marks down; drop unread adjoints."
    ),
}

#: A pipeline that has both passes has every `earlier` before every `later`.
ORDER = (
    Constraint("inline", "adjoint", "a call has no derivative, the body that it calls has one"),
    Constraint("adjoint", "prune", "without the marks a gradient walks too far"),
)

PIPELINES = {
    "default": "inline, canonicalize, cse, dce, adjoint, prune, canonicalize, cse, dce",
}

check(PASSES, PIPELINES, ORDER)
