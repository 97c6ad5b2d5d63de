"""The text of a program in pieces that are coloured alike, on terminals and in notebooks."""

from __future__ import annotations

import re
from collections.abc import Iterator

#: What is coloured in a text: comments, values, types, strings; then the names of operations.
_PIECES = re.compile(
    r"(?P<comment>//[^\n]*)|(?P<value>%[\w.]+)|(?P<type>\b(?:[fiu]\d+|bf16|c\d+|bool)\b(?:\[[^\]]*\])?)"
    r"|(?P<text>\"[^\"\n]*\")|(?P<word>(?<== )\w+|^\s*\w+)",
    re.MULTILINE,
)


def pieces(text: str) -> Iterator[tuple[str | None, str]]:
    """A program's text in pieces, each with what it is: comment, value, type, text or word; None for the rest."""
    done = 0
    for match in _PIECES.finditer(text):
        yield None, text[done : match.start()]
        yield match.lastgroup, match[0]
        done = match.end()
    yield None, text[done:]
