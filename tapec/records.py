"""Records: instances of dataclasses, and of classes that attrs made, which are made of fields."""

from __future__ import annotations

from typing import Any


def is_made_of_fields(kind: type) -> bool:
    """Whether a class is such a one."""
    return hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__attrs_attrs__")


def fields_of(record: Any) -> tuple[list[Any], Any, tuple[str, ...]]:
    """The values of an instance, what it takes to make one like it, and their names."""
    kind = type(record)
    declared = (
        getattr(kind, "__dataclass_fields__", None)  # by name
        or [a.name for a in kind.__attrs_attrs__]
    )
    names = dict.fromkeys([n for n in declared if hasattr(record, n)])
    names.update(dict.fromkeys(getattr(record, "__dict__", ())))
    return [getattr(record, n) for n in names], (kind, tuple(names)), tuple(names)


def remade(made_of: Any, values: Any) -> Any:
    """An instance with other values; neither ``__init__`` nor a frozen class's guard is asked."""
    kind, names = made_of
    record = object.__new__(kind)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(record, name, value)
    return record
