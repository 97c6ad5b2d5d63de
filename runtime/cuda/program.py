"""A module as a program that takes and gives arrays: on a device, or in the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapec.ir.core import Module
from tapec.runtime.cuda.device.device_program import DeviceProgram
from tapec.runtime.cuda.device.driver import Driver, device
from tapec.runtime.cuda.launches import Host, listing
from tapec.runtime.cuda.simulator.memory import Cells, cells_of
from tapec.runtime.cuda.simulator.simulator import MOST_BLOCKS, Simulator
from tapec.runtime.cuda.text.module_text import Text, write_text
from tapec.runtime.executable import Executable, Signature
from tapec.runtime.python_text.program import Arrays
from tapec.runtime.symbols import value_of


def compile_program(module: Module, driver: Driver | None = None, *, number: int = 0) -> Executable:
    """A module on a device of a number, or on what stands for one.

    Raises:
        TargetError: it has what the target cannot do; there is no device, no driver, or an old one.
    """
    text = write_text(module)
    call = DeviceProgram(text, driver or device(number))
    return Executable(Signature.of(module), call, resident=True, steady=call.steady)


def simulated(module: Module, *, blocks: int = MOST_BLOCKS) -> Executable:
    """A module whose kernels Python runs, watching every access (`tapec.runtime.cuda.simulator.simulator`).

    Args:
        module: dealt out by `tapec.passes.device.spread`.
        blocks: of a launch, at most.

    Raises:
        TargetError: it has what the target cannot do.
    """
    call = _Simulated(write_text(module), blocks)
    return Executable(Signature.of(module), call, native=False)


def cuda_text(module: Module, form: str) -> str:
    """Launches and kernels as Python text (``cuda``), or the kernels as ``ptx``."""
    text = write_text(module)
    if form == "cuda":
        return f"{listing(text)}\n\n{text.source()}"
    from tapec.runtime.cuda.machine_code.assembly import Compiler  # needs numba-cuda

    return "\n".join(one.annotated(text) for one in Compiler(text).all().values())


class _Simulated:
    """What an `Executable` calls."""

    def __init__(self, text: Text, blocks: int) -> None:
        self._text = text
        self._blocks = blocks
        self._arrays = Arrays(text.module)

    def __call__(self, *arrays: Any) -> list[Any] | None:
        """Run every kernel.

        Raises:
            TypeError: the arrays are not exactly of their types, without details.
            SimulationError: a kernel did what has no meaning on a device.
        """
        given, results, sizes, brought = self._arrays.take(arrays)
        updated = {*self._arrays.signature.updates.values()}
        memory = {("arg", i): cells_of(a, constant=i not in updated) for i, a in enumerate(given)}
        memory |= {("result", i): cells_of(a, written=False) for i, a in enumerate(results)}
        memory["arena", 0] = Cells(
            np.full(value_of(self._arrays.signature.arena_bytes, sizes), 0xFF, np.uint8),
            written=False,
        )
        text = self._text.of_sizes(sizes)
        Host(text, Simulator(text, memory, blocks=self._blocks), sizes).run()
        for i in range(len(results)):
            memory["result", i].hold_to_written(f"result {i}")
        return None if brought else list(results)
