"""One traced and compiled signature of a function, and how a call runs it."""

from __future__ import annotations

import builtins
import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tapec.at_line import at_home, on_host
from tapec.compiled.boxes import deal_in_tensors
from tapec.compiled.differentiation import Callee
from tapec.compiled.traced import TracedProgram
from tapec.compiler import Executable, compile_module, evaluated_module, is_mismatch
from tapec.errors import ResourceExhaustedError
from tapec.frames import here, origin
from tapec.ir.core import clone_function
from tapec.ir.dims import plain_symbol, substitute
from tapec.ir.errors import CheckError, InternalError, TargetError
from tapec.ir.lazy import lazy
from tapec.ir.substitution import substitute_symbols
from tapec.recording import active_tapes, inspectors
from tapec.runtime.residence import AWAY
from tapec.structure import sized, unflatten
from tapec.tensor import Array, EagerTensor, Tensor, as_array
from tapec.tensors.device_tensor import held_or_array, of_result
from tapec.tensors.type_spec import TensorSpec
from tapec.traces.effects import Effects, raised
from tapec.tracing import TracedTensor
from tapec.variable import Variable
from tapec.variables.alignment import aligned_copy
from tapec.variables.claims import Access

if TYPE_CHECKING:
    from tapec.alarms.numerics import AlarmedProgram
    from tapec.compiled.call import Call
    from tapec.compiled.function import CompiledFunction
    from tapec.traces.outcomes import Outcome

R = TypeVar("R")

deal_in_tensors()


class Program(TracedProgram):
    """One traced and compiled signature of a function.

    Attributes:
        executable: its native code.
        general: the program itself, or that of which this one is for given sizes.
    """

    def __init__(
        self,
        owner: CompiledFunction[Any, Any],
        call: Call,
        leaves: Sequence[Any],
        varying: Sequence[bool],
        path: Sequence[Outcome] | None = None,
    ) -> None:
        """Trace the function for a call like this one and compile the program; see `TracedProgram`."""
        super().__init__(owner, call, leaves, varying, path)
        self.general = self
        #: What its symbols are, in a program for given sizes.
        self.sizes: Mapping[str, int] = {}
        if self.created_variables:
            return  # traced once more before it is compiled: the second trace makes none
        self.executable = self._compiled(owner)
        # Passes may have had to assume more.
        self.guards = tuple(dict.fromkeys((*self.guards, *self.executable.signature.guards)))
        self._prepare()

    def _compiled(self, owner: CompiledFunction[Any, Any]) -> Executable:
        """The program to call."""
        boxed = len(self.module.entry.args) - len(self.captures)
        try:
            if not owner.settings.jit:
                return evaluated_module(self.module)
            return compile_module(self.module, boxed=boxed, target=owner.settings.target)
        except (TargetError, InternalError) as error:
            # It is about the machine: of a program it would know the line.
            error.location = error.location or here()
            raise
        except MemoryError as error:
            raise ResourceExhaustedError(
                f"no memory to compile {self.module.entry.name}: {str(error) or 'none was given'}",
                location=here(),
            ) from None

    def at(self, sizes: Mapping[str, int]) -> Program:
        """This program for given sizes: the same code, with the types of its results."""
        if not sizes:
            return self
        found = copy.copy(self)
        found.sizes = sizes
        found._output_types = [t.substitute(sizes) for t in self._output_types]
        found._spec = sized(self._spec, self._leaves, sizes)
        found._find_quick_ways()
        return found

    def _prepare(self) -> None:
        """Work out what every call would have to find out again."""
        trace = self.trace
        function = trace.function
        places = {op: i for i, op in enumerate(function.block.ops)}
        #: Where the program reads Variables, for tapes outside: those captured, each with places in its block.
        self._reads = {
            i: [places[value.op] for value in trace.values_behind(v) if value.op in places]
            for i, v in enumerate(self.captures)
            if isinstance(v, Variable)
        }
        updated = set(function.updates.values())
        first = len(function.args) - len(self.captures)
        self._updates = [first + i in updated for i in range(len(self.captures))]
        # Nobody writes into a Tensor's array, and arguments are Tensors by then; `Variable.own_array` moves a Variable
        # to a copy where somebody else has its array. What else is captured may be an array of the user's.
        kept = [i for i, v in enumerate(self.captures) if i in self._reads or isinstance(v, Tensor)]
        steady = {*range(first), *(first + i for i in kept)}
        self.executable.steady.update(steady - updated)
        self._output_types = [
            v.tensor for i, v in enumerate(function.returns) if i not in function.updates
        ]
        #: The program that raises at numbers that are NaN or infinite, once it was asked for.
        self._inspected: AlarmedProgram | None = None
        variables = [v for v in self.captures if isinstance(v, Variable)]
        written = [v for v, writes in zip(self.captures, self._updates, strict=True) if writes]
        self._access = Access(variables, written) if variables else None
        self.effects = Effects(self.module, self.executable.checks, trace.hosts or ())
        self._has_effects = bool(self.effects)
        traced = [isinstance(leaf, TracedTensor) for leaf in self._leaves]
        self._is_single = traced == [True] and self._spec is None
        self._find_quick_ways()

    def _find_quick_ways(self) -> None:
        """What is native from Tensors to Tensors, for the sizes that the program is for."""
        #: The program as it takes Tensors and Variables and makes Tensors, if it can and leaves nothing else to do.
        self._boxed = self.executable.boxed_at(self.sizes) if self.effects.are_checks else None
        #: The program as a call of Tensors alone may run it, with all that a call has to look at; see `_quick_way`.
        self.quick = self._quick_way(self._boxed, self._natively)
        #: The same of the program that raises at numbers, once it was asked for.
        self._boxed_look: Callable[..., Any] | None = None
        self.quick_look: Callable[..., Any] | None = None

    def _quick_way(
        self, native: Callable[..., Any] | None, run: Callable[..., Any]
    ) -> Callable[..., Any] | None:
        """A function of arrays and Tensors that gives the results; NotImplemented where `run` has to; None if never.

        It does not look for tapes or inspectors. ``run`` is for what ``native`` cannot do alone.
        """
        captures = self.captures
        if native is None or self.recipe is not None or self.decision is not None:
            return None
        if self.is_unconditional and self._is_single and not (captures or self._has_effects):
            return native

        def quick(*args: Any) -> Any:
            return run(args, captures) if self.state.holds() else NotImplemented

        return quick

    def _natively(self, inputs: Sequence[Any], captures: Sequence[Any]) -> Any:
        """The results, without Python between the Tensors and the kernels; NotImplemented where that cannot be."""
        assert self._boxed is not None
        if AWAY:
            return NotImplemented  # some Variables are on a device
        if self._access is not None and not self._access.is_free():
            return NotImplemented
        # From here to the end of the program this thread keeps the interpreter, so the step is atomic.
        results = self._boxed(*inputs, *captures)
        if results is NotImplemented:
            return results
        if self._has_effects:
            results = results if type(results) is list else [results]
            if results.pop().array:
                # Nothing was updated: run again, it is told which check failed.
                return NotImplemented
            return results[0] if self._is_single else self._wrap(results)
        if self._is_single:
            return results
        return self._wrap(results if type(results) is list else [results])

    def _natively_looked_at(self, inputs: Sequence[Any], captures: Sequence[Any]) -> Any:
        """The same by the program with an alarm, which lets others wait until Variables have their new values."""
        inspected, boxed = self.general._inspected, self._boxed_look
        assert inspected is not None
        assert boxed is not None
        outputs = self.hold(lambda: inspected.natively(boxed, inputs, captures))
        if outputs is NotImplemented:
            return outputs
        return outputs[0] if self._is_single else self._wrap(outputs)

    def run(self, inputs: Sequence[Tensor], numbers: Sequence[Array] = ()) -> Any:
        """Run the program on tensors of the traced types and what `admits` gave."""
        captures = self._with_numbers(numbers) if numbers else self.captures
        tapes = active_tapes()
        if tapes:
            return self._run_on_tape(inputs, captures)
        if self._boxed is not None and not inspectors:
            made = self._natively(inputs, captures)
            if made is not NotImplemented:
                return made
        if self._has_effects or inspectors:
            results = self._execute(inputs, captures)
        else:
            try:
                results = self._call(inputs, captures, self.executable.call_raw)
            except builtins.TypeError as error:
                if not is_mismatch(error):
                    raise
                results = self._call(inputs, captures, self.executable)
        make = of_result if self.executable.resident else EagerTensor
        if self._is_single:
            return make(results[0], self._output_types[0])
        return self._wrap([make(a, t) for a, t in zip(results, self._output_types, strict=True)])

    @property
    def reads_variables(self) -> bool:
        """Whether it reads or updates any."""
        return self._access is not None

    def outcome(self, inputs: Sequence[Tensor], numbers: Sequence[Array] = ()) -> bool:
        """What the condition is that it computes; see `tapec.compiled.decisions`."""
        (found,) = self._execute(inputs, self._with_numbers(numbers))
        return bool(on_host(found))

    def arrays(self, inputs: Sequence[Tensor]) -> list[Array]:
        """Copies of the arrays that the first call passed to the program: of its tensors, and of what it captured."""
        captures = list(self.captures)
        for place, number in zip(self._number_places, self.first_numbers(), strict=True):
            captures[place] = number
        arrays = [x.array for x in inputs] + [_captured_array(c, False) for c in captures]
        return [np.array(at_home(array)) for array in arrays]

    def _call(
        self, inputs: Sequence[Tensor], captures: Sequence[Any], native: Callable[..., R]
    ) -> R:
        """Call with the arrays of inputs and captures, by the rules of `tapec.variables.claims`.

        Raises:
            ResourceExhaustedError: there is no memory for scratch or results; no Variable was changed.
            InternalError: a device failed.
        """

        def take() -> list[Array]:
            if self.executable.resident:
                held: list[Array] = [held_or_array(x) for x in inputs]
                return [*held, *map(_held_by_device, captures, self._updates)]
            arrays = [x.array for x in inputs]
            if captures:
                arrays += map(_captured_array, captures, self._updates)
            if AWAY:
                arrays = list(map(at_home, arrays))
            return arrays

        try:
            return native(*take()) if self._access is None else self._access.run(take, native)
        except MemoryError as error:
            raise self._exhausted(inputs, error) from None
        except InternalError as error:  # of a device
            error.location = error.location or here()
            raise

    def _exhausted(self, inputs: Sequence[Tensor], error: MemoryError) -> ResourceExhaustedError:
        """What to say when there is no memory, which native code asks for before it writes anything."""
        arena: Any = self.executable.arena_bytes
        for pattern, given in zip(self.pattern, inputs, strict=True):
            for dim, size in zip(pattern.shape, given.type.shape, strict=True):
                name = plain_symbol(dim)
                if name is not None:
                    arena = substitute(arena, {name: size})
        needed = f"{arena:,}" if isinstance(arena, int) else str(arena)
        return ResourceExhaustedError(
            f"no memory for a call of {self.module.entry.name}, which takes {needed} bytes beside its results "
            f"({str(error) or 'none was given'}); no Variable was changed",
            location=here(),
            hint="f.memory(...) shows the lines that own them; tapec.compile(memory_budget=...) computes some again",
        )

    def own_arrays(self, inputs: Sequence[Tensor], numbers: Sequence[Array] = ()) -> list[Array]:
        """What a call would hand to the program, with copies of Variables: running it then changes none."""
        captures = self._with_numbers(numbers)

        def take() -> list[Array]:
            held = [_captured_array(captured, False) for captured in captures]
            return [
                aligned_copy(at_home(a)) if isinstance(c, Variable) else a
                for c, a in zip(captures, held, strict=True)
            ]

        return [*(x.array for x in inputs), *self.hold(take)]

    def _with_numbers(self, numbers: Sequence[Array]) -> list[Any]:
        """The captures, with what `admits` gave in the places of numbers."""
        captures = self.captures
        if numbers:
            captures = captures.copy()
            for place, number in zip(self._number_places, numbers, strict=True):
                captures[place] = number
        return captures

    def _execute(self, inputs: Sequence[Tensor], captures: Sequence[Any]) -> list[Array]:
        """The program's results as new arrays, if it is to be looked at or has checks.

        Raises:
            InvalidArgumentError: a check failed; no Variable was changed.
        """
        if inspectors:
            if self._access is None:
                return self._inspect(inputs, captures)
            return self.hold(lambda: self._inspect(inputs, captures))
        try:
            arrays, results = self._call(inputs, captures, lambda *a: (a, self.executable(*a)))
        except CheckError as error:  # of a program that NumPy evaluates
            raise raised(error) from None
        self.effects.settle(arrays, results)
        return results

    def _inspect(self, inputs: Sequence[Tensor], captures: Sequence[Any]) -> list[Array]:
        inspected = self.general._inspected
        if inspected is None:
            native, effects = self.executable.native, self.effects
            inspected = inspectors[0].program(self.module, effects, native, len(inputs))
            self.general._inspected = inspected
        if self._boxed_look is None:
            self._boxed_look = inspected.boxed_at(self.sizes)
            self.quick_look = self._quick_way(self._boxed_look, self._natively_looked_at)
        arrays = [x.array for x in inputs]
        first = len(arrays)
        if captures:
            arrays += [at_home(_captured_array(captured, False)) for captured in captures]
        outputs, states = inspected(arrays)
        for argument, array in states.items():
            captures[argument - first].adopt(array)
        return outputs

    def hold(self, action: Callable[[], R]) -> R:
        """Do something while no other thread's step touches the Variables."""
        return action() if self._access is None else self._access.hold(action)

    def _wrap(self, outputs: Sequence[Tensor]) -> Any:
        """The results in the structure that the function returned."""
        tensors = iter(outputs)
        leaves = [next(tensors) if isinstance(v, TracedTensor) else v for v in self._leaves]
        return unflatten(self._spec, leaves)

    @lazy
    def result_specs(self) -> Any:
        """What a call returns, with a `tapec.TensorSpec` in the place of each tensor."""
        types = iter(self._output_types)
        leaves = [
            TensorSpec.from_tensor(Tensor(None, next(types))) if isinstance(v, TracedTensor) else v
            for v in self._leaves
        ]
        return unflatten(self._spec, leaves)

    @lazy
    def _callee(self) -> Callee:
        function = clone_function(self.module.entry)
        substitute_symbols(function, self.sizes)
        return Callee(function, self.captures, self._reads)

    def _run_on_tape(self, inputs: Sequence[Tensor], captures: Sequence[Any]) -> Any:
        """Run the program and tell the tapes, which differentiate it as one operation."""
        where = origin()

        def run() -> tuple[list[Tensor], list[Array]]:
            # The tensors hold the Variables' arrays, so those that are updated move to copies.
            operands = [*inputs, *self._callee.captured(captures)]
            return operands, self._execute(inputs, captures)

        operands, results = self.hold(run)
        outputs = [of_result(a, t) for a, t in zip(results, self._output_types, strict=True)]
        self._callee.tell_tapes(operands, outputs, where)
        return self._wrap(outputs)


def _held_by_device(captured: Any, is_updated: bool) -> Any:
    """What a program on a device takes of what was captured."""
    if isinstance(captured, Tensor):
        return held_or_array(captured)
    return _captured_array(captured, is_updated)


def _captured_array(captured: Any, is_updated: bool) -> Array:
    if isinstance(captured, Variable):
        return captured.own_array() if is_updated else captured._array
    if isinstance(captured, Tensor):
        return captured.array
    return captured if captured.dtype.isnative else as_array(captured)
