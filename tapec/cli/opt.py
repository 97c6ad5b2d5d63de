"""``tapec opt``: run passes over a program."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from tapec.cli.programs import print_options, program_argument, read, show
from tapec.cli.reports import times_json
from tapec.ir.core import Module
from tapec.ir.errors import TapecError
from tapec.ir.parser import parse_module
from tapec.ir.printer import print_module
from tapec.ir.verifier import verify
from tapec.passes.observers import Check, Dump, Narrate, Times
from tapec.passes.pipeline import Observer, parse_pipeline, run_pipeline

_SEPARATOR = "// -----"


@click.command()
@program_argument
@click.option("--passes", default="", help="Passes and pipelines: adjoint,prune,fuse{max-ops=8}.")
@click.option("--stop-after", type=int, metavar="N", help="Run the first N passes only.")
@click.option("--verify-each", is_flag=True, help="Verify and re-read the program after each pass.")
@click.option(
    "--check",
    "--evaluate-each",
    "evaluate_each",
    is_flag=True,
    help="Also compare what it computes, by NumPy.",
)
@click.option("--dump", metavar="DIR", help="Write the program after each pass; - prints it.")
@click.option("--time", "timed", is_flag=True, help="Tell how long each pass took.")
@click.option("--split-input", is_flag=True, help=f"Lines '{_SEPARATOR}' separate programs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the program and its passes.")
@print_options
@click.pass_context
def opt(
    context: click.Context,
    file: Path,
    passes: str,
    stop_after: int | None,
    verify_each: bool,
    evaluate_each: bool,
    dump: str | None,
    timed: bool,
    split_input: bool,
    as_json: bool,
    locs: bool,
    full_constants: bool,
) -> None:
    """Run passes over the program in FILE and print it.

    Without --passes the program is read, verified and printed. With --split-input, an error ends
    its own part alone.
    """
    stages = parse_pipeline(passes)
    times = Times()
    observers: list[Observer] = [times] if timed or as_json else []
    if as_json and (split_input or dump == "-"):
        raise click.UsageError("--json is of one program, without --split-input and --dump -")
    if verify_each or evaluate_each:
        observers.append(Check(2 if evaluate_each else 1))
    if dump is not None:
        observers.append(_dump(dump, locs))
    failed = False
    for part in _parts(file) if split_input else [lambda: read(file)]:
        try:
            module = part()
            verify(module)
            run_pipeline(module, stages, observers, stop_after=stop_after)
            verify(module)
        except TapecError as error:
            if not split_input:
                raise
            click.echo(f"{type(error).__name__}: {error}\n{_SEPARATOR}")
            failed = True
            continue
        if as_json:
            text = print_module(module, locs=locs, full_constants=True)
            click.echo(json.dumps({"program": text, "passes": times_json(times)}, indent=1))
        elif dump != "-":
            show(module, locs=locs, full_constants=full_constants)
        if split_input:
            click.echo(_SEPARATOR)
    if timed:
        click.echo(times, err=True)
    context.exit(int(failed))


def _dump(where: str, locs: bool) -> Observer:
    if where == "-":
        return Narrate(lambda text: click.echo(text, nl=False), locs=locs)
    return Dump(Path(where))


def _parts(file: Path) -> Iterator[Callable[[], Module]]:
    """Ways to read the programs of a file; what comes before a part is blank, so lines count on."""
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    start = 0
    for end in [i for i, line in enumerate(lines) if line.startswith(_SEPARATOR)] + [len(lines)]:
        text = "\n" * start + "".join(lines[start:end])
        yield lambda text=text: parse_module(text, name=file.name)  # type: ignore[misc]
        start = end
