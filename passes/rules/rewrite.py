"""Apply a table of local rewriting rules to a program.

A rule looks at one operation and the operations that produce its operands; it returns values that
replace the results, or None. The driver works in program order with a list of what is still to be
looked at: what a rule wrote is looked at before anything behind it. So every operation is tried with
operands that are final, the work is linear in the program and in the rules that apply, and doing it
again changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapec.ir.builder import Builder
from tapec.ir.core import MARKS, Block, Operation, Value
from tapec.ir.op import Op
from tapec.ir.ops.source import Constant
from tapec.ir.types import TensorType

#: Values for the results, one value if there is one result, or None; a Builder gives no types.
Replacement = Any


@dataclass(frozen=True)
class Rule:
    """``algebra`` says what becomes what; ``replace`` does it for operations of the class ``kind``.

    A rule writes nothing unless it replaces the operation.
    """

    algebra: str
    kind: type[Op] | tuple[type[Op], ...]
    replace: Callable[[Builder, Operation], Replacement]


class Rewriter:
    """A table of rules, ready to be applied."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        """Earlier rules are tried first."""
        self.rules = tuple(rules)
        self._by_class: dict[type[Op], tuple[Rule, ...]] = {}

    def rewrite(self, block: Block) -> bool:
        """Rewrite a block and the regions in it; return whether anything changed."""
        changed = False
        todo = block.ops[::-1]
        block.ops = []
        b = Builder(block)
        while todo:
            op = todo.pop()
            written = self._replaced(b, op)
            if written is not None:
                todo += reversed(written)
                changed = True
                continue
            for region in op.regions:
                for inner in region.blocks:
                    changed |= self.rewrite(inner)
            block.ops.append(op)
        return changed

    def _replaced(self, b: Builder, op: Operation) -> list[Operation] | None:
        """Replace an operation by the first rule that does; return what the rule wrote."""
        ops = b.block.ops
        start = len(ops)
        for rule in self._rules(type(op.defn)):
            b.location = op.location
            new = rule.replace(b, op)
            if new is None:
                continue
            values = (new,) if isinstance(new, Value) else tuple(new)
            written = ops[start:]
            del ops[start:]
            if not MARKS.isdisjoint(op.attrs):
                _mark(written, {name: op.attrs[name] for name in MARKS & op.attrs.keys()})
            # Dims that a guard holds to be equal may be written apart: then the type would change.
            if all(r.type == v.type for r, v in zip(op.results, values, strict=True)):
                _hand_over(op, values, rule.algebra)
                return written
            for unused in reversed(written):
                unused.drop()
        return None

    def _rules(self, kind: type[Op]) -> tuple[Rule, ...]:
        found = self._by_class.get(kind)
        if found is None:
            found = tuple(rule for rule in self.rules if issubclass(kind, rule.kind))
            self._by_class[kind] = found
        return found


def _mark(written: Sequence[Operation], marks: Mapping[str, Any]) -> None:
    """What replaces an operation that is computed for the second time, or only once, is so, too."""
    for op in written:
        if not isinstance(op.defn, Constant):
            op.attrs.update(marks)


def _hand_over(op: Operation, values: Sequence[Value], why: str) -> None:
    """Let the readers of an operation read other values; the operation leaves the program."""
    for old, new in zip(op.results, values, strict=True):
        old.replace_all_uses(new, why)
        if new.name is None:
            new.name = old.name
    op.drop()
    op.block = None


# ---- what rules ask


def producer(value: Value, kind: type[Op] | tuple[type[Op], ...]) -> Operation | None:
    """The operation that a value comes from, if it is of this class."""
    op = value.op
    return op if op is not None and isinstance(op.defn, kind) else None


def splat(value: Value) -> Any:
    """The number, in its own dtype, that every element of a constant is; None if there is none."""
    op = producer(value, Constant)
    if op is None or not isinstance(value.type, TensorType):
        return None
    number = op.attrs["value"]
    if isinstance(number, np.ndarray):
        if number.size != 1:
            return None
        number = number.reshape(())
    return np.asarray(number).astype(value.type.dtype.numpy)[()]


def plain(number: Any) -> Any:
    """A NumPy number as Python's, with no more digits than its dtype needs."""
    number = np.asarray(number)[()]
    if number.dtype.kind in "biuc" or number.dtype == np.float64:
        return number.item()
    short = float(str(number))
    return short if number.dtype.type(short) == number else float(number)


def is_exactly(number: Any, wanted: float) -> bool:
    """Whether a number is ``wanted`` to the bit: 0.0 is not -0.0. None is no number."""
    if number is None or number != wanted:
        return False
    if number.dtype.kind in "biu":
        return True
    parts = (number.real, number.imag) if number.dtype.kind == "c" else (number,)
    negative = bool(np.signbit(np.float64(wanted)))
    return wanted != 0 or all(bool(np.signbit(np.float64(p))) is negative for p in parts)
