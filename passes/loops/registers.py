"""Make one kernel of a loop whose turn is a few single numbers, and carry them in registers.

The state of a differential equation, or of a filter, is a handful of numbers, and its loop launches one kernel at each
turn: what a turn leaves in memory the next one waits for, and a call takes as long as some of the arithmetic. So the
kernel and the loop around it become one kernel (`tapec.passes.loops.enclosure`), and a place of memory that every turn
reads and writes alike becomes a value that the loop carries. Rows that move with the turns stay in memory.

Where a turn launches several kernels they stay apart: LLVM rounds a product and a sum of one function once, of two
functions twice. For the same reason nothing is read in front of the loop that every turn reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Module, Operation, Region, Value, clone_operation
from tapec.ir.op import OPS, Elementwise
from tapec.ir.ops import loop, source
from tapec.ir.ops.foreign import ForeignScalar
from tapec.ir.types import INDEX, DType, TensorType
from tapec.passes.loops.enclosure import Enclosed, drop_unlaunched
from tapec.passes.loops.parts import Part, slice_of, turns_of

#: Operations that a kernel may take, about a millisecond: nobody can stop it between two turns.
_MOST_WORK = 1 << 22
#: What the kernel of a turn may consist of.
_STRAIGHT = (
    Elementwise, source.Constant, loop.Load, loop.Store, loop.Splat, loop.Shuffle, loop.Lanes, loop.ReduceLanes,
)  # fmt: skip


def run(module: Module, options: object = None) -> bool:
    """Take every such loop of the entry."""
    made = 0
    for block in module.entry.block.nested():
        for op in list(block.ops):
            found = Enclosed.possible(op, module)
            if found is not None and _is_small(found, module):
                kernel = module.add(found.write(f"turns{made}"))
                for inner in list(kernel.block.ops):
                    if isinstance(inner.defn, loop.For):
                        _carry(inner)
                made += 1
    if made:
        drop_unlaunched(module)
    return bool(made)


def _is_small(found: Enclosed, module: Module) -> bool:
    """Whether a turn launches one kernel, of a few single numbers, and all turns together take little time."""
    body = found.op.regions[0].block
    turns = turns_of(found.op)
    if not isinstance(found.op.defn, loop.For) or len(found.launches) != 1 or turns is None:
        return False
    (launch,) = found.launches
    ops = module.functions[launch.attrs["kernel"]].block.ops[:-1]
    plain = all(isinstance(op.defn, _STRAIGHT) and not op.regions for op in ops)
    foreign = any(isinstance(op.defn, ForeignScalar) for op in ops)
    timed = "number" in launch.attrs
    fits = turns * len(ops) <= _MOST_WORK
    return launch.block is body and plain and fits and not (foreign or timed)


class _Cell(NamedTuple):
    """A place of memory as an access of the loop has it: bytes of an argument of the kernel, and how many lanes."""

    part: Part
    dtype: DType
    lanes: int
    moves: bool


def _carry(op: Operation) -> None:
    """Carry what a loop writes to places that do not move and that it reaches in one way only.

    Lanes that are not in memory are 0 when they are loaded, and may be anything in a register: so some lanes of a
    vector are carried only where no lane meets another.
    """
    body = op.regions[0].block
    cells = {access: _cell(access) for access in _accesses(body)}
    mixes = any(isinstance(inner.defn, loop.ReduceLanes | loop.Shuffle) for inner in body.ops)
    every = set(cells.values())
    written = {cell for access, cell in cells.items() if isinstance(access.defn, loop.Store)}
    carried = [c for c in dict.fromkeys(cells.values()) if c in written and not c.moves]
    carried = [c for c in carried if not (mixes and c.part.size < c.lanes * c.dtype.bytes)]
    carried = [c for c in carried if not any(c.part.meets(other.part) for other in every - {c})]
    if carried:
        firsts = [next(a for a, cell in cells.items() if cell == c) for c in carried]
        _rewrite(op, {c: i for i, c in enumerate(carried)}, cells, firsts)


def _accesses(block: Block) -> Iterator[Operation]:
    return (op for op in block.ops if isinstance(op.defn, loop.Load | loop.Store))


def _place(access: Operation) -> tuple[Value, list[Value]]:
    """The buffer of an access and what says where in it."""
    buffer, *index = access.operands[isinstance(access.defn, loop.Store) :]
    return buffer, index


def _value(access: Operation) -> Value:
    """What an access reads or writes."""
    return access.operands[0] if isinstance(access.defn, loop.Store) else access.result


def _cell(access: Operation) -> _Cell:
    """Where an access reads or writes; if that depends on the turn, or is not known, anywhere in its buffer."""
    buffer, index = _place(access)
    kind = buffer.buffer
    of = slice_of(buffer)
    lanes = getattr(_value(access).type, "lanes", 0)
    places = [source.whole_number(i) for i in index]
    count = places.pop() if access.attrs.get("masked") else max(lanes, 1)
    at = 0
    for place, stride in zip(places, kind.strides, strict=True):
        if place is None or not isinstance(stride, int):
            count = None
            break
        at += place * stride
    bytes = kind.dtype.bytes
    offset, size = at * bytes, (count or 0) * bytes
    if of.moves or count is None or not 0 <= offset <= of.size - size:
        return _Cell(of.part, kind.dtype, lanes, moves=True)
    part = Part(of.part.root, of.part.offset + offset, size)
    return _Cell(part, kind.dtype, lanes, moves=False)


def _rewrite(
    op: Operation,
    numbers: dict[_Cell, int],
    cells: dict[Operation, _Cell],
    firsts: list[Operation],
) -> None:
    """Write the loop anew, with what is in cells carried; the first access of each tells how they are reached."""
    block, old = op.block, op.regions[0].block
    assert block is not None
    around = Builder(block, before=op)
    with around.at(op.location):
        init = [_loaded(around, access) for access in firsts]
        body = Block([TensorType(INDEX), *(v.type for v in init)])
        mapping = {old.args[0]: body.args[0]}
        now: list[Value] = list(body.args[1:])
        for inner in old.ops[:-1]:
            number = numbers.get(cells[inner]) if inner in cells else None
            if number is None:
                body.append(clone_operation(inner, mapping))
            elif isinstance(inner.defn, loop.Load):
                mapping[inner.result] = now[number]
            else:
                now[number] = mapping.get(inner.operands[0], inner.operands[0])
        Builder(body).emit("yield", *now)
        _drop_unread(body)
        types, attrs = [v.type for v in init], dict(op.attrs)
        made = Operation(
            op.defn, [*op.operands, *init], types, attrs, [Region([body])], op.location
        )
        around.insert(made)
        for access, value in zip(firsts, made.results, strict=True):
            _store(around, access, value)
    op.erase()


def _loaded(b: Builder, access: Operation) -> Value:
    """What is in the cell of an access, in front of the loop."""
    buffer, index = _place(access)
    lanes = getattr(_value(access).type, "lanes", 0)
    attrs: dict[str, Any] = {"lanes": lanes} if lanes else {}
    attrs |= {"masked": True} if access.attrs.get("masked") else {}
    result: Value = b.emit(OPS["load"], *_outside(b, [buffer, *index]), **attrs)
    return result


def _store(b: Builder, access: Operation, value: Value) -> None:
    """Write the cell of an access, behind the loop."""
    buffer, index = _place(access)
    attrs: dict[str, Any] = {"masked": True} if access.attrs.get("masked") else {}
    b.emit(OPS["store"], value, *_outside(b, [buffer, *index]), **attrs)


def _outside(b: Builder, values: list[Value]) -> list[Value]:
    """Constants and parts of buffers, which are the same in all turns, made outside of the loop."""
    found = []
    for value in values:
        op = value.op
        if op is not None:
            copy = clone_operation(
                op, dict(zip(op.operands, _outside(b, list(op.operands)), strict=True))
            )
            value = b.insert(copy).result
        found.append(value)
    return found


def _drop_unread(block: Block) -> None:
    """Remove what only said where in memory something was."""
    for op in reversed(block.ops[:-1]):
        if isinstance(op.defn, loop.View | source.Constant) and not op.result.users:
            op.erase()
