"""Random programs for tests of passes: well typed by construction, closed under every rewriting rule.

A program is drawn step by step; each step reads values that earlier steps made. Numbers that rules
look for (0.0, -0.0, 1, powers of two, infinities, NaN) are drawn often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tapec.ir.ops  # noqa: F401  fills the registry
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Value
from tapec.ir.op import OPS
from tapec.ir.types import BF16, F16, F32, F64, I8, I32, U8, U32, DType, Shape, TensorType

Draw = Callable[[st.SearchStrategy[Any]], Any]
Step = Callable[[Draw, Builder, Value, Sequence[Value]], Any]

NUMBERS = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -8.0, 3.0, float("inf"), float("nan"), 1e-300]
SHAPES: list[Shape] = [(2, 3), (3,), (), (2, 3, 4), (1, 3), (7,), (2, 1), (0, 3)]
UNARY = ["neg", "abs", "sign", "tanh", "exp", "floor", "sqrt", "stop_gradient"]
INTEGERS: list[DType] = [I8, U8, I32, U32, F64]
BINARY = ["add", "sub", "mul", "div", "max", "min", "pow", "mul_no_nan"]


def number_like(draw: Draw, b: Builder, x: Value) -> Value:
    number = draw(st.sampled_from(NUMBERS))
    if not x.tensor.dtype.is_floating:
        number = draw(st.integers(0, 3))
    if draw(st.booleans()):
        shape = x.tensor.static_shape
        return b.dense(np.full(shape, number).astype(x.tensor.dtype.numpy), x.tensor.dtype)
    return b.full_like(number, x)


def partner(draw: Draw, b: Builder, x: Value, pool: Sequence[Value]) -> Value:
    """A value of the type of ``x``: an earlier one, a constant, or one repeated to the shape."""
    same = [v for v in pool if v.type == x.type]
    scalars = [v for v in pool if v.tensor.dtype == x.tensor.dtype and v.tensor.rank == 0]
    kind = draw(st.sampled_from(["same", "number", "repeated"]))
    if kind == "repeated" and scalars:
        return b.broadcast_to(draw(st.sampled_from(scalars)), x.tensor.shape)
    return number_like(draw, b, x) if kind == "number" else draw(st.sampled_from(same))


def unary(draw: Draw, b: Builder, x: Value, pool: Sequence[Value]) -> Any:
    names = UNARY if x.tensor.dtype.is_floating else ["neg", "abs"]
    return b.emit(draw(st.sampled_from(names)), x)


def binary(draw: Draw, b: Builder, x: Value, pool: Sequence[Value]) -> Any:
    names = BINARY if x.tensor.dtype.is_floating else ["add", "sub", "mul", "max"]
    y = partner(draw, b, x, pool)
    operands = draw(st.permutations([x, y]))
    return b.emit(draw(st.sampled_from(names)), *operands)


def condition(draw: Draw, b: Builder, x: Value, pool: Sequence[Value]) -> Value:
    """A comparison, with some logic around it that rules may take away."""
    test = b.lt(x, partner(draw, b, x, pool))
    known = b.full(draw(st.booleans()), test.tensor)
    kind = draw(st.sampled_from(["plain", "not", "not not", "known", "and", "or", "itself"]))
    forms: dict[str, Callable[[], Any]] = {
        "plain": lambda: test,
        "not": lambda: b.not_(test),
        "not not": lambda: b.not_(b.not_(test)),
        "known": lambda: known,
        "and": lambda: b.and_(*draw(st.permutations([test, known]))),
        "or": lambda: b.or_(*draw(st.permutations([test, known]))),
        "itself": lambda: b.or_(test, b.and_(test, test)),
    }
    result = forms[kind]()
    assert isinstance(result, Value)
    return result


def select(draw: Draw, b: Builder, x: Value, pool: Sequence[Value]) -> Any:
    return b.where(condition(draw, b, x, pool), x, partner(draw, b, x, pool))


def convert(draw: Draw, b: Builder, x: Value, pool: Sequence[Value]) -> Any:
    dtypes: list[DType] = [F16, BF16, F32, F64, I32] if x.tensor.dtype.is_floating else INTEGERS
    return b.cast(x, dtype=draw(st.sampled_from(dtypes)))


def move(draw: Draw, b: Builder, x: Value, pool: Sequence[Value]) -> Any:
    shape = x.tensor.static_shape
    axes = range(len(shape))
    kind = draw(st.sampled_from(["transpose", "reshape", "reverse", "slice", "pad", "broadcast"]))
    if kind == "transpose":
        return b.transpose(x, permutation=tuple(draw(st.permutations(list(axes)))))
    if kind == "reshape":
        return b.reshape(x, shape=draw(st.sampled_from([shape[::-1], (1, *shape), shape])))
    if kind == "reverse":
        return b.reverse(x, axes=tuple(a for a in axes if draw(st.booleans())))
    if kind == "slice":
        starts = tuple(draw(st.integers(0, n // 2)) for n in shape)
        strides = tuple(draw(st.integers(1, 2)) for _ in shape)
        parts = zip(shape, starts, strides, strict=True)
        sizes = tuple(draw(st.integers(0, -(-(n - s) // t))) for n, s, t in parts)
        return b.slice(x, starts=starts, sizes=sizes, strides=strides)
    if kind == "pad":
        sides = [tuple(draw(st.integers(0, 1)) for _ in axes) for _ in range(3)]
        value = draw(st.sampled_from([0.0, 1.0]))
        padded = b.pad(x, value=value, low=sides[0], high=sides[1], interior=sides[2])
        if draw(st.booleans()):
            return padded
        strides = tuple(m + 1 if draw(st.booleans()) else 1 for m in sides[2])
        return b.slice(padded, starts=sides[0], sizes=shape, strides=strides)
    at = draw(st.integers(0, len(shape)))
    kept = tuple(a for a in range(len(shape) + 1) if a != at)
    size = draw(st.sampled_from([1, 2]))
    return b.broadcast(x, shape=(*shape[:at], size, *shape[at:]), axes=kept)


def reduce(draw: Draw, b: Builder, x: Value, pool: Sequence[Value]) -> Any:
    axes = tuple(a for a in range(x.tensor.rank) if draw(st.booleans()))
    return b.sum(x, axes=axes)


def join(draw: Draw, b: Builder, x: Value, pool: Sequence[Value]) -> Any:
    if x.tensor.rank == 0:
        return x
    count = draw(st.integers(1, 3))
    parts = [partner(draw, b, x, pool) for _ in range(count)]
    return b.concat(*parts, axis=draw(st.integers(0, x.tensor.rank - 1)))


def multiply(draw: Draw, b: Builder, x: Value, pool: Sequence[Value]) -> Any:
    """A product with a partner's transpose, or the other way round, each written in some way."""
    rank = x.tensor.rank
    if rank < 2 or not x.tensor.dtype.is_floating:
        return x
    swap = (*range(rank - 2), rank - 1, rank - 2)
    operands, flags = [x, partner(draw, b, x, pool)], {}
    turned = draw(st.sampled_from([0, 1]))
    for i, flag in enumerate(("transpose_a", "transpose_b")):
        by_flag, by_movement = draw(st.booleans()), draw(st.integers(0, 2))
        if (by_flag + by_movement) % 2 != (i == turned):
            by_flag = not by_flag
        for _ in range(by_movement):
            operands[i] = b.transpose(operands[i], permutation=swap)
        flags[flag] = by_flag
    return b.matmul(*operands, **flags)


STEPS: list[Step] = [unary, binary, binary, select, convert, move, move, reduce, join, multiply]
#: Steps after which an equal program gives equal bits: no sums, whose order a pass may change.
EXACT_STEPS: list[Step] = [unary, binary, binary, select, convert, move, move, join]


@st.composite
def programs(
    draw: Draw,
    steps: Sequence[Step] = STEPS,
    max_steps: int = 12,
    gradients: int = 0,
    shapes: Sequence[Shape] = SHAPES,
) -> Module:
    """A module with one function of three arguments, float64 and int32.

    With ``gradients``, up to so many gradient operations follow, each of what came before.
    """
    dtypes = (F64, F64, I32)
    types = [TensorType(dtype, draw(st.sampled_from(shapes))) for dtype in dtypes]
    function = Function("f", types, ["x", "y", "n"])
    b = Builder(function.block)
    pool = list(function.args)
    for _ in range(draw(st.integers(1, max_steps))):
        # Rules look at chains: often go on from the last value.
        x = pool[-1] if draw(st.booleans()) else draw(st.sampled_from(pool))
        pool.append(draw(st.sampled_from(steps))(draw, b, x, pool))
    for _ in range(gradients):
        floats = [v for v in pool if v.tensor.dtype.is_floating]
        target = floats[-1] if len(floats) > 2 else draw(st.sampled_from(floats))
        sources = function.args[:2]
        pool += b.gradient(target, *sources, segments=(1, 0, len(sources), 0))
    results = [pool[-1], *draw(st.lists(st.sampled_from(pool), max_size=3))]
    b.emit(OPS["return"], *results)
    return Module([function])


def inputs(module: Module, seed: int = 0) -> list[Any]:
    """Arrays for the entry: normal numbers, a zero of either sign and infinity among them."""
    rng = np.random.default_rng(seed)
    arrays = []
    for arg in module.entry.args:
        array = np.asarray(rng.normal(0, 2, arg.tensor.static_shape))
        if arg.tensor.dtype.is_floating and array.size > 2:
            array.flat[0], array.flat[1], array.flat[2] = 0.0, -0.0, np.inf
        arrays.append(array.astype(arg.tensor.dtype.numpy))
    return arrays
