"""Programs as arguments of commands: how they are read and printed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tapec.ir.core import Module
from tapec.ir.parser import parse_module, read_module
from tapec.ir.printer import print_module

Command = Callable[..., Any]


def program_argument(command: Command) -> Command:
    """Take a ``.tir`` file, or ``-`` for the standard input."""
    kind = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
    return click.argument("file", type=kind)(command)


def print_options(command: Command) -> Command:
    """Take the options of `show`."""
    text = "Print every element of large constants."
    command = click.option("--full-constants", is_flag=True, help=text)(command)
    return click.option("--locs", is_flag=True, help="Print source locations.")(command)


def read(file: Path) -> Module:
    """Read a program from a file or the standard input."""
    if str(file) == "-":
        return parse_module(sys.stdin.read(), name="<stdin>")
    return read_module(file)


def show(module: Module, *, locs: bool, full_constants: bool) -> None:
    """Print a program."""
    click.echo(print_module(module, locs=locs, full_constants=full_constants), nl=False)
