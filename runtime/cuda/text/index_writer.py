"""Indices in a kernel's text: 32 bits wide where that is enough, and unsigned where they cannot be negative."""

from __future__ import annotations

from typing import Any

from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.dims import Atom, DimLike, Symbol, bounds
from tapec.ir.errors import TargetError, underline
from tapec.ir.op import OPS, Op
from tapec.ir.ops import arith, compare, device, loop, source
from tapec.ir.scalar import Scalar
from tapec.ir.types import BY_CODE, I32, INDEX, DType
from tapec.runtime.cuda.text import primitives, spelling
from tapec.runtime.cuda.text.wide_indices import goes_beyond
from tapec.runtime.python_text.writer import FunctionWriter

#: Longest expression that is put where it is read.
_LONGEST = 70
_SIGNS: dict[type[Op], str] = {
    arith.Add: "+",
    arith.Sub: "-",
    arith.Mul: "*",
    arith.FloorDiv: "//",
    arith.Mod: "%",
}
#: What these make of indices is negative only if one of them is.
_AS_NEGATIVE = (arith.Add, arith.Mul, arith.FloorDiv, arith.Mod, arith.Min)


class IndexWriter(FunctionWriter):
    """Writes what indices are made of."""

    def __init__(
        self, module: Module, function: Function, tables: dict[str, Any], *, wide: bool = False
    ) -> None:
        """Choose how wide indices are: 64 bits if that is asked for, or known sizes take it."""
        super().__init__(module, function, tables)
        self._taken |= primitives.NAMES | {"block", "blocks"}
        is_wide = wide or goes_beyond(function, {})
        self.signed, self.unsigned = ("i64", "u64") if is_wide else ("i32", "u32")
        #: Index values that may be negative.
        self._negative: dict[Value, bool] = {}

    def pure(self, op: Operation, text: str) -> None:
        """The expression of a value: where it is read, if that is once and near, else a variable."""
        users = list(op.result.users.items())
        once = len(users) == 1 and users[0][1] == 1 and users[0][0].block is op.block
        if not users or (once and len(text) <= _LONGEST):
            self.names[op.result] = text
        else:
            self.assign(op.result, text, op.name)

    def is_negative(self, value: Value) -> bool:
        """Whether an index may be negative; then it is signed."""
        found = self._negative.get(value)
        if found is None:
            found = self._negative[value] = self._may_be_negative(value)
        return found

    def _may_be_negative(self, value: Value) -> bool:
        op = value.op
        if op is None:
            block = value.owner
            assert isinstance(block, Block)
            assert block.region is not None
            owner = block.region.owner
            loops = isinstance(owner, Operation) and isinstance(owner.defn, loop.For | loop.While)
            if not loops or value.index:
                return True
            assert isinstance(owner, Operation)
            return self.is_negative(owner.operands[0])
        if isinstance(op.defn, source.Constant):
            low = bounds(op.attrs["value"])[0]
            return low is None or low < 0
        if isinstance(op.defn, device.Thread):
            return False
        if isinstance(op.defn, loop.While):
            return self.is_negative(op.operands[0])
        if isinstance(op.defn, _AS_NEGATIVE):
            return any(self.is_negative(v) for v in op.operands)
        if isinstance(op.defn, arith.Max):
            return all(self.is_negative(v) for v in op.operands)
        if isinstance(op.defn, compare.Where):
            return any(self.is_negative(v) for v in op.operands[1:])
        return True

    def index_code(self, value: Value) -> str:
        """The dtype of an index in the text."""
        return self.signed if self.is_negative(value) else self.unsigned

    def index(self, value: Value, code: str | None = None) -> str:
        """An index as text, of its own dtype or of another."""
        own, text = self.index_code(value), self.names[value]
        if code is None or code == own:
            return text
        op = value.op
        if (
            op is not None
            and isinstance(op.defn, source.Constant)
            and isinstance(op.attrs["value"], int)
        ):
            return f"{code}({op.attrs['value']})"
        return f"{code}({text})"

    def _number(self, value: int) -> str:
        return f"{self.unsigned if value >= 0 else self.signed}({value})"

    def size(self, dim: DimLike) -> str:
        """A size as an expression of unsigned numbers."""
        if isinstance(dim, int):
            return self._number(dim)
        u, parts = self.unsigned, []
        for monomial, factor in dim.terms:
            text = f"{self.signed}({factor})" if factor < 0 or not monomial else ""
            if factor not in (1,) and not text:
                text = f"{u}({factor})"
            for atom in monomial:
                one = self._atom(atom)
                text = f"{u}({text} * {one})" if text else one
            parts.append(text)
        total = parts[0]
        for part in parts[1:]:
            total = f"{u}({total} + {part})"
        return total

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return self.symbols[atom.name]
        sign = "%" if atom.remainder else "//"
        sides = (self.size(atom.numerator), self.size(atom.denominator))
        return f"{self.unsigned}({f' {sign} '.join(sides)})"

    def _index_operation(self, op: Operation, record: Scalar) -> None:
        """Arithmetic of indices, unsigned where nothing is negative."""
        values = [v for v in op.operands if v.type.dtype == INDEX]
        common = self.signed if any(map(self.is_negative, values)) else self.unsigned
        if record.result == "bool":
            a, b = (self.index(v, common) for v in op.operands)
            self.pure(op, spelling.apply(OPS[record.name].scalar, [a, b], I32))  # type: ignore[attr-defined]
            return
        code = self.index_code(op.result)
        sign = _SIGNS.get(type(op.defn))
        if sign is not None:
            common = self.signed if code == self.signed else common
            a, b = (self.index(v, common) for v in op.operands)
            self.pure(op, f"{code}({a} {sign} {b})")
        elif isinstance(op.defn, arith.Max | arith.Min):
            sign = ">" if isinstance(op.defn, arith.Max) else "<"
            a, b = (self.index(v, common) for v in op.operands)
            text = f"({a} if {a} {sign} {b} else {b})"
            self.pure(op, text if code == common else f"{code}{text}")
        elif isinstance(op.defn, compare.Where):
            a, b = (self.index(v, code) for v in op.operands[1:])
            self.pure(op, f"({a} if {self.names[op.operands[0]]} else {b})")
        elif isinstance(op.defn, arith.Neg):
            self.pure(op, f"{code}(-{self.index(op.operands[0], self.signed)})")
        else:
            raise TargetError(underline(op, f"the cuda target has no {op.name} of indices"))

    def to_index(self, text: str, old: DType) -> str:
        if old.is_bool or old.is_floating:
            return spelling.cast(text, old, BY_CODE[self.signed])
        fits = old.bits < int(self.signed[1:]) or old.code == self.signed
        return f"{self.signed}({text})" if fits else f"index_{old.code}_{self.signed}({text})"


def index_conversion(source: str, target: str) -> str:
    """The text of the function that makes an index of a wide integer: the nearest one."""
    bits = int(target[1:])
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    tests = [f"    if x > {source}({high}):", f"        return {target}({high})"]
    if source[0] == "i":
        tests += [f"    if x < {source}({low}):", f"        return {target}({low})"]
    head = f"def index_{source}_{target}(x):"
    return "\n".join([head, *tests, f"    return {target}(x)", ""])
