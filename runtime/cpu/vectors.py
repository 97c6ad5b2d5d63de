"""How wide this machine's vector registers are: what schedules want to know before anything is compiled."""

from __future__ import annotations

import functools
import platform
from pathlib import Path
from typing import NamedTuple


class VectorUnit(NamedTuple):
    """Bytes of a register, and whether loads and stores of some of its lanes are instructions."""

    bytes: int
    masked: bool


@functools.cache
def vector_unit() -> VectorUnit:
    """This machine's; where the system does not tell, what every processor of its kind has."""
    flags = _flags()
    if {"avx512f", "avx512vl", "avx512dq", "avx512bw"} <= flags:
        return VectorUnit(64, True)
    if {"avx2", "fma"} <= flags:
        return VectorUnit(32, True)
    known = platform.machine().lower() in ("x86_64", "amd64", "aarch64", "arm64")
    return VectorUnit(16 if known else 0, False)


def _flags() -> frozenset[str]:
    """Instruction sets as the Linux kernel names them; none elsewhere."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return frozenset()
    lines = info.read_text(encoding="utf-8", errors="replace").splitlines()
    found = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return frozenset(found.partition(":")[2].split())
