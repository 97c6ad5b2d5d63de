"""What must hold of a program, by number; `verify` checks it.

Everywhere:

1.  A module has a function, the entry. A function stands in its module under its own name; its kind
    is ``func`` or ``kernel``.
2.  A block holds one terminator, at its end: ``return`` in a function, ``yield`` in a region. An
    operation's regions have one block each.
3.  A value is defined before it is read, in the same block or in one around it.
4.  An isolated region reads no value from outside; its arguments have the types that its operation
    hands to it: mostly its operands', one for one.
5.  The bookkeeping is right: owners, indices, blocks, and the count of readers of every value.
6.  Result types are what the operation's type rule gives; a typed operation has its result type as
    attribute ``type``. So the segments of a ``gradient`` add up, and masks stay inside vectors.
7.  Every operation is of its function's level. Values are tensors at tensor level; buffers, single
    elements and vectors at loop level, where alone ``index`` exists.
8.  A ``call`` names a function of the module, at its level, that takes and returns what it passes
    and expects; a ``launch`` names a kernel that takes its operands. Only ``launch`` runs a kernel.
9.  An update takes a result of the function to an argument of the same type, and no argument is
    updated twice. At loop level, the arguments behind the first ``inputs`` are result buffers and
    the arena.
10. Attributes are constants with a text; those of functions that have a meaning are sizes or counts.
11. A symbol has the same bounds wherever it occurs in a function, and an argument's type has it: only
    from there its size is known. (Kernels are told sizes that no operand of theirs has.)
12. What type inference assumes about dims is among the function's guards.

Loop level:

13. A ``for`` has one region, whose arguments are the index and the carried values, and which yields
    the carried values' types; a parallel one carries nothing. A ``while`` has two, whose argument is
    the index; the first yields a bool, the second nothing. An ``if`` that has results has two regions,
    and they yield the same types.

Planned programs (`tapec.ir.placement`):

14. A kernel's attribute ``place`` says for each result where it lives, within the arena and within
    the results and arguments of the function or region. So does that of a branch or loop.
15. What a kernel writes is not what somebody still reads: values that live at the same time do not
    share bytes, and the old value of an argument has no reader behind the kernel that updates it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from tapec.ir.checked_types import checked_result_types
from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.dims import Dim, Symbol
from tapec.ir.errors import TapecError, VerifyError, underline
from tapec.ir.guards import recording_guards
from tapec.ir.ops import control, loop
from tapec.ir.place_check import check_places
from tapec.ir.text.literals import is_attribute, symbols_in
from tapec.ir.types import BOOL, INDEX, TensorType, Type, VectorType


def verify(module: Module) -> None:
    """Check every invariant of this module's docstring.

    Raises:
        VerifyError: one is broken; the message cites its number and underlines the operation.
    """
    if not module.functions:
        raise VerifyError("invariant 1: the module has no function")
    for name, function in module.functions.items():
        if name != function.name:
            raise _function_error(1, function, f"it stands in the module as @{name}")
        _Verifier(function, module).run()


def verify_function(function: Function, module: Module | None = None) -> None:
    """Check one function; without a module, calls are not looked up.

    Raises:
        VerifyError: an invariant is broken.
    """
    _Verifier(function, module).run()


def _error(number: int, op: Operation, message: str, hint: str | None = None) -> VerifyError:
    text = underline(op, f"invariant {number}: {message}")
    return VerifyError(text, location=op.location, hint=hint)


def _function_error(number: int, function: Function, message: str) -> VerifyError:
    return VerifyError(f"invariant {number}: @{function.name}: {message}")


#: Attributes of functions that passes and the runtime read.
_NUMBERS: dict[str, tuple[type, ...]] = {
    "arena": (int, Dim),
    "lower_bound": (int, Dim),
    "inputs": (int,),
    "checks": (int,),
    "memory_budget": (int, float),
    "budget_bytes": (int,),
    "row_bytes": (int,),
}


class _Verifier:
    """Walks one function."""

    def __init__(self, function: Function, module: Module | None) -> None:
        self.function = function
        self.module = module
        self.level = "loop" if function.is_loop_level else "tensor"
        self.visible: set[Value] = set()
        self.reads: dict[Value, dict[Operation, int]] = {}
        self.symbols: dict[str, Symbol] = {}
        self.sizes = function.dims
        #: Symbols that no argument has, with the first operation that mentions them.
        self.unknown: dict[str, Operation | None] = {}

    def run(self) -> None:
        function = self.function
        if function.kind not in ("func", "kernel"):
            raise _function_error(1, function, f"its kind is {function.kind!r}")
        if function.body.owner is not function or len(function.body.blocks) != 1:
            raise _function_error(5, function, "its body is not a region of its own with one block")
        for name, value in function.attrs.items():
            self.check_attribute(name, value, None)
            self.check_number(name, value)
        guards = list(function.guards)
        try:
            with recording_guards(function):
                self.block(function.block, None)
            assumed = [f"{m} == {n}" for m, n in function.guards if (m, n) not in guards]
        finally:
            function.guards[:] = guards
        if assumed:
            raise _function_error(12, function, f"no guard says that {', '.join(assumed)}")
        for symbol, op in self.unknown.items():
            raise self.error(11, op, f"no argument says how large {symbol} is")
        self.check_readers()
        self.check_results()
        check_places(function)

    # ---- blocks

    def block(self, block: Block, owner: Operation | None) -> None:
        """Check a block; its values are visible until it ends."""
        self.define(block.args, block, owner)
        if not block.ops:
            self.no_terminator(owner)
        last = block.ops[-1]
        for op in block.ops:
            if op.block is not block:
                raise _error(5, op, f"{op.name} does not know the block that it stands in")
            self.operation(op)
            if op.defn.terminator and op is not last:
                raise _error(2, op, f"{op.name} ends a block, but more follows")
        wanted: type[object] = control.Return if owner is None else loop.Yield
        if not last.defn.terminator:
            self.no_terminator(last)
        if not isinstance(last.defn, wanted):
            place = "function" if owner is None else "region"
            raise _error(2, last, f"{last.name} does not end a {place}")
        self.visible.difference_update(block.args, *(op.results for op in block.ops))

    def no_terminator(self, op: Operation | None) -> None:
        if op is None:
            raise _function_error(2, self.function, "its block is empty")
        raise _error(2, op, "a block ends without a terminator")

    def define(
        self, values: Sequence[Value], owner: Block | Operation, op: Operation | None
    ) -> None:
        """Make values visible, and check what they say about themselves."""
        for i, value in enumerate(values):
            if value.owner is not owner or value.index != i:
                raise self.error(5, op, f"value number {i} has another owner or index")
            self.check_type(value.type, op)
        self.visible.update(values)

    def error(self, number: int, op: Operation | None, message: str) -> VerifyError:
        """An error at an operation, or in the function's header."""
        if op is None:
            return _function_error(number, self.function, message)
        return _error(number, op, message)

    # ---- operations

    def operation(self, op: Operation) -> None:
        for i, operand in enumerate(op.operands):
            if operand not in self.visible:
                raise _error(3, op, f"operand {i} is read before it is defined, or out of scope")
            readers = self.reads.setdefault(operand, {})
            readers[op] = readers.get(op, 0) + 1
        if self.level not in op.defn.levels:
            raise _error(7, op, f"{op.name} is no operation of the {self.level} level")
        for name, value in op.attrs.items():
            self.check_attribute(name, value, op)
        for region in op.regions:
            if region.owner is not op or len(region.blocks) != 1:
                raise _error(5, op, "a region has another owner, or more than one block")
        self.regions(op)
        self.check_result_types(op)
        self.check_loops(op)
        self.check_callee(op)
        self.define(op.results, op, op)

    def regions(self, op: Operation) -> None:
        """Check an operation's regions; an isolated one starts with nothing visible."""
        if not op.defn.isolated:
            for region in op.regions:
                self.block(region.block, op)
            return
        try:
            takes = op.defn.region_types(op)
        except (KeyError, TypeError, LookupError) as error:
            raise _error(4, op, f"what its regions take is not to be told: {error}") from error
        if len(takes) != len(op.regions):
            raise _error(4, op, f"it has {len(op.regions)} regions, not {len(takes)}")
        for region, types in zip(op.regions, takes, strict=True):
            self.isolated(op, region.block, types)

    def isolated(self, op: Operation, block: Block, types: Sequence[Type]) -> None:
        """Check a region that takes values of these types and sees no others."""
        if tuple(a.type for a in block.args) != tuple(types):
            raise _error(4, op, "the region's arguments are not the operands' types")
        outside, self.visible = self.visible, set()
        try:
            self.block(block, op)
        except VerifyError as error:
            for inner in block.ops:
                if any(v in outside for v in inner.operands):
                    raise _error(4, inner, "an isolated region reads from outside") from error
            raise
        self.visible = outside

    def check_result_types(self, op: Operation) -> None:
        try:
            expected = checked_result_types(op)
        except TapecError as error:
            raise _error(6, op, error.message, error.hint) from error
        came = tuple(r.type for r in op.results)
        if expected is not None and expected != came:
            raise _error(6, op, f"expected {_types(expected)}, came {_types(came)}")
        if op.defn.typed and op.attrs.get("type") != came[0]:
            raise _error(6, op, f"its attribute type is {op.attrs.get('type')}, not {came[0]}")

    def check_loops(self, op: Operation) -> None:
        if isinstance(op.defn, loop.For):
            carried = tuple(v.type for v in op.operands[2:])
            if op.attrs.get("parallel") and carried:
                raise _error(13, op, "a parallel loop carries values from turn to turn")
            if len(op.regions) != 1:
                raise _error(13, op, f"a for has one region, got {len(op.regions)}")
            args = tuple(a.type for a in op.regions[0].block.args)
            if args != (TensorType(INDEX), *carried):
                wanted = _types((TensorType(INDEX), *carried))
                raise _error(13, op, f"the body takes {wanted}, got {_types(args)}")
            self.check_yields(op, carried)
        elif isinstance(op.defn, loop.While):
            takes = [tuple(a.type for a in region.block.args) for region in op.regions]
            if takes != [(TensorType(INDEX),)] * 2:
                raise _error(13, op, "a while has two regions, which take the index")
            yields = [tuple(v.type for v in r.block.terminator.operands) for r in op.regions]
            if yields != [(TensorType(BOOL),), ()]:
                raise _error(13, op, "the regions of a while yield a bool, and nothing")
        elif isinstance(op.defn, loop.If):
            if len(op.regions) not in ((2,) if op.results else (1, 2)):
                raise _error(13, op, f"an if with results has two regions, got {len(op.regions)}")
            if any(region.block.args for region in op.regions):
                raise _error(13, op, "the regions of an if take no arguments")
            self.check_yields(op, tuple(r.type for r in op.results))

    def check_yields(self, op: Operation, wanted: tuple[Type, ...]) -> None:
        for region in op.regions:
            yields = tuple(v.type for v in region.block.terminator.operands)
            if yields != wanted:
                raise _error(13, op, f"expected a yield of {_types(wanted)}, came {_types(yields)}")

    def check_callee(self, op: Operation) -> None:
        called, key = isinstance(op.defn, control.Call), "callee"
        if isinstance(op.defn, loop.Launch):
            key = "kernel"
        elif not called:
            return
        if self.module is None:
            return
        name = op.attrs.get(key)
        if not isinstance(name, str):
            raise _error(8, op, f"its attribute {key} names no function")
        callee = self.module.functions.get(name)
        if callee is None:
            raise _error(8, op, f"the module has no function @{name}")
        if (callee.kind == "kernel") is called:
            raise _error(8, op, f"@{callee.name} is a {callee.kind}")
        takes = tuple(a.type for a in callee.args)
        passed = tuple(v.type for v in op.operands)
        if not _fits(takes, passed):
            raise _error(8, op, f"@{callee.name} takes {_types(takes)}, got {_types(passed)}")
        gives = tuple(v.type for v in callee.returns)
        if called and not _fits(gives, tuple(r.type for r in op.results)):
            raise _error(8, op, f"@{callee.name} returns {_types(gives)}")

    # ---- types and attributes

    def check_type(self, value_type: Type, op: Operation | None) -> None:
        tensor = isinstance(value_type, TensorType)
        if self.level == "tensor":
            if not tensor or value_type.dtype == INDEX:
                raise self.error(7, op, f"{value_type} is no type of the tensor level")
        elif tensor and isinstance(value_type, TensorType) and value_type.shape:
            raise self.error(7, op, f"{value_type} is no type of the loop level")
        self.check_symbols(value_type, op)

    def check_attribute(self, name: str, value: object, op: Operation | None) -> None:
        if not is_attribute(value):
            what = f"{name} is a {type(value).__name__}, which has no text"
            raise self.error(10, op, what)
        self.check_symbols(value, op)

    def check_symbols(self, value: object, op: Operation | None) -> None:
        for symbol in symbols_in(value):
            known = self.symbols.setdefault(symbol.name, symbol)
            if known != symbol:
                bounds = " and ".join(f"{s.low}..{s.high}" for s in (known, symbol))
                raise self.error(11, op, f"{symbol.name} has the bounds {bounds}")
            if self.function.kind == "func" and symbol.name not in self.sizes:
                self.unknown.setdefault(symbol.name, op)

    # ---- the whole function

    def check_number(self, name: str, value: object) -> None:
        """Hold an attribute of the function that passes or the runtime read to be a number."""
        kinds = _NUMBERS.get(name)
        if kinds is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise _function_error(10, self.function, f"{name} is {value}: expected {wanted}")
        if kinds is not None and isinstance(value, int | float) and not 0 <= value < math.inf:
            raise _function_error(10, self.function, f"{name} is {value}, which counts nothing")

    def check_readers(self) -> None:
        """Compare the readers that every value knows with those that were met."""
        values = [*self.function.args]
        for op in self.function.walk():
            values += op.results
            values += [a for region in op.regions for a in region.block.args]
        for value in values:
            met = self.reads.get(value, {})
            if value.users == met:
                continue
            stranger = next((u for u in value.users if value.users[u] != met.get(u)), None)
            message = f"%{value.name or value.index}: {value.type} does not know its readers"
            if stranger is not None:
                message += f"; it counts {value.users[stranger]} reads by a {stranger.name}"
            raise self.error(5, value.op, message)

    def check_results(self) -> None:
        function = self.function
        inputs = function.attrs.get("inputs", len(function.args))
        updated = list(function.updates.values())
        if not isinstance(inputs, int) or not 0 <= inputs <= len(function.args):
            raise _function_error(9, function, f"{inputs} inputs of {len(function.args)} arguments")
        for arg in updated:
            if not 0 <= arg < inputs:
                raise _function_error(9, function, f"a result updates argument {arg} of {inputs}")
            if updated.count(arg) > 1:
                name = function.args[arg].name or arg
                raise _function_error(9, function, f"argument %{name} is updated twice")
        if self.level == "tensor":
            self.check_updates()
        elif function.returns:
            message = "a function of the loop level returns nothing: its results are in buffers"
            raise _error(9, function.block.terminator, message)

    def check_updates(self) -> None:
        """Compare the types of results with those of the arguments that they update."""
        results, last = self.function.returns, self.function.block.terminator
        for result, index in self.function.updates.items():
            arg = self.function.args[index]
            if not 0 <= result < len(results):
                raise _error(9, last, f"there is no result {result} to update %{arg.name}")
            came = results[result].type
            if came != arg.type:
                raise _error(9, last, f"expected {arg.type}, which %{arg.name} is, came {came}")


def _types(types: Iterable[Type]) -> str:
    return f"({', '.join(map(str, types))})"


def _fits(wanted: Sequence[Type], came: Sequence[Type]) -> bool:
    """Whether types agree, but for symbols: each function has its own."""
    return len(wanted) == len(came) and all(
        a == b
        or (
            not isinstance(a, VectorType)
            and not isinstance(b, VectorType)
            and type(a) is type(b)
            and a.dtype == b.dtype
            and len(a.shape) == len(b.shape)
            and all(
                m == n or not (isinstance(m, int) and isinstance(n, int))
                for m, n in zip(a.shape, b.shape, strict=True)
            )
        )
        for a, b in zip(wanted, came, strict=True)
    )
