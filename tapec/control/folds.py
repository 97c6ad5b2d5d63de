"""Functions applied along the leading axis: `map_fn`, `scan`, `foldl`, `foldr`.

Eagerly they are loops of Python, whose operations tapes hear; in a compiled function they are loops of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapec import arguments
from tapec.control.arguments import dtype_of
from tapec.control.repetition import over_rows
from tapec.control.structures import leaves_like, tensors_in
from tapec.errors import InvalidArgumentError, OutOfRangeError, TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import stop_gradient
from tapec.functions.arrays import full
from tapec.functions.rearrangement import (
    concat,
    expand_dims,
    part,
    reshape,
    reverse,
    stack,
    unstack,
)
from tapec.ir.types import DType
from tapec.recording import current_trace
from tapec.structure import flatten, unflatten
from tapec.tensor import Tensor

Step = Callable[..., Any]


def scan(
    fn: Step,
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """All values of ``a = fn(a, elem)`` over the elements along the leading axis, stacked.

    Args:
        fn: takes the value so far and the next element, and returns the next value, in the same structure.
        elems: a Tensor, or a structure of Tensors with the same leading axis.
        initializer: the first ``a``; the first element if None, which then is the first result too.
        parallel_iterations: without effect.
        back_prop: whether gradients flow.
        swap_memory: without effect.
        infer_shape: without effect.
        reverse: from the last element to the first; results stand where their elements do.
        name: without effect.

    Raises:
        OutOfRangeError: there are no elements and no initializer.
        TypeError: ``fn`` is not callable.
        ValueError: ``elems`` have no common leading axis; ``fn`` returns another structure.
    """
    fold = _Fold("scan", fn, elems, initializer, reverse)
    return fold.result(fold.all_values(), back_prop)


def foldl(
    fn: Step,
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """The last value of ``a = fn(a, elem)`` over the elements along the leading axis, from first to last.

    Arguments and errors are those of `scan`.
    """
    fold = _Fold("foldl", fn, elems, initializer, False)
    return fold.result(fold.last_value(), back_prop)


def foldr(
    fn: Step,
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """The last value of ``a = fn(a, elem)`` over the elements along the leading axis, from last to first.

    Arguments and errors are those of `scan`.
    """
    fold = _Fold("foldr", fn, elems, initializer, True)
    return fold.result(fold.last_value(), back_prop)


class _Fold:
    """A function that is applied to a value and the elements in turn."""

    def __init__(self, name: str, fn: Step, elems: Any, initializer: Any, backwards: bool) -> None:
        if not callable(fn):
            raise TypeError(f"{name}: fn must be callable, got {fn!r}", location=here())
        self.name, self.fn = name, fn
        self.backwards = arguments.flag(backwards, "reverse")
        self.columns, self.elem_spec = elements(elems)
        self.has_initializer = initializer is not None
        if self.has_initializer:
            self.first, self.spec = tensors_in(initializer)
            return
        count = self.columns[0].type.shape[0]
        if count == 0:
            raise OutOfRangeError(
                f"{name}: there are no elements to begin with",
                location=here(),
                hint="give an initializer",
            )
        self.spec = self.elem_spec
        start, rest = (count - 1, 0) if backwards else (0, 1)
        self.first = [reshape(part(c, 0, start, 1), c.type.shape[1:]) for c in self.columns]
        self.columns = [part(c, 0, rest, count - 1) for c in self.columns]

    def _step(self, value: Sequence[Tensor], row: Sequence[Tensor]) -> list[Tensor]:
        returned = self.fn(unflatten(self.spec, list(value)), unflatten(self.elem_spec, list(row)))
        return leaves_like(self.name, returned, self.first, self.spec)

    def last_value(self) -> list[Tensor]:
        """What the function returns in the end."""
        if current_trace() is not None:
            return over_rows(
                self.name,
                lambda value, row: (self._step(value, row), []),
                self.first,
                self.columns,
                self.backwards,
            )[0]
        return [self.first, *self._values()][-1]

    def all_values(self) -> list[Tensor]:
        """What the function returns, stacked; before it the first value if that is an element."""
        if current_trace() is not None:

            def step(value: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
                found = self._step(value, row)
                return found, found

            stacked = over_rows(self.name, step, self.first, self.columns, self.backwards)[1]
        else:
            stacked = stacked_rows(self._values(), self.first)
            if self.backwards:
                stacked = [reverse(s, [0]) for s in stacked]
        if self.has_initializer:
            return stacked
        ends = [expand_dims(v, 0) for v in self.first]
        pairs = zip(stacked, ends, strict=True)
        return [concat([s, e] if self.backwards else [e, s], 0) for s, e in pairs]

    def _values(self) -> list[list[Tensor]]:
        """What the function returns, one after the other."""
        rows = rows_of(self.columns)
        found, value = [], self.first
        for row in reversed(rows) if self.backwards else rows:
            value = self._step(value, row)
            found.append(value)
        return found

    def result(self, leaves: Sequence[Tensor], back_prop: bool) -> Any:
        """Values in the structure of the first one."""
        back_prop = arguments.flag(back_prop, "back_prop")
        return unflatten(self.spec, [v if back_prop else stop_gradient(v) for v in leaves])


def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """What ``fn`` returns for each element along the leading axis, stacked; one after the other.

    `vectorized_map` does all at once, where the function allows it.

    Args:
        fn: takes an element, a structure like ``elems``, and returns a structure of Tensors.
        elems: a Tensor, or a structure of Tensors with the same leading axis.
        dtype: older name of ``fn_output_signature``.
        parallel_iterations: without effect.
        back_prop: whether gradients flow.
        swap_memory: without effect.
        infer_shape: without effect.
        name: without effect.
        fn_output_signature: the structure of dtypes (or of specs that have one) that ``fn`` returns; like ``elems``
            if None.

    Raises:
        InvalidArgumentError: ``fn`` returns another dtype.
        TypeError: ``fn`` is not callable.
        ValueError: ``elems`` have no common leading axis; ``fn`` returns another structure.
    """
    if not callable(fn):
        raise TypeError(f"map_fn: fn must be callable, got {fn!r}", location=here())
    columns, spec = elements(elems)
    back_prop = arguments.flag(back_prop, "back_prop")
    signature = dtype if fn_output_signature is None else fn_output_signature
    wanted = Signature.of(signature, [c.dtype for c in columns], spec)

    def one(row: Sequence[Tensor]) -> list[Tensor]:
        return wanted.leaves("map_fn", fn(unflatten(spec, list(row))))

    if current_trace() is not None:
        found = over_rows("map_fn", lambda _, row: ([], one(row)), [], columns, False)[1]
    else:
        like = [full(0, d, shape) for d, shape in zip(wanted.dtypes, wanted.shapes, strict=True)]
        found = stacked_rows([one(row) for row in rows_of(columns)], like)
    return unflatten(wanted.spec, [v if back_prop else stop_gradient(v) for v in found])


class Signature:
    """The structure that a function has to return, with the dtype of each leaf."""

    def __init__(self, spec: Any, dtypes: list[DType], shapes: list[tuple[int, ...]]) -> None:
        """``shapes`` are those of a leaf, as far as they are known (else ())."""
        self.spec, self.dtypes, self.shapes = spec, dtypes, shapes

    @classmethod
    def of(cls, signature: Any, dtypes: Sequence[DType], spec: Any) -> Signature:
        """What a user gave; if that is None, ``spec`` with ``dtypes``."""
        if signature is None:
            return cls(spec, list(dtypes), [()] * len(dtypes))
        leaves, given = flatten(signature)
        own = tensors_in(unflatten(given, [0] * len(leaves)))[1]
        shapes = [tuple(d or 0 for d in getattr(leaf, "shape", None) or ()) for leaf in leaves]
        return cls(own, [dtype_of(getattr(leaf, "dtype", leaf)) for leaf in leaves], shapes)

    def leaves(self, name: str, returned: Any) -> list[Tensor]:
        """The Tensors that a function returned, held to the signature."""
        like = [full(0, d, ()) for d in self.dtypes]
        found = leaves_like(name, returned, like, self.spec)
        for tensor, dtype in zip(found, self.dtypes, strict=True):
            if tensor.dtype != dtype:
                raise InvalidArgumentError(
                    f"{name}: expected {dtype.name} of fn, came {tensor.dtype.name}",
                    location=here(),
                    hint="say what it returns with fn_output_signature",
                )
        return found


# ---- elements and structures


def elements(elems: Any) -> tuple[list[Tensor], Any]:
    """The Tensors in a structure, which have the same leading axis, and the structure.

    Raises:
        ValueError: there are none, one is a scalar, or the leading axes differ.
    """
    columns, spec = tensors_in(elems)
    if not columns:
        raise ValueError(
            f"elems must be a Tensor or (possibly nested) sequence of Tensors. Got {elems!r}, which does not "
            "contain any Tensors.",
            location=here(),
        )
    if not all(c.type.rank for c in columns):
        raise ValueError(
            "Elements in elems must be 1+ dimensional Tensors, not scalars", location=here()
        )
    sizes = [c.type.shape[0] for c in columns]
    if any(n != sizes[0] for n in sizes):
        raise ValueError(
            f"elems have leading axes of {' and '.join(map(str, dict.fromkeys(sizes)))} elements",
            location=here(),
        )
    return columns, spec


def rows_of(columns: Sequence[Tensor]) -> list[list[Tensor]]:
    """For each index of the leading axis the elements there."""
    return [list(row) for row in zip(*(unstack(c) for c in columns), strict=True)]


def stacked_rows(rows: Sequence[Sequence[Tensor]], like: Sequence[Tensor]) -> list[Tensor]:
    """Rows of Tensors along a new leading axis; ``like`` are their types where there are none."""
    if rows:
        return [stack(list(column)) for column in zip(*rows, strict=True)]
    return [full(0, v.dtype, (0, *v.type.shape)) for v in like]
