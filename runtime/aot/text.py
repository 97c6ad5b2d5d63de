"""A model as one LLVM module: the programs of its functions, and the functions that C calls.

Programs are rendered as for the JIT (`tapec.runtime.cpu.text.llvm`), by the same code and, on equal machines, to the
same instructions. Kernels that two functions have in common are written once.
"""

from __future__ import annotations

import re

import numpy as np

from tapec.ir.core import Function, Module, Operation, clone_function
from tapec.ir.errors import TargetError, underline
from tapec.ir.ops import loop
from tapec.ir.ops.foreign import CallForeign, ForeignScalar
from tapec.ir.ops.host import Invoke
from tapec.ir.ops.source import Constant
from tapec.ir.printer import print_module
from tapec.ir.types import F64
from tapec.runtime.aot.entry_point import EntryPointWriter
from tapec.runtime.aot.interface import EntryPoint, Model
from tapec.runtime.aot.missing import complete
from tapec.runtime.aot.selftest import Selftest
from tapec.runtime.aot.targets import EdgeTarget
from tapec.runtime.cpu.text.dialect import Dialect
from tapec.runtime.cpu.text.foreign import code_of
from tapec.runtime.cpu.text.llvm import KernelWriter, ModuleWriter
from tapec.runtime.cpu.text.spelling import bytes_literal

#: A function's definition: what stands before its name, the name, its arguments, what follows.
_DEFINED = re.compile(
    r"^(define [^@]*?) ?@(\S+?|\"[^\"]*\")\(([^)]*)\) ([^{]*)(?=\{)", re.MULTILINE
)
#: Bytes of registers that arguments of these types take there, and all that there are.
_AVR_BYTES = {"i32": 4, "float": 4, "i64": 8, "double": 8}
_AVR_REGISTERS = 18


class ObjectWriter(ModuleWriter):
    """The text of a model for a target."""

    def __init__(self, model: Model, target: EdgeTarget, *, optimize: str, checked: bool) -> None:
        """``optimize`` as for `tapec.runtime.aot.objects.emit`; ``checked``: functions look at their arguments."""
        for entry in model.entries:
            refuse(entry, target)
        refuse_large(model, target)
        super().__init__(merged(model), dialect=_dialect(target, optimize))
        self.model = model
        self.target = target
        self.checked = checked

    def write(self, *, embed: bool = True, selftest: Selftest | None = None) -> str:
        """The whole text; ``embed``: with the state's initial values."""
        for function in self.module.functions.values():
            KernelWriter(self, function).write()
        for entry in self.model.entries:
            EntryPointWriter(self, entry).write()
        if selftest is not None:
            section = self.section(".text", f"{self.model.name}_selftest").lstrip(",")
            self.add_function(selftest.llvm(section, self.target.int_bits))
        text = complete(self.finish(), self.target)
        if self.target.triple.startswith("avr"):
            text = _DEFINED.sub(self._in_registers, text)
        if embed and self.model.state:
            text += self._initial()
        return text + _flags(self.target)

    def _in_registers(self, found: re.Match[str]) -> str:
        """A definition whose arguments need no stack: LLVM looks for those at the wrong place on larger AVRs.

        Raises:
            TargetError: others call it, and will put arguments there.
        """
        head, name, arguments, attributes = found.groups()
        kinds = [argument.split()[0] for argument in arguments.split(", ") if argument]
        if sum(_AVR_BYTES.get(kind, 2) for kind in kinds) <= _AVR_REGISTERS:
            return found[0]
        if "internal" in head:
            return f"{head} @{name}({arguments}) {attributes.replace('#0', '#1')}"
        raise TargetError(
            f"{name} cannot be built for {self.target.name}: its {len(kinds)} arguments do not fit into "
            f"the {_AVR_REGISTERS} bytes of registers that take arguments, 2 for each pointer",
            hint="stack several arrays into one, or build it with emit='c'",
        )

    def _initial(self) -> str:
        """The state before the first call, for flash memory."""
        data = np.frombuffer(self.model.initial_state(), np.uint8)
        name = f"{self.model.name}_initial"
        return (
            f"@{name} = constant [{data.size} x i8] {bytes_literal(data)}"
            f"{self.section('.rodata', name)}, align 8\n"
        )

    def section(self, kind: str, name: str) -> str:
        """What puts a symbol into a section of its own, so that a linker can leave it out."""
        return "" if self.target.name.startswith("wasm") else f', section "{kind}.{name}"'

    def table(self) -> str:
        """Nothing: there is nobody outside."""
        return ""

    def entry_name(self, function: Function) -> str:
        """The LLVM name of a function's program."""
        return f'@"tapec.run.{function.name}"'


def _dialect(target: EdgeTarget, optimize: str) -> Dialect:
    """How functions are written; for the JIT's bits, as for the JIT."""
    # Without a red zone: what a function takes is then in its frame, and an interrupt may use the same stack.
    words = ['nounwind noredzone "no-builtins" "no-trapping-math"="true" "warn-stack-size"="0"']
    if optimize == "size":
        words.append("optsize minsize")
    if target.vectors.bytes >= 64:
        words.append('"prefer-vector-width"="512"')
    inlining = "noinline" if optimize == "jit" else ""
    # Vectors may lie askew, but those that cross a line of the cache cost more; small machines have none.
    alignment = max(target.vectors.bytes, 8) if optimize == "jit" else 8
    copies = 1 if optimize == "size" else 64
    scales = target.vectors.bytes >= 64
    return Dialect(target.bits, " ".join(words), alignment, copies, scales, inlining)


def _flags(target: EdgeTarget) -> str:
    """What RISC-V wants to know of its calls."""
    if not target.abi:
        return ""
    return f'!llvm.module.flags = !{{!0}}\n!0 = !{{i32 1, !"target-abi", !"{target.abi}"}}\n'


def merged(model: Model) -> Module:
    """All functions of a model in one module, each kernel of them once."""
    known: dict[str, str] = {}
    functions: list[Function] = []
    for entry in model.entries:
        names: dict[str, str] = {}
        for function in entry.module.functions.values():
            if function.kind != "kernel":
                continue
            copy = clone_function(function)
            copy.name = "kernel"
            text = print_module(Module([copy]), full_constants=True)
            if text not in known:
                known[text] = copy.name = f"{entry.name}.{function.name}"
                functions.append(copy)
            names[function.name] = known[text]
        main = clone_function(entry.module.entry)
        main.name = entry.name
        for op in main.walk():
            if isinstance(op.defn, loop.Launch):
                op.attrs["kernel"] = names[op.attrs["kernel"]]
        functions.append(main)
    return Module(functions)


def refuse_large(model: Model, target: EdgeTarget) -> None:
    """Hold a model to arrays that a machine can count the bytes of.

    Raises:
        TargetError: one is larger.
    """
    most = 2 ** (target.bits - 1) - 1
    arrays = [("the state", model.state_bytes), ("the arena", model.arena_bytes)]
    for entry in model.entries:
        parameters = (*entry.inputs, *entry.outputs)
        arrays += [(f"{p.name} of {entry.name}", p.most * p.item.bytes) for p in parameters]
        constants = (slot.array for slot in entry.slots if slot.array is not None)
        arrays += [(f"a constant of {entry.name}", array.nbytes) for array in constants]
    for what, size in arrays:
        if size > most:
            raise TargetError(
                f"{model.name} cannot be built for {target.name}: {what} takes {size:,} bytes, "
                f"and its addresses have {target.bits} bits",
                hint=f"no array there may have more than {most:,} bytes",
            )


def _computes_double(op: Operation) -> bool:
    moves = isinstance(op.defn, loop.LoopOp | Constant)
    return not moves and any(v.type.dtype == F64 for v in (*op.operands, *op.results))


def _foreign(op: Operation, target: EdgeTarget) -> tuple[str, str]:
    """The name of a user's kernel, and why a target cannot have its code; nothing if it can."""
    name, code = code_of(op)
    if not target.triple:
        return name, "whose code is LLVM's"
    if code.foreign:
        calls = ", ".join(symbol.name for symbol in code.foreign)
        return name, f"whose code needs what is in this process alone ({calls})"
    if target.bits != 64:
        return name, "whose code counts in 64 bits"
    return name, ""


def refuse(entry: EntryPoint, target: EdgeTarget) -> None:
    """Hold a program to what a machine can run without anybody outside.

    Raises:
        TargetError: it calls Python, or code that is in this process alone, or has numbers that are not there.
    """
    for function in entry.module.functions.values():
        for op in function.walk():
            if isinstance(op.defn, Invoke):
                why = f"{op.name} calls Python, which is not there"
                hint = "take it out of the function"
            elif isinstance(op.defn, CallForeign | ForeignScalar):
                name, reason = _foreign(op, target)
                if not reason:
                    continue
                why, hint = f"{name} is a custom op, {reason}", "write it with tapec's operations"
            elif not target.double and _computes_double(op):
                why = f"{op.name} computes with float64, which its compilers have not"
                hint = "cast to float32"
            else:
                continue
            raise TargetError(
                underline(op, f"{entry.name} cannot be built for {target.name}: {why}"),
                location=op.location,
                hint=hint,
            )
