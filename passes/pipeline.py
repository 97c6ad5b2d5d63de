"""Pipelines: from text to typed passes, and running them under observation.

``"adjoint,prune,canonicalize{limit=16},cse"`` names passes, with options in braces; the name of a
pipeline in `tapec.passes.PIPELINES` stands for its passes. What breaks `ORDER` is refused before
anything runs, and the message holds the corrected text.
"""

from __future__ import annotations

import functools
import re
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from traceback import walk_tb
from types import CodeType
from typing import Any, get_type_hints

from tapec.ir.core import Module
from tapec.ir.errors import BudgetError, PassError, TapecError
from tapec.ir.guards import recording_guards
from tapec.passes import ORDER, PASSES, PIPELINES
from tapec.passes.table import Pass, corrected, violations

_STAGE = re.compile(r"\s*(?P<name>[\w-]+)\s*(?:\{(?P<options>[^{}]*)\})?\s*(?:,|$)")
_BOOL = {"true": True, "false": False}


@dataclass(frozen=True)
class Stage:
    """One pass of a pipeline with its options."""

    name: str
    options: Any

    @property
    def row(self) -> Pass:
        """The pass, as the table has it."""
        return PASSES[self.name]

    def __str__(self) -> str:
        """The text that `parse_pipeline` reads: options that are not the default."""
        default = type(self.options)()
        given = [
            f"{field.name}={_text(getattr(self.options, field.name))}"
            for field in fields(self.options)
            if getattr(self.options, field.name) != getattr(default, field.name)
        ]
        return f"{self.name}{{{','.join(given)}}}" if given else self.name


class Observer:
    """Sees a module on its way through a pipeline. Subclasses override what they look at."""

    def begin(self, module: Module, stages: Sequence[Stage]) -> None:
        """Called before the first pass."""

    def before(self, module: Module, index: int, stages: Sequence[Stage]) -> None:
        """Called before the pass number ``index``."""

    def after(
        self, module: Module, index: int, stages: Sequence[Stage], changed: bool, seconds: float
    ) -> None:
        """Called after the pass number ``index``, with what it returned and how long it took."""


def parse_pipeline(text: str) -> tuple[Stage, ...]:
    """Return the passes that a text names.

    Raises:
        PassError: the text does not parse, names what does not exist, or breaks the order.
    """
    stages: list[Stage] = []
    position = 0
    while position < len(text.rstrip()):
        match = _STAGE.match(text, position)
        if match is None:
            raise PassError(
                f"cannot read {text[position:].strip()!r} in the pipeline {text!r}",
                hint="write names with commas between them: adjoint,prune,canonicalize{limit=16}",
            )
        stages += _stages(match["name"], match["options"])
        position = match.end()
    _refuse_disorder(stages)
    return tuple(stages)


def _stages(name: str, options: str | None) -> Iterable[Stage]:
    if name in PASSES:
        return [Stage(name, _options(name, options or ""))]
    if name in PIPELINES and options is None:
        return parse_pipeline(PIPELINES[name])
    if name in PIPELINES:
        raise PassError(f"{name} is a pipeline and takes no options", hint=PIPELINES[name])
    raise PassError(
        f"unknown pass {name!r}",
        hint=f"passes: {', '.join(PASSES)}; pipelines: {', '.join(PIPELINES)}",
    )


def _options(name: str, text: str) -> Any:
    """The options in braces as the dataclass of the pass."""
    kind = PASSES[name].options
    types = get_type_hints(kind)
    known = [field.name for field in fields(kind)]
    given = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = (part.strip() for part in item.partition("="))
        key = key.replace("-", "_")
        if key not in known:
            has = f"its options: {', '.join(known)}" if known else "it has none"
            raise PassError(f"the pass {name} has no option {key!r}", hint=has)
        if not equals:
            raise PassError(f"the option {key!r} of {name} has no value", hint=f"{key}=…")
        given[key] = _value(name, key, value, types[key])
    return kind(**given)


def _value(name: str, key: str, text: str, kind: type[Any]) -> Any:
    try:
        return _BOOL[text.lower()] if kind is bool else kind(text)
    except (KeyError, ValueError):
        message = f"the option {key!r} of {name} is of type {kind.__name__}, got {text!r}"
        raise PassError(message) from None


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refuse_disorder(stages: Sequence[Stage]) -> None:
    names = [stage.name for stage in stages]
    broken = list(violations(names, PASSES, ORDER))
    if broken:
        lines = dict.fromkeys(f"{names[j]} stands before {names[i]}: {why}" for i, j, why in broken)
        repaired = ",".join(str(stages[i]) for i in corrected(names, PASSES, ORDER))
        raise PassError(
            "the pipeline breaks the order of passes\n  " + "\n  ".join(lines),
            hint=f"--passes={repaired}",
        )


def run_pipeline(
    module: Module,
    stages: Sequence[Stage],
    observers: Sequence[Observer] = (),
    *,
    stop_after: int | None = None,
) -> bool:
    """Run passes over a module, in place; return whether any changed it.

    Args:
        module: The program.
        stages: From `parse_pipeline`.
        observers: Look at the module before and after every pass, in this order.
        stop_after: Run this many passes and no more.

    Raises:
        TapecError: the program is wrong; the message says in which pass it was found.
        PassError: a pass, or what an observer looked at, failed.
    """
    changed = False
    for observer in observers:
        observer.begin(module, stages)
    for index in range(len(stages) if stop_after is None else min(stop_after, len(stages))):
        for observer in observers:
            observer.before(module, index, stages)
        start = time.perf_counter()
        did = _run_stage(module, stages[index])
        seconds = time.perf_counter() - start
        changed |= did
        for observer in observers:
            observer.after(module, index, stages, did, seconds)
    return changed


def _run_stage(module: Module, stage: Stage) -> bool:
    place = f"in pass {stage.name!r} of '@{module.entry.name}'"
    try:
        # What was assumed of symbolic dims may have to be assumed again, of what a pass writes.
        with recording_guards(module.entry):
            return stage.row.run(module, stage.options)
    except BudgetError:
        raise  # it is about the program, whatever pass found out
    except TapecError as error:
        # The user's mistake keeps its class: programs catch it.
        error.message = f"{place}: {error.message}"
        raise
    except Exception as error:
        if comes_from_outside(error):
            raise
        message = f"{place}: {type(error).__name__}: {error}"
        raise PassError(message, hint="this is a bug of the pass") from error


def comes_from_outside(error: Exception) -> bool:
    """Whether an error is no fault of what ran.

    There was no memory, a library cannot be loaded, or a handler of signals raised it meanwhile.
    """
    if isinstance(error, MemoryError | ImportError):
        return True
    handlers = set(_handlers())
    return any(frame.f_code in handlers for frame, _ in walk_tb(error.__traceback__))


def _handlers() -> Iterator[CodeType]:
    """The code of the functions that handle signals."""
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        while isinstance(handler, functools.partial):
            handler = handler.func
        if callable(handler):
            function = getattr(handler, "__func__", handler)
            yield from (
                f.__code__ for f in (function, type(handler).__call__) if hasattr(f, "__code__")
            )
