"""Kernels in the simulator that numba-cuda brings, which others wrote: a second opinion on what ours says of them.

    pip install -e '.[dev,cuda-test]' && pytest tests/cuda_simulator.py

Numba decides whether it simulates when it is imported, so each program has a process of its own: this file, run as a
script with the program's name. That simulator has a thread of the system for each thread of a block. It has no
shuffles, so warps are made of barriers here.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
from programs_of_ops import assert_close

import tapec
from tapec.compiler import lowered_for
from tapec.ir.core import Module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.types import DType
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime.cuda.launches import Host, Launch, Memory
from tapec.runtime.cuda.text.module_text import Text, write_text
from tapec.runtime.cuda.text.primitives import COPIES, TWINS, matrix_words, warp_product
from tapec.runtime.python_text.primitives import DTYPES
from tapec.runtime.python_text.program import Arrays

#: What checks indices is in front of these; two warps, because more threads take long.
SPREAD = parse_pipeline(
    "inline,canonicalize,cse,dce,checkpoint,adjoint,prune,commit,pairs,fuse,"
    "schedule{vector-bytes=0,masked=false,compact=true},plan{share=false},lower,predicate,enclose,spread{threads=64},join,widen"
)
#: Blocks of a launch that are run, at most, of kernels that take any number.
BLOCKS = 2
WARP = 32
ULPS = 16

#: Numba's ``cuda`` has to be a global of what uses it: while a kernel runs, another stands in its place.
PRELUDE = """
def thread():
    return u32(cuda.threadIdx.x)

def block_index():
    return u32(cuda.blockIdx.x)

def block_count():
    return u32(cuda.gridDim.x)

def barrier():
    cuda.syncthreads()

def shared_bytes():
    return cuda.shared.array(0, byte)

def local_array(count, dtype):
    return cuda.local.array(count, dtype)
"""


# ---- the programs


def array(*shape: int, low: float = -1.0, high: float = 1.0) -> Any:
    """Numbers of single precision, the same each time."""
    return np.random.default_rng(sum(shape)).uniform(low, high, shape).astype(np.float32)


def eighths(*shape: int) -> Any:
    """Such numbers, whose products of some dozen have exact sums, in whatever order a library adds them up."""
    return np.round(array(*shape) * 8) / np.float32(8)


def indices(count: int, high: int) -> Any:
    """Some of them twice."""
    return np.random.default_rng(count).integers(0, high, count).astype(np.int32)


def elementwise(x: Any, y: Any) -> Any:
    return tapec.tanh(x) * y + tapec.exp(-x * x) / (1.0 + tapec.abs(y))


def softmax(x: Any) -> Any:
    return tapec.nn.softmax(x)


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    mean = tapec.reduce_mean(x, axis=-1, keepdims=True)
    variance = tapec.reduce_mean((x - mean) ** 2, axis=-1, keepdims=True)
    return tapec.nn.batch_normalization(x, mean, variance, shift, scale, 1e-5)


def total(x: Any) -> Any:
    return tapec.reduce_sum(x * x)


def product(a: Any, b: Any, c: Any) -> Any:
    return tapec.nn.relu(tapec.matmul(a, b) + c)


def halves(a: Any, b: Any, c: Any) -> Any:
    a, b = (tapec.cast(x, tapec.float16) for x in (a, b))
    return tapec.cast(tapec.matmul(a, b), tapec.float32) + c


def transposed(x: Any) -> Any:
    return tapec.transpose(x) + 1.0


def gathered(table: Any, at: Any) -> Any:
    return tapec.gather(table, at)


def scattered(at: Any, rows: Any) -> Any:
    return tapec.math.unsorted_segment_sum(rows, at, 7)


def adam(p: Any, g: Any, m: Any, v: Any) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 0.01 * m / (tapec.sqrt(v) + 1e-8), m, v


def philox(x: Any) -> Any:
    return x + tapec.random.stateless_uniform([5, 13], seed=[3, 4])


def scan(x: Any) -> Any:
    return tapec.cumsum(x, axis=1)


def recurrent(x: Any, w: Any) -> Any:
    """One launch: each row goes through time by itself."""
    return tapec.foldl(lambda h, now: tapec.tanh(h @ w + now), x, initializer=tapec.zeros([8, 34]))


PROGRAMS: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (elementwise, (array(9, 31), array(9, 31))),
    "softmax": (softmax, (array(3, 150),)),
    "layer_norm": (layer_norm, (array(3, 130), array(130), array(130))),
    "total": (total, (array(40, 50),)),
    "product": (product, (eighths(6, 11), eighths(11, 5), eighths(5))),
    "tiled_product": (product, (eighths(40, 33), eighths(33, 35), eighths(35))),
    "copied_product": (product, (eighths(32, 32), eighths(32, 32), eighths(32))),
    "product_of_halves": (halves, (eighths(32, 34), eighths(34, 33), eighths(33))),
    "copied_halves": (halves, (eighths(32, 64), eighths(64, 32), eighths(32))),
    "transpose": (transposed, (array(12, 17),)),
    "gather": (gathered, (array(9, 5), indices(14, 9))),
    "scatter": (scattered, (indices(12, 7), array(12, 5))),
    "adam": (adam, tuple(array(150, low=0.1) for _ in range(4))),
    "philox": (philox, (array(5, 13),)),
    "scan": (scan, (array(6, 20),)),
    "recurrent": (recurrent, (array(3, 8, 34), array(34, 34, low=-0.1, high=0.1))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_numbas_simulator_gives_what_the_evaluator_gives(name: str) -> None:
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}
    done = subprocess.run(
        [sys.executable, __file__, name], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as evaluated" in done.stdout


# ---- what runs them


class Pointer:
    """A place in memory; other kernels' buffers may be the same place."""

    def __init__(self, data: Any, code: str) -> None:
        """``data`` are bytes."""
        size = np.dtype(DTYPES[code]).itemsize
        self.data = data
        self.items = data[: data.size // size * size].view(DTYPES[code])

    def __getitem__(self, index: Any) -> Any:
        return self.items[self._inside(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.items[self._inside(index)] = value

    def _inside(self, index: Any) -> int:
        if not 0 <= int(index) < self.items.size:
            raise IndexError(f"element {index} of {self.items.size}")
        return int(index)


class Warps:
    """The warps of a block: in each, threads show each other what they have."""

    def __init__(self, threads: int) -> None:
        """So many threads, the last warp may be smaller."""
        sizes = [min(WARP, threads - first) for first in range(0, threads, WARP)]
        self.barriers = [threading.Barrier(size) for size in sizes]
        self.shown: list[Any] = [None] * threads

    def exchange(self, thread: int, value: Any) -> list[Any]:
        """What the threads of the warp show."""
        barrier, first = self.barriers[thread // WARP], thread // WARP * WARP
        self.shown[thread] = value
        barrier.wait()
        found = self.shown[first : first + WARP]
        barrier.wait()
        return found


class NumbaDevice:
    """A device of `tapec.runtime.cuda.launches.Host` that is numba-cuda's simulator."""

    def __init__(self, text: Text, memory: dict[tuple[str, int], Any]) -> None:
        """``memory`` are arrays of bytes."""
        from numba import cuda  # chooses to simulate by the environment, so no sooner

        self._cuda = cuda
        self.memory = memory | {
            ("table", n): table.reshape(-1).view(np.uint8) for n, table in enumerate(text.tables)
        }
        self.launches = 0
        self._names: dict[str, Any] = {**TWINS, "cuda": cuda, "byte": np.dtype(np.uint8)}
        exec(PRELUDE, self._names)
        self._names |= self._of_memory()
        exec(compile(text.source(), "<kernels>", "exec"), self._names)

    def _of_memory(self) -> dict[str, Any]:
        """Primitives for each dtype."""
        names = self._names

        def load4(pointer: Any, index: Any) -> Any:
            return tuple(pointer[int(index) + k] for k in range(4))

        def store4(pointer: Any, index: Any, *values: Any) -> None:
            for k, value in enumerate(values):
                pointer[int(index) + k] = value

        def copy(count: int, to: Any, index: Any, source: Any, at: Any) -> None:
            for k in range(count):
                to[int(index) + k] = source[int(at) + k]

        # Copies are there at once: a device may be that fast.
        found: dict[str, Any] = {"commit_copies": lambda: None, "wait_copies": lambda groups: None}
        found |= {name: partial(copy, count) for name, count in COPIES.items()}
        found |= {"matrices4": self._matrices(False), "matrices4_turned": self._matrices(True)}
        found |= {f"mma_{form}": self._product(form) for form in ("tf32", "f16", "bf16")}
        for code, kind in DTYPES.items():
            found |= {f"load4_{code}": load4, f"store4_{code}": store4}
            found[f"shared_{code}"] = lambda n, c=code: Pointer(names["shared_bytes"]()[n:], c)
            found[f"local_{code}"] = lambda n, k=kind: names["local_array"](n, k)
            found[f"part_{code}"] = lambda p, n, c=code: Pointer(p.data[int(n) :], c)
            found[f"shuffle_xor_{code}"] = self._shuffle
        return found

    def _shuffle(self, value: Any, reach: Any) -> Any:
        lane, shown = self._exchange(value)
        return shown[lane ^ int(reach)]

    def _product(self, form: str) -> Callable[..., Any]:
        def product(*operands: Any) -> Any:
            lane, shown = self._exchange(operands)
            return warp_product(form, shown)[lane]

        return product

    def _matrices(self, turned: bool) -> Callable[..., Any]:
        def matrices(pointer: Any, index: Any) -> Any:
            lane, shown = self._exchange((pointer, int(index)))

            def read(row: int, column: int) -> Any:
                source, first = shown[row]
                return source[first + column]

            return matrix_words(lane, read, turned=turned)

        return matrices

    @staticmethod
    def _exchange(value: Any) -> tuple[int, list[Any]]:
        """The number of this thread in its warp, and what the warp's threads show each other."""
        running: Any = threading.current_thread()
        with _LOCK:
            block = vars(running._manager)
            warps = block.setdefault("warps", Warps(running._manager._block_dim[0]))
        me = int(running.threadIdx.x)
        return me % WARP, warps.exchange(me, value)

    def launch(self, one: Launch) -> None:
        """Have numba's simulator run a kernel."""
        blocks = one.blocks if one.kernel.is_whole else min(one.blocks, BLOCKS)
        pointers = [
            Pointer(
                self.memory[place.kind, place.number][place.offset : place.offset + extent], code
            )
            for place, (_, code), extent in zip(
                one.memory, one.kernel.pointers, one.extents, strict=True
            )
        ]
        sizes = [DTYPES[code](n) for n, (_, code) in zip(one.sizes, one.kernel.sizes, strict=True)]
        kernel = self._cuda.jit(self._names[one.kernel.name])
        kernel[blocks, one.threads, 0, one.kernel.shared](*pointers, *sizes)
        self.launches += 1

    def read(self, place: Memory, dtype: DType) -> Any:
        """A number."""
        data = self.memory[place.kind, place.number]
        return data[place.offset : place.offset + dtype.bytes].view(dtype.numpy)[0]

    def write(self, place: Memory, dtype: DType, value: Any) -> None:
        """Put a number."""
        data = self.memory[place.kind, place.number]
        data[place.offset : place.offset + dtype.bytes].view(dtype.numpy)[0] = value


_LOCK = threading.Lock()


def simulated(module: Module, operands: tuple[Any, ...]) -> tuple[list[Any], int]:
    """What a module of fixed sizes gives, and how many kernels were launched."""
    text = write_text(module)
    arrays = Arrays(module)
    given, results, _, _ = arrays.take(operands)
    memory = {("arg", i): a.reshape(-1).view(np.uint8) for i, a in enumerate(given)}
    memory |= {("result", i): a.reshape(-1).view(np.uint8) for i, a in enumerate(results)}
    arena = arrays.signature.arena_bytes
    assert isinstance(arena, int)
    memory["arena", 0] = np.full(arena, 0xFF, np.uint8)
    device = NumbaDevice(text, memory)
    Host(text, device).run()
    return list(results), device.launches


def main(name: str) -> None:
    """Run one program, and compare."""
    assert os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", "NUMBA_ENABLE_CUDASIM has to be 1"
    warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's of overflow, in every thread
    function, operands = PROGRAMS[name]
    specs = [tapec.TensorSpec(a.shape, a.dtype) for a in operands]
    module: Module = tapec.compile(function).trace(*specs)
    expected = evaluate_module(module, operands)
    if function in (product, halves) and name != "product":
        module = lowered_for(module, "cuda")
    else:
        run_pipeline(module, SPREAD)
    found, launches = simulated(module, operands)
    assert launches
    # What the program says of its indices, for the host to raise, comes behind.
    for one, other in zip(found[: len(expected)], expected, strict=True):
        assert_close(one, other, ULPS)
    print(f"{name}: {launches} launches, as evaluated")


if __name__ == "__main__":
    main(sys.argv[1])
