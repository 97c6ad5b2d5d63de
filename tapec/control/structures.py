"""Structures of Tensors that go into a function and come out of it again, TensorArrays among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapec.control.tensor_array import TensorArray
from tapec.errors import ValueError
from tapec.frames import here
from tapec.structure import flatten, unflatten
from tapec.tensor import Tensor, as_tensor


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


# ---- TensorArrays as Tensors


def dense(leaves: Sequence[Any]) -> list[Tensor]:
    """Leaves as Tensors: a TensorArray is all of its elements."""
    return [v.dense() if isinstance(v, TensorArray) else v for v in leaves]


def like(leaves: Sequence[Any], tensors: Sequence[Tensor]) -> list[Any]:
    """Tensors as what the leaves are."""
    return [
        v.with_dense(t) if isinstance(v, TensorArray) else t
        for v, t in zip(leaves, tensors, strict=True)
    ]


def behind(before: Sequence[Any], found: Sequence[Any]) -> list[Any]:
    """What a loop leaves, as what it was in front of it."""
    return [
        v.behind_loop(b) if isinstance(v, TensorArray) else v
        for b, v in zip(before, found, strict=True)
    ]


def hold_sizes(leaves: Sequence[Any], others: Sequence[Any], what: str) -> None:
    """Hold arrays to have the sizes that they had.

    Raises:
        TypeError: one has not; ``what`` says where.
    """
    for leaf, other in zip(leaves, others, strict=False):
        if isinstance(leaf, TensorArray) and isinstance(other, TensorArray):
            leaf.refuse_other_size(other, what)
