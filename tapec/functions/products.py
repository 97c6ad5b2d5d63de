"""Products of matrices and tensors: everything here is transposes, reshapes and one `matmul`."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from math import prod
from typing import Any

from tapec import arguments
from tapec.errors import InvalidArgumentError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import cast, conj, multiply
from tapec.functions.broadcasting import (
    axis_of,
    broadcast,
    common_shape,
    converted,
    like,
    may_equal,
    misfit,
    shape_text,
)
from tapec.functions.rearrangement import expand_dims, pad, part, reshape, squeeze, transpose
from tapec.functions.reductions import reduce_sum
from tapec.ir.dims import Dim, DimLike
from tapec.tensor import Tensor, TensorLike, apply, as_tensor


def matmul(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of matrices, or of stacks of them.

    Args:
        a: ``[..., m, k]``, or ``[..., k, m]`` if transposed.
        b: ``[..., k, n]``, or ``[..., n, k]`` if transposed. The axes in front broadcast.
        transpose_a: whether the last two axes of ``a`` are swapped first.
        transpose_b: the same for ``b``.
        adjoint_a: swapped and conjugated.
        adjoint_b: swapped and conjugated.
        a_is_sparse: a hint of TensorFlow's, as are ``b_is_sparse``, ``grad_a`` and ``grad_b``; not used.
        b_is_sparse: not used.
        output_type: the dtype to which the operands are converted first; their own if None.
        grad_a: not used.
        grad_b: not used.

    Returns:
        ``[..., m, n]``, of the operands' dtype.

    Raises:
        InvalidArgumentError: a vector, or sizes that do not fit; while a function is compiled
            ValueError.
        ValueError: transpose and adjoint of one operand.
    """
    transpose_a, adjoint_a = _at_most_one(transpose_a, adjoint_a)
    transpose_b, adjoint_b = _at_most_one(transpose_b, adjoint_b)
    x, y = converted(a, b)
    if output_type is not None:
        x, y = cast(x, output_type), cast(y, output_type)
    if adjoint_a or adjoint_b:
        x, y = conj(x) if adjoint_a else x, conj(y) if adjoint_b else y
        transpose_a, transpose_b = transpose_a or adjoint_a, transpose_b or adjoint_b
    s, t = x.type.shape, y.type.shape
    for i, shape in enumerate((s, t)):
        if len(shape) < 2:
            hint = "use tapec.linalg.matvec or tapec.tensordot for vectors"
            raise misfit(f"In[{i}] ndims must be >= 2: {shape_text(shape)}", hint)
    inner = s[-2] if transpose_a else s[-1], t[-1] if transpose_b else t[-2]
    if inner[0] != inner[1] and not any(isinstance(n, Dim) for n in inner):
        raise misfit(f"Matrix size-incompatible: In[0]: {shape_text(s)}, In[1]: {shape_text(t)}")
    if s[:-2] != t[:-2]:
        if len(t) == 2 and not transpose_a:
            return _rows_times_matrix(x, y, transpose_b)
        lead = common_shape(s[:-2], t[:-2])
        x, y = broadcast(x, (*lead, *s[-2:])), broadcast(y, (*lead, *t[-2:]))
    result: Tensor = apply("matmul", x, y, transpose_a=transpose_a, transpose_b=transpose_b)
    return result


def _rows_times_matrix(x: Tensor, y: Tensor, transpose_b: bool) -> Tensor:
    """``[..., m, k]`` times one matrix: a single product of all rows, where a stack would repeat it."""
    *lead, width = x.type.shape
    rows = reshape(x, (prod(lead), width))
    product = apply("matmul", rows, y, transpose_a=False, transpose_b=transpose_b)
    return reshape(product, (*lead, product.type.shape[1]))


def _at_most_one(transpose: Any, adjoint: Any) -> tuple[bool, bool]:
    flags = arguments.flag(transpose, "transpose"), arguments.flag(adjoint, "adjoint")
    if all(flags):
        raise ValueError("Only one of transpose and adjoint can be True.", location=here())
    return flags


def matvec(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """A matrix times a vector: ``[..., m, k]`` and ``[..., k]`` give ``[..., m]``; see `matmul`."""
    x, y = converted(a, b)
    column = expand_dims(y, -1)
    return squeeze(matmul(x, column, transpose_a=transpose_a, adjoint_a=adjoint_a), axis=[-1])


def tensordot(a: TensorLike, b: TensorLike, axes: Any, name: str | None = None) -> Tensor:
    """The sum over pairs of axes of the product of two tensors.

    Args:
        a: a tensor.
        b: a tensor.
        axes: a number ``n``, for the last ``n`` of ``a`` and the first ``n`` of ``b``; or two lists
            of axes, paired.

    Returns:
        The remaining axes of ``a``, then those of ``b``.

    Example: ``tensordot(a, b, 1)`` of matrices is ``a @ b``.
    """
    x, y = converted(a, b)
    m, n = x.type.rank, y.type.rank
    if isinstance(axes, int):
        if not 0 <= axes <= builtins.min(m, n):
            raise misfit(f"tensordot: {axes} axes of operands with {m} and {n}")
        first, second = list(range(m - axes, m)), list(range(axes))
    else:
        sides = arguments.items(axes, "axes")
        if len(sides) != 2:
            raise misfit(f"tensordot: axes are for two operands, got {arguments.shown(axes)}")
        pair = [list(p) if isinstance(p, Sequence) else [p] for p in sides]
        first, second = [axis_of(i, m) for i in pair[0]], [axis_of(i, n) for i in pair[1]]
    sizes = [x.type.shape[i] for i in first], [y.type.shape[i] for i in second]
    if not may_equal(*map(tuple, sizes)):
        raise misfit(f"tensordot: the sizes {sizes[0]} and {sizes[1]} of axes {axes} differ")
    left = [i for i in range(m) if i not in first]
    right = [i for i in range(n) if i not in second]
    inner = prod(sizes[0])
    rows = [x.type.shape[i] for i in left]
    columns = [y.type.shape[i] for i in right]
    p = reshape(transpose(x, left + first), (prod(rows), inner))
    q = reshape(transpose(y, second + right), (inner, prod(columns)))
    return reshape(matmul(p, q), (*rows, *columns))


def outer(a: TensorLike, b: TensorLike) -> Tensor:
    """``[m]`` and ``[n]`` give the products ``[m, n]``."""
    return tensordot(a, b, 0)


def trace(x: TensorLike, name: str | None = None) -> Tensor:
    """The sum of the diagonal of the last two axes."""
    return einsum("...ii->...", x)


def einsum(equation: str, *inputs: TensorLike) -> Tensor:
    """A sum of products, written with a letter for each axis: ``einsum("bij,bjk->bik", x, y)``.

    Letters that the result lacks are summed over; a letter twice in one operand takes its diagonal;
    ``...`` stands for axes that broadcast. Without ``->`` the result has the letters that occur
    once, in alphabetical order. Operands are combined from left to right, two at a time.

    Raises:
        ValueError: the equation does not fit the operands.
    """
    tensors = [as_tensor(inputs[0])] if inputs else []
    for other in inputs[1:]:
        tensors.append(converted(tensors[0], other)[1])
    terms, result = _parse(equation, [t.type.rank for t in tensors])
    x, term = _diagonal(tensors[0], terms[0])
    for i, (y, other) in enumerate(zip(tensors[1:], terms[1:], strict=True)):
        y, other = _diagonal(y, other)
        later = result + "".join(terms[i + 2 :])
        x, term = _contract(x, term, y, other, later)
    x, term = _summed(x, term, result)
    return transpose(x, [term.index(letter) for letter in result])


def _parse(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of the operands and of the result; ``...`` becomes Greek letters."""
    text = arguments.text(equation, "the equation of einsum").replace(" ", "")
    left, arrow, result = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(
            f"einsum: {equation!r} has {len(terms)} operands, got {len(ranks)}", location=here()
        )
    extra = [
        rank - len(term.replace("...", "")) if "..." in term else 0
        for term, rank in zip(terms, ranks, strict=True)
    ]
    hidden = [chr(ord("α") + i) for i in range(builtins.max(extra))]
    for i, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        term = term.replace("...", "".join(hidden[len(hidden) - extra[i] :]))
        if len(term) != rank or extra[i] < 0 or not all(c.isalpha() for c in term):
            raise ValueError(
                f"einsum: operand {i} of {equation!r} does not have {rank} axes", location=here()
            )
        terms[i] = term
    if not arrow:
        once = [c for c in sorted(set(left)) if c.isalpha() and left.count(c) == 1]
        result = ("..." if hidden else "") + "".join(once)
    result = result.replace("...", "".join(hidden))
    if len(set(result)) != len(result) or not set(result) <= set("".join(terms)):
        raise ValueError(f"einsum: the result of {equation!r} is not defined", location=here())
    return terms, result


def _diagonal(x: Tensor, term: str) -> tuple[Tensor, str]:
    """Take the diagonal of axes that bear the same letter."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            i = term.index(letter)
            j = term.index(letter, i + 1)
            rest = [a for a in range(len(term)) if a not in (i, j)]
            n, sizes = x.type.shape[i], [x.type.shape[a] for a in rest]
            if not may_equal((n,), (x.type.shape[j],)):
                raise misfit(f"einsum: axis {letter} has sizes {n} and {x.type.shape[j]}")
            x = main_diagonal(transpose(x, [*rest, i, j]), sizes, n)
            term = "".join(term[a] for a in rest) + letter
    return x, term


def main_diagonal(x: Tensor, lead: Sequence[DimLike], n: DimLike) -> Tensor:
    """Of ``[..., n, n]``: every (n + 1)-th element of a matrix written in one row.

    Where only a call will know n, which no stride can be, those are the first of rows of n + 1, with n more at the end.
    """
    flat = reshape(x, (*lead, n * n))
    if isinstance(n, Dim):
        rows = reshape(pad(flat, [*[(0, 0)] * len(lead), (0, n)]), (*lead, n, n + 1))
        return reshape(part(rows, len(lead) + 1, 0, 1), (*lead, n))
    result: Tensor = apply(
        "slice",
        flat,
        starts=(0,) * (len(lead) + 1),
        sizes=(*lead, n),
        strides=(*(1,) * len(lead), n + 1),
    )
    return result


def _summed(x: Tensor, term: str, kept: str) -> tuple[Tensor, str]:
    """Sum over the letters that nobody needs any more."""
    gone = [a for a, letter in enumerate(term) if letter not in kept]
    if gone:
        x = reduce_sum(x, axis=gone)
    return x, "".join(letter for letter in term if letter in kept)


def _contract(x: Tensor, s: str, y: Tensor, t: str, later: str) -> tuple[Tensor, str]:
    """Two operands become one: a stack of matrix products over their shared letters."""
    x, s = _summed(x, s, t + later)
    y, t = _summed(y, t, s + later)
    sizes: dict[str, DimLike] = {}
    for letter, n in [*zip(s, x.type.shape, strict=True), *zip(t, y.type.shape, strict=True)]:
        if sizes.setdefault(letter, n) != n:
            if 1 not in (n, sizes[letter]) and not may_equal((n,), (sizes[letter],)):
                raise misfit(f"einsum: axis {letter} has sizes {sizes[letter]} and {n}")
            sizes[letter] = (
                n if sizes[letter] == 1 or isinstance(sizes[letter], Dim) else sizes[letter]
            )
    x = broadcast(x, tuple(sizes[c] for c in s))
    y = broadcast(y, tuple(sizes[c] for c in t))
    stacked = [c for c in s if c in t and c in later]
    inner = [c for c in s if c in t and c not in later]
    rows, columns = [c for c in s if c not in t], [c for c in t if c not in s]
    if not inner and not rows and not columns:
        return multiply(x, transpose(y, [t.index(c) for c in s])), s

    def arranged(v: Tensor, letters: str, *groups: list[str]) -> Tensor:
        order = [letters.index(c) for group in groups for c in group]
        lead = [sizes[c] for c in groups[0]]
        flat = [prod(sizes[c] for c in group) for group in groups[1:]]
        return reshape(transpose(v, order), (*lead, *flat))

    # A letter order that the operands have already costs no transpose.
    product = matmul(arranged(x, s, stacked, rows, inner), arranged(y, t, stacked, inner, columns))
    result = [*stacked, *rows, *columns]
    return reshape(product, tuple(sizes[c] for c in result)), "".join(result)


def scalar_mul(scalar: TensorLike, x: TensorLike, name: str | None = None) -> Tensor:
    """``scalar * x`` for a scalar of the dtype of ``x``.

    Raises:
        InvalidArgumentError: ``scalar`` is no scalar.
    """
    values = as_tensor(x)
    factor = like(scalar, values.type.dtype)
    if factor.type.rank:
        raise InvalidArgumentError(
            f"Only scalar multiply works, got shape {factor.shape}", location=here()
        )
    return multiply(factor, values)
