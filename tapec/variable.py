"""Variable: a tensor that keeps its place and changes its value.

Eager, an assignment gives the Variable a new array, so that what was read before stays as it was. A compiled step
writes into the array itself; where somebody else still holds the array, the Variable moves to a copy first
(`Variable.own_array`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tapec import arguments
from tapec.at_line import at_home
from tapec.devices import CPU
from tapec.errors import RuntimeError, TypeError, ValueError
from tapec.frames import here
from tapec.ir.types import DType, TensorType, as_dtype
from tapec.recording import active_tapes, bystanders, current_trace, overhear_read, tracing
from tapec.scopes import current_name_scope, name_scope
from tapec.tensor import (
    Array,
    EagerTensor,
    Reference,
    Tensor,
    TensorLike,
    apply,
    as_array,
    as_numpy,
    as_tensor,
    departs,
    next_id,
    type_of,
)
from tapec.tensors.indexed_slices import IndexedSlices
from tapec.tensors.tensor_shape import TensorShape, shape_of
from tapec.variables.alignment import aligned_copy, owns_place
from tapec.variables.claims import Access, refuse_in_the_middle, whole_array
from tapec.variables.initial_values import value_at_call
from tapec.variables.policies import VariableAggregation, VariableSynchronization
from tapec.variables.updates import VariableUpdates

if TYPE_CHECKING:
    from tapec.explanations.explanation import Explanation
    from tapec.tensors.operators import Operators
    from tapec.variables.claims import Claim
else:
    Operators = object  # tapec.tensors.operators adds its methods, as to Tensor

#: What `sys.getrefcount` says of an array that only its Variable holds: the attribute and the call's argument.
_OWN_REFERENCES = 2


class Variable(VariableUpdates, Operators):
    """State that training changes: read like a Tensor, written by `assign`, `assign_add`, `assign_sub`.

    Tapes watch a trainable Variable by themselves when it is read.

    Args:
        initial_value: anything that converts to a Tensor, or a callable that returns it.
        trainable: whether tapes watch it by themselves; yes if None.
        validate_shape: not used, as are the other arguments that are not named here.
        name: for messages; ``variable.name`` appends ``:0``.
        dtype: converts the initial value.
        shape: the shape of the value; sizes that are None may change, by assignments outside of
            compiled functions; one that was compiled keeps the shape that it met, and refuses another.
        constraint: a function of the value that optimizers apply after an update.

    Raises:
        ValueError: no initial value, or one of another shape; created at each call of a compiled function.
    """

    __slots__ = (
        "__weakref__",
        "_array",
        "_in_place",
        "_name",
        "_trainable",
        "_varying",
        "aggregation",
        "claims",
        "constraint",
        "copied",
        "missing",
        "number",
        "programs",
        "synchronization",
        "type",
    )

    def __init__(
        self,
        initial_value: TensorLike | Callable[[], TensorLike] = None,
        trainable: bool | None = None,
        validate_shape: bool = True,
        caching_device: None = None,
        name: str | None = None,
        variable_def: None = None,
        dtype: Any = None,
        import_scope: None = None,
        constraint: Callable[[Tensor], TensorLike] | None = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
        shape: Any = None,
        experimental_enable_variable_lifting: bool = True,
    ) -> None:
        if initial_value is None:
            raise ValueError(
                "The `initial_value` arg to `tapec.Variable` must be specified.", location=here()
            )
        trace = current_trace()
        if trace is not None:
            trace.created_variables = True
        with tracing(None):  # the state itself lives outside of the program that is being traced
            if callable(initial_value):
                initial_value = initial_value()
            self._array = _initial_array(initial_value, None if dtype is None else as_dtype(dtype))
        self.type: TensorType = type_of(self._array)
        declared = TensorShape(shape)
        if not declared.is_compatible_with(shape_of(self.type)):
            raise ValueError(
                f"the initial value has shape {shape_of(self.type)}, not {declared}",
                location=here(),
            )
        #: The shape that values may have, where they may have several.
        self._varying = None if shape is None or declared.is_fully_defined() else declared
        #: By itself not, if every device has its own, as in TensorFlow.
        self._trainable = (
            synchronization is not VariableSynchronization.ON_READ
            if trainable is None
            else trainable
        )
        self.synchronization = synchronization
        self.aggregation = aggregation
        given = "" if name is None else arguments.text(name, "name")
        self._name = f"{current_name_scope()}{given or 'Variable'}"
        #: Grows with each Variable made.
        self.number = next_id()
        #: The number of the Variable whose value it began with.
        self.copied = initial_value.number if isinstance(initial_value, Variable) else None
        self.constraint = constraint
        #: Of compiled programs that write into the array; see `tapec.variables.claims`.
        self.claims: tuple[Claim, ...] = ()
        self._in_place: Access | None = None
        #: Why the latest gradient for it is None, where it is.
        self.missing: Explanation | None = None
        #: What `tapec.compiled.shelves` hangs on it.
        self.programs: Any = None

    # -- description

    @property
    def name(self) -> str:
        """The name given, with TensorFlow's output number: ``w:0``."""
        return f"{self._name}:0"

    @property
    def trainable(self) -> bool:
        """Whether tapes watch it by themselves."""
        return self._trainable

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    @property
    def shape(self) -> TensorShape:
        """The shape; a size that assignments may change is None."""
        return shape_of(self.type) if self._varying is None else self._varying

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.type.rank

    def get_shape(self) -> TensorShape:
        """The shape."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Raise ValueError unless the Variable may have a shape; see `Tensor.set_shape`."""
        self.read_value().set_shape(shape)

    @property
    def device(self) -> str:
        """The device that holds it: the CPU."""
        return CPU

    def is_initialized(self, name: str | None = None) -> Tensor:
        """True: it has a value from the beginning."""
        return as_tensor(True)

    # -- reading

    def read_value(self) -> Tensor:
        """The value now, as a Tensor that later assignments do not change."""
        trace = current_trace()
        value = EagerTensor(self.array, self.type) if trace is None else trace.read(self)
        tapes = active_tapes()
        for tape in tapes:
            tape.variable_read(self, value)
        if len(bystanders) > len(tapes):
            overhear_read(self, value)
        return value

    def value(self) -> Tensor:
        """The value now; see `read_value`."""
        return self.read_value()

    def numpy(self) -> Any:
        """The value as a NumPy array, or a NumPy scalar for rank 0; a copy that may be written to."""
        trace = current_trace()
        if trace is not None:
            return trace.read(self).numpy()  # which says that there is no value yet
        departs(self, ".numpy()")
        array = self.array
        return array.copy() if array.ndim else array[()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        trace = current_trace()
        if trace is not None:
            return np.asarray(trace.read(self), dtype=dtype)  # which says the same
        departs(self, "NumPy (__array__)")
        return as_numpy(self.array, dtype, copy)

    def __float__(self) -> float:
        return float(self.read_value())

    def __int__(self) -> int:
        return int(self.read_value())

    def __index__(self) -> int:
        return self.read_value().__index__()

    def __bool__(self) -> bool:
        return bool(self.read_value())

    def __len__(self) -> int:
        return len(self.read_value())

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.read_value())

    def __contains__(self, value: Any) -> bool:
        return value in self.read_value()

    # -- writing

    def assign(
        self,
        value: TensorLike,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Variable:
        """Replace the value; the dtype stays, and the shape where it is not declared to vary.

        Raises:
            ValueError: another shape, or a Tensor of another dtype.
        """
        new = as_tensor(value, self.type.dtype)
        trace = current_trace()
        if new.type != self.type and (trace is not None or not self._may_become(new.type)):
            raise ValueError(
                f"Cannot assign value to variable '{self.name}': Shape mismatch. The variable shape "
                f"{self.shape}, and the assigned value shape {new.shape} are incompatible.",
                location=here(),
                hint="a compiled function keeps shapes: assign outside" if self._varying else None,
            )
        if trace is None:
            self._array, self.type = new.array, new.type
        else:
            trace.assign(self, new)
        return self.written(new)

    def _may_become(self, type: TensorType) -> bool:
        """Whether a value of another shape was announced."""
        return self._varying is not None and self._varying.is_compatible_with(shape_of(type))

    def assign_add(
        self,
        delta: TensorLike,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Variable:
        """Add to the value: ``v.assign_add(d)`` is ``v.assign(v + d)`` for a ``d`` of the same shape."""
        if isinstance(delta, IndexedSlices):
            return self.scatter_add(delta)
        return self._change("add", self._delta(delta))

    def assign_sub(
        self,
        delta: TensorLike,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> Variable:
        """Subtract from the value."""
        if isinstance(delta, IndexedSlices):
            return self.scatter_sub(delta)
        return self._change("sub", self._delta(delta))

    def _change(self, op: str, delta: Tensor) -> Variable:
        """Replace the value by that of an operation on it and ``delta``; no other thread's update is lost."""
        while True:
            if self.claims:
                refuse_in_the_middle(self)
            old = self._peek()
            new = apply(op, old, delta)
            if current_trace() is not None:
                return self.assign(new)
            before, after = old.array, new.array
            # Nothing else runs between the comparison and the store.
            if self._array is before:
                self._array = after
                return self.written(new)

    def _delta(self, delta: TensorLike) -> Tensor:
        new = as_tensor(delta, self.type.dtype)
        if new.type != self.type:
            raise ValueError(
                f"Cannot update variable '{self.name}' with shape {self.shape} using a Tensor with shape "
                f"{new.shape}, shapes must be equal.",
                location=here(),
            )
        return new

    def _peek(self) -> Tensor:
        """The value, unseen by tapes: an update is no use of the Variable."""
        trace = current_trace()
        return (
            EagerTensor(self.array, self.type) if trace is None else trace.read(self, heard=False)
        )

    def written(self, value: Tensor) -> Variable:
        """Tell the tapes that it was given a value, or a part of it was."""
        for tape in active_tapes():
            tape.trail.assign(self, value)
        return self

    # -- what compiled functions use

    @property
    def array(self) -> Array:
        """The array that holds the value; not to be written to."""
        return whole_array(self) if self.claims else self._array

    def own_array(self) -> Array:
        """The array, held by nobody else, contiguous, aligned, writable: a compiled step may write into it."""
        while True:
            array = self._array
            # One reference more than usual: the local name.
            shared = sys.getrefcount(array) > _OWN_REFERENCES + 1
            if not shared and owns_place(array) and array.flags.carray:
                return array
            copy = aligned_copy(at_home(array))
            if self._array is array:  # no signal handler came in between
                self._array = copy
                return copy

    def write(self, put: Callable[[Array], None]) -> None:
        """Let ``put`` write into the array, by the rules of `tapec.variables.claims`."""
        if self._in_place is None:
            self._in_place = Access([self], [self])
        self._in_place.run(lambda: [at_home(self.own_array())], put)

    def adopt(self, array: Array) -> None:
        """Take an array over as the new value; nobody else holds it."""
        self._array = array

    # -- Python's protocol

    def __hash__(self) -> int:
        raise TypeError(
            f"Variable is unhashable. Instead, use variable.ref() as the key. (Variable: {self!r})",
            location=here(),
        )

    def ref(self) -> Reference:
        """A hashable stand-in, for keys of dicts and sets."""
        return Reference(self)

    def __copy__(self) -> Variable:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        rebuild, state = self.__reduce__()
        copy = memo[id(self)] = rebuild(*state)
        copy.copied = self.number
        return copy

    def __reduce__(self) -> tuple[Callable[..., Variable], tuple[Any, ...]]:
        shape = None if self._varying is None else self._varying.as_list()
        return _rebuilt, (self.array, self._trainable, self._name, self.constraint, shape)

    def __iadd__(self, other: Any) -> NoReturn:
        self._refuse_in_place("+", "assign_add")

    def __isub__(self, other: Any) -> NoReturn:
        self._refuse_in_place("-", "assign_sub")

    def __imul__(self, other: Any) -> NoReturn:
        self._refuse_in_place("*", "assign")

    def __itruediv__(self, other: Any) -> NoReturn:
        self._refuse_in_place("/", "assign")

    def _refuse_in_place(self, sign: str, method: str) -> NoReturn:
        raise RuntimeError(
            f"`variable {sign}= value` with `tapec.Variable`s is not supported. Use `variable.{method}(value)` "
            f"to modify the variable, or `out = variable {sign} value` if you need to get a new output Tensor.",
            location=here(),
        )

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError(
            "'Variable' object does not support item assignment",
            location=here(),
            hint="assign to the slice, v[1:].assign(new); or the whole value, v.assign(tapec.where(mask, new, v))",
        )

    def __repr__(self) -> str:
        head = f"<tapec.Variable '{self.name}' shape={self.shape!s} dtype={self.dtype.name}"
        if current_trace() is not None:
            return f"{head}>"
        return f"{head}, numpy={np.array2string(self.array, separator=', ')}>"

    def __format__(self, spec: str) -> str:
        return format(self.read_value(), spec)


def _rebuilt(
    array: Array, trainable: bool, name: str, constraint: Any, shape: Any = None
) -> Variable:
    """A Variable of its own like the one that was copied or pickled."""
    with name_scope(""):  # the name is whole
        return Variable(array, trainable, name=name, shape=shape, constraint=constraint)


def _initial_array(value: Any, dtype: DType | None) -> Array:
    if isinstance(value, Variable):
        value = value.array
    if isinstance(value, Tensor):
        value = value_at_call(value)
    array = as_array(value, dtype)
    # Its own memory: a compiled step may write into it.
    return np.array(array, order="C")


def variable_behind(thing: Any) -> Variable | None:
    """The Variable that an object of another library keeps its value in, which it names ``__tapec_variable__``."""
    found = getattr(thing, "__tapec_variable__", None)
    return found if isinstance(found, Variable) else None
