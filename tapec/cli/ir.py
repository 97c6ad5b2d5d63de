"""``tapec ir``: the program of a compiled function in a user's file."""

from __future__ import annotations

import contextlib
import runpy
import sys
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any

import click
import numpy as np

from tapec.cli.programs import print_options, show
from tapec.compiled.lowering import Lowered
from tapec.compiler import lowered
from tapec.errors import ValueError
from tapec.ir.dims import symbol
from tapec.ir.type_text import TypeTextError, parse_type
from tapec.ir.types import TensorType
from tapec.passes.observers import Times
from tapec.tensor import Tensor


@click.command()
@click.argument("where", metavar="FILE:FUNCTION")
@click.option(
    "--after", metavar="PASS", help="After the last run of this pass; default: as traced."
)
@click.option(
    "--shapes",
    metavar="TYPES",
    help="Call it once with ones of these types, 'f32[32,784] i32[32]', instead of running FILE "
    "as a program; or, for sizes left open, 'f32[N,784] i32[N]', only trace it.",
)
@click.option("--cost", is_flag=True, help="Show its arithmetic and memory traffic, by kernel.")
@click.option("--memory", is_flag=True, help="Show the memory of a call, and what is in it.")
@click.option("--time", "timed", is_flag=True, help="Show how long each pass takes for it.")
@print_options
def ir(
    where: str,
    after: str | None,
    shapes: str | None,
    cost: bool,
    memory: bool,
    timed: bool,
    locs: bool,
    full_constants: bool,
) -> None:
    """Show the program of the compiled FUNCTION that FILE defines, or what it costs.

    FILE is run as a program, with what it prints on the standard error, and must call the
    function; or, with --shapes, it is only imported and the function is called here. FUNCTION may
    be a path, such as trainer.step.
    """
    file, colon, name = where.rpartition(":")
    if not colon or not Path(file).is_file():
        raise click.UsageError(f"expected FILE:FUNCTION, such as train.py:step, got {where!r}")
    with _as_program(Path(file)):
        names = runpy.run_path(file, run_name="__main__" if shapes is None else Path(file).stem)
        function = _find(names, name, file)
        types = [] if shapes is None else _types(shapes)
        if all(t.is_static for t in types):
            if shapes is not None:
                function(*(np.ones(t.static_shape, t.dtype.numpy) for t in types))
            module = function.ir()
        else:
            module = function.trace(*(Tensor(None, t) for t in types))
        program = Lowered(module)
    if timed:
        times = Times()
        lowered(module, observers=[times])
        click.echo(str(times))
    if not (cost or memory or timed):
        module = module if after is None else lowered(module, after)
        show(module, locs=locs, full_constants=full_constants)
    for report in [program.memory] * memory + [program.cost] * cost:
        click.echo(str(report()))


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


def _types(shapes: str) -> list[TensorType]:
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
