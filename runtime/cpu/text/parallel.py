"""Parallel loops as LLVM text: the body becomes a function that the thread pool calls for a part of the range.

What the body reads from outside goes through a structure on the caller's stack. Each thread takes one contiguous part
(`tapec.runtime.cpu.threads` says how they meet), so the same iterations give the same bits for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tapec.ir.core import Operation, Value
from tapec.ir.errors import TargetError, underline
from tapec.ir.ops import loop
from tapec.ir.types import BufferType, VectorType
from tapec.runtime.cpu.text import spelling
from tapec.runtime.cpu.text.function import Affine

if TYPE_CHECKING:
    from tapec.runtime.cpu.text.llvm import KernelWriter

#: In the table of things from outside: ``void run(ptr task, ptr context, i64 threads)``.
RUN = "pool:run"


def outline(k: KernelWriter, op: Operation) -> None:
    """Write a parallel loop as a call of the pool and two functions: the body, and the task that calls it."""
    if op.results:
        raise TargetError(underline(op, "a parallel loop carries no values"))
    captured = [v for v in outer_values(op) if not _is_constant(k, v)]
    low, high, *_ = op.operands
    bounds = [k.index(k.position(v)) for v in (low, high)]
    symbols = list(k.symbols)
    fields = [("i64", name) for name in bounds]
    fields += [("i64", k.index(k.symbols[s])) for s in symbols]
    fields += [(spelling.register(v.type), k.name(v)) for v in captured]
    record = f"{{ {', '.join(kind for kind, _ in fields)} }}"
    # The layout is LLVM's; this is only how much to take.
    largest = max([64, *(_bytes(v) for v in captured)])
    context = k.alloca(largest * len(fields), align=largest)
    for i, (kind, name) in enumerate(fields):
        place = k.pure(f"getelementptr {record}, ptr {context}, i64 0, i32 {i}", context)
        k.line(f"store {kind} {name}, ptr {place}")
    number = f"{k.function.name}.{k.writer.next_body()}"
    run = k.emit(f"load ptr, ptr {k.writer.host_slot(RUN)}")
    k.line(f'call void {run}(ptr @"task.{number}", ptr {context}, i64 {k.writer.threads})')
    _write_body(k, op, captured, symbols, number)
    k.writer.add_function(_task(number, record, [kind for kind, _ in fields], op))


def _bytes(value: Value) -> int:
    """Size and alignment of a vector, which is a power of two; anything else takes less than 64."""
    if not isinstance(value.type, VectorType):
        return 8
    return 1 << (value.type.lanes * value.type.dtype.bytes - 1).bit_length()


def _write_body(
    k: KernelWriter, op: Operation, captured: Sequence[Value], symbols: Sequence[str], number: str
) -> None:
    """The loop itself, over a part of the range."""
    body = type(k)(k.writer, k.function)
    body.in_parallel = True
    body.names = {v: k.names[v] for v in k.names if v not in captured and _is_constant(k, v)}
    body.affine = {v: a for v, a in k.affine.items() if not a.terms}
    body.symbols = {s: Affine(((f"%dim{i}", 1),)) for i, s in enumerate(symbols)}
    arguments = ["i64 %low", "i64 %high", *(f"i64 %dim{i}" for i in range(len(symbols)))]
    distinct = _distinct_buffers(captured)
    for i, value in enumerate(captured):
        body.define(value, f"%captured{i}")
        alias = " noalias" if value in distinct else ""
        arguments.append(f"{spelling.register(value.type)}{alias} %captured{i}")
    body.plain_loop(op, Affine((("%low", 1),)), Affine((("%high", 1),)), ())
    body.line("ret void")
    header = f'define internal void @"body.{number}"({", ".join(arguments)}) noinline #0'
    k.writer.add_function(body.text(header))


def _task(number: str, record: str, kinds: Sequence[str], op: Operation) -> str:
    """``task(context, thread, threads)``: find this thread's part of the range and run the body on it."""
    step = op.attrs.get("step", 1)
    lines, arguments = [], []
    for i, kind in enumerate(kinds):
        lines.append(f"%p{i} = getelementptr {record}, ptr %context, i64 0, i32 {i}")
        lines.append(f"%f{i} = load {kind}, ptr %p{i}")
        arguments.append(f"{kind} %f{i}")
    arguments[:2] = ["i64 %low", "i64 %high"]
    lines += [
        "%length = sub i64 %f1, %f0",
        f"%up = add i64 %length, {step - 1}",
        f"%trips = sdiv i64 %up, {step}",
        "%more = add i64 %trips, %threads",
        "%most = sub i64 %more, 1",
        "%share = sdiv i64 %most, %threads",
        f"%stride = mul i64 %share, {step}",
        "%start = mul i64 %thread, %stride",
        "%low = add i64 %f0, %start",
        "%end = add i64 %low, %stride",
        "%high = call i64 @llvm.smin.i64(i64 %end, i64 %f1)",
        f'call void @"body.{number}"({", ".join(arguments)})',
        "ret void",
    ]
    header = f'define internal void @"task.{number}"(ptr %context, i64 %thread, i64 %threads) #2'
    return f"{header} {{\n  " + "\n  ".join(lines) + "\n}\n"


def outer_values(op: Operation) -> list[Value]:
    """The values that an operation's regions read and do not make, in order of first use."""
    made: set[Value] = set()
    read: dict[Value, None] = {}
    for region in op.regions:
        for block in region.blocks:
            made.update(block.args)
        for inner in region.walk():
            for nested in inner.regions:
                made.update(arg for block in nested.blocks for arg in block.args)
            made.update(inner.results)
            read.update(dict.fromkeys(inner.operands))
    return [value for value in read if value not in made]


def _is_constant(k: KernelWriter, value: Value) -> bool:
    affine = k.affine.get(value)
    if affine is not None:
        return not affine.terms
    return value in k.names and not k.names[value].startswith("%")


def _distinct_buffers(captured: Sequence[Value]) -> set[Value]:
    """The buffers that overlap none of the others: arguments and scratch, each reached by one way only."""
    roots: dict[Value, list[Value]] = {}
    for value in captured:
        if isinstance(value.type, BufferType):
            root = value
            while root.op is not None and isinstance(root.op.defn, loop.View):
                root = root.op.operands[0]
            roots.setdefault(root, []).append(value)
    return {values[0] for values in roots.values() if len(values) == 1}
