"""What a program is made of: values, operations, blocks, regions, functions, modules.

One plain `Operation` class serves every operation of both levels; what an operation means is in its `Op`
definition (`tapec.ir.op`). Use-def chains are kept here and nowhere else: operands change through
`Operation.set_operand` or `Value.replace_all_uses`, operations leave through `Operation.erase`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tapec.ir.dims import Symbol
from tapec.ir.history import Relation, tell
from tapec.ir.location import Location
from tapec.ir.types import BufferType, TensorType, Type

if TYPE_CHECKING:
    from tapec.ir.op import Op


#: Attributes that any operation may have, by which passes tell each other something: ``recompute``
#: keeps an operation apart from an equal one, because it is to be computed twice; one with ``keep`` never is.
MARKS = frozenset({"recompute", "keep"})


class Value:
    """An SSA value: the result of an operation (``owner`` the Operation) or an argument of a block."""

    __slots__ = ("index", "name", "owner", "type", "users")

    def __init__(
        self, type: Type, owner: Operation | Block, index: int, name: str | None = None
    ) -> None:
        """Values are made by operations and blocks, not by hand."""
        self.type = type
        self.owner = owner
        self.index = index
        self.name = name
        #: Operations that read this value, in order of first use, with how many of their operands it is.
        self.users: dict[Operation, int] = {}

    @property
    def op(self) -> Operation | None:
        """The operation that produces this value, or None for a block argument."""
        return self.owner if isinstance(self.owner, Operation) else None

    @property
    def tensor(self) -> TensorType:
        """The type, known to be a tensor's."""
        assert isinstance(self.type, TensorType)
        return self.type

    @property
    def buffer(self) -> BufferType:
        """The type, known to be a buffer's."""
        assert isinstance(self.type, BufferType)
        return self.type

    def replace_all_uses(self, new: Value, why: str = "") -> None:
        """Make every reader of this value read ``new`` instead; ``why`` is the rule, for `tapec.ir.history`."""
        tell(Relation.INSTEAD, self, new, why)
        for user in list(self.users):
            for i, operand in enumerate(user.operands):
                if operand is self:
                    user.set_operand(i, new)

    def __repr__(self) -> str:
        return f"<%{self.name or '?'}: {self.type}>"


class Operation:
    """One operation in a block: its definition, operands, results, attributes, regions and source location."""

    __slots__ = ("_operands", "attrs", "block", "defn", "location", "regions", "results")

    def __init__(
        self,
        defn: Op,
        operands: Sequence[Value],
        result_types: Sequence[Type],
        attrs: Mapping[str, Any] | None = None,
        regions: Sequence[Region] = (),
        location: Location | None = None,
    ) -> None:
        """Build an operation that is in no block yet; `tapec.ir.builder.Builder` infers the result types."""
        self.defn = defn
        self.attrs: dict[str, Any] = dict(attrs or {})
        self.location = location
        self.block: Block | None = None
        self.results = tuple(Value(t, self, i) for i, t in enumerate(result_types))
        self.regions = list(regions)
        for region in self.regions:
            region.owner = self
        self._operands: list[Value] = []
        for operand in operands:
            self._operands.append(operand)
            operand.users[self] = operand.users.get(self, 0) + 1

    @property
    def name(self) -> str:
        """The name of the definition: ``matmul``."""
        return self.defn.name

    @property
    def parameters(self) -> dict[str, Any]:
        """The attributes that the definition's rules take: all but the marks that passes leave."""
        if MARKS.isdisjoint(self.attrs):
            return self.attrs
        return {name: value for name, value in self.attrs.items() if name not in MARKS}

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values read, in order."""
        return tuple(self._operands)

    @property
    def result(self) -> Value:
        """The one result."""
        (result,) = self.results
        return result

    def set_operand(self, index: int, new: Value) -> None:
        """Read ``new`` as operand number ``index``."""
        _forget(self._operands[index], self)
        self._operands[index] = new
        new.users[self] = new.users.get(self, 0) + 1

    def set_operands(self, new: Sequence[Value]) -> None:
        """Replace the whole operand list."""
        for operand in self._operands:
            _forget(operand, self)
        self._operands = list(new)
        for operand in self._operands:
            operand.users[self] = operand.users.get(self, 0) + 1

    def replace(self, new: Sequence[Value], why: str = "") -> None:
        """Make readers of the results read ``new``, then erase this operation."""
        for old, value in zip(self.results, new, strict=True):
            old.replace_all_uses(value, why)
        self.erase()

    def erase(self) -> None:
        """Leave the block; nothing may read the results any more."""
        assert not any(r.users for r in self.results), f"{self.name} is still read"
        self.drop()
        if self.block is not None:
            self.block.ops.remove(self)
            self.block = None

    def drop(self) -> None:
        """Forget operands and regions, so that what they read can go too; the block's list is left alone."""
        for operand in self._operands:
            _forget(operand, self)
        self._operands = []
        for region in self.regions:
            for block in region.blocks:
                for op in reversed(block.ops):
                    op.drop()

    def walk(self) -> Iterator[Operation]:
        """Yield this operation, then everything inside its regions, in program order."""
        yield self
        for region in self.regions:
            yield from region.walk()

    def __repr__(self) -> str:
        return f"<{self.name} {len(self._operands)} -> {len(self.results)}>"


def _forget(value: Value, user: Operation) -> None:
    count = value.users[user] - 1
    if count:
        value.users[user] = count
    else:
        del value.users[user]


class Block:
    """A list of operations that runs from first to last, with arguments; the last operation is the terminator."""

    __slots__ = ("args", "ops", "region")

    def __init__(self, arg_types: Iterable[Type] = (), names: Iterable[str | None] = ()) -> None:
        """Make an empty block with arguments of these types."""
        self.args: list[Value] = []
        self.ops: list[Operation] = []
        self.region: Region | None = None
        given = list(names)
        for i, type in enumerate(arg_types):
            self.add_arg(type, given[i] if i < len(given) else None)

    def add_arg(self, type: Type, name: str | None = None) -> Value:
        """Append an argument."""
        value = Value(type, self, len(self.args), name)
        self.args.append(value)
        return value

    def remove_arg(self, index: int) -> None:
        """Drop an argument that nothing reads."""
        assert not self.args[index].users
        del self.args[index]
        for i, arg in enumerate(self.args):
            arg.index = i

    @property
    def terminator(self) -> Operation:
        """The last operation."""
        return self.ops[-1]

    def append(self, op: Operation) -> Operation:
        """Add an operation at the end."""
        op.block = self
        self.ops.append(op)
        return op

    def nested(self) -> Iterator[Block]:
        """Yield this block, then those inside its operations, outer ones first, as they are when their turn comes."""
        yield self
        for op in list(self.ops):
            for region in op.regions:
                for block in region.blocks:
                    yield from block.nested()

    def insert_before(self, anchor: Operation, op: Operation) -> Operation:
        """Add an operation in front of another."""
        op.block = self
        self.ops.insert(self.ops.index(anchor), op)
        return op


class Region:
    """The blocks inside an operation; tapec's control flow is structured, so there is one block."""

    __slots__ = ("blocks", "owner")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        """Own these blocks."""
        self.blocks = list(blocks)
        self.owner: Operation | Function | None = None
        for block in self.blocks:
            block.region = self

    @property
    def block(self) -> Block:
        """The one block."""
        (block,) = self.blocks
        return block

    def walk(self) -> Iterator[Operation]:
        """Yield every operation inside, in program order."""
        for block in self.blocks:
            for op in block.ops:
                yield op
                # Few have any, and a generator for each operation takes long.
                for region in op.regions:
                    yield from region.walk()


class Function:
    """A named program: arguments, a body that ends in ``return``, and which results update which arguments.

    ``updates`` maps the index of a result to the index of the argument whose buffer receives it: the functional
    form of a Variable's assignment (text: ``-> (f32, f32[3] into %w)``). ``dims`` are the symbols of the
    signature with their bounds; ``guards`` the facts about them that type inference had to assume.
    """

    __slots__ = ("attrs", "body", "guards", "kind", "name", "updates")

    def __init__(
        self,
        name: str,
        arg_types: Iterable[Type] = (),
        arg_names: Iterable[str | None] = (),
        *,
        updates: Mapping[int, int] | None = None,
        kind: str = "func",
    ) -> None:
        """Make a function with an empty body; ``kind`` is ``func``, or ``kernel`` at loop level."""
        self.name = name
        self.body = Region([Block(arg_types, arg_names)])
        self.body.owner = self
        self.updates: dict[int, int] = dict(updates or {})
        self.kind = kind
        self.guards: list[tuple[str, str]] = []
        self.attrs: dict[str, Any] = {}

    @property
    def block(self) -> Block:
        """The body's block."""
        return self.body.block

    @property
    def args(self) -> list[Value]:
        """The arguments."""
        return self.block.args

    @property
    def returns(self) -> tuple[Value, ...]:
        """The values that the terminator returns."""
        return self.block.terminator.operands

    @property
    def dims(self) -> dict[str, Symbol]:
        """The symbols in the argument types, by name."""
        found: dict[str, Symbol] = {}
        for arg in self.args:
            type = arg.type.tensor if isinstance(arg.type, BufferType) else arg.type
            if isinstance(type, TensorType):
                found |= {s.name: s for s in type.symbols()}
        return found

    @property
    def is_loop_level(self) -> bool:
        """It works on buffers: a kernel, or an entry that `lower` made."""
        return self.kind == "kernel" or any(isinstance(a.type, BufferType) for a in self.args)

    @property
    def result_args(self) -> tuple[int, ...]:
        """At loop level: for each result of the entry, which argument is the buffer that receives it.

        ``attrs["inputs"]`` is how many arguments the function had at tensor level; after them come the buffers of
        the results that update no argument, then the arena if ``attrs["arena"]`` bytes are needed.
        """
        inputs = self.attrs.get("inputs", len(self.args))
        fresh = iter(range(inputs, len(self.args) - bool(self.attrs.get("arena", 0))))
        count = len(self.updates) + len(self.args) - bool(self.attrs.get("arena", 0)) - inputs
        return tuple(self.updates[r] if r in self.updates else next(fresh) for r in range(count))

    def walk(self) -> Iterator[Operation]:
        """Yield every operation, in program order."""
        return self.body.walk()


class Body:
    """A region's block with what its results are for: to an operation what a `Function` is to a module.

    ``updates`` maps the index of a result to the index of the argument that has its value the next time.
    """

    __slots__ = ("block", "name", "updates")

    def __init__(self, name: str, block: Block, updates: Mapping[int, int] | None = None) -> None:
        """Look at a block; ``name`` is for messages."""
        self.name = name
        self.block = block
        self.updates = dict(updates or {})

    @property
    def args(self) -> list[Value]:
        """The arguments."""
        return self.block.args

    @property
    def returns(self) -> tuple[Value, ...]:
        """The values that the terminator yields."""
        return self.block.terminator.operands


class Module:
    """Functions by name; the first is the entry."""

    __slots__ = ("functions",)

    def __init__(self, functions: Iterable[Function] = ()) -> None:
        """Own these functions."""
        self.functions: dict[str, Function] = {}
        for function in functions:
            self.add(function)

    def add(self, function: Function) -> Function:
        """Add a function under a name that is free."""
        if function.name in self.functions:
            raise ValueError(f"the module has a function @{function.name} already")
        self.functions[function.name] = function
        return function

    @property
    def entry(self) -> Function:
        """The first function."""
        return next(iter(self.functions.values()))

    def walk(self) -> Iterator[Operation]:
        """Yield every operation of every function."""
        for function in self.functions.values():
            yield from function.walk()


def clone_block_into(
    source: Block, target: Block, mapping: dict[Value, Value], *, before: Operation | None = None
) -> None:
    """Copy the operations of a block (not its arguments) to the end of another, or in front of ``before``.

    ``mapping`` says what the source's arguments and outer values become; results of copies are added to it, and
    values that are not in it are shared.
    """
    for op in source.ops:
        copy = clone_operation(op, mapping)
        if before is None:
            target.append(copy)
        else:
            target.insert_before(before, copy)


def clone_operation(op: Operation, mapping: dict[Value, Value]) -> Operation:
    """Copy one operation with its regions; see `clone_block_into` for ``mapping``."""
    regions = []
    for region in op.regions:
        copies = []
        for block in region.blocks:
            copy = Block([a.type for a in block.args], [a.name for a in block.args])
            mapping.update(zip(block.args, copy.args, strict=True))
            clone_block_into(block, copy, mapping)
            copies.append(copy)
        regions.append(Region(copies))
    operands = [mapping.get(v, v) for v in op.operands]
    copied = Operation(
        op.defn, operands, [r.type for r in op.results], op.attrs, regions, op.location
    )
    for old, new in zip(op.results, copied.results, strict=True):
        new.name = old.name
        mapping[old] = new
    return copied


def clone_function(function: Function, name: str | None = None) -> Function:
    """Copy a function with its body."""
    copy = Function(
        name or function.name,
        [a.type for a in function.args],
        [a.name for a in function.args],
        updates=function.updates,
        kind=function.kind,
    )
    copy.guards = list(function.guards)
    copy.attrs = dict(function.attrs)
    clone_block_into(function.block, copy.block, dict(zip(function.args, copy.args, strict=True)))
    return copy


def clone_module(module: Module) -> Module:
    """Copy a module; calls refer to functions by name, so the copy is closed."""
    return Module(clone_function(f) for f in module.functions.values())
