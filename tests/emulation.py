"""Machines that tests run programs on: how to link for each, and how to run what was linked.

Nothing of a C library is linked where the processor has floats; elsewhere the compiler's own arithmetic is.
"""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from toolchains import need, run

from tapec import aot
from tapec.runtime.aot.building import Build
from tapec.runtime.aot.declarations import c_type
from tapec.runtime.aot.entry_point import is_by_value

#: What a step is given.
Batch = tuple[np.ndarray, np.ndarray]

HERE = Path(__file__).with_name("emulated")
#: How a Cortex-M starts, and where its memory is.
BOARDS = Path(__file__).resolve().parents[1] / "examples" / "edge"
_WORD = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?![0-9a-f])")
_STRICT = ("-O1", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-ffreestanding", "-nostdlib")


#: How a program begins that prints words.
CALLING = """
#include "net.h"
void put(const char *text);
static void put_word(uint32_t word) {
    char text[10];
    for (int i = 0; i < 8; i++) text[i] = "0123456789abcdef"[word >> (28 - 4 * i) & 15];
    text[8] = '\\n';
    text[9] = 0;
    put(text);
}
static void words(const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i += 4) {
        uint32_t word = 0;
        for (size_t k = 0; k < 4 && i + k < count; k++) word |= (uint32_t)bytes[i + k] << (8 * k);
        put_word(word);
    }
}
"""


@dataclass(frozen=True)
class Machine:
    """A compiler with its options, an emulator with its, and what has arithmetic that the processor lacks."""

    compiler: str
    options: Sequence[str]
    start: Path
    emulator: Sequence[str]
    library: Sequence[str] = ("-lgcc",)

    def outputs(self, folder: Path, *, library: bool, main: Path = HERE / "main.c") -> list[int]:
        """What a main program prints when it is linked with net.o of the folder and run."""
        need(self.compiler, self.emulator[0])
        start = _object(self.compiler, *_STRICT, *self.options, str(self.start))
        sources = [start, main, folder / "net.o"]
        options = [*_STRICT, *self.options, "-I", folder, "-o", folder / "program"]
        run(self.compiler, *sources, *options, *(self.library if library else ()))
        # Some emulators report on the standard error what a port sends, in lines of their own form.
        said = run(*self.emulator, folder / "program", merged=True)
        return [int(word, 16) for word in _WORD.findall(said)]


_OBJECTS = tempfile.TemporaryDirectory()  # goes with this process


@functools.cache
def _object(*command: str) -> Path:
    """What a command compiles, which all programs for a machine begin with."""
    made = Path(tempfile.mkdtemp(dir=_OBJECTS.name)) / "start.o"
    run(*command, "-c", "-o", made)
    return made


def _machine(
    target: str, start: Path, emulator: str, *options: str, library: Sequence[str] = ("-lgcc",)
) -> Machine:
    """A machine with the compiler that its target names."""
    compiler, *needed = aot.targets()[target].gcc.split()
    return Machine(compiler, (*needed, *options), start, emulator.split(), library)


def _linux(target: str, emulator: str) -> Machine:
    return _machine(target, HERE / "linux.c", emulator, "-static")


def _cortex(target: str, board: str, flash: str, ram: str, size: str) -> Machine:
    places = [
        f"-Wl,--defsym={k}={v}" for k, v in (("FLASH", flash), ("RAM", ram), ("RAM_SIZE", size))
    ]
    emulator = (
        f"qemu-system-arm -M {board} -display none -serial none -monitor none -chardev stdio,id=out"
    )
    emulator += " -semihosting-config enable=on,target=native,chardev=out -kernel"
    return _machine(target, BOARDS / "cortex.c", emulator, *places, f"-T{BOARDS / 'cortex.ld'}")


_MPS2 = ("0x0", "0x20000000", "0x100000")

#: By the name of the target.
MACHINES = {
    "x86-64": _linux("x86-64", "env"),
    "x86-64-v2": _linux("x86-64-v2", "qemu-x86_64-static -cpu Nehalem"),
    "aarch64": _linux("aarch64", "qemu-aarch64-static"),
    "armv7hf": _linux("armv7hf", "qemu-arm-static"),
    "riscv64gc": _linux("riscv64gc", "qemu-riscv64-static"),
    "riscv64gcv": _linux("riscv64gcv", "qemu-riscv64-static -cpu rv64,v=true,vlen=128"),
    "avr": _machine("avr", HERE / "avr.c", "simavr -m atmega2560", library=("-lm", "-lgcc")),
    "riscv32imfc": _machine("riscv32imfc", HERE / "linux.c", "qemu-riscv32-static"),
    "riscv32imc": _machine("riscv32imc", HERE / "linux.c", "qemu-riscv32-static"),
    "cortex-m3": _cortex("cortex-m3", "mps2-an385", *_MPS2),
    "cortex-m4f": _cortex("cortex-m4f", "mps2-an386", *_MPS2),
    "cortex-m7": _cortex("cortex-m7", "mps2-an500", *_MPS2),
    "cortex-m33": _cortex("cortex-m33", "mps2-an505", "0x10000000", "0x38000000", "0x100000"),
    "cortex-m55": _cortex("cortex-m55", "mps3-an547", "0x0", "0x01000000", "0x100000"),
    "cortex-m0": _cortex("cortex-m0", "microbit", "0x0", "0x20000000", "0x4000"),
}


@dataclass(frozen=True)
class Trained:
    """What a machine printed: losses of steps, what was inferred then, and bytes of stack that a step took."""

    losses: np.ndarray
    inferred: np.ndarray
    stack: int


def trained(
    machine: str, built: aot.Built, batches: Sequence[Batch], steps: int, folder: Path
) -> Trained:
    """Train with a model called ``net``, with functions ``train`` and ``infer`` and a selftest, on a machine."""
    built.write(folder)
    small = MACHINES[machine].compiler == "avr-gcc"
    (folder / "inputs.h").write_text(inputs_header(batches, steps, 480 if small else 4096))
    *words, stack = MACHINES[machine].outputs(folder, library=not built.target.floats)
    numbers = np.array(words, np.uint32).view(np.float32)
    return Trained(numbers[:steps], numbers[steps:], stack)


def inputs_header(batches: Sequence[Batch], steps: int, painted: int) -> str:
    """Arrays for training steps as C, exact to the bit, each taken again and again; bytes of stack to paint."""

    def rows(arrays: Sequence[np.ndarray]) -> str:
        return ",\n".join(
            "{" + ", ".join(map(hex, a.view(np.uint32).ravel())) + "}" for a in arrays
        )

    xs, ys = zip(*batches, strict=True)
    label = "float" if ys[0].dtype == np.float32 else "int32_t"
    return (
        f"#include <stdint.h>\n#define LABEL {label}\n"
        f"enum {{ STEPS = {steps}, BATCHES = {len(xs)}, PAINTED = {painted} }};\n"
        f"static const uint32_t inputs[BATCHES][{xs[0].size}] = {{\n{rows(xs)}\n}};\n"
        f"static const uint32_t labels[BATCHES][{ys[0].size}] = {{\n{rows(ys)}\n}};\n"
    )


def calling(build: Build, arrays: Sequence[np.ndarray]) -> str:
    """A program in C that calls a model's first function with arrays, and prints the words of what it gives."""
    model, entry = build.model, build.model.entries[0]
    lines, given = [CALLING], []
    starting, printing = [], []
    if model.state:
        lines.append("static net_state state;")
        # Byte by byte, and so that no compiler calls a library for it.
        starting.append(
            "for (size_t i = 0; i < sizeof state; i++) "
            "((volatile unsigned char *)&state)[i] = ((const unsigned char *)&net_initial)[i];"
        )
        printing.append("words((const unsigned char *)&state, sizeof state);")
    if entry.reads_state:
        given.append("&state")
    for p, array in zip(entry.inputs, arrays, strict=True):
        data = np.ascontiguousarray(array).tobytes()
        held = np.frombuffer(data + bytes(-len(data) % 4), np.uint32)
        lines.append(f"static const union {{ uint32_t words[{max(len(held), 1)}]; int64_t most; }}")
        lines.append(f"in_{p.name} = {{{{{', '.join(map(hex, held)) or 0}}}}};")
        place = f"(const void *)&in_{p.name}"
        given.append(f"*(const {c_type(p.item)} *){place}" if is_by_value(p) else place)
    for p in reversed(entry.outputs):
        size = max(p.most, 1) * p.item.bytes
        lines.append(f"static union {{ unsigned char bytes[{size}]; int64_t most; }} out_{p.name};")
        printing.insert(0, f"words(out_{p.name}.bytes, {p.most * p.item.bytes});")
    given += [f"(void *)&out_{p.name}" for p in entry.outputs]
    if entry.arena_bytes:
        lines.append("static NET_DECLARE_ARENA(arena);")
        given.append("&arena")
    calls = f"if (net_{entry.name}({', '.join(given)})) return 1;"
    return "\n".join([*lines, "int main(void) {", *starting, calls, *printing, "return 0;\n}\n"])


def called(machine: str, build: Build, arrays: Sequence[np.ndarray], folder: Path) -> list[Any]:
    """What the function of a model called ``net`` gives on a machine, then the parts of the state."""
    for name, contents in build.files().items():
        (folder / name).write_bytes(contents)
    source = folder / "calling.c"
    source.write_text(calling(build, arrays))
    library = bool(build.symbols.missing) or not build.target.floats
    words = MACHINES[machine].outputs(folder, library=library, main=source)
    held = np.array(words, np.uint32).tobytes()
    found, at = [], 0
    for p in build.model.entries[0].outputs:
        shape = p.type.static_shape
        array = np.frombuffer(held, p.type.dtype.numpy, int(np.prod(shape)), at)
        found.append(array.reshape(shape))
        at += -(-array.nbytes // 4) * 4
    for m in build.model.state:
        array = np.frombuffer(held, m.initial.dtype, m.initial.size, at + m.offset)
        found.append(array.reshape(m.initial.shape))
    return found


def in_webassembly(
    built: aot.Built, batches: Sequence[Batch], folder: Path
) -> tuple[np.ndarray, np.ndarray]:
    """Losses of steps in WebAssembly, and what was inferred then; the model is as for `trained`."""
    need("wasm-ld", "node")
    built.write(folder)
    options = ["--no-entry", "--export-all", "-o", "net.wasm", "net.o"]
    run("wasm-ld", *options, cwd=folder)
    (folder / "inputs").write_bytes(b"".join(x.tobytes() for x, _ in batches))
    (folder / "labels").write_bytes(b"".join(y.tobytes() for _, y in batches))
    header = built.files["net.h"].decode()
    items = re.search(r"#define NET_INFER_RESULT_ITEMS (\d+)", header)
    assert items is not None
    sizes = [built.state_bytes, built.arena_bytes, batches[0][0].size, items[1]]
    files = [HERE / "wasm.mjs", "net.wasm", "inputs", "labels"]
    words = [int(word, 16) for word in run("node", *files, *sizes, cwd=folder).split()]
    numbers = np.array(words, np.uint32).view(np.float32)
    return numbers[: len(batches)], numbers[len(batches) :]
