"""Branches and loops as Keras asks for them: eagerly Python's, in a compiled function the program's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keras.src import tree

import tapec
from tapec.control.repetition import over_rows
from tapec.keras.engine.conversion import convert_to_tensor
from tapec.recording import current_trace
from tapec.tensor import Tensor

Function = Callable[..., Any]


def cond(pred: Any, true_fn: Function, false_fn: Function) -> Any:
    """What one of two functions returns; a Python truth chooses at once."""
    if isinstance(pred, bool):
        return true_fn() if pred else false_fn()
    return tapec.cond(convert_to_tensor(pred, "bool"), true_fn, false_fn)


def switch(index: Any, branches: Sequence[Function], *operands: Any) -> Any:
    """What the function of a number returns; numbers beside them mean the first or last one."""
    last = len(branches) - 1
    number = tapec.clip_by_value(convert_to_tensor(index, "int32"), 0, last)
    return tapec.switch_case(number, [lambda b=b: b(*operands) for b in branches])


def while_loop(
    cond: Function, body: Function, loop_vars: Any, maximum_iterations: int | None = None
) -> Any:
    """The last values of variables that a body gives anew while a condition holds."""
    is_sequence = isinstance(loop_vars, tuple | list)
    variables = tuple(loop_vars) if is_sequence else (loop_vars,)
    variables = tree.map_structure(convert_to_tensor, variables)

    def step(*values: Any) -> tuple[Any, ...]:
        found = body(*values)
        return tuple(found) if isinstance(found, list | tuple) else (found,)

    found = tapec.while_loop(
        lambda *values: convert_to_tensor(cond(*values), "bool"),
        step,
        variables,
        maximum_iterations=maximum_iterations,
    )
    return tuple(found) if is_sequence else found[0]


def fori_loop(lower: Any, upper: Any, body_fun: Function, init_val: Any) -> Any:
    """``value = body_fun(i, value)`` for each ``i`` from ``lower`` up to but not ``upper``."""
    start, end = convert_to_tensor(lower), convert_to_tensor(upper)
    most = None
    if isinstance(lower, int) and isinstance(upper, int):
        most = max(0, upper - lower)
    first = tree.map_structure(convert_to_tensor, init_val)
    _, value = tapec.while_loop(
        lambda i, _: i < end,
        lambda i, value: (i + 1, body_fun(i, value)),
        (start, first),
        maximum_iterations=most,
    )
    return value


def vectorized_map(function: Function, elements: Any) -> Any:
    """What a function returns for each row, computed for all rows at once."""
    return tapec.vectorized_map(function, tree.map_structure(convert_to_tensor, elements))


def map(f: Function, xs: Any) -> Any:
    """What a function returns for each row, one after the other, stacked."""

    def step(_: Any, x: Any) -> tuple[Any, Any]:
        return (), f(x)

    return scan(step, (), xs)[1]


def scan(
    f: Function,
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: Any = 1,
) -> tuple[Any, Any]:
    """The last carry and the stacked results of ``carry, y = f(carry, x)`` over the rows of ``xs``.

    Raises:
        TypeError: ``f`` is not callable.
        ValueError: nothing says how often, or ``unroll`` is no bool or positive integer.
    """
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    if not isinstance(unroll, bool) and (not isinstance(unroll, int) or unroll < 1):
        raise ValueError(
            f"`unroll` must be an positive integer or boolean. Received: unroll={unroll}"
        )
    if xs is None and length is None:
        raise ValueError("Got no `xs` to scan over and `length` not provided.")
    carry = [convert_to_tensor(leaf) for leaf in tree.flatten(init)]
    columns = [convert_to_tensor(leaf) for leaf in tree.flatten(xs)] if xs is not None else []
    if not columns or length is not None:
        count = int(length) if length is not None else 0
        columns = [column[:count] for column in columns] or [tapec.zeros([count], "int32")]
    steps = _Steps(f, init, xs)
    if current_trace() is not None:
        last, rows = over_rows("scan", steps, carry, columns, reverse)
    else:
        last, rows = _by_python(steps, carry, columns, reverse)
    return steps.like_init(last), steps.stacked(rows)


class _Steps:
    """A function of a carry and a row, as one of flat lists; remembers the structure of what it returns."""

    def __init__(self, f: Function, init: Any, xs: Any) -> None:
        self._function, self._init, self._xs = f, init, xs
        self._result: Any = None

    def __call__(self, carry: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        x = None if self._xs is None else tree.pack_sequence_as(self._xs, row)
        new, result = self._function(self.like_init(carry), x)
        self._result = result
        leaves = [] if result is None else tree.flatten(result)
        kept = zip(tree.flatten(new), carry, strict=True)
        return (
            [convert_to_tensor(leaf, old.dtype.name) for leaf, old in kept],
            [convert_to_tensor(leaf) for leaf in leaves],
        )

    def like_init(self, leaves: Sequence[Tensor]) -> Any:
        return tree.pack_sequence_as(self._init, list(leaves))

    def stacked(self, rows: Sequence[Tensor]) -> Any:
        return None if self._result is None else tree.pack_sequence_as(self._result, list(rows))


def _by_python(
    steps: _Steps, carry: list[Tensor], columns: list[Tensor], reverse: bool
) -> tuple[list[Tensor], list[Tensor]]:
    count = int(columns[0].shape[0])
    found = []
    for i in reversed(range(count)) if reverse else range(count):
        carry, results = steps(carry, [column[i] for column in columns])
        found.append(results)
    if reverse:
        found.reverse()
    return carry, [tapec.stack(row) for row in zip(*found, strict=True)]


def associative_scan(f: Function, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All running results of an associative function, in a number of rounds that is the logarithm of their count.

    Raises:
        TypeError: ``f`` is not callable.
        ValueError: the elements have different sizes along the axis.
    """
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    columns = [convert_to_tensor(leaf) for leaf in tree.flatten(elems)]
    sizes = {column.shape[axis] for column in columns}
    if len(sizes) != 1:
        shapes = [tuple(column.shape) for column in columns]
        raise ValueError(
            f"Array inputs to associative_scan must have the same first dimension. (saw: {shapes})"
        )
    (count,) = sizes
    if reverse:
        columns = [tapec.reverse(column, [axis]) for column in columns]
    distance = 1
    while distance < count:
        earlier = [_rows(c, axis, 0, count - distance) for c in columns]
        later = [_rows(c, axis, distance, count) for c in columns]
        joined = f(tree.pack_sequence_as(elems, earlier), tree.pack_sequence_as(elems, later))
        columns = [
            tapec.concat([_rows(c, axis, 0, distance), new], axis)
            for c, new in zip(columns, tree.flatten(joined), strict=True)
        ]
        distance *= 2
    if reverse:
        columns = [tapec.reverse(column, [axis]) for column in columns]
    return tree.pack_sequence_as(elems, columns)


def _rows(x: Tensor, axis: int, start: int, end: int) -> Tensor:
    axis = axis % x.type.rank
    return x[(*[slice(None)] * axis, slice(start, end))]
