"""Random programs whose memory is hard to plan: planner on, off and poisoned must give the same bits.

Values of several item sizes live for short and long; many are looked at in another shape, replace arguments in place,
are arguments that come back as they are, or come back twice; branches and loops carry some of them.

    python tests/random_plans.py COUNT [FIRST]

lowers so many programs from a first one on (0), three times each, runs their loops over one array of bytes, and of each
twentieth the native code, and compares all results and updated arguments.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import tapec.ir.ops  # noqa: F401  fills the registry
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Value, clone_module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.ops.regions import emitted, new_region
from tapec.ir.types import BOOL, F16, F32, F64, I8, I32, DType, TensorType
from tapec.ir.verifier import verify
from tapec.passes.memory.arena.check import check_plan
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime import compile_module

FRONT = "canonicalize,cse,dce,fuse,schedule"
BACK = {
    "on": "plan,lower,poll",
    "off": "plan{reuse=false},lower,poll",
    "poisoned": "plan,poison,lower,poll",
}
#: Few shapes, so that values can take each other's places.
SHAPES = ((3, 8), (8, 3), (24,), (8,), ())
DTYPES: tuple[DType, ...] = (F32, F32, F64, F16, I32, I8, BOOL)

Array = Any


class Drawing:
    """Draws the operations of one program into a block."""

    def __init__(self, b: Builder, rng: np.random.Generator, pool: Sequence[Value]) -> None:
        """Start with the values of ``pool``."""
        self.b, self.rng, self.pool = b, rng, list(pool)

    def pick(self, kind: TensorType | None = None) -> Value:
        """A value, of a type if that is given; one is made if there is none."""
        fits = [v for v in self.pool if kind in (None, v.type)]
        if not fits:
            assert kind is not None
            return self.fitted(self.pick(), kind)
        recent = self.rng.random() < 0.5
        return fits[-1] if recent else fits[self.rng.integers(len(fits))]

    def fitted(self, x: Value, kind: TensorType) -> Value:
        """A value of a type, computed from another one."""
        b, n = self.b, kind.size
        assert isinstance(n, int)
        if x.tensor.size != n:
            total = b.sum(b.cast(x, dtype=F32), axes=tuple(range(x.tensor.rank)))
            x = b.broadcast(total, shape=kind.shape, axes=())
        if x.type.dtype != kind.dtype:
            x = b.ne(x, b.full_like(0, x)) if kind.dtype.is_bool else self.cast(x, kind.dtype)
        result: Value = x if x.tensor.shape == kind.shape else b.reshape(x, shape=kind.shape)
        return result

    def cast(self, x: Value, dtype: DType) -> Value:
        """Convert; floats are made small first, so that integers can hold them."""
        if x.type.dtype.is_floating and dtype.is_integer:
            x = self.b.tanh(x)
            x = self.b.mul(x, self.b.full_like(100, x))
        result: Value = self.b.cast(x, dtype=dtype)
        return result

    def step(self, depth: int) -> None:
        """One more value, or several."""
        kind = self.rng.integers(0, 12 if depth else 10)
        x = self.pick()
        if kind < 4:
            self.pool.append(self.combined(x))
        elif kind < 6:
            same = [s for s in SHAPES if np.prod(s, dtype=int) == x.tensor.size]
            self.pool.append(self.b.reshape(x, shape=same[self.rng.integers(len(same))]))
        elif kind < 7:
            self.pool.append(self.moved(x))
        elif kind < 9:
            shape = SHAPES[self.rng.integers(len(SHAPES))]
            dtype = DTYPES[self.rng.integers(len(DTYPES))]
            self.pool.append(self.fitted(x, TensorType(dtype, shape)))
        elif kind < 10:
            self.pool.append(self.product(x))
        elif kind < 11:
            self.branch(depth)
        else:
            self.loop(depth)

    def combined(self, x: Value) -> Value:
        """Element by element with another."""
        b, y = self.b, self.pick(x.tensor)
        if x.type.dtype.is_bool:
            name = ("and", "or", "ne")[self.rng.integers(3)]
        elif x.type.dtype.is_integer:
            name = ("add", "sub", "max")[self.rng.integers(3)]
        else:
            name = ("add", "mul", "max", "sub")[self.rng.integers(4)]
        result: Value = b.emit(name, x, y)
        if x.type.dtype.is_floating and self.rng.random() < 0.4:
            result = b.tanh(result)
        return result

    def moved(self, x: Value) -> Value:
        """Elements in other places, which cannot be read where they are written."""
        axes = tuple(range(x.tensor.rank))
        if x.tensor.rank == 2 and self.rng.random() < 0.5:
            return self.b.transpose(x, permutation=(1, 0))  # type: ignore[no-any-return]
        return self.b.reverse(x, axes=axes)  # type: ignore[no-any-return]

    def product(self, x: Value) -> Value:
        """A product of matrices, which is in nobody's place."""
        left = self.fitted(x, TensorType(F32, (3, 8)))
        right = self.fitted(self.pick(), TensorType(F32, (8, 3)))
        return self.fitted(self.b.matmul(left, right), TensorType(F32, (3, 8)))

    def inner(self, args: Sequence[Value], b: Builder, depth: int) -> Drawing:
        """The same in a region."""
        drawing = Drawing(b, self.rng, args)
        for _ in range(self.rng.integers(1, 5)):
            drawing.step(depth - 1)
        return drawing

    def branch(self, depth: int) -> None:
        """Two regions, of which one runs."""
        given = [self.pick() for _ in range(3)]
        kinds = [self.pick().tensor for _ in range(2)]
        chosen = self.fitted(self.pick(), TensorType(BOOL, ()))

        def side(b: Builder, args: list[Value]) -> list[Value]:
            drawing = self.inner(args, b, depth)
            return [drawing.pick(kind) for kind in kinds]

        sides = [new_region([v.type for v in given], side) for _ in range(2)]
        self.pool += emitted(self.b, "cond", [chosen, *given], sides)

    def loop(self, depth: int) -> None:
        """A few turns, which carry two values, read rows of one, and make rows."""
        state, same = [self.pick() for _ in range(2)], [self.pick()]
        rows = self.fitted(self.pick(), TensorType(F32, (3, 8)))

        def body(b: Builder, args: list[Value]) -> list[Value]:
            drawing = self.inner(args, b, depth)
            return [*(drawing.pick(v.tensor) for v in state), drawing.pick()]

        types = [*(v.type for v in state), TensorType(F32, (8,)), *(v.type for v in same)]
        region = new_region(types, body)
        attrs = {"carried": 2, "stacked": 1, "length": 3}
        made = emitted(self.b, "loop", [*state, rows, *same], [region], **attrs)
        self.pool += made[:2]


def program(seed: int) -> Module:
    """A random program with six arguments, of which results replace some."""
    rng = np.random.default_rng(seed)
    kinds = [
        TensorType(DTYPES[rng.integers(len(DTYPES))], SHAPES[rng.integers(len(SHAPES))])
        for _ in range(6)
    ]
    updated = [int(i) for i in rng.permutation(6)[: rng.integers(0, 4)]]
    function = Function("f", kinds, [f"a{i}" for i in range(6)])
    drawing = Drawing(Builder(function.block), rng, function.args)
    for _ in range(rng.integers(4, 25)):
        drawing.step(2)
    for argument in updated:
        kind = kinds[argument]
        # Often another argument, or this one as it is.
        value = drawing.pick(kind) if rng.random() < 0.8 else function.args[argument]
        function.updates[len(function.updates)] = argument
        drawing.pool.append(value)
    results = drawing.pool[len(drawing.pool) - len(updated) :] if updated else []
    results += [drawing.pick() for _ in range(rng.integers(1, 4))]
    drawing.b.emit("return", *results)
    return Module([function])


def inputs(module: Module, seed: int) -> list[Array]:
    """Arrays for the arguments."""
    rng = np.random.default_rng(seed)
    types = [arg.tensor for arg in module.entry.args]
    return [
        np.array(rng.normal(size=t.static_shape) * (3 if t.dtype.is_integer else 1), t.dtype.numpy)
        for t in types
    ]


def planned(module: Module, mode: str) -> Module:
    """A copy after the passes of a mode; its plan was checked."""
    copy = clone_module(module)
    front, _, back = f"{FRONT},{BACK[mode]}".partition(",lower")
    run_pipeline(copy, parse_pipeline(front))
    verify(copy)
    check_plan(copy)
    run_pipeline(copy, parse_pipeline(f"lower{back}"))
    return copy


def outcomes(module: Module, seed: int, *, native: bool) -> dict[str, list[bytes]]:
    """Results and updated arguments, as bytes, by mode: of native code, or of loops as NumPy runs them."""
    found = {}
    for mode in BACK:
        arrays, made = inputs(module, seed), planned(module, mode)
        if native:
            run = compile_module(made, threads=1, cache=None, key=None, apart=True)
            run(*inputs(module, seed + 1))  # leaves its arena as a second call finds it
            results = [*run(*arrays), *arrays]
        else:
            results = [*evaluate_module(made, arrays)]
        found[mode] = [np.asarray(a).tobytes() for a in results]
    return found


def main() -> None:
    """Compare so many programs."""
    count, first = int(sys.argv[1]), int([*sys.argv, "0"][2])
    start = time.monotonic()
    for done, seed in enumerate(range(first, first + count), 1):
        found = outcomes(program(seed), seed, native=seed % 20 == 0)
        if not found["on"] == found["off"] == found["poisoned"]:
            sys.exit(f"program {seed} differs")
        if done % 500 == 0:
            print(f"{done} programs, {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
