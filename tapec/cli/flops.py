"""``tapec flops``: static floating-point operations and bytes, value against adjoint."""

from __future__ import annotations

import json

import click

from tapec.cli.target import Target, target_argument
from tapec.inspection.parts import Part, spending


@click.command()
@target_argument
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def flops(target: Target, as_json: bool) -> None:
    """Count what the compiled FUNCTION in FILE computes: its value, its gradients and its updates, by line.

    Counted are floating-point operations and the bytes of results, before operations are fused: in a loop those
    of all turns, of one turn if nothing says how many there are.
    """
    found = spending(target.module)
    if not as_json:
        click.echo(str(found))
        return
    lines = [
        {
            "part": line.part.value,
            "file": None if line.location is None else line.location.file,
            "line": None if line.location is None else line.location.line,
            "flops": line.flops if isinstance(line.flops, int) else str(line.flops),
            "bytes": line.bytes if isinstance(line.bytes, int) else str(line.bytes),
            "operations": line.ops,
        }
        for line in found.lines
    ]
    sums = {part.value: str(found.flops(part)) for part in Part}
    click.echo(json.dumps({"lines": lines, "flops": sums, "ratio": found.ratio}, indent=1))
