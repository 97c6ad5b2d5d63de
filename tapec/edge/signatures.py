"""What functions are built for: types as text, specs, arrays."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tapec.errors import ValueError
from tapec.frames import here
from tapec.ir.dims import symbol
from tapec.ir.text.type_text import TypeTextError, parse_type
from tapec.ir.types import TensorType
from tapec.tensor import Tensor, as_tensor

_BOUND = re.compile(r"([A-Za-z_]\w*)\s*<=\s*(\d+)")
#: A type; between brackets there may be blanks.
_TYPE = re.compile(r"[^\s\[]+\[[^\]]*\]?|\S+")


def arguments_of(signature: Any) -> list[Any]:
    """The arguments for which to trace a function.

    Raises:
        ValueError: a text names no types.
    """
    if signature is None:
        return []
    if isinstance(signature, str):
        return [Tensor(None, kind) for kind in types_of(signature)]
    if isinstance(signature, list | tuple):
        return [as_tensor(x) if isinstance(x, np.ndarray) else x for x in signature]
    return [signature]


def types_of(text: str) -> list[TensorType]:
    """The types in a text such as ``f32[N<=32,784] i32[N]``; sizes are at least 1.

    Raises:
        ValueError: it is none of types.
    """
    bounds = _bounds(text)
    found = []
    for part in _TYPE.findall(_BOUND.sub(r"\1", text)):
        try:
            kind = parse_type(part)
        except TypeTextError as error:
            raise ValueError(f"signature {text!r}: {error}", location=here()) from None
        if not isinstance(kind, TensorType):
            raise ValueError(
                f"signature {text!r}: expected types such as f32[32,784], got {part}",
                location=here(),
            )
        sizes: dict[str, Any] = {
            s.name: symbol(s.name, 1, bounds.get(s.name)) for s in kind.symbols()
        }
        found.append(kind.substitute(sizes))
    return found


def _bounds(text: str) -> dict[str, int]:
    """The largest value of each size that has one.

    Raises:
        ValueError: a size has two, or none that a size can have.
    """
    found: dict[str, int] = {}
    for name, bound in _BOUND.findall(text):
        if found.setdefault(name, int(bound)) != int(bound) or int(bound) < 1:
            raise ValueError(
                f"signature {text!r}: the size {name} can be at most {found[name]}, got {name}<={bound}"
                if int(bound)
                else f"signature {text!r}: expected a bound of at least 1, got {name}<={bound}",
                location=here(),
            )
    return found
