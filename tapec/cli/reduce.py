"""``tapec reduce``: the smallest program that still fails."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from tapec.cli.programs import WrongTarget, program_argument, read
from tapec.inspection.reduction import reduced
from tapec.ir.core import Module
from tapec.ir.printer import print_module
from tapec.ir.verifier import verify
from tapec.passes.observers import count


@click.command()
@program_argument
@click.option(
    "--test",
    "command",
    required=True,
    metavar="CMD",
    help="A command that fails for the program; %s stands for the file.",
)
@click.option("--seconds", default=60.0, show_default=True, help="How long to look.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Default: standard output.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reduce(file: Path, command: str, seconds: float, output: Path | None, as_json: bool) -> None:
    """Shrink the program in FILE while CMD still fails.

    CMD is run by the shell, on smaller and smaller programs, and fails if its exit code is not 0: tapec verify %s.
    Commands of tapec run in a fork of this process, without a new Python. Operations are left out, results dropped,
    sizes and dtypes made simpler; every program that is tried is valid.
    """
    module = read(file)
    verify(module)
    with tempfile.TemporaryDirectory() as folder:
        fails = _test(command, Path(folder) / "candidate.tir")
        if not fails(module):
            raise WrongTarget(f"{command!r} succeeds for {file}: there is nothing to look for")
        before = count(module)
        small = reduced(module, fails, seconds=seconds)
    text = print_module(small, full_constants=True)
    if output is not None:
        output.write_text(text, encoding="utf-8")
    if as_json:
        found = {"program": text, "operations": count(small), "before": before}
        click.echo(json.dumps(found, indent=1))
        return
    click.echo(f"{before} operations → {count(small)}", err=True)
    if output is None:
        click.echo(text, nl=False)


def _test(command: str, place: Path) -> Callable[[Module], bool]:
    """Whether the command fails for a program, which is written to ``place``."""
    text = command.replace("%s", shlex.quote(str(place)))
    words = shlex.split(text)
    run = _forked if words[:1] == ["tapec"] and not set(text) & set("|&;<>$`") else _spawned

    def fails(module: Module) -> bool:
        place.write_text(print_module(module, full_constants=True), encoding="utf-8")
        return run(text)

    return fails


def _spawned(command: str) -> bool:
    """Whether a command of the shell fails."""
    done = subprocess.run(command, shell=True, capture_output=True, check=False)
    return done.returncode != 0


def _forked(command: str) -> bool:
    """Whether a command of tapec fails; a crash of native code is that of a child."""
    from tapec.cli import main  # the group, which imports this module when it is asked for

    child = os.fork()
    if child == 0:
        code = 1
        try:
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            main(shlex.split(command)[1:], standalone_mode=True)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return status != 0
