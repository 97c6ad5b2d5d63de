"""``tapec lint``: silent pitfalls of a train step."""

from __future__ import annotations

import json
from typing import Any

import click

from tapec.cli.programs import WrongTarget
from tapec.cli.target import Target, target_argument
from tapec.inspection.pitfalls import Pitfall, pitfalls


@click.command()
@target_argument
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def lint(context: click.Context, target: Target, as_json: bool) -> None:
    """Find what the compiled FUNCTION in FILE hardly means, with line and remedy.

    A vector loss, whose elements a gradient sums; one tape for all steps; needless persistent=True; a gradient inside
    the block of its persistent tape; training= or from_logits= left out where there is such a parameter; values that
    are read by Python inside the step. Ends with 1 if something is found.
    """
    if target.function is None:
        raise WrongTarget("a .tir file has no Python to look at: give FILE.py:FUNCTION")
    found = pitfalls(target.function.python_function, target.module)
    if as_json:
        click.echo(json.dumps([_as_json(p) for p in found], indent=1))
    else:
        click.echo("\n\n".join(map(str, found)) or "nothing was found")
    context.exit(1 if found else 0)


def _as_json(found: Pitfall) -> dict[str, Any]:
    return {
        "rule": found.rule.value,
        "file": found.location.file,
        "line": found.location.line,
        "message": found.message,
        "remedy": found.rule.remedy,
    }
