"""A program as several texts, which LLVM compiles one by one or side by side.

A unit has some kernels with all that they call; the last one has what calls the kernels, too. They are written one
after the other, so that LLVM has the first while the second is written. Where a unit ends depends on the program alone:
for any number of threads that compile, the code is the same. A program for one thread is one unit, since what units
have in common is compiled for each: that takes a tenth longer.
"""

from __future__ import annotations

from collections.abc import Iterator

from tapec.ir.core import Function, Module
from tapec.runtime.cpu.text.llvm import KernelWriter, ModuleWriter, kernel_name, kernel_types

#: Lines of text from which on a unit is full: 40 ms of LLVM's time. What units have in common (declarations, functions
#: of mathematics) is compiled for each of them.
FULL = 1000


class UnitWriter(ModuleWriter):
    """The text of one unit; kernels are seen by the others, and so is the table of what comes from outside."""

    def __init__(self, module: Module, host: list[str], *, threads: int) -> None:
        """``host`` is the table of the whole program: each unit adds to it."""
        super().__init__(module, threads=threads)
        self.host = host
        self._kernels: set[str] = set()
        self.is_last = False

    def linkage(self, function: Function) -> str:
        """As `ModuleWriter.linkage`."""
        return "hidden" if function.kind == "kernel" else "internal"

    def table(self) -> str:
        """The table of the program, which is in the last unit, when all that it holds is known."""
        return super().table() if self.is_last else "@tapec.host = external hidden global ptr"

    def add_kernel(self, kernel: Function) -> None:
        """Write a kernel."""
        self._kernels.add(kernel.name)
        KernelWriter(self, kernel).write()

    def lines(self) -> int:
        """How long the text of the functions is."""
        return sum(text.count("\n") for text in self._functions)

    def finish(self) -> str:
        """The text, with declarations of the kernels that are in other units."""
        if self.is_last:
            self._functions += [
                f"declare hidden void {kernel_name(name)}({kernel_types(function)})"
                for name, function in self.module.functions.items()
                if function.kind == "kernel" and name not in self._kernels
            ]
        else:
            self.needs_clock = False
        return super().finish()


def kernel_units(module: Module, host: list[str], *, threads: int) -> Iterator[UnitWriter]:
    """Units that have all kernels between them; the last, which may have none, is the one that calls them.

    ``threads`` are those that the program is for; they are there to compile it, too. The writer of each has to be
    finished before the next is asked for.
    """
    writer = UnitWriter(module, host, threads=threads)
    for function in module.functions.values():
        if function.kind != "kernel":
            continue
        if threads > 1 and writer.lines() >= FULL:
            yield writer
            writer = UnitWriter(module, host, threads=threads)
        writer.add_kernel(function)
    writer.is_last = True
    for function in module.functions.values():
        if function.kind != "kernel":
            KernelWriter(writer, function).write()
    yield writer
