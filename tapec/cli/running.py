"""A user's file, run as Python would run it, with its errors and its end told in a line."""

from __future__ import annotations

import contextlib
import runpy
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tapec.cli.programs import WrongTarget
from tapec.ir.errors import TapecError

#: A file of the script's own folder, which Python does not look for before its own modules in a package.
_MAIN = "__main__"


class Ended(WrongTarget):
    """A file ended by `sys.exit`, with other than 0.

    Attributes:
        names: what it had defined by then.
    """

    def __init__(self, file: Path, end: SystemExit, names: dict[str, Any]) -> None:
        """With the text that was given to `sys.exit`, or the number."""
        code = end.code
        said = str(code) if isinstance(code, str) else f"exit code {code}"
        super().__init__(f"{file} ended: {said}")
        self.said = said
        self.names = names


def run_file(file: Path, args: Sequence[str] = (), *, main: bool = True) -> dict[str, Any]:
    """Run a file to its end, and return what it has defined then; `sys.exit` with 0 is an end like any other.

    A file in a package runs as by ``python -m``, so its relative imports work; its own folder is the last on the path.

    Args:
        file: the file.
        args: what it is called with.
        main: whether as a program; else it is only imported, under a name of its own.

    Raises:
        Ended: it ended with another code.
        WrongTarget: it raises an error of Python's, see `as_program`.
    """
    root, module = _place(file)
    try:
        if "." not in module:
            return runpy.run_path(str(file), run_name=_MAIN if main else module)
        sys.path.insert(0, str(root))
        return runpy.run_module(module, run_name=_MAIN if main else module, alter_sys=True)
    except SystemExit as end:
        names = _names(file, end)
        if end.code in (None, 0):
            return names
        raise Ended(file, end, names) from end


def _place(file: Path) -> tuple[Path, str]:
    """The folder that Python would look in for the module of a file, and the module's name there."""
    folder, names = file.resolve().parent, [file.stem]
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.append(folder.name)
        folder = folder.parent
    return folder, ".".join(reversed(names))


def _names(file: Path, error: BaseException) -> dict[str, Any]:
    """What a file had defined when an error left it."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        if code.co_name == "<module>" and Path(code.co_filename).resolve() == file.resolve():
            return dict(frame.f_globals)
    return {}


@contextlib.contextmanager
def as_program(file: Path, *args: str) -> Iterator[None]:
    """Let a file be run as by ``python FILE``: its own arguments, its folder first on the path.

    Raises:
        WrongTarget: it raises an error of Python's, which is shown from its first line on; those of ours pass.
    """
    argv, path = sys.argv, list(sys.path)
    sys.argv = [str(file), *args]
    own = str(file.resolve().parent)
    if "." in _place(file)[1]:
        sys.path.append(own)
    else:
        sys.path.insert(0, own)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (TapecError, click.ClickException, MemoryError):
        raise
    except Exception as error:
        raise WrongTarget(f"{file} raises {_shown(error, file)}") from error
    finally:
        sys.argv, sys.path[:] = argv, path


def _shown(error: Exception, file: Path) -> str:
    """An error of a user's program in a line, and below it the way there, from the file on."""
    frames = traceback.extract_tb(error.__traceback__)
    place = file.resolve()
    own = next(
        (i for i, f in enumerate(frames) if Path(f.filename).resolve() == place), len(frames)
    )
    what = "".join(traceback.format_exception_only(error)).strip()
    way = "".join(traceback.format_list(frames[own:])).rstrip()
    # That of a syntax error begins with its place.
    first = what.splitlines()[-1 if isinstance(error, SyntaxError) else 0]
    return "\n".join(filter(None, [first, way, what if what != first else ""]))
