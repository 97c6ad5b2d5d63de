"""The options of `tapec.compile`: how type checkers see them, what is kept of them, and what is refused."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, TypedDict

from tapec.compiled.dimensions import Dynamic
from tapec.compiler import ENGINES
from tapec.errors import TypeError, ValueError
from tapec.frames import here

TargetName = Literal["cpu", "cuda", "cuda:0", "cuda:1", "cuda:2", "cuda:3"]
EngineName = Literal["llvm", "numba", "device", "simulator"]


class Options(TypedDict, total=False):
    """What may be said of a compiled function by name; see `compile`."""

    input_signature: Sequence[Any] | None
    autograph: bool
    jit_compile: bool | None
    reduce_retracing: bool
    experimental_implements: str | None
    experimental_autograph_options: Any
    experimental_attributes: Any
    experimental_relax_shapes: bool | None
    experimental_compile: bool | None
    experimental_follow_type_hints: bool | None
    name: str | None
    dims: Mapping[str, Any] | None
    dynamic: Dynamic
    jit: bool
    target: TargetName
    engine: EngineName | None
    memory_budget: float | None


class Settings(NamedTuple):
    """What the trace and the compilation of a function go by; see `tapec.compile`.

    Attributes:
        target: which of the runtime's targets its programs are for.
    """

    name: str | None
    autograph: bool
    jit: bool
    target: str
    memory_budget: float | None

    @property
    def is_native(self) -> bool:
        """Whether LLVM compiles the programs for this machine."""
        return self.jit and self.target == "cpu"

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Settings:
        """Those among all options.

        Raises:
            ValueError: there is no such target or engine, or a budget is neither bytes nor a part.
        """
        found = {name: options[name] for name in cls._fields}
        found["memory_budget"] = _budget_of(options["memory_budget"])
        found["target"] = _compiler_of(options["target"], options["engine"])
        return cls(**found)


def _compiler_of(target: str, engine: str | None) -> str:
    """The compiler for a target, one of `tapec.compiler.ENGINES`; None is the usual one.

    Raises:
        ValueError: there is no such target, or it has no such compiler.
    """
    name, _, number = target.partition(":")
    if name not in ENGINES or (
        (number or ":" in target) and not (name == "cuda" and number.isdecimal())
    ):
        hint = f"{', '.join(ENGINES)}; cuda:1 is the second device"
        raise ValueError(f"there is no target {target!r}", location=here(), hint=hint)
    engines = ENGINES[name]
    if engine is None:
        engine = next(iter(engines))
    if engine not in engines:
        hint = "; ".join(f"{', '.join(e)} for target={t!r}" for t, e in ENGINES.items())
        raise ValueError(
            f"there is no engine {engine!r} for target={name!r}", location=here(), hint=hint
        )
    return f"{engines[engine]}:{number}" if number else engines[engine]


def _budget_of(budget: Any) -> float | None:
    """Bytes as an int, a part as a float; NumPy's numbers are taken as well.

    Raises:
        ValueError: it is neither.
    """
    if budget is None:
        return None
    is_whole = isinstance(budget, Integral)
    if is_whole and type(budget) is not bool and int(budget) >= 0:
        return int(budget)
    if isinstance(budget, Real) and not is_whole and 0 < float(budget) <= 1:
        return float(budget)
    raise ValueError(
        f"memory_budget is bytes, or a part such as 0.5, got {budget!r}",
        location=here(),
        hint="memory_budget=65536 is 64 KiB; memory_budget=0.5 is half of what a call takes without",
    )


def hold_to_functions(function: Any) -> None:
    """Refuse what is no function, or one whose body does not run when it is called."""
    if not callable(function):
        raise TypeError(f"compile takes a function, got {type(function).__name__}", location=here())
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise TypeError(
            f"{function.__name__} is a generator or coroutine, whose body runs after its call returned",
            location=here(),
            hint="compile a function that returns its results, and call it from there",
        )
