"""Map functions over a new leading axis of some arguments, or of all: vectorised, not as a loop.

Every operation that depends on a mapped argument is replaced by what its own rule (`tapec.ir.op.Op.batch`) writes; the
others stay as they are. Every result gets the axis. The pass knows no operation by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tapec.ir.batching import batch_operations, batched_results
from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Module, Value
from tapec.ir.dims import DimLike
from tapec.ir.errors import PassError
from tapec.ir.guards import recording_guards


@dataclass(frozen=True)
class Options:
    """``size`` of the new axis; ``args`` are the positions of the arguments that have it: ``0+2``, all if empty."""

    size: int = 1
    args: str = ""


def run(module: Module, options: Options) -> bool:
    """Map every function of the module.

    Raises:
        PassError: there is no such argument, or the function updates one that is not mapped.
        NotDifferentiableError: an operation cannot be mapped.
    """
    for function in module.functions.values():
        batch_function(function, options.size, _chosen(function, options.args))
    return True


def _chosen(function: Function, text: str) -> list[bool]:
    count = len(function.args)
    try:
        chosen = {int(part) for part in text.split("+")} if text else set(range(count))
    except ValueError:
        raise PassError(f"batch: args are numbers with + between them, got {text!r}") from None
    if not chosen <= set(range(count)):
        raise PassError(f"batch: @{function.name} has {count} arguments, got args {text}")
    return [i in chosen for i in range(count)]


def batch_function(function: Function, size: DimLike, batched: Sequence[bool]) -> None:
    """Map a function, in place, over a leading axis of ``size`` of the arguments that are ``batched``.

    Raises:
        PassError: the function updates an argument that is not mapped.
        NotDifferentiableError: an operation cannot be mapped.
    """
    for arg in function.updates.values():
        if not batched[arg]:
            raise PassError(f"batch: @{function.name} updates argument {arg}, which is not mapped")
    old = function.block
    types = [
        a.tensor.with_shape((size, *a.tensor.shape)) if has else a.type
        for a, has in zip(old.args, batched, strict=True)
    ]
    new = Block(types, [a.name for a in old.args])
    values: dict[Value, Value] = dict(zip(old.args, new.args, strict=True))
    mapped = {a for a, has in zip(old.args, batched, strict=True) if has}
    last = old.terminator
    b = Builder(new)
    with recording_guards(function):
        batch_operations(b, old.ops[:-1], values, mapped)
    results = batched_results(b, last.operands, values, mapped, size)
    with b.at(last.location):
        b.emit(last.defn, *results, **last.attrs)
    for op in reversed(old.ops):
        op.drop()
    function.body.blocks = [new]
    new.region = function.body
