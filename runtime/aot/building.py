"""All files of a model for a target: objects, libraries, header, state, and a module for Python."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tapec.ir.errors import TargetError
from tapec.ir.lazy import lazy
from tapec.runtime.aot.archive import archive
from tapec.runtime.aot.c_source import CSource
from tapec.runtime.aot.elf import Symbols, symbols
from tapec.runtime.aot.header import Header
from tapec.runtime.aot.interface import Model
from tapec.runtime.aot.objects import Emitted, emit
from tapec.runtime.aot.python_module import python_module
from tapec.runtime.aot.selftest import Selftest, Vectors
from tapec.runtime.aot.stack import deepest
from tapec.runtime.aot.targets import EDGE_TARGETS, EdgeTarget
from tapec.runtime.aot.text import ObjectWriter
from tapec.runtime.cpu.machine_code.shared_object import shared_object

#: What can be made, and what it is.
FORMS: Mapping[str, str] = {
    "obj": "NAME.o, an object to link",
    "header": "NAME.h, for C and C++",
    "c": "NAME.c and NAME.h, the model as C99, for any compiler",
    "lib": "libNAME.a, the object as a static library",
    "so": "libNAME.so, a shared library, and NAME.py, which calls it from Python with NumPy alone",
    "bin": "NAME.bin, the state before the first call, as it lies in memory",
    "safetensors": "NAME.safetensors, the same with names, for programs on a host",
    "asm": "NAME.s, the object as assembly",
    "ptx": "NAME.ptx, a CUDA device's assembly, for cuda-sm_80 and the like",
}
#: Those for which LLVM makes code.
_CODE = frozenset({"obj", "lib", "so", "asm"})
#: Functions of the compiler's own library: arithmetic that a processor has no instructions for.
_HELPERS = (
    "__aeabi_[fdliu]*", "__gnu_[fhd]2*", "__*[sdth]f[23]", "__*[sdt]i[234]", "__float*",
    "__fix*", "__extend*", "__trunc*", "__gedf2", "__gtsf2", "__unordsf2", "__riscv_save_*",
    "__riscv_restore_*", "__divmod*", "__udivmod*", "__mul*", "__tablejump*",
    "__do_copy_data", "__do_clear_bss", "__mspabi_*",
)  # fmt: skip
#: The shared libraries that are linked here, without a linker, by the first part of the triple.
_LINKED = ("x86_64", "aarch64")


@dataclass(frozen=True)
class Options:
    """How a model is built.

    Attributes:
        forms: of `FORMS`.
        optimize: ``speed`` or ``size``. On machines with a system, ``speed`` gives the JIT's bits.
        checked: functions look at what they are called with.
        embed: the object holds the state before the first call.
    """

    forms: Collection[str] = ("obj", "header")
    optimize: str = "speed"
    checked: bool = False
    embed: bool = True
    #: What each function gives, for a test of it.
    vectors: Sequence[Vectors] | None = None


@dataclass
class Build:
    """One model for one target."""

    model: Model
    target: EdgeTarget
    options: Options = field(default_factory=Options)

    @lazy
    def goal(self) -> str:
        """As for `tapec.runtime.aot.objects.emit`."""
        wanted = self.options.optimize
        return "jit" if wanted == "speed" and self.target.hosted else wanted

    @lazy
    def selftest(self) -> Selftest | None:
        """The test of the model, if there are vectors."""
        vectors = self.options.vectors
        if vectors is None:
            return None
        return Selftest(self.model, vectors, checked=self.options.checked)

    @lazy
    def text(self) -> str:
        """LLVM's text."""
        writer = ObjectWriter(
            self.model, self.target, optimize=self.goal, checked=self.options.checked
        )
        return writer.write(embed=self.options.embed, selftest=self.selftest)

    @lazy
    def object(self) -> Emitted:
        """The object."""
        return emit(self.text, self.target, name=self.model.name, optimize=self.goal)

    @lazy
    def symbols(self) -> Symbols:
        """What it defines and lacks.

        Raises:
            TargetError: it needs more than arithmetic of the compiler's library.
        """
        found = symbols(self.object.data, self.target.name)
        strange = [n for n in found.missing if not any(fnmatch.fnmatchcase(n, p) for p in _HELPERS)]
        if strange:
            raise TargetError(
                f"{self.model.name} on {self.target.name} would call {', '.join(strange)}, "
                "which is not there",
                hint="this is a fault of tapec's: an operation has no expansion for the target"
                if self.target.name in EDGE_TARGETS
                else "build it with emit='c' and let the machine's own C compiler do it",
            )
        return found

    @lazy
    def stack(self) -> dict[str, int]:
        """Bytes of stack of a call, by function."""
        depths = deepest(self.object.text, self.object.frames, self.target)
        return {e.name: depths[f"{self.model.name}_{e.name}"] for e in self.model.entries}

    @property
    def has_code(self) -> bool:
        """Whether LLVM is asked for any."""
        return bool(_CODE & set(self.options.forms))

    def header(self) -> str:
        """The C header."""
        header = Header(
            self.model,
            self.target,
            checked=self.options.checked,
            embed=self.options.embed,
            stack=self.stack if self.has_code else {},
            helpers=self.symbols.missing if self.has_code else (),
            selftest_bytes=None if self.selftest is None else self.selftest.bytes,
        )
        return header.text()

    def files(self) -> dict[str, bytes]:
        """Contents by file name.

        Raises:
            TargetError: the target cannot do something.
        """
        name, found = self.model.name, {}
        forms = self.options.forms
        if self.has_code:
            _ = self.symbols  # refuses what cannot be linked
        if "c" in forms:
            source = CSource(self.model, checked=self.options.checked, embed=self.options.embed)
            test = "" if self.selftest is None else "\n" + self.selftest.c()
            found[f"{name}.c"] = (source.text() + test).encode()
            found[f"{name}.h"] = self.header().encode()
        if "obj" in forms:
            found[f"{name}.o"] = self.object.data
        if "header" in forms:
            found[f"{name}.h"] = self.header().encode()
        if "lib" in forms:
            names = [f"{name}_{e.name}" for e in self.model.entries]
            names += [f"{name}_selftest"] * (self.selftest is not None)
            names += [f"{name}_initial"] * bool(self.model.state and self.options.embed)
            found[f"lib{name}.a"] = archive(f"{name}.o", self.object.data, names)
        if "so" in forms:
            found |= self._shared()
        if "bin" in forms:
            found[f"{name}.bin"] = self.model.initial_state()
        if "asm" in forms:
            made = emit(self.text, self.target, name=name, optimize=self.goal, form="assembly")
            found[f"{name}.s"] = made.data
        return found

    def _shared(self) -> dict[str, bytes]:
        if not self.target.triple.startswith(_LINKED) or not self.target.hosted:
            raise TargetError(
                f"no shared library is made for {self.target.name}",
                hint="build the object (emit='obj') and link it with the machine's own tools",
            )
        name = self.model.name
        return {
            f"lib{name}.so": shared_object(self.object.data),
            f"{name}.py": self.python().encode(),
        }

    def python(self) -> str:
        """The module that calls the shared library."""
        options = self.options
        return python_module(self.model, checked=options.checked, embed=options.embed)
