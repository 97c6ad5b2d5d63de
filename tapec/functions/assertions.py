"""Assertions: about values, when the program runs; about shapes and dtypes, at once.

Eager, an assertion about values looks at them. In a compiled function it becomes a check of the program: the call
raises, and no Variable is changed. What is known already while the function is compiled (the sizes of a shape, say) is
looked at then.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from tapec import arguments
from tapec.errors import InvalidArgumentError, TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import abs as absolute
from tapec.functions.arithmetic import (
    add,
    cast,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    multiply,
    not_equal,
    subtract,
)
from tapec.functions.broadcasting import broadcast_pair, wrong_dtype
from tapec.functions.known import known_elements, static_integer, static_value
from tapec.functions.requirements import require_shown
from tapec.ir.dims import DimLike
from tapec.ir.op import OPS
from tapec.ir.ops.check import Check
from tapec.ir.types import BOOL, DType, as_dtype
from tapec.recording import about_none, current_trace, tracing
from tapec.tensor import Tensor, TensorLike, apply, as_tensor

# -- values


def check_numerics(tensor: TensorLike, message: str, name: str | None = None) -> Tensor:
    """The tensor's value as a new Tensor; its elements must be finite, and so must those of its gradient.

    Args:
        tensor: floats.
        message: the beginning of the error's text.
        name: ignored.

    Raises:
        InvalidArgumentError: an element is NaN or infinite; the text says which, how many, and where the first one
            is. In a compiled function the call raises it, before any Variable changes. Or the tensor holds no floats.
        ValueError: the tensor is None.
    """
    if tensor is None:
        raise ValueError(f"{message} is None, not a tensor", location=here(), hint=about_none())
    x = as_tensor(tensor)
    if not x.type.dtype.is_floating:
        raise wrong_dtype(x.type.dtype, "a float tensor")
    result: Tensor = apply("check_numerics", x, message=str(message))
    return result


def assert_all_finite(x: TensorLike, message: str, name: str | None = None) -> Tensor:
    """See `check_numerics`."""
    return check_numerics(x, message)


def Assert(
    condition: TensorLike,
    data: Sequence[Any],
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise unless all elements of the condition are true; ``data`` is shown.

    Args:
        condition: bools.
        data: strings and tensors, for the error's text.
        summarize: ignored.
        name: ignored.

    Raises:
        InvalidArgumentError: it does not hold.
    """
    holds = cast(as_tensor(condition), BOOL)
    texts, shown = [""], []
    for thing in arguments.items(data, "data"):
        if isinstance(thing, str | bytes):
            texts[-1] += f"{thing if isinstance(thing, str) else thing.decode()} "
        else:
            shown.append(as_tensor(thing))
            texts.append(" ")
    texts[-1] = texts[-1].rstrip()
    require_shown(holds, *shown, texts=tuple(texts))


def require_inside(indices: Tensor, extent: DimLike, what: str = "") -> None:
    """In a compiled function: raise InvalidArgumentError unless indices are in ``[0, extent)``; ``what`` they are.

    Eager operations look at their indices themselves.
    """
    trace = current_trace()
    if trace is None:
        return
    attrs = {"message": what} if what else {}
    known = known_elements(indices)
    if known is None or known.dtype == object or not isinstance(extent, int):
        with tracing(trace):
            apply("check_bounds", indices, size=extent, **attrs)
        return
    definition = OPS["check_bounds"]
    assert isinstance(definition, Check)
    wrong = definition.failure(known, size=extent, **attrs)
    if wrong is not None:
        raise InvalidArgumentError(wrong, location=here())


def _assert_compared(
    holds: Callable[[Tensor, Tensor], Tensor],
    sign: str,
    x: TensorLike,
    y: TensorLike,
    message: str | None,
) -> None:
    with tracing(current_trace()):
        first, second = broadcast_pair(x, y)
        require_shown(holds(first, second), first, second, sign=sign, message=_told(message))


def assert_equal(
    x: TensorLike,
    y: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise InvalidArgumentError unless ``x == y`` in every element; ``summarize`` and ``name`` are ignored."""
    _assert_compared(equal, "==", x, y, message)


def assert_none_equal(
    x: TensorLike,
    y: TensorLike,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> None:
    """Raise InvalidArgumentError unless ``x != y`` in every element; ``summarize`` and ``name`` are ignored."""
    _assert_compared(not_equal, "!=", x, y, message)


def assert_less(
    x: TensorLike,
    y: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise InvalidArgumentError unless ``x < y`` in every element; ``summarize`` and ``name`` are ignored."""
    _assert_compared(less, "<", x, y, message)


def assert_less_equal(
    x: TensorLike,
    y: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise InvalidArgumentError unless ``x <= y`` in every element; ``summarize`` and ``name`` are ignored."""
    _assert_compared(less_equal, "<=", x, y, message)


def assert_greater(
    x: TensorLike,
    y: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise InvalidArgumentError unless ``x > y`` in every element; ``summarize`` and ``name`` are ignored."""
    _assert_compared(greater, ">", x, y, message)


def assert_greater_equal(
    x: TensorLike,
    y: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise InvalidArgumentError unless ``x >= y`` in every element; ``summarize`` and ``name`` are ignored."""
    _assert_compared(greater_equal, ">=", x, y, message)


def assert_positive(
    x: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise InvalidArgumentError unless every element is above 0; ``summarize`` and ``name`` are ignored."""
    _assert_compared(greater, ">", x, 0, message)


def assert_negative(
    x: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise InvalidArgumentError unless every element is below 0; ``summarize`` and ``name`` are ignored."""
    _assert_compared(less, "<", x, 0, message)


def assert_non_negative(
    x: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise InvalidArgumentError if an element is below 0; ``summarize`` and ``name`` are ignored."""
    _assert_compared(greater_equal, ">=", x, 0, message)


def assert_non_positive(
    x: TensorLike,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise InvalidArgumentError if an element is above 0; ``summarize`` and ``name`` are ignored."""
    _assert_compared(less_equal, "<=", x, 0, message)


def assert_near(
    x: TensorLike,
    y: TensorLike,
    rtol: float | None = None,
    atol: float | None = None,
    message: str | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> None:
    """Raise InvalidArgumentError unless ``|x - y| <= atol + rtol |y|``; both 10 ulps by default.

    ``summarize`` and ``name`` are ignored.
    """
    with tracing(current_trace()):
        first, second = broadcast_pair(x, y)
    ulps = 10 * float(np.finfo(np.float32 if first.dtype.bits <= 32 else np.float64).eps)
    near, share = (
        ulps if given is None else arguments.number(static_value(given, what), what)
        for given, what in ((atol, "atol"), (rtol, "rtol"))
    )

    def close(a: Tensor, b: Tensor) -> Tensor:
        return less_equal(absolute(subtract(a, b)), add(near, multiply(share, absolute(b))))

    _assert_compared(close, f"near (rtol={share:g}, atol={near:g})", first, second, message)


# -- shapes


def _told(message: str | None) -> str:
    """The user's own part of an error."""
    return "" if message is None else arguments.text(message, "message")


def assert_rank(
    x: TensorLike, rank: int, message: str | None = None, name: str | None = None
) -> None:
    """Raise ValueError unless the tensor has that many axes."""
    count = static_integer(rank, "rank")
    _assert_rank(as_tensor(x), lambda n: n == count, f"rank {count}", message)


def assert_rank_at_least(
    x: TensorLike, rank: int, message: str | None = None, name: str | None = None
) -> None:
    """Raise ValueError unless the tensor has that many axes or more."""
    count = static_integer(rank, "rank")
    _assert_rank(as_tensor(x), lambda n: n >= count, f"rank at least {count}", message)


def assert_rank_in(
    x: TensorLike, ranks: Iterable[int], message: str | None = None, name: str | None = None
) -> None:
    """Raise ValueError unless the number of the tensor's axes is one of these."""
    allowed = [static_integer(r, "a rank") for r in arguments.items(ranks, "ranks")]
    _assert_rank(as_tensor(x), allowed.__contains__, f"a rank in {allowed}", message)


def _assert_rank(
    tensor: Tensor, fits: Callable[[int], bool], wanted: str, message: str | None
) -> None:
    if not fits(tensor.ndim):
        raise ValueError(
            f"{_told(message)} Tensor must have {wanted}. Received rank {tensor.ndim}, shape "
            f"{tensor.shape}".strip(),
            location=here(),
        )


def assert_scalar(tensor: TensorLike, message: str | None = None, name: str | None = None) -> None:
    """Raise ValueError unless the tensor has no axes."""
    assert_rank(tensor, 0, message)


def assert_shapes(
    shapes: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> None:
    """Raise ValueError unless tensors have these shapes.

    Args:
        shapes: a dict, or pairs, from tensors to sequences of sizes; equal letters stand for equal
            sizes, None for any size, and a leading or trailing ``...`` for any axes.
        data: ignored, as are ``summarize`` and ``name``.
        summarize: ignored.
        message: the beginning of the error's text.
        name: ignored.
    """
    found: dict[Any, tuple[int | None, str]] = {}
    for value, wanted in arguments.pairs(shapes, "shapes"):
        tensor = as_tensor(value.deref() if hasattr(value, "deref") else value)
        symbols = list(wanted) if isinstance(wanted, str | list | tuple) else [wanted]
        for symbol, size, axis in _matched(tensor, symbols, message):
            number = symbol if isinstance(symbol, int) else None
            known, source = (number, "") if number is not None else found.get(symbol, (size, ""))
            if known is not None and size is not None and known != size:
                raise ValueError(
                    f"{message or ''} {source}Tensor shape={tensor.shape} dimension {axis} must "
                    f"have size {known}. Received size {size}".strip(),
                    location=here(),
                )
            if not isinstance(symbol, int):
                specified = f"Specified by tensor shape={tensor.shape} dimension {axis}. "
                found.setdefault(symbol, (size, specified))


def _matched(
    tensor: Tensor, symbols: list[Any], message: str | None
) -> list[tuple[Any, int | None, int]]:
    """Each named size with the symbol for it and its axis."""
    symbols = [... if isinstance(s, str) and s == "..." else s for s in symbols]
    sizes = list(tensor.shape)
    offset = 0
    if ... in symbols:
        named = [s for s in symbols if s is not ...]
        if symbols[0] is ...:
            offset = builtins.max(len(sizes) - len(named), 0)
        sizes, symbols = sizes[offset : offset + len(named)], named
    if len(sizes) != len(symbols):
        raise ValueError(
            f"{message or ''} Tensor must have rank {len(symbols)}. Received rank {tensor.ndim}, "
            f"shape {tensor.shape}".strip(),
            location=here(),
        )
    triples = zip(symbols, sizes, range(offset, offset + len(sizes)), strict=True)
    return [t for t in triples if t[0] not in (None, ".")]


# -- dtypes


def assert_type(
    tensor: TensorLike, tf_type: Any, message: str | None = None, name: str | None = None
) -> None:
    """Raise TypeError unless the tensor has that dtype."""
    dtype, wanted = as_tensor(tensor).dtype, as_dtype(tf_type)
    if dtype != wanted:
        raise TypeError(
            f"{message or ''} tensor must be of type {wanted!r}; got {dtype!r}".strip(),
            location=here(),
        )


def assert_integer(x: TensorLike, message: str | None = None, name: str | None = None) -> None:
    """Raise TypeError unless the tensor holds integers."""
    dtype = as_tensor(x).dtype
    if not dtype.is_integer:
        raise TypeError(
            f"{_told(message)} Expected x to be an integer tensor, got {dtype!r}".strip(),
            location=here(),
        )


def assert_same_float_dtype(tensors: Sequence[Any] | None = None, dtype: Any = None) -> DType:
    """The one float dtype of tensors, which is ``dtype`` if that is given; float32 for none of both.

    Raises:
        ValueError: they have different dtypes, or no float dtype.
    """
    given = [] if tensors is None else arguments.items(tensors, "tensors")
    found = [as_tensor(t).dtype for t in given if t is not None]
    if dtype is not None:
        found.insert(0, as_dtype(dtype))
    for first, other in pairwise(found):
        if first != other:
            raise ValueError(
                f"tensors must have one dtype, got {first!r} and {other!r}", location=here()
            )
    common = found[0] if found else as_dtype("float32")
    if not common.is_floating:
        raise ValueError(f"Expected floating point type, got {common!r}", location=here())
    return common


def is_numeric_tensor(tensor: Any) -> bool:
    """Whether it is a Tensor of numbers: floats, integers, complex numbers."""
    return isinstance(tensor, Tensor) and (
        tensor.dtype.is_integer or tensor.dtype.is_differentiable
    )


def assert_proper_iterable(values: Any) -> None:
    """Raise TypeError for what can be iterated over but is one thing: a tensor, an array, a string; or what cannot."""
    single = isinstance(values, Tensor | np.ndarray | bytes | str) or hasattr(values, "read_value")
    if single or not hasattr(values, "__iter__"):
        raise TypeError(
            f"Expected argument 'values' to be a 'proper' iterable.  Found: {type(values)}",
            location=here(),
        )
