"""How two calls of a function differ: their arguments described, and the descriptions compared."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tapec.arguments import shown
from tapec.compiled.keys import as_input, leaf_key
from tapec.compiled.parameters import Parameters
from tapec.compiled.retraces import Cause, Change
from tapec.ir.types import TensorType
from tapec.structure import parts_of
from tapec.tensor import Tensor
from tapec.traces.scalars import is_number
from tapec.variable import Variable


class Description(NamedTuple):
    """An argument or a part of one, without what it holds: texts, and keys to tell values apart.

    Attributes:
        path: what the user calls it: ``batch["x"]``.
        kind: what it is: "tensor", "number", "None", "flag", "value", "Variable", "function", "method", "object"; of a
            structure the name of its type.
        text: what it is, for people.
        key: equal for values that one program serves; of a structure its type.
        parts: of a structure, by the names of its entries.
        order: the keys of a dict, or the names of a call, in the caller's order.
    """

    path: str
    kind: str
    text: str
    key: Any
    parts: Mapping[Any, Description] | None = None
    order: tuple[Any, ...] = ()

    def leaves(self) -> Iterator[Description]:
        """What is no structure, in order."""
        if self.parts is None:
            yield self
        else:
            for part in self.parts.values():
                yield from part.leaves()

    def with_types(self, types: Iterator[TensorType]) -> Description:
        """The same with these types in place of the tensors', in order."""
        if self.parts is not None:
            parts = {entry: part.with_types(types) for entry, part in self.parts.items()}
            return self._replace(parts=parts)
        if self.kind != "tensor":
            return self
        type = next(types)
        return self._replace(key=type, text=str(type))


def describe_call(
    parameters: Parameters, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Description:
    """The arguments of a call, as one structure whose entries are the parameters' names."""
    values = [*args, *(kwargs[name] for name in sorted(kwargs))]
    names = [parameters.name(i) for i in range(len(args))] + list(
        map(parameters.name, sorted(kwargs))
    )
    parts = {n: describe(v, n) for n, v in zip(names, values, strict=True)}
    return Description("", "call", "", None, parts, parameters.order(kwargs))


def describe(value: Any, path: str) -> Description:
    """A value that stands at a place."""
    parts = parts_of(value)
    if parts is None:
        value = as_input(value)
        return Description(path, *_leaf(value), leaf_key(value))
    kind, entries = parts
    below = {entry: describe(part, path + _step(value, entry)) for entry, part in entries.items()}
    order = tuple(value) if isinstance(value, Mapping) else ()
    return Description(path, kind, f"{kind} of {len(below)}", type(value), below, order)


def _step(structure: Any, entry: Any) -> str:
    """How the user writes the way to a part."""
    if isinstance(entry, str) and not isinstance(structure, Mapping):
        return f".{entry}"
    return f'["{entry}"]' if isinstance(entry, str) else f"[{entry!r}]"


def _leaf(value: Any) -> tuple[str, str]:
    """Kind and text."""
    if value is None:
        return "None", "None"
    if isinstance(value, Tensor):
        return "tensor", str(value.type)
    if isinstance(value, Variable):
        return "Variable", f"Variable {value.name!r} {value.type}"
    if isinstance(value, bool):
        return "flag", str(value)
    if is_number(value):
        return "number", f"{value!r} ({type(value).__name__})"
    if inspect.ismethod(value):
        return "method", f"{value.__qualname__} of {_object(value.__self__)}"
    if inspect.isroutine(value):
        name = getattr(value, "__qualname__", repr(value))
        code = getattr(value, "__code__", None)
        return "function", name if code is None else f"{name} (line {code.co_firstlineno})"
    kind: Any = type(value)
    is_itself = callable(value) or kind.__hash__ is object.__hash__
    is_itself = is_itself or kind.__repr__ is object.__repr__
    return "object" if is_itself else "value", _object(value)


def _object(value: Any) -> str:
    """A value without where it lies in memory; with its class, where the text does not name it."""
    kind: Any = type(value)
    if kind.__repr__ is object.__repr__:
        return f"{kind.__name__} object"
    text = shown(value)
    return (
        f"{text} ({kind.__name__})"
        if kind.__module__ != "builtins" and kind.__name__ not in text
        else text
    )


def changes(old: Description, new: Description) -> list[Change]:
    """What is different, in the order of the arguments."""
    if old.parts is None and new.parts is None:
        return list(_changed_leaf(old, new))
    if old.parts is None or new.parts is None or old.kind != new.kind:
        cause = Cause.NONE if "None" in (old.kind, new.kind) else Cause.STRUCTURE
        return [Change(new.path, cause, old.text, new.text)]
    if old.key is not new.key:
        return [Change(new.path, Cause.STRUCTURE, old.text, f"another {new.text}")]
    return [
        *_changed_entries(old, new),
        *(
            c
            for e, part in new.parts.items()
            if e in old.parts
            for c in changes(old.parts[e], part)
        ),
    ]


def _changed_entries(old: Description, new: Description) -> Iterator[Change]:
    assert old.parts is not None
    assert new.parts is not None
    before, now = list(old.parts), list(new.parts)
    if before == now:
        if old.order != new.order:
            yield Change(new.path or "arguments", Cause.KEY, _keys(old.order), _keys(new.order))
        return
    if old.kind == "call":
        yield Change("arguments", Cause.ARGUMENT, ", ".join(before), ", ".join(now))
    elif all(isinstance(e, int) for e in (*before, *now)) and before[:1] in ([], [0]):
        yield Change(new.path, Cause.LENGTH, f"{len(before)} items", f"{len(now)} items")
    else:
        yield Change(new.path, Cause.KEY, _keys(before), _keys(now))


def _keys(keys: Sequence[Any]) -> str:
    return "keys " + ", ".join(map(repr, keys))


def _changed_leaf(old: Description, new: Description) -> Iterator[Change]:
    if old.kind == new.kind and (old.key == new.key or _is_open_to(old, new)):
        return
    yield Change(new.path, _cause(old, new), old.text, new.text)


def _is_open_to(old: Description, new: Description) -> bool:
    """Whether a tensor's type differs from another in sizes that are open there, and in no others."""
    if old.kind != "tensor" or (old.key.dtype, old.key.rank) != (new.key.dtype, new.key.rank):
        return False
    pairs = zip(old.key.shape, new.key.shape, strict=True)
    return all(a == b or not isinstance(a, int) for a, b in pairs)


_BY_KIND = {
    "flag": Cause.FLAG,
    "value": Cause.VALUE,
    "Variable": Cause.VARIABLE,
    "function": Cause.FUNCTION,
    "method": Cause.METHOD,
    "object": Cause.OBJECT,
    "number": Cause.KIND,
}


def _cause(old: Description, new: Description) -> Cause:
    if "None" in (old.kind, new.kind):
        return Cause.NONE
    if old.kind != new.kind:
        return Cause.KIND
    if old.kind == "tensor":
        if old.key.dtype != new.key.dtype:
            return Cause.DTYPE
        return Cause.RANK if old.key.rank != new.key.rank else Cause.SHAPE
    return _BY_KIND[old.kind]
