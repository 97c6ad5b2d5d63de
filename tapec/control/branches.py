"""Choices between functions: `cond`, `case`, `switch_case`; and `group`, `no_op`, which order what needs no order here.

Eagerly only the chosen function runs, as plain Python, and tapes hear what it does. In a compiled function each becomes
part of the program, and they return Tensors of the same structure and dtypes; where these have different shapes, a call
computes the condition first, and runs a program for its outcome.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapec import arguments
from tapec.autograph.merging import merged
from tapec.autograph.reach import Ends, Reach
from tapec.control.arguments import pairs_of
from tapec.control.regions import Merged, one_of, same_structure, truth
from tapec.errors import InvalidArgumentError, TypeError, ValueError
from tapec.frames import here
from tapec.functions.arithmetic import cast, equal, identity
from tapec.functions.arrays import constant
from tapec.functions.assertions import assert_less_equal, assert_positive
from tapec.functions.reductions import add_n
from tapec.ir.types import I32
from tapec.recording import current_trace
from tapec.tensor import Tensor, TensorLike, as_tensor
from tapec.traces.outcomes import decided
from tapec.variable import Variable

Branch = Callable[[], Any]


def cond(
    pred: TensorLike,
    true_fn: Branch | None = None,
    false_fn: Branch | None = None,
    name: str | None = None,
) -> Any:
    """What one of two functions returns: ``true_fn()`` if ``pred``, else ``false_fn()``.

    Variables may be assigned in the functions.

    Args:
        pred: a number or Tensor of one element.
        true_fn: takes nothing.
        false_fn: takes nothing.
        name: without effect.

    Raises:
        TypeError: a branch is not callable; in a compiled function, the two return different dtypes.
        ValueError: ``pred`` has several elements; in a compiled function, the two return different structures.
    """
    then, otherwise = _callable("true_fn", true_fn), _callable("false_fn", false_fn)
    if isinstance(pred, Tensor | Variable | np.ndarray):
        return _chosen(as_tensor(pred), then, otherwise)
    return then() if pred else otherwise()


def case(
    pred_fn_pairs: Sequence[tuple[TensorLike, Branch]] | Mapping[Any, Branch],
    default: Branch | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """What the function of the first true predicate returns.

    Args:
        pred_fn_pairs: pairs of a scalar bool Tensor and a function that takes nothing.
        default: runs where no predicate is true.
        exclusive: whether more than one true predicate is an error.
        strict: without effect: structures are kept as they are.
        name: without effect.

    Raises:
        InvalidArgumentError: no predicate is true and there is no default; several are and ``exclusive``.
        TypeError: a predicate is no Tensor, or a function is not callable.
        ValueError: there are no pairs.
    """
    pairs, exclusive = (
        pairs_of(pred_fn_pairs, "pred_fn_pairs"),
        arguments.flag(exclusive, "exclusive"),
    )
    if not pairs:
        raise ValueError(
            "case takes at least one pair of a predicate and a function", location=here()
        )
    for pred, fn in pairs:
        if not isinstance(pred, Tensor | Variable):
            raise TypeError(f"pred must be a Tensor, got: {pred}", location=here())
        _callable("fn", fn)
    if default is not None:
        _callable("default", default)
    if current_trace() is not None:
        return _case([(truth(pred), fn) for pred, fn in pairs], default, exclusive)
    truths = [_truth(as_tensor(pred)) for pred, _ in pairs]
    if exclusive and builtins.sum(truths) > 1:
        raise InvalidArgumentError(
            f"case is exclusive, but {builtins.sum(truths)} predicates are true: {truths}",
            location=here(),
        )
    chosen = next((fn for truth, (_, fn) in zip(truths, pairs, strict=True) if truth), default)
    if chosen is None:
        raise InvalidArgumentError(
            "None of conditions evaluated as True", location=here(), hint="give case a default"
        )
    return chosen()


def switch_case(
    branch_index: Tensor,
    branch_fns: Sequence[Any] | Mapping[int, Branch],
    default: Branch | None = None,
    name: str = "switch_case",
) -> Any:
    """What the function with a number returns.

    Args:
        branch_index: an integer scalar Tensor.
        branch_fns: functions that take nothing: a list of them, of pairs ``(number, function)``, or a dict. The
            numbers are 0, 1, … without gaps.
        default: runs for a number outside of these; the last function, if None.
        name: without effect.

    Raises:
        TypeError: the index is no integer Tensor, or a function is not callable.
        ValueError: there are no functions, or their numbers have gaps.
    """
    branches = _numbered(branch_fns)
    if not isinstance(branch_index, Tensor | Variable):
        raise TypeError(
            f"'branch_index' must be a Tensor, got {type(branch_index)}", location=here()
        )
    if not branch_index.dtype.is_integer:
        raise TypeError(
            f"'branch_index' must be an integer Tensor, got {branch_index.dtype!r}", location=here()
        )
    if default is not None:
        _callable("default", default)
    index = as_tensor(branch_index)
    if current_trace() is not None:
        last = branches[-1] if default is None else default
        numbers = [(equal(index, constant(i, index.dtype)), fn) for i, fn in enumerate(branches)]
        return _first_true(numbers, last)
    number = int(index)
    if 0 <= number < len(branches):
        return branches[number]()
    return (branches[-1] if default is None else default)()


def _numbered(branch_fns: Sequence[Any] | Mapping[int, Branch]) -> list[Branch]:
    """The functions in the order of their numbers."""
    plain = isinstance(branch_fns, Sequence) and all(callable(fn) for fn in branch_fns)
    items = list(enumerate(branch_fns)) if plain else pairs_of(branch_fns, "branch_fns")
    if not items:
        raise ValueError("Must provide at least one item in 'branch_fns'", location=here())
    numbers = [key for key, _ in items]
    if {*map(repr, numbers)} != {*map(repr, range(len(items)))}:
        raise ValueError(
            f"branch indices (keys) must form contiguous range of [0 to {len(items)}) but found {numbers}",
            location=here(),
        )
    for _, fn in items:
        _callable("branch_fns", fn)
    return [fn for _, fn in sorted(items, key=lambda item: item[0])]


def group(*inputs: Any, **kwargs: Any) -> None:
    """Nothing: what has effects takes place where it stands, so nothing need be waited for.

    Args:
        *inputs: anything.
        **kwargs: ``name``, without effect.
    """


def tuple_of(
    tensors: Sequence[TensorLike | None], control_inputs: Any = None, name: str | None = None
) -> list[Tensor | None]:
    """Each tensor, or None where None stands; ``control_inputs`` are computed in the order of the program anyway."""
    return [None if x is None else identity(x) for x in arguments.items(tensors, "tensors")]


def no_op(name: str | None = None) -> None:
    """Nothing, which is all that an operation that does nothing has to do."""


def _callable(what: str, fn: Any) -> Branch:
    if not callable(fn):
        raise TypeError(f"'{what}' must be callable.", location=here())
    branch: Branch = fn
    return branch


def _chosen(pred: Tensor, then: Branch, otherwise: Branch) -> Any:
    """What one of two functions returns, eagerly or in the program."""
    if current_trace() is None:
        return then() if _truth(pred) else otherwise()
    condition = truth(pred)
    known = decided(condition)
    if known is not None:
        return then() if known else otherwise()
    reach = Reach((then, otherwise))

    def side(fn: Branch) -> Callable[[], tuple[Any, Ends]]:
        def run() -> tuple[Any, Ends]:
            with reach.watching():
                found = fn()
            return found, reach.take()

        return run

    def merge(one: tuple[Any, Ends], other: tuple[Any, Ends]) -> Merged:
        pairs, result = same_structure(one[0], other[0])
        more, changed = merged(reach.pairs(one[1], other[1]))

        def together(found: list[Tensor]) -> Any:
            reach.settle(iter(changed(found[len(pairs) :])))
            return result(found[: len(pairs)])

        return [*pairs, *more], together

    return one_of(condition, side(then), side(otherwise), merge)


def _case(pairs: Sequence[tuple[Tensor, Branch]], default: Branch | None, exclusive: bool) -> Any:
    """`case` as part of the program, with checks of what the run finds."""
    hits = [cast(pred, I32) for pred, _ in pairs]
    if default is None:
        message = "None of conditions evaluated as True"
        assert_positive(add_n(hits), message=message)
    if exclusive:
        message = "case is exclusive, but several predicates are true"
        assert_less_equal(add_n(hits), 1, message=message)
    return _first_true(pairs, default)


def _first_true(pairs: Sequence[tuple[Tensor, Branch]], default: Branch | None) -> Any:
    """Branches within branches of the program; without a default the last function runs where nothing is true."""
    (pred, fn), *rest = pairs
    if not rest:
        return fn() if default is None else _chosen(pred, fn, default)
    return _chosen(pred, fn, lambda: _first_true(rest, default))


def _truth(pred: Tensor) -> bool:
    return bool(truth(pred))
