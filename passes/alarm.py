"""Let kernels tell whether they met a number that is NaN or infinite: what `enable_check_numerics` compiles.

The program gets one more result, an ``i32``: 1 if any kernel did, else 0; its entry says so by ``alarm = true``. A
kernel looks at what it stores, and at what would be lost on the way there: operands of operations that hide such a
number (`Elementwise.spreads` says which do not), as ``exp(-inf)`` and the choice that ``where`` does not take. What it
looks at is in a register, so nothing is read twice, and nothing else changes: the same values, in the same order.

A kernel that met one looks closer, where it does not cost those that did not: an operation whose operand was bad in the
same lane made nothing, so infinities that come in by arguments or are meant (a mask's) pass without alarm, and
whatever arises beside them does not. Of sums and products of many numbers only the result is seen; those that are bad
raise the alarm.

It is an alarm, no verdict. A lane that computes what nobody stores may raise it; who made the number first is found by
running the program again (`tapec.alarms.culprit`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tapec.ir.builder import Builder
from tapec.ir.core import Block, Function, Module, Operation, Region, Value
from tapec.ir.dims import Dim
from tapec.ir.op import OPS, Elementwise
from tapec.ir.ops import loop
from tapec.ir.ops.arith import Max, Min
from tapec.ir.ops.compare import Cast
from tapec.ir.ops.foreign import CallForeign
from tapec.ir.ops.source import Constant
from tapec.ir.types import I32, INDEX, BufferType, TensorType, VectorType

_STATUS = BufferType(I32, ())


def run(module: Module, options: object = None) -> bool:
    """Give the entry its result, and every kernel that computes floats its tests."""
    entry = module.entry
    kernels = [f for f in module.functions.values() if f.kind == "kernel"]
    watching = {kernel.name for kernel in kernels if _Watch(kernel).write()}
    place = len(entry.args) - bool(entry.attrs.get("arena", 0))
    status = _insert_arg(entry.block, place)
    entry.attrs["alarm"] = True
    for op in entry.walk():
        if isinstance(op.defn, loop.Launch) and op.attrs["kernel"] in watching:
            op.set_operands([*op.operands, status])
    calm = module.add(_calm())
    first = Builder(entry.block, before=entry.block.ops[0])
    first.emit("launch", status, kernel=calm.name)
    return True


def _insert_arg(block: Block, place: int) -> Value:
    """A new argument in front of the one at ``place``."""
    value = block.add_arg(_STATUS, "alarm")
    block.args.insert(place, block.args.pop())
    for index, arg in enumerate(block.args):
        arg.index = index
    return value


def _calm() -> Function:
    """The kernel that says that all is well so far."""
    function = Function("calm", [_STATUS], ["alarm"], kind="kernel")
    b = Builder(function.block)
    b.emit("store", b.full(0, TensorType(I32)), function.args[0])
    b.emit("return")
    return function


class _Watch:
    """The tests of one kernel: at the end of each block, for what the block makes."""

    def __init__(self, kernel: Function) -> None:
        self.kernel = kernel
        #: What is tested at the end of each block, in order, with how many of its lanes count (None: all).
        self.tests: dict[Block, dict[Value, Value | None]] = {}
        #: Memory that kernels of the user's fill, to be read again at the end of each block.
        self.filled: dict[Block, list[Value]] = {}
        self._meant: dict[Value, bool] = {}
        scratch: set[Value] = set()
        for block in kernel.block.nested():
            for op in block.ops:
                if isinstance(op.defn, loop.Alloc) or (
                    isinstance(op.defn, loop.View) and op.operands[0] in scratch
                ):
                    scratch.update(op.results)
        for block in kernel.block.nested():
            for op in block.ops:
                self._look_at(op, block, scratch)

    def _look_at(self, op: Operation, block: Block, scratch: set[Value]) -> None:
        """Note what has to be tested on account of one operation."""
        if isinstance(op.defn, loop.Store):
            value, buffer = op.operands[:2]
            if value.type.dtype.is_floating and not (buffer in scratch and _is_known(value)):
                active = op.operands[-1] if op.attrs.get("masked") else None
                if self._is_meant(value) and isinstance(value.op and value.op.defn, Elementwise):
                    self._look_into(value)
                else:
                    self.tests.setdefault(block, {})[value] = active
        elif isinstance(op.defn, CallForeign):
            floats = [v for v in op.defn.written(op) if v.type.dtype.is_floating]
            self.filled.setdefault(block, []).extend(floats)
        elif isinstance(op.defn, Elementwise) and not _spreads(op):
            for value in op.operands:
                self._hidden(value)

    def _hidden(self, value: Value) -> None:
        """Test a value that would be lost."""
        home = value.op.block if value.op is not None else None
        if home is None or not value.type.dtype.is_floating:
            return
        if self._is_meant(value):
            self._look_into(value)
        elif _makes(value):
            self.tests.setdefault(home, {}).setdefault(value, _active(home))

    def _look_into(self, value: Value) -> None:
        """Test what an infinity that is meant was put together with."""
        assert value.op is not None
        for operand in value.op.operands:
            self._hidden(operand)

    def _is_meant(self, value: Value) -> bool:
        """Whether the program itself puts an infinity in here.

        So it is with the scores that a mask takes out, and with a maximum, which starts at -inf.
        """
        op = value.op
        if value not in self._meant:
            self._meant[value] = False
            if op is not None and isinstance(op.defn, Elementwise | loop.Splat):
                self._meant[value] = any(map(self._is_meant, op.operands))
            elif op is not None and isinstance(op.defn, loop.For):
                self._meant[value] = self._is_meant(op.operands[2 + value.index])
            elif op is not None and isinstance(op.defn, Constant):
                number = op.attrs["value"]  # a size that is open is finite, whatever it is
                self._meant[value] = not isinstance(number, Dim) and not np.isfinite(number).all()
        return self._meant[value] and value.type.dtype.is_floating

    def write(self) -> bool:
        """Write the tests; return whether there are any."""
        if not self.tests and not self.filled:
            return False
        alarm = self.kernel.block.add_arg(_STATUS, "alarm")
        for block, values in self.tests.items():
            b = Builder(block, before=block.terminator)
            bad = _combined(b, "or", [_any_bad(b, *group) for group in _alike(values)])
            looks = Block()
            closer = Builder(looks)
            made = _Again(closer).any_made(values)
            if made:
                _raise_if(closer, _combined(closer, "or", made), alarm)
            closer.emit("yield")
            b.emit("if", bad, regions=[Region([looks])], result_types=(), rare=True)
        for block, buffers in self.filled.items():
            for buffer in buffers:
                _read_again(Builder(block, before=block.terminator), buffer, alarm)
        return True


def _raise_if(b: Builder, bad: Value, alarm: Value) -> None:
    """Raise the alarm if the condition holds."""
    raised = Block()
    inside = Builder(raised)
    inside.emit("store", inside.full(1, TensorType(I32)), alarm)
    inside.emit("yield")
    b.emit("if", bad, regions=[Region([raised])], result_types=())


def _read_again(b: Builder, buffer: Value, alarm: Value) -> None:
    """Test every element of what is in memory."""
    kind = buffer.buffer
    size = kind.tensor.size
    flat = b.emit("view", buffer, type=BufferType(kind.dtype, (size,)), offset=0)
    body = Block([TensorType(INDEX)])
    inside = Builder(body)
    _raise_if(inside, _any_bad(inside, [inside.load(flat, body.args[0])], None), alarm)
    inside.emit("yield")
    low, high = (b.full(n, TensorType(INDEX)) for n in (0, size))
    b.emit("for", low, high, regions=[Region([body])], result_types=())


def _spreads(op: Operation) -> bool:
    """Whether a bad operand shows in the result."""
    assert isinstance(op.defn, Elementwise)
    # A cast keeps what is bad if it stays among the floats.
    return op.defn.spreads or (isinstance(op.defn, Cast) and op.results[0].type.dtype.is_floating)


def _makes(value: Value) -> bool:
    """Whether a value may be bad, by itself or by what it was made of, and no other test sees that."""
    op = value.op
    if op is None:
        return False
    if isinstance(op.defn, loop.For):
        # What a vectorised loop carries holds the start of a maximum, -inf, in lanes that saw no element.
        return not isinstance(value.type, VectorType)
    if isinstance(op.defn, loop.ReduceLanes):
        combine = OPS[op.attrs["combine"]]
        return isinstance(combine, Elementwise) and combine.spreads
    # What an operation hides that stays finite is looked at itself.
    return isinstance(op.defn, Elementwise) and not (op.defn.stays_finite and not _spreads(op))


def _is_known(value: Value) -> bool:
    """Whether a value was there before: loaded, or written in the program."""
    return value.op is not None and isinstance(value.op.defn, loop.Load | loop.LoadAt | Constant)


#: Operations of which each lane is seen with what it was made of.
_SEEN_THROUGH = (Elementwise, loop.Splat, loop.Shuffle, loop.ReduceLanes)


class _Again:
    """What values were computed from, computed once more where one of them is bad.

    On copies: one more reader of an intermediate result would keep it in a register, and an addition apart from the
    product that it takes in.
    """

    def __init__(self, b: Builder) -> None:
        self._b = b
        self._copies: dict[Value, Value] = {}
        self._made: list[Value] = []

    def any_made(self, values: Mapping[Value, Value | None]) -> list[Value]:
        """For everything that may have made one of these bad, whether it did; lanes that count are given with each."""
        for value, active in values.items():
            self._look_behind(value, active)
        return self._made

    def _look_behind(self, value: Value, active: Value | None) -> Value:
        """The value once more, with tests of it and of all that it comes from."""
        if value in self._copies:
            return self._copies[value]
        op, copy = value.op, value
        if op is not None and isinstance(op.defn, _SEEN_THROUGH):
            lanes = active if isinstance(value.type, VectorType) else None
            operands = [self._look_behind(operand, lanes) for operand in op.operands]
            copy = self._b.emit(op.defn, *operands, **op.parameters)
        self._copies[value] = copy
        if value.type.dtype.is_floating and _may_make(value):
            self._made.append(_any_made(self._b, copy, active))
        return copy


def _may_make(value: Value) -> bool:
    """Whether a bad value may be one that was not there before."""
    op = value.op
    if op is None or isinstance(op.defn, loop.For):
        return not _is_choice(value)
    if isinstance(op.defn, loop.ReduceLanes):
        return not isinstance(OPS[op.attrs["combine"]], Max | Min)
    if isinstance(op.defn, Elementwise):
        return not (_is_known(value) or op.defn.stays_finite)
    return not (_is_known(value) or isinstance(op.defn, loop.Splat | loop.Shuffle))


def _is_choice(value: Value) -> bool:
    """Whether what a loop carries is the largest or smallest of what it saw."""
    if value.op is not None:
        loops, place = value.op, value.index
    else:
        assert isinstance(value.owner, Block)
        assert value.owner.region is not None
        around = value.owner.region.owner
        if not isinstance(around, Operation):
            return False
        loops, place = around, value.index - 1
    if not isinstance(loops.defn, loop.For):
        return False
    carried = loops.regions[0].block.terminator.operands[place]
    if carried.op is not None and isinstance(carried.op.defn, loop.For):
        return _is_choice(carried)
    return carried.op is not None and isinstance(carried.op.defn, Max | Min)


def _any_made(b: Builder, value: Value, active: Value | None) -> Value:
    """Whether a value is bad in an active lane, and none of what that lane was made of is."""
    bad: Value = b.is_nan(b.sub(value, value))
    op = value.op
    if op is not None and isinstance(op.defn, Elementwise):
        for given in op.operands:
            if given.type.dtype.is_floating:
                bad = b.and_(bad, b.not_(b.is_nan(b.sub(given, given))))
    elif op is not None and isinstance(op.defn, loop.ReduceLanes):
        lanes = op.operands[0]
        given = b.reduce_lanes(b.is_nan(b.sub(lanes, lanes)), combine="or")
        bad = b.and_(bad, b.not_(given))
    return _any_lane(b, bad, active)


def _any_lane(b: Builder, bad: Value, active: Value | None) -> Value:
    """Whether something holds in any active lane."""
    if not isinstance(bad.type, VectorType):
        return bad
    if active is not None:
        lanes = bad.type.lanes
        numbers = b.emit("lanes", type=VectorType(INDEX, lanes))
        bad = b.and_(bad, b.lt(numbers, b.splat(active, lanes=lanes)))
    found: Value = b.reduce_lanes(bad, combine="or")
    return found


def _alike(values: Mapping[Value, Value | None]) -> list[tuple[list[Value], Value | None]]:
    """Values by their type and their active lanes."""
    groups: dict[object, tuple[list[Value], Value | None]] = {}
    for value, active in values.items():
        groups.setdefault((value.type, active), ([], active))[0].append(value)
    return list(groups.values())


def _any_bad(b: Builder, values: list[Value], active: Value | None) -> Value:
    """Whether any of some values of one type is bad, in an active lane: ``x - x`` is 0 or NaN."""
    bad = b.is_nan(_combined(b, "add", [b.sub(value, value) for value in values]))
    return _any_lane(b, bad, active)


def _combined(b: Builder, op: str, values: list[Value]) -> Value:
    """Values combined by an operation, in pairs: no long chain."""
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        rest = values[-1:] if len(values) % 2 else []
        values = [*(b.emit(op, x, y) for x, y in pairs), *rest]
    return values[0]


def _active(block: Block) -> Value | None:
    """How many lanes are active in a block, or around it; None if all are."""
    inner: Operation | None = None
    while True:
        before = block.ops if inner is None else block.ops[: block.ops.index(inner)]
        for op in block.ops:
            if isinstance(op.defn, loop.Load | loop.Store) and op.attrs.get("masked"):
                count = op.operands[-1]
                if count.op is None or count.op.block is not block or count.op in before:
                    return count
        around = block.region.owner if block.region is not None else None
        if not isinstance(around, Operation) or around.block is None:
            return None
        inner, block = around, around.block
