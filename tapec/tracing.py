"""Trace: a function being turned into a program, and the tensors that stand for its values.

While a trace is current, `tapec.tensor.apply` and the Variables come here instead of computing. What the function
reads from outside (Variables, Tensors, NumPy arrays) becomes an argument, so nothing of it is frozen into the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.errors import InaccessibleTensorError, TapecError, TypeError, ValueError
from tapec.frames import here, origin, resolve
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Region, Value
from tapec.ir.dims import DimLike
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.guards import recording_guards
from tapec.ir.location import Location
from tapec.ir.op import Op, require_at_least
from tapec.ir.ops.regions import emitted
from tapec.ir.types import DType, TensorType, as_dtype
from tapec.recording import active_tapes, bystanders, heard, next_id, overhear
from tapec.tensor import Array, EagerTensor, Tensor, as_array, type_of
from tapec.tensors.tensor_shape import TensorShape, shape_of
from tapec.tensors.texts import refuse_texts
from tapec.traces.hearing import unheard
from tapec.traces.open_size import GuessedShape, SizeRead, guessing
from tapec.traces.recipes import Recorder
from tapec.traces.scalars import HostNumber, settled
from tapec.variables.initial_values import CallValues

if TYPE_CHECKING:
    from tapec.compiled.guards.beginnings import Before
    from tapec.tape import GradientTape
    from tapec.traces.outcomes import Outcomes
    from tapec.variable import Variable

#: Literals up to this many elements are part of the program; larger arrays are inputs.
_LARGEST_LITERAL = 16


class TracedTensor(Tensor):
    """A Tensor that stands for a value of the program being traced."""

    __slots__ = ("trace", "value")

    @property
    def array(self) -> Array:
        """What eager code asks for.

        Raises:
            TypeError: always: there are no elements, here or any more.
        """
        self.refuse_outside()
        return super().array

    def refuse_outside(self) -> None:
        """Raise if the function has returned, or the branch has ended, that it is of."""
        if self.trace.has_ended:
            raise self.trace.left_by(self)

    @property
    def shape(self) -> TensorShape:
        """The shape; a size that only a call will know is None."""
        if self.type.is_static or guessing.get() is None:
            return shape_of(self.type)
        return GuessedShape(self.type.shape)

    def __len__(self) -> int:
        if self.type.shape and not isinstance(self.type.shape[0], int):
            if guessing.get() is not None:
                raise SizeRead
            raise TypeError(
                f"len() of a tensor of shape {shape_of(self.type)}: the size is known only when the "
                "compiled function runs",
                location=here(),
                hint="tapec.shape(x)[0] is a tensor of it; to loop over rows use tapec.map_fn or scan",
            )
        return super().__len__()

    def __init__(self, value: Value, trace: Trace) -> None:
        super().__init__(None, value.tensor)
        self.value = value
        self.trace = trace


class Trace:
    """A program under construction.

    ``function`` gets an argument for each input, then for each thing captured from outside (``captures``, in order).
    ``states`` maps captured Variables (by ``id``) to the value they have at this point of the program.
    """

    def __init__(self, name: str, parent: Trace | None = None) -> None:
        """Start with an empty program; what it reads of a ``parent`` that goes on around it are captures too."""
        self.function = Function(name)
        self.parent = parent
        #: Whether the function has returned, so that no tensor of it means anything any more.
        self.has_ended = False
        self._where = origin()
        #: The tapes that record the parent meanwhile.
        self.tapes_around = active_tapes()
        self.builder = Builder(self.function.block)
        self.captures: list[Any] = []
        self.states: dict[int, Value] = {}
        self.created_variables = False
        #: The conditions met, in the trace of a program that may be for one outcome of them alone.
        self.outcomes: Outcomes | None = None
        #: Of each flag that says whether the function has returned, that it has not.
        self.going_on: dict[Value, TracedTensor] = {}
        #: The condition of whose branches this is one.
        self.condition: Tensor | None = None
        #: Functions that the program calls when it runs, in order; None where it cannot.
        self.hosts: list[Any] | None = None
        #: The least and the greatest that a number is which counts a loop's turns.
        self.ranges: dict[Value, tuple[DimLike, DimLike]] = {}
        #: Whether this is to find out what a loop does, and goes nowhere.
        self.scouts: bool = parent is not None and parent.scouts
        #: Whether the size of an array was asked for that may grow.
        self.asks_sizes = False
        #: What the call would read, for Variables that begin with something computed.
        self.call = CallValues()
        #: The numbers that are inputs, while this is a whole program.
        self.numbers: Recorder | None = None
        self._number_tensors: dict[int, TracedTensor] = {}
        self._captured: dict[int, Value] = {}
        self._things: dict[Value, Any] = {}
        #: What each captured array (by ``id``) held when it was captured.
        self._contents: dict[int, Array] = {}
        #: Where user code handed each captured array (by ``id``) to an operation: code object and instruction.
        self.array_sites: dict[int, set[Any]] = {} if parent is None else parent.array_sites
        #: Arrays that branches and loops have in reach, with copies of what they held, by ``id``.
        self.copies: dict[int, tuple[Any, Any]] = {} if parent is None else parent.copies
        #: Places that branches and loops change, with what was there in front of them.
        self.rests_on: list[Before] = [] if parent is None else parent.rests_on
        #: What is looked at once the whole program has been traced.
        self.at_end: list[Callable[[], None]] = [] if parent is None else parent.at_end
        #: Values that a `watch` operation stands for from now on: see `tapec.derivatives.traced_gradient`.
        self.marked: dict[Value, Value] = {}
        #: What the reads of each Variable gave, by ``id``.
        self._reads: dict[int, list[Value]] = {}
        #: The user's line behind each assumption about sizes.
        self.guard_places: dict[tuple[str, str], Location | None] = {}

    # -- values

    def input(self, type: TensorType, name: str | None) -> TracedTensor:
        """A new argument of the function."""
        refuse_texts(type)
        return TracedTensor(self.function.block.add_arg(type, name), self)

    def value_of(self, tensor: Tensor) -> Value:
        """The value that a tensor stands for; a tensor from outside becomes an argument.

        Raises:
            TypeError, InaccessibleTensorError: the tensor belongs to another trace, which it left.
        """
        if isinstance(tensor, TracedTensor) and not self._is_inside(tensor.trace):
            if tensor.trace is not self:
                raise tensor.trace.left_by(tensor)
            return self.marked.get(tensor.value, tensor.value)
        return self._capture(tensor, tensor.type, None)

    def left_by(self, tensor: TracedTensor) -> TapecError:
        """What to raise where a tensor of this trace is used outside of it: where it was made, how to return it."""
        op = tensor.value.op
        made = resolve(self._where) if op is None or op.location is None else op.location
        line = "" if made is None else f" at {made.describe()}"
        if self.parent is not None:
            return InaccessibleTensorError(
                f"a tensor ({tensor.type}) is out of scope, it was made in a branch or loop{line}: it left that "
                "branch or loop while it was compiled",
                location=here(),
                hint="let a variable that has a value before the branch or loop take it; a loop collects values in a "
                "tapec.TensorArray, not in a list",
            )
        name = self.function.name
        what = "made" if op is not None else "an argument"
        return TypeError(
            f"a tensor ({tensor.type}) is out of scope, it was {what} in the compiled function {name}{line}: it left "
            f"that function while it was compiled, and has no value",
            location=here(),
            hint=f"return it from {name}, and use what the call gives, instead of storing it outside",
        )

    def is_within(self, trace: Trace) -> bool:
        """Whether this is the trace, or goes on inside of it."""
        return self is trace or self._is_inside(trace)

    def is_in_branch_of(self, trace: Trace | None) -> bool:
        """Whether this goes on in a branch of a condition that the other trace meets."""
        inner: Trace | None = self
        while inner is not None and inner is not trace:
            if inner.condition is not None:
                return True
            inner = inner.parent
        return False

    def tapes_at(self, trace: Trace) -> tuple[GradientTape, ...]:
        """The tapes that record a trace inside of which this one goes on."""
        inner = self
        while inner.parent is not None and inner.parent is not trace:
            inner = inner.parent
        return tuple(tape for tape in inner.tapes_around if tape.is_recording)

    def _is_inside(self, trace: Trace) -> bool:
        parent = self.parent
        while parent is not None and parent is not trace:
            parent = parent.parent
        return parent is not None

    def _capture(self, thing: Any, type: TensorType, name: str | None) -> Value:
        value = self._captured.get(id(thing))
        if value is None:
            refuse_texts(type)
            value = self._captured[id(thing)] = self.function.block.add_arg(type, name)
            self._things[value] = thing
            self.captures.append(thing)  # also keeps the id from being used again
        return value

    @unheard
    def constant(self, original: Any, array: Array) -> Tensor:
        """A tensor for a literal or a NumPy array."""
        if isinstance(original, np.ndarray) and array.size:
            if (where := origin()) is not None:
                self.array_sites.setdefault(id(original), set()).add(where[:2])
            value = self._array_value(original)
            # The array itself is the input, its conversion part of the program: contents may change.
            if value.tensor.dtype != as_dtype(array.dtype):
                value = self.builder.cast(value, dtype=as_dtype(array.dtype))
            return TracedTensor(value, self)
        if array.size > _LARGEST_LITERAL:
            tensor = EagerTensor(array, type_of(array))
            return TracedTensor(self._capture(tensor, tensor.type, None), self)
        refuse_texts(type_of(array))
        literal = array.item() if array.ndim == 0 else array
        return TracedTensor(self.builder.emit("constant", value=literal, type=type_of(array)), self)

    def _array_value(self, array: Array) -> Value:
        """The value of a NumPy array; what it holds now is a constant once the function itself changed it."""
        now = as_array(array)
        before = self._contents.setdefault(id(array), now)
        if before.tobytes() != now.tobytes():
            return self.value_of(EagerTensor(now, type_of(now)))
        return self._capture(array, type_of(now), None)

    # -- numbers that are inputs

    @property
    def root(self) -> Trace:
        """The trace of the whole program inside of which this one goes on."""
        trace = self
        while trace.parent is not None:
            trace = trace.parent
        return trace

    @property
    def varies(self) -> bool:
        """Whether there are numbers that are inputs."""
        numbers = self.root.numbers
        return numbers is not None and bool(numbers.leaves)

    def number_behind(self, value: Value) -> HostNumber | None:
        """The number that an argument of the program is, if it is one."""
        number = self._things.get(value) if self._number_tensors else None
        return number if type(number) is HostNumber else None

    def tensor_behind(self, value: Value) -> TracedTensor | None:
        """The tensor of the program around it that an argument is, here or in what goes on around this."""
        trace: Trace | None = self
        while trace is not None:
            thing = trace._things.get(value)
            if thing is not None:
                return thing if isinstance(thing, TracedTensor) else None
            trace = trace.parent
        return None

    def number(self, number: HostNumber, dtype: DType | None) -> Tensor:
        """A tensor of a number that is an input: converted as Python numbers are; see `tapec.tensor.as_tensor`."""
        root = self.root
        plain = root.numbers is None or not root.numbers.owns(number)
        if dtype is None and not plain:
            dtype = number.usual_dtype()
        if plain or dtype is None or not number.converts_to(dtype):
            value = number.exactly()
            return self.constant(value, as_array(value, dtype))
        tensor = root._number_tensors.get(number.step)
        if tensor is None:
            value = root._capture(number, type_of(np.asarray(number.value)), number.name)
            tensor = root._number_tensors[number.step] = TracedTensor(value, root)
        if tensor.dtype == dtype:
            return tensor
        return TracedTensor(self.builder.cast(self.value_of(tensor), dtype=dtype), self)

    # -- operations

    @unheard
    def apply(
        self,
        defn: Op,
        inputs: Sequence[Tensor],
        attrs: Mapping[str, Any],
        regions: Sequence[Region] = (),
    ) -> Any:
        """Append an operation; a Tensor, or a tuple of them, which it is of one with regions."""
        operands = [self.value_of(x) for x in inputs]
        if self.varies:
            attrs = {name: settled(value, exactly=True) for name, value in attrs.items()}
        where = origin()
        try:
            with recording_guards(self.function), self.builder.at(resolve(where)):
                results: Any
                if regions:
                    results = emitted(self.builder, defn.name, operands, regions, **attrs)
                else:
                    results = self.builder.emit(defn, *operands, **attrs)
        except ShapeError as error:
            raise ValueError(error.message, location=resolve(where), hint=error.hint) from None
        except DTypeError as error:
            raise TypeError(error.message, location=resolve(where), hint=error.hint) from None
        for guard in self.function.guards[len(self.guard_places) :]:
            self.guard_places.setdefault(guard, resolve(where))
        single = isinstance(results, Value)
        outputs = tuple(TracedTensor(v, self) for v in ((results,) if single else results))
        operation = self.builder.block.ops[-1]
        tapes = active_tapes()
        for tape in tapes:
            tape.record_operation(operation, inputs, outputs, where)
        if len(bystanders) > len(tapes):
            overhear(defn, inputs, outputs)
        return outputs[0] if single else outputs

    def assume_at_least(self, m: DimLike, n: DimLike) -> None:
        """Rely on one size not being less than another."""
        where = here()
        with recording_guards(self.function):
            require_at_least(m, n, lambda: f"{m} is less than {n}")
        for guard in self.function.guards[len(self.guard_places) :]:
            self.guard_places.setdefault(guard, where)

    # -- Variables

    def state(self, variable: Variable) -> Value:
        """The value of a Variable at this point."""
        known = self.states.get(id(variable))
        if known is None:
            name = variable.name.removesuffix(":0")
            known = self._capture(variable, variable.type, name if name.isidentifier() else None)
            self.states[id(variable)] = known
        return known

    @unheard
    def read(self, variable: Variable, heard: bool = True, state: Tensor | None = None) -> Tensor:
        """Read a Variable: a value of its own for each read, since a tape tells reads apart.

        ``heard``: whether tapes hear of it. ``state`` is what it gives, if not what the Variable holds now.
        """
        with self.builder.at(here()):
            value = self.builder.read(
                self.state(variable) if state is None else self.value_of(state)
            )
        if heard:
            self._reads.setdefault(id(variable), []).append(value)
        return TracedTensor(value, self)

    @unheard
    def assign(self, variable: Variable, value: Tensor) -> None:
        """Give a Variable its next value."""
        self.state(variable)  # the argument that receives it
        self.states[id(variable)] = self.value_of(value)

    def assigns(self, variable: Variable, before: Value | None) -> bool:
        """Whether a Variable was assigned, that had a value before, or was not read."""
        now = self.states.get(id(variable))
        if before is None:
            return now is not None and now is not self._captured.get(id(variable))
        return now is not before

    def end(self) -> None:
        """Let nothing of it be used any more; see `tapec.recording.heard`."""
        self.has_ended = True
        heard[0] = next_id()

    def finish(self, outputs: Sequence[Tensor]) -> None:
        """End the program: it returns the outputs, then the new values of Variables that changed."""
        results = [self.value_of(t) for t in outputs]
        for captured in self.captures:
            argument = self._captured[id(captured)]
            state = self.states.get(id(captured), argument)
            if state is not argument:
                self.function.updates[len(results)] = argument.index
                results.append(state)
        self.builder.emit("return", *results)
        self.call.known.clear()  # results know their trace, which is to keep no arrays
        if self.parent is None:
            self.copies.clear()
            for look in self.at_end:
                look()
            self.at_end.clear()
        for i, captured in enumerate(self.captures):
            held = self._contents.get(id(captured))
            if held is not None and held.tobytes() != captured.tobytes():
                self.captures[i] = EagerTensor(held, type_of(held))  # the function changed it since

    def values_behind(self, source: Tensor | Variable) -> list[Value]:
        """The values that a source of gradients stands for: a Variable's are all its reads so far."""
        if isinstance(source, Tensor):
            return [self.value_of(source)]
        return list(self._reads.get(id(source), ()))
