"""The page of symptoms: every block of its code runs, and prints what is shown below it.

Run as a program, this writes what is printed into the page.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import re
import warnings
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "troubleshooting.md"

#: A block of code, and what it prints, if that is shown.
_BLOCK = re.compile(r"```python\n(.*?)```(\n\n```text\n(.*?)```)?", re.DOTALL)


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
    """The page with what its blocks print."""
    names: dict[str, Any] = {"__name__": "train"}

    def shown(block: re.Match[str]) -> str:
        code = block.group(1)
        output = printed(code, names)
        return f"```python\n{code}```" + (f"\n\n```text\n{output}```" if output else "")

    return _BLOCK.sub(shown, text)


def test_every_block_prints_what_is_shown() -> None:
    text = PAGE.read_text("utf-8")
    assert as_run(text) == text


def test_every_symptom_has_a_section() -> None:
    text = PAGE.read_text("utf-8")
    links = re.findall(r"^\| \[.*?\]\(#(.*?)\)", text, re.MULTILINE)
    heads = [
        re.sub(r"\W+", "-", head.lower()) for head in re.findall(r"^## (.*)$", text, re.MULTILINE)
    ]
    assert links == heads


if __name__ == "__main__":
    PAGE.write_text(as_run(PAGE.read_text("utf-8")), "utf-8")
