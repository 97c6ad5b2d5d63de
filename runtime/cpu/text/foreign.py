"""Users' kernels in the text of a program: called for single elements, for vectors, for whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tapec.ir.foreign import KERNEL, ForeignCode, StraightLine
from tapec.ir.op import OPS
from tapec.ir.ops.foreign import ForeignArrays, ForeignScalar
from tapec.ir.types import BufferType
from tapec.runtime.cpu.text import spelling

if TYPE_CHECKING:
    from tapec.ir.core import Operation
    from tapec.ir.types import DType
    from tapec.runtime.cpu.mathematics.vectormath import MathLibrary
    from tapec.runtime.cpu.text.llvm import KernelWriter


def code_of(op: Operation) -> tuple[str, ForeignCode]:
    """The name and the code of the user's kernel that an operation at loop level runs."""
    defn, types = op.defn, [v.type for v in op.operands]
    if isinstance(defn, ForeignScalar):
        return op.name, defn.source.code(types)
    defn, inputs = OPS[op.attrs["op"]], op.attrs["inputs"]
    assert isinstance(defn, ForeignArrays)
    return defn.name, defn.source.code(types[:inputs], types[inputs:])


def scalar_op(writer: KernelWriter, op: Operation) -> None:
    """A user's kernel of scalars, on scalars or vectors."""
    dtypes = tuple(v.type.dtype for v in op.operands)
    (_, code), lanes = code_of(op), spelling.lanes_of(op.result.type)
    library = writer.writer.foreign
    if lanes:
        name = library.vector_function(op.name, code, dtypes, lanes)
    else:
        name = library.function(op.name, code)
    names = [writer.name(v) for v in op.operands]
    types = [spelling.register(v.type) for v in op.operands]
    given = ", ".join(f"{t} {n}" for t, n in zip(types, names, strict=True))
    call = f"call {spelling.register(op.result.type)} {name}({given})"
    writer.define(op.result, writer.pure(call, *names, cheap=False))


def arrays_op(writer: KernelWriter, op: Operation) -> None:
    """A user's kernel of arrays: their addresses, then all their extents."""
    name = writer.writer.foreign.function(*code_of(op))
    given = [f"ptr {writer.name(v)}" for v in op.operands]
    for value in op.operands:
        assert isinstance(value.type, BufferType)
        given += [f"i64 {writer.index(writer.dim(n))}" for n in value.type.shape]
    writer.line(f"call void {name}({', '.join(given)})")


class ForeignLibrary:
    """The kernels that one module needs, each written once."""

    def __init__(self, math: MathLibrary, host_slot: Callable[[str], str]) -> None:
        """``host_slot`` gives the place of an address from outside."""
        self._math = math
        self._host_slot = host_slot
        self._written: dict[str, str] = {}

    def text(self) -> str:
        """All of them."""
        return "\n".join(self._written.values())

    def function(self, op: str, code: ForeignCode) -> str:
        """The name of a kernel's function of scalars or arrays."""
        name = f"@foreign.{code.content}"
        if name not in self._written:
            for math in code.maths:
                self._math.need(*math)
            thunks = [self._thunk(op, code, symbol) for symbol in code.foreign]
            text = "\n".join([code.text, *thunks])
            self._written[name] = text.replace(KERNEL, f'@"foreign.{code.content}')
        return name

    def vector_function(
        self, op: str, code: ForeignCode, operands: Sequence[DType], lanes: int
    ) -> str:
        """The name of its function of vectors."""
        name = f"@foreign.{code.content}.v{lanes}"
        if name not in self._written:
            self._written[name] = ""
            if code.line is not None:
                text = self._straight(name, code.line, operands, code.results[0], lanes)
            else:
                text = _by_lanes(name, self.function(op, code), operands, code.results[0], lanes)
            self._written[name] = text
        return name

    def _thunk(self, op: str, code: ForeignCode, symbol: Any) -> str:
        """A function of the text's own that calls one at an address."""
        arguments = ", ".join(f"{kind} %x{i}" for i, kind in enumerate(symbol.arguments))
        slot = self._host_slot(f"foreign:{op}:{code.content}:{symbol.name}")
        return (
            f'define internal {symbol.result} {KERNEL}.{symbol.name}"({arguments}) #1 {{\n'
            f"  %address = load ptr, ptr {slot}\n"
            f"  %result = call {symbol.result} %address({arguments})\n"
            f"  ret {symbol.result} %result\n}}\n"
        )

    def _straight(
        self, name: str, line: StraightLine, operands: Sequence[DType], result: DType, lanes: int
    ) -> str:
        """Each step for all lanes."""

        def spelled(kind: str, value: str) -> str:
            if value.startswith("%") or value in ("poison", "undef", "zeroinitializer"):
                return value
            return spelling.splat_literal(kind, value)

        lines = []
        for step in line.steps:
            types = {f"t{i}": spelling.wide(k, lanes) for i, (k, _) in enumerate(step.operands)}
            types |= {f"m{i}": spelling.suffix(k, lanes) for i, (k, _) in enumerate(step.operands)}
            values = [spelled(kind, value) for kind, value in step.operands]
            text = step.form.format(*values, t=spelling.wide(step.kind, lanes), **types)
            if "@tapec." in text:
                self._math.need(
                    text.split("@tapec.", 1)[1].split(".", 1)[0], step.operands[0][0], lanes
                )
            lines.append(f"  {step.result} = {text}")
        kind = spelling.element(result)
        end = f"  ret {spelling.wide(kind, lanes)} {spelled(kind, line.result)}"
        return "\n".join(
            [f"{_vector_header(name, operands, result, lanes)} {{", *lines, end, "}\n"]
        )


def _vector_header(name: str, operands: Sequence[DType], result: DType, lanes: int) -> str:
    arguments = ", ".join(
        f"{spelling.wide(spelling.element(d), lanes)} %a{i}" for i, d in enumerate(operands)
    )
    kind = spelling.wide(spelling.element(result), lanes)
    return f"define internal {kind} {name}({arguments}) #1"


def _by_lanes(name: str, scalar: str, operands: Sequence[DType], result: DType, lanes: int) -> str:
    """One lane after the other, in a loop: for kernels with loops of their own."""
    kind = spelling.element(result)
    whole = spelling.wide(kind, lanes)
    lines = [f"{_vector_header(name, operands, result, lanes)} {{", "entry:", "  br label %lane"]
    lines += [
        "lane:",
        "  %i = phi i32 [ 0, %entry ], [ %next, %lane ]",
        f"  %r = phi {whole} [ poison, %entry ], [ %s, %lane ]",
    ]
    given = []
    for i, dtype in enumerate(operands):
        element = spelling.element(dtype)
        lines.append(f"  %x{i} = extractelement {spelling.wide(element, lanes)} %a{i}, i32 %i")
        given.append(f"{element} %x{i}")
    lines += [
        f"  %y = call {kind} {scalar}({', '.join(given)})",
        f"  %s = insertelement {whole} %r, {kind} %y, i32 %i",
        "  %next = add i32 %i, 1",
        f"  %more = icmp ult i32 %next, {lanes}",
        "  br i1 %more, label %lane, label %done",
        "done:",
        f"  ret {whole} %s",
    ]
    return "\n".join([*lines, "}\n"])
