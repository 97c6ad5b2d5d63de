"""The joint between programs, passes and the runtime: a module in, an executable out.

The only place that knows all three, besides the command line. What was compiled once is found again on disk by the
text of the program before any pass, so a new process runs neither the passes nor LLVM for it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import tapec
from tapec import config
from tapec.errors import ResourceExhaustedError
from tapec.ir.core import Module, clone_module
from tapec.ir.errors import BudgetError, PassError
from tapec.ir.printer import print_module
from tapec.passes import PIPELINES
from tapec.runtime import (
    TARGETS,
    Cache,
    Executable,
    VectorUnit,
    evaluated,
    find_program,
    forking,
    is_mismatch,
    native_stages,
)
from tapec.runtime import compile_module as compile_loops
from tapec.runtime import load_compiler as load_runtime
from tapec.runtime.shortage import loading
from tapec.runtime.sources import version_of

if TYPE_CHECKING:
    from tapec.passes.observers import Times
    from tapec.passes.pipeline import Observer, Stage

__all__ = [
    "Executable",
    "cache",
    "compile_module",
    "evaluated_module",
    "is_mismatch",
    "load",
    "lowered",
    "native_text",
    "stage_times",
    "timed_module",
    "version",
]

#: Held while something is compiled.
_compiling = RLock()
forking.hold(forking.Order.COMPILING, _compiling.acquire, _compiling.release)


#: The compilers of `tapec.compile`, by target and engine: what the runtime calls each. The first is the usual one.
ENGINES = {
    "cpu": {"llvm": "cpu", "numba": "numba"},
    "cuda": {"device": "cuda", "simulator": "cuda-simulator"},
}


@loading()
def compile_module(
    module: Module, pipeline: str = "default", *, boxed: int | None = None, target: str = "cpu"
) -> Executable:
    """Compile a tensor-level module by one of `PIPELINES`; the module is left as it is.

    Args:
        module: the program as traced.
        pipeline: the passes, of programs for this machine.
        boxed: how many Tensors it will be called with; what follows them may be Variables, too. See
            `tapec.runtime.boxes`.
        target: one of `tapec.runtime.TARGETS`, with the number of a device behind it (``cuda:1``). Only what is made
            for ``cpu`` is kept on disk.

    Raises:
        TargetError: an operation has no code for the target.
        MemoryError: there is no room for a library of a compiler, say.
    """
    if target != "cpu":
        target, _, number = target.partition(":")
        loops = lowered_for(module, target)
        with _compiling:
            if not number:
                return compile_loops(loops, target=target)
            return compile_loops(loops, target=target, device=int(number))
    kept, threads = cache(), config.threads()
    observers = _observers()
    debug, perf = config.debug_folder(), config.perf()
    options: dict[str, Any] = {"boxed": boxed} if debug is None else {"debug": debug}
    if perf is not None and debug is None:
        options["perf"] = perf
    with _compiling:
        key = None
        if kept is not None and not observers and debug is None and perf is None:
            text = print_module(module, full_constants=True)
            key = "\n".join([text, _text(pipeline), f"boxed={boxed}", version()])
            found = find_program(key, threads=threads, cache=kept)
            if found is not None:
                return found
        loops = lowered(module, observers=observers, pipeline=pipeline)
        # A Variable's array is its own (`Variable.own_array`), so nothing overlaps what is updated.
        return compile_loops(loops, threads=threads, cache=kept, key=key, apart=True, **options)


def stage_times(module: Module) -> Times:
    """How long passes, the text of the loops and LLVM take to compile a tensor-level module."""
    from tapec.passes.observers import Times  # rarely asked for

    times = Times()
    loops = lowered(module, observers=[times])
    times.rows += native_stages(loops, threads=config.threads())
    return times


def evaluated_module(module: Module) -> Executable:
    """A tensor-level module as NumPy evaluates it, where no native code is wanted or can be made."""
    return evaluated(lowered(module, observers=_observers(), pipeline="evaluated"))


def timed_module(module: Module) -> tuple[Module, Executable]:
    """The program of kernels, and native code that keeps the time of each, by its number in program order.

    See `Executable.times`. Neither is kept on disk.

    Raises:
        TargetError: an operation has no native code here.
    """
    from tapec.passes.pipeline import parse_pipeline, run_pipeline  # as in `lowered`

    stages = parse_pipeline(_text("default").replace("lower", "lower{numbered=true}"))
    names = [stage.name for stage in stages]
    planned = clone_module(module)
    run_pipeline(planned, stages[: names.index("lower")])
    loops = clone_module(planned)
    run_pipeline(loops, stages[names.index("lower") :])
    with _compiling:
        return planned, compile_loops(loops, threads=config.threads(), apart=True)


#: Texts of what is compiled, with the targets that have them.
TEXTS = {"llvm": "cpu", "asm": "cpu", "c": "cpu", "numba": "numba", "cuda": "cuda", "ptx": "cuda"}


def native_text(module: Module, form: str) -> str:
    """What a tensor-level module becomes: as one of `TEXTS`; ``lines`` is ``asm`` with the user's lines."""
    if form == "c":
        from tapec.runtime.aot.single import c_text  # rarely asked for

        return c_text(lowered(module, pipeline="ahead", unit=VectorUnit(0, False)))
    target = "cpu" if form == "lines" else TEXTS[form]
    return TARGETS[target].text(lowered_for(module, target), form)


def lowered_for(module: Module, target: str, observers: Sequence[Observer] = ()) -> Module:
    """A copy of the module at loop level, as a target of `tapec.runtime.TARGETS` takes it."""
    of = TARGETS[target]
    return lowered(
        module,
        observers=[*_observers(), *observers],
        pipeline=of.pipeline,
        unit=of.vectors(),
        compact=of.compact,
    )


def load() -> None:
    """Import the passes of the default pipeline, and have what makes native code of what they leave and runs it."""
    for stage in _stages(None, "default", _text("default")):
        assert callable(stage.row.run)
    with _compiling:
        load_runtime(threads=config.threads(), cache=cache())


def cache() -> Cache | None:
    """Where compiled programs are kept on disk, as the settings have it."""
    folder = config.cache_folder()
    return None if folder is None else Cache(folder, config.cache_bytes())


def lowered(
    module: Module,
    after: str | None = None,
    observers: Sequence[Observer] = (),
    pipeline: str = "default",
    unit: VectorUnit | None = None,
    compact: bool = False,
) -> Module:
    """A copy of the module after a pipeline, or after the last run of the pass named ``after`` in it.

    ``unit`` are the vectors of the machine that it is for; this one's if None. ``compact``: little code counts most.
    """
    from tapec.passes.pipeline import run_pipeline  # who finds a program needs no passes

    copy = clone_module(module)
    try:
        run_pipeline(copy, _stages(after, pipeline, _text(pipeline, unit, compact)), observers)
    except BudgetError as error:
        raise ResourceExhaustedError(
            error.message, location=error.location, hint=error.hint
        ) from None
    return copy


def _text(pipeline: str, unit: VectorUnit | None = None, compact: bool = False) -> str:
    """A pipeline for this machine, or for one with other vectors."""
    unit = unit or TARGETS["cpu"].vectors()
    options = f"vector-bytes={unit.bytes},masked={str(unit.masked).lower()}"
    flags = {"compact": compact, "device": pipeline == "device", "direct": config.direct()}
    flags["tf32"] = pipeline == "device" and config.experimental.tensor_float_32_execution_enabled()
    more = "".join(f",{name}=true" for name, is_set in flags.items() if is_set)
    options = f"schedule{{{options}{more}}}"
    text = PIPELINES[pipeline].replace("schedule", options)
    return text.replace("plan,", "plan, poison,") if config.poison() else text


@functools.cache
def _stages(after: str | None, pipeline: str, text: str) -> tuple[Stage, ...]:
    """The pipeline that ``text`` is, as far as the pass named ``after``."""
    from tapec.passes.pipeline import parse_pipeline  # as in `lowered`

    stages = parse_pipeline(text)
    if after is None:
        return stages
    names = [stage.name for stage in stages]
    if after not in names:
        raise PassError(f"the pipeline {pipeline!r} has no pass {after!r}", hint=", ".join(names))
    return stages[: len(names) - names[::-1].index(after)]


def _observers() -> list[Observer]:
    """What the settings ask to look at every pass."""
    level, folder = config.check_level(), config.dump_folder()
    observers: list[Observer] = []
    if level or folder is not None:
        from tapec.passes.observers import Check, Dump  # rarely asked for
    if level:
        observers.append(Check(level))
    if folder is not None:
        observers.append(Dump(folder))
    return observers


@functools.cache
def version() -> str:
    """What compiles: every source file of tapec, so that an edited pass makes new programs."""
    parts = (getattr(tapec, name).__path__ for name in ("ir", "passes", "runtime"))
    # In a checkout the parts do not lie below the package.
    return version_of([Path(tapec.__file__).parent, *(path for part in parts for path in part)])
