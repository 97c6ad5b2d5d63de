"""What the simulator of CUDA kernels refuses, and what threads do together there: small kernels written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import dedent, indent
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tapec.ir.core import Module
from tapec.runtime.cuda.launches import Launch, Memory
from tapec.runtime.cuda.simulator.memory import SimulationError, cells_of
from tapec.runtime.cuda.simulator.simulator import Simulator
from tapec.runtime.cuda.text.kernel_text import KernelText
from tapec.runtime.cuda.text.module_text import Text
from tapec.runtime.cuda.text.primitives import TWINS


def run(
    body: str, *, threads: int = 32, blocks: int = 1, constant: str = "", **arrays: Any
) -> None:
    """Run a kernel that has these arrays, and 64 numbers of float32 that a block shares, as ``common``.

    It may not write to the array that is named as constant.
    """
    lines = "common = shared_f32(0)\nt = thread()\n" + dedent(body)
    codes = {np.dtype(np.float32): "f32", np.dtype(np.uint32): "u32"}
    kernel = KernelText(
        name="k",
        body=tuple(indent(lines.strip(), "    ").splitlines()),
        pointers=tuple((name, codes[array.dtype]) for name, array in arrays.items()),
        tables=(),
        sizes=(),
        threads=threads,
        turns=blocks,
        over="blocks",
        shared=256,
    )
    memory = {
        ("arg", n): cells_of(array, constant=name == constant)
        for n, (name, array) in enumerate(arrays.items())
    }
    text = Text(Module(), {"k": kernel}, {"k": kernel}, {}, {}, ())
    places = tuple(Memory("arg", n, 0) for n in range(len(arrays)))
    extents = tuple(array.nbytes for array in arrays.values())
    Simulator(text, memory).launch(Launch(kernel, blocks, places, (), extents))


def test_halves_of_words_are_of_different_threads() -> None:
    """Each may write its own, and the word is whole behind a barrier."""
    x = numbers()
    body = """
        halves = shared_u16(0)
        halves[t] = u16(t)
        barrier()
        if t < u32(16):
            x[t] = f32(shared_u32(0)[t])
    """
    run(body, x=x)
    pairs = np.arange(0, 32, 2)
    np.testing.assert_array_equal(x[:16], pairs + 65536 * (pairs + 1))


def numbers(count: int = 64) -> Any:
    return np.arange(count, dtype=np.float32)


#: Each does one thing that has no meaning on a device; the words that it is told in.
REFUSED: Mapping[str, tuple[str, str]] = {
    "a barrier that half of the threads come to": (
        """
        if t < u32(16):
            barrier()
        """,
        "wait at different places",
    ),
    "barriers at two places": (
        """
        if t < u32(16):
            barrier()
        else:
            barrier()
        """,
        "wait at different places",
    ),
    "an index outside": ("x[u32(t + u32(64))] = f32(0)", "writes element 64 of 64"),
    "memory that nothing was written to": ("x[t] = common[t]", "nothing was written to"),
    "a number of the thread's own before it is there": (
        """
        own = local_f32(2)
        x[t] = own[u32(1)]
        """,
        "before it is written",
    ),
    "a read of what another thread writes": (
        """
        common[t] = f32(1)
        x[t] = common[u32(t // u32(2))]
        """,
        "data race: reads element",
    ),
    "a write of what another thread reads": (
        """
        common[t] = f32(1)
        barrier()
        y = common[u32(31 - t)]
        common[t] = y
        """,
        "data race: reads element 15, which block 0, thread 15 writes",
    ),
    "a read of an element of which another thread writes the second half": (
        """
        common[t] = f32(1)
        barrier()
        wide = shared_f64(0)
        if t < u32(8):
            common[u32(u32(2) * t + u32(1))] = f32(2)
        elif t < u32(16):
            y = wide[u32(t - u32(8))]
        """,
        "data race: reads element 0, which block 0, thread 0 writes",
    ),
    "a write of half of what another thread reads": (
        """
        common[t] = f32(1)
        barrier()
        wide = shared_f64(0)
        if t < u32(8):
            y = wide[t]
        elif t < u32(16):
            common[u32(u32(2) * u32(t - u32(8)) + u32(1))] = f32(2)
        """,
        "data race: writes element 1, which block 0, thread 0 reads",
    ),
    "a read of the second half, by a pointer that is made later": (
        """
        common[t] = f32(1)
        if t == u32(31):
            halves = shared_u16(0)
            y = halves[u32(1)]
        """,
        "data race: reads element 1, which block 0, thread 0 writes",
    ),
    "a read of the second of four neighbours": (
        """
        if t == u32(0):
            store4_f32(common, u32(0), f32(1), f32(1), f32(1), f32(1))
        if t == u32(9):
            y = common[u32(1)]
        """,
        "data race: reads element 1, which block 0, thread 0 writes",
    ),
    "a write of half of what is being copied": (
        """
        copy4_f32(common, u32(0), x, u32(0))
        commit_copies()
        halves = shared_u16(0)
        halves[u32(3)] = u16(1)
        """,
        "writes element 3, a copy of which has not been waited for",
    ),
    "a read of which half was written": (
        """
        if t == u32(0):
            common[u32(0)] = f32(1)
            y = shared_f64(0)[u32(0)]
        """,
        "nothing was written to",
    ),
    "an element that begins in the middle of another": (
        "y = part_f64(x, u32(4))",
        "takes byte 4 for the first of an element of 8",
    ),
    "another dtype": ("x[t] = 1.0", "stores a float where float32 is"),
    "two copies into one place": (
        """
        copy4_f32(common, u32(t % u32(16)) * u32(4), x, u32(0))
        """,
        "writes element 0, a copy of which has not been waited for",
    ),
    "a copy that its thread does not wait for": (
        """
        if t < u32(16):
            copy4_f32(common, u32(t * u32(4)), x, u32(t * u32(4)))
        commit_copies()
        barrier()
        x[t] = common[t]
        """,
        "a copy of which has not been waited for",
    ),
    "a copy of the last group, of which all but that were waited for": (
        """
        copy4_f32(common, u32(0), x, u32(0))
        commit_copies()
        wait_copies(1)
        y = common[u32(0)]
        """,
        "a copy of which has not been waited for",
    ),
    "a copy that was not committed": (
        """
        copy4_f32(common, u32(0), x, u32(0))
        wait_copies(0)
        y = common[u32(0)]
        """,
        "a copy of which has not been waited for",
    ),
    "a copy that others read with no barrier": (
        """
        if t < u32(16):
            copy4_f32(common, u32(t * u32(4)), x, u32(t * u32(4)))
        commit_copies()
        wait_copies(0)
        x[t] = common[u32(t // u32(2))]
        """,
        "data race: reads element 0, which block 0, thread 0 writes",
    ),
    "a copy into what others still read": (
        """
        common[t] = f32(1)
        barrier()
        y = common[u32(t // u32(2))]
        if t > u32(16) and t < u32(18):
            copy4_f32(common, u32(4), x, u32(0))
        commit_copies()
        wait_copies(0)
        """,
        "data race: writes element",
    ),
    "a write to what is being copied": (
        """
        copy4_f32(common, u32(0), x, u32(0))
        common[u32(3)] = f32(0)
        """,
        "writes element 3, a copy of which",
    ),
    "a source that changes before the copy has come": (
        """
        if t == u32(0):
            copy4_f32(common, u32(0), x, u32(0))
        if t == u32(1):
            x[u32(2)] = f32(0)
        commit_copies()
        wait_copies(0)
        """,
        "data race: writes element 2",
    ),
    "a copy that goes on when the block has ended": (
        """
        if t == u32(0):
            copy4_f32(common, u32(0), x, u32(0))
        """,
        "ends with copies",
    ),
    "a copy from an address between": (
        "copy4_f32(common, u32(0), x, u32(2))",
        "reads 4 elements from 2 on, which are not aligned",
    ),
    "four neighbours from a place between": (
        "common[u32(2)], a, b, c = load4_f32(part_f32(x, u32(4)), u32(4))",
        "reads 4 elements from 4 on, which are not aligned",
    ),
    "four neighbours to a place between": (
        "store4_f32(x, u32(6), f32(0), f32(0), f32(0), f32(0))",
        "writes 4 elements from 6 on, which are not aligned",
    ),
    "a number of a thread that there is not": (
        "y = shuffle_xor_f32(f32(1), 32)",
        "32 threads, of which one wants what number 63 has",
    ),
    "a product that half of a warp comes to": (
        """
        zero = f32(0)
        if t < u32(16):
            a, b, c, d = mma_tf32(zero, zero, zero, zero, zero, zero, zero, zero, zero, zero)
        """,
        "wait at different places",
    ),
    "a product of numbers that were not rounded": (
        """
        third, zero = f32(0.333333), f32(0)
        a, b, c, d = mma_tf32(third, zero, zero, zero, zero, zero, zero, zero, zero, zero)
        """,
        "is not rounded to tf32",
    ),
}


#: Of these, what one thread does: the copies of several would be in each other's way.
OF_ONE_THREAD = {
    "a copy of the last group, of which all but that were waited for",
    "a copy that was not committed",
    "a write to what is being copied",
    "a copy from an address between",
    "four neighbours from a place between",
    "four neighbours to a place between",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses(name: str) -> None:
    body, said = REFUSED[name]
    with pytest.raises(SimulationError, match=said):
        run(body, threads=1 if name in OF_ONE_THREAD else 32, x=numbers())


def test_refuses_what_another_block_writes() -> None:
    with pytest.raises(SimulationError, match="data race: writes element 0, which block 0"):
        run("x[u32(0)] = f32(1)", threads=1, blocks=2, x=numbers())


def test_refuses_a_write_to_what_is_only_read() -> None:
    with pytest.raises(SimulationError, match="writes element 0 of what is only read"):
        run("y[t] = x[t]\nx[t] = y[t]", constant="x", x=numbers(), y=numbers())


def test_refuses_a_result_that_is_not_written_in_whole() -> None:
    result = cells_of(numbers(), written=False)
    assert result.known is not None
    result.known[:100] = True
    with pytest.raises(SimulationError, match="nothing wrote byte 100 of result 0"):
        result.hold_to_written("result 0")
    result.known[:] = True
    result.hold_to_written("result 0")


def test_a_warp_of_fewer_threads_makes_no_product() -> None:
    zeros = ", ".join(["f32(0)"] * 10)
    with pytest.raises(SimulationError, match="16 threads of a warp's 32"):
        run(f"a, b, c, d = mma_tf32({zeros})", threads=16, x=numbers())


def test_copies_come_group_by_group() -> None:
    """While the second group is on its way, the first is there."""
    x = numbers()
    run(
        """
        copy4_f32(common, u32(t * u32(4)), x, u32(t * u32(4)))
        commit_copies()
        copy4_f32(common, u32(u32(32) + u32(t * u32(4))), x, u32(t * u32(4)))
        commit_copies()
        wait_copies(1)
        barrier()
        y = common[u32(7 - t)]
        wait_copies(0)
        barrier()
        x[t] = f32(y * common[u32(u32(32) + t)])
        """,
        threads=8,
        x=x,
    )
    np.testing.assert_array_equal(x[:8], np.arange(7, -1, -1) * np.arange(8))


ROUNDED = [
    (1.0, 1.0),
    (1.0 + 2.0**-11, 1.0 + 2.0**-10),  # half of the way goes away from zero
    (-1.0 - 2.0**-11, -1.0 - 2.0**-10),
    (1.0 + 2.0**-12, 1.0),
    (float(np.finfo(np.float32).max), np.inf),
    (np.inf, np.inf),
]


@pytest.mark.parametrize(("x", "expected"), ROUNDED)
def test_tf32_has_ten_bits(x: float, expected: float) -> None:
    assert TWINS["tf32"](np.float32(x)) == np.float32(expected)
    assert np.isnan(TWINS["tf32"](np.float32(np.nan)))


@pytest.mark.parametrize("form", ["tf32", "f16", "bf16"])
def test_a_warp_makes_a_product(form: str) -> None:
    """Fragments are where the PTX ISA has them: 16 rows and 8 columns, of 8 words in depth."""
    rng = np.random.default_rng(0)
    packed = 1 if form == "tf32" else 2
    a, b = rng.integers(-4, 5, (16, 8 * packed)), rng.integers(-4, 5, (8 * packed, 8))
    sums = rng.integers(-4, 5, (16, 8)).astype(np.float32)
    if form == "tf32":
        words = [m.astype(np.float32) for m in (a, b.T)]
    else:
        half = np.float16 if form == "f16" else ml_dtypes.bfloat16
        words = [np.ascontiguousarray(m.astype(half)).view(np.uint32) for m in (a, b.T)]
    left, right = (np.ascontiguousarray(w).reshape(-1) for w in words)
    c = sums.copy().reshape(-1)
    run(
        f"""
        g, n = u32(t // u32(4)), u32(t % u32(4))
        i, k = u32(u32(g * u32(8)) + n), u32(u32(g * u32(8)) + u32(n * u32(2)))
        a0, a1, a2, a3 = a[i], a[u32(i + u32(64))], a[u32(i + u32(4))], a[u32(i + u32(68))]
        b0, b1 = b[i], b[u32(i + u32(4))]
        c0, c1, c2, c3 = c[k], c[u32(k + u32(1))], c[u32(k + u32(64))], c[u32(k + u32(65))]
        d0, d1, d2, d3 = mma_{form}(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3)
        c[k] = d0
        c[u32(k + u32(1))] = d1
        c[u32(k + u32(64))] = d2
        c[u32(k + u32(65))] = d3
        """,
        a=left,
        b=right,
        c=c,
    )
    np.testing.assert_array_equal(c.reshape(16, 8), sums + a @ b)
