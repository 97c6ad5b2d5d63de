"""What is known of a tensor's elements while a function is compiled: enough to use them as a shape.

A shape such as ``[tapec.shape(x)[0], -1]`` or ``tapec.size(x) // 2`` is computed by operations of
the program like any other tensor. Where a number is needed, these operations are looked through:
what depends on shapes and literals alone is evaluated here, over dims where a size is known only
at run time.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapec import arguments
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.ir.core import Value
from tapec.ir.dims import Dim, DimLike, bounds
from tapec.ir.op import Elementwise
from tapec.ir.ops.compare import Cast
from tapec.ir.ops.movement import Movement
from tapec.ir.ops.source import Constant, Extent
from tapec.ir.types import DType, Shape, TensorType
from tapec.recording import current_trace
from tapec.tensor import Array, Tensor, TensorLike, apply, as_tensor
from tapec.traces.open_size import GuessedShape, OpenSize
from tapec.traces.scalars import HostNumber
from tapec.tracing import TracedTensor

#: Shapes have few elements; what has more is no shape.
_LARGEST = 64


def as_shape(shape: Any) -> Shape:
    """The dims that a shape argument means; ``-1`` is kept.

    Raises:
        TypeError: a dim is no integer, or not known while a function is compiled.
    """
    if isinstance(shape, builtins.int | np.integer | Dim):
        return (as_dim(shape),)
    if isinstance(shape, Tensor) or hasattr(shape, "read_value"):
        tensor = as_tensor(shape)
        elements = _known_or_refuse(tensor)
        return tuple(as_dim(d) for d in elements.reshape(-1).tolist())
    if isinstance(shape, GuessedShape):
        return shape.shape
    if isinstance(shape, np.ndarray):
        shape = shape.reshape(-1).tolist()
    return tuple([as_dim(d) for d in arguments.items(shape, "a shape")])


def as_dim(size: Any) -> DimLike:
    """The dim that a size argument means.

    Raises:
        TypeError: it is no integer, or not known while a function is compiled.
    """
    if isinstance(size, bool):
        raise TypeError(f"a size must be an integer, got {size}", location=here())
    if isinstance(size, builtins.int) and not -(2**63) <= size < 2**63:
        raise ValueError(f"{size} is too large for a size", location=here())
    if isinstance(size, builtins.int | Dim):
        return size
    if isinstance(size, OpenSize):
        return size.dim
    if isinstance(size, Tensor) or hasattr(size, "read_value"):
        found = _known_or_refuse(as_tensor(size))
        return as_dim(found.reshape(()).item() if found.size == 1 else found.tolist())
    try:
        return size.__index__()  # type: ignore[no-any-return]
    except (AttributeError, builtins.TypeError):
        hint = "a size that changes from call to call is None in x.shape: use tapec.shape(x)"
        raise TypeError(
            f"expected an integer size, got {arguments.shown(size)}",
            location=here(),
            hint=hint if size is None else None,
        ) from None


def _known_or_refuse(tensor: Tensor) -> Array:
    found = known_elements(tensor)
    if found is None:
        raise TypeError(
            f"a size must be known while a function is compiled, but this tensor ({tensor.type}) "
            "is computed from values",
            location=here(),
            hint="take it from tapec.shape, or pass a Python number",
        )
    return found


def known_elements(tensor: Tensor) -> Array | None:
    """The elements, as integers or dims, or None while they are not known."""
    if not isinstance(tensor, TracedTensor):
        return tensor.array
    numbers: list[HostNumber] = []
    found = _elements(tensor.value, numbers)
    if found is not None:
        for number in numbers:
            number.exactly()
    return found


def always(tensor: Tensor, compare: Callable[[Any, int], Any]) -> bool | None:
    """Whether ``compare(element, 0)`` holds of all, by what is known of them in every call; None if that does not tell.

    ``compare`` is `operator.ne` or `operator.ge`: what holds of a size that is not negative holds of all greater ones.
    """
    if not isinstance(tensor, TracedTensor):
        return bool(compare(tensor.array, 0).all())
    numbers: list[HostNumber] = []
    found = _elements(tensor.value, numbers)
    if found is None or numbers:  # which may be others at the next call
        return None
    if found.dtype != object:
        return bool(compare(found, 0).all())
    least = [bounds(size)[0] for size in found.flat]
    return True if all(low is not None and low >= 0 and compare(low, 0) for low in least) else None


def get_static_value(tensor: TensorLike, partial: bool = False) -> Any:
    """A tensor's elements as a NumPy value if they are known now, else None.

    Eagerly they are; while a function is compiled, if they come from constants and shapes alone.

    Args:
        tensor: the tensor.
        partial: whether sizes that only a call will know may stand as None among others.
    """
    found = known_elements(as_tensor(tensor))
    if found is None:
        return None
    if found.dtype != object:
        return found.copy() if found.ndim else found[()]
    if not partial and any(isinstance(v, Dim) for v in found.flat):
        return None
    sizes = [None if isinstance(v, Dim) else v for v in found.flat]
    return np.array(sizes, object).reshape(found.shape)


def is_symbolic_tensor(tensor: object) -> bool:
    """Whether an object is a Tensor of a function that is being compiled, without a value yet."""
    return isinstance(tensor, TracedTensor)


def _elements(value: Value, numbers: list[HostNumber]) -> Array | None:
    """What is known; ``numbers`` gets the integers of Python that it is so for, which are inputs as yet."""
    op, type = value.op, value.tensor
    trace = current_trace()
    number = None if trace is None or op is not None else trace.root.number_behind(value)
    if number is not None and type.dtype.is_integer:
        numbers.append(number)
        return np.asarray(number.value)
    if op is None:
        around = None if trace is None else trace.tensor_behind(value)
        return None if around is None else _elements(around.value, numbers)
    if not op.defn.pure or op.regions or len(op.results) != 1:
        return None
    attrs, defn = op.attrs, op.defn
    if isinstance(defn, Constant):
        if type.is_static and type.size <= _LARGEST:  # type: ignore[operator]
            return np.asarray(defn.evaluate(**attrs))
        return None
    counted = _counted(value)
    if counted is not None:
        return np.array(counted, object)
    if not type.is_static or type.size > _LARGEST:  # type: ignore[operator]
        return None
    operands = [_elements(v, numbers) for v in op.operands]
    if any(a is None for a in operands):
        return None
    if any(a.dtype == object for a in operands if a is not None):
        if isinstance(defn, Cast) and type.dtype.is_integer:
            return operands[0]
        if not isinstance(defn, Elementwise | Movement):
            return None
        try:
            return np.asarray(defn.evaluate(*operands, **attrs), object)
        except (builtins.TypeError, builtins.ValueError, ArithmeticError):
            return None  # dims have no order, no square root …
    return np.asarray(defn.evaluate(*operands, **attrs))


def _counted(value: Value) -> DimLike | None:
    """The dim that a value of `dim_tensor` is."""
    op = value.op
    return op.attrs["dim"] if op is not None and isinstance(op.defn, Extent) else None


def is_less(m: DimLike, n: DimLike) -> bool:
    """Whether one size is less than another; where only a call knows, it is not, which the program then relies on."""
    low, high = bounds(m - n)
    if low is not None and low >= 0:
        return False
    trace = current_trace()
    if trace is None or (high is not None and high < 0):
        return True
    trace.assume_at_least(m, n)
    return False


def dims_tensor(dims: Sequence[DimLike], dtype: DType) -> Tensor:
    """A vector of sizes."""
    if all(isinstance(d, builtins.int) for d in dims):
        return as_tensor(list(dims), dtype)
    parts = [apply("reshape", dim_tensor(d, dtype), shape=(1,)) for d in dims]
    result: Tensor = apply("concat", *parts, axis=0)
    return result


def dim_tensor(dim: DimLike, dtype: DType) -> Tensor:
    """A size as a scalar."""
    if isinstance(dim, builtins.int):
        return as_tensor(dtype.numpy.type(dim))
    result: Tensor = apply("extent", dim=dim, type=TensorType(dtype))
    return result


def static_value(value: TensorLike, what: str) -> Any:
    """A Python number from an argument that must be known.

    Raises:
        TypeError: it is not known while a function is compiled.
    """
    if isinstance(value, Tensor) or hasattr(value, "read_value"):
        found = known_elements(as_tensor(value))
        if found is None:
            raise TypeError(
                f"{what} must be known while a function is compiled",
                location=here(),
                hint="pass a Python number",
            )
        value = found
    if isinstance(value, OpenSize):
        return value.dim
    if isinstance(value, np.generic | np.ndarray):
        if value.size != 1:
            raise TypeError(
                f"{what} must be one number, got {arguments.shown(value)}", location=here()
            )
        return value.reshape(()).item()
    return value


def static_integer(value: TensorLike, what: str) -> Any:
    """A Python integer, or a dim that a call will know, from an argument that must be known.

    Raises:
        TypeError: it is not known while a function is compiled, or no integer.
    """
    found = static_value(value, what)
    return found if isinstance(found, Dim) else arguments.integer(found, what)
