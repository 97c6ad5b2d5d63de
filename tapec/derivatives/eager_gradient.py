"""Gradients of an eager tape: its records become a program, the program is differentiated once, then only run.

Programs are kept by structure (operations, types, how they hang together), so a loop that repeats itself builds its
gradient once, and from the turn that `config.native_turn` tells on runs it as native code. The program holds no
forward operation: what the adjoint reads of them, the records saved.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

import numpy as np

from tapec import config
from tapec.compiler import Executable, compile_module
from tapec.derivatives.places import mark, mark_of_entry, place_of
from tapec.derivatives.replay import VARIABLE, replay
from tapec.derivatives.stretches import gradient_in_stretches
from tapec.errors import ResourceExhaustedError
from tapec.frames import here
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Operation, Value, clone_block_into, clone_function
from tapec.ir.errors import CheckError, TargetError
from tapec.ir.evaluator import evaluate_function
from tapec.ir.types import TensorType
from tapec.passes.adjoint import expand, reachable
from tapec.passes.pipeline import Stage, parse_pipeline, run_pipeline
from tapec.recording import active_tapes, current_trace, inspectors
from tapec.tapes.records import Record, Recording
from tapec.tensor import Array, EagerTensor, Tensor
from tapec.traces.effects import Effects, raised
from tapec.variable import Variable

_DIFFERENTIATE = parse_pipeline("adjoint")
_SWEEP = parse_pipeline("dce")
_SIMPLIFY = parse_pipeline("prune{keep-cuts=true},canonicalize,cse,dce")

#: Programs of more operations stay with NumPy: LLVM's time grows faster than the length of what is one kernel.
_LONGEST = 1000

#: Programs kept, and recordings known to lead to one; the least recently used goes first.
_CAPACITY = 512
_programs: OrderedDict[Any, GradientProgram] = OrderedDict()
_known: OrderedDict[Any, _Known] = OrderedDict()


class _Known(NamedTuple):
    """What the question of a recording came to, for one that is the same.

    ``places`` say where the program's inputs are among what the recording saved, ``calls`` which of its records are
    calls of programs that read Variables after assigning them.
    """

    program: GradientProgram
    places: tuple[tuple[int, int], ...]
    calls: tuple[int, ...]


def eager_gradient(
    recording: Recording,
    targets: Sequence[Tensor],
    sources: Sequence[tuple[int, TensorType]],
    seeds: Sequence[Tensor] | None,
    batched: bool = False,
) -> list[Tensor | None]:
    """Gradients of the targets' sum with respect to the values with these ids; None where there is no path.

    ``batched`` seeds have a leading axis more than the targets, and so have the gradients then.
    """
    if not recording.plain:
        return gradient_of_records(recording.records, targets, sources, seeds, batched)
    heard = _is_heard()
    question = _question(recording, targets, sources, seeds, batched)
    if heard:
        question = (question, tuple(map(mark_of_entry, recording.entries)))
    known = _known.get(question)
    if known is None:
        known = _find(recording, targets, sources, seeds, batched, plain=heard)
        _known[question] = known
        if len(_known) > _CAPACITY:
            _known.popitem(last=False)
    else:
        _touch(_known, question)
    saved, entries = recording.saved, recording.entries
    inputs = [saved[i][j] for i, j in known.places]
    variables = [v for i in known.calls for v in entries[i].variables]  # type: ignore[union-attr]
    if heard:
        return known.program.run_looked_at(inputs, seeds or (), variables)
    if not inspectors or current_trace() is not None:
        return known.program.run(inputs, seeds or (), variables)

    def alarm() -> None:
        _search(
            _slice(recording.records, {t.id for t in targets}), targets, sources, seeds, batched
        )

    return known.program.run(inputs, seeds or (), variables, alarm)


def _is_heard() -> bool:
    """Whether each operation of a gradient is looked at, and outer tapes hear of it."""
    return bool(inspectors) and current_trace() is None and bool(active_tapes())


def _question(
    recording: Recording,
    targets: Sequence[Tensor],
    sources: Sequence[tuple[int, TensorType]],
    seeds: Sequence[Tensor] | None,
    batched: bool,
) -> Any:
    """Equal for recordings of the same operations whose same values are asked for."""
    ends = recording.ends
    numbers = dict(zip(dict.fromkeys(ends), count()))
    strange: dict[int, int] = {}

    def number(id: int, type: TensorType) -> Any:
        known = numbers.get(id)
        return (strange.setdefault(id, len(strange)), type) if known is None else known

    return (
        tuple(recording.kinds),
        tuple(map(numbers.__getitem__, ends)),
        tuple([number(t.id, t.type) for t in targets]),
        tuple([number(i, type) for i, type in sources]),
        seeds is not None,
        seeds[0].type.shape[0] if batched and seeds else None,
    )


def _find(
    recording: Recording,
    targets: Sequence[Tensor],
    sources: Sequence[tuple[int, TensorType]],
    seeds: Sequence[Tensor] | None,
    batched: bool,
    *,
    plain: bool,
) -> _Known:
    """Find or make the program, and where the recording has its inputs."""
    part = _slice(recording.records, {t.id for t in targets})
    program, numbering = _program(part, targets, sources, seeds, batched, plain=plain)
    ids = list(numbering)
    places = {x.id: (i, j) for i, kept in enumerate(recording.saved) for j, x in enumerate(kept)}
    used = {r.outputs for r in part}
    calls = [
        i
        for i, e in enumerate(recording.entries)
        if isinstance(e, Record) and e.variables and e.outputs in used
    ]
    return _Known(program, tuple(places[ids[i]] for i, _ in program.reads), tuple(calls))


def gradient_of_records(
    records: Sequence[Record],
    targets: Sequence[Tensor],
    sources: Sequence[tuple[int, TensorType]],
    seeds: Sequence[Tensor] | None,
    batched: bool = False,
) -> list[Tensor | None]:
    """As `eager_gradient`, for records of any kind."""
    part = _slice(records, {t.id for t in targets})
    if any(r.pull is not None for r in part):
        return gradient_in_stretches(gradient_of_records, part, targets, sources, seeds, batched)
    heard = _is_heard()
    program, numbering = _program(part, targets, sources, seeds, batched, plain=heard)
    inputs, weights = _reads(program, part, numbering), seeds or ()
    variables = [v for r in part for v in r.variables]
    if heard:
        return program.run_looked_at(inputs, weights, variables)
    if not inspectors or current_trace() is not None:
        return program.run(inputs, weights, variables)

    def alarm() -> None:
        _search(part, targets, sources, seeds, batched)

    return program.run(inputs, weights, variables, alarm)


def _search(
    part: Sequence[Record],
    targets: Sequence[Tensor],
    sources: Sequence[tuple[int, TensorType]],
    seeds: Sequence[Tensor] | None,
    batched: bool,
) -> None:
    """After an alarm, find who made the number that is NaN or infinite, if anybody did.

    Raises:
        InvalidArgumentError: it was an operation of the gradient.
    """
    plain, numbering = _program(part, targets, sources, seeds, batched, plain=True)
    plain.search([x.array for x in (*_reads(plain, part, numbering), *(seeds or ()))])


def _reads(
    program: GradientProgram, part: Sequence[Record], numbering: Mapping[int, int]
) -> list[Tensor]:
    """What a program reads of the records, of which ``numbering`` are the numbers by id."""
    ids, saved = list(numbering), {id: x for r in part for id, x in r.saved.items()}
    return [saved[ids[i]] for i, _ in program.reads]


def _program(
    part: Sequence[Record],
    targets: Sequence[Tensor],
    sources: Sequence[tuple[int, TensorType]],
    seeds: Sequence[Tensor] | None,
    batched: bool,
    *,
    plain: bool = False,
) -> tuple[GradientProgram, dict[int, int]]:
    """The program for records of this structure, and the numbers that it gives to their values, by id.

    A ``plain`` one is for records from these very places.
    """
    numbering: dict[int, int] = {}

    def number(id: int) -> int:
        return numbering.setdefault(id, len(numbering))

    structure: Any = (
        tuple(
            (
                r.defn if r.callee is None else r.callee,
                tuple(r.attrs.items()),
                tuple([number(i) for i in r.inputs]),
                r.input_types,
                tuple([number(o) for o in r.outputs]),
            )
            for r in part
        ),
        tuple((number(t.id), t.type) for t in targets),
        tuple((number(i), type) for i, type in sources),
        seeds is not None,
        seeds[0].type.shape[0] if batched and seeds else None,
    )
    if plain:
        structure = (structure, tuple([mark(r.outputs[-1], r.origin) for r in part]))
    program = _programs.get(structure)
    if program is None:
        program = _programs[structure] = GradientProgram(
            part, targets, sources, seeds, numbering, batched, plain=plain
        )
        if len(_programs) > _CAPACITY:
            _programs.popitem(last=False)
    else:
        _touch(_programs, structure)
    return program, numbering


def _touch(kept: OrderedDict[Any, Any], key: Any) -> None:
    """Make an entry the youngest, unless another thread has removed it."""
    with suppress(KeyError):
        kept.move_to_end(key)


def _slice(records: Sequence[Record], wanted: set[int]) -> list[Record]:
    """The records that the wanted values depend on, in order."""
    part = []
    for record in reversed(records):
        if not wanted.isdisjoint(record.outputs):
            part.append(record)
            wanted.update(record.inputs)
    part.reverse()
    return part


class GradientProgram:
    """The adjoint of one structure of records: a function of saved values and seeds.

    ``reads`` are the saved values it takes, by their number in the structure, with types.
    """

    def __init__(
        self,
        part: Sequence[Record],
        targets: Sequence[Tensor],
        sources: Sequence[tuple[int, TensorType]],
        seeds: Sequence[Tensor] | None,
        numbering: dict[int, int],
        batched: bool,
        *,
        plain: bool = False,
    ) -> None:
        """Build, differentiate and simplify; ``plain``: keep each operation and know its ``origins``."""
        function = Function("gradient")
        values: dict[int, Value] = {}

        def value(id: int, type: TensorType) -> Value:
            if id not in values:
                values[id] = function.block.add_arg(type)
            return values[id]

        forward: list[Operation] = []
        for record in part:
            _emit(function, record, value, values, forward)
        ends = [value(t.id, t.type) for t in targets]
        starts = [value(id, type) for id, type in sources]
        weights = [function.block.add_arg(s.type) for s in seeds or ()]
        self.reached = reachable(ends, starts)
        wanted = [s for s, has in zip(starts, self.reached, strict=True) if has]
        builder = Builder(function.block)
        found: Any = ()
        if wanted:
            segments = (len(ends), len(weights), len(wanted), 0)
            rows: dict[str, Any] = {"batched": True} if batched else {}
            found = builder.emit("gradient", *ends, *weights, *wanted, segments=segments, **rows)
        builder.emit("return", *(found if isinstance(found, tuple) else (found,)))
        numbers: dict[Value, int] = {}
        # A program may return what it was given: the first id is the input's.
        for id, v in values.items():
            numbers.setdefault(v, numbering[id])
        #: Of which operation one is the derivative, in a plain program.
        self.origins = expand(function)
        self.reads = _cut(function, forward, numbers, weights, _SWEEP if plain else _SIMPLIFY)
        self.function = function
        self._types = [v.tensor for v in function.returns]
        self._runs = 0
        self._refused = len(function.block.ops) > _LONGEST
        #: Native code by the name of its pipeline.
        self._native: dict[str, Executable] = {}
        self._effects = Effects(Module([]), 0)

    def run(
        self,
        inputs: Sequence[Tensor],
        seeds: Sequence[Tensor],
        variables: Sequence[Variable],
        alarm: Callable[[], None] | None = None,
    ) -> list[Tensor | None]:
        """The gradients; outer tapes, or the trace that goes on, hear how they are computed.

        Args:
            inputs: what the records saved.
            seeds: the weights of the targets.
            variables: those that the programs called in the records read, in order.
            alarm: called if an operation may have made what is NaN or infinite; None where that does not matter.

        Raises:
            ResourceExhaustedError: there is no memory for what is computed on the way.
        """
        if active_tapes() or current_trace() is not None:
            results = replay(self.function.block, [*inputs, *seeds], variables)
        else:
            try:
                arrays = self._evaluate([t.array for t in (*inputs, *seeds)], alarm)
            except MemoryError as error:
                needed = str(error) or "none was given"
                raise ResourceExhaustedError(
                    f"no memory for a gradient ({needed})",
                    location=here(),
                    hint="tapec.compile(memory_budget=...) computes some values again",
                ) from None
            results = [
                EagerTensor(np.asarray(a), t) for a, t in zip(arrays, self._types, strict=True)
            ]
        return self._spread(results)

    def run_looked_at(
        self, inputs: Sequence[Tensor], seeds: Sequence[Tensor], variables: Sequence[Variable]
    ) -> list[Tensor | None]:
        """The gradients of a plain program, of which outer tapes hear.

        Raises:
            InvalidArgumentError: an operation in it made what is NaN or infinite.
        """
        inspector, given = inspectors[0], [*inputs, *seeds]
        with inspector.searching(lambda: self.search([x.array for x in given])):
            results = replay(self.function.block, given, variables, inspector.replayed)
        return self._spread(results)

    def search(self, arrays: Sequence[Array]) -> None:
        """Find who in a plain program made what is NaN or infinite.

        Raises:
            InvalidArgumentError: there is somebody to blame.
        """
        inspectors[0].gradient(self.function, arrays, self.origins)

    def _spread(self, results: Sequence[Tensor]) -> list[Tensor | None]:
        left = iter(results)
        return [next(left) if has else None for has in self.reached]

    def _evaluate(
        self, arrays: list[Array], alarm: Callable[[], None] | None = None
    ) -> Sequence[Array]:
        self._runs += 1
        native = self._compiled("default" if alarm is None else "alarmed")
        if native is not None:
            results = native(*arrays)
            if alarm is not None and results.pop():
                alarm()
            self._effects.settle(arrays, results)
            return results
        watch = None if alarm is None else inspectors[0].watch()
        try:
            values = evaluate_function(self.function, arrays, observer=watch)
        except CheckError as error:
            if alarm is not None:
                alarm()  # what was bad before that is told first
            raise raised(error) from None
        if alarm is not None and watch is not None and watch.alarmed:
            alarm()
        return values

    def _compiled(self, pipeline: str) -> Executable | None:
        """The native code that a pipeline makes, once it is the turn for it."""
        native = self._native.get(pipeline)
        if native is None and not self._refused and 0 < config.native_turn() <= self._runs:
            try:
                native = compile_module(Module([clone_function(self.function)]), pipeline)
            except TargetError:
                # Operations without native code stay with NumPy, as they ran forward.
                self._refused = True
            else:
                self._effects = Effects(Module([self.function]), native.checks)
                self._native[pipeline] = native  # last: other threads look at it
        return native


def _emit(
    function: Function,
    record: Record,
    value: Any,
    values: dict[int, Value],
    forward: list[Operation],
) -> None:
    """Append what a record stands for to the function."""
    operands = [value(i, t) for i, t in zip(record.inputs, record.input_types, strict=True)]
    if record.callee is not None:
        # No saved values inside: they are computed again, as part of the gradient.
        body = clone_function(record.callee)
        # Gradients inside are of the callee alone: among the operations around it, they would go on into those.
        run_pipeline(Module([body]), _DIFFERENTIATE)
        mapping = dict(zip(body.args, operands, strict=True))
        ops = function.block.ops
        start, earlier = len(ops), sum(VARIABLE in op.attrs for op in ops)
        clone_block_into(body.block, function.block, mapping)
        ops.pop().drop()
        for op in ops[start:]:
            if VARIABLE in op.attrs:
                op.attrs[VARIABLE] += earlier
        results = [mapping.get(v, v) for v in body.returns]
        values.update(zip(record.outputs, results, strict=True))
        return
    builder = Builder(function.block)
    with builder.at(place_of(record)):
        builder.emit(record.defn, *operands, **record.attrs)
    op = function.block.ops[-1]
    forward.append(op)
    values.update(zip(record.outputs, op.results, strict=True))


def _cut(
    function: Function,
    forward: Sequence[Operation],
    numbers: dict[Value, int],
    weights: Sequence[Value],
    simplify: Sequence[Stage],
) -> list[tuple[int, TensorType]]:
    """Cut the forward operations off, simplify; return what is read of the records."""
    block = function.block
    inside = set(forward)
    for op in forward:
        for result in op.results:
            readers = [user for user in result.users if user not in inside]
            if readers:
                saved = block.add_arg(result.type)
                numbers[saved] = numbers[result]
                for reader in readers:
                    for i, operand in enumerate(reader.operands):
                        if operand is result:
                            reader.set_operand(i, saved)
    for op in reversed(forward):
        op.drop()
    block.ops = [op for op in block.ops if op not in inside]
    run_pipeline(Module([function]), simplify)
    kept = [a for a in block.args if a.users and a not in weights]
    for index in reversed(range(len(block.args))):
        arg = block.args[index]
        if not arg.users and arg not in weights:
            block.remove_arg(index)
    block.args.sort(key=lambda a: a in weights)  # seeds come last
    for index, arg in enumerate(block.args):
        arg.index = index
    return [(numbers[a], a.tensor) for a in kept]
