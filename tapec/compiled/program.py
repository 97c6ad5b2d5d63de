"""One traced and compiled signature of a function, and how a call runs it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tapec.autograph import conversion
from tapec.compiled.breakpoints import explained_breakpoints
from tapec.compiled.differentiation import Callee
from tapec.compiled.guards.witness import Witness
from tapec.compiler import Executable, compile_module, evaluated_module
from tapec.effects import Effects
from tapec.errors import ResourceExhaustedError, TypeError
from tapec.frames import here, origin
from tapec.ir.core import Module, clone_function
from tapec.ir.substitution import substitute_symbols, unify
from tapec.recording import active_tapes, inspectors, tracing
from tapec.structure import flatten, unflatten
from tapec.tensor import Array, EagerTensor, Tensor, as_array
from tapec.tracing import Trace, TracedTensor
from tapec.variable import Variable

if TYPE_CHECKING:
    from tapec.compiled.function import CompiledFunction


class Program:
    """One traced and compiled signature of a function.

    Attributes:
        module: the program as traced.
        executable: its native code.
        captures: what it reads from outside: Variables, Tensors, NumPy arrays.
        pattern: the types of tensors that it was traced for, with symbols for sizes that are open.
        guards: what it assumes of these sizes; ``guard_places`` has the user's line for each.
        general: the program itself, or that of which this one is for given sizes.
        state: the Python state that it was traced with, and whether that is still so.
    """

    def __init__(
        self,
        owner: CompiledFunction[Any, Any],
        inputs: Sequence[Any],
        spec: Any,
        has_kwargs: bool,
        *,
        compiled: bool = True,
    ) -> None:
        """Trace the function for inputs like these and compile the program, if it is to be run."""
        trace = Trace(owner.name)
        trace.hosts = []
        with tracing(trace), explained_breakpoints():
            names = iter(_argument_names(owner.python_function, inputs, spec, has_kwargs))
            traced = [
                trace.input(i.type, next(names, None)) if isinstance(i, Tensor) else i
                for i in inputs
            ]
            args, kwargs = _arguments(spec, traced, has_kwargs)
            witness = Witness(owner.name, owner.python_function, _state(inputs))
            with witness.watching():
                result = conversion.call(owner.python_function, owner.autograph, args, kwargs)
            self._leaves, self._spec = flatten(result, parts=True)
            self._check_leaves(trace)
            trace.finish([leaf for leaf in self._leaves if isinstance(leaf, TracedTensor)])
        self.state = witness.guard(trace)
        self.created_variables = trace.created_variables
        self.pattern = tuple(i.type for i in inputs if isinstance(i, Tensor))
        self.guards = tuple(trace.function.guards)
        self.guard_places = trace.guard_places
        self.general = self
        #: What its symbols are, in a program for given sizes.
        self.sizes: Mapping[str, int] = {}
        unify(trace.function)
        self.module = Module([trace.function])
        self.captures: list[Any] = trace.captures
        if self.created_variables or not compiled:
            return  # traced once more before it is compiled: the second trace makes none
        make = compile_module if owner.jit else evaluated_module
        self.executable: Executable = make(self.module)
        self._prepare(trace)

    def at(self, sizes: Mapping[str, int]) -> Program:
        """This program for given sizes: the same code, with the types of its results."""
        if not sizes:
            return self
        found = copy.copy(self)
        found.sizes = sizes
        found._output_types = [t.substitute(sizes) for t in self._output_types]
        return found

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
        if self.general._inspected is None:
            self.general._inspected = inspectors[0].program(self.module, self.effects)
        first = len(arrays)
        arrays += [_captured_array(captured, False) for captured in self.captures]
        outputs, states = self.general._inspected(arrays)
        for argument, array in states.items():
            self.captures[argument - first].adopt(array)
        return outputs

    def _wrap(self, outputs: Sequence[Tensor]) -> Any:
        """The results in the structure that the function returned."""
        tensors = iter(outputs)
        leaves = [next(tensors) if isinstance(v, TracedTensor) else v for v in self._leaves]
        return unflatten(self._spec, leaves)

    @cached_property
    def _callee(self) -> Callee:
        function = clone_function(self.module.entry)
        substitute_symbols(function, self.sizes)
        return Callee(function, self.captures, self._reads)

    def _run_on_tape(self, inputs: Sequence[Tensor]) -> Any:
        """Run the program and tell the tapes, which differentiate it as one operation."""
        where = origin()
        # The tensors hold the Variables' arrays, so those that are updated move to copies.
        operands = [*inputs, *self._callee.captured(self.captures)]
        results = self._execute(inputs)
        outputs = [EagerTensor(a, t) for a, t in zip(results, self._output_types, strict=True)]
        self._callee.tell_tapes(operands, outputs, where)
        return self._wrap(outputs)


def _captured_array(captured: Any, is_updated: bool) -> Array:
    if isinstance(captured, Variable):
        return captured.own_array() if is_updated else captured.array
    if isinstance(captured, Tensor):
        return captured.array
    return captured if captured.dtype.isnative else as_array(captured)


def _arguments(spec: Any, leaves: list[Any], has_kwargs: bool) -> tuple[list[Any], dict[str, Any]]:
    structure = unflatten(spec, leaves)
    return (structure[0], structure[1]) if has_kwargs else (structure, {})


def _state(inputs: Sequence[Any]) -> dict[str, Any]:
    """The arguments whose state the function may read, by what to call them."""
    return {f"args[{i}]": thing for i, thing in enumerate(inputs) if not isinstance(thing, Tensor)}


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
