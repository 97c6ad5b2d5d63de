"""Machines that tests run programs on: how to link for each, and how to run what was linked.

Nothing of a C library is linked where the processor has floats; elsewhere the compiler's own arithmetic is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from toolchains import need, run

HERE = Path(__file__).with_name("emulated")
#: How a Cortex-M starts, and where its memory is.
BOARDS = Path(__file__).resolve().parents[1] / "examples" / "edge"
_STRICT = ("-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-nostdlib")


@dataclass(frozen=True)
class Machine:
    """A compiler with its options, and an emulator with its."""

    compiler: str
    options: Sequence[str]
    start: Path
    emulator: Sequence[str]

    def outputs(self, folder: Path, *, library: bool) -> list[int]:
        """What main.c prints when it is linked with net.o of the folder and run."""
        need(self.compiler, self.emulator[0])
        sources = [self.start, HERE / "main.c", folder / "net.o"]
        options = [*_STRICT, *self.options, "-I", folder, "-o", folder / "program"]
        run(self.compiler, *sources, *options, *["-lgcc"] * library)
        return [int(word, 16) for word in run(*self.emulator, folder / "program").split()]


def _linux(compiler: str, emulator: str, *options: str) -> Machine:
    return Machine(compiler, ("-static", *options), HERE / "linux.c", (emulator,))


def _cortex(cpu: str, board: str, flash: str, ram: str, size: str, *floats: str) -> Machine:
    places = [
        f"-Wl,--defsym={k}={v}" for k, v in (("FLASH", flash), ("RAM", ram), ("RAM_SIZE", size))
    ]
    options = [f"-mcpu={cpu}", "-mthumb", *floats, *places, f"-T{BOARDS / 'cortex.ld'}"]
    emulator = (
        f"qemu-system-arm -M {board} -display none -serial none -monitor none -chardev stdio,id=out"
    )
    emulator += " -semihosting-config enable=on,target=native,chardev=out -kernel"
    return Machine("arm-none-eabi-gcc", options, BOARDS / "cortex.c", emulator.split())


_HARD = ("-mfloat-abi=hard",)
_MPS2 = ("0x0", "0x20000000", "0x100000")

#: By the name of the target.
MACHINES = {
    "x86-64": Machine("gcc", ("-static",), HERE / "linux.c", ("env",)),
    "aarch64": _linux("aarch64-linux-gnu-gcc", "qemu-aarch64-static"),
    "armv7hf": _linux("arm-linux-gnueabihf-gcc", "qemu-arm-static"),
    "riscv64gc": _linux("riscv64-linux-gnu-gcc", "qemu-riscv64-static"),
    "riscv32imfc": _linux(
        "riscv64-unknown-elf-gcc", "qemu-riscv32-static", "-march=rv32imfc", "-mabi=ilp32f"
    ),
    "riscv32imc": _linux(
        "riscv64-unknown-elf-gcc", "qemu-riscv32-static", "-march=rv32imc", "-mabi=ilp32"
    ),
    "cortex-m3": _cortex("cortex-m3", "mps2-an385", *_MPS2),
    "cortex-m4f": _cortex("cortex-m4", "mps2-an386", *_MPS2, *_HARD, "-mfpu=fpv4-sp-d16"),
    "cortex-m7": _cortex("cortex-m7", "mps2-an500", *_MPS2, *_HARD, "-mfpu=fpv5-d16"),
    "cortex-m33": _cortex(
        "cortex-m33",
        "mps2-an505",
        "0x10000000",
        "0x38000000",
        "0x100000",
        *_HARD,
        "-mfpu=fpv5-sp-d16",
    ),
    "cortex-m55": _cortex("cortex-m55", "mps3-an547", "0x0", "0x01000000", "0x100000", *_HARD),
    "cortex-m0": _cortex("cortex-m0", "microbit", "0x0", "0x20000000", "0x4000"),
}


def inputs_header(batches: Sequence[tuple[np.ndarray, np.ndarray]]) -> str:
    """Arrays for training steps as C, exact to the bit."""

    def rows(arrays: Sequence[np.ndarray]) -> str:
        return ",\n".join(
            "{" + ", ".join(map(hex, a.view(np.uint32).ravel())) + "}" for a in arrays
        )

    xs, ys = zip(*batches, strict=True)
    return (
        f"#include <stdint.h>\nenum {{ STEPS = {len(xs)} }};\n"
        f"static const uint32_t inputs[STEPS][{xs[0].size}] = {{\n{rows(xs)}\n}};\n"
        f"static const int32_t labels[STEPS][{ys[0].size}] = {{\n{rows(ys)}\n}};\n"
    )
