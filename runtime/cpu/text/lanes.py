"""Operations on the lanes of vectors, as LLVM text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tapec.ir.core import Operation
from tapec.ir.errors import TargetError, underline
from tapec.ir.op import OPS
from tapec.ir.scalar import Scalar
from tapec.ir.types import VectorType
from tapec.runtime.cpu.text import spelling
from tapec.runtime.cpu.text.spelling import WORD

if TYPE_CHECKING:
    from tapec.runtime.cpu.text.llvm import KernelWriter


def splat_op(k: KernelWriter, op: Operation) -> None:
    """A scalar in every lane."""
    (value,) = op.operands
    kind = spelling.element(value.type.dtype)
    k.define(op.result, k.splat(k.name(value), kind, op.attrs["lanes"]))


def lanes_op(k: KernelWriter, op: Operation) -> None:
    """The numbers 0, 1, 2, … of the lanes."""
    kind = op.result.type
    assert isinstance(kind, VectorType)
    k.define(op.result, spelling.vector_literal(range(kind.lanes), kind.dtype))


def shuffle_op(k: KernelWriter, op: Operation) -> None:
    """Lanes of two vectors."""
    a, b = (k.name(v) for v in op.operands)
    kind = spelling.register(op.operands[0].type)
    k.define(op.result, _pick(k, kind, a, b, op.attrs["mask"]))


def reduce_lanes(k: KernelWriter, op: Operation) -> None:
    """Combine halves until one lane is left."""
    (value,) = op.operands
    kind = value.type
    assert isinstance(kind, VectorType)
    record: Scalar = OPS[op.attrs["combine"]].scalar  # type: ignore[attr-defined]
    name, lanes = k.name(value), kind.lanes
    if lanes & (lanes - 1):
        raise TargetError(underline(op, "reduce_lanes takes a power of two of lanes"))
    element = spelling.element(kind.dtype)
    while lanes > 1:
        whole, half = spelling.wide(element, lanes), lanes // 2
        low = _pick(k, whole, name, "poison", range(half))
        high = _pick(k, whole, name, "poison", range(half, lanes))
        types = [VectorType(kind.dtype, half)] * 2
        name, lanes = k.scalar(record, [low, high], types), half
    text = f"extractelement {spelling.wide(element, 1)} {name}, i64 0"
    k.define(op.result, k.pure(text, name))


def load_at(k: KernelWriter, op: Operation) -> None:
    """A lane from each offset; the target decides whether it has an instruction for that."""
    buffer, offsets = op.operands
    kind = op.result.type
    assert isinstance(kind, VectorType)
    lanes, dtype = kind.lanes, kind.dtype
    memory = spelling.memory(dtype)
    at = k.name(offsets)
    pointers = k.pure(
        f"getelementptr {memory}, ptr {k.name(buffer)}, <{lanes} x {WORD}> {at}",
        k.name(buffer),
        at,
    )
    whole = spelling.memory(dtype, lanes)
    name = k.emit(
        f"call {whole} @llvm.masked.gather.{spelling.suffix(memory, lanes)}.v{lanes}p0("
        f"<{lanes} x ptr> {pointers}, i32 {dtype.bytes}, <{lanes} x i1> splat (i1 true), "
        f"{whole} zeroinitializer)"
    )
    k.define(op.result, k.from_memory(name, dtype, lanes))


def _pick(k: KernelWriter, kind: str, a: str, b: str, mask: Sequence[int]) -> str:
    """A ``shufflevector``."""
    lanes = ", ".join(f"i32 {m}" for m in mask)
    text = f"shufflevector {kind} {a}, {kind} {b}, <{len(mask)} x i32> <{lanes}>"
    return k.pure(text, a, b)
