"""Functions of SciPy that take elements out of tensors, and what tapec has in their place.

SciPy's ufuncs ask a tensor how they are done, and NumPy's functions do; what SciPy wrote in Python calls
`numpy.asarray`. On a value that a tape follows that would lose the gradient without a word. So where tapec can keep it
this is an error that names the function to use; what it cannot replace, and what libraries that only look at values
read (metrics, plots), it lets pass and remembers, for `GradientTape.explain`.
"""

from __future__ import annotations

from tapec.errors import TypeError
from tapec.frames import Visit, resolve

#: By SciPy's public name.
COUNTERPARTS: dict[str, str] = {
    "scipy.special.softmax": "tapec.nn.softmax",
    "scipy.special.log_softmax": "tapec.nn.log_softmax",
    "scipy.special.logsumexp": "tapec.reduce_logsumexp",
    "scipy.special.softplus": "tapec.nn.softplus",
    "scipy.special.polygamma": "tapec.math.polygamma",
    "scipy.special.zeta": "tapec.math.zeta",
    "scipy.special.multigammaln": "a sum of tapec.math.lgamma",
    "scipy.special.factorial": "tapec.exp(tapec.math.lgamma(n + 1))",
    "scipy.special.comb": "tapec.exp of sums of tapec.math.lgamma",
    "scipy.linalg.cho_factor": "tapec.linalg.cholesky",
    "scipy.linalg.cho_solve": "tapec.linalg.cholesky_solve",
    "scipy.linalg.cholesky": "tapec.linalg.cholesky",
    "scipy.linalg.det": "tapec.linalg.det",
    "scipy.linalg.eigh": "tapec.linalg.eigh",
    "scipy.linalg.eigh_tridiagonal": "tapec.linalg.eigh_tridiagonal",
    "scipy.linalg.eigvalsh": "tapec.linalg.eigvalsh",
    "scipy.linalg.expm": "tapec.linalg.expm",
    "scipy.linalg.inv": "tapec.linalg.inv",
    "scipy.linalg.lstsq": "tapec.linalg.lstsq",
    "scipy.linalg.lu": "tapec.linalg.lu",
    "scipy.linalg.lu_factor": "tapec.linalg.lu",
    "scipy.linalg.lu_solve": "tapec.linalg.lu_solve",
    "scipy.linalg.norm": "tapec.norm",
    "scipy.linalg.pinv": "tapec.linalg.pinv",
    "scipy.linalg.pinvh": "tapec.linalg.pinv",
    "scipy.linalg.qr": "tapec.linalg.qr",
    "scipy.linalg.solve": "tapec.linalg.solve",
    "scipy.linalg.solve_banded": "tapec.linalg.tridiagonal_solve, if there are three diagonals",
    "scipy.linalg.solve_triangular": "tapec.linalg.triangular_solve",
    "scipy.linalg.sqrtm": "tapec.linalg.sqrtm",
    "scipy.linalg.svd": "tapec.linalg.svd",
    "scipy.linalg.svdvals": "tapec.linalg.svd with compute_uv=False",
    "scipy.fft.dct": "tapec.signal.dct",
    "scipy.fft.idct": "tapec.signal.idct",
    "scipy.fft.fft": "tapec.signal.fft",
    "scipy.fft.fft2": "tapec.signal.fft2d",
    "scipy.fft.fftn": "tapec.signal.fftnd",
    "scipy.fft.fftshift": "tapec.signal.fftshift",
    "scipy.fft.ifft": "tapec.signal.ifft",
    "scipy.fft.ifft2": "tapec.signal.ifft2d",
    "scipy.fft.ifftn": "tapec.signal.ifftnd",
    "scipy.fft.ifftshift": "tapec.signal.ifftshift",
    "scipy.fft.irfft": "tapec.signal.irfft",
    "scipy.fft.irfft2": "tapec.signal.irfft2d",
    "scipy.fft.irfftn": "tapec.signal.irfftnd",
    "scipy.fft.rfft": "tapec.signal.rfft",
    "scipy.fft.rfft2": "tapec.signal.rfft2d",
    "scipy.fft.rfftn": "tapec.signal.rfftnd",
    "scipy.integrate.trapezoid": "numpy.trapezoid, which tapec follows",
    "scipy.ndimage.convolve": "tapec.nn.conv2d",
    "scipy.ndimage.correlate": "tapec.nn.conv2d",
    "scipy.signal.convolve": "numpy.convolve, which tapec follows, or tapec.nn.conv1d",
    "scipy.signal.convolve2d": "tapec.nn.conv2d",
    "scipy.signal.correlate": "tapec.nn.conv1d",
    "scipy.signal.fftconvolve": "numpy.convolve, which tapec follows, or tapec.nn.conv1d",
    "scipy.spatial.distance.cdist": "tapec.norm(a[:, None] - b[None], axis=-1)",
    "scipy.spatial.distance.euclidean": "tapec.norm(u - v)",
    "scipy.spatial.distance.cosine": "1 - tapec.reduce_sum of the product of two tapec.nn.l2_normalize",
    "scipy.stats.zscore": "(x - tapec.reduce_mean(x)) / tapec.math.reduce_std(x)",
}

#: Methods of the distributions in ``scipy.stats``.
_DENSITIES = ("pdf", "logpdf", "pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf")
_FORMULA = "the formula, with tapec.exp, tapec.math.lgamma, tapec.math.erf and their kin"


def counterpart(function: str) -> str | None:
    """What to use in place of a function of SciPy; None if tapec has nothing of the kind."""
    package, _, name = function.rpartition(".")
    if package.startswith("scipy.stats.") and name in _DENSITIES:
        return _FORMULA
    return COUNTERPARTS.get(function)


def require_none(visit: Visit) -> None:
    """Refuse a read by a function that tapec could replace.

    Raises:
        TypeError: it can.
    """
    instead = counterpart(visit.function)
    if instead is not None:
        raise TypeError(
            f"{visit.function} takes the elements of a tensor that a tape follows: its result has no gradient",
            location=resolve(visit.origin),
            hint=f"use {instead}; or give it x.numpy(), or tapec.stop_gradient(x), where no gradient is to flow",
        )
