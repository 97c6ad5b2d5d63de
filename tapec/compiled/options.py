"""What may be said of a compiled function by name, and what is refused."""

from __future__ import annotations

import inspect
from typing import Any, Literal

from tapec.compiler import ENGINES
from tapec.errors import TypeError, ValueError
from tapec.frames import here

TargetName = Literal["cpu", "cuda"]
EngineName = Literal["llvm", "numba", "device", "simulator"]


def compiler_of(target: str, engine: str | None) -> str:
    """The compiler for a target, one of `tapec.compiler.ENGINES`; None is the usual one.

    Raises:
        ValueError: there is no such target, or it has no such compiler.
    """
    if target not in ENGINES:
        raise ValueError(f"there is no target {target!r}", location=here(), hint=", ".join(ENGINES))
    engines = ENGINES[target]
    if engine is None:
        engine = next(iter(engines))
    if engine not in engines:
        raise ValueError(f"there is no engine {engine!r}", location=here(), hint=", ".join(engines))
    return engines[engine]


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


def hold_to_budgets(budget: Any) -> None:
    """Refuse what is neither bytes nor a part."""
    is_number = isinstance(budget, int | float) and not isinstance(budget, bool)
    if budget is not None and not (
        is_number and (0 <= budget if type(budget) is int else 0 < budget <= 1)
    ):
        raise ValueError(
            f"memory_budget is bytes, or a part such as 0.5, got {budget!r}", location=here()
        )
