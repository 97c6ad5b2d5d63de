"""Kernels that do something only if a condition holds: ``%c = load %cell; if %c { … } { }``, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Operation, Region, Value, clone_operation
from tapec.ir.op import OPS
from tapec.ir.ops import loop


def make_conditional(
    function: Function, conditions: Sequence[Operation], value: Value, *, holds: bool
) -> Function:
    """A kernel that does what another one does where ``value`` is ``holds``.

    ``conditions`` compute ``value``, from arguments of the kernel or from buffers that become its last arguments.
    """
    known = set(function.args)
    cells = [op.operands[0] for op in conditions if isinstance(op.defn, loop.Load)]
    cells = [cell for cell in dict.fromkeys(cells) if cell not in known]
    args = [*function.args, *cells]
    kernel = _like(function, args)
    mapping = dict(zip(args, kernel.args, strict=True))
    for op in conditions:
        kernel.block.append(clone_operation(op, mapping))
    body, otherwise = Block([]), Block([])
    for op in function.block.ops[:-1]:
        body.append(clone_operation(op, mapping))
    for block in (body, otherwise):
        Builder(block).emit("yield")
    regions = [Region([block]) for block in ((body, otherwise) if holds else (otherwise, body))]
    place = next((op.location for op in body.ops if op.location), None)
    kernel.block.append(Operation(OPS["if"], [mapping[value]], [], {}, regions, place))
    Builder(kernel.block).emit("return")
    return kernel


class Conditional:
    """The two parts of such a kernel.

    Attributes:
        plain: a kernel of the same arguments that does it whatever holds.
    """

    def __init__(self, function: Function, choice: Operation) -> None:
        """Take it apart at its ``if``."""
        self._holds = len(choice.regions[0].block.ops) > 1
        self._conditions = function.block.ops[: function.block.ops.index(choice)]
        self._value = choice.operands[0]
        self._args = function.args
        self.plain = _like(function, function.args)
        mapping = dict(zip(function.args, self.plain.args, strict=True))
        for op in choice.regions[0 if self._holds else 1].block.ops[:-1]:
            self.plain.block.append(clone_operation(op, mapping))
        Builder(self.plain.block).emit("return")

    @classmethod
    def of(cls, function: Function) -> Conditional | None:
        """A kernel's parts, if it is one that begins with a condition and has nothing behind it."""
        ops = function.block.ops
        choice = ops[-2] if len(ops) > 1 else None
        if choice is None or not isinstance(choice.defn, loop.If) or choice.results:
            return None
        ways = sum(len(region.block.ops) > 1 for region in choice.regions)
        computed = all(isinstance(op.defn, loop.Load) or op.defn.pure for op in ops[:-2])
        return cls(function, choice) if ways == 1 and computed else None

    def again(self, part: Function) -> Function:
        """A kernel that does what ``plain``, or a part of it, has become, under the condition."""
        mapping = dict(zip(self._args, part.args, strict=True))
        conditions = [clone_operation(op, mapping) for op in self._conditions]
        return make_conditional(part, conditions, mapping[self._value], holds=self._holds)


def _like(function: Function, args: Sequence[Value]) -> Function:
    """A kernel of the same name and attributes that does nothing yet."""
    kernel = Function(function.name, [a.type for a in args], [a.name for a in args], kind="kernel")
    kernel.attrs, kernel.guards = dict(function.attrs), list(function.guards)
    return kernel
