"""`compile`: a Python function whose calls run as one native program.

The function is traced once for each signature (types of tensors, structure, Python values, Variables passed) and then
only called. A call gathers arrays, runs the program and wraps the results; it does not walk the user's code.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from numbers import Number
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

import numpy as np

from tapec.compiler import Executable, compile_module, lowered
from tapec.derivatives.replay import VARIABLE
from tapec.effects import Effects
from tapec.errors import ResourceExhaustedError, RuntimeError, TypeError, ValueError
from tapec.frames import here, origin
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Value, clone_function
from tapec.ir.op import OPS
from tapec.ir.ops.host import Notify
from tapec.recording import active_tapes, current_trace, inspectors, plain_calls, tracing
from tapec.structure import flatten, unflatten
from tapec.tensor import Array, EagerTensor, Tensor, as_array, next_id, type_of
from tapec.tensor_shape import TensorShape
from tapec.tracing import Trace, TracedTensor
from tapec.variable import Variable

P = ParamSpec("P")
R = TypeVar("R")


@overload
def compile(function: Callable[P, R], *, name: str | None = None) -> CompiledFunction[P, R]: ...
@overload
def compile(
    function: None = None, *, name: str | None = None
) -> Callable[[Callable[P, R]], CompiledFunction[P, R]]: ...
def compile(function: Any = None, *, name: str | None = None) -> Any:
    """Compile a function of tensors; use it as a decorator on a whole train step.

    Variables that the function reads are taken by reference and updated in place; Tensors and NumPy arrays from
    outside are inputs; other Python values are constants of the program. Called with other shapes, dtypes or Python
    values, it is compiled again for them. Python loops are unrolled.

    Args:
        function: the function.
        name: of the program, for dumps; the function's own if None.

    Raises:
        ValueError: at a call, if the function makes a Variable at each call.
        TypeError: at a call, if the function needs a tensor's value in Python.
    """
    if function is None:
        return functools.partial(compile, name=name)
    if isinstance(function, CompiledFunction):
        return function
    if isinstance(function, staticmethod | classmethod):
        return type(function)(compile(function.__func__, name=name))
    if not callable(function):
        raise TypeError(f"compile takes a function, got {type(function).__name__}", location=here())
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{function.__name__} is a generator or coroutine, whose body runs after its call returned",
            location=here(),
            hint="compile a function that returns its results, and call it from there",
        )
    return CompiledFunction(function, name)


class CompiledFunction(Generic[P, R]):
    """What `compile` returns: called like the function, with its results."""

    def __init__(self, function: Callable[P, R], name: str | None = None) -> None:
        """Nothing is traced before the first call."""
        # Attributes of a callable object are its own affair: copies could hide the methods of this class.
        functools.update_wrapper(self, function, updated=())
        self.python_function = function
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self._programs: dict[Any, Program] = {}
        self._lock = threading.RLock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if current_trace() is not None or plain_calls:
            # Part of the outer program, or for debugging.
            return self.python_function(*args, **kwargs)
        if not kwargs:
            # The common case, fast: all arguments are tensors.
            key: Any = tuple([a.type if type(a) is EagerTensor else None for a in args])
            if None not in key:
                program = self._programs.get(key)
                if program is not None:
                    return cast(R, program.run(cast("tuple[Tensor, ...]", args)))
        return cast(R, self._call(args, kwargs))

    def _call(self, args: Any, kwargs: Any) -> Any:
        leaves, spec = flatten([list(args), kwargs] if kwargs else list(args), parts=True)
        inputs = [_as_input(leaf) for leaf in leaves]
        plain = not kwargs and all(type(leaf) is EagerTensor for leaf in args)
        key = tuple(i.type for i in inputs) if plain else (spec, tuple(map(_leaf_key, inputs)))
        program = self._programs.get(key)
        if program is None:
            with self._lock:
                program = self._programs.get(key)
                if program is None:
                    program = self._programs[key] = self._trace(inputs, spec, bool(kwargs))
        return program.run([i for i in inputs if isinstance(i, Tensor)])

    def __getattr__(self, name: str) -> Any:
        """Attributes of the function."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.python_function, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Compiled methods: the instance is one of the Python values of the signature."""
        return self if instance is None else functools.partial(self, instance)

    def _trace(self, inputs: Sequence[Any], spec: Any, has_kwargs: bool) -> Program:
        program = Program(self, inputs, spec, has_kwargs)
        if program.created_variables:
            if self._programs:
                raise _created_again(self.name)
            program = Program(self, inputs, spec, has_kwargs)
            if program.created_variables:
                raise _created_again(self.name)
        return program

    @property
    def programs(self) -> list[Program]:
        """One for each signature met so far."""
        return list(self._programs.values())

    def ir(self, after: str | None = None) -> Module:
        """The program of the latest signature, as traced or after a pass of the default pipeline.

        Raises:
            RuntimeError: the function was not called yet.
        """
        if not self._programs:
            raise RuntimeError(
                f"{self.name} was not traced yet", location=here(), hint="call it once"
            )
        module = self.programs[-1].module
        return module if after is None else lowered(module, after)


class Program:
    """One traced and compiled signature of a function.

    Attributes:
        module: the program as traced.
        executable: its native code.
        captures: what it reads from outside: Variables, Tensors, NumPy arrays.
    """

    def __init__(
        self, owner: CompiledFunction[Any, Any], inputs: Sequence[Any], spec: Any, has_kwargs: bool
    ) -> None:
        """Trace the function for inputs like these and compile the program."""
        trace = Trace(owner.name)
        trace.hosts = []
        with tracing(trace):
            names = iter(_argument_names(owner.python_function, inputs, spec, has_kwargs))
            traced = [
                trace.input(i.type, next(names, None)) if isinstance(i, Tensor) else i
                for i in inputs
            ]
            args, kwargs = _arguments(spec, traced, has_kwargs)
            result = owner.python_function(*args, **kwargs)
            self._leaves, self._spec = flatten(result, parts=True)
            self._check_leaves(trace)
            trace.finish([leaf for leaf in self._leaves if isinstance(leaf, TracedTensor)])
        self.created_variables = trace.created_variables
        self.module = Module([trace.function])
        self.captures: list[Any] = trace.captures
        if self.created_variables:
            return  # traced once more before it is compiled: the second trace makes none
        self.executable: Executable = compile_module(self.module)
        self._prepare(trace)

    def _check_leaves(self, trace: Trace) -> None:
        for leaf in self._leaves:
            if isinstance(leaf, TracedTensor):
                trace.value_of(leaf)  # which refuses tensors of other functions
            elif isinstance(leaf, Iterator):
                raise TypeError(
                    f"a compiled function returned a {type(leaf).__name__}, whose items would be "
                    "computed after the call",
                    location=here(),
                    hint="return a list or a tuple",
                )

    def _prepare(self, trace: Trace) -> None:
        """Work out what every call would have to find out again."""
        function = trace.function
        places = {op: i for i, op in enumerate(function.block.ops)}
        #: Where the program reads Variables, for tapes outside: those captured, each with places in its block.
        self._reads = {
            i: [places[value.op] for value in trace.values_behind(v) if value.op is not None]
            for i, v in enumerate(self.captures)
            if isinstance(v, Variable)
        }
        updated = set(function.updates.values())
        first = len(function.args) - len(self.captures)
        self._updates = [first + i in updated for i in range(len(self.captures))]
        self._output_types = [
            v.tensor for i, v in enumerate(function.returns) if i not in function.updates
        ]
        #: The program that raises at numbers that are NaN or infinite, once it was asked for.
        self._inspected: Callable[[list[Array]], tuple[list[Array], dict[int, Array]]] | None
        self._inspected = None
        self.effects = Effects(self.module, self.executable.checks, trace.hosts or ())
        self._has_effects = bool(self.effects)
        traced = [isinstance(leaf, TracedTensor) for leaf in self._leaves]
        self._is_single = traced == [True] and self._spec is None

    def run(self, inputs: Sequence[Tensor]) -> Any:
        """Run the program on tensors of the traced types."""
        tapes = active_tapes()
        if tapes:
            return self._run_on_tape(inputs)
        if self._has_effects or inspectors:
            results = self._execute(inputs)
        else:
            arrays = [x.array for x in inputs]
            if self.captures:
                arrays += map(_captured_array, self.captures, self._updates)
            try:
                results = self.executable(*arrays)
            except MemoryError as error:
                raise ResourceExhaustedError(
                    f"no memory for the results of a compiled function: {error}", location=here()
                ) from None
        if self._is_single:
            return EagerTensor(results[0], self._output_types[0])
        return self._wrap(
            [EagerTensor(a, t) for a, t in zip(results, self._output_types, strict=True)]
        )

    def _execute(self, inputs: Sequence[Tensor]) -> list[Array]:
        """The program's results as new arrays, if it is to be looked at or has checks.

        Raises:
            InvalidArgumentError: a check failed; no Variable was changed.
        """
        arrays = [x.array for x in inputs]
        if not inspectors:
            arrays += map(_captured_array, self.captures, self._updates)
            results = self.executable(*arrays)
            self.effects.settle(arrays, results)
            return results
        if self._inspected is None:
            self._inspected = inspectors[0].program(self.module, self.effects)
        first = len(arrays)
        arrays += [_captured_array(captured, False) for captured in self.captures]
        outputs, states = self._inspected(arrays)
        for argument, array in states.items():
            self.captures[argument - first].adopt(array)
        return outputs

    def _wrap(self, outputs: Sequence[Tensor]) -> Any:
        """The results in the structure that the function returned."""
        tensors = iter(outputs)
        leaves = [next(tensors) if isinstance(v, TracedTensor) else v for v in self._leaves]
        return unflatten(self._spec, leaves)

    @functools.cached_property
    def _callee(self) -> tuple[Function, set[int], list[Variable]]:
        """The program as tapes outside differentiate it, and how it reads Variables.

        What it reads before it assigns is an input: the captures of which that is so come second. What it reads
        of a Variable later is a source of its own, and one more result: the Variables of these come third.
        """
        function = clone_function(self.module.entry)
        ops = list(function.block.ops)
        first: set[int] = set()
        later: list[tuple[Variable, Value]] = []
        for index, places in self._reads.items():
            for op in map(ops.__getitem__, places):
                if op.operands[0] in function.args:
                    op.defn = OPS["watch"]
                    first.add(index)
                else:
                    op.attrs[VARIABLE] = len(later)
                    later.append((self.captures[index], op.result))
        for op in ops:
            if isinstance(op.defn, Notify):
                op.erase()  # told when it ran
        results = [*function.returns, *(value for _, value in later)]
        function.block.ops.pop().drop()
        Builder(function.block).emit("return", *results)
        return function, first, [variable for variable, _ in later]

    def _run_on_tape(self, inputs: Sequence[Tensor]) -> Any:
        """Run the program and tell the tapes, which differentiate it as one operation."""
        where = origin()
        function, first, later = self._callee
        tensors = list(inputs)
        for index, captured in enumerate(self.captures):
            if isinstance(captured, Variable):
                heard = index in first
                tensors.append(
                    captured.read_value() if heard else EagerTensor(captured.array, captured.type)
                )
            elif isinstance(captured, Tensor):
                tensors.append(captured)
            else:
                array = as_array(captured)
                tensors.append(EagerTensor(array, type_of(array)))
        # The tensors hold the Variables' arrays, so those that are updated move to copies.
        results = self._execute(inputs)
        outputs = [EagerTensor(a, t) for a, t in zip(results, self._output_types, strict=True)]
        returned = iter(outputs)
        all_results = [
            next_id() if i in function.updates else next(returned).id
            for i in range(len(function.returns) - len(later))
        ]
        reads = [Tensor(None, variable.type) for variable in later]
        all_results += [read.id for read in reads]
        for tape in active_tapes():
            for variable, read in zip(later, reads, strict=True):
                tape.variable_read(variable, read)
            tape.record_call(function, tensors, all_results, where, later)
        return self._wrap(outputs)


def _captured_array(captured: Any, is_updated: bool) -> Array:
    if isinstance(captured, Variable):
        return captured.own_array() if is_updated else captured.array
    if isinstance(captured, Tensor):
        return captured.array
    return captured if captured.dtype.isnative else as_array(captured)


def _as_input(leaf: Any) -> Any:
    """A tensor for what is an input at run time; anything else is a constant of the program."""
    if isinstance(leaf, np.ndarray):
        array = as_array(leaf)
        return EagerTensor(array, type_of(array))
    return leaf


def _leaf_key(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return leaf.type
    kind = type(leaf)  # 1, 1.0 and True are equal, but not the same program
    if isinstance(leaf, float | complex | np.floating | np.complexfloating):
        return kind, repr(leaf)  # -0.0 and 0.0 are equal, NaN is not equal to itself
    if isinstance(leaf, Number | str | bytes | range | np.generic | np.dtype | TensorShape):
        return kind, leaf
    parts = _parts(leaf)
    return _Identity(leaf) if parts is None else (kind, parts)


def _parts(leaf: Any) -> Any:
    """The keys of what a value is made of; None for an object that is itself, equal to others or not."""
    if isinstance(leaf, set | frozenset):
        return frozenset(map(_leaf_key, leaf))
    if isinstance(leaf, slice):
        return _leaf_key(leaf.start), _leaf_key(leaf.stop), _leaf_key(leaf.step)
    if isinstance(leaf, MethodType):  # a new object for each look at it
        return _Identity(leaf.__self__), leaf.__func__
    if is_dataclass(leaf) and not isinstance(leaf, type) and _is_frozen(leaf):
        return tuple([_leaf_key(getattr(leaf, field.name)) for field in fields(leaf)])
    return None


def _is_frozen(leaf: Any) -> bool:
    return bool(leaf.__dataclass_params__.frozen)


class _Identity:
    """A key for what is no plain value, such as a Variable or a model: the object itself, kept alive."""

    __slots__ = ("thing",)

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.thing is self.thing

    def __hash__(self) -> int:
        return id(self.thing)


def _arguments(spec: Any, leaves: list[Any], has_kwargs: bool) -> tuple[list[Any], dict[str, Any]]:
    structure = unflatten(spec, leaves)
    return (structure[0], structure[1]) if has_kwargs else (structure, {})


def _argument_names(
    function: Callable[..., Any], inputs: Sequence[Any], spec: Any, has_kwargs: bool
) -> list[str | None]:
    """Names for the program's arguments: the function's own where they map one to one."""
    code = getattr(function, "__code__", None)
    tensors = [i for i in inputs if isinstance(i, Tensor)]
    if code is None or has_kwargs or len(tensors) != len(inputs):
        return [None] * len(tensors)
    names = code.co_varnames[: code.co_argcount]
    positional, _ = _arguments(spec, list(inputs), False)
    if len(names) == len(positional) and all(
        p is i for p, i in zip(positional, inputs, strict=False)
    ):
        return list(names)
    return [None] * len(tensors)


def _created_again(name: str) -> ValueError:
    return ValueError(
        f"{name} makes a tapec.Variable at each call",
        location=here(),
        hint="make Variables once, outside of the compiled function, or keep them on an object",
    )
