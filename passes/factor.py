"""Add rows up before a product, where of the product only sums of its rows are read.

``sum over i of (sum over r of a[i, r] * b[r, j])`` is ``sum over r of (sum over i of a[i, r]) * b[r, j]``: one row
is multiplied, not all of them. Columns likewise, of the second matrix. The gradient of what every row in front of a
product was moved by has that form: of the mean that points are centred by, or of a bias of data without a gradient.
So has the mean over the tokens of a layer's results.

The order in which numbers are added changes, so results are equal but for rounding: both are sums of the same products,
with the same bound on the error. What was not finite is not finite, to the bit where the infinities are among what is
added up; with infinities in the other matrix it may be infinite where it was NaN, as products of either sign no longer
meet. A sum of numbers near the largest there is may overflow where products with small ones did not. So floats of
16 bits are left alone, few of which add up to infinity.
"""

from __future__ import annotations

from tapec.ir.builder import Builder
from tapec.ir.core import Module, Operation, Value
from tapec.ir.dims import DimLike, typical
from tapec.ir.guards import recording_guards
from tapec.ir.ops.arith import Neg
from tapec.ir.ops.contraction import MatMul
from tapec.ir.ops.reduction import Sum
from tapec.passes.rules.rewrite import Replacement, Rewriter, Rule, producer

#: Rows or columns that are few: adding them up first saves nothing.
_FEW = 2


def run(module: Module, options: object = None) -> bool:
    """Do it in every function, and in the regions in it."""
    changed = False
    for function in module.functions.values():
        with recording_guards(function):
            changed |= _REWRITER.rewrite(function.block)
    return changed


def _add_first(b: Builder, op: Operation) -> Replacement:
    """The sum of a product, or of a negative one, as a product of sums."""
    (rows,) = op.operands
    negative = _alone(rows, Neg)
    product = _alone(negative.operands[0] if negative else rows, MatMul)
    if product is None or not _pays(product):
        return None
    axes, rank = op.attrs["axes"], rows.tensor.rank
    x, y = product.operands
    row, column = rank - 2, rank - 1
    if not {row, column} & set(axes):
        return None
    if negative:
        x = b.neg(x)
    flags = dict(product.parameters)
    if row in axes:
        x = _total(b, x, column if flags.pop("transpose_a", False) else row, row)
    if column in axes:
        y = _total(b, y, row if flags.pop("transpose_b", False) else column, column)
    total = b.matmul(x, y, **flags)
    batch = tuple(axis for axis in axes if axis < row)
    if batch:
        total = b.sum(total, axes=batch)
    return b.reshape(total, shape=op.result.tensor.shape)


def _alone(value: Value, kind: type) -> Operation | None:
    """What makes a value that is read once, if it is of this class."""
    return producer(value, kind) if len(value.users) == 1 else None


def _pays(product: Operation) -> bool:
    """Whether there are several rows and columns, of numbers that can be added up."""
    dtype, shape = product.result.tensor.dtype, product.result.tensor.shape
    return dtype.kind == "float" and dtype.bits >= 32 and min(map(typical, shape[-2:])) >= _FEW


def _total(b: Builder, matrix: Value, axis: int, place: int) -> Value:
    """Matrices with one axis added up; an axis of size 1 stands at ``place`` for it."""
    total = b.sum(matrix, axes=(axis,))
    shape: list[DimLike] = [*total.tensor.shape]
    shape.insert(place, 1)
    result: Value = b.reshape(total, shape=tuple(shape))
    return result


_REWRITER = Rewriter((Rule("sum(matmul(a, b)) -> matmul(sum(a), b)", Sum, _add_first),))
