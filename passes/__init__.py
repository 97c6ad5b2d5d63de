"""Passes over programs: what there is, in which order, and why.

A pass is a function ``run(module, options) -> changed``. It works in place, leaves a module that
the verifier accepts, prints nothing and reads no environment. `tapec.passes.pipeline` runs them.
"""

from __future__ import annotations

from tapec.passes.table import Constraint, Pass

#: Where each is, below this folder; a pass has the name of its module, which is imported when it is to run.
_TABLE = (
    Pass("inline", "tensor", "tensor", "Replace calls by what they call."),
    Pass(
        "canonicalize",
        "tensor",
        "tensor",
        "Rewrite to simpler forms of exactly equal value; fold constants.",
    ),
    Pass("cse", "tensor", "tensor", "Merge operations that compute the same."),
    Pass("dce", "tensor", "tensor", "Remove what nobody reads."),
    Pass(
        "loops.checkpoint",
        "tensor",
        "tensor",
        "Cut loops so that gradients keep few of their states.",
    ),
    Pass("adjoint", "tensor", "tensor", "Write the reverse-mode program of gradients."),
    Pass("prune", "tensor", "tensor", "Take the tape's marks down; drop unread adjoints."),
    Pass("commit", "tensor", "tensor", "Turn checks into a result on which updates depend."),
    Pass("batch", "tensor", "tensor", "Map functions over a new leading axis."),
    Pass("pairs", "tensor", "tensor", "Write complex numbers as pairs of real numbers."),
    Pass("hoist", "tensor", "tensor", "Take out of loops what need not be done turn by turn."),
    Pass("factor", "tensor", "tensor", "Add rows up before a product, not behind it."),
    Pass(
        "loops.revolve",
        "tensor",
        "tensor",
        "Let loops back have few states, and make others again.",
    ),
    Pass(
        "rematerialize",
        "tensor",
        "tensor",
        "Compute again what a budget of memory has no room for.",
    ),
    Pass("device.stages", "tensor", "tensor", "Make long sums in two stages."),
    Pass("fuse", "tensor", "tensor", "Group operations into kernels."),
    Pass("schedule", "tensor", "tensor", "Choose vectors, tiles, threads."),
    Pass("plan", "tensor", "tensor", "Place every kernel's result in memory."),
    Pass("memory.poison", "tensor", "tensor", "Fill bytes that are free with NaN patterns."),
    Pass("lower", "tensor", "loop", "Write kernels as loops, and launch them."),
    Pass(
        "loops.registers",
        "loop",
        "loop",
        "Carry the numbers of a small loop in registers, in one kernel.",
    ),
    Pass(
        "device.predicate",
        "loop",
        "loop",
        "Let kernels look at conditions that the host would wait for.",
    ),
    Pass("device.enclose", "loop", "loop", "Make one kernel of a loop that launches small ones."),
    Pass("device.spread", "loop", "loop", "Deal loops out to the blocks and threads of a device."),
    Pass("device.join", "loop", "loop", "Launch kernels together that do not wait for each other."),
    Pass("device.widen", "loop", "loop", "Access four neighbours at once."),
    Pass("poll", "loop", "loop", "Mark the loops between whose turns a program may stop."),
    Pass("alarm", "loop", "loop", "Let kernels tell of numbers that are NaN or infinite."),
)
PASSES = {row.name: row for row in _TABLE}

#: A pipeline that has both passes has every `earlier` before every `later`.
ORDER = (
    Constraint("inline", "adjoint", "a call has no derivative, the body that it calls has one"),
    Constraint("adjoint", "prune", "without the marks a gradient walks too far"),
    Constraint("inline", "checkpoint", "loops of what is called are loops"),
    Constraint("checkpoint", "adjoint", "what a gradient keeps of a loop follows from the loop"),
    Constraint("inline", "batch", "a call has no rule for a batch axis, what it calls has one"),
    Constraint(
        "adjoint", "batch", "a gradient has no rule for a batch axis, what it stands for has"
    ),
    Constraint("batch", "fuse", "a kernel has no rule for a batch axis, the operations in it have"),
    Constraint("inline", "pairs", "a call has no form on pairs, what it calls has one"),
    Constraint("adjoint", "pairs", "gradients are of complex values, by TensorFlow's convention"),
    Constraint("batch", "pairs", "a mapped function has complex arguments as its caller has"),
    Constraint("commit", "pairs", "checks look at values as the program has them"),
    Constraint("pairs", "fuse", "loops are written over real numbers"),
    Constraint("adjoint", "fuse", "a kernel has no derivative, the operations in it have one"),
    Constraint("prune", "fuse", "a kernel computes, it marks nothing"),
    Constraint("adjoint", "commit", "rules write checks of cotangents"),
    Constraint("prune", "commit", "the adjoint of a check that nobody asked for goes first"),
    Constraint("commit", "fuse", "a kernel cannot raise"),
    Constraint("cse", "fuse", "what is computed twice would be fused twice"),
    Constraint("canonicalize", "fuse", "rules look at operations, not into kernels"),
    Constraint("adjoint", "hoist", "most to take out is in loops that go back"),
    Constraint("prune", "hoist", "marks in a body would hold back what they mark"),
    Constraint("commit", "hoist", "a check tells which of its turns failed"),
    Constraint("pairs", "hoist", "products of complex numbers are several of real ones"),
    Constraint("adjoint", "factor", "what a gradient reads of a product is known then"),
    Constraint("prune", "factor", "a mark reads what it marks"),
    Constraint("pairs", "factor", "products of complex numbers are several of real ones"),
    Constraint("hoist", "factor", "sums of all turns' products leave a loop as they are"),
    Constraint("factor", "rematerialize", "what is not computed is not kept"),
    Constraint("factor", "fuse", "rules look at operations, not into kernels"),
    Constraint("adjoint", "rematerialize", "what to keep is what the way back reads"),
    Constraint("hoist", "rematerialize", "what leaves loops is kept from there on"),
    Constraint("adjoint", "revolve", "what goes back over a loop is a loop then"),
    Constraint(
        "hoist", "revolve", "hoist wants all turns, and a table says how many stretches have"
    ),
    Constraint("revolve", "rematerialize", "what loops take counts for the budget"),
    Constraint("rematerialize", "fuse", "a kernel does not tell which of its operations run again"),
    Constraint("hoist", "fuse", "a kernel is for one turn, or for all"),
    Constraint("adjoint", "stages", "rules are for whole sums"),
    Constraint(
        "rematerialize", "stages", "what is added up in parts would be kept, or computed again"
    ),
    Constraint("stages", "fuse", "a kernel is for one stage"),
    Constraint("fuse", "schedule", "what is scheduled are kernels"),
    Constraint("dce", "schedule", "a schedule is made for the results that a kernel has"),
    Constraint("schedule", "plan", "the plan holds the scratch that schedules ask for"),
    Constraint("plan", "poison", "which bytes are free follows from where values are"),
    Constraint("plan", "lower", "loops address memory by the planned places"),
    Constraint("lower", "predicate", "which conditions choose kernels is known then"),
    Constraint(
        "predicate", "enclose", "a loop whose conditions are kernels' own can be one kernel"
    ),
    Constraint("predicate", "spread", "what begins with a condition is dealt out as what does not"),
    Constraint("lower", "enclose", "which loops launch kernels is known then"),
    Constraint("enclose", "spread", "what one kernel is, is dealt out as one"),
    Constraint("lower", "spread", "what is dealt out are loops"),
    Constraint(
        "spread", "join", "how many blocks a kernel takes tells how to launch it with others"
    ),
    Constraint("spread", "widen", "which accesses are one thread's is known then"),
    Constraint("join", "widen", "what waits for what is told by single accesses"),
    Constraint("lower", "registers", "which loops launch kernels is known then"),
    Constraint("lower", "poll", "whether a loop may be left depends on what is written before it"),
)

PIPELINES = {
    "default": "inline, canonicalize, cse, dce, checkpoint, adjoint, prune, commit, pairs, hoist, factor, "
    "canonicalize, cse, dce, revolve, rematerialize, fuse, schedule, plan, lower, registers, poll",
}
#: For other machines: nobody stops a program there.
PIPELINES["ahead"] = PIPELINES["default"].removesuffix(", registers, poll")
#: For devices of many threads.
_PLANNED = PIPELINES["ahead"].replace("plan", "plan{share=false}")
PIPELINES["device"] = (
    _PLANNED.replace("rematerialize", "rematerialize, stages")
    + ", predicate, enclose, spread, join, widen"
)
#: For programs that NumPy evaluates: all but what is done for machines.
PIPELINES["evaluated"] = (
    "inline, canonicalize, cse, dce, adjoint, prune, commit, canonicalize, cse, dce"
)
#: For `tapec.debugging.enable_check_numerics`.
PIPELINES["alarmed"] = f"{PIPELINES['ahead']}, poll, alarm"
