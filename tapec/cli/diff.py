"""``tapec diff``: what changed between two programs, or two stages of one."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from tapec.cli.colours import show_difference
from tapec.cli.target import after_pass, complete_where, find_target, target_options
from tapec.inspection.differences import differences
from tapec.ir.core import Module


@click.command()
@click.argument("a", metavar="A", shell_complete=complete_where)
@click.argument("b", metavar="B", shell_complete=complete_where)
@target_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def diff(
    context: click.Context,
    a: str,
    b: str,
    shapes: str | None,
    arg: Sequence[str],
    args: Sequence[str],
    as_json: bool,
) -> None:
    """Show what changed between two programs, by value.

    A and B are .tir files or FILE:FUNCTION, each with @PASS behind it for the program after the last run of that
    pass: train.py:step@adjoint, or train.py:step@input as it was traced. Values that compute the same have one name,
    wherever they stand. Ends with 1 if the programs differ.
    """

    def stage(text: str) -> Module:
        where, at, after = text.rpartition("@")
        target = find_target(where if at else text, shapes, arg, args)
        return after_pass(target.module, after if at else None)

    found = differences(stage(a), stage(b), (a, b))
    if as_json:
        shown = {"removed": found.removed, "added": found.added, "shared": found.shared}
        click.echo(json.dumps(shown, indent=1))
    elif found:
        show_difference(found.text)
    else:
        click.echo(f"the programs are the same: {found.shared} lines")
    context.exit(1 if found else 0)
