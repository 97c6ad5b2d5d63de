"""How long kernels should take on a machine whose limits were measured: the model behind `Profile.against`.

Nothing is fitted to a program. A kernel computes, moves data and waits at the same time, so it takes the longest of
three:

* arithmetic: products of contractions at the peak of fused multiply-adds, which do two operations; other operations one
  at a time, at half of that, but each at least as long as one on single numbers; functions of many instructions by the
  measured time of one.
* memory: each operand and result once, at the bandwidth measured for as many bytes as were touched since it was
  touched last (its reuse distance; Mattson et al., "Evaluation techniques for storage hierarchies", 1970), counted over
  a second pass of the program, as steps follow upon each other.
* waiting: elementwise operations that need each other's results, each with the measured latency of one; in a loop
  those that need results of the turn before (`tapec.compiled.recurrence`).

A kernel of several threads takes what it takes to begin and to end them, too, and a call what one of Python takes that
makes an array. What no kernel says is not in it: starting a kernel, elements that are computed twice.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from pathlib import Path
from typing import Any

from tapec import errors
from tapec.compiled.cost import KernelCost
from tapec.frames import here


@dataclass(frozen=True)
class Limits:
    """What a machine can do, as ``benchmarks/limits.py`` measures it.

    Attributes:
        flops: floating-point operations per second at the peak, of float32 and float64, for each number of threads.
        bandwidth: for each number of threads, pairs of bytes in use by one thread and bytes per second of all.
        function: seconds for a value of a function of many instructions, float32, on one thread.
        latency: seconds until the result of an operation can be used.
        issue: seconds of an operation on single numbers that waits for nothing.
        fork: seconds until threads have begun and ended nothing, for each number of them.
        call: seconds of a call from Python that makes one small array.
    """

    flops: Mapping[int, tuple[float, float]]
    bandwidth: Mapping[int, tuple[tuple[float, float], ...]]
    function: float
    latency: float
    issue: float
    fork: Mapping[int, float]
    call: float

    @classmethod
    def read(cls, path: str | Path) -> Limits:
        """Those in a file that ``benchmarks/limits.py`` wrote.

        Raises:
            OSError: it cannot be read.
            ValueError: it holds something else.
        """
        try:
            return cls.of(json.loads(Path(path).read_text(encoding="utf-8")))
        except (KeyError, AttributeError, TypeError, ValueError) as error:
            raise errors.ValueError(
                f"{path} does not hold the limits of a machine: {type(error).__name__}: {error}",
                location=here(),
                hint="python benchmarks/limits.py > limits.json measures them",
            ) from None

    @classmethod
    def of(cls, measured: Mapping[str, Any]) -> Limits:
        """Those in the object that is in such a file."""
        threads = [n for n in (1, 2) if f"fma_f32_gflops_{n}" in measured]
        peaks = {
            n: tuple(1e9 * measured[f"fma_{kind}_gflops_{n}"] for kind in ("f32", "f64"))
            for n in threads
        }
        footprints = {"96KB_per_thread": 96e3, "768KB_per_thread": 768e3, "8MB_per_thread": 8e6}
        footprints["dram"] = 192e6
        bandwidth = {
            n: tuple(
                (size, 1e9 * measured[f"triad_{name}_gbs_{n}"]) for name, size in footprints.items()
            )
            for n in threads
        }
        return cls(
            {n: (a, b) for n, (a, b) in peaks.items()},
            bandwidth,
            1e-9 * measured["tanh_ns"],
            1e-9 * measured["fma_latency_ns"],
            1e-9 * measured["fma_scalar_ns"],
            {n: 1e-9 * measured.get(f"fork_join_ns_{n}", 0.0) for n in threads},
            1e-9 * measured["call_ns"],
        )

    def threads(self, wanted: int) -> int:
        """The most threads, of those measured, that are no more than these."""
        return max(n for n in self.flops if n <= max(wanted, 1))

    def bytes_per_second(self, distance: float, threads: int) -> float:
        """For data that so many bytes were touched since; between two measured sizes, by their logarithms."""
        points = self.bandwidth[threads]
        each = distance / threads
        if each <= points[0][0]:
            return points[0][1]
        for (low, fast), (high, slow) in pairwise(points):
            if each <= high:
                part = log(each / low) / log(high / low)
                return exp(log(fast) + part * (log(slow) - log(fast)))
        return points[-1][1]


def expected_seconds(kernels: Sequence[KernelCost], limits: Limits, threads: int) -> list[float]:
    """Seconds of one run of each kernel, in the order in which they run; their sizes are numbers."""
    distances = _distances(kernels)
    return [
        max(
            _arithmetic(kernel, limits, own),
            _traffic(kernel, limits, own, distance),
            kernel.depth * limits.latency,
        )
        + limits.fork[own]
        for kernel, distance in zip(kernels, distances, strict=True)
        for own in [limits.threads(threads if kernel.is_parallel else 1)]
    ]


def _arithmetic(kernel: KernelCost, limits: Limits, threads: int) -> float:
    peak = limits.flops[threads][kernel.is_double]
    products, others = float(str(kernel.products)), float(str(kernel.flops - kernel.products))
    values = float(str(kernel.transcendentals)) * (2 if kernel.is_double else 1)
    plain = max(others / (peak / 2), kernel.instructions * limits.issue)
    return products / peak + plain + values * limits.function / threads


def _traffic(kernel: KernelCost, limits: Limits, threads: int, distances: Sequence[float]) -> float:
    return sum(
        float(str(size)) / limits.bytes_per_second(distance, threads)
        for (_, size), distance in zip(kernel.memory, distances, strict=True)
    )


def _distances(kernels: Sequence[KernelCost]) -> list[list[float]]:
    """For each operand and result of each kernel the bytes touched since it was touched last, itself among them."""
    recent: dict[Hashable, float] = {}  # the last touched last
    found: list[list[float]] = []
    for _ in range(2):
        found = []
        for kernel in kernels:
            sizes = {name: float(str(size)) for name, size in kernel.memory}
            found.append([_since(recent, name, sizes) for name, _ in kernel.memory])
            for name, size in sizes.items():
                recent.pop(name, None)
                recent[name] = size
    return found


def _since(
    recent: Mapping[Hashable, float], name: Hashable, sizes: Mapping[Hashable, float]
) -> float:
    total = 0.0
    for other in reversed(recent):
        if other == name:
            break
        if other not in sizes:
            total += recent[other]
    return total + sum(sizes.values())
