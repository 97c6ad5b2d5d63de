"""From a loop-level module to an executable in this process: text, cache, compiler."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tapec.ir.core import Module
from tapec.ir.errors import TargetError
from tapec.runtime.cache import Cache
from tapec.runtime.cpu import blocks
from tapec.runtime.cpu import threads as pool
from tapec.runtime.cpu.code import keep, load, program_key, start, to_bytes, usable_threads
from tapec.runtime.cpu.entries import boxed_entry
from tapec.runtime.cpu.entries.entry import EntryWriter
from tapec.runtime.cpu.estimate import estimate
from tapec.runtime.cpu.machine_code.linker import link, linked
from tapec.runtime.cpu.machine_code.shared_object import shared_object
from tapec.runtime.cpu.text.llvm import ENTRY, ModuleWriter
from tapec.runtime.cpu.text.units import kernel_units
from tapec.runtime.cpu.work import is_short, takes_long
from tapec.runtime.executable import Executable, Signature
from tapec.runtime.symbols import symbols_of


def compile_program(
    module: Module,
    *,
    threads: int = 1,
    cache: Cache | None = None,
    key: str | None = None,
    apart: bool = False,
    boxed: int | None = None,
    opt: int = 1,
    debug: Path | None = None,
    perf: str | None = None,
) -> Executable:
    """Compile a module for this process.

    ``boxed``: callers deal in boxes, so a short program gets an entry for them; so many inputs come first that are in
    no holders. ``apart`` is a promise of every caller: no array overlaps one that is updated. It saves a comparison of
    each with each, in code and at every call. ``opt`` is LLVM's level, 0 to 3. On systems without a thread pool
    (`threads.is_available`) parallel loops run on the calling thread. With ``debug``, a folder, the program is a shared
    object there, with the user's lines for gdb and perf.
    With ``perf``, a form of `tapec.runtime.cpu.machine_code.perf`, its functions are written down for perf, and no
    cache is used.
    """
    threads = usable_threads(threads)
    if debug is not None:
        return _compile_with_lines(module, debug, threads, cache, apart=apart, opt=opt)
    host: list[str] = []
    texts: Iterable[str] = write_units(module, host, threads=threads, apart=apart, boxed=boxed)
    signature = Signature.of(module)
    if perf is not None:
        return _compile_for_perf(texts, host, signature, threads, cache, perf=perf, opt=opt)
    if key is None and cache is not None:
        # The texts alone would not do: a copy of float16 is a copy of bfloat16, to the letter.
        texts = list(texts)
        key = "\n".join([*texts, *host, signature.to_json()])
        kept = cache.get(program_key(key, threads, opt))
        if kept is not None:
            return load(kept, cache)
    from tapec.runtime.cpu.machine_code.jit import host_compiler  # slow; a warm start goes without

    image = link(*host_compiler(opt).compile_all(texts, threads))
    if cache is not None:
        assert key is not None
        cache.put(program_key(key, threads, opt), to_bytes(image, host, signature, threads))
    return start(image, host, signature, threads, cache)


def prepare(*, threads: int, cache: Cache | None) -> None:
    """Import the compiler, and have the parts of the runtime that programs call, where this machine runs any."""
    from tapec.runtime.cpu.machine_code import jit  # noqa: F401  as above

    with contextlib.suppress(TargetError):  # who compiles is told
        blocks.require(cache)
        if usable_threads(threads) > 1:
            pool.require(cache)


def _compile_with_lines(
    module: Module, folder: Path, threads: int, cache: Cache | None, *, apart: bool, opt: int
) -> Executable:
    """A program as a shared object that tools can read; it stays when the process ends, for perf's reports."""
    from tapec.runtime.cpu.machine_code.jit import host_compiler  # as above

    text, host = write_text(module, threads=threads, apart=apart, lines=True)
    signature = Signature.of(module)
    data = host_compiler(opt).compile(text)

    path = keep(folder, signature.name, shared_object(data, _renamed(signature)))
    return start(link(data), host, signature, threads, cache, path)


def _compile_for_perf(
    texts: Iterable[str],
    host: list[str],
    signature: Signature,
    threads: int,
    cache: Cache | None,
    *,
    perf: str,
    opt: int,
) -> Executable:
    """A program of whose functions perf knows the names."""
    from tapec.runtime.cpu.machine_code.jit import host_compiler  # as above
    from tapec.runtime.cpu.machine_code.perf import tell  # rarely asked for

    linker = linked(*host_compiler(opt).compile_all(texts, threads))
    program = start(linker.image(), host, signature, threads, cache)
    tell(perf, program.call_raw.__self__.base, linker, _renamed(signature))  # type: ignore[attr-defined]
    return program


def _renamed(signature: Signature) -> Callable[[str], str]:
    """Functions as people are told of them: after the program."""

    def rename(name: str) -> str:
        kind, _, rest = name.partition(".")
        if kind in ("kernel", "body", "task"):
            return f"{signature.name}.{rest}"
        return name.replace(ENTRY[1:], signature.name, 1)

    return rename


def write_text(
    module: Module,
    *,
    threads: int = 1,
    apart: bool = False,
    boxed: int | None = None,
    lines: bool = False,
) -> tuple[str, list[str]]:
    """The LLVM text of a module, and what it needs from this process; ``lines``: with a line table."""
    writer = ModuleWriter(module, threads=threads, lines=lines)
    writer.write_functions()
    _write_entries(writer, module, apart=apart, boxed=boxed)
    return writer.finish(), writer.host


def write_units(
    module: Module,
    host: list[str],
    *,
    threads: int = 1,
    apart: bool = False,
    boxed: int | None = None,
) -> Iterator[str]:
    """The same as several texts, each made when it is asked for; ``host`` is complete with the last of them."""
    for writer in kernel_units(module, host, threads=threads):
        if writer.is_last:
            _write_entries(writer, module, apart=apart, boxed=boxed)
        yield writer.finish()


def _write_entries(writer: ModuleWriter, module: Module, *, apart: bool, boxed: int | None) -> None:
    """Add what Python calls."""
    entry = EntryWriter(writer, module.entry, release_gil=takes_long(module), apart=apart)
    entry.write()
    entry.write_support()
    if boxed is None or not boxed_entry.is_possible(module.entry):
        return
    short = is_short(module)
    work = None if short or not symbols_of(module.entry) else estimate(module)
    if short or work is not None:
        quick = boxed_entry.BoxedEntryWriter(
            writer, module.entry, arguments=boxed, apart=apart, estimate=work
        )
        quick.write()
        quick.write_support()


def native_stages(module: Module, *, threads: int) -> Iterator[tuple[str, float, int, str]]:
    """Compile a module for nobody; yield each stage, the seconds that it takes, how much it makes and of what."""
    from tapec.runtime.cpu.machine_code.jit import host_compiler  # as above

    compiler = host_compiler(1)
    start = time.perf_counter()
    threads = usable_threads(threads)
    texts = list(write_units(module, [], threads=threads, apart=True))
    written = time.perf_counter()
    yield "text", written - start, sum(text.count("\n") for text in texts), "lines"
    start = time.perf_counter()
    code = link(*compiler.compile_all(texts, threads)).to_bytes()
    yield "LLVM", time.perf_counter() - start, len(code), "bytes"


def native_text(module: Module, form: str) -> str:
    """A module as LLVM text before optimisation (``llvm``), or assembly (``asm``; ``lines``: with the user's lines)."""
    text, _ = write_text(module, lines=form == "lines")
    if form == "llvm":
        return text
    from tapec.runtime.cpu.machine_code.jit import host_compiler  # as above

    return host_compiler(1).assembly(text)
