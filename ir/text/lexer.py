"""Cuts the text of a program into tokens, reads them one by one, and shows errors with a caret."""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable
from typing import NamedTuple

from tapec.ir.errors import ParseError
from tapec.ir.text.type_text import TYPE_PATTERN

# A comment starts a line or follows a blank, and the quotient of two dims never does: (N-1)//2.
_TOKEN = re.compile(
    rf"""(?P<blank>[ \t\r]+|(?<!\S)//[^\n]*)
    |(?P<line>\n)
    |(?P<value>%[A-Za-z0-9_.]+)
    |(?P<dense>dense(?:<[^>\n]*>)?\[[^\]]*\])
    |(?P<type>{TYPE_PATTERN})
    |(?P<float>-?(?:(?:\d+\.(?!\.)\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)|(?:inf|nan)\b))
    |(?P<int>\d+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    |(?P<symbol>@(?:[A-Za-z_][A-Za-z0-9_.]*|"(?:[^"\\\n]|\\.)*"))
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<sign>->|==|\.\.\.|\.\.|//|[()\[\]{{}}<>,:=^+*%-])
    """,
    re.VERBOSE,
)

#: Of an integer; Python reads a few thousand.
_MAX_DIGITS = 1000
#: How many characters before and behind a place an error shows.
_SHOWN = 150


class Token(NamedTuple):
    """A piece of text: its kind (a group of the pattern, or ``end``), and where it starts.

    ``fresh`` says that it is the first on its line.
    """

    kind: str
    text: str
    start: int
    fresh: bool


class Source:
    """A text with its name, for errors."""

    def __init__(self, text: str, name: str) -> None:
        """Keep the text; nothing is cut yet."""
        self.text = text
        self.name = name

    def tokens(self) -> list[Token]:
        """The whole text in pieces, without blanks and comments, ``end`` last.

        Raises:
            ParseError: a character begins no token.
        """
        tokens = []
        position, fresh = 0, True
        match_at = _TOKEN.match
        text = self.text
        while position < len(text):
            match = match_at(text, position)
            if match is None:
                raise self.error(f"unexpected character {text[position]!r}", position)
            kind = match.lastgroup or ""
            if kind == "line":
                fresh = True
            elif kind == "int" and len(match[0]) > _MAX_DIGITS:
                message = f"a number has at most {_MAX_DIGITS} digits, got {len(match[0])}"
                raise self.error(message, position)
            elif kind != "blank":
                tokens.append(Token(kind, match.group(), position, fresh))
                fresh = False
            position = match.end()
        last = tokens[-1] if tokens else Token("", "", 0, True)
        tokens.append(Token("end", "", last.start + len(last.text), True))
        return tokens

    def error(
        self, message: str, start: int, length: int = 1, hint: str | None = None
    ) -> ParseError:
        """An error that shows a line of the text, with carets under the part that is wrong."""
        ends = [i for i, c in enumerate(self.text) if c == "\n"]
        row = bisect.bisect_left(ends, start)
        begin = ends[row - 1] + 1 if row else 0
        end = ends[row] if row < len(ends) else len(self.text)
        place = f"{self.name}:{row + 1}:{start - begin + 1}"
        # Of a long line the part around the place.
        if end - begin > 2 * _SHOWN:
            begin, end = max(begin, start - _SHOWN), min(end, start + _SHOWN)
        line = self.text[begin:end]
        column = start - begin
        carets = "^" * max(1, min(length, len(line) - column))
        # Tabs before the carets keep them below the text that they mean.
        blank = "".join(c if c == "\t" else " " for c in line[:column])
        return ParseError(f"{message}\n  {place}\n    {line}\n    {blank}{carets}", hint=hint)


class Cursor:
    """Reads the tokens of a source from first to last."""

    def __init__(self, source: Source) -> None:
        """Stand at the first token."""
        self.source = source
        self.tokens = source.tokens()
        self.index = 0
        self.token = self.tokens[0]

    def advance(self) -> Token:
        """Return the current token and go on to the next."""
        token = self.token
        if token.kind != "end":
            self.index += 1
            self.token = self.tokens[self.index]
        return token

    def peek(self, ahead: int) -> Token:
        """The token so many places on; beyond the end it is the end."""
        return self.tokens[min(self.index + ahead, len(self.tokens) - 1)]

    def skip_to(self, position: int) -> None:
        """Go on to the first token that starts at or behind a position in the text."""
        while self.token.start < position and self.token.kind != "end":
            self.advance()

    def take(self, text: str) -> bool:
        """Skip a token if it reads like this."""
        if self.token.text != text or self.token.kind == "string":
            return False
        self.advance()
        return True

    def expect(self, text: str) -> Token:
        """Skip a token that must read like this."""
        if self.token.text != text or self.token.kind == "string":
            raise self.error(f"expected '{text}', got {shown(self.token)}", self.token)
        return self.advance()

    def expect_kind(self, kind: str, what: str) -> Token:
        """Skip a token that must be of a kind."""
        if self.token.kind != kind:
            raise self.error(f"expected {what}, got {shown(self.token)}", self.token)
        return self.advance()

    def list_until(self, close: str, item: Callable[[], object]) -> None:
        """Read items with commas between them, and the closing token."""
        if self.take(close):
            return
        item()
        while self.take(","):
            item()
        self.expect(close)

    def error(self, message: str, token: Token, hint: str | None = None) -> ParseError:
        """An error at a token."""
        return self.source.error(message, token.start, len(token.text), hint)


def shown(token: Token) -> str:
    """A token in a message."""
    return "the end of the text" if token.kind == "end" else f"'{token.text}'"
