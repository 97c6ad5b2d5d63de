"""How much a program of open sizes does, as a call's sizes tell: a kernel that counts as `tapec.runtime.cpu.work` does.

How often such a loop turns follows from its bounds, and these from sizes alone. So what computes the bounds is copied,
and the products of turns are added up: some arithmetic, once for each call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.dims import Dim, DimLike, substitute, symbol
from tapec.ir.op import Elementwise
from tapec.ir.ops import loop, source
from tapec.ir.types import F64, INDEX, BufferType, TensorType
from tapec.runtime.cpu.work import SHORT_WORK, turns_at_most
from tapec.runtime.symbols import bind_symbols, symbols_of

NAME = "tapec.estimate"


def estimate(module: Module) -> Function | None:
    """A kernel that stores, as f64, how many operations one call executes, as a rule.

    Its symbols are some of the entry's. None where sizes do not tell how often a loop turns, or no size is short.
    """
    writer = _Writer(module)
    symbols = {name: symbol(name) for name in symbols_of(module.entry)}
    work = writer.work(module.entry.block, _Known(symbols, {}))
    if work is None or work.number > SHORT_WORK:
        return None
    builder, (place,) = writer.builder, writer.function.args
    builder.emit("store", writer.total(work), place)
    builder.emit("return")
    return writer.function


class _Known(NamedTuple):
    """What one launch of a function knows: its symbols in terms of the entry's, and values that were copied."""

    symbols: Mapping[str, DimLike]
    copies: dict[Value, Value | None]


class _Amount(NamedTuple):
    """A number of operations: what is known now, and what the call adds."""

    number: int
    parts: list[Value]


class _Writer:
    """Writes the kernel; sums and products are floats, which do not wrap around."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.function = Function(NAME, [BufferType(F64, ())], kind="kernel")
        self.builder = Builder(self.function.block)

    def work(self, block: Block, known: _Known) -> _Amount | None:
        """Operations that one run of a block executes; None if nobody can know, or it is too many in any case."""
        number, parts = len(block.ops), list[Value]()
        for op in block.ops:
            if op.attrs.get("rare"):
                continue
            if isinstance(op.defn, loop.Launch):
                inner = self._launched(op, known)
            elif op.regions:
                inner = self._inside(op, known)
            else:
                continue
            if inner is None or inner.number > SHORT_WORK:
                return None
            number += inner.number
            parts += inner.parts
        return _Amount(number, parts)

    def _launched(self, op: Operation, known: _Known) -> _Amount | None:
        """Operations of the kernel that one launches."""
        kernel = self.module.functions[op.attrs["kernel"]]
        dims = bind_symbols(kernel, [v.type for v in op.operands], known.symbols)
        symbols = {
            name: substitute(dim, known.symbols)
            for name, dim in zip(symbols_of(kernel), dims, strict=True)
        }
        return self.work(kernel.block, _Known(symbols, {}))

    def _inside(self, op: Operation, known: _Known) -> _Amount | None:
        """Operations of the blocks that one has, as often as they run."""
        number, parts = 0, list[Value]()
        for region in op.regions:
            for block in region.blocks:
                inner = self.work(block, known)
                if inner is None:
                    return None
                number += inner.number
                parts += inner.parts
        total = _Amount(number, parts)
        is_loop = isinstance(op.defn, loop.For | loop.While)
        return self._repeated(total, op, known) if is_loop else total

    def _repeated(self, inner: _Amount, op: Operation, known: _Known) -> _Amount | None:
        """What a loop does, of which one turn does ``inner``."""
        at_most = turns_at_most(op)
        # What is as much as a size says, but no more than a number, is mostly less than the number.
        turns = None if _is_number(op.operands[1]) else self._turns(op, known)
        if turns is not None:
            return _Amount(0, [self.builder.mul(self.total(inner), turns)])
        if at_most is None:
            return None
        parts = [self.builder.mul(part, self._float(at_most)) for part in inner.parts]
        return _Amount(inner.number * at_most, parts)

    def _turns(self, op: Operation, known: _Known) -> Value | None:
        """How often a loop turns, and once more."""
        low, high = (self._copy(bound, known) for bound in op.operands[:2])
        if low is None or high is None:
            return None
        b = self.builder
        low, high = (b.cast(bound, dtype=F64) for bound in (low, high))
        distance = b.max(b.sub(high, low), self._float(0))
        each = self._float(1 / int(op.attrs.get("step", 1)))
        result: Value = b.add(b.mul(distance, each), self._float(1))
        return result

    def _copy(self, value: Value, known: _Known) -> Value | None:
        """An index that sizes alone determine; None if it is none."""
        if value not in known.copies:
            known.copies[value] = self._copied(value.op, known)
        return known.copies[value]

    def _copied(self, op: Operation | None, known: _Known) -> Value | None:
        if op is None or not isinstance(op.result.type, TensorType):
            return None
        result: Value
        if isinstance(op.defn, source.Constant):
            if op.result.type != TensorType(INDEX):
                return None
            value = op.attrs["value"]
            number = substitute(value, known.symbols) if isinstance(value, Dim) else value
            result = self.builder.emit("constant", value=number, type=op.result.type)
            return result
        if not isinstance(op.defn, Elementwise):
            return None
        operands = [self._copy(operand, known) for operand in op.operands]
        given = [operand for operand in operands if operand is not None]
        if len(given) < len(operands):
            return None
        result = self.builder.emit(op.defn, *given, **op.attrs)
        return result

    def total(self, amount: _Amount) -> Value:
        """An amount as one number."""
        total = self._float(amount.number)
        for part in amount.parts:
            total = self.builder.add(total, part)
        return total

    def _float(self, number: float) -> Value:
        return self.builder.full(float(number), TensorType(F64))


def _is_number(bound: Value) -> bool:
    return bound.op is not None and isinstance(bound.op.attrs.get("value"), int)
