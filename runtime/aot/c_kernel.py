"""One kernel as a C function: loops over arrays, with the user's lines as comments.

What is computed once and read once becomes part of the expression that reads it, so that a statement says about as
much as a line of the program did.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tapec.ir.core import Block, Function, Operation, Value
from tapec.ir.dims import Atom, Dim, DimLike, Symbol
from tapec.ir.errors import TargetError, underline
from tapec.ir.op import Op
from tapec.ir.ops import bits, compare, loop, source
from tapec.ir.ops.repetition import ENDLESS_TURNS
from tapec.ir.scalar import Scalar
from tapec.ir.types import INDEX, BufferType, DType, TensorType, Type
from tapec.runtime.aot import declarations
from tapec.runtime.aot.c_functions import stripped, without_unused
from tapec.runtime.aot.c_instructions import Translator, c_type, constant, function_name
from tapec.runtime.cpu.text import spelling
from tapec.runtime.symbols import symbols_of

#: The longest expression that becomes part of another.
_INLINED = 70
_INDEX = "ptrdiff_t"


class CKernel:
    """The text of one function while it is written."""

    def __init__(
        self, function: Function, translator: Translator, table: Callable[[Any], str]
    ) -> None:
        """``table`` gives the name of a constant array."""
        self.function = function
        self.translator = translator
        self.table = table
        self.names: dict[Value, str] = {}
        self.lines: list[str] = []
        self._depth = 1
        self._count: Counter[str] = Counter()
        self._uses = Counter(v for op in function.walk() for v in op.operands)
        self._place: str | None = None

    def text(self, name: str) -> str:
        """The function."""
        given = []
        written = {
            v for op in self.function.walk() for v in _roots(op) if isinstance(v.type, BufferType)
        }
        for i, arg in enumerate(self.function.args):
            kind = arg.type
            assert isinstance(kind, BufferType)
            self.names[arg] = f"{'out' if arg in written else 'in'}{i}"
            const = "" if arg in written else "const "
            given.append(f"{const}{declarations.c_type(kind.dtype)} *restrict {self.names[arg]}")
        given += [f"{_INDEX} {symbol}" for symbol in symbols_of(self.function)]
        self.block(self.function.block)
        self.tidy([self.names[arg] for arg in self.function.args])
        head = f"static void {name}({', '.join(given)}) {{"
        if len(head) > 100:
            head = f"static void {name}(\n    " + ",\n    ".join(given) + ") {"
        return "\n".join([head, *self.lines, "}"]) + "\n"

    def launch(self, op: Operation) -> None:
        """Kernels launch none."""
        raise TargetError(underline(op, "a kernel cannot launch another"))

    # ---- statements

    def tidy(self, arguments: Sequence[str]) -> None:
        """Drop variables that nothing reads, and tell the compiler of arguments that nothing does."""
        self.lines = without_unused(self.lines)
        body = "\n".join(self.lines)
        unread = [name for name in arguments if not re.search(rf"\b{name}\b", body)]
        self.lines += [f"    (void){name};" for name in unread]

    def line(self, text: str) -> None:
        """Write a line at this depth."""
        self.lines.append("    " * self._depth + text)

    @contextlib.contextmanager
    def nested(self) -> Iterator[None]:
        """Write one level further in."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1

    def fresh(self, stem: str) -> str:
        """A name that is new in this function."""
        number = self._count[stem]
        self._count[stem] += 1
        return f"{stem}{number}"

    def block(self, block: Block) -> list[Value]:
        """Write a block; return the operands of its terminator."""
        for op in block.ops:
            if op.defn.terminator:
                return list(op.operands)
            self._say(op)
            _RULES.get(type(op.defn), CKernel.elementwise)(self, op)
        raise TargetError("a block ends without a terminator")

    def _say(self, op: Operation) -> None:
        """The user's line, where it is another than that of the operation before."""
        place = op.location
        if place is None or isinstance(op.defn, source.Constant | loop.View):
            return
        text = f"{place.file.rsplit('/', 1)[-1]}:{place.line}"
        if text != self._place:
            self._place = text
            self.line(f"/* {declarations.in_comment(text)} */")

    def define(self, value: Value, expression: str, *, pure: bool = True) -> None:
        """Give a value: as a part of what reads it, or as a variable."""
        uses = self._uses[value]
        if pure and (uses == 0 or _is_atom(expression)):
            self.names[value] = expression
        elif pure and uses == 1 and len(expression) <= _INLINED and self._read_beside(value):
            self.names[value] = expression
        else:
            self.names[value] = name = self.fresh("v")
            self.line(f"const {register(value.type)} {name} = {stripped(expression)};")

    def _read_beside(self, value: Value) -> bool:
        """Whether its only reader is in the same block, so that nothing is computed more often."""
        made = value.op
        return made is not None and all(reader.block is made.block for reader in value.users)

    # ---- values

    def constant(self, op: Operation) -> None:
        """A number, or the name of an array."""
        value, kind = op.attrs["value"], op.result.type
        if isinstance(value, Dim):
            self.names[op.result] = self.dim(value)
        elif isinstance(kind, BufferType):
            array = np.broadcast_to(
                np.asarray(value).astype(kind.dtype.numpy), kind.tensor.static_shape
            )
            self.names[op.result] = self.table(array)
        elif kind == TensorType(INDEX):
            self.names[op.result] = str(int(value))
        else:
            number = np.asarray(value).item() if isinstance(value, np.ndarray) else value
            if spelling.is_small_float(kind.dtype):
                rounded = np.asarray(number).astype(kind.dtype.numpy)
                text = spelling.float_bits(float(rounded))
            else:
                text = spelling.literal(number, kind.dtype)
            self.names[op.result] = constant(text, _element(kind.dtype, op))

    def elementwise(self, op: Operation) -> None:
        """Any operation with a scalar record."""
        record = getattr(op.defn, "scalar", None)
        if not isinstance(record, Scalar):
            raise TargetError(
                underline(op, f"no C is written for {op.name}"),
                location=op.location,
                hint="build an object for the target, or leave the operation out",
            )
        dtype = op.operands[-1].type.dtype
        kind = "isize" if dtype == INDEX else _element(dtype, op)
        spelled = record.llvm.get(dtype.kind)
        if spelled is None:
            raise TargetError(
                underline(op, f"C has no {record.name} of {dtype.code}"), location=op.location
            )
        registers = [f"%{i}" for i in range(len(op.operands))]
        names = {r: self.names[v] for r, v in zip(registers, op.operands, strict=True)}
        ones = "true" if kind == "i1" else "-1"
        wide = "i64" if kind == "isize" else kind
        text = spelled.format(*registers, t=wide, b="i1", m=spelling.suffix(wide, 0), ones=ones)
        try:
            if kind == "isize" and (plain := _index_arithmetic(record, list(names.values()))):
                self.define(op.result, plain)
                return
            expression, _ = self.translator.expression(_completed(text), names)
        except TargetError as error:
            raise TargetError(
                underline(op, f"{error.message}, which {op.name} of {dtype.code} needs"),
                location=op.location,
                hint="cast to float32, or build an object",
            ) from None
        if record.result == "same" and dtype.is_unsigned:
            expression = f"({register(op.result.type)}){expression}"
        elif record.result == "same" and spelling.is_small_float(dtype):
            expression = self.rounded(expression, dtype)
        self.define(op.result, expression)

    def rounded(self, expression: str, dtype: DType) -> str:
        """A ``float`` as the nearest number of a dtype of 16 bits, which is kept as ``float``."""
        return self.convert("from", self.convert("to", expression, dtype), dtype)

    def convert(self, how: str, expression: str, dtype: DType) -> str:
        """A float of 16 bits from what is in memory, or the other way."""
        name = f"tapec.{how}.{dtype.code}"
        self.translator.call(name, "float" if how == "from" else "i16")
        return f"tapec_{function_name(name)}({stripped(expression)})"

    def cast(self, op: Operation) -> None:
        """A conversion between dtypes."""
        (value,) = op.operands
        source_type, target = value.type.dtype, op.result.type.dtype
        given = self.names[value]
        if target.is_bool:
            self.define(op.result, f"({given} != 0)")
        elif source_type.is_floating and not target.is_floating:
            of, kind = _element(source_type, op), _element(target, op)
            word = "fptoui" if target.is_unsigned else "fptosi"
            text = f"call {kind} @llvm.{word}.sat.{kind}.{spelling.suffix(of, 0)}({of} %0)"
            expression, _ = self.translator.expression(text, {"%0": given})
            self.define(
                op.result,
                f"({register(op.result.type)}){expression}" if target.is_unsigned else expression,
            )
        elif spelling.is_small_float(target):
            how = "double_to" if source_type.code == "f64" else "to"
            single = given if source_type.is_floating else f"(float){given}"
            bits = self.convert(how, single, target)
            self.define(op.result, self.convert("from", bits, target))
        else:
            _element(source_type, op), _element(target, op)
            self.define(op.result, f"({register(op.result.type)}){given}")

    def bitcast(self, op: Operation) -> None:
        """The same bits as another dtype."""
        (value,) = op.operands
        given, wanted = value.type.dtype, op.result.type.dtype
        expression = self.names[value]
        if spelling.is_small_float(given):
            expression = self.convert("to", expression, given)
        old, new = (
            "i16" if spelling.is_small_float(dtype) else _element(dtype, op)
            for dtype in (given, wanted)
        )
        if old != new:
            expression = self.translator.bits(old, f"({c_type(old)}){expression}", new)
        if spelling.is_small_float(wanted):
            expression = self.convert("from", expression, wanted)
        self.define(op.result, f"({register(op.result.type)}){expression}")

    # ---- indices

    def dim(self, value: DimLike) -> str:
        """A size as an expression."""
        if isinstance(value, int):
            return str(value)
        parts = []
        for monomial, factor in value.terms:
            atoms = [self._atom(atom) for atom in monomial]
            parts.append(" * ".join([*atoms, *([str(factor)] if factor != 1 or not atoms else [])]))
        return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Symbol):
            return atom.name
        a, b = self.dim(atom.numerator), self.dim(atom.denominator)
        # Sizes are not negative.
        return f"(({a}) {'%' if atom.remainder else '/'} ({b}))"

    def place(self, buffer: Value, indices: Sequence[Value]) -> str:
        """An element of an array."""
        kind = buffer.type
        assert isinstance(kind, BufferType)
        parts = []
        for index, stride in zip(indices, kind.strides, strict=True):
            name, by = self.names[index], self.dim(stride)
            if name == "0" or by == "0":
                continue
            parts.append(name if by == "1" else f"{name} * {by}")
        return f"{self.names[buffer]}[{' + '.join(parts) or '0'}]"

    # ---- memory

    def load(self, op: Operation) -> None:
        """An element."""
        buffer, *indices = op.operands
        if op.attrs.get("lanes"):
            raise TargetError(underline(op, "no C is written for vectors"), location=op.location)
        dtype = buffer.type.dtype
        _element(dtype, op)
        place = self.place(buffer, indices)
        if spelling.is_small_float(dtype):
            place = self.convert("from", place, dtype)
        # A store between here and its reader may change it, so it is always a variable.
        self.define(op.result, place, pure=self._uses[op.result] == 0)

    def store(self, op: Operation) -> None:
        """Write an element."""
        value, buffer, *indices = op.operands
        text, dtype = stripped(self.names[value]), buffer.type.dtype
        if spelling.is_small_float(dtype):
            text = f"(uint16_t){self.convert('to', text, dtype)}"
        self.line(f"{self.place(buffer, indices)} = {text};")

    def prefetch(self, op: Operation) -> None:
        """Nothing: it computes nothing, and C has no word for it."""

    def alloc(self, op: Operation) -> None:
        """An array on the stack."""
        kind = op.result.type
        assert isinstance(kind, BufferType)
        name = self.fresh("scratch")
        size = max(int(np.prod(kind.tensor.static_shape)), 1)
        self.names[op.result] = name
        self.line(f"{declarations.c_type(kind.dtype)} {name}[{size}];")

    def view(self, op: Operation) -> None:
        """A part of an array, in bytes from its beginning."""
        base, kind = op.operands[0], op.result.type
        assert isinstance(kind, BufferType)
        offset = self.dim(op.attrs.get("offset", 0))
        if len(op.operands) > 1:
            step = f"{self.names[op.operands[1]]} * {self.dim(op.attrs['stride'])}"
            offset = step if offset == "0" else f"{offset} + {step}"
        name = self.fresh("part")
        self.names[op.result] = name
        of = declarations.c_type(kind.dtype)
        self.line(f"{of} *const {name} = ({of} *)((char *){self.names[base]} + {offset});")

    # ---- control

    def for_op(self, op: Operation) -> None:
        """A loop; what it carries are variables."""
        low, high, *init = op.operands
        body = op.regions[0].block
        carried = []
        for value, result in zip(init, op.results, strict=True):
            name = self.fresh("s")
            self.line(f"{register(value.type)} {name} = {stripped(self.names[value])};")
            carried.append(name)
            self.names[result] = name
        i, step = self.fresh("i"), op.attrs.get("step", 1)
        self.names[body.args[0]] = i
        self.names.update(zip(body.args[1:], carried, strict=True))
        following = f"{i}++" if step == 1 else f"{i} += {step}"
        self.line(
            f"for ({_INDEX} {i} = {self.names[low]}; {i} < {self.names[high]}; {following}) {{"
        )
        with self.nested():
            results = self.block(body)
            self._assign(carried, results)
        self.line("}")

    def _assign(self, names: Sequence[str], values: Sequence[Value]) -> None:
        """Give variables their next values, all read before one is written."""
        pairs = [
            (name, self.names[value], value)
            for name, value in zip(names, values, strict=True)
            if name != self.names[value]
        ]
        if len(pairs) > 1:
            for k, (name, text, value) in enumerate(pairs):
                following = self.fresh("n")
                self.line(f"const {register(value.type)} {following} = {stripped(text)};")
                pairs[k] = (name, following, value)
        for name, text, _ in pairs:
            self.line(f"{name} = {stripped(text)};")

    def while_op(self, op: Operation) -> None:
        """A loop that its condition may end; its result is where."""
        low, high = op.operands
        condition, body = (region.block for region in op.regions)
        i, counted = self.fresh("i"), (op.result, condition.args[0], body.args[0])
        self.names.update(dict.fromkeys(counted, i))
        # No number that fits every compiler's index stands for no bound.
        bound = self.names[high]
        within = "" if bound == str(ENDLESS_TURNS) else f"{i} < {bound}"
        if within or any(self._uses[value] for value in counted):
            self.line(f"{_INDEX} {i} = {self.names[low]};")
            self.line(f"for (; {within}; {i}++) {{")
        else:
            self.line("for (;;) {")
        with self.nested():
            (holds,) = self.block(condition)
            self.line(f"if (!{self.names[holds]}) break;")
            self.block(body)
        self.line("}")

    def if_op(self, op: Operation) -> None:
        """A branch; its results are variables."""
        results = [self.fresh("b") for _ in op.results]
        for name, value in zip(results, op.results, strict=True):
            self.line(f"{register(value.type)} {name};")
            self.names[value] = name
        self.line(f"if ({stripped(self.names[op.operands[0]])}) {{")
        for number, region in enumerate(op.regions):
            if number:
                self.line("} else {")
            with self.nested():
                for name, value in zip(results, self.block(region.block), strict=True):
                    self.line(f"{name} = {stripped(self.names[value])};")
        self.line("}")


def c_identifier(name: str) -> str:
    """What C calls a kernel."""
    return re.sub(r"\W", "_", name)


def register(type: Type) -> str:
    """The C type of a value: truth values are ints, floats of 16 bits wider, indices as wide as addresses."""
    dtype = type.dtype
    if dtype == INDEX:
        return _INDEX
    if spelling.is_small_float(dtype):
        return "float"
    return "int" if dtype.is_bool else declarations.c_type(dtype)


def _element(dtype: DType, op: Operation) -> str:
    """LLVM's name of a dtype that C has, too.

    Raises:
        TargetError: C99 has no such numbers.
    """
    if spelling.is_small_float(dtype):
        return "float"
    if dtype.is_complex:
        raise TargetError(
            underline(op, f"C99 has no {dtype.code}"),
            location=op.location,
            hint="cast to float32, or build an object",
        )
    return "i64" if dtype == INDEX else spelling.element(dtype)


def _index_arithmetic(record: Scalar, names: Sequence[str]) -> str | None:
    """Sums and products of indices, plainly: they do not overflow."""
    symbol = {"add": "+", "sub": "-", "mul": "*"}.get(record.name)
    return None if symbol is None else f"({names[0]} {symbol} {names[1]})"


def _completed(text: str) -> str:
    """An instruction without what C has not: fused operations are two, others are functions of ours."""
    for name in ("floor", "ceil", "roundeven", "sqrt"):
        text = text.replace(f"@llvm.{name}.", f"@tapec.lacking.{name}.")
    return text.replace("@llvm.fma.", "@llvm.fmuladd.")


def _is_atom(expression: str) -> bool:
    return (
        expression.isidentifier() or expression.lstrip("-").replace(".", "").rstrip("f").isdigit()
    )


def _roots(op: Operation) -> list[Value]:
    """The arguments of a function that an operation writes to, through views as well."""
    found = []
    for value in op.defn.written(op) if isinstance(op.defn, loop.LoopOp) else ():
        while value.op is not None and isinstance(value.op.defn, loop.View):
            value = value.op.operands[0]
        found.append(value)
    return found


_RULES: Mapping[type[Op], Callable[[CKernel, Operation], None]] = {
    source.Constant: CKernel.constant,
    compare.Cast: CKernel.cast,
    bits.Bitcast: CKernel.bitcast,
    loop.For: CKernel.for_op,
    loop.While: CKernel.while_op,
    loop.If: CKernel.if_op,
    loop.Load: CKernel.load,
    loop.Store: CKernel.store,
    loop.Alloc: CKernel.alloc,
    loop.Prefetch: CKernel.prefetch,
    loop.View: CKernel.view,
    loop.Launch: lambda k, op: k.launch(op),
}
