"""``tapec why``, ``tapec nan``, ``tapec retrace``: run a user's script and tell what they are asked about it."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tapec import debugging
from tapec.cli.naming import refuse_missing
from tapec.cli.running import as_program, run_file
from tapec.cli.target import complete_where, find_target, target_options
from tapec.compiled.retraces import Retrace
from tapec.errors import TapecError
from tapec.explanations.explanation import Explanation
from tapec.recording import accusation_listeners, missing_listeners

Command = Callable[..., Any]


class Interrupted(click.ClickException):
    """Somebody pressed Ctrl-C."""

    exit_code = 130


def _script(command: Command) -> Command:
    """Take a script and its arguments, and ``--json``."""
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
    command = click.argument("args", nargs=-1, type=click.UNPROCESSED)(command)
    return click.argument("file", type=click.Path(path_type=Path))(command)


def _ran(run: Callable[[], object]) -> Exception | None:
    """Let a script run to its end; what ended it before, which is told when what was heard has been."""
    try:
        run()
    except (click.ClickException, TapecError) as error:
        return error
    except KeyboardInterrupt:
        return Interrupted("interrupted")
    return None


def _script_of(file: Path, args: Sequence[str]) -> Callable[[], object]:
    refuse_missing(str(file))

    def run() -> None:
        with as_program(file, *args):
            run_file(file, args)

    return run


def _tell(error: Exception | None) -> int:
    """Tell what ended a script; the exit code for it."""
    if error is None:
        return 0
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    click.echo(f"{type(error).__name__}: {error}", err=True)
    return 2


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("where", metavar="FILE[:FUNCTION]", shell_complete=complete_where)
@target_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def why(
    context: click.Context,
    where: str,
    shapes: str | None,
    arg: Sequence[str],
    args: Sequence[str],
    as_json: bool,
) -> None:
    """Explain the gradients that are None in a script, or in a compiled FUNCTION of it.

    The script FILE is run with ARGS, to its end; with FUNCTION, until that has been traced for a call, or it is
    traced for the types that are given. Ends with 1 if a gradient is None, whatever the script does about it then;
    else with 2 if an error ends the script.
    """
    with _hearing_of_missing() as found:
        if Path(where).is_file() and not (shapes or arg):
            error = _ran(_script_of(Path(where), args))
        else:
            error = _ran(lambda: find_target(where, shapes, arg, args))
    told = list(dict.fromkeys(found))
    if as_json and (told or error is None):
        click.echo(json.dumps([_explanation_json(e) for e in told], indent=1))
    elif told:
        click.echo("\n\n".join(map(str, told)))
    elif error is None:
        click.echo("no gradient is None")
    code = _tell(error)
    context.exit(1 if told else code)


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

    Nothing in the script needs to be changed; eager code, compiled functions and gradients are watched, in all threads.
    Ends with 1 if there was one, also if the script caught the error; else with 2 if another error ends the script.
    """
    heard: list[TapecError] = []
    run = _script_of(file, args)
    accusation_listeners.append(heard.append)
    debugging.enable_check_numerics()
    try:
        error = _ran(run)
    finally:
        debugging.disable_check_numerics()
        accusation_listeners.remove(heard.append)
    if heard:
        first = heard[0]
        place = first.location
        where = {} if place is None else {"file": place.file, "line": place.line}
        shown = {"message": first.message, **where, "text": str(first)}
        click.echo(json.dumps(shown, indent=1) if as_json else str(first))
        context.exit(1)
    if error is None:
        click.echo("{}" if as_json else "no operation made a NaN or an infinity")
    context.exit(_tell(error))


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

    If an error ends the script, what was traced until then is listed, and the command ends with 2.
    """
    run = _script_of(file, args)
    logger, heard = logging.getLogger("tapec.compile"), _Heard()
    level = logger.level
    logger.addHandler(heard)
    logger.setLevel(logging.INFO)
    try:
        error = _ran(run)
    finally:
        logger.removeHandler(heard)
        logger.setLevel(level)
    code = _tell(error)
    if as_json:
        click.echo(json.dumps([_retrace_json(r) for r in heard.found], indent=1))
    else:
        for found in heard.found:
            click.echo(f"{found}\n")
        total = sum(r.milliseconds for r in heard.found)
        count = len(heard.found)
        click.echo(f"{count} retrace{'s' if count != 1 else ''}, {total:.0f} ms")
    context.exit(code)


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
