"""Programs from text: the grammar that `tapec.ir.printer` writes, and a little more freedom.

::

    module   ::= ["// tapec-ir 1"] function*
    function ::= ("func" | "kernel") @name ["<" symbol "in" low ".." [high], … ">"] "(" args ")"
                 ["->" results] ["where" dim "==" dim, …] [attrs] "{" operation* "}"
    results  ::= result | "(" result, … ")"
    result   ::= type ["into" %arg] | %arg                 (the latter at loop level)
    operation::= [%name, … "="] name [%operand, …] [attrs] [":" type, …] [location] region*
    attrs    ::= "{" name "=" literal, … "}"
    location ::= "loc" "(" "file" ":" line ["in" "composite"] ")"
    region   ::= "{" ["^" "(" args ")" ":"] operation* "}"
    args     ::= %name ":" type, …

Operands of an operation stand on its line. Result types are inferred again and compared with what
is written, so a program that parses is well typed; the other invariants are
`tapec.ir.verifier`'s.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from tapec.ir.checked_types import checked_result_types
from tapec.ir.core import Block, Function, Module, Operation, Region, Value
from tapec.ir.dims import Symbol
from tapec.ir.errors import ParseError, TapecError
from tapec.ir.guards import recording_guards
from tapec.ir.location import Location
from tapec.ir.op import OPS
from tapec.ir.ops.control import Return
from tapec.ir.printer import FORMAT_VERSION
from tapec.ir.text.lexer import Source, Token, shown
from tapec.ir.text.literal_parser import Dense, LiteralParser
from tapec.ir.types import Type

# Line by line, each in one way only: a text may begin with thousands of blank lines.
_VERSION = re.compile(
    r'(?:[ \t]*(?://[^\n]*)?\n)*?// tapec-ir (?P<number>\d+)(?:, constants in "(?P<side>[^"\n]*)")?'
)


def parse_module(
    text: str, *, name: str = "<text>", constants: Mapping[str, Any] | None = None
) -> Module:
    """The module that a text stands for.

    Args:
        text: functions, as `tapec.ir.printer` writes them.
        name: what error messages call the text, such as its file.
        constants: arrays for constants that the text abbreviates, by hash.

    Raises:
        ParseError: the text is no program; the message shows where.
    """
    source = Source(text, name)
    version = _VERSION.match(text)
    if version is not None and int(version["number"]) > FORMAT_VERSION:
        raise source.error(
            f"the text has format {version['number']}, this tapec reads up to {FORMAT_VERSION}",
            version.start("number"),
            len(version["number"]),
            hint="read it with the tapec that wrote it, or a newer one",
        )
    parser = _Parser(source, constants or {})
    try:
        return parser.module()
    except RecursionError:
        raise source.error("nested too deeply to be read", parser.token.start) from None


def read_module(path: Path) -> Module:
    """The module in a file; large constants come from the side file that its first line names.

    Raises:
        ParseError: the text is no program, or its side file is missing or holds no arrays.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(f"{path} is no text: byte {error.start} is not UTF-8") from None
    version = _VERSION.match(text)
    constants: dict[str, Any] = {}
    if version is not None and version["side"]:
        side = path.parent / version["side"]
        try:
            with np.load(side) as archive:
                constants = dict(archive)
        except FileNotFoundError:
            raise ParseError(
                f"{path} keeps its large constants in {side}, which is missing"
            ) from None
        except (OSError, EOFError, TypeError, ValueError, BadZipFile) as error:
            raise ParseError(f"{path} keeps its large constants in {side}: {error}") from None
    return parse_module(text, name=str(path), constants=constants)


class _Parser(LiteralParser):
    """Recursive descent over the tokens; one function at a time."""

    def __init__(self, source: Source, constants: Mapping[str, Any]) -> None:
        super().__init__(source, constants)
        self.values: dict[str, Value] = {}

    def module(self) -> Module:
        module = Module()
        while self.token.kind != "end":
            start = self.token
            function = self.function()
            if function.name in module.functions:
                raise self.error(f"a function @{function.name} came before", start)
            module.add(function)
        return module

    # ---- functions

    def function(self) -> Function:
        kind = self.token
        if kind.text not in ("func", "kernel"):
            raise self.error(f"expected func or kernel, got {shown(kind)}", kind)
        self.advance()
        name = self.symbol_name()
        self.start_function()
        self.values = {}
        if self.take("<"):
            self.list_until(">", self.declaration)
        function = Function(name, kind=kind.text)
        self.expect("(")
        self.list_until(")", lambda: self.argument(function.block))
        written = self.results(function) if self.take("->") else []
        if self.take("where"):
            function.guards.append(self.guard())
            while self.take(","):
                function.guards.append(self.guard())
        if self.attrs_follow():
            function.attrs.update(self.attrs())
        self.expect("{")
        with recording_guards(function):
            self.operations(function.block)
        self.check_results(function, written)
        return function

    def declaration(self) -> None:
        """``N in 1..32`` or ``N in 1..``."""
        name = self.expect_kind("name", "the name of a dim").text
        self.expect("in")
        low = int(self.expect_kind("int", "a lower bound").text)
        self.expect("..")
        high = int(self.advance().text) if self.token.kind == "int" else None
        self.symbols[name] = Symbol(name, low, high)

    def argument(self, block: Block) -> None:
        """``%x: f32[4]``."""
        token = self.expect_kind("value", "an argument")
        self.expect(":")
        self.define(token, block.add_arg(self.type(), _own_name(token)))

    def guard(self) -> tuple[str, str]:
        """``N == 2*M``."""
        left = str(self.dim())
        self.expect("==")
        return left, str(self.dim())

    def results(self, function: Function) -> list[tuple[Token, Type | None, Value | None]]:
        """What a header promises: where each result stands, its type, the argument it updates."""
        written: list[tuple[Token, Type | None, Value | None]] = []

        def result() -> None:
            token = self.token
            if token.kind == "value":
                written.append((token, None, self.operand()))
            else:
                promised = self.type()
                written.append((token, promised, self.operand() if self.take("into") else None))

        if self.take("("):
            self.list_until(")", result)
        else:
            result()
        return written

    def check_results(
        self, function: Function, written: list[tuple[Token, Type | None, Value | None]]
    ) -> None:
        """Hold the header to what the body returns, and note which arguments are updated."""
        inputs = function.attrs.get("inputs", len(function.args))
        if not isinstance(inputs, int):
            raise self.error(f"inputs must be a number, got {inputs}", self.tokens[self.index - 1])
        for i, (_, promised, target) in enumerate(written):
            if target is not None and (promised is not None or target.index < inputs):
                function.updates[i] = target.index
        ops = function.block.ops
        if function.is_loop_level or not ops or not isinstance(ops[-1].defn, Return):
            return
        returned = function.returns
        for (token, promised, _), value in zip(written, returned, strict=False):
            if promised != value.type:
                raise self.error(
                    f"expected {value.type}, which is returned, came {token.text}", token
                )
        if len(written) != len(returned):
            raise self.error(
                f"the number of results is {len(returned)}, the header names {len(written)}",
                self.tokens[self.index - 1],
            )

    # ---- operations

    def operations(self, block: Block) -> None:
        """Operations up to the closing brace."""
        while not self.take("}"):
            block.append(self.operation())

    def operation(self) -> Operation:
        """One operation with its regions; its results can be read from here on."""
        results: list[Token] = []
        if self.token.kind == "value":
            results.append(self.advance())
            while self.take(","):
                results.append(self.expect_kind("value", "a result"))
            self.expect("=")
        name = self.token
        defn = OPS.get(name.text)
        if defn is None:
            raise self.unknown_operation(name)
        self.advance()
        operands = self.operands()
        attrs = self.attrs() if self.attrs_follow() else {}
        annotation = self.token
        types = self.types() if self.take(":") else []
        if len(types) != len(results):
            message = f"the number of result types is {len(types)}, expected {len(results)}"
            raise self.error(message, annotation if types else name)
        if defn.typed and types:
            attrs["type"] = types[0]
        for key, value in attrs.items():
            if isinstance(value, Dense):
                attrs[key] = self.array(value, types[0] if types else None)
        location = self.location() if self.token.text == "loc" else None
        regions = []
        while self.token.text == "{" and not self.token.fresh:
            regions.append(self.region())
        op = Operation(defn, operands, types, attrs, regions, location)
        self.check_types(op, name, annotation)
        for token, result in zip(results, op.results, strict=True):
            self.define(token, result)
        return op

    def unknown_operation(self, name: Token) -> ParseError:
        """An error that proposes what may be meant."""
        if name.kind not in ("name", "type"):
            return self.error(f"expected an operation, got {shown(name)}", name)
        close = difflib.get_close_matches(name.text, OPS, n=1)
        hint = f"did you mean {close[0]}?" if close else "tapec ops lists the operations"
        if "." in name.text:  # as the names of built-in operations have none
            hint = "import the module that registers it with tapec.custom_op, then read the text"
            return self.error(
                f"{name.text} is a custom op, and none of this name is registered in this process",
                name,
                hint=hint,
            )
        return self.error(f"no operation is called {name.text}", name, hint=hint)

    def operands(self) -> list[Value]:
        """Values on the line of their operation, with commas between them."""
        if self.token.kind != "value" or self.token.fresh:
            return []
        operands = [self.operand()]
        while self.take(","):
            operands.append(self.operand())
        return operands

    def operand(self) -> Value:
        """A value that is defined and in scope."""
        token = self.expect_kind("value", "a value")
        value = self.values.get(token.text)
        if value is None:
            close = difflib.get_close_matches(token.text, self.values, n=1)
            hint = f"did you mean {close[0]}?" if close else None
            raise self.error(f"{token.text} is not defined here", token, hint=hint)
        return value

    def define(self, token: Token, value: Value) -> None:
        """Give a value the name that it has in the text."""
        if token.text in self.values:
            raise self.error(f"{token.text} is defined already", token)
        value.name = _own_name(token)
        self.values[token.text] = value

    def types(self) -> list[Type]:
        """Types with commas between them."""
        types = [self.type()]
        while self.take(","):
            types.append(self.type())
        return types

    def check_types(self, op: Operation, name: Token, annotation: Token) -> None:
        """Hold the annotation to what the operation's type rule says."""
        try:
            expected = checked_result_types(op)
        except TapecError as error:
            raise self.error(error.message, name, hint=error.hint) from error
        written = tuple(r.type for r in op.results)
        if expected is None or expected == written:
            return
        if len(expected) != len(written):
            raise self.error(
                f"the number of results is {len(expected)}, the text names {len(written)}", name
            )
        start = self.tokens.index(annotation)
        for i, (want, came) in enumerate(zip(expected, written, strict=True)):
            if want != came:
                token = self.tokens[start + 1 + 2 * i]
                raise self.error(f"{op.name}: expected {want}, came {came}", token)

    def location(self) -> Location:
        """``loc("train.py":14 in "softmax")``."""
        self.expect("loc")
        self.expect("(")
        file = self.string("a file")
        self.expect(":")
        line = int(self.expect_kind("int", "a line number").text)
        composite = None
        if self.take("in"):
            composite = self.string("a name")
        self.expect(")")
        return Location(file, line, composite)

    def region(self) -> Region:
        """``{ ^(%i: index): … }``; names that it defines end with it."""
        outer = dict(self.values)
        block = Block()
        self.expect("{")
        if self.take("^"):
            self.expect("(")
            self.list_until(")", lambda: self.argument(block))
            self.expect(":")
        self.operations(block)
        self.values = outer
        return Region([block])

    def symbol_name(self) -> str:
        """``@step`` or ``@"<lambda>"``."""
        token = self.expect_kind("symbol", "the name of a function, such as @f")
        return self.unquoted(token) if '"' in token.text else token.text[1:]


def _own_name(token: Token) -> str | None:
    """The name that a value keeps: numbers are the printer's."""
    return None if token.text[1:].isdigit() else token.text[1:]
