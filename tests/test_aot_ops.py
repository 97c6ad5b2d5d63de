"""Every operation on machines that lack much: as C, and as objects that have four rules of arithmetic and no more."""

from __future__ import annotations

import re
from itertools import islice
from typing import Any

import numpy as np
import pytest
from portable_programs import BARE, portable
from programs_of_ops import Program, assert_close, edge_program
from sampling import arrays, retyped, tensor_ops

import tapec
from tapec import aot
from tapec.errors import TapecError
from tapec.ir.op import OPS, Op
from tapec.ir.types import BF16, BOOL, F16, F32, F64, I32, I64, U8, U32
from tapec.runtime.aot.targets import EDGE_TARGETS

DTYPES = (F32, F64, I32, I64, U8, U32, BOOL)
#: These go the way of float32 but for loads and stores: one sample tells.
SMALL = (F16, BF16)
MACHINES = {"c": EDGE_TARGETS["c"], "bare": BARE}


def groups(size: int) -> list[tuple[Op, ...]]:
    """All operations, so many at a time."""
    left = iter(tensor_ops())
    return list(iter(lambda: tuple(islice(left, size)), ()))


def add_samples(program: Program, defn: Op) -> None:
    """The operation on its samples, for the dtypes that C has, and one for those of 16 bits."""
    for i, sample in enumerate(defn.samples()):
        for dtype in (*DTYPES, *(() if i else SMALL)):
            variant = retyped(defn, sample, dtype)
            if variant is None:
                continue
            results = defn.infer(*variant.types, **variant.attrs)
            types = [*variant.types, *(results if isinstance(results, tuple) else (results,))]
            if not any(t.dtype.is_complex for t in types):
                program.add(defn, arrays(variant), variant.attrs)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("defns", groups(7), ids=lambda defns: defns[0].name)
def test_samples(defns: tuple[Op, ...], machine: str) -> None:
    program = Program()
    for defn in defns:
        add_samples(program, defn)
    if program.results:
        for found, expected in program.run(portable(MACHINES[machine])):
            assert_close(found, expected, ulps=64)


ROUNDED = ["floor", "ceil", "round", "sqrt", "max", "min"]


@pytest.mark.parametrize("name", ROUNDED)
def test_what_replaces_instructions_is_right_at_the_edges(name: str) -> None:
    defn: Any = OPS[name]
    program = edge_program(defn)
    for found, expected in program.run(portable(BARE)):
        assert_close(found, expected, ulps=2)
        if found.dtype.kind == "f" and name in ("floor", "ceil", "round"):
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_zeros_the_sign_counts(machine: str, dtype: Any) -> None:
    a = np.array([0.0, -0.0, 0.0, -0.0, np.nan, 1.0, -np.inf], dtype)
    b = np.array([-0.0, 0.0, 0.0, -0.0, 1.0, np.nan, 2.0], dtype)
    program = Program()
    program.add(OPS["max"], [a, b], {})
    program.add(OPS["min"], [a, b], {})
    (highest, _), (lowest, _) = program.run(portable(MACHINES[machine]))
    np.testing.assert_array_equal(highest, np.array([0, 0, 0, -0.0, np.nan, np.nan, 2], dtype))
    assert np.signbit(highest[:4]).tolist() == [False, False, False, True]
    assert np.signbit(lowest[:4]).tolist() == [True, True, False, True]


def test_what_a_machine_lacks_is_named_with_its_line() -> None:
    @tapec.compile
    def turned(x: Any) -> Any:
        return tapec.sin(x)

    with pytest.raises(TapecError, match=r"test_aot_ops.py") as caught:
        aot.build(turned, "f64[3]", target="avr")
    assert re.search(r"avr: sin computes with float64", str(caught.value))
    assert "float32" in str(caught.value)
