"""`compile`: a Python function whose calls run as one native program.

The function is traced once for each signature (types of tensors, structure, Python values, Variables passed) and then
only called. A call gathers arrays, runs the program and wraps the results; it does not walk the user's code.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    ParamSpec,
    TypeVar,
    Unpack,
    overload,
)

from tapec.autograph import conversion
from tapec.compiled.call import Call
from tapec.compiled.choice import History, numbers_that_vary
from tapec.compiled.concrete import BoundFunction, ConcreteFunction
from tapec.compiled.decisions import run, settled
from tapec.compiled.dimensions import Dimensions, Dynamic, Family, family_key, forget
from tapec.compiled.guards.loans import PlaceKey, numbers_that_changed
from tapec.compiled.keys import Quick
from tapec.compiled.options import EngineName, Options, Settings, TargetName, hold_to_functions
from tapec.compiled.parameters import Parameters
from tapec.compiled.program import Program
from tapec.compiled.retraces import Cause, Change, Retrace, announce
from tapec.compiled.shelves import Shelf, Shelves
from tapec.compiled.traced import TracedProgram
from tapec.compiled.variants import Found, Variants
from tapec.compiler import lowered
from tapec.errors import RuntimeError, TapecError, ValueError
from tapec.frames import here
from tapec.garbage import collecting_rarely
from tapec.ir.core import Module
from tapec.recording import (
    active_tapes,
    current_trace,
    inspectors,
    plain_calls,
    program_listeners,
    refusal_listeners,
)
from tapec.variables.claims import survive_fork

if TYPE_CHECKING:
    from tapec.compiled.buffers import ProgramMemory
    from tapec.compiled.lowering import Lowered
    from tapec.compiled.profile import Profile
    from tapec.inspection.traced import TracedModule
    from tapec.traces.outcomes import Outcome

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound=TracedProgram)


@overload
def compile(func: Callable[P, R], **options: Unpack[Options]) -> CompiledFunction[P, R]: ...
@overload
def compile(
    func: None = None, **options: Unpack[Options]
) -> Callable[[Callable[P, R]], CompiledFunction[P, R]]: ...
def compile(
    func: Any = None,
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
    *,
    name: str | None = None,
    dims: Mapping[str, Any] | None = None,
    dynamic: Dynamic = "auto",
    jit: bool = True,
    target: TargetName = "cpu",
    engine: EngineName | None = None,
    memory_budget: float | None = None,
) -> Any:
    """Compile a function of tensors; use it as a decorator on a whole train step.

    Variables that the function reads are taken by reference and updated in place; Tensors and NumPy arrays from
    outside are inputs; other Python values are constants of the program. Called with other dtypes, ranks or Python
    values, it is compiled again for them; with another size, once more for all sizes. Branches and loops over tensors
    become part of the program; those over Python's values run while it is traced.

    Sizes that change from call to call are best declared, by ``dims`` or by None in ``input_signature``: then nothing
    is compiled twice. Inside they are None in ``x.shape``; ``tapec.shape(x)`` is a tensor, and serves as a size.

    Args:
        func: the function.
        input_signature: a `tapec.TensorSpec` for each positional argument, in lists and dicts as the arguments are.
            Arguments are converted to tensors that fit, or refused. None in a shape is any size.
        autograph: whether Python's control flow over tensors is converted, in it and in what it calls.
        jit_compile: without effect, as what is not named here.
        reduce_retracing: TensorFlow's name for ``dynamic="auto"``, which it is even if ``dynamic`` is False.
        name: of the program, for dumps; the function's own if None.
        dims: shapes by the name of the parameter: ``{"x": ("N", 784), "y": ("N",)}``. A name is one size in all
            places, None any size; ``"N<=128"`` has a bound, so that memory is laid out for it at once. Lists and dicts
            of arguments take lists and dicts of shapes.
        dynamic: what becomes of sizes that are not declared. ``"auto"``: at its second value, a size is left open
            for all values to come, where the function does not need the number in Python. ``True``: all are open
            from the first call on. ``False``: each shape has a program of its own.
        jit: whether programs become native code. If not, they go through the same passes and NumPy evaluates them,
            operation by operation: where no native code can be made, or to see whether it is to blame.
        target: ``"cuda"``: a GPU runs it, and keeps Variables; see ``docs/cuda.md``.
        engine: ``"numba"``, or for cuda ``"simulator"``: the same by another way, to check the usual one; slower.
        memory_budget: of scratch, in bytes or as a part of what a call takes without: see ``docs/memory.md``.

    Raises:
        ResourceExhaustedError: at a call, if it cannot run within ``memory_budget``.
        TypeError, ValueError: ``input_signature`` or ``dims`` does not fit the function, or at a call the arguments.
        ValueError: there is no such engine; or, at a call, the function makes a Variable at each call.
        OperatorNotAllowedInGraphError: at a call, if the function needs a tensor's value in Python.
    """
    options = dict(locals())  # all that is said of the function
    function = options.pop("func")
    return functools.partial(compile, **options) if function is None else _made(function, options)


def _made(function: Any, options: dict[str, Any]) -> Any:
    """What `compile` makes of a function, or of what wraps one."""
    if isinstance(function, CompiledFunction):
        return function
    if isinstance(function, staticmethod | classmethod):
        return type(function)(_made(function.__func__, options))
    hold_to_functions(function)
    parameters = Parameters(function)
    relaxed = options["reduce_retracing"] or options["experimental_relax_shapes"]
    sizes = Dimensions(
        parameters,
        input_signature=options["input_signature"],
        dims=options["dims"],
        dynamic=options["dynamic"] or ("auto" if relaxed else False),
    )
    return CompiledFunction(function, parameters, sizes, Settings.of(options))


class CompiledFunction(Generic[P, R]):
    """What `compile` returns: called like the function, with its results."""

    def __init__(
        self,
        function: Callable[P, R],
        parameters: Parameters,
        dimensions: Dimensions,
        settings: Settings,
    ) -> None:
        """Nothing is traced before the first call."""
        # Attributes of a callable object are its own affair: copies could hide the methods of this class.
        functools.update_wrapper(self, function, updated=())
        self.python_function = function
        self.parameters = parameters
        self.settings = settings
        self.name = settings.name or str(getattr(function, "__name__", type(function).__name__))
        self._dimensions = dimensions
        self._shelves = Shelves()
        self._history = History()
        self._traces = 0
        self._retraces: list[Retrace] = []
        #: Places of Python's state whose numbers change from call to call.
        self.varying: set[PlaceKey] = set()
        self._is_method = False
        #: What a call of tensors tries first, and while numbers are looked at; see `Program.quick`.
        self._quick: Callable[..., Any] | None = None
        self._quick_look: Callable[..., Any] | None = None
        self._lock = threading.RLock()
        survive_fork(self, "_lock")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if current_trace() is not None or plain_calls:
            # Part of the outer program, or for debugging.
            return conversion.call(self.python_function, self.settings.autograph, args, kwargs)  # type: ignore[no-any-return]
        if not kwargs:
            quick = self._quick_look if inspectors else self._quick
            if quick is not None and not active_tapes():
                result = quick(*args)
                if result is not NotImplemented:
                    return result  # type: ignore[no-any-return]
        leaves = Quick()
        found = self._find_quickly(leaves, args, kwargs)
        if found is not None and found[0].decision is None:
            program, numbers = found
            return program.run(leaves.tensors, numbers)  # type: ignore[no-any-return]
        return run(self, Call(self.parameters, *self._bound(args, kwargs)))  # type: ignore[no-any-return]

    def _find_quickly(self, leaves: Quick, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The program for arguments that nothing has to be asked about; ``leaves`` gets what they are made of."""
        if not kwargs:
            key = leaves.key(self.parameters, self.parameters.completed(args), kwargs)
        elif self._dimensions.signature is None:
            key = leaves.key(self.parameters, *self.parameters.bind(args, kwargs))
        else:
            return None
        if key is None:
            return None
        variants = self._shelves.find(key, leaves.objects)
        found = None if variants is None else variants.find(leaves.numbers)
        if found is not None and not kwargs and len(found[0].pattern) == len(args) == len(key):
            # All arguments are tensors: the next ones may be like these.
            self._quick, self._quick_look = found[0].quick, found[0].quick_look
        return found

    def program_for(self, call: Call, shelf: Shelf | None = None) -> Found:
        """The program for a call, and arrays for its numbers; on a shelf, if it is for outcomes of conditions."""
        found = self.find(call, shelf)
        if found is None:
            with self._lock:
                found = self.find(call, shelf)
                if found is None:
                    found = self._new(call, shelf)
        return found

    def _bound(self, args: Any, kwargs: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """The arguments in the order of the parameters, as they are declared."""
        return self.parameters.bind(*self._dimensions.bind(args, kwargs))

    def find(self, call: Call, shelf: Shelf | None = None) -> Found | None:
        """The same, by the call's key; None if there is none."""
        if shelf is None:
            variants = self._shelves.find(call.key, call.objects)
        else:
            variants = shelf.programs.get(call.key)
        return None if variants is None else variants.find(call.numbers)

    def _new(self, call: Call, shelf: Shelf | None) -> Found:
        """A program for a call for which none was found by its key: one of other sizes, or a new one."""
        shelf, family = self._place_of(call, call.leaves, shelf)
        variants = shelf.programs.setdefault(call.key, Variants(call.objects))
        if (forgiven := variants.forgiven(call.numbers)) is not None:
            return forgiven
        start, before = time.perf_counter(), self._traces
        why = self._history.nearest_changes(call, shelf.path)
        for made in self._history.programs():
            self.varying.update(numbers_that_changed(made.state.places))
        # A trace may change the state that it reads: the call is for what was there before.
        program = self._dimensions.program(
            call.leaves,
            family,
            self._dimensions.declared(call.args, call.kwargs),
            lambda leaves: self._kept(self._trace(call, leaves, Program, shelf.path)),
            lambda program: program.admits(call.numbers) is not None,
        )
        variants.add(program)
        forget(shelf.programs)
        if program.decision is None:
            for hear in program_listeners:
                hear(self, call, program)
        if 0 < before < self._traces and not self._is_for_new_instance(why):
            spent = 1000 * (time.perf_counter() - start)
            self._retraces.append(Retrace.of(self.name, here(), why, spent))
            announce(self._retraces)
        traced = before < self._traces
        return program, program.first_numbers() if traced else program.admits(call.numbers) or ()

    def _is_for_new_instance(self, why: Sequence[Change]) -> bool:
        """Whether a method was traced for one more instance: each has its programs, so none was in vain."""
        return self._is_method and [c.cause for c in why if c.path == self.parameters.names[0]] == [
            Cause.OBJECT
        ]

    def _place_of(
        self, call: Call, leaves: Sequence[Any], shelf: Shelf | None = None
    ) -> tuple[Shelf, Family]:
        """Where programs for leaves like these are kept, and what they share."""
        key = family_key(leaves, call.form)
        home = self._shelves.home(call.objects, key)
        family = home.families.setdefault(key, Family())
        if shelf is None:
            return home, family
        # Behind a condition sizes have been what they were in front of it.
        return shelf, shelf.families.setdefault(key, Family(exact=[*family.exact]))

    def __getattr__(self, name: str) -> Any:
        """Attributes of the function."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.python_function, name)

    def __set_name__(self, owner: type, name: str) -> None:
        self._is_method = bool(self.parameters.names)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Compiled methods: the instance is one of the Python values of the signature."""
        return self if instance is None else BoundFunction(self, instance)

    def trace(self, *args: Any, **kwargs: Any) -> TracedModule:
        """The program for arguments like these, as traced; nothing runs, and no Variable changes.

        It shows itself: as text, in notebooks with colours, by ``html()`` with all passes, by ``svg()`` as a graph.

        Args:
            args: as in a call; a `tapec.TensorSpec` stands for a tensor, None in it for any size. Without any, those
                of the ``input_signature``.
            kwargs: as in a call.
        """
        from tapec.inspection.traced import TracedModule  # as in `_specified`

        return TracedModule(self.traced(*args, **kwargs).module.functions.values())

    def traced(self, *args: Any, **kwargs: Any) -> TracedProgram:
        """The same with what the program reads from outside; it has no code."""
        call, leaves = self._specified(args, kwargs)
        with self._lock:
            return self._trace(call, leaves, TracedProgram)

    def _specified(self, args: Any, kwargs: Any) -> tuple[Call, list[Any]]:
        """A call that nobody makes, and its leaves: with open sizes where that is declared, or asked for."""
        from tapec.compiled.lowering import specified  # who only calls does not need it

        call = Call(self.parameters, *self._bound(*specified(self._dimensions, args, kwargs)))
        declared = self._dimensions.declared(call.args, call.kwargs)
        return call, self._dimensions.opened(call.leaves, declared)

    @property
    def input_signature(self) -> Any:
        """The option of that name: a TensorSpec for each positional argument; None if it was not given."""
        declared = self._dimensions.signature
        return None if declared is None else declared.specs

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The function for arguments like these only, compiled; see `trace` for what they may be.

        Raises:
            TypeError, ValueError: what a call of the function raises while it is traced.
        """
        call, leaves = self._specified(args, kwargs)
        with self._lock:
            found = self.find(call)
            if found is None or found[0].decision is not None:
                program = self._kept(self._trace(call, leaves, Program))
                shelf, family = self._place_of(call, leaves)
                shelf.programs.setdefault(call.key, Variants(call.objects)).add(program)
                if not all(t.is_static for t in program.pattern):
                    family.keep(program)
            else:
                program = found[0]
        return ConcreteFunction(self, call, leaves, program)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """What becomes of the function for arguments like these (see `trace`): its text, its memory, its cost."""
        from tapec.compiled.lowering import Lowered  # as above

        return Lowered(self.trace(*args, **kwargs))

    def memory(self, *args: Any, **kwargs: Any) -> ProgramMemory:
        """What memory a call with arguments like these (see `trace`) takes, and which lines own it at the peak.

        Without arguments, what the latest program takes, if there is one. Shown in a notebook it is a picture.
        """
        if not (args or kwargs) and self.programs:
            from tapec.compiled.lowering import Lowered  # as above

            return Lowered(self.ir()).memory()
        return self.lower(*args, **kwargs).memory()

    def profile(self, *args: P.args, **kwargs: P.kwargs) -> Profile:
        """How long each kernel of a call with these arguments takes, with the line of yours that it computes.

        The program is compiled again, with a clock around each kernel, and run many times, for about half a second,
        on copies of its Variables: none changes. What it prints or calls in Python happens at each run.

        Raises:
            TargetError: there is no native code for the program.
        """
        from tapec.compiled.profile import profile_of  # as above

        call = Call(self.parameters, *self._bound(args, kwargs))
        program, numbers = settled(self, call)
        return profile_of(program, call.tensors, numbers)

    def _trace(
        self,
        call: Call,
        leaves: Sequence[Any],
        make: type[T],
        path: Sequence[Outcome] | None = None,
    ) -> T:
        """A new program, for a call whose arguments have these leaves: Tensors may have open sizes."""
        varying = numbers_that_vary(call, self._history.programs())
        with collecting_rarely(), self._telling():
            try:
                return self._traced(lambda v: make(self, call, leaves, v, path), varying)
            except builtins.TypeError as error:
                if isinstance(error, TapecError) or not (any(varying) or self.varying):
                    raise
            # It may be that code in C asked for a number of Python's own. If not, it is raised again.
            self.varying.clear()
            none = [False] * len(call.numbers)
            return self._traced(lambda v: make(self, call, leaves, v, path), none)

    @contextlib.contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell those who listen of an error inside."""
        try:
            yield
        except Exception:
            for hear in refusal_listeners:
                hear(self, None)
            raise

    def _traced(self, make: Callable[[Sequence[bool]], T], varying: Sequence[bool]) -> T:
        program = make(varying)
        if program.created_variables:
            program = make(varying)
            if program.created_variables:
                for hear in refusal_listeners:
                    hear(self, program)
                raise _created_again(self.name)
        return program

    def _kept(self, program: Program) -> Program:
        used = self._used()
        for made in self._history.programs():
            if made not in used:
                self._history.drop(made)
        self._history.add(program)
        self._traces += program.decision is None
        return program

    def forget_quick_way(self) -> None:
        """Let the next call look for its program."""
        self._quick = self._quick_look = None

    def retraces(self) -> list[Retrace]:
        """Why the function was traced again after its first call, each time; empty if it was not."""
        return list(self._retraces)

    def __repr__(self) -> str:
        count = len(self.programs)
        return f"<CompiledFunction {self.name}: {count} program{'s' * (count != 1)}>"

    @property
    def programs(self) -> list[Program]:
        """One for each signature met so far, and for each Python state; open sizes make no difference."""
        used = self._used()
        made = [p for p in self._history.programs() if p.decision is None]
        return [program for program in made if program in used]

    def _used(self) -> set[Program]:
        """The programs that calls may find."""
        return {program for shelf in self._shelves for program in shelf.used()}

    def ir(self, after: str | None = None) -> Module:
        """The program of the latest signature, as traced or after a pass of the default pipeline.

        Raises:
            RuntimeError: the function was not called yet.
        """
        if not self.programs:
            raise RuntimeError(
                f"{self.name} was not traced yet", location=here(), hint="call it once"
            )
        module = self.programs[-1].module
        return module if after is None else lowered(module, after)


def _created_again(name: str) -> ValueError:
    return ValueError(
        f"{name} makes a tapec.Variable at each call",
        location=here(),
        hint="make Variables once, outside of the compiled function, or keep them on an object",
    )
