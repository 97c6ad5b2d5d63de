"""Nested structures: lists, tuples, dicts (by sorted keys), named tuples, whatever is registered with optree."""

from __future__ import annotations

from functools import cache
from typing import Any

from tapec.indexed_slices import IndexedSlices
from tapec.tensor import Tensor
from tapec.variable import Variable


def flatten(structure: Any, *, parts: bool = False) -> tuple[list[Any], Any]:
    """The leaves in order, and what `unflatten` needs; None is a leaf.

    With ``parts`` the values and indices of IndexedSlices are leaves, else these are leaves as a whole. A single leaf
    and a list of leaves, which are nearly all there is, need no optree.
    """
    if isinstance(structure, Tensor | Variable):
        return [structure], None
    if type(structure) is list and all(isinstance(s, Tensor | Variable) for s in structure):
        return list(structure), list
    if isinstance(structure, IndexedSlices) and not parts:
        return [structure], None
    import optree  # heavy: see above

    _register(optree)
    whole = None if parts else lambda node: isinstance(node, IndexedSlices)
    leaves, spec = optree.tree_flatten(structure, whole, none_is_leaf=True, namespace="tapec")
    return leaves, spec


@cache
def _register(optree: Any) -> None:
    """Let optree know what IndexedSlices are made of."""
    optree.register_pytree_node(
        IndexedSlices,
        lambda slices: ((slices.values, slices.indices), slices.known_dims),
        lambda dims, parts: IndexedSlices(parts[0], parts[1], dims),
        namespace="tapec",
    )


def unflatten(spec: Any, leaves: list[Any]) -> Any:
    """The structure again, around other leaves."""
    if spec is None:
        return leaves[0]
    if spec is list:
        return leaves
    import optree  # heavy

    return optree.tree_unflatten(spec, leaves)


def paths(structure: Any) -> list[str]:
    """Where each leaf stands, as text: ``[0]['w']``."""
    import optree  # heavy

    found, _, _ = optree.tree_flatten_with_path(structure, none_is_leaf=True, namespace="tapec")
    return ["".join(f"[{key!r}]" for key in path) for path in found]
