"""Values that are particular to one operation: conventions at kinks and poles, conversion, random bits."""

from __future__ import annotations

from fractions import Fraction
from math import factorial, inf, nan
from typing import Any

import numpy as np
import pytest
from scipy import special

import tapec.ir.ops  # noqa: F401  fills the registry
from tapec.ir.builder import Builder
from tapec.ir.composed import ARRAYS
from tapec.ir.core import Function
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.evaluator import evaluate_function
from tapec.ir.op import OPS, Elementwise
from tapec.ir.ops.random import philox, philox_blocks
from tapec.ir.types import (
    BF16,
    BOOL,
    C64,
    C128,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    U32,
    U64,
    DType,
    TensorType,
)

# ---- derivatives where they are a convention (TensorFlow's)


def cotangents(name: str, operands: list[Any], seed: Any = 1.0, **attrs: Any) -> list[Any]:
    """What the rule gives for each operand; None where it gives nothing."""
    arrays = [np.asarray(x) for x in operands]
    dtype = C128 if any(a.dtype.kind == "c" for a in arrays) else F64
    types = [TensorType(BOOL if a.dtype.kind == "b" else dtype, np.shape(a)) for a in arrays]
    function = Function("f", types)
    b = Builder(function.block)
    result = b.emit(name, *function.args, **attrs)
    ct = b.full(seed, result.tensor)
    pulled = OPS[name].vjp(b, function.block.ops[0], ct)
    b.emit("return", *(v for v in pulled if v is not None))
    values = iter(
        evaluate_function(
            function, [a.astype(t.dtype.numpy) for a, t in zip(arrays, types, strict=True)]
        )
    )
    return [None if v is None else next(values) for v in pulled]


@pytest.mark.parametrize(
    ("name", "operands", "seed", "expected"),
    [
        ("abs", [[-1.0, 0.0, 2.0]], 1.0, [[-1, 0, 1]]),
        ("sign", [[-1.0, 0.0, 2.0]], 1.0, [[0, 0, 0]]),
        ("max", [[1.0, 2.0], [1.0, 1.0]], 1.0, [[1, 1], [0, 0]]),
        ("min", [[1.0, 2.0], [1.0, 1.0]], 1.0, [[1, 0], [0, 1]]),
        ("max", [[0.0, 0.0], [0.0, 1.0]], 1.0, [[1, 0], [0, 1]]),
        ("mod", [[5.5], [2.0]], 1.0, [[1], [-2]]),
        ("sqrt", [[0.0, 4.0]], 1.0, [[inf, 0.25]]),
        ("sqrt", [[0.0, -1.0]], 0.0, [[0, 0]]),
        ("rsqrt", [[0.0, 4.0]], 0.0, [[0, 0]]),
        ("reciprocal", [[0.0, 4.0]], 0.0, [[0, 0]]),
        ("reciprocal", [[2.0]], 1.0, [[-0.25]]),
        ("log", [[0.0, -1.0]], 1.0, [[inf, -1]]),
        ("log", [[0.0]], 0.0, [[nan]]),
        ("div", [[1.0], [0.0]], 1.0, [[inf], [-inf]]),
        ("div", [[1.0], [0.0]], 0.0, [[nan], [nan]]),
        ("mul_no_nan", [[inf], [0.0]], 1.0, [[0], [inf]]),
        ("pow", [[0.0, 0.0, -2.0], [0.0, 2.0, 2.0]], 1.0, [[nan, 0, -4], [0, 0, 0]]),
        ("pow", [[0.0], [0.5]], 0.0, [[nan], [0]]),
        ("asin", [[1.0]], 1.0, [[inf]]),
        ("acos", [[1.0]], 1.0, [[-inf]]),
        ("atanh", [[1.0]], 1.0, [[inf]]),
        ("atan2", [[0.0], [0.0]], 1.0, [[nan], [nan]]),
        ("expm1", [[-50.0]], 1.0, [[np.exp(-50.0)]]),
        ("asinh", [[1e200]], 1.0, [[1e-200]]),
        ("where", [[True, False], [1.0, 2.0], [3.0, 4.0]], 1.0, [None, [1, 0], [0, 1]]),
        ("floor", [[1.5]], 1.0, [None]),
        ("floordiv", [[5.5], [2.0]], 1.0, [None, None]),
        ("mul", [[1 + 2j], [3 - 1j]], 1.0, [[3 + 1j], [1 - 2j]]),
    ],
)
def test_convention(name: str, operands: list[Any], seed: float, expected: list[Any]) -> None:
    found = cotangents(name, operands, seed)
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            np.testing.assert_allclose(a, b, rtol=1e-13)


@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64])
def test_zero_has_no_sign(dtype: DType) -> None:
    zeros = np.array([0.0, -0.0], dtype.numpy)
    assert OPS["sign"].evaluate(zeros).tobytes() == bytes(2 * zeros.itemsize)


def test_cast_gives_back_the_operands_dtype() -> None:
    (found,) = cotangents("cast", [[1.5]], 2.0, dtype=F32)
    assert found.dtype == np.float64
    for target in (I32, BOOL):
        function = Function("f", [TensorType(F64)])
        b = Builder(function.block)
        b.cast(function.args[0], dtype=target)
        assert OPS["cast"].vjp(b, function.block.ops[0], function.args[0]) == (None,)


def test_second_derivative_where_the_first_is_zero() -> None:
    """``(sqrt(x) - 2) ** 2`` at 4: the cotangent of the root is 0 there, its derivative is not."""
    function = Function("f", [TensorType(F64)])
    b = Builder(function.block)
    (x,) = function.args
    y = b.sqrt(x)
    ct = b.sub(b.add(y, y), b.full_like(4.0, y))
    (slope,) = OPS["sqrt"].vjp(b, y.op, ct)
    assert slope is not None
    assert slope.op is not None
    _, by_ct = slope.op.defn.vjp(b, slope.op, b.full_like(1.0, y))
    assert by_ct is not None
    b.emit("return", slope, by_ct)
    found = evaluate_function(function, [np.float64(4.0)])
    np.testing.assert_array_equal(found, [0.0, 0.25])


# ---- values


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        (F32, I32, [1.9, -1.9, nan, inf, -inf, 3e9], [1, -1, 0, 2**31 - 1, -(2**31), 2**31 - 1]),
        (F64, I64, [2.0**63, -(2.0**63), 1e300], [2**63 - 1, -(2**63), 2**63 - 1]),
        (F64, U64, [2.0**64, -1.0, 2.0**63], [2**64 - 1, 0, 2**63]),
        (F64, I8, [127.9, 128.0, -128.9, -129.0], [127, 127, -128, -128]),
        (F64, U8, [-0.5, 255.9, 256.0], [0, 255, 255]),
        (BF16, I32, [2.5, -2.5], [2, -2]),
        (I32, I8, [300, -129], [44, 127]),
        (I8, U32, [-1], [2**32 - 1]),
        (F64, BOOL, [0.0, 0.5, nan], [False, True, True]),
        (BOOL, F32, [True, False], [1, 0]),
        (C64, F32, [1 + 2j], [1]),
        (F64, C64, [1.5], [1.5 + 0j]),
    ],
    ids=str,
)
def test_cast(source: DType, target: DType, values: list[Any], expected: list[Any]) -> None:
    found = OPS["cast"].evaluate(np.array(values).astype(source.numpy), dtype=target)
    assert found.dtype == target.numpy
    np.testing.assert_array_equal(found, np.array(expected, target.numpy))


def test_negative_powers_of_integers() -> None:
    x, y = np.array([2, -2, 1, -1, -1, 0, 3], np.int32), np.array([-1, -2, -3, -2, -3, -1, 2])
    found = OPS["pow"].evaluate(x, y.astype(np.int32))
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, [0, 0, 1, 1, -1, 0, 9])


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_polygamma(order: int) -> None:
    x = np.array([-5.5, -0.5, 1e-3, 0.5, 1.0, 3.7, 20.0, 1e5])
    found = OPS["polygamma"].evaluate(x, order=order)
    np.testing.assert_allclose(found, special.polygamma(order, x), rtol=1e-13)


@pytest.mark.parametrize("order", [1, 2, 3, 8])
def test_polygamma_of_what_is_far_below_zero(order: int) -> None:
    x = np.array([-6.5, -7.3, -8.9999, -20.25, -100.5, -1000.123])
    steps = np.ceil(10 - x).astype(int)
    sums = [
        sum((Fraction(v) + k) ** -(order + 1) for k in range(n))
        for v, n in zip(x, steps, strict=True)
    ]
    size = (-1) ** (order + 1) * factorial(order)
    expected = size * np.array(sums, float) + special.polygamma(order, x + steps)
    found = OPS["polygamma"].evaluate(x, order=order)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    poles = OPS["polygamma"].evaluate(np.array([-3.0, -7.0, -1e9]), order=order)
    np.testing.assert_array_equal(poles, [size * np.inf] * 3)


def test_complex_keeps_infinities_apart() -> None:
    found = OPS["complex"].evaluate(np.array([1.0]), np.array([inf]))
    assert found[0].real == 1
    assert found[0].imag == inf


@pytest.mark.parametrize(
    ("name", "types", "attrs", "error"),
    [
        ("add", (F32, F64), {}, DTypeError),
        ("add", (F32,), {}, ShapeError),
        ("sqrt", (I32,), {}, DTypeError),
        ("and", (F32, F32), {}, DTypeError),
        ("where", (F32, F32, F32), {}, DTypeError),
        ("where", (BOOL, F32, F64), {}, DTypeError),
        ("complex", (F16, F16), {}, DTypeError),
        ("real", (F64,), {}, DTypeError),
        ("polygamma", (F64,), {"order": 0}, ShapeError),
        ("iota", (), {"axis": 1, "type": TensorType(F32, (2,))}, ShapeError),
        ("iota", (), {"axis": 0, "type": TensorType(BOOL, (2,))}, DTypeError),
        ("constant", (), {"value": np.ones(3), "type": TensorType(F32, (2,))}, ShapeError),
        ("random_uniform", (F32,), {"type": TensorType(F32, (2,))}, DTypeError),
    ],
)
def test_is_refused(name: str, types: tuple[DType, ...], attrs: Any, error: type) -> None:
    with pytest.raises(error, match=name):
        OPS[name].infer(*(TensorType(t, (2,)) for t in types), **attrs)


def test_shapes_must_be_equal() -> None:
    with pytest.raises(ShapeError, match=r"add: shapes differ: f32\[2\] and f32\[3\]"):
        OPS["add"].infer(TensorType(F32, (2,)), TensorType(F32, (3,)))


# ---- random numbers


@pytest.mark.parametrize(
    ("index", "counter", "seed", "words"),
    [
        (0, 0, 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        (
            2**64 - 1,
            2**64 - 1,
            2**64 - 1,
            [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
        ),
        (
            0x85A308D3243F6A88,
            0x0370734413198A2E,
            0x299F31D0A4093822,
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox(index: int, counter: int, seed: int, words: list[int]) -> None:
    """The known answers of the authors' library Random123 for philox4x32-10."""
    with np.errstate(over="ignore"):
        found = philox(ARRAYS, np.uint64(seed), np.uint64(counter), np.uint64(index))
    assert [int(w) for w in found] == words
    blocks = philox_blocks(*(np.array([[n]], np.uint64) for n in (seed, counter, index)))
    assert [int(w[0, 0]) for w in blocks] == words


def test_blocks_are_those_of_each_key_and_position() -> None:
    rng = np.random.default_rng(0)
    seed, counter = rng.integers(0, 2**63, (2, 3, 1, 1), dtype=np.uint64)
    index = rng.integers(0, 2**40, (1, 2, 5), dtype=np.uint64)
    with np.errstate(over="ignore"):
        wanted = philox(ARRAYS, seed, counter, index)
    for found, word in zip(philox_blocks(seed, counter, index), wanted, strict=True):
        np.testing.assert_array_equal(found, np.broadcast_to(word, found.shape))


def test_numbers_take_the_words_of_blocks_in_turn() -> None:
    """Blocks are numbered by position; of 32-bit numbers four are made of each, of 64-bit numbers two."""
    key = np.array([5, 2**33 + 1], np.uint64)
    block = np.arange(3, dtype=np.uint64)
    words = np.stack(philox_blocks(key[:1], key[1:], block), -1).reshape(-1)
    assert drawn("random_bits", U32, 11, key=key).tolist() == words[:11].tolist()
    pairs = (words[::2] << np.uint64(32)) | words[1::2]
    assert drawn("random_bits", U64, 5, key=key).tolist() == pairs[:5].tolist()
    uniform = (words[:11] >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
    assert drawn("random_uniform", F32, 11, key=key).tolist() == uniform.tolist()


def drawn(name: str, dtype: DType, *shape: int, key: Any = (7, 3)) -> Any:
    return OPS[name].evaluate(np.array(key, np.uint64), type=TensorType(dtype, shape))


@pytest.mark.parametrize("name", ["random_bits", "random_uniform", "random_normal"])
def test_random_numbers_depend_on_key_and_position(name: str) -> None:
    dtype = U32 if name == "random_bits" else F32
    long = drawn(name, dtype, 4, 6)
    np.testing.assert_array_equal(long.reshape(-1)[:5], drawn(name, dtype, 5))
    rows = drawn(name, dtype, 2, 6, key=[(7, 3), (8, 3)])
    np.testing.assert_array_equal(rows[0], long[0])
    for key in ((8, 3), (7, 4)):
        assert (drawn(name, dtype, 24, key=key) != long.reshape(-1)).sum() > 20


@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=str)
def test_uniform(dtype: DType) -> None:
    """In [0, 1), by moments, and by the correlation of neighbours."""
    x = drawn("random_uniform", dtype, 40000).astype(np.float64)
    assert 0 <= x.min() < x.max() < 1
    spacing = float(np.finfo(np.float64).eps) if dtype == F64 else 2.0**-8
    assert abs(x.mean() - 0.5) < 0.006 + spacing
    assert abs(x.std() - 12**-0.5) < 0.004
    assert abs(np.corrcoef(x[1:], x[:-1])[0, 1]) < 0.02


@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=str)
def test_normal(dtype: DType) -> None:
    """By the first four moments."""
    x = drawn("random_normal", dtype, 40000).astype(np.float64)
    assert np.isfinite(x).all()
    np.testing.assert_allclose([(x**n).mean() for n in (1, 2, 3, 4)], [0, 1, 0, 3], atol=0.1)


def test_random_bits_are_even() -> None:
    bits = drawn("random_bits", U64, 4000)
    ones = [((bits >> np.uint64(n)) & np.uint64(1)).mean() for n in range(64)]
    assert np.abs(np.array(ones) - 0.5).max() < 0.04


def test_overflow_is_silent_as_in_hardware() -> None:
    """Warnings are errors here."""
    x = np.full((1, 2, 2), 3e38, np.float32)
    indices = np.zeros(2, np.int32)
    half = np.full((1, 2), 6e4, np.float16)
    for found in (
        OPS["matmul"].evaluate(x, x),
        OPS["sum"].evaluate(x, axes=(0, 1, 2)),
        OPS["sum"].evaluate(half, axes=(1,)),
        OPS["cumsum"].evaluate(x, axis=1),
        OPS["scatter_add"].evaluate(indices, x[0, 0], shape=(1,), axis=0),
    ):
        assert np.isinf(found).any()


@pytest.mark.parametrize(
    "name", [n for n, d in OPS.items() if isinstance(d, Elementwise) and d.stays_finite]
)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_stays_finite(name: str, dtype: DType) -> None:
    limits = np.finfo(dtype.numpy)
    numbers = [0.0, -0.0, 1.0, -2.5, limits.tiny, limits.max, limits.min]
    given = np.array(np.meshgrid(numbers, numbers), dtype.numpy).reshape(2, -1)
    operands = [given[0] > 0, *given] if name == "where" else list(given[: OPS[name].arity])  # type: ignore[attr-defined]
    assert np.isfinite(OPS[name].evaluate(*operands)).all()
