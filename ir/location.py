"""Where in the user's source an operation comes from."""

from __future__ import annotations

import functools
import json
import linecache
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the user's code; ``composite`` names the public function that emitted the operation."""

    file: str
    line: int
    composite: str | None = None

    @property
    def text(self) -> str:
        """The source line, stripped; empty when the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    def describe(self) -> str:
        """``file:line   text`` for messages."""
        text = self.text
        return f"{self.file}:{self.line}   {text}" if text else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        """The form that the text of a program uses: ``loc("file":line in "softmax")``."""
        composite = "" if self.composite is None else f" in {json.dumps(self.composite)}"
        return f"loc({_quoted(self.file)}:{self.line}{composite})"


@functools.lru_cache(maxsize=64)
def _quoted(file: str) -> str:
    """A path as a string of the text; a dump asks for the same few at each of its lines."""
    return json.dumps(file, ensure_ascii=False)
