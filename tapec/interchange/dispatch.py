"""NumPy's functions on tensors: those that tapec has too run as operations, so that gradients flow.

What tapec cannot follow would leave the program: where a tape follows one of the tensors, or a function is compiled,
it is refused, with the fix; otherwise NumPy computes it from the elements. NumPy never gets memory of a tensor that it
could write to.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tapec.errors import TypeError
from tapec.frames import resolve, visit
from tapec.interchange.arrays import ARRAYS
from tapec.interchange.matrices import MATRICES
from tapec.interchange.statistics import STATISTICS
from tapec.interchange.transforms import TRANSFORMS
from tapec.interchange.ufuncs import UFUNCS, method
from tapec.recording import active_tapes, current_trace
from tapec.tensor import Tensor, TensorLike, as_tensor

Function = Callable[..., Any]

#: NumPy's functions, by object, and ours with NumPy's parameters.
FUNCTIONS: dict[Any, Function] = {**ARRAYS, **MATRICES, **STATISTICS, **TRANSFORMS}

#: Functions whose results carry no gradient, or that show or keep a value: nothing is lost when they leave the program.
HARMLESS = {
    getattr(np, name)
    for name in """all allclose any argmax argmin argsort argwhere array2string array_equal array_equiv array_repr
        array_str bincount can_cast common_type count_nonzero digitize empty_like flatnonzero full_like histogram
        histogram2d histogram_bin_edges histogramdd isclose iscomplex iscomplexobj isin isneginf isposinf isreal
        isrealobj lexsort may_share_memory min_scalar_type nanargmax nanargmin ndim nonzero ones_like result_type save
        savetxt savez savez_compressed searchsorted shape shares_memory size tril_indices_from triu_indices_from
        zeros_like""".split()
}

#: Functions that would write to their argument, and what to use.
_IN_PLACE = {
    np.copyto: "tapec.identity, or variable.assign",
    np.fill_diagonal: "tapec.linalg.set_diag",
    np.place: "tapec.where",
    np.put: "tapec.tensor_scatter_nd_update",
    np.put_along_axis: "tapec.tensor_scatter_nd_update",
    np.putmask: "tapec.where",
}


def ufunc(ufunc: Any, how: str, inputs: Sequence[TensorLike], kwargs: Mapping[str, Any]) -> Any:
    """`numpy.exp` and its like, and ``array * tensor``, with a tensor among the operands.

    ``how`` is the ufunc's method: ``__call__``, ``reduce``, ``accumulate``, ``outer``, ``at``, ``reduceat``.

    Raises:
        TypeError: tapec cannot follow it where a tape does or a function is compiled; or it would write to a tensor.
    """
    name = ufunc.__name__
    written = f"{'np' if getattr(np, name, None) is ufunc else 'scipy.special'}.{name}"
    if how == "at" and _is_tensor(inputs[0]):
        raise _in_place(f"{written}.at", "tapec.tensor_scatter_nd_add and its kin")
    _refuse_tensor_out(written, kwargs)
    ours = UFUNCS.get(name) if how == "__call__" else method(name, how)
    if ours is not None and (not kwargs or how != "__call__"):
        bound = _bound(ours, inputs, kwargs) if how != "__call__" else (inputs, {})
        wanted = how == "__call__" or how == "outer" or _is_followed((inputs, kwargs))
        if bound is not None and wanted:
            result = ours(*bound[0], **bound[1])
            if result is not NotImplemented:
                return result
    whole = written if how == "__call__" else f"{written}.{how}"
    return _by_numpy(getattr(ufunc, how), whole, inputs, kwargs)


def function(func: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`numpy.sum` and its like, with a tensor among the arguments.

    Where a tape follows one of them or a function is compiled the result is a Tensor; otherwise it is NumPy's own, as
    in TensorFlow.

    Raises:
        TypeError: tapec cannot follow it where a tape does or a function is compiled; or it would write to a tensor.
    """
    name = f"{func.__module__}.{func.__name__}".replace(
        "numpy", "np", 1
    )  # as it is written: np.fft.fft
    if func in _IN_PLACE and args and _is_tensor(args[0]):
        raise _in_place(name, _IN_PLACE[func])
    _refuse_tensor_out(name, kwargs)
    followed = _is_followed((args, kwargs))
    ours = FUNCTIONS.get(func)
    if ours is not None and followed:
        bound = _bound(ours, args, kwargs)
        if bound is not None:
            result = ours(*bound[0], **bound[1])
            if result is not NotImplemented:
                return result
    if func in HARMLESS and current_trace() is None:
        return _computed(func, args, kwargs)
    return _by_numpy(func, name, args, kwargs)


@lru_cache(maxsize=1024)
def _signature(ours: Function) -> inspect.Signature:
    return inspect.signature(ours)


def _bound(
    ours: Function, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Sequence[Any], Mapping[str, Any]] | None:
    """The arguments as ours takes them; None if one is only NumPy's. ``out=None`` is no argument."""
    given = {k: v for k, v in kwargs.items() if not (k == "out" and v is None)}
    try:
        bound = _signature(ours).bind(*args, **given)
    except builtins.TypeError:
        return None
    return bound.args, bound.kwargs


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors and Variables in nested arguments."""
    if _is_tensor(value):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) or hasattr(value, "read_value")


def _is_followed(arguments: Any) -> bool:
    """Whether a gradient may flow through one of the tensors, or a function is compiled."""
    if current_trace() is not None:
        return True
    tapes = active_tapes()
    return bool(tapes) and any(tape.follows(x) for x in _tensors(arguments) for tape in tapes)


def _by_numpy(function: Function, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Leave the program, where nobody follows it."""
    if _is_followed((args, kwargs)):
        listener = "a tape" if current_trace() is None else "a compiled function"
        if kwargs.get("out") is not None:
            raise TypeError(
                f"{name} with out= cannot be followed by {listener}: it writes into an array",
                location=resolve(visit().origin),
                hint="use its result: a = a + t in place of a += t",
            )
        raise TypeError(
            f"{name} of a tensor, with these arguments, cannot be followed by {listener}",
            location=resolve(visit().origin),
            hint=f"use functions of tapec in place of {name}; or take the elements with x.numpy() after the "
            "tape, or of tapec.stop_gradient(x), where no gradient is to flow",
        )
    return _computed(function, args, kwargs)


def _computed(function: Function, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What NumPy makes of the elements."""
    views: list[Any] = []
    result = function(
        *_arrays(tuple(args), views), **{k: _arrays(v, views) for k, v in kwargs.items()}
    )
    return _owned(result, views)


def _arrays(value: Any, views: list[Any]) -> Any:
    """The same structure with views that cannot be written to in place of tensors."""
    if _is_tensor(value):
        view = as_tensor(value).array.view()
        view.flags.writeable = False
        views.append(view)
        return view
    if type(value) in (list, tuple):
        return type(value)(_arrays(v, views) for v in value)
    return value


def _owned(result: Any, views: list[Any]) -> Any:
    """A result that does not share the memory of a tensor."""
    if isinstance(result, np.ndarray):
        return result.copy() if any(np.may_share_memory(result, v) for v in views) else result
    if type(result) in (list, tuple):
        return type(result)(_owned(r, views) for r in result)
    return result


def _refuse_tensor_out(name: str, kwargs: Mapping[str, Any]) -> None:
    if kwargs.get("out") is not None and next(_tensors(kwargs["out"]), None) is not None:
        raise _in_place(f"{name} with out=", "the result; or variable.assign")


def _in_place(name: str, instead: str) -> TypeError:
    return TypeError(
        f"{name} would write to a tensor, which is immutable",
        location=resolve(visit().origin),
        hint=f"use {instead}",
    )
