"""Pages of documentation, with what their blocks of code print.

A block headed ``python`` is run; what it prints stands in a block headed ``text`` below it. One headed
``python step.py`` is a file, for the commands in blocks headed ``console``: each of them is a command and what it
prints.

Run as a program, this writes into pages what is printed: ``python tests/pages.py docs/compile.md``.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import shlex
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tapec.cli import main
from tapec.ir.op import OPS

DOCS = Path(__file__).resolve().parents[1] / "docs"

#: A block of code, and what it prints, if that is shown.
_BLOCK = re.compile(r"```python\n(.*?)```(\n\n```text\n(.*?)```)?", re.DOTALL)

_FILE = re.compile(r"```python (\S+\.py)\n(.*?)```", re.DOTALL)
_COMMAND = re.compile(r"```console\n\$ tapec ([^\n]*)\n(.*?)```", re.DOTALL)


def told(argv: str) -> str:
    """What a command of tapec prints, in the current folder."""
    result = CliRunner().invoke(main, shlex.split(argv), catch_exceptions=False)
    return result.stdout


def with_commands(text: str) -> str:
    """A page with what its commands print, which are run in a folder that has its files."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for name, code in _FILE.findall(text):
            Path(name).write_text(code, "utf-8")
        linecache.checkcache()
        return _COMMAND.sub(lambda m: f"```console\n$ tapec {m[1]}\n{told(m[1])}```", text)


def printed(code: str, names: dict[str, Any]) -> str:
    """What a block prints; its lines count from its first, in a file of its own."""
    file = "train.py"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream), warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(code, file, "exec"), names)
    return stream.getvalue()


def as_run(text: str) -> str:
    """A page with what its blocks print."""
    names: dict[str, Any] = {"__name__": "train"}
    known = set(OPS)

    def shown(block: re.Match[str]) -> str:
        code = block.group(1)
        output = printed(code, names)
        return f"```python\n{code}```" + (f"\n\n```text\n{output}```" if output else "")

    try:
        return with_commands(_BLOCK.sub(shown, text))
    finally:
        for name in set(OPS) - known:
            del OPS[name]  # custom ops of the page


if __name__ == "__main__":
    for page in map(Path, sys.argv[1:]):
        page.write_text(as_run(page.read_text("utf-8")), "utf-8")
