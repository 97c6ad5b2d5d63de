"""How deep the operations of a kernel are nested, so that whoever walks down them need not recurse as deep."""

from __future__ import annotations

from collections.abc import Container, Iterable

from tapec.ir.core import Operation, Value
from tapec.ir.op import Elementwise

#: Operations on top of each other that are few enough for recursion.
DEEP = 16
#: What may be on top of each other in one kernel, in the units of `weight`.
DEEPEST = 40
#: How many movements of an element a loop counts for: it takes as many calls to write.
_LOOP = 4


def weight(op: Operation) -> int:
    """How much deeper an operation makes a walk down a kernel: elementwise ones are walked down without recursion."""
    if isinstance(op.defn, Elementwise):
        return 0
    return _LOOP if op.defn.form != "index" or op.defn.loops else 1


def depths(ops: Iterable[Operation]) -> dict[Value, int]:
    """How many operations are on top of each other, up to each value that a kernel's operations make."""
    found: dict[Value, int] = {}
    for op in ops:
        depth = 1 + max((found.get(v, 0) for v in op.operands), default=0)
        found |= dict.fromkeys(op.results, depth)
    return found


def below(value: Value, inside: Container[Value], apart: Container[Value]) -> list[Value]:
    """The elementwise results that a value is made of, at its own index; operands come first, each once.

    ``inside`` is what the kernel computes. What is ``apart`` is made elsewhere: neither it nor what it is made of is
    looked at. Empty if the value is no elementwise result itself.
    """
    found: dict[Value, None] = {}
    stack = [value]
    while stack:
        op = stack[-1].op
        assert op is not None
        waits = op.operands if isinstance(op.defn, Elementwise) else ()
        inner = next(
            (v for v in waits if _is_below(v, inside) and v not in apart and v not in found), None
        )
        if inner is None:
            found[stack.pop()] = None
        else:
            stack.append(inner)
    return list(found)[:-1]


def _is_below(value: Value, inside: Container[Value]) -> bool:
    """Whether a value is an elementwise result inside a kernel."""
    return value in inside and value.op is not None and isinstance(value.op.defn, Elementwise)
