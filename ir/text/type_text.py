"""Types and dims from their text; `str` of them is the way back."""

from __future__ import annotations

import re
from collections.abc import MutableMapping

from tapec.ir.dims import DimLike, Symbol, symbol
from tapec.ir.types import BY_CODE, BufferType, TensorType, Type, VectorType

_CODES = "|".join(sorted(BY_CODE, key=len, reverse=True))
#: What a type looks like, for lexers: ``f32``, ``f32[N,4]``, ``&f32[4]``, ``f32x16``.
TYPE_PATTERN = rf"(?:{_CODES})x\d+\b|&?(?:{_CODES})(?:\[[^\]\n]*\]|\b)"

_TYPE = re.compile(
    rf"(?P<code>{_CODES})x(?P<lanes>\d+)|(?P<ref>&?)(?P<code2>{_CODES})(?:\[(?P<dims>.*)\])?"
)
#: Limits of what is read: NumPy's of dims, and of an expression as long as no program has one.
_MAX_RANK, _MAX_DIM = 64, 1000
_DIM_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(//|[-+*%()]))")


class TypeTextError(ValueError):
    """Not a type or a dim; ``start`` is where in the text it stops being one."""

    def __init__(self, message: str, start: int) -> None:
        """Say what is wrong, and where."""
        super().__init__(message)
        self.start = start


def parse_type(text: str, known: MutableMapping[str, Symbol] | None = None) -> Type:
    """The type that a text stands for.

    Args:
        text: such as ``f32[N,4]``.
        known: symbols by name, for their bounds; symbols that are not in it are added, with
        default bounds.

    Raises:
        TypeTextError: the text is no type.
    """
    match = _TYPE.fullmatch(text)
    if match is None:
        raise TypeTextError(f"expected a type, got {text!r}", 0)
    if match["lanes"]:
        return VectorType(BY_CODE[match["code"]], int(match["lanes"]))
    dims: list[DimLike] = []
    start = match.start("dims")
    if match["dims"]:
        parts = match["dims"].split(",")
        if len(parts) > _MAX_RANK:
            raise TypeTextError(f"a type has at most {_MAX_RANK} dims, got {len(parts)}", start)
        for part in parts:
            dim = parse_dim(part, known, start)
            if isinstance(dim, int) and dim < 0:
                raise TypeTextError(f"a dim must not be negative, got {dim}", start)
            dims.append(dim)
            start += len(part) + 1
    made = BufferType if match["ref"] else TensorType
    return made(BY_CODE[match["code2"]], tuple(dims))


def parse_dim(
    text: str, known: MutableMapping[str, Symbol] | None = None, start: int = 0
) -> DimLike:
    """The integer expression that a text stands for: ``2*N+1``, ``(N-1)//2+1``, ``N%4``.

    ``start`` is where in a larger text it stands, for the error; ``known`` as in `parse_type`.

    Raises:
        TypeTextError: the text is no dim.
    """
    if len(text) > _MAX_DIM:
        raise TypeTextError(f"a dim has at most {_MAX_DIM} characters, got {len(text)}", start)
    if text.isdigit():
        return int(text)
    return _DimParser(text, {} if known is None else known, start).parse()


class _DimParser:
    """Recursive descent: sums of products of factors; a minus binds like a sum."""

    def __init__(self, text: str, known: MutableMapping[str, Symbol], start: int) -> None:
        self.text = text
        self.known = known
        self.start = start
        self.position = 0
        self.number: str | None = None
        self.name: str | None = None
        self.sign: str | None = None
        self.advance()

    def advance(self) -> None:
        """Read the next token; at the end all three kinds are None."""
        if not self.text[self.position :].strip():
            self.number = self.name = self.sign = None
            return
        match = _DIM_TOKEN.match(self.text, self.position)
        if match is None:
            raise self.error()
        self.number, self.name, self.sign = match.groups()
        self.position = match.end()

    def error(self) -> TypeTextError:
        return TypeTextError(f"expected a dim, got {self.text!r}", self.start)

    def parse(self) -> DimLike:
        value = self.sum()
        if self.number or self.name or self.sign:
            raise self.error()
        return value

    def sum(self) -> DimLike:
        negative = self.take("-")
        value = self.product()
        if negative:
            value = -value
        while True:
            if self.take("+"):
                value = value + self.product()
            elif self.take("-"):
                value = value - self.product()
            else:
                return value

    def product(self) -> DimLike:
        value = self.factor()
        while self.sign in ("*", "//", "%"):
            sign = self.sign
            self.advance()
            factor = self.factor()
            if sign == "*":
                value = value * factor
            elif isinstance(factor, int) and factor <= 0:
                raise TypeTextError(f"a dim is divided by {factor}", self.start)
            else:
                value = value // factor if sign == "//" else value % factor
        return value

    def factor(self) -> DimLike:
        if self.number is not None:
            number = int(self.number)
            self.advance()
            return number
        if self.name is not None:
            known = self.known.setdefault(self.name, Symbol(self.name))
            self.advance()
            return symbol(known.name, known.low, known.high)
        if self.take("("):
            value = self.sum()
            if self.take(")"):
                return value
        raise self.error()

    def take(self, sign: str) -> bool:
        """Skip a sign if it is the next token."""
        if self.sign != sign:
            return False
        self.advance()
        return True
