"""``tapec bench``: where the time of a compiled function goes, from its trace to its steady state."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from tapec import config
from tapec.cli.profile import kernels_json, profiled
from tapec.cli.reports import plain
from tapec.cli.target import Target, target_argument
from tapec.compiler import lowered
from tapec.ir.core import Module
from tapec.runtime import compile_module
from tapec.tables import Table, counted

T = TypeVar("T")


@click.command()
@target_argument
@click.option("--seconds", default=1.0, show_default=True, help="How long to repeat the call.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench(target: Target, seconds: float, as_json: bool) -> None:
    """Time the compiled FUNCTION in FILE: trace, passes, machine code, first call, steady state, then each kernel.

    Nothing is taken from the folder of compiled programs. Called is the native program, on copies of the arrays of
    the call, so Variables stay as they are.
    """
    times: dict[str, float] = {}
    module = target.module
    if target.function is not None:
        times["trace"] = _timed(target.trace)[0]
    times["passes"], loops = _timed(lambda: lowered(module))
    times["machine code"], program = _timed(lambda: _compiled(loops))
    arrays = target.arrays()
    times["first call"] = _timed(lambda: program(*arrays))[0]
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while not samples or time.perf_counter() < end:
        samples.append(_timed(lambda: program(*arrays))[0])
    times["steady call"] = statistics.median(samples)
    # Neither what was read from a file nor what has open sizes has a call that could be timed kernel by kernel.
    kernels = profiled(target) if target.can_be_called else None
    if as_json:
        found = {"seconds": times, "calls": len(samples), "kernels": program.kernels}
        found |= {"arena bytes": plain(program.arena_bytes)}
        found |= {"by kernel": [] if kernels is None else kernels_json(kernels)}
        click.echo(json.dumps(found, indent=1))
        return
    rows = [(name, _text(value)) for name, value in times.items()]
    caption = (
        f"{program.kernels} kernels, {counted(program.arena_bytes)} bytes of arena, {config.threads()} threads; "
        f"the steady call is the median of {len(samples)}"
    )
    click.echo(Table(("what", "time"), rows, target.name, caption).text())
    if kernels is not None:
        click.echo(f"\n{kernels}")


def _compiled(loops: Module) -> Any:
    return compile_module(loops, threads=config.threads(), apart=True)


def _timed(action: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def _text(seconds: float) -> str:
    if seconds >= 0.1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"
