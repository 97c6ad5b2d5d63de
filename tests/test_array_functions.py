"""Functions of ``tapec.numpy`` against NumPy's: values eagerly and traced, gradients, special values, dtypes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from array_cases import EAGER, EXACT, SMOOTH, Case
from traced import traced_results

import tapec
import tapec.numpy as xp
from tapec.debugging import check_gradients
from tapec.structure import flatten

Array = np.ndarray[Any, Any]


def named(case: Case) -> str:
    return f"{case[0]}-{len(case[1])}-{'-'.join(map(str, case[2].values()))[:30]}"


def function(space: Any, name: str) -> Callable[..., Any]:
    return reduce(getattr, name.split("."), space)  # type: ignore[no-any-return]


def leaves(result: Any) -> list[Array]:
    return [x.numpy() if isinstance(x, tapec.Tensor) else np.asarray(x) for x in flatten(result)[0]]


def expected(case: Case) -> list[Array]:
    name, args, options = case
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = function(np, name)(*args, **options)
    return leaves(list(found) if isinstance(found, list | tuple) else found)


def split(case: Case) -> tuple[Callable[..., Any], list[Array]]:
    """Ours as a function of the arrays among the arguments."""
    name, args, options = case
    arrays = [a for a in args if isinstance(a, np.ndarray)]

    def ours(*tensors: Any) -> Any:
        left = iter(tensors)
        given = [next(left) if isinstance(a, np.ndarray) else a for a in args]
        found = function(xp, name)(*given, **options)
        return list(found) if isinstance(found, list | tuple) else found

    return ours, arrays


def hold(found: list[Array], wanted: list[Array]) -> None:
    assert len(found) == len(wanted)
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape
        near = 1e-6 if x.dtype in (np.float32, np.complex64) else 1e-12
        np.testing.assert_allclose(x, y, rtol=near, atol=near)


@pytest.mark.parametrize("case", [*SMOOTH, *EXACT, *EAGER], ids=named)
def test_eagerly_as_numpy(case: Case) -> None:
    ours, arrays = split(case)
    hold(leaves(ours(*map(tapec.constant, arrays))), expected(case))


@pytest.mark.parametrize("case", [*SMOOTH, *EXACT], ids=named)
def test_traced_as_numpy(case: Case) -> None:
    ours, arrays = split(case)
    hold([np.asarray(x) for x in traced_results(ours, arrays)], expected(case))


#: What needs the size of the first axis; beside these a cross product, counts for each row, mirrors of mirrors.
SIZED = """median quantile percentile convolve correlate polyval linalg.pinv linalg.svdvals linalg.matrix_rank
    linalg.matrix_power trace diagonal diag diagflat""".split()
OPEN = [
    case
    for case in [*SMOOTH, *EXACT]
    if case[0] not in SIZED
    and (arrays := split(case)[1])
    and arrays[0].ndim
    and len(arrays[0]) > 1
    and named(case) not in ("cross-2-0", "repeat-2-0")
    and not (case[0] == "pad" and case[1][1] == ((7, 8), (9, 5)))
]


@pytest.mark.parametrize("case", OPEN, ids=named)
def test_traced_for_any_size(case: Case) -> None:
    ours, arrays = split(case)
    found = traced_results(ours, arrays, symbolic=True)
    hold([np.asarray(x) for x in found], expected(case))


def test_diagonals_of_any_size() -> None:
    """A stride that only a call knows is none."""
    x = np.arange(12.0).reshape(3, 4)

    def gram(v: Any) -> Any:
        return v @ xp.matrix_transpose(v) + tapec.eye(tapec.shape(v)[0], dtype="float64")

    for f, wanted in [
        (lambda v: xp.linalg.det(gram(v)), np.linalg.det(x @ x.T + np.eye(3))),
        (lambda v: xp.trace(gram(v)), np.trace(x @ x.T + np.eye(3))),
        (lambda v: tapec.linalg.trace(gram(v)), np.trace(x @ x.T + np.eye(3))),
    ]:
        np.testing.assert_allclose(traced_results(f, [x], symbolic=True)[0], wanted)


@pytest.mark.parametrize("case", EAGER, ids=named)
def test_shapes_that_depend_on_values_are_refused_in_compiled_functions(case: Case) -> None:
    ours, arrays = split(case)
    if case[0] == "histogram":  # has a size that is known
        hold([np.asarray(x) for x in traced_results(ours, arrays)], expected(case))
        return
    with pytest.raises(tapec.errors.NotImplementedError, match="depends on values"):
        traced_results(ours, arrays)


FLOWS = [c for c in SMOOTH if not any(np.isnan(a).any() for a in c[1] if isinstance(a, np.ndarray))]


@pytest.mark.parametrize("case", FLOWS, ids=named)
def test_gradients(case: Case) -> None:
    ours, arrays = split(case)
    floats = [a for a in arrays if a.dtype == np.float64]

    def of_floats(*tensors: Any) -> Any:
        left = iter(tensors)
        return ours(*[next(left) if a.dtype == np.float64 else tapec.constant(a) for a in arrays])

    with tapec.GradientTape() as tape:
        inputs = [tapec.constant(a) for a in floats]
        tape.watch(inputs)
        result = of_floats(*inputs)
    if case[0] in ("round", "remainder", "fmod", "linalg.matrix_rank") or case[2].get("ord") == 0:
        return  # steps
    gradients = tape.gradient(result, inputs)
    if case[0] != "copysign":
        assert all(g is not None for g in gradients)
    check_gradients(of_floats, floats, rtol=1e-4, atol=1e-5)


def test_gradients_pass_over_nan() -> None:
    x = tapec.constant([[np.nan, 2.0, 4.0], [1.0, -3.0, np.nan]])
    for name, wanted in [("nansum", 1.0), ("nanmean", 0.5)]:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = getattr(xp, name)(x, axis=1)
        g = tape.gradient(y, x).numpy()
        np.testing.assert_array_equal(g, np.where(np.isnan(x.numpy()), 0.0, wanted))


# -- special values, in the dtypes of the standard

POINTS = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, np.inf, -np.inf, np.nan, 2, -2, 1e-5, 3.5, -3.5])
UNARY = """abs acos acosh asin asinh atan atanh ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log log1p
    log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh sqrt square tan tanh trunc exp2
    cbrt deg2rad rad2deg fabs isposinf isneginf""".split()
BINARY = """add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp
    logical_and logical_or logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract fmod fmax
    fmin heaviside logaddexp2""".split()
#: NumPy has no such function of complex numbers, or (exp2) another one than its own e ** x.
REAL = "ceil floor signbit trunc cbrt deg2rad rad2deg fabs isposinf isneginf exp2".split()


def alike(found: Array, wanted: Array, exact: bool = True) -> None:
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-12)
    known = ~np.isnan(wanted)
    if exact and wanted.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(wanted[known]))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str, dtype: str) -> None:
    x = POINTS.astype(dtype)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x)
    found = getattr(xp, name)(tapec.constant(x)).numpy()
    assert found.dtype == wanted.dtype
    alike(found, wanted)


@pytest.mark.parametrize("name", [n for n in UNARY if n not in REAL])
def test_special_values_of_complex_numbers(name: str) -> None:
    with np.errstate(all="ignore"):
        x = (POINTS[:, None] + 1j * POINTS[None, :]).ravel()
        if name in ("expm1", "sign"):  # of infinities, the standard has other values than NumPy
            x = x[np.isfinite(x)]
        wanted = getattr(np, name)(x)
    alike(getattr(xp, name)(tapec.constant(x)).numpy(), wanted, exact=False)


@pytest.mark.parametrize("name", BINARY)
def test_special_values_of_pairs(name: str) -> None:
    x, y = (v.ravel() for v in np.meshgrid(POINTS, POINTS))
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x, y)
    found = getattr(xp, name)(tapec.constant(x), tapec.constant(y)).numpy()
    alike(found, wanted)


@pytest.mark.parametrize(
    "name", [n for n in UNARY if n not in ("isposinf", "isneginf", "exp2", "reciprocal", "sign")]
)
def test_nothing_has_its_dtype(name: str) -> None:
    for dtype in ("float32", "int8", "bool"):
        x = np.zeros((0, 2), dtype)
        if dtype == "bool" and name in "negative square signbit".split():
            continue
        found = getattr(xp, name)(tapec.constant(x))
        assert found.shape == (0, 2)
        assert found.dtype in (tapec.float32, tapec.bool, tapec.int8)


@pytest.mark.parametrize(
    ("name", "dtype", "wanted"),
    [
        ("sum", "int8", "int32"),
        ("sum", "uint8", "uint32"),
        ("sum", "bool", "int32"),
        ("prod", "int64", "int64"),
        ("cumulative_sum", "int16", "int32"),
        ("mean", "int64", "float32"),
        ("mean", "float16", "float16"),
        ("max", "bool", "bool"),
        ("argmax", "int8", "int64"),
        ("sqrt", "int64", "float32"),
        ("sort", "bool", "bool"),
    ],
)
def test_dtypes_of_results(name: str, dtype: str, wanted: str) -> None:
    assert getattr(xp, name)(tapec.constant(np.ones(3, dtype))).dtype == wanted


def test_wrong_arguments_say_so() -> None:
    x = tapec.constant([[1.0, 2.0]])
    wrongs: list[tuple[Callable[[], Any], str]] = [
        (lambda: xp.reshape(x, (3,)), "2 values"),
        (lambda: xp.squeeze(x, axis=1), "size 1"),
        (lambda: xp.permute_dims(x, (0, 0)), "twice"),
        (lambda: xp.take(x, [2], axis=1), r"\[0, 2\)"),
        (lambda: xp.quantile(x, 0.5, method="mean"), "unknown method"),
        (lambda: xp.percentile(x, 101.0), "between 0 and 100"),
        (lambda: xp.max(xp.zeros((0,))), "no greatest"),
        (lambda: xp.split(x, 3, 1), "equal parts"),
        (lambda: xp.linalg.inv(tapec.constant([1.0])), "matrix"),
        (lambda: xp.concat([]), "one tensor"),
    ]
    for wrong, message in wrongs:
        with pytest.raises(tapec.errors.InvalidArgumentError, match=message):
            wrong()
