"""Python functions among operations: `py_function`, which tapes look into, and `numpy_function`, which they do not.

Eagerly both call the function. A compiled function calls back for what gives no result, when its call ends; what a
function of Python returns has no shape that a program could be made for, so that is refused.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapec import arguments
from tapec.effects import tell
from tapec.errors import InvalidArgumentError, NotImplementedError, TypeError, ValueError
from tapec.frames import here, origin
from tapec.functions.broadcasting import refuse_in_trace
from tapec.ir.types import F64, as_dtype
from tapec.recording import active_tapes, bystanders, current_trace, overhear
from tapec.signatures import signature_of
from tapec.tensor import Array, EagerTensor, Tensor, as_array, as_tensor, type_of


def py_function(
    func: Callable[..., Any] | None = None,
    inp: Any = None,
    Tout: Any = None,
    name: str | None = None,
) -> Any:
    """What a Python function of Tensors returns; its operations are recorded, so gradients flow through it.

    Args:
        func: takes as many Tensors as there are in ``inp``. Without it, this is a decorator.
        inp: a list of tensors.
        Tout: the dtype of the result, or a list of dtypes; an empty list if there is none.
        name: ignored.

    Returns:
        A Tensor, or a list of Tensors if ``Tout`` is a list.

    Raises:
        InvalidArgumentError: the function returned something else.
        NotImplementedError: in a compiled function, if there is a result. One without is called with the values
            when the call ends.
    """
    if func is None:
        return _decorator(py_function, inp, Tout)
    arguments.function(func, "func")
    inputs = _inputs(inp)
    types = [as_dtype(t) for t in _listed(Tout)]
    if current_trace() is not None:
        _later("py_function", func, inputs, types, lambda a: EagerTensor(a, type_of(a)))
        return []
    returned = func(*inputs)
    values = _listed(returned) if isinstance(Tout, list | tuple) else [returned]
    if types and len(values) != len(types):
        raise InvalidArgumentError(
            f"py_function: {len(types)} results were announced, {len(values)} came", location=here()
        )
    try:
        results = [as_tensor(v, t) for v, t in zip(values, types, strict=False)]
    except (ValueError, TypeError) as error:
        raise InvalidArgumentError(
            f"py_function: {error.message}", location=here(), hint=error.hint
        ) from None
    return results if isinstance(Tout, list | tuple) or not types else results[0]


def numpy_function(
    func: Callable[..., Any] | None = None,
    inp: Any = None,
    Tout: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """What a function of NumPy arrays returns, as Tensors; no gradient flows through it.

    Args:
        func: takes as many arrays as there are in ``inp``. Without it, this is a decorator.
        inp: a list of tensors.
        Tout: the dtype of the result, or a list of dtypes; an empty list if there is none. Eagerly the results have
            the dtypes that the function gave them.
        stateful: without effect: the function is called each time.
        name: ignored.

    Returns:
        A Tensor, a list of Tensors if the function returned several, or None if it returned None.

    Raises:
        NotImplementedError: in a compiled function, if there is a result. One without is called with the values
            when the call ends.
    """
    if func is None:
        return _decorator(numpy_function, inp, Tout)
    arguments.function(func, "func")
    inputs = _inputs(inp)
    if current_trace() is not None:
        _later("numpy_function", func, inputs, _listed(Tout), lambda a: a.copy()[()])
        return None
    returned = func(*(x.array.copy()[()] for x in inputs))
    if returned is None:
        return None
    results = []
    for value in _listed(returned):
        array = as_array(value)
        results.append(EagerTensor(array, type_of(array)))
    attrs = {"results": tuple(y.type for y in results)}
    signature = signature_of("numpy_function", [x.type for x in inputs], attrs)
    tapes, where = active_tapes(), origin()
    for tape in tapes:
        tape.record(signature, inputs, results, where)
    if len(bystanders) > len(tapes):
        overhear(signature.defn, inputs, results)
    return results if isinstance(returned, list | tuple) else results[0]


def _decorator(call: Callable[..., Any], inp: Any, Tout: Any) -> Callable[[Any], Any]:
    if inp is not None:
        raise TypeError(
            f"Don't set the `inp` argument when using tapec.{call.__name__} as a decorator (`func=None`).",
            location=here(),
        )

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(func)(lambda *inputs: call(func, list(inputs), Tout))

    return decorate


def _inputs(inp: Any) -> list[Tensor]:
    return [as_tensor(x) for x in (inp if isinstance(inp, list | tuple) else [inp])]


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _later(
    what: str,
    func: Callable[..., Any],
    inputs: Sequence[Tensor],
    results: Sequence[Any],
    given: Callable[[Array], Any],
) -> None:
    """Let the program that is being traced call a function that gives nothing back."""
    if results:
        raise NotImplementedError(
            f"{what} gives a compiled function {len(results)} results, whose shapes are not known before it runs",
            location=here(),
            hint="call it outside of the compiled function; what uses operations of tapec alone, call directly",
        )
    tell(lambda *arrays: func(*map(given, arrays)), inputs, what)


def timestamp(name: str | None = None) -> Tensor:
    """Seconds since 1970, as float64; eager only.

    Raises:
        NotImplementedError: while a function is compiled, which would keep the time of the trace.
    """
    refuse_in_trace("timestamp", "take the time outside, and pass it as an argument")
    return as_tensor(np.array(time.time()), F64)
