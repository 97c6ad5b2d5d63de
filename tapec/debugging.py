"""Checks: of values, of shapes, and of gradients against differences.

What looks at values does so eagerly. While a function is compiled, a check whose operands are known
then (shapes, ranks) is made at once; one of values is refused by name rather than left out.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tapec.errors import InvalidArgumentError, NotImplementedError, TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import abs as absolute
from tapec.functions.arithmetic import (
    add,
    equal,
    greater,
    greater_equal,
    identity,
    less,
    less_equal,
    multiply,
    not_equal,
    subtract,
)
from tapec.functions.broadcasting import broadcast_pair, wrong_dtype
from tapec.functions.reductions import reduce_all
from tapec.recording import current_trace
from tapec.tape import GradientTape
from tapec.tensor import Array, Tensor, TensorLike, as_tensor


def executing_eagerly() -> bool:
    """Whether operations compute at once: false while a function is compiled."""
    return current_trace() is None


def _needs_values(what: str) -> None:
    if current_trace() is not None:
        raise NotImplementedError(
            f"{what} looks at values, which a compiled function does not show",
            location=here(),
            hint="check the results of the function after the call",
        )


# -- numbers


def check_numerics(tensor: TensorLike, message: str, name: str | None = None) -> Tensor:
    """The tensor's value as a new Tensor; its elements must be finite.

    Args:
        tensor: floats.
        message: the beginning of the error's text.

    Raises:
        InvalidArgumentError: an element is NaN or infinite; the text says which, how many, and
            where the first one is. Or the tensor holds no floats.
        ValueError: the tensor is None.
        NotImplementedError: while a function is compiled.
    """
    x = as_tensor(tensor)
    if not x.type.dtype.is_floating:
        raise wrong_dtype(x.type.dtype, "a float tensor")
    _needs_values("check_numerics")
    array = x.array
    bad = ~np.isfinite(array)
    if bad.any():
        nan = np.isnan(array).any()
        kinds = " and ".join(n for n, has in (("Inf", np.isinf(array).any()), ("NaN", nan)) if has)
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        raise InvalidArgumentError(
            f"{message} : Tensor had {kinds} values: {int(bad.sum())} of {array.size} elements of "
            f"a {x.type}, the first at {list(first)}",
            location=here(),
        )
    return identity(x)


def assert_all_finite(x: TensorLike, message: str, name: str | None = None) -> Tensor:
    """See `check_numerics`."""
    return check_numerics(x, message)


# -- comparisons


def Assert(condition: TensorLike, data: Sequence[Any]) -> None:
    """Raise unless the condition holds; ``data`` is shown.

    Raises:
        InvalidArgumentError: it does not hold.
        NotImplementedError: while a function is compiled.
    """
    _needs_values("Assert")
    if not bool(reduce_all(as_tensor(condition))):
        shown = " ".join(str(as_tensor(d).array) if not isinstance(d, str) else d for d in data)
        raise InvalidArgumentError(
            f"Expected the condition to be true. Summarized data: {shown}", location=here()
        )


def _assert_compared(
    holds: Callable[[Tensor, Tensor], Tensor],
    sign: str,
    x: TensorLike,
    y: TensorLike,
    message: str | None,
) -> None:
    _needs_values(f"an assertion x {sign} y")
    first, second = broadcast_pair(x, y)
    wrong = ~holds(first, second).array
    if not wrong.any():
        return
    places = np.argwhere(wrong)
    raise InvalidArgumentError(
        f"{message or ''} Condition x {sign} y did not hold. Indices of first {len(places[:3])} "
        f"different values: {places[:3].tolist()} Corresponding x values: "
        f"{first.array[wrong][:3].tolist()} Corresponding y values: "
        f"{second.array[wrong][:3].tolist()}".strip(),
        location=here(),
    )


def assert_equal(x: TensorLike, y: TensorLike, message: str | None = None) -> None:
    """Raise InvalidArgumentError unless ``x == y`` in every element."""
    _assert_compared(equal, "==", x, y, message)


def assert_none_equal(x: TensorLike, y: TensorLike, message: str | None = None) -> None:
    """Raise InvalidArgumentError unless ``x != y`` in every element."""
    _assert_compared(not_equal, "!=", x, y, message)


def assert_less(x: TensorLike, y: TensorLike, message: str | None = None) -> None:
    """Raise InvalidArgumentError unless ``x < y`` in every element."""
    _assert_compared(less, "<", x, y, message)


def assert_less_equal(x: TensorLike, y: TensorLike, message: str | None = None) -> None:
    """Raise InvalidArgumentError unless ``x <= y`` in every element."""
    _assert_compared(less_equal, "<=", x, y, message)


def assert_greater(x: TensorLike, y: TensorLike, message: str | None = None) -> None:
    """Raise InvalidArgumentError unless ``x > y`` in every element."""
    _assert_compared(greater, ">", x, y, message)


def assert_greater_equal(x: TensorLike, y: TensorLike, message: str | None = None) -> None:
    """Raise InvalidArgumentError unless ``x >= y`` in every element."""
    _assert_compared(greater_equal, ">=", x, y, message)


def assert_positive(x: TensorLike, message: str | None = None) -> None:
    """Raise InvalidArgumentError unless every element is above 0."""
    _assert_compared(greater, ">", x, 0, message)


def assert_negative(x: TensorLike, message: str | None = None) -> None:
    """Raise InvalidArgumentError unless every element is below 0."""
    _assert_compared(less, "<", x, 0, message)


def assert_non_negative(x: TensorLike, message: str | None = None) -> None:
    """Raise InvalidArgumentError unless no element is below 0."""
    _assert_compared(greater_equal, ">=", x, 0, message)


def assert_non_positive(x: TensorLike, message: str | None = None) -> None:
    """Raise InvalidArgumentError unless no element is above 0."""
    _assert_compared(less_equal, "<=", x, 0, message)


def assert_near(
    x: TensorLike,
    y: TensorLike,
    rtol: float | None = None,
    atol: float | None = None,
    message: str | None = None,
) -> None:
    """Raise InvalidArgumentError unless ``|x - y| <= atol + rtol |y|``; both 10 ulps by default."""
    first, second = broadcast_pair(x, y)
    ulps = 10 * float(np.finfo(np.float32 if first.dtype.bits <= 32 else np.float64).eps)
    near, share = ulps if atol is None else atol, ulps if rtol is None else rtol

    def close(a: Tensor, b: Tensor) -> Tensor:
        return less_equal(absolute(subtract(a, b)), add(near, multiply(share, absolute(b))))

    _assert_compared(close, f"near (rtol={share:g}, atol={near:g})", first, second, message)


# -- shapes


def assert_rank(
    x: TensorLike, rank: int, message: str | None = None, name: str | None = None
) -> None:
    """Raise ValueError unless the tensor has that many axes."""
    tensor = as_tensor(x)
    if tensor.ndim != rank:
        raise ValueError(
            f"{message or ''} Tensor must have rank {rank}. Received rank {tensor.ndim}, shape "
            f"{tensor.shape}".strip(),
            location=here(),
        )


def assert_scalar(tensor: TensorLike, message: str | None = None, name: str | None = None) -> None:
    """Raise ValueError unless the tensor has no axes."""
    assert_rank(tensor, 0, message)


def assert_type(
    tensor: TensorLike, tf_type: Any, message: str | None = None, name: str | None = None
) -> None:
    """Raise TypeError unless the tensor has that dtype."""
    dtype = as_tensor(tensor).dtype
    if dtype != tf_type:
        raise TypeError(
            f"{message or ''} tensor must be of type {tf_type!r}; got {dtype!r}".strip(),
            location=here(),
        )


def assert_shapes(
    shapes: Any,
    data: Any = None,
    summarize: Any = None,
    message: str | None = None,
    name: str | None = None,
) -> None:
    """Raise ValueError unless tensors have these shapes.

    Args:
        shapes: a dict, or pairs, from tensors to sequences of sizes; equal letters stand for equal
            sizes, None for any size, and a leading or trailing ``...`` for any axes.
        data: ignored, as is ``summarize``.
        summarize: ignored.
        message: the beginning of the error's text.
    """
    found: dict[Any, tuple[int | None, str]] = {}
    pairs: Iterable[Any] = shapes.items() if isinstance(shapes, dict) else shapes
    for value, wanted in pairs:
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
    symbols = [... if s == "..." else s for s in symbols]
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


# -- gradients


def compute_gradient(
    f: Callable[..., Tensor], x: Sequence[TensorLike], delta: float | None = None
) -> tuple[list[Array], list[Array]]:
    """The Jacobians of a function by a tape, and by central differences.

    Args:
        f: takes as many tensors as ``x`` has, returns one.
        x: float arguments.
        delta: half the distance of the differences; a cube root of the dtype's spacing if None.

    Returns:
        Two lists of ``[size of the result, size of the argument]``, one matrix for each argument.
    """
    _needs_values("compute_gradient")
    arguments = [as_tensor(value) for value in x]
    by_tape = [_jacobian(f, arguments, i) for i in range(len(arguments))]
    by_differences = [_differences(f, arguments, i, delta) for i in range(len(arguments))]
    return by_tape, by_differences


def _jacobian(f: Callable[..., Tensor], arguments: list[Tensor], which: int) -> Array:
    x = arguments[which]
    with GradientTape() as tape:
        tape.watch(x)
        y = as_tensor(f(*arguments))
    found = tape.jacobian(y, x, unconnected_gradients="zero")
    rows: Array = found.array.reshape(y.array.size, x.array.size)
    return rows


def _differences(
    f: Callable[..., Tensor], arguments: list[Tensor], which: int, delta: float | None
) -> Array:
    x = arguments[which].numpy()
    step = float(np.finfo(x.dtype).eps ** (1 / 3)) if delta is None else delta
    columns = []
    for place in np.ndindex(np.shape(x)):
        ends = []
        for sign in (1, -1):
            moved = np.array(x)
            moved[place] += sign * step * builtins.max(1.0, abs(float(moved[place])))
            inputs = [*arguments[:which], as_tensor(moved), *arguments[which + 1 :]]
            ends.append((as_tensor(f(*inputs)).array.astype(np.float64), float(moved[place])))
        (high, right), (low, left) = ends
        columns.append((high - low).reshape(-1) / (right - left))
    return np.stack(columns, 1) if columns else np.zeros((as_tensor(f(*arguments)).array.size, 0))


def check_gradients(
    f: Callable[..., Tensor],
    x: Sequence[TensorLike],
    *,
    delta: float | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-3,
) -> float:
    """Hold the gradients of a function against central differences.

    Args:
        f: takes as many tensors as ``x`` has, returns one.
        x: float arguments, best float64.
        delta: see `compute_gradient`.
        rtol: the relative error allowed, of each element of the Jacobian.
        atol: the absolute error allowed beside it.

    Returns:
        The greatest difference found.

    Raises:
        InvalidArgumentError: an element of a Jacobian differs; the text names it and both values.

    Example: ``check_gradients(lambda x: x ** 3, [tapec.constant(2.0)])``.
    """
    worst = 0.0
    for i, (ours, theirs) in enumerate(zip(*compute_gradient(f, x, delta), strict=True)):
        error = np.abs(ours.astype(np.float64) - theirs)
        wrong = ~(error <= atol + rtol * np.abs(theirs))  # NaN is wrong
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise InvalidArgumentError(
                f"the gradient by argument {i} is wrong in {int(wrong.sum())} of {wrong.size} "
                f"elements: d f[{row}] / d x[{column}] (flat indices) is {ours[row, column]:g} by "
                f"the tape and {theirs[row, column]:g} by differences",
                location=here(),
            )
        worst = builtins.max(worst, float(error.max(initial=0.0)))
    return worst
