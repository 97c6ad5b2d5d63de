"""Functions of scalars as straight-line code: what is converted, what is not, and that lanes choose rightly."""

from __future__ import annotations

import ctypes
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

from tapec.ir.foreign import KERNEL, ForeignCode
from tapec.ir.types import F64
from tapec.runtime.cpu.machine_code.jit import host_compiler
from tapec.runtime.cpu.mathematics.straight_line import blocks_of, straighten
from tapec.runtime.cpu.mathematics.vectormath import MathLibrary
from tapec.runtime.cpu.text.foreign import ForeignLibrary

LANES = 8
#: Bodies of ``double f(double %a0)``, with what they compute.
STRAIGHT: dict[str, tuple[str, Any]] = {
    "arithmetic": (
        "%y = fmul double %a0, 2.0\n %z = fadd double %y, 0x3FF8000000000000\n ret double %z",
        lambda x: 2 * x + 1.5,
    ),
    "constants alone": ("ret double 4.0", lambda x: 0 * x + 4),
    "a branch": (
        """%c = fcmp ogt double %a0, 0.0
        br i1 %c, label %then, label %done
      then:
        %y = fneg double %a0
        br label %done
      done:
        %z = phi double [ %y, %then ], [ %a0, %entry ]
        ret double %z""",
        lambda x: -np.abs(x),
    ),
    "nested branches, several returns": (
        """%c = fcmp ogt double %a0, 0.0
        br i1 %c, label %high, label %low
      high:
        %d = fcmp ogt double %a0, 1.0
        br i1 %d, label %top, label %middle
      top:
        ret double 3.0
      middle:
        %m = fmul double %a0, %a0
        br label %join
      low:
        %e = fcmp olt double %a0, -1.0
        br i1 %e, label %bottom, label %join
      bottom:
        ret double -3.0
      join:
        %z = phi double [ %m, %middle ], [ 7.0, %low ]
        ret double %z""",
        lambda x: np.where(x > 1, 3, np.where(x > 0, x * x, np.where(x < -1, -3, 7.0))),
    ),
    "one block from two ways of a branch": (
        """%c = fcmp ogt double %a0, 0.0
        br i1 %c, label %a, label %b
      a:
        %d = fcmp ogt double %a0, 1.0
        br i1 %d, label %done, label %b
      b:
        %y = fadd double %a0, 10.0
        br label %done
      done:
        %z = phi double [ %y, %b ], [ 5.0, %a ]
        ret double %z""",
        lambda x: np.where(x > 1, 5, x + 10),
    ),
    "integers and intrinsics": (
        """%i = fptosi double %a0 to i32
        %j = call i32 @llvm.abs.i32(i32 %i, i1 false)
        %k = shl nsw i32 %j, 2
        %f = sitofp i32 %k to double
        %g = call double @llvm.copysign.f64(double %f, double %a0)
        ret double %g""",
        lambda x: np.copysign(4 * np.abs(np.trunc(x)), x),
    ),
}
OTHERS = {
    "a loop": """br label %again
      again:
        %x = phi double [ %a0, %entry ], [ %y, %again ]
        %y = fmul double %x, 0.5
        %c = fcmp ogt double %y, 1.0
        br i1 %c, label %again, label %done
      done:
        ret double %y""",
    "memory": "%p = alloca double\n store double %a0, ptr %p\n %y = load double, ptr %p\n ret double %y",
    "a division of integers, which may trap": """%i = fptosi double %a0 to i32
        %j = sdiv i32 7, %i
        %y = sitofp i32 %j to double
        ret double %y""",
    "a switch": """%i = fptosi double %a0 to i32
        switch i32 %i, label %b [ i32 1, label %a ]
      a:
        ret double 1.0
      b:
        ret double 2.0""",
    "words about an operand": "%y = call double @llvm.fabs.f64(double nofpclass(nan) %a0)\n ret double %y",
}
_DECLARED = """declare i32 @llvm.abs.i32(i32, i1)
declare double @llvm.copysign.f64(double, double)
declare double @llvm.fabs.f64(double)
"""


def blocks(body: str) -> list[tuple[str, list[str]]]:
    text = f"{_DECLARED}define double @f(double %a0) {{\nentry:\n  {body}\n}}\n"
    module = llvm.parse_assembly(text)
    module.verify()
    return blocks_of(module.get_function("f"))


def on_vectors(code: ForeignCode, xs: Any) -> Any:
    """Run the function of vectors."""
    library = ForeignLibrary(MathLibrary(), lambda name: "null")
    name = library.vector_function("test.f", code, [F64], LANES)
    vector = f"<{LANES} x double>"
    attributes = "attributes #1 = { alwaysinline }"
    text = f"""{library.text()}
define void @run(ptr %from, ptr %to) {{
  %x = load {vector}, ptr %from, align 8
  %y = call {vector} {name}({vector} %x)
  store {vector} %y, ptr %to, align 8
  ret void
}}
{attributes}
"""
    compiler = host_compiler(1)
    target = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(compiler.optimised(text), target)
    engine.finalize_object()
    ys = np.empty_like(xs)
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        engine.get_function_address("run")
    )
    run(xs.ctypes.data, ys.ctypes.data)
    return ys


@pytest.mark.parametrize("name", STRAIGHT)
def test_lanes_choose(name: str) -> None:
    body, meaning = STRAIGHT[name]
    line = straighten(blocks(body))
    assert line is not None
    xs = np.array([-2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 3.25])
    code = ForeignCode("0", (F64,), "", line)
    np.testing.assert_array_equal(on_vectors(code, xs), meaning(xs))


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay_as_they_are(name: str) -> None:
    found = blocks(OTHERS[name])
    assert straighten(found) is None
    if name == "a loop":  # which runs lane by lane
        lines = [line for label, body in found for line in (f"{label[1:]}:", *body)]
        text = "\n".join([f'define internal double {KERNEL}"(double %a0) #1 {{', *lines, "}"])
        xs = np.array([0.5, 3.0, 17.0, 1.0, 2.0, 4.0, 5.0, 100.0])
        ys = on_vectors(ForeignCode("0", (F64,), text), xs)
        np.testing.assert_array_equal(
            ys, [x / 2 if x <= 2 else x / 2 ** np.ceil(np.log2(x)) for x in xs]
        )
