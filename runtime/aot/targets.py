"""The machines that programs are built for ahead of time, and what each lacks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tapec.ir.errors import TargetError
from tapec.runtime.cpu.vectors import VectorUnit

#: No vector registers, or none that are worth their code.
_SCALAR = VectorUnit(0, False)
_SHORT = VectorUnit(16, False)


@dataclass(frozen=True)
class EdgeTarget:
    """One machine.

    Attributes:
        name: what a user calls it.
        triple: LLVM's name: architecture, vendor, system, and for ARM the calling convention.
        cpu: LLVM's name of the processor.
        features: LLVM's instruction sets, as ``+m,+c``.
        abi: of the calls, where the triple does not say it.
        bits: the width of an address.
        int_bits: the width of C's ``int``.
        vectors: its vector registers, as schedules use them.
        hosted: there is an operating system that loads shared libraries.
        fma: there is an instruction that multiplies and adds with one rounding.
        rounds: there are instructions that round floats to whole numbers.
        floats: the floats that it has instructions for; others are computed by functions of the C compiler's library.
        half: there are instructions that convert floats of 16 bits.
        double: C's ``double`` has 64 bits, and so have the functions that compute with it.
        alignment: to what its C compilers align numbers at most, in bytes.
        lacks: what is worth knowing of it, for people.
        gcc: how GCC is called for code that is linked with an object: the processor, and how calls pass floats.
    """

    name: str
    triple: str
    cpu: str = "generic"
    features: str = ""
    abi: str = ""
    bits: int = 64
    int_bits: int = 32
    vectors: VectorUnit = _SCALAR
    hosted: bool = False
    fma: bool = True
    rounds: bool = True
    floats: frozenset[str] = frozenset({"f32", "f64"})
    half: bool = True
    double: bool = True
    alignment: int = 8
    lacks: str = ""
    gcc: str = ""

    @property
    def wanting(self) -> str:
        """What it lacks, for people: `lacks`, and what there is of floats of 16 bits."""
        if not self.floats or not self.triple:
            return self.lacks
        # None computes with them: kernels widen them, and round what they computed.
        half = "no float16 arithmetic, only conversions" if self.half else "no float16 instructions"
        return f"{self.lacks}; {half}" if self.lacks else half

    @property
    def orders(self) -> bool:
        """Whether LLVM has code for the larger of two floats, -0 and NaN included.

        On ARM it aborts over float64, and for float32 takes NEON where it is, which takes subnormals for 0.
        """
        return "f64" not in self.floats or not self.triple.startswith(("arm", "thumb"))

    @property
    def small(self) -> bool:
        """Whether the size of code counts more than its speed, if nobody says."""
        return not self.hosted


def _cortex(name: str, triple: str, cpu: str, **more: object) -> EdgeTarget:
    # Four parts: LLVM takes three without a word, and then calls by another convention.
    arch, system = triple.split(" ")
    return replace(EdgeTarget(name, f"{arch}-unknown-none-{system}", cpu, bits=32), **more)  # type: ignore[arg-type]


_NO_FLOATS: dict[str, object] = {
    "floats": frozenset(), "fma": False, "rounds": False, "half": False,
}  # fmt: skip
_SINGLE: dict[str, object] = {"floats": frozenset({"f32"})}
_SOFT = "no float instructions: arithmetic calls the compiler's library"
_NO_F64 = "no float64 instructions"
_LINUX = "x86_64-unknown-linux-gnu"

_ROWS = (
    EdgeTarget(
        "x86-64", _LINUX, "x86-64", vectors=_SHORT, hosted=True, fma=False, rounds=False,
        half=False, lacks="no fused multiply-add; 4 floats in a vector",
    ),
    EdgeTarget(
        "x86-64-v2", _LINUX, "x86-64-v2", vectors=_SHORT, hosted=True, fma=False, half=False,
        lacks="no fused multiply-add; 4 floats in a vector",
    ),
    EdgeTarget("x86-64-v3", _LINUX, "x86-64-v3", vectors=VectorUnit(32, True), hosted=True),
    EdgeTarget("x86-64-v4", _LINUX, "x86-64-v4", vectors=VectorUnit(64, True), hosted=True),
    EdgeTarget(
        "aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon", vectors=_SHORT, hosted=True
    ),
    EdgeTarget(
        "armv7hf", "armv7-unknown-linux-gnueabihf", "cortex-a7", "+vfp4,+neon", bits=32,
        hosted=True, lacks="no vectors: NEON takes subnormals for 0", rounds=False,
    ),
    _cortex("cortex-m0", "thumbv6m eabi", "cortex-m0", lacks=_SOFT, **_NO_FLOATS),
    _cortex("cortex-m3", "thumbv7m eabi", "cortex-m3", lacks=_SOFT, **_NO_FLOATS),
    _cortex("cortex-m4f", "thumbv7em eabihf", "cortex-m4", rounds=False, lacks=_NO_F64, **_SINGLE),
    _cortex("cortex-m7", "thumbv7em eabihf", "cortex-m7"),
    _cortex("cortex-m33", "thumbv8m.main eabihf", "cortex-m33", lacks=_NO_F64, **_SINGLE),
    _cortex(
        "cortex-m55", "thumbv8.1m.main eabihf", "cortex-m55",
        lacks="no vectors: Helium takes subnormals for 0",
    ),
    EdgeTarget(
        "riscv32imc", "riscv32-unknown-none-elf", "generic-rv32", "+m,+c", "ilp32", bits=32,
        lacks=_SOFT, **_NO_FLOATS,  # type: ignore[arg-type]
    ),
    EdgeTarget(
        "riscv32imfc", "riscv32-unknown-none-elf", "generic-rv32", "+m,+f,+c", "ilp32f", bits=32,
        rounds=False, half=False, lacks=_NO_F64, **_SINGLE,  # type: ignore[arg-type]
    ),
    EdgeTarget(
        "riscv64gc", "riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c", "lp64d",
        hosted=True, rounds=False, half=False, lacks="no vectors",
    ),
    EdgeTarget(
        "riscv64gcv", "riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c,+v", "lp64d",
        hosted=True, rounds=False, half=False, vectors=_SHORT,
    ),
    EdgeTarget(
        "wasm32", "wasm32-unknown-unknown", "generic", "+simd128", bits=32, vectors=_SHORT,
        fma=False, half=False, lacks="no fused multiply-add",
    ),
    EdgeTarget("c", "", bits=32, lacks="for any C99 compiler: source only, by emit='c'"),
    EdgeTarget(
        "avr", "avr-unknown-none", "atmega2560", bits=16, int_bits=16, double=False, alignment=1,
        lacks=f"{_SOFT}; no float64", **_NO_FLOATS,  # type: ignore[arg-type]
    ),
)  # fmt: skip

#: How GCC is called for them, where there is one. Tests link by these.
_GCC = {
    **dict.fromkeys(("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"), "gcc"),
    "aarch64": "aarch64-linux-gnu-gcc",
    "armv7hf": "arm-linux-gnueabihf-gcc",
    "cortex-m0": "arm-none-eabi-gcc -mcpu=cortex-m0 -mthumb",
    "cortex-m3": "arm-none-eabi-gcc -mcpu=cortex-m3 -mthumb",
    "cortex-m4f": "arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16",
    "cortex-m7": "arm-none-eabi-gcc -mcpu=cortex-m7 -mthumb -mfloat-abi=hard -mfpu=fpv5-d16",
    "cortex-m33": "arm-none-eabi-gcc -mcpu=cortex-m33 -mthumb -mfloat-abi=hard -mfpu=fpv5-sp-d16",
    "cortex-m55": "arm-none-eabi-gcc -mcpu=cortex-m55 -mthumb -mfloat-abi=hard",
    "riscv32imc": "riscv64-unknown-elf-gcc -march=rv32imc -mabi=ilp32",
    "riscv32imfc": "riscv64-unknown-elf-gcc -march=rv32imfc -mabi=ilp32f",
    "riscv64gc": "riscv64-linux-gnu-gcc",
    "riscv64gcv": "riscv64-linux-gnu-gcc",
    "avr": "avr-gcc -mmcu=atmega2560",
}

#: By name.
EDGE_TARGETS: Mapping[str, EdgeTarget] = {
    row.name: replace(row, gcc=_GCC.get(row.name, "")) for row in _ROWS
}

#: Widths of addresses, by the first letters of a triple.
_BITS = (
    (r"(x86_64|aarch64|arm64|riscv64|powerpc64|ppc64|mips64|loongarch64|sparcv9|s390x|wasm64)", 64),
    (r"(i[3-6]86|arm|thumb|riscv32|mips|ppc|powerpc|sparc|wasm32|hexagon|loongarch32)", 32),
    (r"(avr|msp430)", 16),
)
#: And to what C compilers align numbers at most, where that is less than 8.
_ALIGNMENT = ((r"i[3-6]86", 4), (r"msp430", 2), (r"avr", 1))


def edge_target(name: str, cpu: str | None = None, features: str | None = None) -> EdgeTarget:
    """A target by its name or by an LLVM triple, perhaps with another processor.

    Raises:
        TargetError: nothing is called so.
    """
    found = EDGE_TARGETS.get(name) or _by_triple(name)
    if cpu is not None:
        found = replace(found, cpu=cpu)
    return found if features is None else replace(found, features=features)


def _by_triple(triple: str) -> EdgeTarget:
    """A target of which only the triple is known: without vectors, and with nothing assumed."""
    same = [row for row in EDGE_TARGETS.values() if row.triple == triple]
    if same:
        return replace(same[0], name=triple)
    bits = next((n for pattern, n in _BITS if re.match(pattern, triple)), None)
    if bits is None or triple.count("-") < 2:
        raise TargetError(
            f"there is no target {triple!r}",
            hint=f"one of {', '.join(EDGE_TARGETS)}, a triple of LLVM's such as thumbv7em-unknown-none-eabihf, or a "
            "CUDA device such as cuda-sm_90; for machines that LLVM does not know, such as ESP32's Xtensa, build C "
            "source: target='c', emit='c'",
        )
    alignment = next((n for pattern, n in _ALIGNMENT if re.match(pattern, triple)), 8)
    hosted = any(system in triple for system in ("linux", "darwin", "windows", "bsd"))
    # No processor whose addresses have 16 bits computes with floats.
    floats = frozenset[str]() if bits == 16 else EdgeTarget.floats
    return EdgeTarget(
        triple, triple, "", bits=bits, int_bits=16 if bits == 16 else 32, hosted=hosted, fma=False,
        rounds=False, half=False, floats=floats, alignment=alignment,
    )  # fmt: skip
