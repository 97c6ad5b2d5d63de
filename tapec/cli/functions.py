"""Compiled functions in a user's file as arguments of commands."""

from __future__ import annotations

import contextlib
import runpy
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import click

from tapec.errors import ValueError
from tapec.ir.dims import symbol
from tapec.ir.type_text import TypeTextError, parse_type
from tapec.ir.types import TensorType


@contextlib.contextmanager
def loaded(where: str, *, as_main: bool) -> Iterator[Any]:
    """The compiled function at ``FILE:FUNCTION``, after the file ran as a program, or was imported.

    Inside, what is printed goes to the standard error.

    Raises:
        UsageError: there is no such file.
        ValueError: it has no such function.
    """
    file, colon, name = where.rpartition(":")
    if not colon or not Path(file).is_file():
        raise click.UsageError(f"expected FILE:FUNCTION, such as train.py:step, got {where!r}")
    with _as_program(Path(file)):
        names = runpy.run_path(file, run_name="__main__" if as_main else Path(file).stem)
        yield _find(names, name, file)


@contextlib.contextmanager
def _as_program(file: Path) -> Iterator[None]:
    """Let a file be run as by ``python FILE``: its own arguments, its folder first on the path."""
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(file)]
    sys.path.insert(0, str(file.resolve().parent))
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.argv, sys.path[:] = argv, path


def _find(names: dict[str, Any], name: str, file: str) -> Any:
    """The compiled function of that name."""
    first, *rest = name.split(".")
    try:
        found = reduce(getattr, rest, names[first])
    except (KeyError, AttributeError):
        found = None
    if not callable(getattr(found, "ir", None)):
        compiled = sorted(n for n, value in names.items() if callable(getattr(value, "ir", None)))
        hint = f"it has {', '.join(compiled)}" if compiled else "decorate it with @tapec.compile"
        raise ValueError(f"{file} has no compiled function {name}", hint=hint)
    return found


def types_of(shapes: str) -> list[TensorType]:
    """The types in a text; symbols are sizes of at least 1."""
    found = []
    for text in shapes.split():
        try:
            given = parse_type(text)
        except TypeTextError as error:
            raise click.UsageError(f"--shapes: {error}") from None
        if not isinstance(given, TensorType):
            raise click.UsageError(f"--shapes: expected types such as f32[32,784], got {text}")
        found.append(given.substitute({s.name: symbol(s.name, 1) for s in given.symbols()}))
    return found
