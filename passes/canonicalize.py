"""Rewrite to simpler forms of exactly equal value, and compute what is known.

The rules are in `tapec.passes.rules.algebra`, `tapec.passes.rules.layout`, `tapec.passes.rules.windows` and
`tapec.passes.rules.flow`; here are those about
constants. A mark of a tape is not looked through: what it marks stays distinct until `prune`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from tapec.ir.builder import Builder
from tapec.ir.core import Module, Operation, Value
from tapec.ir.guards import recording_guards
from tapec.ir.op import Elementwise, Op
from tapec.ir.ops.control import Gradient
from tapec.ir.ops.interleaved import Reinterpretation
from tapec.ir.ops.source import Constant
from tapec.ir.types import TensorType
from tapec.passes.rules.algebra import RULES as ALGEBRA
from tapec.passes.rules.flow import RULES as FLOW
from tapec.passes.rules.layout import RULES as LAYOUT
from tapec.passes.rules.rewrite import Replacement, Rewriter, Rule, plain, producer, splat
from tapec.passes.rules.windows import RULES as WINDOWS


@dataclass(frozen=True)
class Options:
    """``limit`` is how many elements an operation on constants may have to be computed here."""

    limit: int = 1024


def run(module: Module, options: Options | None = None) -> bool:
    """Rewrite every function."""
    limit = (options or Options()).limit
    changed = False
    for function in module.functions.values():
        if function.is_loop_level:
            continue
        # A gradient may go through what has no elements to factors that are NaN, and is NaN then.
        keeps_paths = any(isinstance(op.defn, Gradient) for op in function.walk())
        with recording_guards(function):
            changed |= _rewriter(limit, keeps_paths).rewrite(function.block)
    return changed


@cache
def _rewriter(limit: int, keeps_paths: bool) -> Rewriter:
    def fold(b: Builder, op: Operation) -> Replacement:
        return _computed(b, op, limit)

    constants = (
        *(() if keeps_paths else (Rule("f(x) -> full(0) of no elements", Op, _nothing),)),
        Rule("[c, c, c] -> full(c)", Constant, _uniform),
        Rule("f(full(c)) -> full(f(c))", Elementwise, _computed_once),
        Rule("f(constant) -> constant", Op, fold),
    )
    return Rewriter((*constants, *ALGEBRA, *LAYOUT, *WINDOWS, *FLOW))


def _nothing(b: Builder, op: Operation) -> Replacement:
    """What has no elements need not be computed; a mark of a tape stays."""
    if (
        op.regions
        or not op.defn.pure
        or op.defn.marks_path
        or isinstance(op.defn, Constant | Gradient | Reinterpretation)
    ):
        return None
    types = [r.type for r in op.results]
    if not types or not all(isinstance(t, TensorType) and t.size == 0 for t in types):
        return None
    return [b.full_like(r.tensor.dtype.numpy.type(0).item(), r) for r in op.results]


def _uniform(b: Builder, op: Operation) -> Replacement:
    array = op.attrs["value"]
    if not isinstance(array, np.ndarray):
        return None
    number = _repeated(array)
    return None if number is None else b.full(number, op.result.tensor)


def _computed_once(b: Builder, op: Operation) -> Replacement:
    """Elementwise functions of numbers: the size does not matter, nor whether it is known."""
    numbers = [splat(v) for v in op.operands]
    if any(n is None for n in numbers) or not isinstance(op.result.type, TensorType):
        return None
    arrays = [np.asarray(n) for n in numbers]
    value = np.asarray(op.defn.evaluate(*arrays, **op.parameters))
    if _makes_bad(arrays, [value]):
        return None
    return b.full(plain(value), op.result.type)


def _computed(b: Builder, op: Operation, limit: int) -> Replacement:
    defn = op.defn
    if not op.operands or op.regions or defn.marks_path or not defn.pure:
        return None
    if isinstance(defn, Reinterpretation):
        return None  # behind the pass `pairs` there are no other complex constants
    constants = [producer(v, Constant) for v in op.operands]
    known = [c for c in constants if c is not None]
    if len(known) < len(constants) or not _small((*op.operands, *op.results), limit):
        return None
    with np.errstate(all="ignore"):
        arrays = [c.defn.evaluate(**c.parameters) for c in known]
        values = defn.evaluate(*arrays, **op.parameters)
    if len(op.results) == 1:
        values = (values,)
    if _makes_bad(arrays, values):
        return None
    return [_constant(b, np.asarray(v), r) for v, r in zip(values, op.results, strict=True)]


def _makes_bad(operands: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether NaN or an infinity arises here: that stays an operation, so that it can be found where it is made."""
    return any(map(_is_bad, results)) and not any(map(_is_bad, operands))


def _is_bad(array: Any) -> bool:
    array = np.asarray(array)
    return array.dtype.kind in "fcV" and not np.isfinite(array).all()


def _small(values: Sequence[Value], limit: int) -> bool:
    """Whether all are arrays of few elements; one of none may still have a dim that is known only at run time."""
    types = [v.type for v in values]
    return all(
        isinstance(t, TensorType) and t.is_static and prod(t.static_shape) <= limit for t in types
    )


def _constant(b: Builder, array: np.ndarray[Any, Any], like: Value) -> Value:
    number = _repeated(array)
    return b.dense(array, like.tensor.dtype) if number is None else b.full(number, like.tensor)


def _repeated(array: np.ndarray[Any, Any]) -> Any:
    """The number that all elements are, to the bit; None if they differ."""
    if array.size == 0:
        return array.dtype.type(0).item()
    flat = np.ascontiguousarray(array).reshape(-1)
    same = flat.view(np.uint8).reshape(flat.size, -1)
    return plain(flat[0]) if (same == same[0]).all() else None
