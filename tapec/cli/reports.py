"""What ``tapec ir`` and its sisters tell of a program instead of its text, as tables and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tapec.compiled.buffers import Buffer, ProgramMemory
from tapec.compiled.cost import Cost
from tapec.compiled.lowering import Lowered
from tapec.compiler import stage_times
from tapec.passes.observers import Times


class Report(NamedTuple):
    """How something is told: as a table, or as what JSON has."""

    made: Callable[[Lowered], Any]
    json: Callable[[Any], Any]


def times_json(times: Times) -> list[dict[str, Any]]:
    """How long each pass took, and how many operations it left; what follows the passes leaves none."""
    return [
        {
            "pass": name,
            "milliseconds": round(seconds * 1e3, 3),
            "operations": count if unit == "ops" else None,
        }
        for name, seconds, count, unit in times.rows
    ]


def memory_json(memory: ProgramMemory) -> dict[str, Any]:
    """What a call takes, all that is in the arena at some time, and what is when most is; sizes in bytes."""
    sizes = ("peak", "arena", "lower_bound", "states", "arguments", "results", "peak_at")
    return {
        **{name: plain(getattr(memory, name)) for name in sizes},
        "alive": [_buffer(b) for b in memory.alive],
        "buffers": [_buffer(b) for b in memory.buffers],
    }


def _buffer(buffer: Buffer) -> dict[str, Any]:
    place = buffer.location
    return {
        "name": buffer.name,
        "type": buffer.type,
        "bytes": plain(buffer.bytes),
        "offset": plain(buffer.offset),
        "first": buffer.first,
        "last": buffer.last,
        "kind": buffer.kind,
        "made_by": buffer.made_by,
        "file": None if place is None else place.file,
        "line": None if place is None else place.line,
    }


def cost_json(cost: Cost) -> dict[str, Any]:
    """What each kernel computes and moves in one run, and all of them in a call."""
    sums = {name: plain(getattr(cost, name)) for name in ("flops", "transcendentals", "bytes")}
    numbers = ("runs", "flops", "transcendentals", "bytes_read", "bytes_written")
    kernels = [
        {
            "kernel": kernel.number,
            **{name: plain(getattr(kernel, name)) for name in numbers},
            "operations": list(kernel.ops),
            "file": None if kernel.location is None else kernel.location.file,
            "line": None if kernel.location is None else kernel.location.line,
        }
        for kernel in cost.kernels
    ]
    return {**sums, "kernels": kernels}


def plain(size: Any) -> Any:
    """A number, or the text of a size that is open; None where nothing says it."""
    return size if size is None or isinstance(size, int | float) else str(size)


#: What can be told instead of the program.
REPORTS: Mapping[str, Report] = {
    "time": Report(lambda program: stage_times(program.module), times_json),
    "memory": Report(Lowered.memory, memory_json),
    "cost": Report(Lowered.cost, cost_json),
}
