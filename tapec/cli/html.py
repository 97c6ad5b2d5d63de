"""``tapec html``: one page that shows a program after each pass, beside its source."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tapec.cli.target import Target, target_argument
from tapec.inspection.page import html_of


@click.command()
@target_argument
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Default: FUNCTION.html in this folder."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON: where it is, and its size.")
def html(target: Target, output: Path | None, as_json: bool) -> None:
    """Write a page with your source, the program after each pass that changed it, and its memory.

    Click a value, and it is followed through source, passes and memory, its adjoint in a second colour; what removed
    it is told. The page is one file and needs no network.
    """
    place = output or Path(f"{target.name}.html")
    text = html_of(target.module)
    place.write_text(text, encoding="utf-8")
    size = len(text.encode())
    told = json.dumps({"page": str(place), "bytes": size}, indent=1)
    click.echo(told if as_json else f"{place}: {size / 1e3:.0f} kB")
