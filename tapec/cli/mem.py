"""``tapec mem``: what memory a call takes, which lines own it when most is in use, and a picture of it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tapec.cli.reports import memory_json
from tapec.cli.target import Target, target_argument
from tapec.compiled.buffers import ProgramMemory
from tapec.compiled.lowering import Lowered
from tapec.inspection.memory_map import save_png
from tapec.tables import counted


@click.command()
@target_argument
@click.option("--all", "every", is_flag=True, help="List all that is in the arena at some time.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write a picture.")
@click.option("--png", type=click.Path(dir_okay=False, path_type=Path), help="Write it as PNG.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def mem(target: Target, every: bool, svg: Path | None, png: Path | None, as_json: bool) -> None:
    """Show the memory that a call of the compiled FUNCTION in FILE takes.

    The picture has operations from left to right and the bytes of the arena upwards; a rectangle is a value, by letter
    in the list of those that are alive when most bytes are in use.
    """
    memory = Lowered(target.module).memory()
    if svg is not None:
        svg.write_text(memory.svg(), encoding="utf-8")
    if png is not None:
        save_png(memory, png)
    if as_json:
        click.echo(json.dumps(memory_json(memory), indent=1))
        return
    if every:
        click.echo(str(memory))
        return
    click.echo(f"peak        {counted(memory.peak)} bytes, all that a call touches")
    click.echo(f"arena       {counted(memory.arena)} bytes{_ratio(memory)}")
    click.echo(
        f"lower bound {counted(memory.lower_bound)} bytes, the most that are alive at one time"
    )
    click.echo(f"parameters  {counted(memory.states)} bytes, updated in place")
    click.echo(f"arguments   {counted(memory.arguments)} bytes, only read")
    click.echo(f"results     {counted(memory.results)} bytes\n")
    if memory.buffers:
        click.echo(f"{memory.picture()}\n\n{memory.peak_table().text()}")


def _ratio(memory: ProgramMemory) -> str:
    arena, bound = memory.arena, memory.lower_bound
    if not isinstance(arena, int) or not isinstance(bound, int) or not bound:
        return ""
    return f", {arena / bound:.4f} of the lower bound"
