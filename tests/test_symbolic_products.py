"""Products of matrices with open sizes: every form of loops, at sizes around its tiles, for one and two threads."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tapec.ir.core import Module, clone_module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.ops.control import KernelOp
from tapec.ir.ops.loop import Alloc
from tapec.ir.parser import parse_module
from tapec.ir.printer import print_module
from tapec.passes.contractions import copies
from tapec.passes.observers import Check
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime import compile_module

SIZES = (1, 2, 3, 5, 8, 13, 16, 17, 31, 32, 33, 48, 50, 100)


def product(m: str, k: str, n: str, transposed: str, dtype: str = "f32", batch: str = "") -> Module:
    """A product, what becomes of it element by element, and an update in place."""
    a = f"{batch}{k},{m}" if "a" in transposed else f"{batch}{m},{k}"
    b = f"{batch}{n},{k}" if "b" in transposed else f"{batch}{k},{n}"
    c = f"{batch}{m},{n}"
    flags = ", ".join(f"transpose_{x} = true" for x in transposed)
    attrs = f"{{{flags}}} " if flags else ""
    return parse_module(f"""
func @f<N in 1.., M in 1..>(%a: {dtype}[{a}], %b: {dtype}[{b}], %c: {dtype}[{c}])
    -> ({dtype}[{c}], {dtype}[{c}] into %c) {{
  %0 = matmul %a, %b {attrs}: {dtype}[{c}]
  %1 = tanh %0 : {dtype}[{c}]
  %2 = mul %1, %c : {dtype}[{c}]
  %3 = sub %c, %2 : {dtype}[{c}]
  return %1, %3
}}""")


def lowered(module: Module, pipeline: str) -> Module:
    """A copy after passes, checked after each."""
    copy = clone_module(module)
    run_pipeline(copy, parse_pipeline(pipeline), [Check(1)])
    return copy


def operands(module: Module, sizes: dict[str, int]) -> list[Any]:
    """Small numbers."""
    rng = np.random.default_rng(0)
    types = [arg.tensor.substitute(sizes) for arg in module.entry.args]
    return [(rng.normal(size=t.static_shape) / 4).astype(t.dtype.numpy) for t in types]


def check(module: Module, threads: int, sizes: list[dict[str, int]], **options: Any) -> None:
    """Native code against the evaluator."""
    options = {"vector_bytes": 64} | options
    schedule = ",".join(f"{k.replace('_', '-')}={v}" for k, v in options.items())
    loops = lowered(module, f"fuse,schedule{{{schedule}}},plan,lower")
    executable = compile_module(loops, threads=threads)
    for size in sizes:
        arrays = operands(module, size)
        expected = evaluate_module(module, arrays)
        (first,) = executable(*arrays)
        np.testing.assert_allclose(first, expected[0], rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(arrays[2], expected[1], rtol=2e-4, atol=2e-5)


PLACES = [
    ("N", "24", "40"),
    ("24", "N", "40"),
    ("24", "40", "N"),
    ("N", "20", "M"),
    ("N", "N", "N"),
]


def test_few_rows_and_one_alone() -> None:
    """Rows that make up no tile: in pairs, and the last in wide tiles; whether or not a result may be written twice."""
    sizes = [{"N": n, "M": 1} for n in range(1, 19)]
    check(product("N", "12", "256", ""), 1, sizes)
    module = parse_module("""
func @f<N in 1..>(%a: f32[N,12], %b: f32[12,256]) -> f32[N,256] {
  %0 = matmul %a, %b : f32[N,256]
  return %0
}""")
    executable = compile_module(lowered(module, "fuse,schedule{vector-bytes=64},plan,lower"))
    for size in sizes:
        a, b = operands(module, size)
        np.testing.assert_allclose(executable(a, b)[0], a @ b, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("transposed", ["", "a", "b", "ab"])
@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_all_sizes(place: tuple[str, str, str], transposed: str) -> None:
    sizes = [{"N": n, "M": m} for n, m in zip(SIZES, reversed(SIZES), strict=True)]
    check(product(*place, transposed), 1, sizes)


@pytest.mark.parametrize("transposed", ["", "b"])
@pytest.mark.parametrize("place", [("N", "300", "200"), ("200", "N", "300"), ("100", "300", "N")])
def test_threads_write_nothing_twice(place: tuple[str, str, str], transposed: str) -> None:
    module = product(*place, transposed)
    scheduled = lowered(module, "fuse,schedule")
    kernels = [op for op in scheduled.walk() if isinstance(op.defn, KernelOp)]
    assert any(op.attrs["parallel"] for op in kernels)
    check(module, 2, [{"N": n} for n in (1, 7, 64, 99)])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("place", "transposed", "wanted"),
    [
        (("N", "256", "512"), "", "ahead"),
        (("N", "512", "256"), "b", "ahead"),
        (("256", "N", "512"), "a", "across"),
    ],
)
def test_what_comes_from_memory_is_prefetched(
    place: tuple[str, str, str], transposed: str, wanted: str, threads: int
) -> None:
    """For more rows than are reckoned with, and for fewer than a tile has."""
    module = product(*place, transposed)
    scheduled = lowered(module, "fuse,schedule{vector-bytes=64}")
    assert any(op.attrs.get(wanted) for op in scheduled.walk() if isinstance(op.defn, KernelOp))
    check(module, threads, [{"N": n} for n in (1, 7, 64, 99, 200)])


@pytest.mark.parametrize("strips", [False, True])
@pytest.mark.parametrize(
    ("place", "across"), [(("48", "N", "128"), False), (("256", "N", "512"), True)]
)
def test_copies_have_room_for_some_of_an_open_depth(
    place: tuple[str, str, str], across: bool, strips: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What there is no room for is read where it is."""
    monkeypatch.setattr(copies, "MOST_OPEN", 8)
    monkeypatch.setattr(copies, "STRIP_WORK", 1 if strips else 1 << 40)
    monkeypatch.setattr(copies, "LINE", 1 << 20)
    module = product(*place, "a")
    scheduled = lowered(module, "fuse,schedule{vector-bytes=32}")
    (attrs,) = (op.attrs for op in scheduled.walk() if isinstance(op.defn, KernelOp))
    assert attrs["pack"]
    assert (attrs["across"], attrs["strips"]) == (across, strips)
    for threads in (1, 2):
        check(module, threads, [{"N": n} for n in (1, 7, 8, 9, 40)], vector_bytes=32)


def test_copies_are_no_larger_than_a_depth_may_be() -> None:
    module = product("48", "N", "128", "a")
    bounded = parse_module(print_module(module).replace("N in 1..", "N in 1..100"))
    scratch = []
    for m in (module, bounded):
        loops = lowered(m, "fuse,schedule{vector-bytes=32},plan,lower")
        found = [op.result.buffer.tensor for op in loops.walk() if isinstance(op.defn, Alloc)]
        scratch.append(max(int(t.bytes) for t in found))  # type: ignore[arg-type]
    assert scratch[0] >= 4 * copies.MOST_OPEN
    assert 0 < scratch[1] <= 4 * 100 * 128


@pytest.mark.parametrize("batch", ["N,", "3,"])
@pytest.mark.parametrize("transposed", ["", "a", "b"])
def test_batches(batch: str, transposed: str) -> None:
    check(
        product("5" if batch == "N," else "N", "6", "7", transposed, "f64", batch),
        1,
        [{"N": 1}, {"N": 4}, {"N": 9}],
    )


@pytest.mark.parametrize("dtype", ["f16", "i32"])
def test_other_dtypes(dtype: str) -> None:
    module = parse_module(f"""
func @f<N in 1..>(%a: {dtype}[N,9], %b: {dtype}[9,20], %c: {dtype}[9,N]) -> ({dtype}[N,20], {dtype}[9,9]) {{
  %0 = matmul %a, %b : {dtype}[N,20]
  %1 = matmul %c, %a : {dtype}[9,9]
  return %0, %1
}}""")
    executable = compile_module(lowered(module, "fuse,schedule,plan,lower"))
    for n in (1, 4, 33):
        arrays = operands(module, {"N": n})
        found, expected = executable(*arrays), evaluate_module(module, arrays)
        for a, b in itertools.zip_longest(found, expected):
            np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-2)


def test_without_masks() -> None:
    sizes = [{"N": n, "M": n} for n in SIZES]
    for place, transposed in itertools.product(PLACES[:3], ("", "b")):
        check(product(*place, transposed), 1, sizes, masked="false")
