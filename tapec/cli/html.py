"""``tapec html``: one page that shows a program after each pass, beside its source."""

from __future__ import annotations

from pathlib import Path

import click

from tapec.cli.target import Target, target_argument
from tapec.inspection.page import html_of


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
    text = html_of(target.module)
    place.write_text(text, encoding="utf-8")
    click.echo(f"{place}: {len(text.encode()) / 1e3:.0f} kB")
