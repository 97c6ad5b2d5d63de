"""A function's code, converted: from its source to the code of a function that reads like it."""

from __future__ import annotations

import ast
from types import CodeType, FunctionType

from tapec.autograph.conversion import NO_SOURCE
from tapec.autograph.jumps import OURS, Refused
from tapec.autograph.rewriting import rewritten
from tapec.autograph.source import compiled, source_of


def code_of(function: FunctionType) -> CodeType | str | None:
    """The converted code; a text that says why there is none, or None if there is nothing to convert."""
    code = function.__code__
    source = source_of(code, function.__globals__)
    if source is None:
        return NO_SOURCE
    try:
        if not rewritten(source.node, source.owner):
            return None
    except Refused as refusal:
        return str(refusal)
    made = compiled(source, code)
    assert made is not None
    return _named(made, code.co_name, code.co_qualname)


def text_of(function: FunctionType) -> str:
    """The source of the converted code of a function that has some."""
    source = source_of(function.__code__, function.__globals__)
    assert source is not None
    rewritten(source.node, source.owner)
    return ast.unparse(source.node)


def _named(code: CodeType, name: str, qualname: str) -> CodeType:
    """Code whose parts bear the name of the function that the user wrote, in tracebacks."""
    inner = []
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            own = constant.co_name
            if own.startswith(OURS):
                constant = _named(constant, name, qualname)
            else:
                constant = _named(constant, own, f"{qualname}.<locals>.{own}")
        inner.append(constant)
    return code.replace(co_consts=tuple(inner), co_name=name, co_qualname=qualname)
