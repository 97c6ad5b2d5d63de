"""The namespace ``tapec.nest``: nested structures, taken apart and put together.

Lists, tuples, named tuples and mappings are structure; everything else is a leaf, None, tensors and strings too. A
mapping's values come in the order of its sorted keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tapec import arguments
from tapec.absences.names import namespace
from tapec.cyclic import Finite
from tapec.errors import TypeError, ValueError
from tapec.frames import here

__all__ = [
    "assert_same_structure",
    "flatten",
    "is_nested",
    "map_structure",
    "map_structure_up_to",
    "pack_sequence_as",
]


def is_nested(seq: Any) -> bool:
    """Whether an object is structure: a list, tuple or mapping."""
    return isinstance(seq, list | tuple | Mapping)


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """The leaves in order; a leaf alone is a list of one.

    ``expand_composites`` takes IndexedSlices apart, into values, indices and the shape if there is one.

    Example: ``flatten({"b": [2, 3], "a": 1})`` is ``[1, 2, 3]``.

    Raises:
        ValueError: the structure contains itself, or is nested too deep.
    """
    if not is_nested(structure):
        return (
            _components(structure)
            if arguments.flag(expand_composites, "expand_composites")
            else [structure]
        )
    with Finite(structure):
        return [
            leaf for _, child in _children(structure) for leaf in flatten(child, expand_composites)
        ]


def pack_sequence_as(
    structure: Any, flat_sequence: Sequence[Any], expand_composites: bool = False
) -> Any:
    """A structure again, with other leaves.

    Example: ``pack_sequence_as({"a": 0, "b": [0, 0]}, [1, 2, 3])`` is ``{"a": 1, "b": [2, 3]}``.

    Raises:
        TypeError: the leaves are no sequence.
        ValueError: too few of them, or too many.
    """
    given: Any = flat_sequence
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise TypeError(
            f"Attempted to pack value {flat_sequence!r} into a structure, but found incompatible "
            f"type {type(flat_sequence).__name__!r} instead of a sequence",
            location=here(),
        )
    count = len(flatten(structure, expand_composites))
    if count != len(flat_sequence):
        raise ValueError(
            f"Could not pack sequence. Structure had {count} atoms, but flat_sequence had "
            f"{len(flat_sequence)} items. Structure: {structure}, flat_sequence: {flat_sequence}.",
            location=here(),
        )
    return _packed(structure, iter(flat_sequence), expand_composites)


def map_structure(func: Callable[..., Any], *structure: Any, **kwargs: Any) -> Any:
    """A structure of what ``func`` gives for each leaf, or for leaves at the same place of several structures.

    Args:
        func: takes as many leaves as there are structures.
        structure: one or several; the result is like the first.
        kwargs: ``check_types`` and ``expand_composites``; see `assert_same_structure`.

    Example: ``map_structure(lambda g: g * 2, {"a": 1.0, "b": [2.0]})`` is ``{"a": 2.0, "b": [4.0]}``.

    Raises:
        TypeError: ``func`` cannot be called, or structures of different kinds.
        ValueError: no structure, or structures that differ.
    """
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}", location=here())
    if not structure:
        raise ValueError("Must provide at least one structure", location=here())
    check_types = kwargs.pop("check_types", True)
    expand = kwargs.pop("expand_composites", False)
    if kwargs:
        raise ValueError(
            f"Only valid keyword arguments are `check_types` and `expand_composites`, not: "
            f"`{'`, `'.join(kwargs)}`",
            location=here(),
        )
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types=check_types)
    leaves = zip(*(flatten(s, expand) for s in structure), strict=True)
    return pack_sequence_as(structure[0], [func(*row) for row in leaves], expand)


def map_structure_up_to(shallow: Any, func: Callable[..., Any], *structure: Any) -> Any:
    """Like `map_structure`, but only as deep as ``shallow`` goes: below, ``func`` gets whole structures.

    Example: ``map_structure_up_to([0, 0], len, [[1, 2], "abc"])`` is ``[2, 3]``.

    Raises:
        TypeError, ValueError: a structure ends before ``shallow`` does, or differs from it.
    """
    if not structure:
        raise ValueError("Must provide at least one structure", location=here())
    arguments.function(func, "func")
    with Finite(shallow):
        rows = zip(*[_cut(shallow, s) for s in structure], strict=True)
    return _packed(shallow, iter([func(*row) for row in rows]), False)


def assert_same_structure(
    nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Raise an error if two structures differ in anything but their leaves.

    Args:
        nest1: a structure.
        nest2: another one.
        check_types: whether a list and a tuple are different. Mappings of any type are alike.
        expand_composites: without effect: IndexedSlices are leaves.

    Raises:
        TypeError: sequences of different types.
        ValueError: different numbers of elements, different keys, a leaf beside a structure.
    """
    if is_nested(nest1) != is_nested(nest2):
        raise _different(nest1, nest2, "one is a leaf, the other is none")
    if not is_nested(nest1):
        return
    mappings = isinstance(nest1, Mapping) and isinstance(nest2, Mapping)
    if arguments.flag(check_types, "check_types") and not mappings and not _same_type(nest1, nest2):
        raise TypeError(
            f"The two namedtuples or sequences don't have the same sequence type. First structure has type "
            f"{type(nest1).__name__}, while second structure has type {type(nest2).__name__}",
            location=here(),
        )
    first, second = _children(nest1), _children(nest2)
    if len(first) != len(second):
        raise _different(nest1, nest2, f"{len(first)} elements and {len(second)}")
    if mappings and [key for key, _ in first] != [key for key, _ in second]:
        raise _different(nest1, nest2, f"keys {list(nest1)} and {list(nest2)}")
    with Finite(nest1):
        for (_, a), (_, b) in zip(first, second, strict=True):
            assert_same_structure(a, b, check_types)


def _different(a: Any, b: Any, why: str) -> ValueError:
    return ValueError(
        f"The two structures don't have the same nested structure: {why}.\n\n"
        f"First structure: {a}\n\nSecond structure: {b}",
        location=here(),
    )


def _same_type(a: Any, b: Any) -> bool:
    if type(a) is type(b):
        return True
    fields = getattr(a, "_fields", None)  # a named tuple made twice is the same
    return (
        fields is not None
        and fields == getattr(b, "_fields", None)
        and type(a).__name__ == type(b).__name__
    )


def _children(structure: Any) -> list[tuple[Any, Any]]:
    """The parts of a structure with their keys or positions."""
    if isinstance(structure, Mapping):
        return [(key, structure[key]) for key in _sorted(structure)]
    return list(enumerate(structure))


def _sorted(keys: Iterable[Any]) -> list[Any]:
    try:
        return sorted(keys)
    except Exception:
        raise TypeError("nest only supports dicts with sortable keys.", location=here()) from None


def _packed(structure: Any, leaves: Any, expand: bool) -> Any:
    if not is_nested(structure):
        return _composed(structure, leaves) if expand else next(leaves)
    parts = {key: _packed(child, leaves, expand) for key, child in _children(structure)}
    if isinstance(structure, Mapping):
        ordered = [(key, parts[key]) for key in structure]
        factory = getattr(structure, "default_factory", None)  # a defaultdict
        if factory is not None:
            return type(structure)(factory, ordered)  # type: ignore[call-arg]
        return type(structure)(ordered)  # type: ignore[call-arg]
    values = list(parts.values())
    return type(structure)(*values) if hasattr(structure, "_fields") else type(structure)(values)


def _components(leaf: Any) -> list[Any]:
    """The tensors that IndexedSlices are made of; any other leaf itself."""
    if not hasattr(leaf, "known_dims"):
        return [leaf]
    shape = leaf.dense_shape
    return [leaf.values, leaf.indices] + ([] if shape is None else [shape])


def _composed(leaf: Any, leaves: Any) -> Any:
    parts = [next(leaves) for _ in _components(leaf)]
    return type(leaf)(*parts) if hasattr(leaf, "known_dims") else parts[0]


def _cut(shallow: Any, structure: Any) -> list[Any]:
    """The parts of a structure that stand where the leaves of ``shallow`` do."""
    if not is_nested(shallow):
        return [structure]
    if not is_nested(structure):
        raise TypeError(
            f"If shallow structure is a sequence, input must also be a sequence. Input has type: "
            f"{type(structure).__name__!r}.",
            location=here(),
        )
    first, second = _children(shallow), _children(structure)
    if [key for key, _ in first] != [key for key, _ in second]:
        raise _different(shallow, structure, f"{len(first)} elements and {len(second)}")
    rows = zip(first, second, strict=True)
    return [part for (_, above), (_, below) in rows for part in _cut(above, below)]


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("nest")
