"""Nested structures: lists, tuples, dicts (by sorted keys), named tuples, dataclasses and classes made by attrs.

What else is registered with optree is structure too. Instances of tapec's own dataclasses and Modules are leaves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Any

import numpy as np

from tapec.cyclic import Finite
from tapec.frames import is_ours
from tapec.ir.dims import substitute
from tapec.module import Module
from tapec.records import fields_of, is_made_of_fields, remade
from tapec.tensor import Tensor
from tapec.tensors.indexed_slices import IndexedSlices
from tapec.variable import Variable

#: Leaves of these very types; nobody can tell optree otherwise.
_PLAIN = frozenset({np.ndarray, int, float, complex, bool, str, bytes, type(None)})
#: Structures whose parts come by sorted keys, whatever order they have.
_BY_KEY = (dict, defaultdict)


def flatten(structure: Any, *, parts: bool = False) -> tuple[list[Any], Any]:
    """The leaves in order, and what `unflatten` needs; None is a leaf.

    With ``parts`` the values and indices of IndexedSlices are leaves, else these are leaves as a whole. A single leaf
    and a list of leaves, which are nearly all there is, need no optree.

    Raises:
        ValueError: the structure contains itself, or is nested too deep.
    """
    if _is_plain(structure):
        return [structure], None
    if type(structure) is list and all(map(_is_plain, structure)):
        return list(structure), list
    if isinstance(structure, IndexedSlices) and not parts:
        return [structure], None
    import optree  # heavy: see above

    _register(optree)
    whole = None if parts else lambda node: isinstance(node, IndexedSlices)
    flat = partial(optree.tree_flatten, structure, whole, none_is_leaf=True, namespace="tapec")
    with Finite(structure):
        leaves, spec = flat()
        while _register_records(optree, leaves):
            leaves, spec = flat()
    return leaves, spec


def _is_plain(structure: Any) -> bool:
    """Whether something is a leaf for certain; other objects optree has to be asked about."""
    return type(structure) in _PLAIN or isinstance(structure, Tensor | Variable | Module)


def key_orders(structure: Any) -> tuple[tuple[Any, ...], ...]:
    """The keys of all dicts in a structure, in the order that these have them, which a loop over a dict goes by.

    What `flatten` gives beside the leaves is equal for all orders.
    """
    found, asked = [], [structure]
    while asked:
        node = asked.pop()
        if type(node) in _BY_KEY:
            found.append(tuple(node))
            asked += node.values()
        elif isinstance(node, list | tuple):
            asked += node
        elif is_record(type(node)):
            asked += fields_of(node)[0]
    return tuple(found)


@cache
def _register(optree: Any) -> None:
    """Let optree know what IndexedSlices are made of."""
    optree.register_pytree_node(
        IndexedSlices,
        lambda slices: (
            (slices.values, slices.indices),
            slices.known_dims,
            ("values", "indices"),
        ),
        lambda dims, parts: IndexedSlices(parts[0], parts[1], dims),
        namespace="tapec",
    )


def _register_records(optree: Any, leaves: list[Any]) -> bool:
    """Let optree know of classes among the leaves whose instances are made of fields; whether there are new ones."""
    found = [kind for kind in set(map(type, leaves)) if is_record(kind)]
    for kind in found:
        with suppress(ValueError):  # another thread was faster
            optree.register_pytree_node(
                kind, fields_of, remade, path_entry_type=optree.GetAttrEntry, namespace="tapec"
            )
    return bool(found)


def is_record(kind: type) -> bool:
    """Whether instances of a class are structure: dataclasses, and what attrs made."""
    return is_made_of_fields(kind) and not is_ours(kind.__module__) and not issubclass(kind, Module)


def parts_of(structure: Any) -> tuple[str, dict[Any, Any]] | None:
    """The type's name and the parts by their entries, one level deep; None for a leaf."""
    if _is_plain(structure):
        return None
    import optree  # heavy

    _register(optree)
    if optree.tree_is_leaf(structure, none_is_leaf=True, namespace="tapec"):
        if not _register_records(optree, [structure]):
            return None
    level = optree.tree_flatten_one_level(structure, none_is_leaf=True, namespace="tapec")
    entries = getattr(structure, "_fields", level.entries)
    if isinstance(structure, Mapping):
        entries = level.entries
    return type(structure).__name__, dict(zip(entries, level.children, strict=True))


def unflatten(spec: Any, leaves: list[Any]) -> Any:
    """The structure again, around other leaves."""
    if spec is None:
        return leaves[0]
    if spec is list:
        return leaves
    import optree  # heavy

    return optree.tree_unflatten(spec, leaves)


def sized(spec: Any, leaves: list[Any], sizes: Mapping[str, int]) -> Any:
    """What `unflatten` needs for IndexedSlices in which open sizes are these; ``leaves`` are any that fit."""
    if spec is None or spec is list:
        return spec
    import optree  # heavy

    def with_sizes(node: Any) -> Any:
        if not isinstance(node, IndexedSlices) or node.known_dims is None:
            return node
        dims = tuple(substitute(dim, sizes) for dim in node.known_dims)
        return IndexedSlices(node.values, node.indices, dims)

    whole = optree.tree_map(
        with_sizes,
        unflatten(spec, leaves),
        is_leaf=lambda node: isinstance(node, IndexedSlices),
        none_is_leaf=True,
        namespace="tapec",
    )
    return flatten(whole, parts=True)[1]


def paths(structure: Any) -> list[str]:
    """Where each leaf stands, as text: ``[0]['w']``."""
    import optree  # heavy

    found, _, _ = optree.tree_flatten_with_path(structure, none_is_leaf=True, namespace="tapec")
    return ["".join(f"[{key!r}]" for key in path) for path in found]
