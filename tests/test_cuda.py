"""The CUDA target with no device: the text of every kernel, run thread by thread, is what the evaluator computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_steps import traced
from programs_of_ops import assert_close, sample_program
from sampling import tensor_ops
from structural_programs import PROGRAMS, coverage

import tapec
from tapec.compiler import lowered_for
from tapec.ir.core import Module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.op import OPS, Op
from tapec.ir.ops.foreign import Foreign
from tapec.passes.device import owners
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime.cpu.mathematics.vectormath import BOUNDS
from tapec.runtime.cuda import program
from tapec.runtime.cuda.launches import listing, recorded
from tapec.runtime.cuda.program import simulated
from tapec.runtime.cuda.simulator.simulator import MOST_BLOCKS
from tapec.runtime.cuda.text import module_text, primitives, wide_indices
from tapec.runtime.cuda.text.kernel_text import BLOCKS
from tapec.runtime.cuda.text.mathematics import FUNCTIONS, Functions
from tapec.runtime.cuda.text.module_text import write_text

PAGE = Path(__file__).parents[1] / "docs" / "cuda.md"
#: Two warps, so that threads of a block have to wait for each other.
SPREAD = parse_pipeline(
    "pairs,fuse,schedule{vector-bytes=0,masked=false,compact=true},plan,lower,predicate,enclose,spread{threads=64},widen"
)


def on_threads(module: Module) -> Any:
    """A module in the simulator, which refuses races and what has no defined meaning.

    It is run by several blocks, and where threads wait for each other by one that takes all turns: of a row, say, and
    then of the next.
    """
    run_pipeline(module, SPREAD)
    text = write_text(module)  # once, for all programs that are made of it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "write_text", lambda _: text)
        if "barrier()" not in text.source():
            return simulated(module)
        programs = [simulated(module, blocks=blocks) for blocks in (MOST_BLOCKS, 1)]

    def run(*arrays: Any) -> Any:
        found, again = (one(*(np.array(a) for a in arrays)) for one in programs)
        for one, other in zip(found, again, strict=True):
            assert one.tobytes() == other.tobytes()
        return found

    return run


@pytest.mark.parametrize("defn", tensor_ops(), ids=lambda defn: defn.name)
def test_samples(defn: Op) -> None:
    for found, expected in sample_program(defn).run(on_threads):
        assert_close(found, expected, ulps=16)


#: What has no form on devices: calls of Python's functions and of custom kernels, LAPACK's, what is for processors.
REFUSED = {"call_foreign", "call_host", "eig", "invoke", "notify_back", "numpy_function"}
REFUSED |= {"lanes", "load_at", "prefetch", "reduce_lanes", "shuffle", "splat"}


def test_every_operation_is_run_or_refused_by_name() -> None:
    """By its samples, above, or in a program, below."""
    found = coverage()
    assert found.keys() == OPS.keys()
    assert not [name for name, how in found.items() if not how]
    own = {n for n, d in OPS.items() if d.no_device and not isinstance(d, Foreign)}
    assert own == REFUSED
    assert not any(d.no_device for d in tensor_ops() if not isinstance(d, Foreign))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_what_has_no_samples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    usual, found = (PROGRAMS[name].run(simulated=simulated) for simulated in (False, True))
    for one, other in zip(found, usual, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    assert capsys.readouterr().err.count("x is") == (2 if name == "derivatives" else 0)


@pytest.mark.parametrize(
    "name", [d.name for d in tensor_ops() if d.name.startswith(("scatter_", "index_"))]
)
def test_places_of_updates_have_owners(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few there are: in the order of the updates, and nobody else comes by."""
    monkeypatch.setattr(owners, "_MANY", 1)
    for found, expected in sample_program(OPS[name]).run(on_threads):
        assert_close(found, expected, ulps=16)


def test_rows_that_are_updated_are_dealt_out() -> None:
    """Also if a row is meant several times, and its owner has others."""
    rng = np.random.default_rng(3)
    at = rng.integers(0, 20, (4, 35)).astype(np.int32)
    rows = rng.integers(-9, 9, (4, 35, 33)).astype(np.float32)

    @tapec.compile(target="cuda", engine="simulator")
    def add(at: Any, rows: Any) -> Any:
        return tapec.math.unsorted_segment_sum(rows, at, 20)

    expected = np.zeros((20, 33), np.float32)
    np.add.at(expected, at, rows)
    np.testing.assert_array_equal(add(at, rows).numpy(), expected)
    module = lowered_for(tapec.compile(add.python_function).trace(at, rows), "cuda")
    launches = recorded(write_text(module))
    assert launches is not None
    assert launches[-1].blocks > 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_of_zeros_the_sign_counts(dtype: str) -> None:
    """As on processors."""
    x, y = (
        tapec.constant(zeros, dtype) for zeros in ([0.0, -0.0, 0.0, -0.0], [-0.0, 0.0, 0.0, -0.0])
    )

    @tapec.compile(target="cuda", engine="simulator")
    def both(x: Any, y: Any) -> Any:
        return tapec.maximum(x, y), tapec.minimum(x, y), tapec.sign(x)

    highest, lowest, sign = (np.signbit(z.numpy().astype(np.float32)).tolist() for z in both(x, y))
    assert highest == [False, False, False, True]
    assert lowest == [True, True, False, True]
    assert not any(sign)


#: NumPy's names of functions that texts have under others.
_NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh"}
_NUMPY |= {"acosh": "arccosh", "atanh": "arctanh"}


@pytest.mark.parametrize("stem", sorted(FUNCTIONS))
@pytest.mark.parametrize("bits", [32, 64])
def test_every_function_has_a_text_of_primitives(stem: str, bits: int) -> None:
    """And gives what NumPy gives, where NumPy has it, to some units of the last place."""
    whole = stem in ("upow", "udiv", "umod", "shl", "shr", "ushr")
    name = f"{stem}_{'i' if whole else 'f'}{bits}"
    library = Functions()
    library.need(name)
    assert library.primitives <= primitives.NAMES
    names = dict(primitives.TWINS)
    exec("\n\n".join(library.texts.values()), names)
    wanted: Any = getattr(np, _NUMPY.get(stem, stem), None)
    if wanted is None or stem not in BOUNDS or stem in ("pow", "atan2"):
        return
    kind = np.float32 if bits == 32 else np.float64
    start = 1.5 if stem == "acosh" else 0.125
    for x in np.linspace(start, start + 0.75, 7, dtype=kind):
        with np.errstate(all="ignore"):
            expected: Any = np.asarray(wanted(np.longdouble(x))).astype(kind)
            found = names[name](x)
        assert abs(found - expected) <= (BOUNDS[stem][bits == 64] + 1) * np.spacing(abs(expected))


@pytest.mark.parametrize(
    ("name", "most"),
    [("mlp_train", 12), ("transformer_train", 60), ("vdp_scan", 12), ("lstm_train", 12)],
)
def test_steps_take_few_launches(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = write_text(lowered_for(traced(name, monkeypatch), "cuda"))
    launches = recorded(text)
    assert launches is not None
    assert len(launches) <= most
    arena = text.module.entry.attrs["arena"]
    assert listing(text).startswith(f"# {len(launches)} launches, an arena of {arena} bytes")
    assert f"| `{name}` | {len(launches)} | {arena:,} |" in PAGE.read_text("utf-8")


def test_long_sums_take_two_stages() -> None:
    """Blocks of threads have parts of them; so have those that make a deep product."""
    rng = np.random.default_rng(2)
    x, a, b = (
        rng.integers(-3, 4, s).astype(np.float32) for s in ((32, 128), (1024, 16), (1024, 8))
    )

    @tapec.compile(target="cuda", engine="simulator")
    def both(x: Any, a: Any, b: Any) -> Any:
        return tapec.reduce_sum(x), tapec.matmul(a, b, transpose_a=True)

    total, product = both(x, a, b)
    assert "3 launches" in both.lower(x, a, b).text("cuda")
    assert total.numpy() == x.sum()
    np.testing.assert_array_equal(product.numpy(), a.T @ b)


def test_what_parts_of_a_sum_give_is_not_rounded_to_16_bits() -> None:
    """These sums are larger than 16 bits can tell apart: rounded once, they are those of a processor."""
    rng = np.random.default_rng(2)
    a, b = (rng.integers(1, 4, s).astype(np.float16) for s in ((1024, 32), (1024, 32)))
    x = rng.integers(1, 4, (64, 128)).astype(np.float16)

    def both(x: Any, a: Any, b: Any) -> Any:
        return tapec.reduce_sum(x), tapec.matmul(a, b, transpose_a=True)

    module = tapec.compile(both).trace(*(tapec.TensorSpec(v.shape, v.dtype) for v in (x, a, b)))
    run_pipeline(module, parse_pipeline("inline,stages"))
    assert [op.name for op in module.entry.block.ops].count("cast") == 3
    total, product = evaluate_module(module, (x, a, b))
    assert total == x.sum(dtype=np.float32).astype(np.float16)
    np.testing.assert_array_equal(product, (a.T.astype(np.float32) @ b).astype(np.float16))
    text = write_text(lowered_for(module, "cuda"))
    pieces = [*text.parts.values(), *(kernel.source() for kernel in text.kernels.values())]
    (tile,) = (piece for piece in pieces if "mma_f16(" in piece)
    assert "f16_bits(" not in tile


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: tapec.scan(lambda c, x: c + x, x, tapec.zeros([512])), [3_000_000, 512]),
        (lambda x: tapec.reduce_sum(x[:, None, None] * x[:, None] * x), [60_000]),
        (lambda x: x + 1.0, [3_000_000_000]),
    ],
    ids=["bytes", "turns", "elements"],
)
def test_indices_are_as_wide_as_sizes_take(function: Any, shape: list[int]) -> None:
    """Also those that kernels go by in bytes, or count all combinations of."""
    text = write_text(lowered_for(tapec.compile(function).trace(tapec.TensorSpec(shape)), "cuda"))
    assert "u64(" in text.source()


def test_indices_are_wide_where_open_sizes_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide_indices, "END", 64)
    written: list[bool] = []
    write = module_text.write_text

    def noted(*args: Any, **how: Any) -> Any:
        written.append(how["wide"])
        return write(*args, **how)

    monkeypatch.setattr(module_text, "write_text", noted)
    spec = [tapec.TensorSpec([None, 3])] * 2
    function = tapec.compile(
        lambda x, y: tapec.cumsum(tapec.matmul(x, y, transpose_b=True)),
        target="cuda",
        engine="simulator",
        input_signature=spec,
    )
    for rows, wide in ((4, []), (9, [True])):
        x, y = np.arange(6 * rows, dtype=np.float32).reshape(2, rows, 3)
        np.testing.assert_array_equal(function(x, y).numpy(), np.cumsum(x @ y.T, 0))
        assert written == wide


def test_what_threads_share_is_as_much_as_there_is() -> None:
    """What is left is computed again: in memory of a thread's own, it would be as far away as the device's."""

    def turn(h: Any, now: Any) -> Any:
        for _ in range(3):
            h = tapec.exp(tapec.nn.softmax(h * now))
        return h / tapec.reduce_sum(h, axis=-1, keepdims=True)

    spec = tapec.TensorSpec([4, 16, 4096])
    module = tapec.compile(lambda x: tapec.foldl(turn, x)).trace(spec)
    text = write_text(lowered_for(module, "cuda"))
    assert max(kernel.shared for kernel in text.kernels.values()) > 32 << 10
    assert "local_" not in text.source()


def test_what_computes_with_threads_is_joined_with_its_like() -> None:
    """A tile has 64 threads, the sums over long rows have 256: one launch would be wrong for one of them."""
    rng = np.random.default_rng(1)
    shapes = ((40, 33), (33, 25), (2, 600))
    a, b, c = (rng.integers(-3, 4, s).astype(np.float32) for s in shapes)

    @tapec.compile(target="cuda", engine="simulator")
    def both(a: Any, b: Any, c: Any) -> Any:
        return tapec.matmul(a, b), tapec.reduce_sum(c, axis=1)

    product, sums = both(a, b, c)
    np.testing.assert_array_equal(product.numpy(), a @ b)
    np.testing.assert_array_equal(sums.numpy(), c.sum(axis=1))


def test_joined_kernels_take_all_their_blocks() -> None:
    """Also if these are more than a device runs at once."""
    specs = [tapec.TensorSpec([n, 100]) for n in (6400, 6000)]
    module = tapec.compile(lambda x, y: (tapec.exp(x), tapec.tanh(y))).trace(*specs)
    launches = recorded(write_text(lowered_for(module, "cuda")))
    assert launches is not None
    (one,) = launches
    assert one.kernel.is_whole
    assert one.blocks == one.kernel.turns
    assert one.blocks > BLOCKS
