"""Convolutions that take fewer multiplications: right, as accurate as is said, and where nothing is finite, direct."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from test_contraction import kernel, native

import tapec
from tapec.ir.core import Function
from tapec.ir.evaluator import evaluate_function
from tapec.ir.op import OPS, Contraction
from tapec.ir.types import BF16, F32, F64, DType, TensorType
from tapec.passes.contractions import sliding
from tapec.passes.contractions.problem import Workload
from tapec.passes.contractions.sliding import choose, find
from tapec.passes.contractions.tiling import Tiling

SUMS: dict[str, Any] = {"left": "nhwc", "right": "ijco", "result": "nhwo", "windows": ("hi", "wj")}
FILTERS: dict[str, Any] = {
    "left": "nijc",
    "right": "nhwo",
    "result": "ijco",
    "windows": ("ih", "jw"),
}
MORE = {"strides": (1, 1), "dilations": (1, 1)}


@dataclass(frozen=True)
class Case:
    """Images with ``high`` times ``wide`` windows, and what is made of them."""

    images: int
    high: int
    wide: int
    channels: int = 4
    columns: int = 8
    gradient: bool = False
    dtype: DType = F32

    @property
    def attrs(self) -> dict[str, Any]:
        return (FILTERS if self.gradient else SUMS) | MORE

    @property
    def operands(self) -> tuple[TensorType, TensorType]:
        places = (self.images, self.high, self.wide, self.columns)
        second = places if self.gradient else (3, 3, self.channels, self.columns)
        first = (self.images, self.high + 2, self.wide + 2, self.channels)
        return TensorType(self.dtype, first), TensorType(self.dtype, second)

    @property
    def contraction(self) -> Contraction:
        return OPS["conv"].contraction(*self.operands, **self.attrs)

    def kernel(
        self, part: int, epilogue: str, parallel: str = "", name: str = "kernel"
    ) -> Function:
        choice = Tiling("outer", 4, 3, 2, part=part, parallel=parallel)
        return kernel(self.contraction, self.types, choice, epilogue, name=name)

    @property
    def types(self) -> list[TensorType]:
        result = OPS["conv"].infer(*self.operands, **self.attrs)
        assert isinstance(result, TensorType)
        return [*self.operands, TensorType(self.dtype, result.shape[-1:]), result]

    def arrays(self) -> list[Any]:
        rng = np.random.default_rng(4)
        return [rng.standard_normal(t.static_shape).astype(t.dtype.numpy) for t in self.types]

    def check(self, given: list[Any], found: Any, epilogue: str) -> None:
        """Hold the error to what sums of 16 times as large terms would have."""
        x, y, bias, before = (a.astype(np.float64) for a in given)
        exact = OPS["conv"].evaluate(x, y, **self.attrs)
        terms = OPS["conv"].evaluate(np.abs(x), np.abs(y), **self.attrs).max()
        if epilogue == "bias":
            exact = np.maximum(exact + bias, 0)
        if epilogue == "add":
            exact = exact + before
        unit = np.finfo(found.dtype).eps / 2
        assert np.abs(found - exact).max() <= 16 * terms * unit


CASES = [
    (Case(2, 4, 6), 6), (Case(2, 4, 6), 3), (Case(2, 4, 6), 1), (Case(4, 4, 2), 4), (Case(1, 5, 7), 4),
    (Case(2, 3, 5), 1), (Case(2, 3, 3, 2, dtype=F64), 8), (Case(1, 2, 2, 6), 1), (Case(2, 3, 4, 2, 11), 4),
]  # fmt: skip


def both_ways(case: Case) -> list[Case]:
    return [replace(case, gradient=gradient) for gradient in (False, True)]


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_and_gradients(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parallel = "batch" if threads > 1 else ""
    if threads > 1:
        monkeypatch.setattr(sliding, "_MOST_FILTERS", 2047)  # four of eight columns
    triples = [
        (case, part, epilogue)
        for (one, part), epilogue in zip(CASES, itertools.cycle(("store", "bias", "add")))
        for case in both_ways(one)
    ]
    for case, _, _ in triples:
        found = find(case.contraction, *case.operands)
        assert found is not None
        assert found.gradient == case.gradient
    kernels = [
        case.kernel(part, epilogue, parallel, f"k{i}")
        for i, (case, part, epilogue) in enumerate(triples)
    ]
    arrays = [case.arrays() for case, _, _ in triples]
    given = [[a.copy() for a in some] for some in arrays]
    native(kernels, threads).call_raw(*itertools.chain(*arrays))
    for (case, _, epilogue), before, after in zip(triples, given, arrays, strict=True):
        case.check(before, after[-1], epilogue)


def test_threads_give_the_same_bits() -> None:
    """Gradients are added up in groups, however many threads share them."""
    cases = both_ways(Case(4, 4, 6))
    kernels = [case.kernel(3, "store", "batch", f"k{i}") for i, case in enumerate(cases)]
    found = []
    for threads in (1, 2):
        arrays = [case.arrays() for case in cases]
        native(kernels, threads).call_raw(*itertools.chain(*arrays))
        found.append([some[-1] for some in arrays])
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("case", both_ways(Case(1, 2, 3, 4, 4)))
def test_loops_mean_what_native_code_does(case: Case) -> None:
    arrays = case.arrays()
    given = [a.copy() for a in arrays]
    evaluate_function(case.kernel(1, "store"), arrays)
    case.check(given, arrays[-1], "store")


def test_what_is_not_finite_is_summed_up_directly() -> None:
    cases = both_ways(Case(2, 4, 4))
    kernels = [case.kernel(4, "store", name=f"k{i}") for i, case in enumerate(cases)]
    program = native(kernels)
    for operand, value in itertools.product((0, 1), (np.inf, -np.inf, np.nan, 3e38)):
        arrays = [case.arrays() for case in cases]
        for some in arrays:
            some[operand][1, 2, 2, 3] = value
        expected = [
            OPS["conv"].evaluate(*some[:2], **case.attrs)
            for case, some in zip(cases, arrays, strict=True)
        ]
        program.call_raw(*itertools.chain(*arrays))
        for some, result in zip(arrays, expected, strict=True):
            assert not np.isfinite(result).all() or value == 3e38
            np.testing.assert_allclose(some[-1], result, rtol=1e-4, atol=1e-4)


def test_where_it_pays() -> None:
    """Channels in vectors, windows that move by one, enough of them; sixteen matrices of filters in a cache."""

    def part(case: Case, **attrs: Any) -> int:
        contraction = OPS["conv"].contraction(*case.operands, **(case.attrs | attrs))
        direct = Tiling("outer", 16, 7, 4)
        return choose(Workload(contraction, *case.operands, lanes=16), direct).part

    assert part(Case(64, 14, 14, 32, 64)) == 49
    assert part(Case(64, 14, 14, 32, 64, gradient=True)) == 49
    assert part(Case(64, 7, 7, 64, 64)) == 32  # two images
    assert part(Case(1, 224, 224, 32, 64)) == 28  # a quarter of a row
    assert part(Case(16, 14, 14, 256, 256)) == 7  # of columns, 64 at a time
    assert part(Case(64, 14, 14, 24, 40)) == 49
    for case in (
        Case(64, 28, 28, 1, 32),
        Case(64, 14, 14, 4, 64),
        Case(1, 14, 14, 32, 32),
        Case(16, 14, 14, 2048, 512),
        Case(64, 14, 14, 32, 64, dtype=BF16),
    ):
        assert part(case) == 0
    assert part(Case(64, 14, 14, 32, 64), strides=(2, 1)) == 0
    assert (
        find(
            OPS["matmul"].contraction(*[TensorType(F32, (3, 3))] * 2),
            *[TensorType(F32, (3, 3))] * 2,
        )
        is None
    )


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sliding, "_LEAST_WORK", 1)

    def text() -> str:
        f = tapec.compile(lambda x, y: tapec.nn.conv2d(x, y, 1, "VALID"))
        x, y = np.zeros((8, 18, 18, 64), np.float32), np.zeros((3, 3, 64, 64), np.float32)
        return str(f.lower(x, y).text("kernels"))

    assert "part = 0" not in text()
    monkeypatch.setenv("TAPEC_DIRECT", "1")
    assert "part = 0" in text()
