"""Run loop-level modules: targets, compiled programs, and the cache of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tapec.ir.core import Module
from tapec.ir.errors import TargetError
from tapec.runtime.cache import Cache
from tapec.runtime.executable import Executable

__all__ = ["TARGETS", "Cache", "Executable", "compile_module"]


def _compile_for_cpu(module: Module, **options: Any) -> Executable:
    from tapec.runtime.cpu.program import compile_program  # only those who compile pay for it

    return compile_program(module, **options)


#: Where a module can run: the name that a user gives, and the function that compiles for it.
TARGETS: Mapping[str, Callable[..., Executable]] = {"cpu": _compile_for_cpu}


def compile_module(
    module: Module,
    *,
    target: str = "cpu",
    threads: int = 1,
    cache: Path | str | None = None,
    **options: Any,
) -> Executable:
    """Compile a loop-level module whose first function is the entry.

    Args:
        module: what `tapec.passes` made; it is left as it is.
        target: one of `TARGETS`.
        threads: how many threads may run a parallel loop; 1 makes none.
        cache: a folder in which compiled programs are kept, or None.
        options: what only this target knows.

    Raises:
        TargetError: there is no such target, or it cannot do what the module asks.
    """
    compiler = TARGETS.get(target)
    if compiler is None:
        raise TargetError(f"there is no target {target!r} ({', '.join(TARGETS)})")
    if threads < 1:
        raise TargetError(f"threads must be at least 1, got {threads}")
    kept = None if cache is None else Cache(cache)
    return compiler(module, threads=threads, cache=kept, **options)
