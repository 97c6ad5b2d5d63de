"""`enable_check_numerics`: raise where the first number appears that is NaN or infinite.

Off, it costs nothing: nobody looks. On, every eager operation is looked at when it has run; eager gradients and
compiled functions run as programs with an alarm (`tapec.passes.alarm`). Compiled functions then update nothing by
themselves: Variables get their new values when all is well, so after the error they are those of the last whole step,
from which the program is run again to find who made the number.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tapec.alarms.culprit import (
    Watch,
    accusation,
    is_bad,
    made_bad,
    search,
    search_module,
    titled,
    told,
)
from tapec.compiler import compile_module, evaluated_module
from tapec.eager.composite import Step
from tapec.eager.signatures import Signature
from tapec.frames import here
from tapec.ir.core import Function, Module, Operation, clone_module
from tapec.ir.location import Location
from tapec.recording import inspectors
from tapec.tensor import Array, Tensor
from tapec.traces.callbacks import replaying
from tapec.traces.effects import Effects

#: Operations of inner gradients that are remembered: those of one large step.
_MOST_PLACES = 1 << 16

#: Finds who is to blame, while a gradient runs operation by operation; None where the operation itself is blamed.
_search: ContextVar[Callable[[], None] | None] = ContextVar("search", default=None)


def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> None:
    """From now on, raise as soon as any operation makes a number that is NaN or infinite.

    Whether eager or compiled, forwards or in a gradient of any order. The error names the operation, the line, the
    function that it is part of, how many of its elements are NaN, -Inf and +Inf, and the ranges of its operands; in a
    gradient, also the operation whose derivative it is, and its line. An operation that was given such numbers is not
    blamed for them. Variables that the failed call of a compiled function would have updated keep their values.

    Values that a compiled function need not compute are not looked at. For all threads. Off by default, as it takes
    time: up to half of a step's once more. Infinities that are given, as a mask's, or meant cost nothing more. What is
    evaluated again at each call, and so is slow, is a compiled step or a gradient that sums or multiplies bad numbers
    that it was given.

    Args:
        stack_height_limit: without effect: the error names the user's line.
        path_length_limit: without effect.
    """
    if not inspectors:
        inspectors.append(_Inspector())


def disable_check_numerics() -> None:
    """No longer raise at numbers that are NaN or infinite; see `enable_check_numerics`."""
    inspectors.clear()


class _Inspector:
    """What looks at operations, gradients and programs while checking is enabled."""

    def __init__(self) -> None:
        #: Lines of the latest operations that inner gradients ran: tapes know the line of the gradient alone.
        self._places: OrderedDict[int, Location | None] = OrderedDict()

    def operation(
        self, signature: Signature, inputs: Sequence[Tensor], outputs: Sequence[Tensor]
    ) -> None:
        """Look at an eager operation.

        Raises:
            InvalidArgumentError: it made what is bad.
        """
        for output in outputs:
            if is_bad(output._array):  # they are eager
                break
        else:
            return
        defn, results = signature.defn, [y.array for y in outputs]
        operands = [x.array for x in inputs]
        index = made_bad(defn, operands, signature.attrs, results)
        if index >= 0:
            search = _search.get()
            if search is not None:
                search()
                return
            place = here()
            what = titled(defn.name, "operation", place)
            raise told(accusation(what, index, operands, results, place, remedy=defn.remedy))

    def blames(self, steps: Sequence[Step], values: Sequence[Array]) -> bool:
        """Whether one of several operations, of which these are all the values, made what is bad."""
        if _search.get() is not None:
            return False
        for signature, places, result in steps:
            if signature.makes and is_bad(values[result]):
                operands = [values[p] for p in places]
                if made_bad(signature.defn, operands, signature.attrs, [values[result]]) >= 0:
                    return True
        return False

    def gradient(
        self, function: Function, arrays: Sequence[Array], origins: Mapping[Operation, Operation]
    ) -> None:
        """Find who is to blame in an eager gradient, a function of what the tape kept and of the seeds.

        Raises:
            InvalidArgumentError: an operation in it made what is bad.
        """
        search(function, arrays, origins, "operation")

    def watch(self) -> Watch:
        """What looks at an evaluation of a gradient."""
        return Watch()

    def replayed(self, op: Operation, results: Sequence[Tensor]) -> None:
        """Remember the line of an operation of a gradient."""
        self._places[results[-1].id] = op.location
        if len(self._places) > _MOST_PLACES:
            self._places.popitem(last=False)

    def place(self, result: int) -> Location | None:
        """The line that was remembered for a result."""
        return self._places.get(result)

    @contextmanager
    def searching(self, search: Callable[[], None]) -> Iterator[None]:
        """Call ``search`` where an operation that runs inside would be blamed: it is part of a gradient."""
        token = _search.set(search)
        try:
            yield
        finally:
            _search.reset(token)

    def program(self, module: Module, effects: Effects, native: bool, boxed: int) -> AlarmedProgram:
        """A compiled function's program that is looked at whenever it runs; NumPy evaluates it if not ``native``.

        It is called with so many Tensors, and then with what it captured; see `tapec.compiler.compile_module`.
        """
        return AlarmedProgram(module, effects, native, boxed)


class AlarmedProgram:
    """A program that raises at numbers that are NaN or infinite, and leaves its arguments alone.

    Attributes:
        updates: which result (by number among all results) is the new value of which argument.
        own: the numbers of the other results.
    """

    def __init__(self, module: Module, effects: Effects, native: bool, boxed: int) -> None:
        """Compile a module as it was traced; ``effects`` is what its calls leave to do.

        What NumPy evaluates has no alarm: who made what is bad is searched for at each call.
        """
        self.effects = effects
        effects.remember()
        self._has_effects = bool(effects)
        self.module = clone_module(module)
        self.updates = dict(module.entry.updates)
        self.own = [i for i in range(len(module.entry.returns)) if i not in self.updates]
        self.module.entry.updates.clear()
        self._has_alarm = native
        self.executable = (
            compile_module(self.module, "alarmed", boxed=boxed)
            if native
            else evaluated_module(self.module)
        )

    def __call__(self, arrays: Sequence[Array]) -> tuple[list[Array], dict[int, Array]]:
        """Run it; return the new arrays for results, and those for the arguments that are updated, by their number.

        Raises:
            InvalidArgumentError: an operation made what is bad, or a check of the program failed.
        """
        results = self.executable(*arrays)
        if not self._has_alarm or results.pop():
            with replaying():
                search_module(clone_module(self.module), arrays, self.effects.call)
        if self._has_effects:
            self.effects.settle(arrays, results)
        if not self.updates:
            return results, {}
        states = {argument: results[i] for i, argument in self.updates.items()}
        return [results[i] for i in self.own], states

    def boxed_at(self, sizes: Mapping[str, int]) -> Callable[..., Any] | None:
        """The program as `Executable.boxed_at` has it, if it leaves nothing else to do.

        It gives a Tensor or a list of all results, and NotImplemented where somebody has to look.
        """
        return self.executable.boxed_at(sizes) if self.effects.are_checks else None

    def natively(
        self, boxed: Callable[..., Any], inputs: Sequence[Tensor], captures: Sequence[Any]
    ) -> Any:
        """The results as Tensors, from Tensors and what the program captured; Variables get their new values.

        ``boxed`` is what `boxed_at` gave. NotImplemented where `__call__` has to see to it: nothing was updated.
        """
        results = boxed(*inputs, *captures)
        if results is NotImplemented:
            return results
        results = results if type(results) is list else [results]
        if self._has_effects and results.pop().array:
            return NotImplemented
        first = len(inputs)
        for i, argument in self.updates.items():
            captures[argument - first].adopt(results[i]._array)  # it is eager
        return [results[i] for i in self.own]
