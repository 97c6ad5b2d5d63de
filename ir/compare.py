"""Whether two programs are the same but for names and locations, and where they first differ."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from tapec.ir.core import Block, Function, Module, Operation, Value


def structurally_equal(a: Module, b: Module) -> bool:
    """Same functions, operations, attributes and types, wired alike."""
    return difference(a, b) is None


def difference(a: Module, b: Module) -> str | None:
    """Where two modules first differ, in words; None if they do not."""
    if list(a.functions) != list(b.functions):
        return f"functions {list(a.functions)} and {list(b.functions)}"
    for name, function in a.functions.items():
        found = function_difference(function, b.functions[name])
        if found is not None:
            return f"in @{name}: {found}"
    return None


def function_difference(a: Function, b: Function) -> str | None:
    """Where two functions first differ, their names apart; None if they do not."""
    for what in ("kind", "updates"):
        if getattr(a, what) != getattr(b, what):
            return f"{what} {getattr(a, what)} and {getattr(b, what)}"
    if set(a.guards) != set(b.guards):
        return f"guards {a.guards} and {b.guards}"
    if exact(a.attrs) != exact(b.attrs):
        return f"attributes {a.attrs} and {b.attrs}"
    return _Pairing().blocks(a.block, b.block)


def exact(value: Any) -> Hashable:
    """A key that tells apart 1, 1.0 and True, 0.0 and -0.0; NaN equals itself."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return tuple((name, exact(value[name])) for name in sorted(value))
    if isinstance(value, tuple | list):
        return tuple(exact(item) for item in value)
    if isinstance(value, float):
        return float, "nan" if value != value else struct.pack("<d", value)
    if isinstance(value, complex):
        return complex, exact(value.real), exact(value.imag)
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    return type(value), value


class _Pairing:
    """Which value of one program is which of the other."""

    def __init__(self) -> None:
        self.partners: dict[Value, Value] = {}

    def blocks(self, a: Block, b: Block) -> str | None:
        found = self.define(a.args, b.args)
        if found is not None:
            return f"arguments: {found}"
        for i, (p, q) in enumerate(zip(a.ops, b.ops, strict=False)):
            found = self.operations(p, q)
            if found is not None:
                return f"operation {i}: {found}"
        if len(a.ops) != len(b.ops):
            return f"{len(a.ops)} and {len(b.ops)} operations"
        return None

    def operations(self, a: Operation, b: Operation) -> str | None:
        if a.defn is not b.defn:
            return f"{a.name} and {b.name}"
        if exact(a.attrs) != exact(b.attrs):
            return f"{a.name} with {a.attrs} and {b.attrs}"
        paired = [self.partners.get(v) for v in a.operands]
        if len(paired) != len(b.operands) or any(
            p is not q for p, q in zip(paired, b.operands, strict=True)
        ):
            return f"{a.name} reads other values"
        if len(a.regions) != len(b.regions):
            return f"{a.name} with {len(a.regions)} and {len(b.regions)} regions"
        for p, q in zip(a.regions, b.regions, strict=True):
            found = self.blocks(p.block, q.block)
            if found is not None:
                return f"{a.name}: {found}"
        found = self.define(a.results, b.results)
        return found and f"{a.name}: {found}"

    def define(self, a: Any, b: Any) -> str | None:
        """Pair values that two places define."""
        if [v.type for v in a] != [v.type for v in b]:
            one, other = (", ".join(str(v.type) for v in values) for values in (a, b))
            return f"types {one} and {other}"
        self.partners.update(zip(a, b, strict=True))
        return None
