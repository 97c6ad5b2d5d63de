"""NumPy's functions as users call them, for running on tensors of a tape and on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

rng = np.random.default_rng(5)
V = rng.uniform(0.2, 0.8, 4)
W = rng.uniform(0.2, 0.8, 4)
M = rng.uniform(0.2, 0.8, (3, 4))
S = np.eye(3) * 3 + rng.uniform(0.2, 0.8, (3, 3))
T = rng.uniform(0.2, 0.8, (2, 3, 4))
MASK = np.array([[True, False, True, True], [False] * 4, [True] * 4])
WITH_NAN = np.where(MASK, M, np.nan)

Case = tuple[Callable[..., Any], tuple[Any, ...]]

UNARY: list[
    str
] = """negative positive absolute fabs sign square reciprocal floor ceil trunc rint conjugate sqrt cbrt
    exp exp2 expm1 log log1p log2 log10 sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh deg2rad radians
    rad2deg degrees""".split()
BINARY: list[
    str
] = """add subtract multiply divide floor_divide remainder fmod power float_power maximum minimum fmax
    fmin copysign hypot logaddexp logaddexp2 arctan2 vecdot heaviside""".split()
SPECIAL_UNARY: list[
    str
] = """expit log_expit logit erf erfc erfinv erfcinv ndtr ndtri gammaln psi entr exp10 spence dawsn expi
    i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e y0 y1""".split()
SPECIAL_BINARY = (
    "xlogy xlog1py rel_entr kl_div betaln huber pseudo_huber boxcox gammainc gammaincc".split()
)

#: What a gradient flows through.
CASES: dict[str, Case] = {
    **{name: (getattr(np, name), (V,)) for name in UNARY},
    **{name: (getattr(np, name), (V, W)) for name in BINARY},
    **{f"special.{name}": (getattr(scipy.special, name), (V,)) for name in SPECIAL_UNARY},
    **{f"special.{name}": (getattr(scipy.special, name), (V, W)) for name in SPECIAL_BINARY},
    "special.betainc": (
        lambda x: scipy.special.betainc(2.0, 3.0, scipy.special.expit(x)),
        (V,),
    ),
    "arccosh": (np.arccosh, (V + 1,)),
    "array on the left": (lambda t: V * t - 2 * V / t + V**t, (W,)),
    "scalar on the left": (lambda t: np.float64(2) * t + np.float64(1) / t, (W,)),
    "array at the left of @": (lambda t: M @ t, (V,)),
    "modf": (lambda x: np.modf(5 * x)[0], (V,)),
    "divmod": (lambda x, y: np.divmod(x, y)[1], (V, W)),
    "matmul": (np.matmul, (M, M.T)),
    "matvec": (np.matvec, (M, V)),
    "vecmat": (np.vecmat, (V, M.T)),
    "add.reduce": (lambda x: np.add.reduce(x, keepdims=True), (M,)),
    "multiply.reduce": (lambda x: np.multiply.reduce(x, axis=1), (M,)),
    "maximum.reduce": (np.maximum.reduce, (M,)),
    "minimum.reduce": (lambda x: np.minimum.reduce(x, axis=None), (M,)),
    "add.accumulate": (np.add.accumulate, (M,)),
    "multiply.accumulate": (lambda x: np.multiply.accumulate(x, axis=1), (M,)),
    "subtract.outer": (np.subtract.outer, (V, M)),
    # sums and their like
    "sum": (np.sum, (M,)),
    "sum of an axis": (lambda x: np.sum(x, axis=(0, -1), keepdims=True), (T,)),
    "sum of some": (lambda x: np.sum(x, axis=1, where=MASK, initial=2.0), (M,)),
    "prod of some": (lambda x: np.prod(x, axis=0, where=MASK, initial=2.0), (M,)),
    "prod": (np.prod, (M,)),
    "max": (lambda x: np.max(x, axis=0), (M,)),
    "max of some": (lambda x: np.max(x, axis=1, where=MASK, initial=0.1), (M,)),
    "amin": (np.amin, (M,)),
    "mean": (lambda x: np.mean(x, axis=1), (M,)),
    "mean of some": (lambda x: np.mean(x, where=MASK), (M,)),
    "var": (lambda x: np.var(x, axis=0, ddof=1), (M,)),
    "std": (lambda x: np.std(x, keepdims=True), (M,)),
    "average": (lambda x: np.average(x, axis=1, weights=W), (M,)),
    "average with its weights": (lambda x: np.average(x, weights=M, returned=True)[0], (M,)),
    "median": (lambda x: np.median(x, axis=0), (M,)),
    "median of an even number": (np.median, (M,)),
    "quantile": (lambda x: np.quantile(x, [0.1, 0.5, 1.0], axis=1), (M,)),
    "percentile": (lambda x: np.percentile(x, 30, axis=0, keepdims=True), (M,)),
    "ptp": (lambda x: np.ptp(x, axis=1), (M,)),
    "cumsum": (np.cumsum, (M,)),
    "cumprod": (lambda x: np.cumprod(x, axis=0), (M,)),
    "nansum": (lambda x: np.nansum(x, axis=1), (WITH_NAN,)),
    "nanprod": (lambda x: np.nanprod(x, axis=0), (WITH_NAN,)),
    "nanmax": (np.nanmax, (WITH_NAN,)),
    "nanmin": (np.nanmin, (WITH_NAN,)),
    "nanmean": (np.nanmean, (WITH_NAN,)),
    "nanvar": (lambda x: np.nanvar(x, ddof=1), (WITH_NAN,)),
    "nanstd": (np.nanstd, (WITH_NAN,)),
    "diff": (lambda x: np.diff(x, n=2), (M,)),
    "diff down": (lambda x: np.diff(x, axis=0), (M,)),
    "ediff1d": (np.ediff1d, (M,)),
    "trapezoid": (lambda y: np.trapezoid(y, dx=0.5), (M,)),
    "trapezoid over places": (lambda y, x: np.trapezoid(y, x), (M, np.cumsum(W))),
    "cov": (np.cov, (M,)),
    "cov of two": (lambda x, y: np.cov(x, y, bias=True), (V, W)),
    # products
    "dot of vectors": (np.dot, (V, W)),
    "dot": (np.dot, (M, V)),
    "dot of a number": (lambda x: np.dot(2.0, x), (V,)),
    "inner": (np.inner, (M, T)),
    "vdot": (np.vdot, (V, W)),
    "outer": (np.outer, (M, V)),
    "kron": (np.kron, (M, S)),
    "cross": (np.cross, (S, S.T)),
    "tensordot": (lambda a, b: np.tensordot(a, b, axes=([1], [0])), (M, M.T)),
    "einsum": (lambda a, b: np.einsum("ij,kj->ki", a, b), (M, M)),
    "convolve": (np.convolve, (V, W[:3])),
    "convolve to the same size": (lambda a, b: np.convolve(a, b, "same"), (V, W[:3])),
    "convolve where both are": (lambda a, b: np.convolve(a, b, "valid"), (W[:2], V)),
    "polyval": (np.polyval, (V, M)),
    "polyval of numbers": (lambda x: np.polyval([1.0, 2.0, 3.0], x), (M,)),
    "trace": (lambda x: np.trace(x, offset=1), (M,)),
    "diagonal": (lambda x: np.diagonal(x, axis1=0, axis2=2), (T,)),
    "diag of a vector": (lambda x: np.diag(x, k=-1), (V,)),
    "diag of a matrix": (np.diag, (M,)),
    "tril": (np.tril, (T,)),
    "triu": (lambda x: np.triu(x, k=1), (M,)),
    "linalg.norm": (np.linalg.norm, (M,)),
    "linalg.norm by rows": (lambda x: np.linalg.norm(x, axis=1, keepdims=True), (M,)),
    "linalg.norm 1": (lambda x: np.linalg.norm(x, 1), (M,)),
    "linalg.norm inf": (lambda x: np.linalg.norm(x, np.inf), (M,)),
    "linalg.vector_norm": (lambda x: np.linalg.vector_norm(x, ord=3), (M,)),
    "linalg.matrix_norm": (np.linalg.matrix_norm, (T,)),
    "linalg.inv": (np.linalg.inv, (S,)),
    "linalg.det": (np.linalg.det, (S,)),
    "linalg.slogdet": (lambda x: np.linalg.slogdet(x)[1], (S,)),
    "linalg.solve": (np.linalg.solve, (S, M)),
    "linalg.solve of a vector": (np.linalg.solve, (S, V[:3])),
    "linalg.cholesky": (lambda x: np.linalg.cholesky(x + np.transpose(x)), (S,)),
    "linalg.qr": (lambda x: np.linalg.qr(x)[1], (S,)),
    "linalg.eigh": (lambda x: np.linalg.eigh(x + np.transpose(x))[0], (S,)),
    "linalg.eigvalsh": (lambda x: np.linalg.eigvalsh(x + np.transpose(x)), (S,)),
    "linalg.svd": (lambda x: np.linalg.svd(x)[1], (M,)),
    "linalg.svdvals": (np.linalg.svdvals, (M,)),
    "linalg.pinv": (np.linalg.pinv, (M,)),
    "linalg.matrix_power": (lambda x: np.linalg.matrix_power(x, 5), (S,)),
    "linalg.multi_dot": (lambda a, b, c: np.linalg.multi_dot([a, b, c]), (M.T, S, M)),
    "linalg.trace": (np.linalg.trace, (T,)),
    "linalg.vecdot": (np.linalg.vecdot, (M, M)),
    # Fourier transforms
    "fft.fft": (lambda x: np.real(np.fft.fft(x, axis=0)), (M,)),
    "fft.fft of another length": (lambda x: np.imag(np.fft.fft(x, n=6, norm="ortho")), (M,)),
    "fft.ifft": (lambda x: np.imag(np.fft.ifft(x, norm="forward")), (M,)),
    "fft.fft2": (lambda x: np.real(np.fft.fft2(x, axes=(0, 1))), (T,)),
    "fft.ifft2": (lambda x: np.real(np.fft.ifft2(x)), (T,)),
    "fft.fftn": (lambda x: np.abs(np.fft.fftn(x)), (T,)),
    "fft.ifftn": (lambda x: np.real(np.fft.ifftn(x, s=(5, -1), axes=(1, 2))), (T,)),
    "fft.rfft": (lambda x: np.imag(np.fft.rfft(x)), (M,)),
    "fft.irfft": (lambda x: np.fft.irfft(x, n=5), (M,)),
    "fft.rfft2": (lambda x: np.real(np.fft.rfft2(x)), (T,)),
    "fft.irfft2": (np.fft.irfft2, (T,)),
    "fft.rfftn": (lambda x: np.real(np.fft.rfftn(x)), (T,)),
    "fft.irfftn": (lambda x: np.fft.irfftn(np.fft.rfftn(x)), (T,)),
    "fft.fftshift": (lambda x: np.fft.fftshift(x, axes=1), (M,)),
    "fft.ifftshift": (np.fft.ifftshift, (M,)),
    # movement
    "reshape": (lambda x: np.reshape(x, (2, -1)), (M,)),
    "reshape by its name": (lambda x: np.reshape(x, shape=6), (M[:, :2],)),
    "ravel": (np.ravel, (M,)),
    "transpose": (lambda x: np.transpose(x, (1, 0, -1)), (T,)),
    "moveaxis": (lambda x: np.moveaxis(x, 0, -1), (T,)),
    "swapaxes": (lambda x: np.swapaxes(x, 0, 2), (T,)),
    "expand_dims": (lambda x: np.expand_dims(x, (0, -1)), (M,)),
    "squeeze": (lambda x: np.squeeze(x, axis=0), (M[None],)),
    "atleast_3d": (np.atleast_3d, (M,)),
    "atleast_2d": (np.atleast_2d, (V,)),
    "broadcast_to": (lambda x: np.broadcast_to(x, (2, 4)), (V,)),
    "broadcast_arrays": (lambda x, y: np.broadcast_arrays(x, y)[0], (V, M)),
    "concatenate": (lambda x, y: np.concatenate([x, V[None], y]), (M, M)),
    "concatenate of all": (lambda x: np.concatenate((x, [1, 2]), axis=None), (M,)),
    "append": (lambda x: np.append(x, [1, 2]), (M,)),
    "stack": (lambda x, y: np.stack([x, y], axis=-1), (V, W)),
    "vstack": (lambda x, y: np.vstack([x, y]), (M, V)),
    "hstack": (lambda x: np.hstack([1.0, x]), (V,)),
    "dstack": (lambda x, y: np.dstack([x, y]), (M, M)),
    "column_stack": (lambda x, y: np.column_stack([x, y]), (V, W)),
    "split": (lambda x: np.split(x, 2, axis=1)[1], (M,)),
    "split at": (lambda x: np.split(x, [1, 3], axis=1)[1], (M,)),
    "array_split": (lambda x: np.array_split(x, 3)[0], (V,)),
    "hsplit": (lambda x: np.hsplit(x, 2)[0], (M,)),
    "unstack": (lambda x: np.unstack(x, axis=1)[2], (M,)),
    "tile": (lambda x: np.tile(x, (2, 1, 2)), (M,)),
    "repeat": (lambda x: np.repeat(x, [1, 0, 2], axis=0), (M,)),
    "pad": (lambda x: np.pad(x, 1, constant_values=2), (M,)),
    "pad by a mirror": (lambda x: np.pad(x, ((0, 0), (2, 1)), mode="reflect"), (M,)),
    "roll": (lambda x: np.roll(x, 2), (M,)),
    "roll along": (lambda x: np.roll(x, (1, 2), axis=(0, 1)), (M,)),
    "flip": (np.flip, (M,)),
    "fliplr": (np.fliplr, (M,)),
    "rot90": (lambda x: np.rot90(x, 3), (M,)),
    "meshgrid": (lambda x, y: np.meshgrid(x, y)[1], (V, W)),
    "take": (lambda x: np.take(x, [[0, -1]], axis=1), (M,)),
    "take_along_axis": (
        lambda x: np.take_along_axis(x, np.array([[0], [3], [-1]]), axis=1),
        (M,),
    ),
    "compress": (lambda x: np.compress([True, False, True], x, axis=0), (M,)),
    "extract": (lambda x: np.extract(MASK, x), (M,)),
    "where": (lambda x: np.where(MASK, x, 1), (M,)),
    "select": (lambda x: np.select([x > 0.6, x > 0.4], [x, 2 * x], -1.0), (M,)),
    "sort": (lambda x: np.sort(x, axis=None), (M,)),
    "clip": (lambda x: np.clip(x, 0.4, None), (M,)),
    "clip by names": (lambda x: np.clip(x, min=0.4, max=0.6), (M,)),
    "round": (lambda x: np.round(x, 1), (M,)),
    "nan_to_num": (lambda x: np.nan_to_num(x, nan=0.5), (WITH_NAN,)),
    "sinc": (np.sinc, (M,)),
    "copy": (np.copy, (M,)),
    "real": (np.real, (M,)),
}
#: Constant almost everywhere: the gradient is zero, or there is none.
FLAT = {"sign", "floor", "ceil", "trunc", "rint", "floor_divide", "round"}
