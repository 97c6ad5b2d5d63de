"""NumPy's behaviour for tensors, as TensorFlow has it: operators that convert dtypes, methods, arrays as indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapec.frames import shown_as
from tapec.functions import arithmetic
from tapec.numpy import bits, elementwise, inquiry, ordering, products, reductions, shaping
from tapec.numpy.places import getitem, setitem
from tapec.tensor import Tensor, as_tensor
from tapec.variable import Variable

Function = Callable[..., Any]

#: Operators of two operands, which have a reflected form.
_BINARY: dict[str, Function] = {
    "add": elementwise.add,
    "sub": elementwise.subtract,
    "mul": elementwise.multiply,
    "truediv": elementwise.divide,
    "floordiv": elementwise.floor_divide,
    "mod": elementwise.remainder,
    "divmod": elementwise.divmod,
    "pow": elementwise.pow,
    "matmul": products.matmul,
    "and": bits.bitwise_and,
    "or": bits.bitwise_or,
    "xor": bits.bitwise_xor,
    "lshift": bits.bitwise_left_shift,
    "rshift": bits.bitwise_right_shift,
}
_COMPARISONS: dict[str, Function] = {
    "eq": elementwise.equal,
    "ne": elementwise.not_equal,
    "lt": elementwise.less,
    "le": elementwise.less_equal,
    "gt": elementwise.greater,
    "ge": elementwise.greater_equal,
}
#: Methods of tensors that are functions of theirs.
_METHODS: dict[str, Function] = {
    "all": reductions.all,
    "any": reductions.any,
    "argmax": ordering.argmax,
    "argmin": ordering.argmin,
    "argsort": ordering.argsort,
    "astype": inquiry.astype,
    "clip": elementwise.clip,
    "conj": elementwise.conj,
    "copy": arithmetic.identity,
    "cumprod": reductions.cumprod,
    "cumsum": reductions.cumsum,
    "diagonal": products.diagonal,
    "dot": products.dot,
    "flatten": shaping.ravel,
    "max": reductions.max,
    "mean": reductions.mean,
    "min": reductions.min,
    "nonzero": ordering.nonzero,
    "prod": reductions.prod,
    "ravel": shaping.ravel,
    "repeat": shaping.repeat,
    "round": elementwise.round,
    "squeeze": shaping.squeeze,
    "std": reductions.std,
    "sum": reductions.sum,
    "swapaxes": shaping.swapaxes,
    "take": ordering.take,
    "trace": products.trace,
    "var": reductions.var,
}


def experimental_enable_numpy_behavior() -> None:
    """Let tensors behave as NumPy's arrays from now on, in the whole process.

    - Operators convert operands of two dtypes to the one that holds both (`result_type`), where they would raise.
    - ``x[key]`` takes arrays and lists of integers or bools, beside integers and slices.
    - ``x[key] = value`` gives a tensor other elements, if no tape and no compiled function can know it.
    - Tensors have the methods ``astype``, ``reshape``, ``sum``, ``mean``, … of NumPy's arrays.

    Libraries that follow the array API standard, as scikit-learn with ``array_api_dispatch``, need it. Call it once,
    before tensors are made; what was compiled before keeps its meaning.

    Example: ``tapec.constant([1, 2]) + tapec.constant([0.5, 0.5])`` is ``[1.5, 2.5]`` after it.
    """
    for kind in (Tensor, Variable):
        for name, function in _BINARY.items():
            setattr(kind, f"__{name}__", shown_as(f"__{name}__", _operator(function)))
            setattr(kind, f"__r{name}__", shown_as(f"__r{name}__", _reflected(function)))
        for name, function in _COMPARISONS.items():
            setattr(kind, f"__{name}__", shown_as(f"__{name}__", _operator(function)))
        for name, function in _METHODS.items():
            setattr(kind, name, shown_as(name, _method(function)))
        for name, method in _others().items():
            setattr(kind, name, method)
    for name, method in {"__getitem__": getitem, "__setitem__": setitem}.items():
        setattr(Tensor, name, method)


def _operator(function: Function) -> Function:
    return lambda self, other: function(self, other) if _is_operand(other) else NotImplemented


def _reflected(function: Function) -> Function:
    return lambda self, other: function(other, self) if _is_operand(other) else NotImplemented


def _is_operand(value: Any) -> bool:
    """Whether an operator is ours: another object may know what to do with a tensor."""
    return value is not None and not isinstance(value, str | bytes | dict)


def _method(function: Function) -> Function:
    return lambda self, *args, **options: function(self, *args, **options)


def _others() -> dict[str, Any]:
    """Methods whose parameters are others than the function's, and properties."""

    def reshape(self: Any, *shape: Any, copy: bool | None = None) -> Tensor:
        return shaping.reshape(self, shape[0] if len(shape) == 1 else shape, copy=copy)

    def transpose(self: Any, *axes: Any) -> Tensor:
        if len(axes) == 1 and (axes[0] is None or not isinstance(axes[0], int)):
            return shaping.transpose(self, axes[0])
        return shaping.transpose(self, axes or None)

    def tolist(self: Any) -> Any:
        return self.numpy().tolist()

    return {
        "reshape": reshape,
        "transpose": transpose,
        "tolist": tolist,
        "real": property(elementwise.real),
        "imag": property(elementwise.imag),
        "T": property(lambda self: shaping.transpose(self)),
        "__invert__": lambda self: bits.bitwise_invert(self),
        "__neg__": lambda self: elementwise.negative(self),
        "__abs__": lambda self: elementwise.abs(self),
        "__pos__": lambda self: arithmetic.identity(as_tensor(self)),
    }
