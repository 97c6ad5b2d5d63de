"""The fewest bytes to keep, so that everything that is needed can be computed from them again: a minimum cut.

Values are edges that can be cut for their bytes; what is computed from what is edges that cannot. The source is behind
what cannot be computed again, the sink behind what is needed. Arguments are always there and cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tapec.ir.core import Operation, Value
from tapec.ir.dims import typical


def least_kept(needed: Iterable[Value], can_repeat: Callable[[Operation], bool]) -> set[Value]:
    """The values to keep.

    Args:
        needed: what has to be there, or to be computable from what is kept and from arguments.
        can_repeat: whether an operation may run again.
    """
    import networkx  # heavy: most programs keep what they have, and are not looked at

    graph = networkx.DiGraph()
    graph.add_nodes_from(("source", "sink"))
    stack = [v for v in needed if v.op is not None]
    for value in stack:
        graph.add_edge((value, "out"), "sink")
    seen = set(stack)
    while stack:
        value = stack.pop()
        op = value.op
        assert op is not None
        graph.add_edge((value, "in"), (value, "out"), capacity=typical(value.tensor.bytes))
        if not can_repeat(op):
            graph.add_edge("source", (value, "in"))
            continue
        for operand in op.operands:
            if operand.op is None:
                continue
            graph.add_edge((operand, "out"), (value, "in"))
            if operand not in seen:
                seen.add(operand)
                stack.append(operand)
    _, (near, _) = networkx.minimum_cut(graph, "source", "sink")
    return {v for v in seen if (v, "in") in near and (v, "out") not in near}
