"""Tiled contractions compute what NumPy computes, whatever the tile, and tiles are chosen with sense."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Value
from tapec.ir.evaluator import evaluate_function
from tapec.ir.loops.builder import LoopBuilder
from tapec.ir.op import OPS, Contraction, Index
from tapec.ir.types import BF16, F16, F32, F64, I32, U8, BufferType, DType, TensorType
from tapec.ir.verifier import verify
from tapec.passes.contractions import copies, tiling
from tapec.passes.contractions.contraction import lower_contraction
from tapec.passes.contractions.problem import Machine, Workload, describe
from tapec.passes.contractions.tiling import Tiling, choose
from tapec.runtime import Executable, compile_module

AVX512 = Machine()
AVX2 = Machine(registers=16)
NEON = Machine(masked=False)
EPILOGUES = ("store", "bias", "add")


@dataclass
class Elements:
    """A buffer as an operand."""

    k: LoopBuilder
    buffer: Value

    @property
    def type(self) -> TensorType:
        assert isinstance(self.buffer.type, BufferType)
        return self.buffer.type.tensor

    def __getitem__(self, index: Index) -> Value:
        return self.k.load(self.buffer, index)

    def prefetch(self, index: Index) -> None:
        self.k.prefetch(self.buffer, index)


@dataclass(frozen=True)
class Case:
    """A matrix product with what follows it: a store, a bias and a maximum, or an addition to what is there."""

    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = False
    batch: tuple[int, ...] = ()
    dtype: DType = F32
    epilogue: str = "store"

    @property
    def operands(self) -> tuple[TensorType, TensorType]:
        a = (self.k, self.m) if self.transpose_a else (self.m, self.k)
        b = (self.n, self.k) if self.transpose_b else (self.k, self.n)
        return TensorType(self.dtype, (*self.batch, *a)), TensorType(self.dtype, (*self.batch, *b))

    @property
    def contraction(self) -> Contraction:
        flags = {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b}
        return OPS["matmul"].contraction(*self.operands, **flags)

    @property
    def types(self) -> list[TensorType]:
        """Operands, bias, result."""
        shape = (*self.batch, self.m, self.n)
        return [
            *self.operands,
            TensorType(self.dtype, (self.n,)),
            TensorType(self.dtype, shape),
        ]

    def kernel(self, choice: Tiling, *, masked: bool = True, name: str = "kernel") -> Function:
        return kernel(self.contraction, self.types, choice, self.epilogue, masked, name)

    def arrays(self, seed: int = 0) -> list[Any]:
        rng = np.random.default_rng(seed)
        if self.dtype.is_floating:
            return [rng.standard_normal(t.static_shape).astype(t.dtype.numpy) for t in self.types]
        return [rng.integers(0, 9, t.static_shape).astype(t.dtype.numpy) for t in self.types]

    def expected(self, arrays: Sequence[Any]) -> Any:
        a, b, bias, c = arrays
        flags = {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b}
        product = OPS["matmul"].evaluate(a, b, **flags)
        if self.epilogue == "bias":
            return np.maximum(product + bias, np.zeros_like(product))
        return product + c if self.epilogue == "add" else product

    def check(self, result: Any, expected: Any) -> None:
        digits = {2: 3e-2, 4: 1e-5, 8: 1e-13}[self.dtype.bytes] if self.dtype.is_floating else 0
        scale = np.abs(expected.astype(np.float64)).max(initial=1)
        wide = result.astype(np.float64), expected.astype(np.float64)
        np.testing.assert_allclose(*wide, rtol=0, atol=digits * scale, err_msg=str(self))


def kernel(
    contraction: Contraction,
    types: Sequence[TensorType],
    choice: Tiling,
    epilogue: str = "store",
    masked: bool = True,
    name: str = "kernel",
) -> Function:
    """A kernel whose arguments are operands, bias and result."""
    function = Function(name, [BufferType(t.dtype, t.shape) for t in types], kind="kernel")
    k = LoopBuilder(function, lanes=choice.lanes, masked=masked)
    a, b, bias, c = function.args
    k.mutable(c)

    def write(index: Index, value: Value) -> None:
        if epilogue == "bias":
            value = k.max(k.add(value, k.load(bias, index[-1:])), k.constant(0, types[2].dtype))
        if epilogue == "add":
            value = k.add(value, k.load(c, index))
        k.store(value, c, index)

    operands = Elements(k, a), Elements(k, b)
    lower_contraction(
        k,
        contraction,
        operands,
        write,
        choice,
        in_place=epilogue == "add",
        fetch=lambda index: k.prefetch(c, index),
    )
    k.effect(OPS["return"])
    verify(Module([function]))
    return function


def choice_for(
    case: Case, lanes: int = 16, machine: Machine = AVX512, *, traffic: int = 0
) -> Tiling:
    weight = {"store": 1, "bias": 3, "add": 3}[case.epilogue]
    left, right = case.operands
    return choose(Workload(case.contraction, left, right, lanes, machine, weight, traffic))


def evaluate(case: Case, choice: Tiling, *, masked: bool = True) -> None:
    arrays = case.arrays()
    expected = case.expected(arrays)
    evaluate_function(case.kernel(choice, masked=masked), arrays)
    case.check(arrays[-1], expected)


SHAPES = [(1, 1, 1), (3, 5, 2), (1, 40, 7), (40, 1, 9), (5, 17, 33), (17, 33, 5), (30, 10, 4)]
SHAPES += [(20, 40, 6), (1, 1, 40), (2, 3, 17), (13, 32, 3), (2, 20, 20), (0, 4, 3), (3, 4, 0)]
TRANSPOSES = list(itertools.product((False, True), repeat=2))


@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_awkward_shapes(m: int, n: int, k: int, epilogue: str) -> None:
    for a, b in TRANSPOSES:
        case = Case(m, n, k, a, b, epilogue=epilogue)
        evaluate(case, choice_for(case))


@pytest.mark.parametrize("seed", range(10))
def test_any_choice_is_correct(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    extents = [1, 2, 3, 4, 7, 8, 9, 13, 16, 17, 20, 31, 33, 40]
    for _ in range(10):
        # Thresholds far below any use, so that small shapes meet every form.
        monkeypatch.setattr(tiling, "PARALLEL_WORK", rng.choice([1, 1 << 20]))
        monkeypatch.setattr(copies, "PACK_DISTANCE", rng.choice([1, 1 << 21]))
        monkeypatch.setattr(tiling, "STAGED_WEIGHT", rng.choice([1, 120]))
        monkeypatch.setattr(copies, "STRIP_WORK", 1)
        monkeypatch.setattr(copies, "LINE", rng.choice([64, 1 << 20]))
        monkeypatch.setattr(copies, "STRIP_LIMIT", rng.choice([1 << 7, 1 << 10, 1 << 20]))
        m, n, k = (rng.choice(extents) for _ in range(3))
        if m * n * k > 4000:
            continue
        transpose_a, transpose_b = rng.choice(TRANSPOSES)
        case = Case(
            m,
            n,
            k,
            transpose_a,
            transpose_b,
            batch=rng.choice([(), (), (2,), (3, 1, 2)]),
            dtype=rng.choice([F32, F32, F64, F16, BF16, I32, U8]),
            epilogue=rng.choice(EPILOGUES),
        )
        machine = rng.choice([AVX512, AVX2, NEON])
        machine = replace(machine, level2=rng.choice([1 << 6, 1 << 9, 1 << 20]))
        lanes, traffic = rng.choice([16, 8, 4, 2, 1]), rng.choice([0, 1 << 20])
        evaluate(case, choice_for(case, lanes, machine, traffic=traffic), masked=machine.masked)


@pytest.mark.parametrize(("rows", "vectors"), [(1, 1), (4, 3), (7, 2), (9, 1)])
@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("staged", [False, True])
def test_tiles_that_overlap(rows: int, vectors: int, pack: bool, staged: bool) -> None:
    choice = Tiling("outer", 4, rows, vectors, unroll=2, pack=pack, staged=staged)
    for parallel in ("", "rows", "columns"):
        for epilogue in EPILOGUES:
            case = Case(10, 27, 5, epilogue=epilogue)
            evaluate(case, replace(choice, parallel=parallel))


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("staged", [False, True])
def test_tiles_that_prefetch(across: bool, staged: bool) -> None:
    for parallel, ahead in (("", 0), ("rows", 0), ("", 1), ("", 3))[: 2 if across else 4]:
        for fetch, epilogue in itertools.product((False, True), EPILOGUES):
            choice = Tiling("outer", 4, 3, 2, staged=staged, across=across, fetch=fetch)
            case = Case(10, 27, 6, transpose_a=fetch, epilogue=epilogue)
            evaluate(
                case, replace(choice, parallel=parallel, ahead=ahead, reach=2, follow=not fetch)
            )
            for transpose in (False, True):
                case = Case(10, 27, 6, transpose_b=transpose, epilogue=epilogue)
                evaluate(case, replace(choice, parallel=parallel, ahead=ahead, pack=True))


def test_what_is_prefetched() -> None:
    """Tiles follow results that pass through memory; columns that come from far away are asked for early."""
    follows = choice_for(Case(784, 512, 128, transpose_a=True), traffic=1 << 23)
    assert (follows.across, follows.fetch, follows.ahead, follows.parallel) == (
        True,
        True,
        0,
        "rows",
    )
    # Tiles next to each other share rows of the left operand, not columns of the right.
    wide = choice_for(Case(2048, 512, 32), traffic=1 << 22)
    assert wide.across
    assert wide.rows > wide.vectors
    packed = choice_for(Case(1024, 128, 512, transpose_b=True), traffic=1 << 19)
    assert packed.across
    assert packed.pack
    first = choice_for(Case(128, 512, 784))
    assert not first.across
    assert not first.fetch
    assert 784 % first.ahead == 0 < first.ahead <= -(-128 // first.rows)
    assert choice_for(Case(128, 64, 64)).ahead == 0  # in a cache


@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_few_columns(epilogue: str) -> None:
    """They are copied to run along depth, or are rows of tiles whose results are written one by one."""
    for (m, n), parallel in itertools.product([(8, 2), (21, 3), (9, 7)], ("", "rows", "columns")):
        for a, b in TRANSPOSES:
            case = Case(m, n, 11, a, b, batch=(2,), epilogue=epilogue)
            tall = Tiling("outer", 4, min(n, 3), 2, pack=not a, staged=True, swapped=True)
            evaluate(case, replace(tall, parallel=parallel))
            if not a:
                evaluate(case, Tiling("dot", 8, 4, pack=True, parallel=parallel))
    assert choice_for(Case(2048, 2, 128)).form == "dot"
    assert choice_for(Case(2048, 2, 128, transpose_a=True)).swapped


@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_plain_form(epilogue: str) -> None:
    for a, b in TRANSPOSES:
        case = Case(3, 21, 5, a, b, batch=(2,), epilogue=epilogue)
        evaluate(case, Tiling(lanes=8))
        evaluate(case, Tiling(lanes=4), masked=False)
        evaluate(case, Tiling(parallel="rows"))


NATIVE = [
    Case(*shape, a, b, epilogue=epilogue)
    for shape, epilogue in (((37, 45, 19), "bias"), ((70, 96, 64), "add"), ((4, 70, 50), "store"))
    for a, b in TRANSPOSES
]
NATIVE += [Case(50, 1, 40), Case(64, 1, 33, True), Case(1, 64, 48, False, True), Case(33, 2, 20)]
NATIVE += [
    Case(13, 150, 12, False, True, epilogue="add"),
    Case(70, 3, 40),
    Case(70, 5, 20, True),
    Case(50, 2, 33, epilogue="bias"),
]
NATIVE += [Case(20, 30, 40, dtype=d, epilogue="bias") for d in (F64, F16, BF16, I32)]
NATIVE += [Case(64, 64, 3072, True, epilogue=e) for e in EPILOGUES]
NATIVE += [Case(9, 17, 20, False, True, (3,), dtype=d) for d in (F32, F64, U8)]
NATIVE += [Case(13, 300, 12, True, epilogue=e) for e in EPILOGUES * 2]


def native(kernels: list[Function], threads: int = 1) -> Executable:
    """All in one module, since compiling has a fixed price."""
    buffers = [arg.type for f in kernels for arg in f.args]
    entry = Function("main", buffers)
    entry.attrs["inputs"] = len(buffers)
    b = Builder(entry.block)
    for i, function in enumerate(kernels):
        b.emit("launch", *entry.args[4 * i : 4 * i + 4], kernel=function.name)
    b.emit("return")
    return compile_module(Module([entry, *kernels]), threads=threads)


@pytest.mark.parametrize("threads", [1, 2])
def test_native_code(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if threads > 1:
        monkeypatch.setattr(tiling, "PARALLEL_WORK", 1)
    # To caches so small, everything is far away.
    tiny = replace(AVX512, level2=1 << 6)
    small = replace(AVX512, level2=1 << 16)
    choices = [choice_for(c, machine=small, traffic=1 << 20) for c in NATIVE]
    choices[-3:] = [choice_for(c, machine=tiny) for c in NATIVE[-3:]]
    assert {choice.pack for choice in choices if choice.across} == {False, True}
    assert any(choice.ahead for choice in choices)
    assert any(choice.block for choice in choices)
    pairs = zip(NATIVE, choices, strict=True)
    kernels = [case.kernel(choice, name=f"k{i}") for i, (case, choice) in enumerate(pairs)]
    program = native(kernels, threads)
    given = [case.arrays(i) for i, case in enumerate(NATIVE)]
    expected = [case.expected(arrays) for case, arrays in zip(NATIVE, given, strict=True)]
    program.call_raw(*itertools.chain(*given))
    for case, arrays, result in zip(NATIVE, given, expected, strict=True):
        case.check(arrays[-1], result)


def test_half_precision_is_summed_in_single() -> None:
    case = Case(1, 3, 4000, dtype=F16)
    arrays = case.arrays()
    arrays[:2] = [np.ones_like(x) for x in arrays[:2]]
    evaluate_function(case.kernel(choice_for(case)), arrays)
    assert (arrays[-1] == 4000).all()  # in half precision ones add up to 2048 and no further


# ---- convolutions

Maps = tuple[Callable[[Index], Index], Callable[[Index], Index]]


def convolved(space: tuple[int, ...], reduced: int, maps: Maps, shapes: list[Any]) -> Tiling:
    """Lower a contraction, compare with the sum over the whole iteration space, return the choice."""
    contraction = Contraction(space, reduced, maps)
    result = space[: len(space) - reduced]
    types = [TensorType(F64, shape) for shape in (*shapes, result[-1:], result)]
    choice = choose(Workload(contraction, types[0], types[1], lanes=8))
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(t.static_shape) for t in types]
    evaluate_function(kernel(contraction, types, choice), arrays)
    grid: Any = tuple(np.indices(space))
    places: list[Any] = [m(grid) for m in maps]
    expected = (arrays[0][places[0]] * arrays[1][places[1]]).sum(
        axis=tuple(range(len(result), len(space)))
    )
    np.testing.assert_allclose(arrays[-1], expected, atol=1e-13)
    return choice


def test_convolution() -> None:
    maps: Maps = (
        lambda i: (i[0], 2 * i[1] + i[4], i[2] + i[5], i[6]),
        lambda i: (i[4], i[5], i[6], i[3]),
    )
    choice = convolved((2, 3, 5, 12, 3, 2, 4), 3, maps, [(2, 7, 6, 4), (3, 2, 4, 12)])
    assert choice.form == "outer"
    assert not choice.pack


def test_gradient_of_a_convolution_by_its_filter() -> None:
    maps: Maps = (
        lambda i: (i[4], i[5] + i[0], i[6] + i[1], i[2]),
        lambda i: (i[4], i[5], i[6], i[3]),
    )
    choice = convolved((3, 3, 4, 9, 2, 5, 4), 3, maps, [(2, 7, 6, 4), (2, 5, 4, 9)])
    assert choice.form == "outer"


def test_gradient_of_a_convolution_by_its_input_packs_the_filter_once() -> None:
    maps: Maps = (
        lambda i: (i[0], i[1] + i[4], i[2] + i[5], i[6]),
        lambda i: (i[4], i[5], i[3], i[6]),
    )
    choice = convolved((2, 3, 6, 8, 2, 2, 12), 3, maps, [(2, 4, 7, 12), (2, 2, 8, 12)])
    assert choice.pack


def test_convolution_of_each_channel_alone() -> None:
    maps: Maps = (
        lambda i: (i[0], i[1] + i[4], i[2] + i[5], i[3]),
        lambda i: (i[4], i[5], i[3]),
    )
    assert convolved((2, 3, 4, 11, 2, 3), 2, maps, [(2, 4, 6, 11), (2, 3, 11)]).form == "plain"


# ---- choices


def test_tiles_fit_into_registers() -> None:
    for machine, lanes in ((AVX512, 16), (AVX2, 8), (NEON, 4), (Machine(registers=16), 1)):
        for m, n, k in itertools.product((1, 3, 32, 200), repeat=3):
            for a, b in TRANSPOSES:
                t = choice_for(Case(m, n, k, a, b), lanes, machine)
                if t.form == "outer":
                    assert t.rows * t.vectors + t.vectors + 1 <= machine.registers
                    assert t.rows <= m or t.swapped


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        (Case(128, 512, 784), {"form": "outer", "pack": False, "parallel": "columns"}),
        (Case(128, 512, 512, False, True), {"form": "outer", "pack": True}),
        # Rows of the right operand are a page apart.
        (Case(1024, 1024, 1024), {"form": "outer", "pack": True}),
        # Every tile would read what no cache holds.
        (Case(512, 128, 1024, True), {"form": "outer", "block": 128, "pack": False}),
        (Case(512, 128, 64, True), {"block": 0}),
        (Case(512, 128, 1024), {"block": 0}),
        # A few rows do not pay for a transposition.
        (Case(1, 512, 512, False, True), {"form": "dot", "swapped": False}),
        # Matrix times vector: the result is a row as well as a column.
        (Case(128, 1, 256), {"form": "dot", "swapped": True}),
        (Case(256, 1, 128, True), {"form": "outer", "swapped": True, "pack": False}),
        # Floats of 16 bits are widened once, and few rows are widened at every turn.
        (Case(256, 256, 256, dtype=F16), {"form": "outer", "pack": True}),
        (Case(8, 256, 256, dtype=BF16), {"form": "outer", "pack": False}),
        (Case(32, 2, 64), {"form": "dot", "swapped": False, "pack": True}),
        (Case(32, 64, 64), {"form": "outer", "lanes": 16, "parallel": ""}),
        (Case(64, 64, 32, batch=(32,)), {"parallel": "batch"}),
    ],
)
def test_choice(case: Case, wanted: dict[str, Any]) -> None:
    chosen = choice_for(case).attrs
    assert {name: chosen[name] for name in wanted} == wanted


def test_rows_in_the_same_lines_of_the_cache_make_low_tiles() -> None:
    assert choice_for(Case(1024, 1024, 1024)).rows < AVX512.ways


def test_much_that_follows_is_written_in_a_loop() -> None:
    case = Case(128, 512, 784)
    work = Workload(case.contraction, *case.operands, lanes=16)
    light, heavy = (choose(replace(work, weight=w)) for w in (1, 20))
    assert not light.staged
    assert heavy.staged


def test_panels_are_copied_where_registers_are_few_and_a_cache_has_no_place() -> None:
    """Lines that are a power of two apart compete for few places, vectors that are not aligned lie in two lines.

    Rows enough make up for the copy.
    """

    def packs(case: Case, machine: Machine = AVX2) -> bool:
        return choice_for(case, 8, machine).pack

    assert packs(Case(512, 512, 512))
    assert packs(Case(1024, 128, 512, True))
    assert not packs(Case(512, 512, 512), AVX512)
    assert packs(Case(16, 512, 512))
    assert not packs(Case(12, 512, 512))
    assert packs(Case(128, 269, 353))
    assert not packs(Case(48, 269, 353))
    assert not packs(Case(128, 272, 353))
    assert not packs(Case(512, 64, 64))  # all of it is in the cache
    assert not packs(Case(512, 16, 512))  # lies as it would be copied


def test_choice_is_kept_in_attributes() -> None:
    choice = choice_for(Case(32, 64, 64, False, True))
    assert Tiling.from_attrs({**choice.attrs, "place": ("arena+0",)}) == choice


def test_describe_reads_strides() -> None:
    case = Case(4, 5, 6, True, True, batch=(2,))
    problem = describe(case.contraction, *case.operands)
    assert (problem.batch, problem.rows, problem.columns, problem.depth) == ((2,), 4, 5, (6,))
    assert (problem.left, problem.right) == ((1, 4), (6, 1))
    assert problem.separable
    assert not problem.shared
    swapped = describe(case.contraction, *case.operands, swapped=True)
    assert (swapped.left, swapped.right) == ((6, 1), (1, 4))
