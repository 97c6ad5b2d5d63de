"""Functions of ``tapec.numpy`` with operands, for holding them against NumPy's functions of the same names."""

from __future__ import annotations

from typing import Any

import numpy as np

rng = np.random.default_rng(3)
A = rng.normal(size=(3, 4))
B = rng.normal(size=(4, 2))
C = rng.normal(size=(2, 3, 4))
V = rng.normal(size=5)
W = np.array([-0.5, 0.25, 2.0])
S = np.eye(3) * 3 + rng.normal(size=(3, 3)) / 3
P = S @ S.T
ROW = np.sort(V)
N = np.array([5, -7, 12, 0, 9], np.int32)
K = np.array([3, 2, -4, 5, 6], np.int32)
WITH_NAN = np.array([[np.nan, 2.0, np.nan], [1.0, -3.0, np.nan]])

Case = tuple[str, tuple[Any, ...], dict[str, Any]]


def case(name: str, *args: Any, **options: Any) -> Case:
    return name, args, options


#: Arrays are operands; what is none is an argument as it is. Gradients flow through these.
SMOOTH: list[Case] = [
    *[case(name, A, axis=axis) for name in "sum prod mean var std max min ptp".split() for axis in (None, 0, (0, 1))],
    *[case(name, A, axis=axis) for name in ("median", "cumsum", "cumprod") for axis in (None, 1)],
    case("sum", A, axis=1, keepdims=True),
    case("sum", A, where=A > 0, initial=2.0),
    case("prod", A, axis=0, where=A > 0),
    case("max", A, axis=0, where=A > 0, initial=-0.1),
    case("mean", A, axis=0, where=np.abs(A) > 0.1),
    case("var", A, axis=1, where=np.abs(A) > 0.1),
    case("var", A, axis=0, correction=1),
    case("average", A, axis=1, weights=np.array([1.0, 2.0, 0.5, 1.0])),
    case("average", A),
    *[case("quantile", A, 0.3, axis=1, method=m) for m in ("linear", "lower", "higher", "nearest", "midpoint")],
    case("quantile", C, [[0.0, 0.4], [0.9, 1.0]], axis=(0, 2), keepdims=True),
    case("percentile", A, [10.0, 75.0]),
    *[case(name, WITH_NAN, axis=0) for name in "nansum nanprod nanmax nanmin nanmean nanvar nanstd".split()],
    *[case(name, WITH_NAN, axis=1) for name in ("nancumsum", "nancumprod", "nanmedian")],
    case("nanquantile", WITH_NAN, 0.25, axis=1),
    case("nanpercentile", WITH_NAN, 25.0, axis=1),
    case("cumulative_sum", A, axis=1, include_initial=True),
    case("diff", A, n=2, axis=0, prepend=0.5),
    case("diff", A, append=A[:, :2]),
    case("ediff1d", A),
    case("trapezoid", A, dx=0.5, axis=0),
    case("trapezoid", A, B[:, 0]),
    case("interp", np.array([-9.0, 9.0, 0.01]), ROW, V),
    case("cov", A),
    case("cov", W, W**2),
    case("corrcoef", A),
    case("matmul", C, B),
    case("matmul", V[:4], B),
    case("matmul", A, V[:4]),
    case("dot", C, B),
    case("inner", C, A),
    case("outer", V, W),
    case("kron", W, A),
    case("vdot", A, A),
    case("vecdot", C, A),
    case("cross", A.T, A.T + 1),
    case("cross", A, A + 1, axis=0),
    case("tensordot", C, B, axes=1),
    case("tensordot", C, A, axes=((1, 2), (0, 1))),
    case("einsum", "ijk,kl->jl", C, B),
    *[case("convolve", V, W, mode) for mode in ("full", "same", "valid")],
    *[case("correlate", W, V, mode) for mode in ("full", "same", "valid")],
    case("polyval", W, V),
    case("trace", A, 1),
    case("diagonal", C, -1, 0, 2),
    case("diag", V, 2),
    case("diag", A, -1),
    case("diagflat", A, 1),
    case("tril", C, k=1),
    case("triu", A, k=-1),
    case("vander", V, 3),
    case("linspace", W, W * 2, 4, endpoint=False, axis=1),
    case("geomspace", np.abs(W), np.abs(W) * 8, 4),
    *[case("pad", A, ((1, 2), (0, 3)), mode) for mode in ("constant", "edge", "reflect", "symmetric", "wrap")],
    case("pad", A, ((7, 8), (9, 5)), "reflect"),
    case("pad", A, 1, constant_values=((1, 2), (3, 4))),
    case("reshape", A, (2, -1)),
    case("ravel", A),
    case("transpose", C, (1, 2, 0)),
    case("moveaxis", C, (0, 1), (-1, 0)),
    case("swapaxes", C, 0, 2),
    case("expand_dims", A, axis=(0, 3)),
    case("squeeze", A[:1], axis=0),
    case("broadcast_to", W, (2, 3)),
    case("flip", C, axis=(0, 2)),
    *[case("rot90", C, k, (0, 2)) for k in range(4)],
    case("roll", A, 2),
    case("roll", A, (1, -1), axis=(0, 1)),
    case("repeat", A, 2, axis=1),
    case("repeat", A, [1, 0, 2], axis=0),
    case("tile", A, (2, 1, 2)),
    case("take", A, [0, -1], axis=1),
    case("take_along_axis", A, np.argsort(A, 1), axis=1),
    case("sort", A, axis=0),
    case("partition", V, 2),
    case("where", A > 0, A, 2.0),
    case("clip", A, -0.5, 0.5),
    case("round", A, 1),
    case("nan_to_num", WITH_NAN),
    case("sinc", A),
    *[case(name, np.abs(A) + 1.1) for name in "sqrt cbrt exp exp2 log log2 log10 log1p expm1 acosh reciprocal".split()],
    *[case(name, np.tanh(A)) for name in "sin cos tan asin acos atan sinh cosh tanh asinh atanh deg2rad".split()],
    *[case(name, A, np.abs(A.T[:3, :1]) + 0.2) for name in "add subtract multiply divide remainder fmod hypot".split()],
    *[case(name, A, W[:, None]) for name in "maximum minimum fmax fmin atan2 logaddexp logaddexp2 copysign".split()],
    case("pow", np.abs(A), W[:, None]),
    *[case(f"linalg.{name}", P) for name in "det inv pinv eigvalsh svdvals cholesky trace".split()],
    case("linalg.solve", S, A),
    case("linalg.solve", S, W),
    *[case("linalg.matrix_power", S, n) for n in (-2, 3)],
    *[case("linalg.vector_norm", A, axis=1, ord=ord) for ord in (0, 1, 2, 3, np.inf, -np.inf)],
    *[case("linalg.matrix_norm", C, ord=ord) for ord in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)],
    case("linalg.norm", C, 1, (2, 0), True),
]  # fmt: skip

#: Integers, bools and positions: no gradient.
EXACT: list[Case] = [
    *[case(name, N, K) for name in "add subtract multiply floor_divide remainder fmod maximum minimum".split()],
    *[case(name, N, K) for name in "bitwise_and bitwise_or bitwise_xor gcd lcm equal less greater_equal".split()],
    *[case(name, N, np.abs(K)) for name in ("bitwise_left_shift", "bitwise_right_shift")],
    *[case(name, N) for name in "bitwise_invert bitwise_count sign abs negative square signbit floor".split()],
    *[case(name, A, axis=axis) for name in ("argmax", "argmin", "count_nonzero", "any", "all") for axis in (None, 1)],
    case("argmax", A, axis=0, keepdims=True),
    case("nanargmax", WITH_NAN[:, :2], axis=1),
    case("argsort", A, axis=0),
    *[case("searchsorted", ROW, np.array([ROW[0], -9, 9, ROW[2], np.nan]), side=side) for side in ("left", "right")],
    case("searchsorted", np.array([1, 1, 3, 3, 4]), np.array([[1, 2], [3, 5]])),
    *[case("digitize", A, bins, right) for bins in ([-1.0, 0, 1], [1.0, 0, -1]) for right in (False, True)],
    case("isin", N, np.array([12, 9])),
    case("isin", N, np.array([12, 9]), invert=True),
    case("isclose", A, A + 1e-9),
    case("allclose", A, A + 1),
    case("array_equal", A, A),
    case("heaviside", W, np.array(0.5)),
    case("ldexp", W, K[:3]),
    case("select", [A > 0.5, A < 0], [A, A * 2], 9.0),
    case("nextafter", W, W + 1),
    case("unravel_index", np.array([5, 7]), (3, 4)),
    case("tri", 3, 4, 1),
    case("eye", 3, 4, k=-1),
    case("identity", 3),
    *[case("arange", *args) for args in ((5,), (1, 5), (1, 6, 2), (5, 1, -2), (0.0, 1.0, 0.25), (5, 1))],
    case("linspace", 0, 1, 7),
    case("logspace", 0, 2, 5),
    *[case(name, 7) for name in "bartlett blackman hamming hanning".split()],
    case("kaiser", 7, 3.0),
    case("round", np.array([15, 25, -16]), -1),
    case("hstack", [W, W]),
    *[case(name, [A, A]) for name in "hstack vstack dstack column_stack stack concatenate".split()],
    case("append", A, W),
    *[case(name, W) for name in ("atleast_1d", "atleast_2d", "atleast_3d")],
    *[case("array_split", A, sections, 1) for sections in (3, [1, 3], [-1])],
    case("split", A, 2, 1),
    case("meshgrid", W, V),
    case("broadcast_arrays", A, W[:, None]),
    case("linalg.matrix_rank", S),
    case("linalg.multi_dot", [A, B]),
    case("linalg.matrix_power", S, 0),
    case("iscomplex", A),
]  # fmt: skip

#: What only runs eagerly: shapes depend on values.
EAGER: list[Case] = [
    case("nonzero", A > 0),
    case("flatnonzero", A > 0),
    case("argwhere", A > 0),
    case("compress", W > 0, A, axis=0),
    case("extract", A > 0, A),
    case("unique_all", np.array([3.0, 1, 3, np.nan, np.nan])),
    case("unique_counts", N),
    case("unique_inverse", N),
    case("bincount", np.array([1, 3, 3, 0])),
    case("bincount", np.array([1, 3, 3, 0]), np.array([0.5, 1, 2, 3]), 6),
    case("histogram", A),
    case("histogram", A, 5, (-1.0, 1.0), density=True, weights=np.abs(A)),
    case("histogram", A, [-1.0, 0, 0.5, 2]),
]
