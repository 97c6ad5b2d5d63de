"""Reads types, dims and attribute values: what `tapec.ir.text.literals` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapec.ir.dims import DimLike, Symbol
from tapec.ir.text.lexer import Cursor, Source, Token, shown
from tapec.ir.text.literals import DIGITS
from tapec.ir.text.type_text import TypeTextError, parse_dim, parse_type
from tapec.ir.types import BY_CODE, TensorType, Type

# A dim as an attribute is not cut into tokens: N%4 would look like a value called %4.
_DIM = re.compile(r"-?[A-Za-z0-9_(][A-Za-z0-9_()+*/%-]*")
_DENSE = re.compile(r"dense(?:<(?P<head>.*)>)?\[(?P<body>[^\]]*)\]")
_COMPLEX = re.compile(r"complex\(([^,()]*),([^,()]*)\)")
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "none": None}


@dataclass(frozen=True)
class Dense:
    """An array whose type is not known yet: it stands behind the operation's attributes."""

    token: Token
    body: str
    key: str | None


class LiteralParser(Cursor):
    """Reads values; `symbols` are the dims of the function at hand."""

    def __init__(self, source: Source, constants: Mapping[str, Any]) -> None:
        """Read from a source; ``constants`` are the arrays that it abbreviates, by hash."""
        super().__init__(source)
        self.constants = constants
        self.symbols: dict[str, Symbol] = {}
        self._types: dict[str, Type] = {}

    def start_function(self) -> None:
        """Forget the symbols: each function has its own."""
        self.symbols = {}
        self._types = {}

    def type(self) -> Type:
        """``f32[N,4]``."""
        token = self.expect_kind("type", "a type")
        found = self._types.get(token.text)
        if found is None:
            try:
                found = self._types[token.text] = parse_type(token.text, self.symbols)
            except TypeTextError as error:
                raise self.source.error(str(error), token.start + error.start) from None
        return found

    def dim(self) -> DimLike:
        """``2*N+1``: an integer or an expression over symbols."""
        start = self.token.start
        match = _DIM.match(self.source.text, start)
        if match is None:
            raise self.error(f"expected a number or a dim, got {shown(self.token)}", self.token)
        try:
            dim = parse_dim(match.group(), self.symbols)
        except TypeTextError as error:
            raise self.source.error(str(error), start, len(match.group())) from None
        self.skip_to(match.end())
        return dim

    def attrs(self) -> dict[str, Any]:
        """``{axes = [0, 1], dtype = f32}``."""
        found: dict[str, Any] = {}

        def item() -> None:
            name = self.token
            if not name.text.isidentifier():
                raise self.error(f"expected an attribute, got {shown(name)}", name)
            if name.text in found:
                raise self.error(f"the attribute {name.text} came before", name)
            self.advance()
            self.expect("=")
            found[name.text] = self.literal()

        self.expect("{")
        self.list_until("}", item)
        return found

    def attrs_follow(self) -> bool:
        """Whether a brace opens attributes and not a region: ``{name =``."""
        if self.token.text != "{":
            return False
        return self.peek(2).text == "=" and self.peek(1).kind in ("name", "type")

    def literal(self) -> Any:
        """An attribute value; a `Dense` where its type stands elsewhere."""
        token = self.token
        match token.kind:
            case "string":
                return self.string()
            case "float":
                self.advance()
                return float(token.text)
            case "dense":
                return self.dense()
            case "type":
                if token.text in BY_CODE:
                    self.advance()
                    return BY_CODE[token.text]
                return self.type()
        if token.text in _WORDS:
            self.advance()
            return _WORDS[token.text]
        if self.take("["):
            items: list[Any] = []
            self.list_until("]", lambda: items.append(self.literal()))
            return tuple(items)
        if token.text == "complex" and self.peek(1).text == "(":
            self.advance()
            self.advance()
            real = self.number()
            self.expect(",")
            imag = self.number()
            self.expect(")")
            return complex(real, imag)
        return self.dim()

    def string(self, what: str = "a string") -> str:
        """``"text"`` with the escapes of JSON."""
        return self.unquoted(self.expect_kind("string", what))

    def unquoted(self, token: Token) -> str:
        """What stands between the quotes of a token, behind any ``@``."""
        try:
            return str(json.loads(token.text.removeprefix("@")))
        except ValueError as error:
            raise self.error(f"not a string: {error}", token) from None

    def number(self) -> float:
        """A float, or an integer meant as one."""
        return (
            float(self.advance().text)
            if self.token.kind == "float"
            else float(self.expect_kind("int", "a number").text)
        )

    def dense(self) -> Any:
        """``dense[1.0, 2.0]`` or ``dense<f32[2]>[1.0, 2.0]``."""
        token = self.advance()
        match = _DENSE.fullmatch(token.text)
        assert match is not None
        *head, last = (match["head"] or "").split(" ")
        key = last if re.fullmatch(rf"[0-9a-f]{{{DIGITS}}}", last) else None
        if key is None and last:
            head.append(last)
        dense = Dense(token, match["body"], key)
        if not head:
            return dense
        try:
            own = parse_type(" ".join(head), self.symbols)
        except TypeTextError as error:
            raise self.error(str(error), token) from None
        return self.array(dense, own)

    def array(self, dense: Dense, wanted: Type | None) -> np.ndarray[Any, Any]:
        """The elements of a `Dense` in the type that is now known."""
        if not isinstance(wanted, TensorType) or not wanted.is_static:
            raise self.error(f"an array needs a static tensor type, got {wanted}", dense.token)
        dtype, shape = wanted.dtype, wanted.static_shape
        if dense.key is not None:
            return self.abbreviated(dense, dense.key, wanted)
        items = [item.strip() for item in dense.body.split(",")] if dense.body.strip() else []
        try:
            if dtype.is_complex:
                numbers = [complex(float(x), float(y)) for x, y in _COMPLEX.findall(dense.body)]
                flat = np.array(numbers, dtype.numpy)
            elif dtype.is_bool:
                flat = np.array([{"true": True, "false": False}[item] for item in items], np.bool_)
            elif dtype.is_floating:
                flat = np.array([float(item) for item in items], np.float64).astype(dtype.numpy)
            else:
                flat = np.array([int(item) for item in items], dtype.numpy)
        except (ValueError, KeyError, OverflowError) as error:
            raise self.error(f"not an array of {dtype.code}: {error}", dense.token) from None
        if flat.size != wanted.size:
            raise self.error(f"{wanted} has {wanted.size} elements, got {flat.size}", dense.token)
        return flat.reshape(shape)

    def abbreviated(self, dense: Dense, key: str, wanted: TensorType) -> np.ndarray[Any, Any]:
        """A large constant, from the side file."""
        array = self.constants.get(key)
        if array is None:
            raise self.error(
                f"the elements of constant {key} are not in this text",
                dense.token,
                hint="print it with --full-constants, or keep the side file beside it",
            )
        # NumPy's files hold bfloat16 as two bytes without meaning.
        return np.asarray(array).view(wanted.dtype.numpy).reshape(wanted.static_shape)
