"""Where the time of a call goes: `CompiledFunction.profile`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tapec import config
from tapec.compiled.cost import KernelCost, cost_of
from tapec.compiled.expectation import Limits, expected_seconds
from tapec.compiler import Executable, timed_module
from tapec.ir.location import Location
from tapec.tables import Table
from tapec.tensor import Array, Tensor

if TYPE_CHECKING:
    from tapec.compiled.program import Program

#: Seconds for which a program is run, and how many runs are enough, or the least.
_PATIENCE, _ENOUGH, _LEAST = 0.5, 500, 3


class KernelTime(NamedTuple):
    """One kernel of a program.

    Attributes:
        number: which of the program, in order.
        seconds: of all its runs in one call; the mean over the quicker half of the calls. Where the clocks slow a call
            down, kernels are shortened alike, so that they fit into one without.
        share: of the whole call.
        runs: how often it runs in a call.
        cost: arithmetic and bytes of one run.
        expected: seconds that `Profile.against` expects of all its runs, if it was asked.
    """

    number: int
    seconds: float
    share: float
    runs: float
    cost: KernelCost
    expected: float | None = None

    @property
    def location(self) -> Location | None:
        """The user's line of what it makes last."""
        return self.cost.location

    @property
    def flops_per_second(self) -> float:
        """Floating-point operations, without functions of many instructions."""
        return self._rate(self.cost.flops)

    @property
    def bytes_per_second(self) -> float:
        """Operands and results, each counted once in a run."""
        return self._rate(self.cost.bytes_read + self.cost.bytes_written)

    def _rate(self, amount: Any) -> float:
        return float(amount) * self.runs / self.seconds if self.seconds else 0.0

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        return (
            str(self.number),
            _time(self.seconds),
            f"{self.share:.1%}",
            f"{self.runs:g}",
            *([] if self.expected is None else [_time(self.expected)]),
            f"{self.flops_per_second / 1e9:.1f}",
            f"{self.bytes_per_second / 1e9:.1f}",
            self.cost.work,
            self.cost.place,
            self.cost.source,
        )


@dataclass(frozen=True, repr=False)
class Profile:
    """Where the time of a call goes.

    Attributes:
        name: the function's.
        seconds: of one call of the program, from Python; the mean over the quicker half of the calls, as what is slower
            was disturbed.
        calls: how many were timed.
        threads: that ran it.
        kernels: in the order in which they run.
        call: seconds of a call without any, if `against` was asked.
    """

    name: str
    seconds: float
    calls: int
    threads: int
    kernels: tuple[KernelTime, ...]
    call: float = 0.0

    @property
    def rest(self) -> float:
        """Seconds of a call outside of kernels: checks of the arguments, arrays for results, loops around kernels."""
        return max(self.seconds - sum(k.seconds for k in self.kernels), 0.0)

    @property
    def expected(self) -> float | None:
        """Seconds that `against` expects of a call, if it was asked: of all kernels, and of the call itself."""
        found = [k.expected for k in self.kernels if k.expected is not None]
        return sum(found, self.call) if found else None

    def against(self, limits: Limits | str | Path) -> Profile:
        """The same with what each kernel should take by its arithmetic and bytes; see `tapec.compiled.expectation`.

        Args:
            limits: those of the machine, or the file of them that ``benchmarks/limits.py`` writes.
        """
        known = limits if isinstance(limits, Limits) else Limits.read(limits)
        seconds = expected_seconds([k.cost for k in self.kernels], known, self.threads)
        kernels = [
            k._replace(expected=one * k.runs) for k, one in zip(self.kernels, seconds, strict=True)
        ]
        return replace(self, kernels=tuple(kernels), call=known.call)

    def _table(self) -> Table:
        modelled = ["expected"] if any(k.expected is not None for k in self.kernels) else []
        columns = (
            "kernel", "time", "share", "runs", *modelled, "Gflop/s", "GB/s", "operations", "line", "source",
        )  # fmt: skip
        rows = [k.cells for k in sorted(self.kernels, key=lambda k: -k.seconds)]
        share = self.rest / self.seconds if self.seconds else 0.0
        rows.append(
            (
                "",
                _time(self.rest),
                f"{share:.1%}",
                *[""] * (3 + len(modelled)),
                "outside of kernels",
                "",
                "",
            )
        )
        threads = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        model = "" if self.expected is None else f"; it is expected to take {_time(self.expected)}"
        caption = (
            f"{_time(self.seconds)} a call, the quicker half of {self.calls}, with {threads}{model}"
        )
        return Table(columns, rows, f"where the time of {self.name} goes", caption)

    def __str__(self) -> str:
        """A table, the kernel that takes longest first."""
        return self._table().text()

    def __repr__(self) -> str:
        return f"<Profile of {self.name}: {self._table().caption}, {len(self.kernels)} kernels>"

    def __rich__(self) -> Any:
        """A table of the rich library."""
        return self._table().rich()

    def _repr_html_(self) -> str:
        return self._table().html()


def profile_of(program: Program, inputs: Sequence[Tensor], numbers: Sequence[Array]) -> Profile:
    """Time the kernels of a program for these arguments; its Variables stay as they are.

    Raises:
        TargetError: there is no native code for it.
        InvalidArgumentError: a check failed.
    """
    planned, timed = timed_module(program.general.module)
    plain = program.general.executable
    if not isinstance(plain.call_raw, BuiltinFunctionType):
        plain = timed  # another engine's, or NumPy: what is timed here is the usual engine's code
    arrays = program.own_arrays(inputs, numbers)
    whole, clocked, parts = _samples(program, plain, timed, arrays)
    quick = np.argsort(clocked)[: (len(clocked) + 1) // 2]
    seconds = float(np.mean(np.sort(whole)[: len(quick)]))
    # Clocks take time themselves, and keep short kernels from being one with the loop around them.
    scale = min(seconds / float(np.mean(clocked[quick])), 1.0)
    means: list[tuple[float, float]] = np.mean(parts[quick], axis=0).tolist()
    # Kernels that nobody launches are copies of what is in its place already; the last ones have no row.
    costs = [k for k in cost_of(planned).kernels if k.number < parts.shape[1]]
    kernels = []
    for cost, (nanoseconds, runs) in zip(costs, means, strict=True):
        taken = nanoseconds * scale / 1e9
        if runs:
            kernels.append(
                KernelTime(cost.number, taken, taken / seconds, runs, cost.at(program.sizes))
            )
    return Profile(timed.name, seconds, len(whole), config.threads(), tuple(kernels))


def _samples(
    program: Program, plain: Executable, timed: Executable, arrays: list[Array]
) -> tuple[Array, Array, Array]:
    """Seconds of each call, of each with clocks, and of these the nanoseconds and runs of each kernel.

    The last is i64[calls, kernels, 2].
    """
    times = np.zeros((0, 2), np.int64) if timed.times is None else timed.times
    whole: list[float] = []
    clocked: list[float] = []
    parts: list[Array] = []

    def run(executable: Executable) -> float:
        start = time.perf_counter()
        results = executable(*arrays)
        taken = time.perf_counter() - start
        program.effects.settle(arrays, results)
        return taken

    run(plain), run(timed)  # the first meet cold caches and new pages
    end = time.perf_counter() + _PATIENCE
    while len(whole) < _LEAST or (len(whole) < _ENOUGH and time.perf_counter() < end):
        whole.append(run(plain))
        times[:] = 0
        clocked.append(run(timed))
        parts.append(times.copy())
    return np.array(whole), np.array(clocked), np.stack(parts)


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.2f} µs"
