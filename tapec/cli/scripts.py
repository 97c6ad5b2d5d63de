"""``tapec why``, ``tapec nan``, ``tapec retrace``: run a user's script and tell what they are asked about it."""

from __future__ import annotations

import contextlib
import json
import logging
import runpy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tapec import debugging
from tapec.cli.target import as_program, find_target
from tapec.compiled.retraces import Retrace
from tapec.errors import InvalidArgumentError, TapecError
from tapec.explanations.explanation import Explanation
from tapec.recording import missing_listeners

Command = Callable[..., Any]


def _script(command: Command) -> Command:
    """Take a script and its arguments, and ``--json``."""
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
    command = click.argument("args", nargs=-1, type=click.UNPROCESSED)(command)
    return click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))(
        command
    )


def _run(file: Path, args: Sequence[str]) -> None:
    """Run a script to its end."""
    with as_program(file, *args), contextlib.suppress(SystemExit):
        runpy.run_path(str(file), run_name="__main__")


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("where", metavar="FILE[:FUNCTION]")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def why(context: click.Context, where: str, args: Sequence[str], as_json: bool) -> None:
    """Explain the gradients that are None in a script, or in a compiled FUNCTION of it.

    The script FILE is run with ARGS, to its end; with FUNCTION, until that has been traced for a call. Ends with 1
    if a gradient is None.
    """
    with _hearing_of_missing() as found:
        if Path(where).is_file():
            _run(Path(where), args)
        else:
            find_target(where, args=args)
    told = list(dict.fromkeys(found))
    if as_json:
        click.echo(json.dumps([_explanation_json(e) for e in told], indent=1))
    elif told:
        click.echo("\n\n".join(map(str, told)))
    else:
        click.echo("no gradient is None")
    context.exit(1 if told else 0)


@contextlib.contextmanager
def _hearing_of_missing() -> Iterator[list[Explanation]]:
    found: list[Explanation] = []
    missing_listeners.append(found.extend)
    try:
        yield found
    finally:
        missing_listeners.pop()


def _explanation_json(explanation: Explanation) -> dict[str, Any]:
    place = explanation.location
    return {
        "cause": explanation.cause.value,
        "message": explanation.message,
        "file": None if place is None else place.file,
        "line": None if place is None else place.line,
        "remedy": explanation.remedy,
        "path": list(explanation.path),
    }


@click.command(context_settings={"ignore_unknown_options": True})
@_script
@click.pass_context
def nan(context: click.Context, file: Path, args: Sequence[str], as_json: bool) -> None:
    """Run the script FILE until an operation makes a NaN or an infinity, and tell which one.

    Nothing in the script needs to be changed; eager code, compiled functions and gradients are watched. Ends with 1
    if there was one.
    """
    debugging.enable_check_numerics()
    try:
        _run(file, args)
    except InvalidArgumentError as error:
        place = error.location
        if as_json:
            where = {} if place is None else {"file": place.file, "line": place.line}
            click.echo(
                json.dumps({"message": error.message, **where, "text": str(error)}, indent=1)
            )
        else:
            click.echo(str(error))
        context.exit(1)
    finally:
        debugging.disable_check_numerics()
    click.echo("{}" if as_json else "no operation made a NaN or an infinity")


class _Heard(logging.Handler):
    """Keeps the retraces that compiled functions log."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.found: list[Retrace] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Take a retrace out of its record."""
        if isinstance(record.args, tuple) and record.args and isinstance(record.args[0], Retrace):
            self.found.append(record.args[0])


@click.command(context_settings={"ignore_unknown_options": True})
@_script
@click.pass_context
def retrace(context: click.Context, file: Path, args: Sequence[str], as_json: bool) -> None:
    """Run the script FILE and list why its compiled functions were traced again, and what that took.

    If the script raises an error, what was traced until then is listed, and the command ends with 2.
    """
    logger, heard = logging.getLogger("tapec.compile"), _Heard()
    level, failed = logger.level, False
    logger.addHandler(heard)
    logger.setLevel(logging.INFO)
    try:
        _run(file, args)
    except click.ClickException as error:
        error.show()
        failed = True
    except TapecError as error:
        click.echo(f"{type(error).__name__}: {error}", err=True)
        failed = True
    finally:
        logger.removeHandler(heard)
        logger.setLevel(level)
    if as_json:
        click.echo(json.dumps([_retrace_json(r) for r in heard.found], indent=1))
    else:
        for found in heard.found:
            click.echo(f"{found}\n")
        total = sum(r.milliseconds for r in heard.found)
        count = len(heard.found)
        click.echo(f"{count} retrace{'s' if count != 1 else ''}, {total:.0f} ms")
    context.exit(2 if failed else 0)


def _retrace_json(found: Retrace) -> dict[str, Any]:
    place = found.location
    return {
        "function": found.function,
        "file": None if place is None else place.file,
        "line": None if place is None else place.line,
        "milliseconds": round(found.milliseconds, 1),
        "changes": [
            {"path": c.path, "cause": c.cause.value, "old": c.old, "new": c.new}
            for c in found.changes
        ],
        "remedy": found.remedy,
    }
