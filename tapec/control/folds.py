"""Functions applied along the leading axis: `map_fn`, `scan`, `foldl`, `foldr`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapec.control.structures import leaves_like, tensors_in
from tapec.errors import InvalidArgumentError, OutOfRangeError, TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import stop_gradient
from tapec.functions.arrays import full
from tapec.functions.broadcasting import refuse_in_trace
from tapec.functions.rearrangement import stack, unstack
from tapec.ir.types import DType, as_dtype
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
    values = fold.values()
    if initializer is None:
        values = [fold.first, *values]
    if reverse:
        values.reverse()
    if values:
        columns = [stack(list(column)) for column in zip(*values, strict=True)]
    else:
        columns = [full(0, v.dtype, (0, *v.type.shape)) for v in fold.first]
    return fold.result(columns, back_prop)


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
    return fold.result([fold.first, *fold.values()][-1], back_prop)


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
    return fold.result([fold.first, *fold.values()][-1], back_prop)


class _Fold:
    """A function that is applied to a value and the elements in turn."""

    def __init__(self, name: str, fn: Step, elems: Any, initializer: Any, reverse: bool) -> None:
        if not callable(fn):
            raise TypeError(f"{name}: fn must be callable, got {fn!r}", location=here())
        refuse_in_trace(name, "write the loop in Python, or outside of the compiled function")
        self.name, self.fn = name, fn
        columns, self.elem_spec = elements(elems)
        rows = rows_of(columns)
        if reverse:
            rows.reverse()
        if initializer is None:
            if not rows:
                raise OutOfRangeError(
                    f"{name}: there are no elements to begin with",
                    location=here(),
                    hint="give an initializer",
                )
            self.first, self.spec = rows.pop(0), self.elem_spec
        else:
            self.first, self.spec = tensors_in(initializer)
        self.rows = rows

    def values(self) -> list[list[Tensor]]:
        """What the function returns, one after the other."""
        found, value = [], self.first
        for row in self.rows:
            returned = self.fn(unflatten(self.spec, list(value)), unflatten(self.elem_spec, row))
            value = leaves_like(self.name, returned, self.first, self.spec)
            found.append(value)
        return found

    def result(self, leaves: Sequence[Tensor], back_prop: bool) -> Any:
        """Values in the structure of the first one."""
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
    refuse_in_trace("map_fn", "use tapec.vectorized_map")
    columns, spec = elements(elems)
    signature = dtype if fn_output_signature is None else fn_output_signature
    wanted = Signature.of(signature, [c.dtype for c in columns], spec)
    results = [wanted.leaves("map_fn", fn(unflatten(spec, row))) for row in rows_of(columns)]
    if results:
        found = [stack(list(column)) for column in zip(*results, strict=True)]
    else:
        found = [
            full(0, d, (0, *shape)) for d, shape in zip(wanted.dtypes, wanted.shapes, strict=True)
        ]
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
        return cls(own, [as_dtype(getattr(leaf, "dtype", leaf)) for leaf in leaves], shapes)

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
