"""Python functions among operations: `py_function`, which tapes look into, and `numpy_function`, which they do not.

Eagerly both call the function. A compiled function calls back, in the order of the program, in loops and branches too;
what gives nothing and is in none is called when the call ends.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapec import arguments
from tapec.eager.signatures import signature_of
from tapec.errors import InvalidArgumentError, NotImplementedError, TypeError, ValueError
from tapec.frames import here, origin
from tapec.functions.broadcasting import refuse_in_trace
from tapec.ir.types import F64, DType, TensorType, as_dtype
from tapec.recording import active_tapes, bystanders, current_trace, overhear
from tapec.tape import GradientTape
from tapec.tensor import Array, EagerTensor, Tensor, as_array, as_tensor, type_of
from tapec.tensors.type_spec import TensorSpec
from tapec.traces.effects import ask


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
        Tout: the dtype of the result, or a list of dtypes; an empty list if there is none. A `tapec.TensorSpec` says
            the shape too, for compiled functions: without it the result has the shape of the first input there.
        name: ignored.

    Returns:
        A Tensor, or a list of Tensors if ``Tout`` is a list.

    Raises:
        InvalidArgumentError: the function returned something else.
        NotImplementedError: in something that runs for all rows at once, such as `vectorized_map`.
    """
    if func is None:
        return _decorator(py_function, inp, Tout)
    arguments.function(func, "func")
    inputs = _inputs(inp)
    if current_trace() is not None:
        return _as_wanted(_ask_tensors(func, inputs, _announced("py_function", inputs, Tout)), Tout)
    types = [_dtype_of(t) for t in _listed(Tout)]
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
            the dtypes that the function gave them. A `tapec.TensorSpec` says the shape too, for compiled functions:
            without it the result has the shape of the first input there.
        stateful: without effect: the function is called each time.
        name: ignored.

    Returns:
        A Tensor, a list of Tensors if the function returned several, or None if it returned None.

    Raises:
        InvalidArgumentError: in a compiled function, if the function returned something else.
        NotImplementedError: in something that runs for all rows at once, such as `vectorized_map`.
    """
    if func is None:
        return _decorator(numpy_function, inp, Tout)
    arguments.function(func, "func")
    inputs = _inputs(inp)
    if current_trace() is not None:
        found = _ask_arrays(func, inputs, _announced("numpy_function", inputs, Tout))
        return _as_wanted(found, Tout) if found else None
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


def _dtype_of(announced: Any) -> DType:
    return announced.dtype if isinstance(announced, TensorSpec) else as_dtype(announced)


def _as_wanted(found: list[Tensor], Tout: Any) -> Any:
    """Results in the form that ``Tout`` has."""
    return found if isinstance(Tout, list | tuple) or not found else found[0]


def _announced(what: str, inputs: Sequence[Tensor], Tout: Any) -> list[TensorType]:
    """The types of the results, as far as a compiled function knows them before it runs.

    Raises:
        NotImplementedError: a shape that is given has open dims.
    """
    types = []
    for wanted in _listed(Tout):
        shape: Any = inputs[0].type.shape if inputs else ()
        if isinstance(wanted, TensorSpec):
            if not wanted.shape.is_fully_defined():
                raise NotImplementedError(
                    f"{what} gives a compiled function a result of shape {wanted.shape}, which is open",
                    location=here(),
                    hint="say every size in the TensorSpec; or call it outside of the compiled function",
                )
            shape = tuple(wanted.shape.as_list())
        types.append(TensorType(_dtype_of(wanted), shape))
    return types


def _ask_arrays(
    func: Callable[..., Any], inputs: Sequence[Tensor], types: list[TensorType]
) -> list[Tensor]:
    """Let the program that is being traced call a function of arrays."""
    where = here()

    def host(*arrays: Array) -> list[Array]:
        returned = func(*(a[()] for a in arrays))
        return [_fitting("numpy_function", a, t, where) for a, t in _paired(returned, types)]

    return ask(host, inputs, types, "numpy_function")


def _ask_tensors(
    func: Callable[..., Any], inputs: Sequence[Tensor], types: list[TensorType]
) -> list[Tensor]:
    """Let the program that is being traced call a function of Tensors, and its derivative."""
    where = here()

    def run(tensors: Sequence[Tensor]) -> list[Tensor]:
        returned = func(*tensors)
        return [as_tensor(v, t.dtype) for v, t in _paired(returned, types)]

    def host(*arrays: Array) -> list[Array]:
        results = run([EagerTensor(a, type_of(a)) for a in arrays])
        return [
            _fitting("py_function", r.array, t, where) for r, t in zip(results, types, strict=True)
        ]

    def back(*arrays: Array) -> list[Array]:
        tensors = [EagerTensor(a, type_of(a)) for a in arrays]
        sources, seeds = tensors[: len(inputs)], tensors[len(inputs) :]
        flowing = [x for x in sources if x.type.dtype.is_differentiable]
        with GradientTape() as tape:
            for x in flowing:
                tape.watch(x)
            targets = run(sources)
        pairs = [(y, s) for y, s in zip(targets, seeds, strict=True) if carries(y)]
        found = tape.gradient(
            [y for y, _ in pairs], flowing, [s for _, s in pairs], unconnected_gradients="zero"
        )
        return [as_tensor(g).array for g in found]

    return ask(host, inputs, types, "py_function", back if types else None)


def carries(tensor: Tensor) -> bool:
    """Whether a tensor's dtype is one that gradients have."""
    return tensor.type.dtype.is_differentiable


def _paired(returned: Any, types: Sequence[TensorType]) -> list[tuple[Any, TensorType]]:
    """Each result with its type.

    Raises:
        InvalidArgumentError: there are more or fewer.
    """
    values = _listed(returned) if len(types) != 1 else [returned]
    if len(types) == 1 and isinstance(returned, list | tuple) and len(returned) == 1:
        values = list(returned)
    if not types:
        return []
    if len(values) != len(types):
        raise InvalidArgumentError(f"{len(types)} results were announced, {len(values)} came")
    return list(zip(values, types, strict=True))


def _fitting(what: str, value: Any, type: TensorType, where: Any) -> Array:
    """A result as an array of the type that was announced.

    Raises:
        InvalidArgumentError: it has another dtype or another shape.
    """
    array = np.asarray(value) if isinstance(value, np.ndarray | np.generic) else None
    if array is None:
        array = np.asarray(value, type.dtype.numpy)
    wanted = type.shape
    same = len(wanted) == array.ndim and all(
        not isinstance(n, int) or n == m for n, m in zip(wanted, array.shape, strict=True)
    )
    if array.dtype != type.dtype.numpy or not same:
        raise InvalidArgumentError(
            f"{what}: the result was announced as {type}, got {array.dtype}{list(array.shape)}",
            location=where,
            hint="say dtype and shape of the result: Tout=tapec.TensorSpec([2, 3], tapec.float32)",
        )
    return array


def timestamp(name: str | None = None) -> Tensor:
    """Seconds since 1970, as float64; eager only.

    Raises:
        NotImplementedError: while a function is compiled, which would keep the time of the trace.
    """
    refuse_in_trace("timestamp", "take the time outside, and pass it as an argument")
    return as_tensor(np.array(time.time()), F64)
