"""Tensor: an immutable array with a dtype and a shape, and how an operation runs on tensors.

`apply` is the one way from a public function to an operation: eager it evaluates at once and tells the tapes, in a
trace it appends to the program. `as_tensor` is the one way from a user's object to a Tensor.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.absences.counterparts import counterpart, require_none
from tapec.autograph.remedies import remedy_for_iteration, remedy_for_truth
from tapec.cyclic import Finite
from tapec.devices import CPU
from tapec.eager.signatures import Signature, signature_of
from tapec.errors import (
    InvalidArgumentError,
    OperatorNotAllowedInGraphError,
    ResourceExhaustedError,
    TypeError,
    ValueError,
)
from tapec.frames import here, is_installed, nearest, origin, resolve, visit
from tapec.ir.errors import CheckError, DTypeError, ShapeError
from tapec.ir.op import OPS
from tapec.ir.types import I32, DType, TensorType, as_dtype
from tapec.recording import (
    about_none,
    active_tapes,
    bystanders,
    current_trace,
    inspectors,
    overhear,
)
from tapec.recording import next_id as next_id
from tapec.recording import numbers as numbers
from tapec.tensors.array_like import Array as Array
from tapec.tensors.array_like import as_array as as_array
from tapec.tensors.tensor_shape import TensorShape, shape_of
from tapec.traces.open_size import OpenSize
from tapec.traces.refusals import note_refusal
from tapec.traces.scalars import HostNumber, holds_numbers, settled

if TYPE_CHECKING:
    from tapec.tensors.operators import Operators
    from tapec.variable import Variable
else:
    Operators = object  # tapec.tensors.operators adds its methods to Tensor: they call functions that need Tensor

TensorLike = Any


@lru_cache(maxsize=4096)
def type_with(dtype: np.dtype[Any], shape: tuple[int, ...]) -> TensorType:
    """The type of arrays with a dtype and a shape, the same object each time."""
    return TensorType(as_dtype(dtype), shape)


def type_of(array: Array) -> TensorType:
    """The type of a NumPy array, the same object for equal types."""
    return type_with(array.dtype, array.shape)


class Tensor(Operators):
    """A value with a dtype and a shape. Immutable; in a compiled function it stands for a value of the program."""

    __slots__ = ("__weakref__", "_array", "assign", "id", "type")

    #: Only of a slice of a Variable, ``v[1:]``: gives that part of the Variable another value.
    assign: Callable[..., Variable]

    def __init__(self, array: Array | None, type: TensorType, id: int | None = None) -> None:
        """Use `tapec.constant` or `tapec.convert_to_tensor`; ``array`` is taken over, not copied."""
        self._array = array
        self.type = type
        self.id = next_id() if id is None else id

    @property
    def array(self) -> Array:
        """The elements, not to be written to.

        Raises:
            TypeError: the tensor belongs to a function that is being compiled, so it has no value yet.
        """
        if self._array is None:
            by = visit()
            instead = counterpart(by.function)
            raise TypeError(
                f"this tensor ({self.type}) is a value of a compiled function and has no elements here"
                + (f", which {by.function} asks for" if by.function else "")
                + ": values exist only at run time",
                location=resolve(by.origin),
                hint="return it from the function, show it with tapec.print, or run the function eagerly: "
                "tapec.config.run_functions_eagerly(True)"
                if instead is None
                else f"use {instead}",
            )
        return self._array

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    @property
    def shape(self) -> TensorShape:
        """The shape; a dim that is not known before run time is None."""
        return shape_of(self.type)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.type.shape)

    def get_shape(self) -> TensorShape:
        """The shape."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Raise ValueError unless the tensor may have a shape; what a program knows of it stays as it is."""
        if not self.shape.is_compatible_with(shape):
            raise ValueError(
                f"Tensor's shape {self.shape} is not compatible with supplied shape {TensorShape(shape)}.",
                location=here(),
                hint="tapec.ensure_shape checks a size that only a call will know",
            )

    @property
    def device(self) -> str:
        """The device that holds it: the CPU."""
        return CPU

    def cpu(self) -> Tensor:
        """The tensor on the CPU: itself."""
        return self

    def numpy(self) -> Any:
        """The elements as a NumPy array, or a NumPy scalar for rank 0; a copy that may be written to."""
        array = self._array if self._array is not None else self._asked(".numpy()")
        if active_tapes():
            departs(self, ".numpy()")
        return array.copy() if array.ndim else array[()]

    def item(self) -> Any:
        """The one element as a Python number."""
        departs(self, ".item()")
        return self._asked(".item()").item()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.array
        departs(self, "NumPy (__array__)")
        return as_numpy(array, dtype, copy)

    def __float__(self) -> float:
        return float(self._scalar("float()"))

    def __int__(self) -> int:
        return int(self._scalar("int()"))

    def __index__(self) -> int:
        value = self._scalar("use as an index")
        if not self.dtype.is_integer:
            raise TypeError(f"a {self.dtype.name} tensor is no index", location=here())
        return int(value)

    def __complex__(self) -> complex:
        return complex(self._scalar("complex()"))

    def __bool__(self) -> bool:
        if self._array is None:
            self.refuse_outside()
            note_refusal("bool()")
            raise OperatorNotAllowedInGraphError(
                "the truth of this tensor is not known while the function is compiled",
                location=here(),
                hint=remedy_for_truth(origin()),
            )
        departs(self, "bool()")
        if self._array.size != 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all(): "
                f"this tensor is {self.type}",
                location=here(),
                hint="use tapec.reduce_any or tapec.reduce_all",
            )
        return bool(self._array)

    def refuse_outside(self) -> None:
        """For those of a trace: raise if it has ended."""

    def _asked(self, how: str) -> Array:
        """The elements, for the user's own code that asks for them."""
        if self._array is None:
            note_refusal(how)
        return self.array

    def _scalar(self, how: str) -> Any:
        array = self._asked(how)
        departs(self, how)
        if array.size != 1:
            raise TypeError(
                f"only a tensor with one element becomes a number, this one is {self.type}",
                location=here(),
            )
        return array.reshape(())[()]

    def __len__(self) -> int:
        if not self.type.shape:
            raise TypeError("a scalar tensor has no len()", location=here())
        return int(self.type.shape[0])  # type: ignore[arg-type]

    def __contains__(self, value: Any) -> bool:
        if self._array is None:
            self.refuse_outside()
            raise OperatorNotAllowedInGraphError(
                "whether something is in this tensor is not known while the function is compiled",
                location=here(),
                hint="use tapec.reduce_any(x == value), as the condition of an if statement, too",
            )
        return any(row is value or row == value for row in self)

    def __iter__(self) -> Iterator[Tensor]:
        self.refuse_outside()
        if not self.type.shape:
            raise TypeError("Cannot iterate over a scalar tensor.", location=here())
        if self._array is None:
            raise OperatorNotAllowedInGraphError(
                "Python cannot iterate over a tensor while the function is compiled",
                location=here(),
                hint=remedy_for_iteration(origin()),
            )
        return iter([self[i] for i in range(len(self))])

    def __hash__(self) -> int:
        raise TypeError(
            "Tensor is unhashable. Instead, use tensor.ref() as the key.", location=here()
        )

    def ref(self) -> Reference:
        """A hashable stand-in, for keys of dicts and sets."""
        return Reference(self)

    def __copy__(self) -> Tensor:
        return self

    def __deepcopy__(self, memo: object) -> Tensor:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (self.array,)

    def __repr__(self) -> str:
        if self._array is None:
            return f"<tapec.Tensor: {self.type} of a compiled function>"
        elements = np.array2string(self._array, separator=", ")
        return f"<tapec.Tensor: shape={self.shape!s}, dtype={self.dtype.name}, numpy={elements}>"

    def __str__(self) -> str:
        """What TensorFlow prints, letter by letter, so that outputs can be compared; `repr` names tapec."""
        if self._array is None:
            return repr(self)
        return f"tf.Tensor({self._array}, shape={self.shape!s}, dtype={self.dtype.name})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.ndim == 0 else format(str(self), spec)


def as_numpy(array: Array, dtype: Any, copy: bool | None) -> Array:
    """What ``__array__`` gives of a tensor's array: a copy, or without one a view that cannot be written to.

    Raises:
        ValueError: no copy is allowed, and another dtype wanted.
    """
    if copy is not False:
        return np.array(array, dtype=dtype)
    if dtype is not None and dtype != array.dtype:
        raise ValueError(
            f"a {array.dtype} tensor is no {np.dtype(dtype)} array without a copy", location=here()
        )
    view = array.view()
    view.flags.writeable = False
    return view


def departs(thing: Tensor | Variable, how: str) -> None:
    """Tell the tapes that Python or NumPy gets elements: no gradient flows through what it makes of them.

    Raises:
        TypeError: a function of SciPy asks for them that tapec can replace, and a tape follows the tensor.
    """
    tapes = active_tapes()
    if not tapes:
        return
    where = nearest(3)  # what calls this is a method of ours
    if where is not None and is_installed(where[0].co_filename):
        by = visit()
        how, where = by.function or how, by.origin
        if by.function and any(tape.follows(thing) for tape in tapes):
            require_none(by)
    key = thing.id if isinstance(thing, Tensor) else thing
    for tape in tapes:
        tape.trail.depart(key, how, where)


class EagerTensor(Tensor):
    """A Tensor that has its elements; `tapec.tracing.TracedTensor` stands for a value of a compiled function."""

    __slots__ = ()


def _rebuilt(array: Array) -> Tensor:
    """A pickled Tensor again; no tape knows it, so it has a number of its own."""
    own = as_array(array)
    return EagerTensor(own, type_of(own))


class Reference:
    """Hashable by identity; ``deref`` gives the object back."""

    __slots__ = ("_object",)

    def __init__(self, object: Any) -> None:
        """Refer to a tensor or variable."""
        self._object = object

    def deref(self) -> Any:
        """The object referred to."""
        return self._object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other._object is self._object

    def __hash__(self) -> int:
        return id(self._object)


def apply(op: str, *inputs: Tensor, **attrs: Any) -> Any:
    """Run an operation of the registry on tensors; a Tensor, or a tuple of them.

    Raises:
        InvalidArgumentError: eager, the operands do not fit.
        ValueError, TypeError: the same while a function is compiled.
    """
    trace = current_trace()
    if trace is not None:
        return trace.apply(OPS[op], inputs, attrs)
    try:
        signature = signature_of(op, [x.type for x in inputs], attrs)
    except (ShapeError, DTypeError) as error:
        raise InvalidArgumentError(error.message, location=here(), hint=error.hint) from None
    return run_eager(signature, inputs)


#: Whoever calls what calls `apply`, seen from what `run_eager` calls: the user, or a public function.
_ABOVE = 4


def run_eager(signature: Signature, inputs: Sequence[Tensor]) -> Any:
    """Evaluate with NumPy and tell the tapes."""
    arrays = [x._array if x._array is not None else x.array for x in inputs]
    try:
        results = signature.kernel(*arrays)
    except (ShapeError, DTypeError, CheckError) as error:
        raise InvalidArgumentError(error.message, location=here(), hint=error.hint) from None
    except (MemoryError, builtins.ValueError) as error:  # the latter: no such array can be
        raise _too_large(signature, error) from None
    if signature.single:
        if type(results) is not np.ndarray:
            results = np.asarray(results)
        outputs: tuple[Tensor, ...] = (EagerTensor(results, signature.outputs[0]),)
    else:
        pairs = zip(results, signature.outputs, strict=True)
        outputs = tuple([EagerTensor(np.asarray(r), t) for r, t in pairs])
    if inspectors and signature.makes:
        inspectors[0].operation(signature, inputs, outputs)
    tapes = active_tapes()
    if tapes:
        where = origin(_ABOVE)
        for tape in tapes:
            tape.record(signature, inputs, outputs, where)
    if len(bystanders) > len(tapes):
        overhear(signature.defn, inputs, outputs)
    return outputs[0] if signature.single else outputs


def _too_large(signature: Signature, error: Exception) -> Exception:
    """What to raise where NumPy could not make a result: an error that says how large it is, if that is why."""
    bytes = 0
    for type in signature.outputs:
        bytes += type.bytes if isinstance(type.bytes, int) else 0
    if isinstance(error, MemoryError) or bytes >= 2**47:
        types = ", ".join(map(str, signature.outputs))
        return ResourceExhaustedError(
            f"{signature.defn.name}: no memory for {bytes:,} bytes ({types})", location=here()
        )
    return InvalidArgumentError(f"{signature.defn.name}: {error}", location=here())


def as_tensor(value: TensorLike, dtype: DType | None = None, *, strict: bool = True) -> Tensor:
    """Convert a Tensor, Variable, array, number or nested list to a Tensor.

    Args:
        value: what to convert. Python floats become float32, integers int32 unless ``dtype`` says otherwise.
        dtype: the wanted dtype. Python numbers and NumPy arrays are converted to it.
        strict: whether a Tensor of another dtype is refused (else it is returned as it is).

    Raises:
        ValueError: ``value`` is None, ragged or contains itself, or a Tensor of another dtype.
        TypeError: a number that the dtype cannot hold (``2.5`` as int32).
    """
    if isinstance(value, Tensor):
        if dtype is not None and strict and value.type.dtype != dtype:
            raise ValueError(
                f"Tensor conversion requested dtype {dtype.name} for Tensor with dtype {value.dtype.name}",
                location=here(),
                hint="convert it with tapec.cast",
            )
        return value
    if hasattr(value, "read_value"):
        return as_tensor(value.read_value(), dtype, strict=strict)
    if value is None:
        raise ValueError(
            "Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor.",
            location=here(),
            hint=about_none(),
        )
    if isinstance(value, list | tuple):
        with Finite(value):
            if _holds_tensors(value):
                return _stack(value, dtype)
    if isinstance(value, OpenSize):
        return apply("extent", dim=value.dim, type=TensorType(dtype or I32))  # type: ignore[no-any-return]
    trace = current_trace()
    if is_on_device(value):
        from tapec.tensors.device_tensor import of_interface  # which needs Tensor

        return as_tensor(of_interface(value), dtype, strict=strict)
    if trace is None:
        array = as_array(value, dtype)
        return EagerTensor(array, type_of(array))
    if trace.varies and holds_numbers(value):
        if type(value) is HostNumber:
            return trace.number(value, dtype)
        return _stack(value, dtype or as_dtype(as_array(settled(value)).dtype))
    return trace.constant(value, as_array(value, dtype))


def is_on_device(value: Any) -> bool:
    """Whether it is an array of another library's on a GPU."""
    has = hasattr(type(value), "__cuda_array_interface__") and not isinstance(value, Tensor)
    return has and hasattr(value, "__cuda_array_interface__")  # of some it depends


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_holds_tensors(v) for v in value)
    return isinstance(value, Tensor) or hasattr(value, "read_value")


def _stack(values: Sequence[Any], dtype: DType | None) -> Tensor:
    """A list that holds tensors becomes one tensor, gradients included."""
    if dtype is None:
        dtype = next(t for v in values if _holds_tensors(v) for t in [as_tensor(v)]).dtype
    rows = [as_tensor(v, dtype) for v in values]
    shape = rows[0].type.shape
    expanded = [apply("reshape", r, shape=(1, *shape)) for r in rows]
    return apply("concat", *expanded, axis=0)  # type: ignore[no-any-return]
