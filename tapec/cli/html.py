"""``tapec html``: one page that shows a program after each pass, beside its source."""

from __future__ import annotations

from pathlib import Path

import click

from tapec.cli.target import Target, target_argument
from tapec.compiled.buffers import memory_of
from tapec.compiler import lowered
from tapec.inspection.page import html_of
from tapec.inspection.stages import Named, snapshots


@click.command()
@target_argument
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Default: FUNCTION.html in this folder."
)
def html(target: Target, output: Path | None) -> None:
    """Write a page with your source, the program after each pass that changed it, and its memory.

    Click a value, and it is followed through source, passes and memory, its adjoint in a second colour; what removed
    it is told. The page is one file and needs no network.
    """
    place = output or Path(f"{target.name}.html")
    text = page_of(target)
    place.write_text(text, encoding="utf-8")
    click.echo(f"{place}: {len(text.encode()) / 1e3:.0f} kB")


def page_of(target: Target) -> str:
    """The page of a program."""
    # Its buffers go by the names that they have after `plan`, which are the same at each run.
    memory = memory_of(lowered(target.module, "plan", observers=[Named()]))
    return html_of(target.name, snapshots(target.module), memory)
