"""Products in blocks of depth, in groups of these for each thread, and of few rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_contraction import AVX2, AVX512, EPILOGUES, Case, choice_for, evaluate, kernel, native

from tapec.ir.evaluator import evaluate_function
from tapec.ir.op import Contraction
from tapec.ir.types import F16, F32, TensorType
from tapec.passes.contractions import blocked, copies
from tapec.passes.contractions.problem import Machine, Workload
from tapec.passes.contractions.tiling import Tiling, choose


@pytest.mark.parametrize("parallel", ["", "rows", "columns", "batch", "depth"])
@pytest.mark.parametrize("block", [1, 4, 12])
def test_blocks_of_depth(block: int, parallel: str) -> None:
    choice = Tiling("outer", 4, 3, 2, unroll=2, block=block, parallel=parallel)
    for epilogue in EPILOGUES:
        for case in (
            Case(9, 16, 12, True),
            Case(3, 8, 12, batch=(2, 3)),
            Case(6, 8, 12, dtype=F16),
        ):
            evaluate(replace(case, epilogue=epilogue), choice)


@pytest.mark.parametrize("strips", [False, True])
def test_blocks_of_tiles_that_overlap(strips: bool) -> None:
    """They have sums of their own, each added up once, and what is there is added once, too."""
    choice = Tiling("outer", 4, 3, 2, block=4, pack=True, strips=strips, parallel="columns")
    evaluate(Case(10, 19, 8, True, batch=(2,), epilogue="add"), choice)
    evaluate(Case(10, 11, 8, True, epilogue="bias"), replace(choice, ahead=2))


def test_threads_share_depth() -> None:
    """Where a result is few tiles of much; with the same bits, however many threads there are."""
    case = Case(6, 32, 1 << 16, transpose_a=True)
    choice = choice_for(case)
    assert choice.parallel == "depth"
    arrays = case.arrays()
    found = []
    for threads in (1, 2):
        native([case.kernel(choice)], threads).call_raw(*arrays)
        found.append(arrays[-1].copy())
    np.testing.assert_array_equal(*found)
    case.check(found[0], case.expected(arrays))
    for other in (Case(6, 32, 1 << 12, True), Case(96, 96, 1 << 12, True), Case(7, 33, 1 << 16)):
        assert choice_for(other).parallel != "depth"


def test_threads_copy_panels_of_their_own() -> None:
    """Where so few rows follow a copied panel that they would wait for one thread's copy."""
    assert choice_for(Case(64, 64, 1024, True), 8, AVX2).parallel == "columns"
    assert choice_for(Case(512, 64, 512), 8, AVX2).parallel == "rows"
    assert choice_for(Case(64, 64, 1024, True)).parallel == "rows"


@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_rows_are_of_the_batch_where_there_is_one(epilogue: str) -> None:
    """Those that share the right operand."""
    maps: Any = (lambda i: (i[0], i[1], i[4])), (lambda i: (i[0], i[4], i[3]))
    shapes = (2, 5, 7), (2, 7, 24), (24,), (2, 5, 1, 24)
    types = [TensorType(F32, shape) for shape in shapes]
    contraction = Contraction((2, 5, 1, 24, 7), 1, maps)
    choice = choose(Workload(contraction, types[0], types[1], lanes=16))
    assert (choice.turn, choice.rows, choice.vectors) == (1, 5, 2)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    x, y, bias, before = arrays
    expected = np.einsum("abk,akn->abn", x, y)[:, :, None]
    if epilogue == "bias":
        expected = np.maximum(expected + bias, 0)
    if epilogue == "add":
        expected = expected + before
    evaluate_function(kernel(contraction, types, choice, epilogue), arrays)
    np.testing.assert_allclose(arrays[-1], expected, rtol=0, atol=1e-5)
    assert choice_for(Case(1, 24, 7, batch=(5,))).turn == -1


@pytest.mark.parametrize("parallel", ["", "columns", "batch"])
@pytest.mark.parametrize("strip", [16, 4096])
def test_few_rows(strip: int, parallel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large right operand is read along its rows, in strips of columns."""
    monkeypatch.setattr(blocked, "_LEAST_STRIP", strip)
    for epilogue in EPILOGUES:
        for case in (Case(1, 48, 12), Case(2, 16, 8, True, batch=(2,)), Case(2, 24, 4, dtype=F16)):
            choice = Tiling("outer", 4, case.m, 2, unroll=2, block=4, parallel=parallel)
            evaluate(replace(case, epilogue=epilogue), choice)
    for large in (Case(1, 512, 256), Case(2, 512, 256)):
        assert choice_for(large).block == 4
    for small in (
        Case(1, 128, 128),
        Case(1, 512, 256, False, True),
        Case(3, 512, 256),
        Case(1, 1000, 512),
    ):
        assert choice_for(small).block == 0


@pytest.mark.parametrize(
    ("rows", "limit", "across"),
    [(1, 1 << 20, False), (4, 64, False), (6, 400, False), (6, 96, True)],
)
def test_rows_are_copied_for_their_tiles(
    rows: int, limit: int, across: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as there is room for; a tile's last vector may reach over what is the next depth's."""
    monkeypatch.setattr(copies, "STRIP_LIMIT", limit)
    choice = Tiling("outer", 4, rows, 2, pack=across, strips=True, across=across, parallel="rows")
    evaluate(Case(20, 10, 4, True, batch=() if across else (2,), epilogue="add"), choice)


def test_rows_are_copied_where_registers_are_few_and_depths_lie_apart() -> None:
    """Where several tiles read them, and a cache has no place for lines of which a tile reads a part."""

    def is_copied(case: Case, machine: Machine = AVX2) -> bool:
        return choice_for(case, 8, machine).strips

    assert is_copied(Case(1024, 1024, 256, True))
    assert is_copied(Case(300, 300, 500, True))
    assert not is_copied(Case(1024, 1024, 256, True), AVX512)
    assert not is_copied(Case(1024, 1024, 256))
    assert not is_copied(Case(784, 512, 128, True))
    assert not is_copied(Case(1024, 24, 256, True))
    assert not is_copied(Case(1024, 1024, 1 << 16, True))  # not even one tile's
    assert is_copied(Case(128, 500, 2048, True))
    assert choice_for(Case(128, 500, 2048, True), 8, AVX2).block == 256
    assert choice_for(Case(128, 500, 512, True), 8, AVX2).block == 0
