"""Loops as Python text: what Python makes of it is what the evaluator makes of the operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs_of_ops import ELEMENTWISE, assert_close, edge_program, sample_program
from sampling import tensor_ops

import tapec
from tapec.ir.core import Module
from tapec.ir.errors import TargetError
from tapec.ir.op import OPS, Elementwise, Op
from tapec.ir.ops import device, loop
from tapec.ir.ops.foreign import CallForeign, ForeignScalar
from tapec.ir.ops.formula import Special
from tapec.ir.types import BF16, F16
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime.python_text import primitives
from tapec.runtime.python_text.program import executable
from tapec.runtime.python_text.writer import RULES, write_python

LOWER = parse_pipeline("pairs,fuse,schedule{vector-bytes=0,masked=false},plan,lower")


def as_text(module: Module) -> Any:
    """Python text, which Python runs."""
    run_pipeline(module, LOWER)
    return executable(module)


@pytest.mark.parametrize("defn", tensor_ops(), ids=lambda defn: defn.name)
def test_samples(defn: Op) -> None:
    for found, expected in sample_program(defn).run(as_text):
        assert_close(found, expected, ulps=16)


@pytest.mark.parametrize("defn", ELEMENTWISE, ids=lambda defn: defn.name)
def test_edges(defn: Elementwise) -> None:
    # What loops until it converges takes Python long; what has one operand has few edges.
    converges = isinstance(defn, Special) and defn.arity > 1
    program = edge_program(defn, every=61 if converges else 1)
    if program.results:
        for found, expected in program.run(as_text):
            assert_close(found, expected, ulps=64)


@pytest.mark.parametrize("dtype", [F16, BF16], ids=str)
def test_16_bit_floats_round_as_their_dtypes(dtype: Any) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    numbers = every.view(dtype.numpy)
    value = getattr(primitives, f"{dtype.code}_value")
    bits = getattr(primitives, f"{dtype.code}_bits")
    rounded = getattr(primitives, dtype.code)
    rng = np.random.default_rng(3)
    chosen = [*rng.integers(0, 1 << 16, 2000), 0, 1, 0x8000, 0x3FF, 0x400, 0x7BFF, 0x7C00, 0x7F7F]
    with np.errstate(all="ignore"):
        for i in chosen:
            wide = np.float32(numbers[i])
            assert_same(value(every[i]), wide)
            assert np.isnan(wide) or bits(wide) == every[i]
            for near in (wide, np.nextafter(wide, np.float32(np.inf)), wide * np.float32(1.001)):
                assert_same(rounded(near), np.float32(near.astype(dtype.numpy)))


def assert_same(found: Any, expected: Any) -> None:
    """Equal to the sign of a zero."""
    assert type(found) is type(expected)
    np.testing.assert_array_equal(found, expected)
    assert np.signbit(found) == np.signbit(expected) or np.isnan(found)


def lowered_text(function: Any, *args: Any) -> str:
    """The text of a function, kernels and entry."""
    return str(tapec.compile(function).lower(*args).text("numba"))


def test_text_names_lines_and_what_it_imports() -> None:
    def step(x: Any, b: Any) -> Any:
        return tapec.tanh(x @ x + b)

    text = lowered_text(step, tapec.TensorSpec([3, 3]), tapec.TensorSpec([3]))
    assert text.count('@njit(error_model="numpy")\ndef k') == 1
    assert f"# {__file__}:" in text
    assert "return tapec.tanh(x @ x + b)" in text
    assert "import f32, tanh\n" in text
    assert "\ndef step(x, b, result0):\n" in text
    compile(text, "text", "exec")


def test_open_sizes_follow_the_buffers() -> None:
    def double(x: Any) -> Any:
        return 2.0 * x

    text = lowered_text(double, tapec.TensorSpec([None, 3]))
    assert "def k0(x0, x1, " in text or "def k0(in0, out1, " in text
    assert " in range(" in text


def test_names_of_python_are_no_names_of_values() -> None:
    def step(exp: Any, lambda_: Any, f32: Any) -> Any:
        return tapec.exp(exp) + lambda_ * f32

    x = np.linspace(0, 1, 5)
    found = tapec.compile(step, engine="numba")(x, x, x)
    np.testing.assert_allclose(found.numpy(), np.exp(x) + x * x)


def test_every_operation_of_the_loop_level_has_text() -> None:
    """Those of vectors, of many threads, and those around kernels of users apart."""
    vectors = {loop.LoadAt, loop.Splat, loop.Lanes, loop.ReduceLanes, loop.Shuffle}
    left_out = vectors | {
        CallForeign,
        ForeignScalar,
        *(type(defn) for defn in OPS.values() if type(defn).__module__ == device.__name__),
    }
    own = [defn for defn in OPS.values() if defn.levels == {"loop"} and not defn.terminator]
    assert len(own) > 10
    assert {type(defn) for defn in own} - set(RULES) <= left_out


def test_vectors_are_refused_by_name() -> None:
    module = tapec.compile(lambda x: x + 1.0).trace(tapec.TensorSpec([64]))
    run_pipeline(module, parse_pipeline("canonicalize,fuse,schedule{vector-bytes=64},plan,lower"))
    with pytest.raises(TargetError, match="no Python text for vectors"):
        write_python(module)
