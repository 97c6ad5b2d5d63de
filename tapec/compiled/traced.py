"""What one trace of a function gave: its program, and what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapec.autograph import conversion
from tapec.compiled.breakpoints import explained_breakpoints
from tapec.compiled.builds import Build
from tapec.compiled.comparison import describe
from tapec.compiled.decisions import Decision
from tapec.compiled.guards.loans import Loans
from tapec.compiled.guards.witness import Witness
from tapec.compiled.results import kept_result, refuse_changed
from tapec.compiled.retraces import Change
from tapec.ir.core import Module
from tapec.ir.substitution import unify
from tapec.recording import tracing
from tapec.structure import flatten, unflatten
from tapec.tensor import EagerTensor, Tensor
from tapec.traces.outcomes import Outcome, Outcomes, Undecided, keep_condition
from tapec.traces.recipes import Recipe, Recorder
from tapec.traces.scalars import HostNumber, is_number
from tapec.tracing import Trace, TracedTensor

if TYPE_CHECKING:
    from tapec.compiled.call import Call
    from tapec.compiled.function import CompiledFunction


class TracedProgram:
    """A function's program for one signature, as traced.

    Attributes:
        description: the arguments of the call that was traced.
        module: the program.
        captures: what it reads from outside: Variables, Tensors, NumPy arrays.
        pattern: the types of tensors that it was traced for, with symbols for sizes that are open.
        guards: what it assumes of these sizes; ``guard_places`` has the user's line for each.
        build: the settings that it was compiled under.
        state: the Python state that it was traced with, and whether that is still so.
        path: the outcomes of conditions that it is for.
        decision: the condition that it computes, if that is all that it does; see `tapec.compiled.decisions`.
    """

    def __init__(
        self,
        owner: CompiledFunction[Any, Any],
        call: Call,
        leaves: Sequence[Any],
        varying: Sequence[bool],
        path: Sequence[Outcome] | None = None,
    ) -> None:
        """Trace the function for a call like this one.

        Args:
            owner: the function.
            call: its arguments.
            leaves: what these are made of; Tensors have the types that the program is for.
            varying: which of the numbers among them are inputs, not constants.
            path: the outcomes that are known of conditions; None if the program has to serve all.
        """
        self.pattern = tuple(leaf.type for leaf in leaves if isinstance(leaf, Tensor))
        self.description = call.description.with_types(iter(self.pattern))
        self.path = tuple(path or ())
        self.decision: Decision | None = None
        self.trace = trace = Trace(owner.name)
        trace.hosts, trace.numbers = [], Recorder()
        trace.outcomes = None if path is None else Outcomes(path)
        witness = self._traced(owner, call, leaves, varying)
        self.state = witness.guard(trace, owner.settings.is_native)
        trace.end()
        self.created_variables = trace.created_variables
        self.guards = tuple(trace.function.guards)
        self.guard_places = trace.guard_places
        self.build = Build(owner)
        unify(trace.function)
        self.module = _budgeted(Module([trace.function]), owner.settings.memory_budget)
        self.captures: list[Any] = trace.captures
        self._number_places = [i for i, c in enumerate(self.captures) if type(c) is HostNumber]
        #: What a call computes of its numbers before the program runs; None if it passes none and reads none.
        self.recipe: Recipe | None = None
        if trace.numbers.leaves:
            self.recipe = trace.numbers.close([self.captures[i].step for i in self._number_places])
        #: Whether it serves every call of its signature.
        self.is_unconditional = self.recipe is None and not self.state.places

    def __repr__(self) -> str:
        types = ", ".join(map(str, self.pattern))
        outcomes = [
            f"{o.location.describe() if o.location else '?'} is {o.value}" for o in self.path
        ]
        given = f" where {' and '.join(outcomes)}" if outcomes else ""
        return f"<{type(self).__name__} {self.module.entry.name}({types}){given}>"

    def _traced(
        self,
        owner: CompiledFunction[Any, Any],
        call: Call,
        leaves: Sequence[Any],
        varying: Sequence[bool],
    ) -> Witness:
        """Run the function on what stands for its arguments; what heard which state it reads."""
        trace = self.trace
        assert trace.numbers is not None
        with tracing(trace), explained_breakpoints():
            given = self._inputs(trace, call, leaves, varying)
            structure = unflatten(call.spec, given)
            args, kwargs = structure if call.has_kwargs else (structure, {})
            loans = Loans(trace.numbers, owner.varying)
            function = owner.python_function
            witness = Witness(owner.name, function, self._state(leaves), loans)
            try:
                with witness.watching():
                    result = conversion.call(function, owner.settings.autograph, args, kwargs)
            except Undecided as end:
                self._decide(end)
                result = end.condition
            else:
                refuse_changed(owner.name, structure, call.spec, given)
            if trace.outcomes is not None:
                trace.outcomes.require_all(owner.name)
            found, self._spec = flatten(result, parts=True)
            self._leaves = [kept_result(leaf, trace) for leaf in found]
            trace.finish([leaf for leaf in self._leaves if isinstance(leaf, TracedTensor)])
        if self.decision is not None:
            keep_condition(trace.function, self.decision.location)
            trace.hosts = []
        return witness

    def _decide(self, end: Undecided) -> None:
        """Be a program that computes a condition, and updates nothing."""
        self.decision = Decision(self.path, end)
        self.trace.states.clear()

    def _inputs(
        self, trace: Trace, call: Call, leaves: Sequence[Any], varying: Sequence[bool]
    ) -> list[Any]:
        """What the function is called with while it is traced."""
        assert trace.numbers is not None
        varies = iter(varying)
        given = []
        for leaf, held, described in zip(
            leaves, call.leaves, self.description.leaves(), strict=True
        ):
            path = described.path
            if isinstance(leaf, Tensor):
                leaf = trace.input(leaf.type, path if path.isidentifier() else None)
                if isinstance(held, EagerTensor):
                    trace.call.known[leaf.value] = held.array
            elif is_number(leaf):
                leaf = trace.numbers.argument(leaf, path, next(varies))
            given.append(leaf)
        return given

    def _state(self, leaves: Sequence[Any]) -> dict[str, Any]:
        """The arguments whose state the function may read, by their paths."""
        named = zip(self.description.leaves(), leaves, strict=True)
        return {d.path: leaf for d, leaf in named if not isinstance(leaf, Tensor)}

    def admits(self, numbers: Sequence[Any]) -> tuple[Any, ...] | None:
        """Arrays for the numbers that are inputs, if the program is for these and for the state of now; else None."""
        if not (self.build.fits and self.state.holds()):
            return None
        if self.recipe is None:
            return ()
        found = self.recipe.run(numbers)
        return found if type(found) is tuple else None

    @property
    def result_paths(self) -> list[str]:
        """Where in what the function returns each tensor is that a call computes: ``["loss"]``, ``[0].mean``."""
        described = describe(unflatten(self._spec, self._leaves), "").leaves()
        pairs = zip(described, self._leaves, strict=True)
        return [found.path for found, leaf in pairs if isinstance(leaf, TracedTensor)]

    def first_numbers(self) -> tuple[Any, ...]:
        """Arrays for the numbers of the call that was traced."""
        return () if self.recipe is None else self.recipe.first()

    def refusal(self, numbers: Sequence[Any]) -> list[Change]:
        """Why `admits` gives None."""
        return (
            self.build.changes()
            + self.state.changes()
            + ([] if self.recipe is None else self.recipe.refusal(numbers))
        )


def _budgeted(module: Module, budget: float | None) -> Module:
    """A module that passes hold to a budget of memory, if there is one."""
    if budget is not None:
        module.entry.attrs["memory_budget"] = budget
    return module
