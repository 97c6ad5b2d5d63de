"""Write complex values as pairs of reals, which is all that native code knows.

Each operation that a complex value comes from or goes to is replaced by operations on real and imaginary parts; its
class says which (`Op.pairs`). Where a region, or the program, begins and ends, a complex value stays one value, with
its parts in turn along a last axis: so the operands and results of an operation with regions are as many as before.
Arguments and results of the program keep their types; `view_as_real` and `view_as_complex` look at the same memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.ops.interleaved import deinterleaved, interleaved
from tapec.ir.pairs import Pair
from tapec.ir.types import TensorType


def run(module: Module, options: object = None) -> bool:
    """Rewrite every function; return whether there was a complex value."""
    changed = False
    for function in module.functions.values():
        if any(map(_is_complex, function.args)) or any(map(_touches, function.walk())):
            _Function(function).rewrite()
            changed = True
    return changed


def _is_complex(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.dtype.is_complex


def _touches(op: Operation) -> bool:
    """Whether a complex value goes in or comes out, or is inside."""
    values: Iterable[Value] = (*op.operands, *op.results)
    return any(map(_is_complex, values)) or any(
        any(map(_is_complex, block.args)) or any(map(_touches, block.ops))
        for region in op.regions
        for block in region.blocks
    )


def _read_by(op: Operation) -> Iterator[Value]:
    """What an operation reads, in its regions, too."""
    for inner in op.walk():
        yield from inner.operands


class _Function:
    """One function on its way."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.parts: dict[Value, Pair] = {}

    def rewrite(self) -> None:
        """Rewrite the body; the signature stays."""
        block = self.function.block
        b = Builder(block)
        last = block.terminator
        returned = [n for n, v in enumerate(last.operands) if _is_complex(v) and not self._stays(n)]
        ops, block.ops = block.ops, []
        read = {last.operands[n] for n in returned} | {v for op in ops[:-1] for v in _read_by(op)}
        for arg in block.args:
            if _is_complex(arg) and arg in read:
                self._split(b, arg, b.view_as_real(arg))
        self._block(b, ops[:-1])
        for number in returned:
            value = self._joined(b, last.operands[number])
            last.set_operand(number, b.view_as_complex(value))
        block.append(last)

    def _stays(self, number: int) -> bool:
        """Whether a result is the argument that it updates: then it stays the argument."""
        update = self.function.updates.get(number)
        return update is not None and self.function.returns[number] is self.function.args[update]

    def _block(self, b: Builder, ops: Iterable[Operation]) -> None:
        """Write operations anew, in order."""
        for op in ops:
            with b.at(op.location):
                if not _touches(op):
                    b.block.append(op)
                elif op.regions or op.defn.terminator:
                    self._with_regions(b, op)
                else:
                    self._operation(b, op)

    def _operation(self, b: Builder, op: Operation) -> None:
        operands = [self.parts.get(v, v) for v in op.operands]
        made: Any = op.defn.pairs(b, *operands, **op.parameters)
        for result, new in zip(
            op.results, made if isinstance(made, tuple) else (made,), strict=True
        ):
            self._replace(result, new)
        op.drop()

    def _with_regions(self, b: Builder, op: Operation) -> None:
        """The same operation, on values whose parts take turns."""
        for region in op.regions:
            for block in region.blocks:
                self._region(block)
        operands = [self._joined(b, v) for v in op.operands]
        types = [interleaved(r.tensor) if _is_complex(r) else r.type for r in op.results]
        regions, op.regions = op.regions, []
        new = b.insert(Operation(op.defn, operands, types, op.attrs, regions, op.location))
        for old, result in zip(op.results, new.results, strict=True):
            result.name = old.name
            if _is_complex(old):
                self._split(b, old, result)
            else:
                old.replace_all_uses(result)
        op.drop()

    def _region(self, block: Block) -> None:
        b = Builder(block)
        ops, block.ops = block.ops, []
        for arg in block.args:
            if _is_complex(arg):
                # The argument changes its type; the value that readers know it by is another from here on.
                known = Value(arg.type, block, arg.index)
                arg.replace_all_uses(known)
                arg.type = interleaved(arg.tensor)
                self._split(b, known, arg)
        self._block(b, ops)

    def _split(self, b: Builder, value: Value, turns: Value) -> None:
        self.parts[value] = Pair(*deinterleaved(b, turns))

    def _joined(self, b: Builder, value: Value) -> Value:
        """A complex value as one real value, any other as it is."""
        pair = self.parts.get(value)
        return value if pair is None else b.interleave(pair.re, pair.im)

    def _replace(self, old: Value, new: Value | Pair) -> None:
        if isinstance(new, Pair):
            self.parts[old] = new
            if old.name is not None:
                for part, suffix in ((new.re, "_re"), (new.im, "_im")):
                    part.name = part.name or old.name + suffix
        else:
            old.replace_all_uses(new)
            new.name = new.name or old.name
