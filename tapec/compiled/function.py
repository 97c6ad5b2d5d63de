"""`compile`: a Python function whose calls run as one native program.

The function is traced once for each signature (types of tensors, structure, Python values, Variables passed) and then
only called. A call gathers arrays, runs the program and wraps the results; it does not walk the user's code.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from tapec.compiled.keys import as_input, leaf_key
from tapec.compiled.program import Program
from tapec.compiler import lowered
from tapec.errors import RuntimeError, TypeError, ValueError
from tapec.frames import here
from tapec.ir.core import Module
from tapec.recording import current_trace, plain_calls
from tapec.structure import flatten
from tapec.tensor import EagerTensor, Tensor

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
        inputs = [as_input(leaf) for leaf in leaves]
        plain = not kwargs and all(type(leaf) is EagerTensor for leaf in args)
        key = tuple(i.type for i in inputs) if plain else (spec, tuple(map(leaf_key, inputs)))
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


def _created_again(name: str) -> ValueError:
    return ValueError(
        f"{name} makes a tapec.Variable at each call",
        location=here(),
        hint="make Variables once, outside of the compiled function, or keep them on an object",
    )
