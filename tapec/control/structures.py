"""Structures of Tensors that go into a function and come out of it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapec.control.tensor_array import TensorArray
from tapec.errors import ValueError
from tapec.frames import here
from tapec.structure import flatten, unflatten
from tapec.tensor import as_tensor


def tensors_in(structure: Any) -> tuple[list[Any], Any]:
    """The leaves as Tensors, but for TensorArrays, and the structure: equal for structures that are."""
    leaves, spec = flatten(structure)
    own = [leaf if isinstance(leaf, TensorArray) else as_tensor(leaf) for leaf in leaves]
    return flatten(unflatten(spec, own))  # again: what `flatten` says depends on the leaves


def leaves_like(name: str, returned: Any, like: Sequence[Any], spec: Any) -> list[Any]:
    """The Tensors that the function of ``name`` returned, in the structure that ``like`` has with ``spec``.

    Raises:
        ValueError: it is another structure.
    """
    leaves, own = tensors_in(returned)
    if own != spec or len(leaves) != len(like):
        raise ValueError(
            f"{name}: The two structures don't have the same nested structure: expected one like "
            f"{unflatten(spec, list(like))!r}, came {returned!r}",
            location=here(),
        )
    return leaves
