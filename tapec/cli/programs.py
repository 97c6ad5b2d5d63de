"""Programs as arguments of commands: how they are read and printed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from tapec.cli.colours import show_program
from tapec.ir.core import Module
from tapec.ir.parser import parse_module, read_module
from tapec.ir.printer import print_module
from tapec.ir.types import TensorType

Command = Callable[..., Any]


class WrongTarget(click.ClickException):
    """A file, a function or a value that there is not: one line that says what there is instead."""

    exit_code = 2


def program_argument(command: Command) -> Command:
    """Take a ``.tir`` file, or ``-`` for the standard input, and modules to import before it is read."""
    kind = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
    command = click.option(
        "--import",
        multiple=True,
        metavar="MODULE",
        callback=_import,
        expose_value=False,
        help="Import this module first, such as one that registers the custom ops of the program.",
    )(command)
    return click.argument("file", type=kind)(command)


def _import(context: click.Context, parameter: click.Parameter, modules: Sequence[str]) -> None:
    """Import modules, those in the current folder among them."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        for module in modules:
            try:
                import_module(module)
            except ImportError as error:
                raise click.BadParameter(str(error)) from error
    finally:
        sys.path.pop(0)


def print_options(command: Command) -> Command:
    """Take the options of `show`."""
    text = "Print every element of large constants."
    command = click.option("--full-constants", is_flag=True, help=text)(command)
    return click.option("--locs", is_flag=True, help="Print source locations.")(command)


def read(file: Path) -> Module:
    """Read a program from a file or the standard input."""
    if str(file) == "-":
        try:
            return parse_module(sys.stdin.read(), name="<stdin>")
        except UnicodeDecodeError as error:
            raise WrongTarget(f"<stdin> is no text: {error.reason}") from None
    return read_module(file)


def hold_to_memory(module: Module) -> None:
    """Refuse to run a program with a value that is larger than the memory of this machine.

    Raises:
        WrongTarget: it has one.
    """
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for function in module.functions.values():
        values = [*function.args, *(r for op in function.walk() for r in op.results)]
        for value in values:
            size = value.type.bytes if isinstance(value.type, TensorType) else 0
            if isinstance(size, int) and size > most:
                raise WrongTarget(
                    f"@{function.name} has a value of type {value.type}: {size:,} bytes, and this machine has {most:,}"
                )


def show(module: Module, *, locs: bool, full_constants: bool) -> None:
    """Print a program."""
    show_program(print_module(module, locs=locs, full_constants=full_constants).rstrip("\n"))
