"""Colours on a terminal: the same that a notebook shows. None in files and pipes, and none where NO_COLOR is set."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from tapec import config
from tapec.inspection.pieces import pieces

#: How `click.style` shows what `pieces` finds.
_STYLES: Mapping[str, Mapping[str, object]] = {
    "comment": {"fg": "bright_black"},
    "value": {"fg": "blue"},
    "type": {"fg": "green"},
    "text": {"fg": "yellow"},
    "word": {"bold": True},
}
#: Of a difference, by how a line begins.
_CHANGES = {"+": "green", "-": "red", "@": "cyan"}


def show_program(text: str) -> None:
    """Print the text of a program."""
    if not _wanted():
        click.echo(text)
        return
    parts = [
        piece if kind is None else click.style(piece, **_STYLES[kind])  # type: ignore[arg-type]
        for kind, piece in pieces(text)
    ]
    click.echo("".join(parts))


def show_difference(text: str) -> None:
    """Print a unified difference."""
    if not _wanted():
        click.echo(text)
        return
    for line in text.splitlines():
        click.echo(click.style(line, fg=_CHANGES.get(line[:1])))


def _wanted() -> bool:
    # Without a terminal there may be no output at all: `tapec ir … >&-`.
    return sys.stdout is not None and sys.stdout.isatty() and config.colours()
