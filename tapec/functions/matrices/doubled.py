"""Complex matrices as real ones of twice the size, which have the same products, inverses and singular values.

``a + i b`` becomes the block ``[[a, -b], [b, a]]``. The blocks stand where the elements stood.
"""

from __future__ import annotations

from tapec.functions.arithmetic import complex as complex_of
from tapec.functions.arithmetic import imag, negative, real
from tapec.functions.rearrangement import reshape, stack
from tapec.tensor import Tensor


def doubled(x: Tensor) -> Tensor:
    """``[..., 2 m, 2 n]`` from ``[..., m, n]``."""
    *lead, m, n = x.type.shape
    a, b = real(x), imag(x)
    blocks = stack([stack([a, negative(b)], -1), stack([b, a], -1)], -3)
    return reshape(blocks, (*lead, 2 * m, 2 * n))


def halved(y: Tensor) -> Tensor:
    """``[..., m, n]`` from what `doubled` gives."""
    return complex_of(y[..., 0::2, 0::2], y[..., 1::2, 0::2])
