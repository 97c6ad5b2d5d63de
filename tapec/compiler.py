"""The joint between programs, passes and the runtime: a module in, an executable out.

The only place that knows all three, besides the command line. What was compiled once is found again on disk by the
text of the program before any pass, so a new process runs neither the passes nor LLVM for it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import tapec
from tapec import config
from tapec.ir.core import Module, clone_module
from tapec.ir.errors import PassError
from tapec.ir.printer import print_module
from tapec.passes import PIPELINES
from tapec.passes.observers import Check, Dump
from tapec.passes.pipeline import Observer, Stage, parse_pipeline, run_pipeline
from tapec.runtime import TARGETS, Executable, find_program
from tapec.runtime import compile_module as compile_loops

__all__ = ["Executable", "compile_module", "lowered"]


def compile_module(module: Module, pipeline: str = "default") -> Executable:
    """Compile a tensor-level module for this machine by one of `PIPELINES`; the module is left as it is.

    Raises:
        TargetError: an operation has no native code here.
    """
    folder, threads = config.cache_folder(), config.threads()
    observers = _observers()
    if folder is None or observers:
        loops = lowered(module, observers=observers, pipeline=pipeline)
        return compile_loops(loops, threads=threads, cache=folder, apart=True)
    text = print_module(module, full_constants=True)
    key = "\n".join([text, str(_stages(None, pipeline)), _version()])
    found = find_program(key, threads=threads, cache=folder)
    if found is not None:
        return found
    loops = lowered(module, pipeline=pipeline)
    # A Variable's array is its own (`Variable.own_array`), so nothing overlaps what is updated.
    return compile_loops(loops, threads=threads, cache=folder, key=key, apart=True)


def lowered(
    module: Module,
    after: str | None = None,
    observers: Sequence[Observer] = (),
    pipeline: str = "default",
) -> Module:
    """A copy of the module after a pipeline, or after the last run of the pass named ``after`` in it."""
    copy = clone_module(module)
    run_pipeline(copy, _stages(after, pipeline), observers)
    return copy


@functools.cache
def _stages(after: str | None, pipeline: str) -> tuple[Stage, ...]:
    """A pipeline for this machine, as far as the pass named ``after``."""
    unit = TARGETS["cpu"].vectors()
    options = f"schedule{{vector-bytes={unit.bytes},masked={str(unit.masked).lower()}}}"
    stages = parse_pipeline(PIPELINES[pipeline].replace("schedule", options))
    if after is None:
        return stages
    names = [stage.name for stage in stages]
    if after not in names:
        raise PassError(f"the pipeline {pipeline!r} has no pass {after!r}", hint=", ".join(names))
    return stages[: len(names) - names[::-1].index(after)]


def _observers() -> list[Observer]:
    """What the settings ask to look at every pass."""
    observers: list[Observer] = []
    if config.check_level():
        observers.append(Check(config.check_level()))
    folder = config.dump_folder()
    if folder is not None:
        observers.append(Dump(folder))
    return observers


@functools.cache
def _version() -> str:
    """What compiles: every source file of tapec by size and time, so that an edited pass makes new programs."""
    root = Path(tapec.__file__).parent
    homes = {root, *(Path(p) for name in ("ir", "passes", "runtime") for p in _paths(name))}
    files = sorted({f for home in homes for f in home.rglob("*.py")})
    return "\n".join(f"{f.name} {f.stat().st_size} {f.stat().st_mtime_ns}" for f in files)


def _paths(name: str) -> Sequence[str]:
    """Where a part of the package lies, which in a checkout is not below the package."""
    return list(getattr(tapec, name).__path__)
