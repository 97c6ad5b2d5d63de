"""Nested structures: lists, tuples, dicts (by sorted keys), named tuples, whatever is registered with optree."""

from __future__ import annotations

from typing import Any

from tapec.tensor import Tensor
from tapec.variable import Variable


def flatten(structure: Any) -> tuple[list[Any], Any]:
    """The leaves in order, and what `unflatten` needs; None is a leaf.

    A single leaf and a list of leaves, which are nearly all there is, need no optree.
    """
    if isinstance(structure, Tensor | Variable):
        return [structure], None
    if type(structure) is list and all(isinstance(s, Tensor | Variable) for s in structure):
        return list(structure), list
    import optree  # heavy: see above

    leaves, spec = optree.tree_flatten(structure, none_is_leaf=True, namespace="tapec")
    return leaves, spec


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
