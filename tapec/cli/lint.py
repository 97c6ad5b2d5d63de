"""``tapec lint``: silent pitfalls of a train step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tapec.cli import told
from tapec.cli.catching import refusals
from tapec.cli.programs import WrongTarget
from tapec.cli.target import complete_where, find_target, target_options
from tapec.inspection.pitfalls import Pitfall, pitfalls
from tapec.ir.errors import TapecError


@click.command()
@click.argument("where", metavar="FILE:FUNCTION", shell_complete=complete_where)
@target_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def lint(
    context: click.Context,
    where: str,
    args: Sequence[str],
    shapes: str | None,
    arg: Sequence[str],
    as_json: bool,
) -> None:
    """Find what the compiled FUNCTION in FILE hardly means, with line and remedy.

    A vector loss, whose elements a gradient sums; one tape for all steps; needless persistent=True; a gradient inside
    the block of its persistent tape; training= or from_logits= left out where there is such a parameter; values that
    are read by Python inside the step. Ends with 1 if something is found, else with 2 if the function cannot be
    compiled.
    """
    found = _found(where, shapes, arg, args)
    if as_json:
        click.echo(json.dumps([_as_json(p) for p in found], indent=1))
    else:
        click.echo("\n\n".join(map(str, found)) or "nothing was found")
    context.exit(1 if found else 0)


def _found(
    where: str, shapes: str | None, arg: Sequence[str], args: Sequence[str]
) -> list[Pitfall]:
    """The pitfalls of a function; those that can be seen, if it cannot be compiled.

    Raises:
        WrongTarget, TapecError: there is none, or it cannot be compiled, and no pitfall is the reason.
    """
    file, _, name = where.rpartition(":")
    with refusals(Path(file), name) as refused:
        try:
            target = find_target(where, shapes, arg, args)
        except (WrongTarget, TapecError) as error:
            if not refused:
                raise
            function, program = refused[0]
            module = None if program is None else program.module
            found = pitfalls(function.python_function, module)
            if not found:
                raise
            what = "" if module is not None else "; vector losses were not looked for"
            reason = error.message if isinstance(error, WrongTarget) else told(error)
            click.echo(f"{name} cannot be compiled{what}: {reason}", err=True)
            return found
    if target.function is None:
        raise WrongTarget("a .tir file has no Python to look at: give FILE.py:FUNCTION")
    return pitfalls(target.function.python_function, target.module)


def _as_json(found: Pitfall) -> dict[str, Any]:
    return {
        "rule": found.rule.value,
        "file": found.location.file,
        "line": found.location.line,
        "message": found.message,
        "remedy": found.rule.remedy,
    }
