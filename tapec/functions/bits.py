"""Numbers as the bits that stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapec.bitwise import left_shift, right_shift
from tapec.derivatives.attachment import attach
from tapec.errors import LookupError
from tapec.frames import here
from tapec.functions.arithmetic import cast, imag, named_dtype, real
from tapec.functions.arithmetic import complex as complex_of
from tapec.functions.broadcasting import binary, misfit, wrong_dtype
from tapec.functions.rearrangement import expand_dims, reshape, stack
from tapec.functions.reductions import add_n
from tapec.ir.types import U8, U16, U32, U64, DType
from tapec.recording import current_trace
from tapec.tensor import Tensor, TensorLike, apply, as_tensor

_WORDS = {8: U8, 16: U16, 32: U32, 64: U64}


def bitcast(input: TensorLike, type: Any, name: str | None = None) -> Tensor:
    """The numbers of another dtype that the same bits stand for; the lowest bits come first.

    Args:
        input: floats, integers or complex numbers. Of a dtype narrower than ``type``, the last axis has
            the parts of one number.
        type: the dtype of the result. If it is narrower, the result has one more axis, of the parts.
        name: not used.

    No gradient flows to or from integers.

    Example: ``bitcast(1.0, tapec.int32)`` is ``0x3F800000``.

    Raises:
        InvalidArgumentError: a dtype is bool or a string, or the last axis has another size (ValueError,
            TypeError while a function is compiled).
        LookupError: eager, at a gradient from floats to those of another dtype: there is none.
    """
    x, target = as_tensor(input), named_dtype(type)
    result = _bitcast(x, target)
    source = x.type.dtype
    between_floats = source.is_differentiable and target.is_differentiable
    if source == target or not between_floats or current_trace() is not None:
        return result

    def pull(cotangents: Sequence[Tensor]) -> list[Tensor | None]:
        raise LookupError(
            f"bitcast from {source.name} to {target.name} has no gradient",
            location=here(),
            hint="tapec.cast converts numbers; tapec.stop_gradient says that nothing shall flow",
        )

    return attach([result], [x], pull, "bitcast")[0]


def _bitcast(x: Tensor, target: DType) -> Tensor:
    source = x.type.dtype
    for dtype in (source, target):
        if not (dtype.is_floating or dtype.is_integer or dtype.is_complex):
            raise wrong_dtype(dtype, "floats, integers or complex numbers")
    if source.bits == target.bits and not (source.is_complex or target.is_complex):
        return x if source == target else _same_width(x, target)
    shape = x.type.shape
    if source.bits < target.bits:
        if not shape or shape[-1] != target.bits // source.bits:
            raise misfit(
                f"bitcast from {source.name} to {target.name} takes a last axis of size "
                f"{target.bits // source.bits}, got {x.type}"
            )
        shape = shape[:-1]
    elif source.bits > target.bits:
        shape = (*shape, source.bits // target.bits)
    width = min(source.real_dtype.bits, target.real_dtype.bits)
    words = reshape(_split(x, width), (*shape, target.bits // width))
    return _joined(words, target)


def _same_width(x: Tensor, target: DType) -> Tensor:
    result: Tensor = apply("bitcast", x, dtype=target)
    return result


def _split(x: Tensor, width: int) -> Tensor:
    """Words of so many bits, along one more axis."""
    if x.type.dtype.is_complex:
        x = stack([real(x), imag(x)], -1)
    word = _WORDS[x.type.dtype.bits]
    bits = _same_width(x, word)
    if word.bits == width:
        return expand_dims(bits, -1)
    parts = [right_shift(bits, as_tensor(i, word)) for i in range(0, word.bits, width)]
    return cast(stack(parts, -1), _WORDS[width])


def _joined(words: Tensor, target: DType) -> Tensor:
    """Numbers of the words along the last axis."""
    lead = words.type.shape[:-1]
    width, word = words.type.dtype.bits, _WORDS[target.real_dtype.bits]
    parts = 1 + target.is_complex
    groups = cast(reshape(words, (*lead, parts, word.bits // width)), word)
    pieces = [
        left_shift(groups[..., i], as_tensor(i * width, word)) for i in range(word.bits // width)
    ]
    numbers = _same_width(add_n(pieces), target.real_dtype)
    if target.is_complex:
        return complex_of(numbers[..., 0], numbers[..., 1])
    return numbers[..., 0]


def nextafter(x1: TensorLike, x2: TensorLike, name: str | None = None) -> Tensor:
    """The float32 or float64 number next to ``x1`` on the way to ``x2``; the operands broadcast.

    The gradient of ``x1`` is 1, that of ``x2`` is 0.
    """
    return binary("nextafter", x1, x2)
