"""Branches of a program that is being traced, and what loops have in common with them: functions become regions.

What a function reads of the code around it becomes an operand of the operation. A Variable that it only reads is read
once, in front; one that it assigns goes in and comes out as a value, which a loop carries. For tapes outside, each
read of that inside is a source of gradients, as it is eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapec.control.growth import set_range
from tapec.control.structures import dense, like, tensors_in
from tapec.control.tensor_array import TensorArray
from tapec.derivatives.replay import watch_reads
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import cast
from tapec.functions.arrays import full
from tapec.functions.rearrangement import reshape
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Region, Value
from tapec.ir.dims import DimLike
from tapec.ir.op import OPS
from tapec.ir.ops.control import Gradient
from tapec.ir.ops.regions import copied_into, new_region
from tapec.ir.types import BOOL, TensorType
from tapec.recording import active_tapes, current_trace, tracing
from tapec.structure import flatten, unflatten
from tapec.tensor import Tensor, TensorLike, as_tensor
from tapec.traces.outcomes import undecided
from tapec.tracing import Trace, TracedTensor
from tapec.variable import Variable

Leaves = list[Any]

#: Pairs of leaves, and what makes a result of the Tensors that the program has for them.
Merged = tuple[list[tuple[Any, Any]], Callable[[list[Tensor]], Any]]


def truth(pred: TensorLike) -> Tensor:
    """A predicate as a bool of rank 0.

    Raises:
        ValueError: it has several elements.
    """
    tensor = as_tensor(pred)
    if tensor.type.size != 1:
        raise ValueError(
            f"a predicate has one element, this one is {tensor.type}",
            location=here(),
            hint="combine them with tapec.reduce_all or tapec.reduce_any",
        )
    flat = reshape(tensor, []) if tensor.type.rank else tensor
    return flat if flat.dtype == BOOL else cast(flat, BOOL)


# ---- branches


class DifferentShapes(ValueError):
    """The values behind two branches have different shapes; a user gets a ValueError, if anything."""


def same_structure(one: Any, other: Any) -> Merged:
    """What becomes of two results that have to be alike.

    Raises:
        TypeError: they have different dtypes.
        ValueError: they have different structures.
        DifferentShapes: they have different shapes.
    """
    nothing = one is None or other is None
    if nothing and one is other:
        return [], lambda _: None
    if nothing or tensors_in(one)[1] != tensors_in(other)[1]:
        raise ValueError(
            f"cond: true_fn and false_fn return different structures: {one!r} and {other!r}",
            location=here(),
        )
    leaves, spec = tensors_in(one)
    for first, second in zip(leaves, tensors_in(other)[0], strict=True):
        if isinstance(first, TensorArray):
            first.refuse_other_size(second, "does so in one branch only")
    types = _types(one), _types(other)
    check_types("cond", "from true_fn", "from false_fn", *types, refusal=DifferentShapes)
    pairs = list(zip(flatten(one)[0], flatten(other)[0], strict=True))
    return pairs, lambda found: unflatten(spec, like(leaves, found))


def _types(structure: Any) -> list[TensorType]:
    return [v.type for v in dense(tensors_in(structure)[0])]


def _ignoring(fn: Callable[[], Any]) -> Callable[[list[Tensor]], Any]:
    return lambda _: fn()


def one_of(
    pred: Tensor,
    then: Callable[[], Any],
    otherwise: Callable[[], Any],
    merge: Callable[[Any, Any], Merged],
) -> Any:
    """What becomes of two functions of which the program runs one.

    ``merge`` takes what they return, and gives the leaves in which that differs, as pairs of the same types, and a
    function that makes the result of the Tensors which the program has for these.

    Raises:
        Undecided: the shapes of these differ, and the program may be for one outcome alone.
        ValueError: they differ, and it may not.
    """
    parts = [Subprogram(name, ()) for name in ("true_fn", "false_fn")]
    for part in parts:
        part.trace.condition = pred
    returned = [part.run(_ignoring(fn)) for part, fn in zip(parts, (then, otherwise), strict=True)]
    try:
        pairs, result = merge(*returned)
    except DifferentShapes as error:
        plain = ValueError(error.message, location=error.location, hint=error.hint)
        raise undecided(pred) or plain from None
    for number, part in enumerate(parts):
        part.finish([pair[number] for pair in pairs])
    inputs = Inputs(parts)
    regions = [inputs.region(p, 0, [], len(pairs)) for p in parts]
    results = inputs.apply("cond", [pred], regions)
    return result(inputs.keep_states(results, len(pairs)))


# ---- traced parts


class Subprogram:
    """A function traced on its own: ``function`` takes the inputs, then what it captured."""

    def __init__(self, name: str, types: Sequence[TensorType]) -> None:
        """``types`` are those of the inputs; the function is still to `run`, and what it yields to be said."""
        self.trace = trace = Trace(name, parent=current_trace())
        self.function: Function = trace.function
        self.captures: list[Any] = trace.captures
        self.given = [trace.input(t, None) for t in types]
        self.inputs = len(types)
        self.results: list[TensorType] = []
        #: Variables (by ``id``) that it assigns, with the number of the result that is the new value.
        self.states: dict[int, int] = {}

    @classmethod
    def traced(
        cls, name: str, fn: Callable[[list[Tensor]], Leaves], types: Sequence[TensorType]
    ) -> Subprogram:
        """A function that yields what it returns."""
        part = cls(name, types)
        part.finish(part.run(fn))
        return part

    def run(self, fn: Callable[[list[Tensor]], Any]) -> Any:
        """What the function returns for the inputs."""
        with tracing(self.trace):
            result = fn(list(self.given))
        if self.trace.created_variables:
            current().created_variables = (
                True  # as optimizers do, once: the second trace makes none
            )
        return result

    def finish(self, leaves: Sequence[Any]) -> None:
        """Yield these."""
        with tracing(self.trace):
            outputs = dense([v if isinstance(v, TensorArray) else as_tensor(v) for v in leaves])
            self.trace.finish(outputs)
        self.results = [v.tensor for v in self.function.returns[: len(outputs)]]
        self.states = {
            id(self.captures[arg - self.inputs]): result
            for result, arg in self.function.updates.items()
        }

    @property
    def tensors(self) -> list[Tensor]:
        """What it yields, but for Variables, as Tensors of its trace."""
        return [TracedTensor(v, self.trace) for v in self.function.returns[: len(self.results)]]

    def set_ranges(self, ranges: Mapping[int, tuple[DimLike, DimLike]]) -> None:
        """Say between which numbers inputs are, by their numbers."""
        for number, ends in ranges.items():
            set_range(self.given[number], *ends)

    def add_inputs(self, types: Sequence[TensorType], at: int) -> None:
        """Take more inputs, which nobody reads, from number ``at`` on."""
        args = self.function.block.args
        for number, type in enumerate(types, at):
            self.function.block.add_arg(type)
            args.insert(number, args.pop())
        for number, arg in enumerate(args):
            arg.index = number
        self.inputs += len(types)

    def add_to_reads(self, variable: Variable, source: Tensor) -> None:
        """Let every read of a Variable be a sum with ``source``, which is captured: it has the reads' gradients."""
        reads = self.trace.values_behind(variable)
        if not reads:
            return
        block = self.function.block
        captured = block.add_arg(source.type)
        self.captures.append(source)
        for read in reads:
            assert read.op is not None
            users = [op for op in read.users if not isinstance(op.defn, Gradient)]
            b = Builder(block, before=block.ops[block.ops.index(read.op) + 1])
            total = b.add(read, captured)
            for op in users:
                op.set_operands([total if v is read else v for v in op.operands])


class Inputs:
    """What the regions of one operation read: the Variables that one of them assigns, then everything else."""

    def __init__(self, parts: Sequence[Subprogram]) -> None:
        states = set().union(*(p.states for p in parts))
        things = {id(t): t for p in parts for t in p.captures}
        self.assigned: list[Variable] = [t for i, t in things.items() if i in states]
        for variable in self.assigned:
            _let_gradients_out(variable, parts)
        things = {id(t): t for p in parts for t in p.captures}
        self.others = [t for i, t in things.items() if i not in states]
        for part in parts:
            _watch_reads(part, states)
        self.trace = trace = current()
        for part in parts:
            trace.function.guards += [
                g for g in part.function.guards if g not in trace.function.guards
            ]
        self._before = [TracedTensor(trace.state(v), trace) for v in self.assigned]
        self._read = [_read(t) for t in self.others]

    def region(
        self, part: Subprogram, carried: int, rows: Sequence[TensorType], states_at: int | None
    ) -> Region:
        """A region that does what a part does.

        Its arguments are ``carried`` inputs, the assigned Variables, the other inputs (of types ``rows``), everything
        else. It yields the part's results, the Variables among them from ``states_at`` on, if anywhere.
        """
        states = [v.type for v in self.assigned]
        first = [a.type for a in part.function.args[:carried]]
        types = [*first, *states, *rows, *(t.type for t in self._read)]

        def write(b: Builder, args: list[Value]) -> list[Value]:
            own, rest = args[:carried], args[carried:]
            before, rest = rest[: len(states)], rest[len(states) :]
            own, rest = [*own, *rest[: len(rows)]], rest[len(rows) :]
            known = dict(zip(map(id, self.assigned), before, strict=True))
            known |= dict(zip(map(id, self.others), rest, strict=True))
            captured = [known[id(t)] for t in part.captures]
            yielded = copied_into(b, part.function.block, [*own, *captured])
            found = yielded[: len(part.results)]
            if states_at is None:
                return found
            after = [
                yielded[part.states[id(v)]] if id(v) in part.states else known[id(v)]
                for v in self.assigned
            ]
            return [*found[:states_at], *after, *found[states_at:]]

        return new_region(types, write)

    def apply(
        self,
        name: str,
        governing: Sequence[Tensor],
        regions: Sequence[Region],
        first: Sequence[Tensor] = (),
        columns: Sequence[Tensor] = (),
        **attrs: Any,
    ) -> list[Tensor]:
        """Append the operation."""
        operands = [*governing, *first, *self._before, *columns, *self._read]
        return list(self.trace.apply(OPS[name], operands, attrs, regions))

    def keep_states(self, results: Sequence[Tensor], split: int) -> list[Tensor]:
        """Give the assigned Variables what is new, which stands behind ``split`` results; return the others."""
        end = split + len(self.assigned)
        for variable, value in zip(self.assigned, results[split:end], strict=True):
            self.trace.assign(variable, value)
            for tape in active_tapes():
                tape.trail.assign(variable, value)
        return [*results[:split], *results[end:]]


def current() -> Trace:
    """The trace that goes on."""
    trace = current_trace()
    assert trace is not None
    return trace


def _read(thing: Any) -> Tensor:
    return thing.read_value() if isinstance(thing, Variable) else as_tensor(thing)


def _let_gradients_out(variable: Variable, parts: Sequence[Subprogram]) -> None:
    """Let gradients out to a Variable that is read and assigned inside, where each read is a source of its own.

    All get the same summand, which changes nothing (-0.0): what flows to that, a tape takes for the reads'.
    """
    read = any(part.trace.values_behind(variable) for part in parts)
    if not read or not variable.dtype.is_differentiable:
        return
    trace = current()
    nothing = full(-0.0, variable.dtype, variable.type.shape)
    source = trace.read(variable, state=nothing)
    for tape in active_tapes():
        tape.variable_read(variable, source)
    for part in parts:
        part.add_to_reads(variable, source)


def _watch_reads(part: Subprogram, states: set[int]) -> None:
    """Let gradients out to Variables that are read in front of the operation, and not assigned in it."""
    args = part.function.args[part.inputs :]
    only_read = {a for a, t in zip(args, part.captures, strict=True) if id(t) not in states}
    watch_reads(part.function.block.ops, only_read)


def check_types(
    name: str,
    one: str,
    other: str,
    a: Sequence[TensorType],
    b: Sequence[TensorType],
    refusal: type[ValueError] = ValueError,
) -> None:
    """Hold values of one part of a program to have the types that others have.

    Raises:
        TypeError: they have other dtypes; ``one`` and ``other`` say where.
        ValueError: they have other shapes; it is a ``refusal``.
    """
    for i, (first, second) in enumerate(zip(a, b, strict=True)):
        if first.dtype != second.dtype:
            what = f"{name}: value {i} is {first} {one} and {second} {other}"
            raise TypeError(what, location=here(), hint="convert it with tapec.cast")
        if first.shape != second.shape:
            what = f"{name}: value {i} is {first} {one} and {second} {other}"
            raise refusal(
                what, location=here(), hint="in a compiled function shapes stay as they are"
            )
