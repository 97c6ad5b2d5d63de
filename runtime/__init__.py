"""Run loop-level modules: targets, compiled programs, and the cache of these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from tapec.ir.core import Module
from tapec.ir.errors import TargetError
from tapec.runtime.cache import Cache
from tapec.runtime.cpu.vectors import VectorUnit, vector_unit
from tapec.runtime.executable import Executable, evaluated, is_mismatch

__all__ = [
    "TARGETS",
    "Cache",
    "Executable",
    "Target",
    "VectorUnit",
    "compile_module",
    "evaluated",
    "find_program",
    "is_mismatch",
    "load_compiler",
    "native_stages",
]


def _compile_for_cpu(module: Module, **options: Any) -> Executable:
    from tapec.runtime.cpu.program import compile_program  # only those who compile pay for it

    return compile_program(module, **options)


def load_compiler(*, threads: int = 1, cache: Cache | None = None) -> None:
    """Import what compiles for this machine, and have what its programs for so many threads call."""
    from tapec.runtime.cpu import program  # as above

    program.prepare(threads=threads, cache=cache)


def native_stages(module: Module, *, threads: int) -> Iterable[tuple[str, float, int, str]]:
    """What follows the passes for this machine; see `tapec.runtime.cpu.program.native_stages`."""
    from tapec.runtime.cpu import program  # as above

    return program.native_stages(module, threads=threads)


def _find_for_cpu(key: str, **options: Any) -> Executable | None:
    from tapec.runtime.cpu.code import find_program  # as above

    return find_program(key, **options)


def _text_for_cpu(module: Module, form: str) -> str:
    from tapec.runtime.cpu.program import native_text  # as above

    return native_text(module, form)


def _compile_by_numba(
    module: Module, *, threads: int, cache: Cache | None, key: str | None, apart: bool = False
) -> Executable:
    program: Executable = _numba_programs().compile_program(module)
    return program


def _python_text(module: Module, form: str) -> str:
    text: str = _numba_programs().python_text(module)
    return text


def _numba_programs() -> Any:
    """The engine that makes Numba's programs.

    Raises:
        TargetError: Numba is not installed.
    """
    if find_spec("numba") is None:
        raise TargetError(
            'engine="numba" is Numba\'s, which is not installed',
            hint="pip install numba, or leave engine out",
        )
    from tapec.runtime.numba import program  # as above

    return program


def _find_nothing(key: str, **options: Any) -> None:
    """What Numba makes is not kept."""


def _compile_for_cuda(module: Module, *, device: int = 0, **options: Any) -> Executable:
    from tapec.runtime.cuda.program import compile_program  # as above

    return compile_program(module, number=device)


def _simulate_cuda(module: Module, **options: Any) -> Executable:
    from tapec.runtime.cuda.program import simulated  # as above

    return simulated(module)


def _text_for_cuda(module: Module, form: str) -> str:
    from tapec.runtime.cuda.program import cuda_text  # as above

    return cuda_text(module, form)


def _no_vectors() -> VectorUnit:
    return VectorUnit(0, False)


class Target(NamedTuple):
    """Where a module can run: how to compile for it, how to find again what was compiled, what vectors it has.

    ``text`` is what it makes of a module, as ``llvm`` or ``asm``, as ``numba``, as ``cuda`` or ``ptx``. ``pipeline``
    are the passes that programs for it go through; ``compact``: their loops do one thing at a time.
    """

    compile: Callable[..., Executable]
    find: Callable[..., Executable | None]
    vectors: Callable[[], VectorUnit]
    text: Callable[[Module, str], str]
    pipeline: str = "default"
    compact: bool = False


#: By the name that a user gives.
TARGETS: Mapping[str, Target] = {
    "cpu": Target(_compile_for_cpu, _find_for_cpu, vector_unit, _text_for_cpu),
    "numba": Target(_compile_by_numba, _find_nothing, _no_vectors, _python_text),
    "cuda": Target(_compile_for_cuda, _find_nothing, _no_vectors, _text_for_cuda, "device", True),
    "cuda-simulator": Target(
        _simulate_cuda, _find_nothing, _no_vectors, _text_for_cuda, "device", True
    ),
}


def compile_module(
    module: Module,
    *,
    target: str = "cpu",
    threads: int = 1,
    cache: Cache | Path | str | None = None,
    key: str | None = None,
    **options: Any,
) -> Executable:
    """Compile a loop-level module whose first function is the entry.

    Args:
        module: what `tapec.passes` made; it is left as it is.
        target: one of `TARGETS`.
        threads: how many threads may run a parallel loop; 1 makes none.
        cache: where compiled programs are kept: a `Cache`, or its folder, or None.
        key: under which the program is kept for `find_program`, instead of under its own text.
        options: what only this target knows.

    Raises:
        TargetError: there is no such target, or it cannot do what the module asks.
    """
    compiler = _target(target, threads).compile
    return compiler(module, threads=threads, cache=_cache(cache), key=key, **options)


def find_program(
    key: str, *, target: str = "cpu", threads: int = 1, cache: Cache | Path | str, **options: Any
) -> Executable | None:
    """The program that `compile_module` kept under this key with the same options, or None.

    With a key made of the program before any pass, neither the passes nor a compiler need run again.
    """
    return _target(target, threads).find(key, threads=threads, cache=_cache(cache), **options)


def _cache(cache: Cache | Path | str | None) -> Cache | None:
    return Cache(cache) if isinstance(cache, Path | str) else cache


def _target(name: str, threads: int) -> Target:
    found = TARGETS.get(name)
    if found is None:
        raise TargetError(f"there is no target {name!r} ({', '.join(TARGETS)})")
    if threads < 1:
        raise TargetError(f"threads must be at least 1, got {threads}")
    return found
