"""The command line: look inside a program, run it, transform it.

A command ends with 0 if all is well, with 1 if what it was to check does not hold, and with 2 if there is no such file,
function, pass or value, or a program is not valid; with 130 if it is interrupted, and with 141 if nobody reads on.

Commands are imported when they run, so that ``tapec --help`` is fast.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tapec.garbage import collecting_rarely
from tapec.ir.errors import TapecError

with collecting_rarely():
    import click

#: Command → where it is, and what it does.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "bench": ("tapec.cli.bench:bench", "Time the compiled FUNCTION in FILE"),
    "build": (
        "tapec.cli.build:build",
        "Make objects and C headers of functions, for other machines.",
    ),
    "cache": ("tapec.cli.cache:cache", "Look at the folder of compiled programs, or empty it."),
    "config": ("tapec.cli.tables:config", "List the settings."),
    "diff": ("tapec.cli.diff:diff", "Show what changed between two programs, by value."),
    "doctor": ("tapec.cli.doctor:doctor", "Try tapec out on this machine"),
    "flops": ("tapec.cli.flops:flops", "Count what the compiled FUNCTION in FILE computes"),
    "html": (
        "tapec.cli.html:html",
        "Write a page with your source, the program after each pass that changed it",
    ),
    "ir": ("tapec.cli.ir:ir", "Show the program of the compiled FUNCTION that FILE defines."),
    "lint": ("tapec.cli.lint:lint", "Find what the compiled FUNCTION in FILE hardly means"),
    "mem": (
        "tapec.cli.mem:mem",
        "Show the memory that a call of the compiled FUNCTION in FILE takes.",
    ),
    "nan": (
        "tapec.cli.scripts:nan",
        "Run the script FILE until an operation makes a NaN or an infinity",
    ),
    "ops": ("tapec.cli.tables:ops", "List the operations, or describe those named."),
    "opt": ("tapec.cli.opt:opt", "Run passes over the program in FILE and print it."),
    "passes": ("tapec.cli.tables:passes", "List the passes, their options and their order."),
    "plan": ("tapec.cli.plan:plan", "Place the buffers of FILE in as few bytes as can be found."),
    "profile": (
        "tapec.cli.profile:profile",
        "Show how long each kernel of the compiled FUNCTION takes.",
    ),
    "reduce": ("tapec.cli.reduce:reduce", "Shrink the program in FILE while CMD still fails."),
    "retrace": (
        "tapec.cli.scripts:retrace",
        "Run the script FILE and list why its compiled functions were traced again",
    ),
    "run": ("tapec.cli.run:run", "Run the entry of the program in FILE and show its results."),
    "targets": ("tapec.cli.build:targets", "List the machines to build for, and what each lacks."),
    "verify": (
        "tapec.cli.verify:verify",
        "Check the program of the compiled FUNCTION in FILE, and what becomes of it.",
    ),
    "why": ("tapec.cli.scripts:why", "Explain the gradients that are None in a script"),
}


#: The help of each command, one after the other, for terminals that are wide enough.
HELP = Path(__file__).with_name("help.txt")
_HELP_WIDTH = 80
_USAGE = "Usage: tapec "
#: What a process is called in its help, by the file that it runs.
_PROGRAMS = {"tapec": "tapec", "__main__.py": "python -m tapec"}
_CLICK = os.path.dirname(click.__file__)
_HELP = frozenset({"-h", "--help"})


class Commands(click.Group):
    """A group that imports a command when it is called, and ends errors of ours without traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name][0].split(":")
        with collecting_rarely():
            command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; one that there is not is answered by those that there are."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            ctx.fail(f"there is no command {args[0]!r}: {', '.join(self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list in ``--help``, which imports nothing."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what tapec raises on purpose is for reading, not for debugging."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(130)
        except TapecError as error:
            click.echo(told(error), err=True)
            ctx.exit(2)
        except (
            MemoryError,
            OSError,
            UnicodeError,
        ) as error:  # files that cannot be written, above all
            if isinstance(error, BrokenPipeError):
                _write_no_more()
                ctx.exit(141)
            click.echo(f"{type(error).__name__}: {error}", err=True)
            ctx.exit(2)


def told(error: TapecError) -> str:
    """An error as text: its class, what it says, the user's line."""
    if error.location is not None and error.location.file.startswith(_CLICK):
        error.location = None  # nobody's line: the types were given to a command
    return f"{type(error).__name__}: {error}"


def _write_no_more() -> None:
    """Nobody reads what is printed, as after ``| head``: nor is there anything to say about that."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


@click.group(cls=Commands, context_settings={"help_option_names": sorted(_HELP)})
@click.version_option(package_name="tapec")
def main() -> None:
    """Look inside taped training programs, transform them, run them."""


def kept_help(argv: Sequence[str]) -> str | None:
    """What ``tapec COMMAND --help`` prints, from ``help.txt``: to ask a command is to import all that it uses.

    None if something else is called, or the terminal is too narrow for it; ``python tests/test_cli.py`` writes it.
    """
    match argv:
        case [program, name, flag] if flag in _HELP and name in COMMANDS:
            wide = shutil.get_terminal_size().columns >= _HELP_WIDTH
            called = _PROGRAMS.get(os.path.basename(program))
            if wide and called is not None:
                parts = HELP.read_text(encoding="utf-8").split(_USAGE)[1:]
                usage = _USAGE.replace("tapec", called)
                return next((usage + p for p in parts if p.startswith(f"{name} ")), None)
    return None


def start() -> None:
    """Run the command of this process: what ``tapec`` and ``python -m tapec`` call.

    A process that showed help, or completed a word, ends at once. Python would take apart all that it imported before,
    module by module, which takes as long as half of the imports.
    """
    if (text := kept_help(sys.argv)) is not None:
        with contextlib.suppress(OSError):  # nobody reads it any more
            os.write(1, text.encode())
        os._exit(0)
    try:
        main()
    except SystemExit as end:
        worked = any(place.partition(":")[0] in sys.modules for place, _ in COMMANDS.values())
        if worked and _HELP.isdisjoint(sys.argv[1:3]):
            raise  # a script may have said what is to be done at the end
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(
                OSError, AttributeError
            ):  # there may be none, or none that takes it
                stream.flush()
        os._exit(code)
