"""What is kept in memory by request."""

from __future__ import annotations

from tapec.functions.broadcasting import unary
from tapec.tensor import Tensor, TensorLike


def keep(x: TensorLike) -> Tensor:
    """``x``, which a compiled function computes once and keeps for its gradient, whatever ``memory_budget`` it has.

    For values that are dear for their size: with a budget, other values are computed again instead. Without one it
    changes nothing, nor does it in eager code.
    """
    return unary("keep", x)
