"""Single matrix products: what share of the processor's peak each reaches, beside NumPy's library.

    PYTHON benchmarks/gemm.py table [SHAPE ...]
    PYTHON benchmarks/gemm.py rule [--count 20] [--seed 1]
    PYTHON benchmarks/gemm.py library [--count 20] [--seed 1]

`table` times products on one thread, in one process: by default those of ``matmul_relu`` and of the workloads that
`workloads/gemm_only.py` knows. `rule` draws shapes that nobody has tuned for, and compares the tile that
`tapec.passes.contractions.tiling` chooses with the fastest of its candidates. `library` compares products of shapes
drawn in the same way with NumPy's OpenBLAS, to see whether that should be called for any kind of shape. A shape is
``f32:MxNxK``, with ``t`` behind the dtype for a transposed first operand, ``u`` for a transposed second, and one more
size in front for a stack.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("TAPEC_NUM_THREADS", "1")

import llvmlite.binding as llvm
import numpy as np
from workloads import gemm_only

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module
from tapec.ir.ops.control import KernelOp
from tapec.ir.types import DTYPES, TensorType
from tapec.passes import schedule
from tapec.passes.contractions.tiling import Tiling, candidates
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime import TARGETS, Executable, compile_module
from tapec.runtime.cpu.machine_code.jit import host_compiler

_DTYPES = {dtype.code: dtype for dtype in DTYPES}
_SHAPE = re.compile(r"(?P<dtype>[a-z]+\d+)(?P<flags>[tu]*):(?P<sizes>\d+(x\d+)+)")


@dataclass(frozen=True)
class Product:
    """``C[m, n] = A[m, k] B[k, n]``, perhaps of transposed operands, perhaps a stack of ``count``."""

    m: int
    n: int
    k: int
    transpose_a: bool = False
    transpose_b: bool = False
    count: int = 0
    dtype: str = "f32"

    @classmethod
    def parse(cls, text: str) -> Product:
        """The product that a text names; four sizes are of a stack, its count first."""
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise SystemExit(f"cannot read the shape {text!r}: write f32tu:128x512x784")
        count, m, n, k = ([0, *map(int, match["sizes"].split("x"))])[-4:]
        flags = match["flags"]
        return cls(m, n, k, "t" in flags, "u" in flags, count, match["dtype"])

    def __str__(self) -> str:
        """What `parse` reads."""
        flags = "t" * self.transpose_a + "u" * self.transpose_b
        stack = f"{self.count}x" if self.count else ""
        return f"{self.dtype}{flags}:{stack}{self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * max(self.count, 1) * self.m * self.n * self.k

    @property
    def types(self) -> list[TensorType]:
        """The operands."""
        lead = (self.count,) if self.count else ()
        a = (self.k, self.m) if self.transpose_a else (self.m, self.k)
        b = (self.n, self.k) if self.transpose_b else (self.k, self.n)
        dtype = _DTYPES[self.dtype]
        return [TensorType(dtype, (*lead, *a)), TensorType(dtype, (*lead, *b))]

    @cached_property
    def arrays(self) -> list[Any]:
        """Operands of normal numbers."""
        rng = np.random.default_rng(0)
        return [rng.standard_normal(t.static_shape).astype(t.dtype.numpy) for t in self.types]

    def scheduled(self) -> Module:
        """The program, as far as the choice of the tile."""
        function = Function("product", self.types, ["a", "b"])
        flags = {"transpose_a": self.transpose_a, "transpose_b": self.transpose_b}
        b = Builder(function.block)
        b.emit("return", b.matmul(*function.args, **flags))
        module = Module([function])
        unit = TARGETS["cpu"].vectors()
        options = f"vector-bytes={unit.bytes},masked={str(unit.masked).lower()}"
        run_pipeline(module, parse_pipeline(f"fuse, schedule{{{options}}}"))
        return module

    def compiled(self, tile: Tiling | None = None) -> tuple[Executable, Tiling]:
        """The native program, and its tile: the one given, or the one chosen."""
        module = self.scheduled()
        (kernel,) = [op for op in module.walk() if isinstance(op.defn, KernelOp)]
        if tile is not None:
            kernel.attrs.update(tile.attrs)
        chosen = Tiling.from_attrs(kernel.attrs)
        run_pipeline(module, parse_pipeline("plan, lower, poll"))
        return compile_module(module, apart=True), chosen

    def caller(self, tile: Tiling | None = None) -> tuple[Callable[[], Any], Tiling]:
        """A call of the native program, and its tile."""
        program, chosen = self.compiled(tile)
        result = np.empty(program.outputs[0].static_shape, program.outputs[0].dtype.numpy)
        call, (a, b) = program.call_raw, self.arrays
        return lambda: call(a, b, result), chosen

    @property
    def library_caller(self) -> Callable[[], Any] | None:
        """NumPy's product, into memory that is there; None where its library has no such product."""
        if self.dtype not in ("f32", "f64"):
            return None
        a, b = self.arrays
        a = a.swapaxes(-1, -2) if self.transpose_a else a
        b = b.swapaxes(-1, -2) if self.transpose_b else b
        result = np.matmul(a, b)
        return lambda: np.matmul(a, b, out=result)

    def beside_library(self) -> tuple[float, float, Tiling]:
        """How long the product takes, how long NumPy's, which is NaN where it has none, and the tile."""
        own, tile = self.caller()
        other = self.library_caller
        if other is None:
            return best_seconds(own), math.nan, tile
        seconds, library = in_turn([own, other])
        return seconds, library, tile

    def candidates(self) -> list[Tiling]:
        """Every tile that the rule looks at, the one it expects to be fastest first."""
        (kernel,) = [op for op in self.scheduled().walk() if isinstance(op.defn, KernelOp)]
        core = schedule.core_of(kernel)
        assert core is not None
        unit = TARGETS["cpu"].vectors()
        options = schedule.Options(vector_bytes=unit.bytes, masked=unit.masked)
        found = candidates(schedule.workload(kernel, core, options))
        return [tile for _, tile in sorted(found, key=lambda pair: pair[0])]


def best_seconds(call: Callable[[], Any], seconds: float = 0.04) -> float:
    """The least time of a call among groups of calls that take about a millisecond each."""
    (best,) = in_turn([call], seconds)
    return best


def in_turn(calls: Sequence[Callable[[], Any]], seconds: float = 0.04) -> list[float]:
    """The least times of several calls, of which groups take turns: a busy neighbour disturbs all alike."""
    counts = [_in_a_millisecond(call) for call in calls]
    best = [math.inf] * len(calls)
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end:
        for i, (call, count) in enumerate(zip(calls, counts, strict=True)):
            start = time.perf_counter()
            for _ in range(count):
                call()
            best[i] = min(best[i], (time.perf_counter() - start) / count)
    return best


def _in_a_millisecond(call: Callable[[], Any]) -> int:
    """How many calls take about so long."""
    call()
    count, elapsed = 1, 0.0
    while elapsed < 1e-3:
        count *= 2
        start = time.perf_counter()
        for _ in range(count):
            call()
        elapsed = time.perf_counter() - start
    return count


def peak() -> float:
    """Float32 operations each second of one core that only multiplies and adds, in vectors as wide as it has."""
    lanes, turns, sums = TARGETS["cpu"].vectors().bytes // 4, 1 << 20, 12
    kind = f"<{lanes} x float>"
    names = [f"%s{n}" for n in range(sums)]
    lines = ["define void @peak(ptr %to) {", "entry:", "br label %loop", "loop:"]
    lines += ["%i = phi i64 [0, %entry], [%j, %loop]"]
    lines += [f"{s} = phi {kind} [splat (float 1.0), %entry], [{s}n, %loop]" for s in names]
    factor = f"{kind} splat (float 0.5), {kind} splat (float 0.5)"
    lines += [f"{s}n = call {kind} @llvm.fma.v{lanes}f32({kind} {s}, {factor})" for s in names]
    lines += ["%j = add i64 %i, 1", f"%more = icmp slt i64 %j, {turns}"]
    lines += ["br i1 %more, label %loop, label %done", "done:"]
    for n, s in enumerate(names):
        lines += [
            f"%p{n} = getelementptr {kind}, ptr %to, i64 {n}",
            f"store {kind} {s}n, ptr %p{n}",
        ]
    lines += ["ret void", "}", f"declare {kind} @llvm.fma.v{lanes}f32({kind}, {kind}, {kind})"]
    data = host_compiler(1).compile("\n".join(lines))
    library = llvm.JITLibraryBuilder().add_object_img(data).export_symbol("peak")
    tracker = library.link(llvm.create_lljit_compiler(), "peak")
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(tracker["peak"])
    room = np.empty((sums + 1) * lanes, np.float32)
    place = -(-room.ctypes.data // (4 * lanes)) * 4 * lanes
    return 2 * lanes * sums * turns / best_seconds(lambda: run(place), 0.2)


def default_shapes() -> list[str]:
    """The products of ``matmul_relu`` and of the workloads, each once."""
    square = [f"f32:{n}x{n}x{n}" for n in (16, 64, 128, 256, 512, 1024)]
    found = dict.fromkeys(square)
    for case in gemm_only.CASES:
        for count, m, k, n in gemm_only.products(case):
            stack = f"{count}x" if count else ""
            # A product that sums over the batch is of a transposed first operand.
            found[f"f32{'t' if k > max(m, n) else ''}:{stack}{m}x{n}x{k}"] = None
    return list(found)


def print_table(shapes: list[str]) -> None:
    """A line for each product."""
    most = {"f32": peak() / 1e9}
    most["f64"] = most["f32"] / 2
    print(f"peak {most['f32']:.0f} GFLOP/s in float32\n")
    print("| product | µs | GFLOP/s | of peak | time / NumPy's | tile |\n|---|---|---|---|---|---|")
    for text in shapes:
        product = Product.parse(text)
        seconds, library, tile = product.beside_library()
        rate, ratio = product.flops / seconds / 1e9, seconds / library
        share = rate / most.get(product.dtype, most["f32"])
        how = f"{tile.form} {tile.rows}x{tile.vectors}x{tile.lanes}{' packed' if tile.pack else ''}"
        print(
            f"| {text} | {seconds * 1e6:.2f} | {rate:.1f} | {share:.0%} | {ratio:.2f} | {how} |",
            flush=True,
        )


def random_products(count: int, seed: int) -> Iterator[Product]:
    """Shapes of all proportions, of up to some 100 million operations."""
    rng = random.Random(seed)
    made = 0
    while made < count:
        m, n, k = (round(2 ** rng.uniform(0, 11)) for _ in range(3))
        if not 1 << 12 <= 2 * m * n * k <= 1 << 27:
            continue
        made += 1
        flags = rng.choice([(False, False), (True, False), (False, True), (True, True)])
        yield Product(m, n, k, *flags, dtype=rng.choice(["f32", "f32", "f32", "f64"]))


def print_rule(count: int, seed: int, tried: int) -> None:
    """How much slower the chosen tile is than the best of `tried` candidates, those expected to be fast first."""
    losses = []
    print("| product | chosen | µs | fastest | µs | loss |\n|---|---|---|---|---|---|")
    for product in random_products(count, seed):
        some = product.candidates()[: max(tried, 1)]
        tiles = list(dict.fromkeys(some))
        times = dict(zip(tiles, in_turn([product.caller(t)[0] for t in tiles]), strict=True))
        chosen = some[0]
        fastest = min(times, key=lambda tile: times[tile])
        losses.append(times[chosen] / times[fastest])
        names = [
            f"{t.form} {t.rows}x{t.vectors}x{t.lanes}{' packed' if t.pack else ''}"
            for t in (chosen, fastest)
        ]
        print(
            f"| {product} | {names[0]} | {times[chosen] * 1e6:.2f} | {names[1]} | "
            f"{times[fastest] * 1e6:.2f} | {losses[-1] - 1:.0%} |",
            flush=True,
        )
    mean = math.exp(statistics.fmean(map(math.log, losses)))
    print(f"\ngeometric mean {mean - 1:.1%}, worst {max(losses) - 1:.0%} slower than the fastest")


def kind_of(product: Product) -> str:
    """What a rule about libraries might ask: whether the least size is one, a few, or many."""
    least = min(product.m, product.n, product.k)
    size = "1" if least == 1 else "2 to 15" if least < 16 else "16 to 63" if least < 64 else "64 up"
    return f"{product.dtype}, least size {size}"


def print_library(count: int, seed: int) -> None:
    """How the time of each product compares with NumPy's, and for each kind of shape."""
    kinds: dict[str, list[float]] = {}
    print("| product | µs | NumPy's µs | ratio |\n|---|---|---|---|")
    for product in random_products(count, seed):
        own, other, _ = product.beside_library()
        kinds.setdefault(kind_of(product), []).append(own / other)
        print(
            f"| {product} | {own * 1e6:.2f} | {other * 1e6:.2f} | {own / other:.2f} |", flush=True
        )
    print("\n| shapes | number | geometric mean | worst | slower |\n|---|---|---|---|---|")
    everything = [ratio for ratios in kinds.values() for ratio in ratios]
    for kind, ratios in [*sorted(kinds.items()), ("all", everything)]:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        slower = sum(ratio > 1 for ratio in ratios)
        print(f"| {kind} | {len(ratios)} | {mean:.2f} | {max(ratios):.2f} | {slower} |")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table").add_argument("shapes", nargs="*")
    rule = commands.add_parser("rule")
    rule.add_argument("--count", type=int, default=200)
    rule.add_argument("--seed", type=int, default=1)
    rule.add_argument("--tried", type=int, default=24, help="candidates timed for each shape")
    library = commands.add_parser("library")
    library.add_argument("--count", type=int, default=200)
    library.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.command == "library":
        print_library(given.count, given.seed)
    elif given.command == "table":
        print_table(given.shapes or default_shapes())
    else:
        print_rule(given.count, given.seed, given.tried)


if __name__ == "__main__":
    main()
