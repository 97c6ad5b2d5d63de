"""A loop-level module as Python source: a function for each kernel, and one, the entry, that calls them.

Buffers are contiguous arrays of their shape; one element without a shape is an array of shape (1,). Sizes that are
open follow the buffers as numbers. Vectors have no text: a module for this target is scheduled without.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapec.ir.core import Block, Function, Module, Operation, Value
from tapec.ir.dims import Dim, DimLike
from tapec.ir.errors import TargetError, underline
from tapec.ir.location import Location
from tapec.ir.op import Op
from tapec.ir.ops import bits, compare, loop, source
from tapec.ir.ops.host import Invoke
from tapec.ir.scalar import Scalar
from tapec.ir.types import BufferType, VectorType
from tapec.runtime.python_text import primitives, spelling
from tapec.runtime.symbols import bind_symbols, symbols_of

#: What the text may call, besides NumPy.
NAMES = frozenset(
    n for n, f in vars(primitives).items() if callable(f) and not n.startswith("_") and n != "Any"
)
_TAKEN = NAMES | {"np", "njit", "min", "max", "int", "range", "abs", "invoke"}
#: Longest expression that is put where it is read, once or, of indices, any number of times.
_LONGEST, _LONGEST_INDEX = 60, 24
#: Elements of a constant array that the text shows.
_SHOWN = 16


@dataclass(frozen=True)
class PythonText:
    """A module's text.

    Attributes:
        kernels: the functions that do the work, by name.
        interpreted: names of those among them that call the host, which only Python can.
        entry: the function that calls them.
        tables: constant arrays that these read as global names.
        imports: what they call, of `tapec.runtime.python_text.primitives`.
    """

    kernels: Mapping[str, str]
    interpreted: frozenset[str]
    entry: str
    tables: Mapping[str, Any] = field(repr=False)
    imports: tuple[str, ...]

    def source(self, decorator: str = "") -> str:
        """The whole, with a line above each kernel that can be compiled."""
        above = f"{decorator}\n" if decorator else ""
        tables = [f"{name} = {_shown(array)}" for name, array in self.tables.items()]
        functions = [
            text if name in self.interpreted else above + text
            for name, text in self.kernels.items()
        ]
        functions.append(self.entry)
        return "\n\n".join(["\n".join(tables)] * bool(tables) + functions)


def write_python(module: Module) -> PythonText:
    """Write a module.

    Raises:
        TargetError: it has what Python text cannot say; the message names it.
    """
    tables: dict[str, Any] = {}
    functions = {
        f.name: FunctionWriter(module, f, tables).write() for f in module.functions.values()
    }
    entry = functions.pop(module.entry.name)
    lines = [line for text in (*functions.values(), entry) for line in text.splitlines()]
    code = [line for line in lines if not line.lstrip().startswith(("#", '"'))]
    words = set(re.findall(r"[A-Za-z_]\w*", "\n".join(code)))
    imports = tuple(sorted(words & NAMES))
    calling = {
        identifier(name)
        for name in functions
        if any(isinstance(op.defn, Invoke) for op in module.functions[name].walk())
    }
    kernels = {identifier(name): text for name, text in functions.items()}
    return PythonText(kernels, frozenset(calling), entry, tables, imports)


def identifier(name: str) -> str:
    """A name of Python's that resembles another."""
    plain = re.sub(r"\W+", "_", name).strip("_") or "f"
    return (
        f"{plain}_" if keyword.iskeyword(plain) or plain in _TAKEN or plain[0].isdigit() else plain
    )


def _shown(array: Any) -> str:
    """A constant array; a long one is given to the text by who runs it."""
    if array.size > _SHOWN:
        return f"...  # {array.dtype}{list(array.shape)}"
    numbers = ", ".join(
        spelling.real(float(x)) if array.dtype.kind == "f" else str(x) for x in array.ravel()
    )
    return f"np.array([{numbers}], np.{array.dtype}).reshape({array.shape})"


class FunctionWriter:
    """The text of one function."""

    def __init__(self, module: Module, function: Function, tables: dict[str, Any]) -> None:
        """Give every argument and symbol its name."""
        self.module = module
        self.function = function
        self.tables = tables
        self.lines: list[str] = []
        self.depth = 1
        self.names: dict[Value, str] = {}
        self._taken = set(_TAKEN) | set(tables)
        self._counts: dict[str, int] = {}
        self._place: Location | None = None
        self._shown: tuple[str, int] | None = None
        for i, arg in enumerate(function.args):
            self.names[arg] = self.fresh(identifier(arg.name) if arg.name else f"x{i}")
        self.symbols = {name: self.fresh(identifier(name)) for name in symbols_of(function)}

    def write(self) -> str:
        """All of it."""
        self.block(self.function.block)
        names = [*(self.names[a] for a in self.function.args), *self.symbols.values()]
        head = f"def {identifier(self.function.name)}({', '.join(names)}):"
        kinds = ", ".join(str(a.type) for a in self.function.args)
        return "\n".join([head, f'    """{kinds}"""', *self.lines, ""])

    # ---- lines and names

    def fresh(self, stem: str) -> str:
        """A name that is new in this function."""
        name = stem
        while name in self._taken:
            self._counts[stem] = count = self._counts.get(stem, 0) + 1
            name = f"{stem.rstrip('_')}_{count}"
        self._taken.add(name)
        return name

    def numbered(self, stem: str) -> str:
        """A new name that ends in a number."""
        self._taken.add(stem)
        return self.fresh(stem)

    def line(self, text: str) -> None:
        """Write a statement, below the user's line if that is another one than before."""
        place = self._place
        if place is not None and (place.file, place.line) != self._shown:
            self._shown = place.file, place.line
            self._write(f"# {place.file}:{place.line}  {place.text}".rstrip())
        self._write(text)

    def _write(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def assign(self, value: Value, text: str, stem: str) -> None:
        """Write an expression into a variable."""
        self.names[value] = name = self.numbered(stem)
        self.line(f"{name} = {_bare(text)}")

    def assignments(self, names: Sequence[str], texts: Sequence[str]) -> None:
        """Give variables new values, all at once: one by one where no later one reads an earlier."""
        changed = [(n, _bare(t)) for n, t in zip(names, texts, strict=True) if n != _bare(t)]
        written: set[str] = set()
        clash = False
        for name, text in changed:
            clash |= not written.isdisjoint(re.findall(r"\w+", text))
            written.add(name)
        if clash:
            left, right = (", ".join(column) for column in zip(*changed, strict=True))
            self.line(f"{left} = {right}")
            return
        for name, text in changed:
            self.line(f"{name} = {text}")

    def pure(self, op: Operation, text: str) -> None:
        """The expression of a value: kept until it is read, if that is once and near, else a variable."""
        value = op.result
        users = list(value.users.items())
        once = len(users) == 1 and users[0][1] == 1 and users[0][0].block is op.block
        if not users:
            self.names[value] = text
        elif once and len(text) <= _LONGEST:
            self.names[value] = text
        elif _is_index(value) and len(text) <= _LONGEST_INDEX and "," not in text:
            self.names[value] = text
        else:
            self.assign(value, text, op.name)

    def inside(self, header: str, write: Callable[[], None]) -> None:
        """Write a statement with a body."""
        self.line(header)
        self.depth += 1
        start = len(self.lines)
        write()
        if len(self.lines) == start:
            self._write("pass")
        self.depth -= 1

    def block(self, block: Block) -> list[str]:
        """Write a block; return what its terminator takes."""
        for op in block.ops:
            if op.defn.terminator:
                return [self.names[v] for v in op.operands]
            if any(isinstance(v.type, VectorType) for v in (*op.operands, *op.results)):
                raise TargetError(underline(op, "there is no Python text for vectors"))
            self._place = op.location or self._place
            getattr(self, RULES.get(type(op.defn), "elementwise"))(op)
        raise TargetError("a block ends without a terminator")

    def size(self, dim: DimLike) -> str:
        """A size as an expression."""
        return spelling.size(dim, self.symbols)

    # ---- operations

    def constant(self, op: Operation) -> None:
        """A number, a size, or an array."""
        value, result = op.attrs["value"], op.result
        if isinstance(value, Dim):
            self.names[result] = _wrapped(self.size(value))
        elif isinstance(result.type, BufferType):
            name = f"table_{len(self.tables)}"
            shape = result.type.tensor.static_shape
            array = np.broadcast_to(np.asarray(value).astype(result.type.dtype.numpy), shape)
            self.tables[name] = stored(np.ascontiguousarray(array))
            self.names[result] = name
        else:
            item = np.asarray(value).item() if isinstance(value, np.ndarray) else value
            self.names[result] = spelling.number(item, result.type.dtype)

    def elementwise(self, op: Operation) -> None:
        """Any operation with a scalar record."""
        record = getattr(op.defn, "scalar", None)
        if not isinstance(record, Scalar):
            raise TargetError(underline(op, f"there is no Python text for {op.name}"))
        operands = [self.names[v] for v in op.operands]
        self.pure(op, spelling.apply(record, operands, op.operands[-1].type.dtype))

    def cast(self, op: Operation) -> None:
        """A conversion."""
        value = op.operands[0]
        text = spelling.cast(self.names[value], value.type.dtype, op.result.type.dtype)
        self.pure(op, text)

    def bitcast(self, op: Operation) -> None:
        """The same bits as another dtype."""
        value = op.operands[0]
        text = spelling.bitcast(self.names[value], value.type.dtype, op.result.type.dtype)
        self.pure(op, text)

    def place(self, buffer: Value, indices: Sequence[Value]) -> str:
        """An element."""
        found = ", ".join(_bare(self.names[i]) for i in indices) or "0"
        return f"{self.names[buffer]}[{found}]"

    def load(self, op: Operation) -> None:
        """An element, read now."""
        buffer, *indices = op.operands
        text = self.place(buffer, indices)
        if spelling.is_small_float(buffer.type.dtype):
            text = f"{buffer.type.dtype.code}_value({text})"
        self.assign(op.result, text, self.names[buffer])

    def store(self, op: Operation) -> None:
        """Write an element."""
        value, buffer, *indices = op.operands
        text = _bare(self.names[value])
        if spelling.is_small_float(buffer.type.dtype):
            text = f"{buffer.type.dtype.code}_bits({text})"
        self.line(f"{self.place(buffer, indices)} = {text}")

    def prefetch(self, op: Operation) -> None:
        """Nothing: it computes nothing, and Python has no word for it."""

    def alloc(self, op: Operation) -> None:
        """Scratch."""
        kind = _buffer(op.result)
        self.assign(op.result, f"np.empty({self.shape(kind)}, {_dtype(kind)})", "scratch")

    def view(self, op: Operation) -> None:
        """A part of another buffer."""
        kind = _buffer(op.result)
        offset = self.size(op.attrs.get("offset", 0))
        if len(op.operands) > 1:
            turns = f"{self.names[op.operands[1]]} * {_wrapped(self.size(op.attrs['stride']))}"
            offset = turns if offset == "0" else f"{offset} + {turns}"
        arguments = (
            self.names[op.operands[0]],
            offset,
            self.size(kind.tensor.bytes),
            _dtype(kind),
            self.shape(kind),
        )
        self.assign(op.result, f"part({', '.join(arguments)})", "part")

    def shape(self, kind: BufferType) -> str:
        """The shape of the array that is a buffer."""
        sizes = [self.size(d) for d in kind.shape] or ["1"]
        return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"

    def for_op(self, op: Operation) -> None:
        """A counted loop; carried values are variables."""
        low, high, *init = op.operands
        block, step = op.regions[0].block, op.attrs.get("step", 1)
        index, *carried = block.args
        names = [self.numbered("acc") for _ in init]
        self.assignments(names, [self.names[v] for v in init])
        self.names[index] = i = self.fresh("ijklmn"[min(self.depth - 1, 5)])
        self.names |= dict(zip(carried, names, strict=True))
        bounds = [_bare(self.names[v]) for v in (low, high)]
        if step != 1:
            bounds.append(str(step))
        elif bounds[0] == "0":
            del bounds[0]

        def body() -> None:
            yielded = self.block(block)
            self.assignments(names, yielded)

        self.inside(f"for {i} in range({', '.join(bounds)}):", body)
        self.names |= dict(zip(op.results, names, strict=True))

    def while_op(self, op: Operation) -> None:
        """A counted loop that may end early; its variable is the result."""
        low, high = op.operands
        asked, done = (region.block for region in op.regions)
        name = self.fresh("n")
        for value in (asked.args[0], done.args[0], op.result):
            self.names[value] = name
        self.line(f"{name} = {self.names[low]}")

        def body() -> None:
            (holds,) = self.block(asked)
            self.inside(f"if not {holds}:", lambda: self._write("break"))
            self.block(done)
            self.line(f"{name} += 1")

        self.inside(f"while {name} < {self.names[high]}:", body)

    def if_op(self, op: Operation) -> None:
        """Two ways; results are variables that both write."""
        names = [self.numbered("chosen") for _ in op.results]

        def way(block: Block) -> Callable[[], None]:
            def write() -> None:
                yielded = self.block(block)
                self.assignments(names, yielded)

            return write

        then, otherwise = (region.block for region in op.regions)
        self.inside(f"if {_bare(self.names[op.operands[0]])}:", way(then))
        if names or len(otherwise.ops) > 1:
            self.inside("else:", way(otherwise))
        self.names |= dict(zip(op.results, names, strict=True))

    def launch(self, op: Operation) -> None:
        """Call a kernel; open sizes follow the buffers."""
        kernel = self.module.functions[op.attrs["kernel"]]
        known = bind_symbols(kernel, [v.type for v in op.operands], self.symbols)
        arguments = [self.names[v] for v in op.operands] + [self.size(dim) for dim in known]
        self.line(f"{identifier(kernel.name)}({', '.join(arguments)})")

    def invoke(self, op: Operation) -> None:
        """Call a function of the host's."""
        inputs = op.attrs["inputs"]
        address, token, *given = op.operands[:inputs]
        following, *made = op.operands[inputs:]
        memory = [*given, *made]
        dims = [d for v in memory for d in _buffer(v).shape]
        arrays = ", ".join(self.names[v] for v in memory)
        sizes = ", ".join(self.size(d) for d in dims)
        first = ", ".join(self.names[v] for v in (address, token, following))
        self.line(f"invoke({first}, [{arrays}], [{sizes}])")


def stored(array: Any) -> Any:
    """An array as buffers are: with an axis at least, 16-bit floats as their bits."""
    whole = array.reshape(1) if array.ndim == 0 else array
    small = array.dtype.itemsize == 2 and array.dtype.kind not in "iu"
    return whole.view(np.uint16) if small else whole


def _buffer(value: Value) -> BufferType:
    assert isinstance(value.type, BufferType)
    return value.type


def _dtype(kind: BufferType) -> str:
    name = spelling.memory(kind.dtype)
    return "np.bool_" if name == "bool" else f"np.{name}"


def _is_index(value: Value) -> bool:
    return value.type.dtype.kind == "index"


def _wrapped(text: str) -> str:
    return f"({text})" if " " in text else text


def _bare(text: str) -> str:
    """An expression without parentheses around the whole."""
    return text[1:-1] if spelling.is_wrapped(text) else text


#: Which method writes an operation; `elementwise` writes all others.
RULES: Mapping[type[Op], str] = {
    source.Constant: "constant",
    compare.Cast: "cast",
    bits.Bitcast: "bitcast",
    loop.For: "for_op",
    loop.While: "while_op",
    loop.If: "if_op",
    loop.Load: "load",
    loop.Store: "store",
    loop.Prefetch: "prefetch",
    loop.Alloc: "alloc",
    loop.View: "view",
    loop.Launch: "launch",
    Invoke: "invoke",
}
