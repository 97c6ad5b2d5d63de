"""Eigenvalues of matrices that need not be symmetric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.ir.errors import TargetError
from tapec.ir.op import Cotangents, Op
from tapec.ir.ops.arith import conj
from tapec.ir.ops.matrices import (
    adjoint,
    like,
    part,
    product,
    real_part,
    require_square,
)
from tapec.ir.ops.spectral import inverse_gaps, phase_fixed, phases, spoiled
from tapec.ir.types import C64, C128, F32, TensorType

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation, Value


class Eig(Op):
    """``x v = v diag(w)``: eigenvalues in no order, and vectors of length 1 in columns, all complex.

    Of the largest elements of a vector the first is real and positive. Evaluated by LAPACK; it has no loops, so no
    native code.
    """

    name = "eig"
    no_device = "its shifted iterations are LAPACK's"
    form = "structural"

    def infer(self, *types: Any) -> tuple[TensorType, TensorType]:
        """``w [..., n]``, ``v [..., n, n]``."""
        x = require_square(self.name, types[0], or_complex=True)
        dtype = C64 if x.dtype in (F32, C64) else C128
        return TensorType(dtype, x.shape[:-1]), TensorType(dtype, x.shape)

    def evaluate(self, *arrays: Any) -> Any:
        """`numpy.linalg.eig`; NaN for what is not finite."""
        (x,) = arrays
        dtype = np.result_type(x.dtype, np.complex64)
        usable = np.isfinite(x).all((-2, -1), keepdims=True)
        values, vectors = np.linalg.eig(np.where(usable, x, 0))
        values, vectors = spoiled(x, values[..., None], vectors * phases(vectors + 0j), dtype=dtype)
        return values[..., 0], vectors

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """``v⁻ᴴ (diag(w_bar) + conj(f) * (vᴴ u)) vᴴ`` with ``f[i, j] = 1 / (w[j] - w[i])``.

        ``u`` is ``v_bar`` less what would change the lengths of vectors, and fixed to their phases.

        Source: Boeddeker, Hanebrink, Drude, Heymann and Haeb-Umbach, "On the computation of complex-valued gradients
        with application to statistically optimum beamforming", 2017, section 4.
        """
        w, v = op.results
        w_ct, v_ct = cts
        shape, rank = v.tensor.shape, v.tensor.rank
        lead = tuple(range(rank - 2))
        terms = []
        if w_ct is not None:
            terms.append(part(b, b.broadcast(w_ct, shape=shape, axes=(*lead, rank - 1)), "eq"))
        if v_ct is not None:
            along = b.sum(b.real(b.mul(conj(b, v), v_ct)), axes=(rank - 2,))
            along = like(b, b.broadcast(along, shape=shape, axes=(*lead, rank - 1)), v)
            turned = b.sub(phase_fixed(b, v, v_ct, [(v, v_ct)]), b.mul(v, along))
            diagonal = part(b, b.broadcast(w, shape=shape, axes=(*lead, rank - 1)), "eq")
            overlap = product(b, conj(b, v), turned, turn="x")
            terms.append(b.mul(conj(b, inverse_gaps(b, diagonal)), overlap))
        if not terms:
            return (None,)
        inner = terms[0] if len(terms) == 1 else b.add(*terms)
        full = _solved(b, adjoint(b, v), product(b, inner, conj(b, v), turn="y"))
        is_complex = op.operands[0].tensor.dtype.is_complex
        return (full if is_complex else real_part(b, full),)

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """One more axis in front."""
        return b.eig(operands[0])

    def pairs(self, b: Builder, *operands: Any, **attrs: Any) -> Any:
        """There are no loops.

        Raises:
            TargetError: always.
        """
        raise TargetError(
            "eig has no native code: its shifted iterations are LAPACK's",
            location=b.location,
            hint="call it outside of compiled functions; tapec.linalg.eigh of symmetric or Hermitian matrices has "
            "native code",
        )


def _solved(b: Builder, a: Value, x: Value) -> Value:
    """``a⁻¹ x``."""
    packed, order = b.lu(a)
    axis = a.tensor.rank - 2
    exchanged = b.gather(x, order, axis=axis, batch_dims=axis)
    below = {"lower": True, "transpose": False, "unit": True}
    inner = b.triangular_solve(packed, exchanged, **below)
    result: Value = b.triangular_solve(packed, inner, lower=False, transpose=False, unit=False)
    return result
