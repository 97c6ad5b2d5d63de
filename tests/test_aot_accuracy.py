"""Mathematical functions on processors without a fused multiply-add: as exact as with it, but for half a unit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulation import called
from portable_programs import BARE, SCALAR, model_of, portable
from programs_of_ops import Program
from test_vectormath import CASES, TWO, WIDE, arguments, ulps

from tapec.ir.core import Module
from tapec.ir.op import OPS
from tapec.runtime.aot.building import Build, Options
from tapec.runtime.aot.targets import EDGE_TARGETS
from tapec.runtime.cpu.mathematics.vectormath import BOUNDS

MACHINES = {
    "c": EDGE_TARGETS["c"],
    "bare": BARE,
    "x86-64": replace(EDGE_TARGETS["x86-64"], vectors=SCALAR),
}
#: In units of the last place, beyond what is promised where products are not rounded before they are added.
MORE = 0.5


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_errors(machine: str, dtype: Any) -> None:
    program, operands = Program(), {}
    for name, (low, high, _) in CASES.items():
        operands[name] = [arguments(low, high, dtype, 1)[::16]]
        if name in TWO:
            operands[name].append(arguments(-50, 50, dtype, 2)[::16])
        program.add(OPS[name], operands[name], {})
    large = np.exp2(np.linspace(15, 1000 if dtype is np.float64 else 127, 500)).astype(dtype)
    x, y = large * np.float32(0.7), arguments(-100, 100, dtype, 6)[:500]
    for name in ("mod", "floordiv"):
        program.add(OPS[name], [x, np.where(y == 0, dtype(1), y)], {})
    program.add(OPS["sin"], [large], {})
    *found, mod, floordiv, sines = program.run(portable(MACHINES[machine]))
    for (got, _), (name, given) in zip(found, operands.items(), strict=True):
        with np.errstate(all="ignore"):
            wanted = CASES[name][2](*(a.astype(WIDE) for a in given))
        worst = ulps(got, wanted, dtype).max()
        assert worst <= BOUNDS[name][dtype is np.float64] + MORE, name
    for got, wanted in (mod, floordiv):
        np.testing.assert_array_equal(got, wanted)
    np.testing.assert_allclose(*sines, rtol=4 * np.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("machine", ["armv7hf", "cortex-m7"])
def test_the_larger_and_the_smaller_on_arm(tmp_path: Path, machine: str) -> None:
    """LLVM has no code for float64 there, and for float32 takes NEON, which takes subnormals for 0."""
    program, target, wanted = Program(), EDGE_TARGETS[machine], list[Any]()
    for dtype in (np.float32, np.float64):
        tiny, nan = np.finfo(dtype).smallest_subnormal, np.nan
        x = np.array([0.0, tiny, -tiny, -0.0, nan, 1.0], dtype)
        y = np.array([tiny, 0.0, -0.0, 0.0, 1.0, nan], dtype)
        program.add(OPS["max"], [x, y], {})
        program.add(OPS["min"], [x, y], {})
        wanted.append(np.array([tiny, tiny, -0.0, 0.0, nan, nan], dtype))
        wanted.append(np.array([0.0, 0.0, -tiny, -0.0, nan, nan], dtype))
    program.builder.emit("return", *program.results)
    model = model_of(Module([program.function]), target.vectors)
    found = called(machine, Build(model, target, Options()), program.arrays, tmp_path)
    for got, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(np.signbit(got)[:4], np.signbit(expected)[:4])


EMULATED = ["aarch64", "armv7hf", "riscv64gcv", "riscv32imc", "cortex-m55", "cortex-m0"]


@pytest.mark.parametrize("machine", EMULATED)
def test_errors_on_other_machines(tmp_path: Path, machine: str) -> None:
    """Subnormal results among them, which some vector units would not give."""
    target = EDGE_TARGETS[machine]
    program, operands = Program(), {}
    for name, (low, high, _) in CASES.items():
        operands[name] = [arguments(low, high, np.float32, 1)[::400]]
        if name in TWO:
            operands[name].append(arguments(-50, 50, np.float32, 2)[::400])
        program.add(OPS[name], operands[name], {})
    program.builder.emit("return", *program.results)
    model = model_of(Module([program.function]), target.vectors)
    found = called(machine, Build(model, target, Options()), program.arrays, tmp_path)
    for got, (name, given) in zip(found, operands.items(), strict=True):
        with np.errstate(all="ignore"):
            wanted = CASES[name][2](*(a.astype(WIDE) for a in given))
        assert ulps(got, wanted, np.float32).max() <= BOUNDS[name][0] + MORE, name
