"""Kernels as PTX and as machine code, made with no driver."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import count
from threading import RLock
from types import SimpleNamespace
from typing import Any

from tapec.ir.errors import TargetError
from tapec.runtime.cuda.text.module_text import Text

_ENTRY = re.compile(r"\.visible \.entry (\w+)\(")
#: What numba.cuda has for exceptions, which these kernels do not raise.
_ENVIRONMENT = re.compile(r"^\.common \.global .*NumbaEnv.*\n", re.MULTILINE)
_HEAD = re.compile(r"(?s).*?\.address_size 64\n")
_LINE = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
_COMMENT = re.compile(r"\s+# .+:\d+")
#: How the memory is declared that a block shares.
_POOL = ".b8 tapec_shared["
_numbers = count()
_pretending = RLock()
#: What a user installs for this target.
REMEDY = "pip install 'tapec[cuda]'"


@dataclass(frozen=True)
class Assembly:
    """A kernel for an architecture, such as ``sm_90``: its name in the code, and the PTX."""

    kernel: str
    entry: str
    ptx: str
    architecture: str

    def cubin(self) -> tuple[bytes, str]:
        """Machine code, and what the assembler said of registers, spills and memory."""
        from cuda.core import Linker, LinkerOptions, ObjectCode  # comes with numba-cuda

        options = LinkerOptions(arch=self.architecture, ptxas_options=["-v"])
        linker = Linker(ObjectCode.from_ptx(self.ptx.encode()), options=options)
        code = linker.link("cubin").code
        return bytes(code), linker.get_info_log()

    def annotated(self, text: Text) -> str:
        """The PTX, with the user's lines as comments where the compiler tells of lines of the text."""
        lines = text.source().splitlines()
        shown: str | None = None
        found = []
        for line in self.ptx.splitlines():
            place = _LINE.match(line)
            if place is None:
                if not line.startswith("\t.file"):
                    found.append(line)
                continue
            number = min(int(place[1]), len(lines))
            said = next((t for t in reversed(lines[:number]) if _COMMENT.match(t)), None)
            if said is not None and said.strip() != shown:
                shown = said.strip()
                found.append(f"\t// {shown[2:]}")
        return "\n".join(found)


class Compiler:
    """Compiles the kernels of a text."""

    def __init__(self, text: Text, architecture: str = "sm_80", prefix: str = "") -> None:
        """For an architecture from ``sm_80`` on; names in the code begin with a prefix.

        Raises:
            TargetError: numba-cuda is not installed, or there is no such architecture.
        """
        self.text = text
        self.prefix = prefix
        self.architecture = architecture
        found = re.fullmatch(r"sm_(\d+)(\d)", architecture)
        if found is None or int(found[1]) < 8:
            raise TargetError(f"there is no CUDA target {architecture!r}", hint="sm_80, sm_90, …")
        self._capability = int(found[1]), int(found[2])
        self._functions = _functions(text)

    def kernel(self, name: str, *, fastmath: bool = False, lines: bool = True) -> Assembly:
        """Compile one kernel; ``lines`` keeps the text's line numbers in the PTX.

        Raises:
            TargetError: numba-cuda is not installed, or does not take it.
        """
        if find_spec("numba_cuda") is None:
            # Numba's own cuda, which is there without it, takes fewer options.
            raise TargetError(
                "PTX is made by numba-cuda, which is not installed",
                hint="pip install 'tapec[cuda]'",
            )
        from numba import cuda  # heavy, and only for this target

        text = self.text.kernels[name]
        function = self._functions[text.name]
        try:
            with _pretended(self._capability), _lines_alone():
                ptx, _ = cuda.compile(
                    function,
                    _signature(text),
                    device=False,
                    abi="numba",
                    cc=self._capability,
                    output="ptx",
                    fastmath=fastmath,
                    lineinfo=lines,
                    launch_bounds=text.threads,
                )
        except Exception as error:
            reason = " ".join(str(error).split())[:600]
            raise TargetError(f"numba.cuda does not take @{name}: {reason}") from error
        entry = _ENTRY.search(ptx)
        assert entry is not None
        plain = _ENVIRONMENT.sub("", ptx).replace(entry[1], f"{self.prefix}{text.name}")
        return Assembly(name, f"{self.prefix}{text.name}", plain, self.architecture)

    def all(self) -> dict[str, Assembly]:
        """Every kernel."""
        return {name: self.kernel(name) for name in self.text.kernels}


def joined(parts: Sequence[Assembly]) -> Assembly:
    """Several kernels as one module of PTX."""
    first = parts[0]
    head = _HEAD.match(first.ptx)
    assert head is not None
    bodies = [_HEAD.sub("", part.ptx, count=1) for part in parts]
    shared = next((line for b in bodies for line in b.splitlines() if _POOL in line), "")
    plain = ["\n".join(line for line in b.splitlines() if _POOL not in line) for b in bodies]
    text = "\n".join([head[0], shared, *plain, ""])
    return Assembly(first.kernel, first.entry, text, first.architecture)


@contextmanager
def _pretended(capability: tuple[int, int]) -> Iterator[None]:
    """Functions that kernels call are compiled for this device, too, whatever there is.

    numba-cuda 0.30 asks the driver for these alone.
    """
    from numba.cuda import dispatcher

    with _pretending:
        saved = dispatcher.get_current_device
        dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
        try:
            yield
        finally:
            dispatcher.get_current_device = saved


@contextmanager
def _lines_alone() -> Iterator[None]:
    """Debugging information tells of lines, not of variables.

    Nothing in PTX with lines alone says where a variable is, and NVVM 13.0 refuses some kernels over what tells it
    ("Symbol name with unsupported characters").
    """
    from numba.cuda import target

    plain = target.CUDADIBuilder

    def tell_nothing(*_: Any, **__: Any) -> None:
        pass

    told = {"mark_variable": tell_nothing, "update_variable": tell_nothing}
    lines_alone: Any = type("LinesAlone", (plain,), told)
    with _pretending:
        target.CUDADIBuilder = lines_alone
        try:
            yield
        finally:
            target.CUDADIBuilder = plain


def _signature(kernel: Any) -> Any:
    """The types of a kernel's parameters: typed addresses, then sizes."""
    from numba import types

    from tapec.runtime.cuda.machine_code.intrinsics import TYPES

    pointers = [types.CPointer(TYPES[code]) for _, code in kernel.pointers]
    return types.void(*pointers, *(TYPES[code] for _, code in kernel.sizes))


def _functions(text: Text) -> Mapping[str, Any]:
    """The functions of a text; those that kernels call are made for devices."""
    try:
        from numba import cuda

        from tapec.runtime.cuda.machine_code.intrinsics import DEVICE
    except ImportError as error:
        message = f"the cuda target needs numba-cuda, which is not installed ({error})"
        raise TargetError(message, hint=REMEDY) from error
    source = text.source()
    file = f"<tapec.cuda.{next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {**DEVICE, "__name__": "tapec.runtime.cuda.kernels"}
    exec(compile(source, file, "exec"), names)
    for name in (*text.functions, *text.parts):
        names[name] = cuda.jit(device=True, forceinline=True)(names[name])
    return names
