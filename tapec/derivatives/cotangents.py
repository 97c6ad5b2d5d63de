"""With what a walk back starts: output gradients that the user gives, or one row for every element of a target.

A jacobian is the walk of one gradient, mapped over such rows (`tapec.ir.batching`): no loop over elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.arrays import eye
from tapec.ir.types import Shape, TensorType
from tapec.tensor import Tensor, apply, as_tensor
from tapec.variable import Variable


def given_cotangents(targets: Sequence[Tensor | Variable], given: Any) -> list[Tensor] | None:
    """Output gradients as tensors, one for each target; None if none are given.

    Raises:
        ValueError: they do not fit the targets.
    """
    if given is None:
        return None
    leaves = [given] if len(targets) == 1 and not _is_single_list(given) else list(given)
    if len(leaves) != len(targets):
        raise ValueError(
            f"{len(targets)} targets, but {len(leaves)} output_gradients", location=here()
        )
    seeds = []
    for i, (leaf, target) in enumerate(zip(leaves, targets, strict=True)):
        seed = as_tensor(1 if leaf is None else leaf, target.dtype)
        if seed.type.shape == () or leaf is None:
            seed = apply("broadcast", seed, shape=target.type.shape, axes=())
        if seed.type.shape != target.type.shape:
            raise ValueError(
                f"output_gradients[{i}] has shape {seed.shape}, target has {target.shape}",
                location=here(),
            )
        seeds.append(seed)
    return seeds


def _is_single_list(given: Any) -> bool:
    """Whether it is ``[gradient]``, and not an array written as a list."""
    return (
        isinstance(given, list | tuple)
        and len(given) == 1
        and (given[0] is None or hasattr(given[0], "dtype"))
    )


def total(parts: Sequence[Any]) -> Any:
    """The sum of the gradients that there are, in order."""
    found: Any = None
    for part in parts:
        if part is not None:
            found = part if found is None else found + part
    return found


def unit_cotangents(target: TensorType) -> Tensor:
    """``[size, *shape]``: in row i, element i of the target counts alone."""
    size = target.size
    rows: Tensor = apply("reshape", eye(size, dtype=target.dtype), shape=(size, *target.shape))
    return rows


def batch_cotangents(target: TensorType) -> Tensor:
    """``[size of a row, *shape]``: in row i, element i of every row of the target counts."""
    first, *rest = target.shape
    size = target.with_shape(tuple(rest)).size
    spread = apply(
        "broadcast", eye(size, dtype=target.dtype), shape=(size, first, size), axes=(0, 2)
    )
    rows: Tensor = apply("reshape", spread, shape=(size, *target.shape))
    return rows


def from_rows(rows: Tensor, target: Shape, source: Shape) -> Tensor:
    """Gradients ``[size, *source]`` as a jacobian ``[*target, *source]``."""
    result: Tensor = apply("reshape", rows, shape=(*target, *source))
    return result


def from_batch_rows(rows: Tensor, target: Shape, source: Shape) -> Tensor:
    """Gradients ``[size of a row, batch, …]`` as a jacobian ``[batch, …target, …source]``."""
    order = (1, 0, *range(2, rows.type.rank))
    moved = apply("transpose", rows, permutation=order)
    result: Tensor = apply("reshape", moved, shape=batch_shape(target, source))
    return result


def batch_shape(target: Shape, source: Shape) -> Shape:
    """The shape of a batch jacobian."""
    return (*target, *source[1:])


def check_batch(target: Shape, source: Shape) -> None:
    """Hold the first axes to be the same batch.

    Raises:
        ValueError: they are missing, or of different sizes.
    """
    if len(source) < 2 or not target:
        shape = source if len(source) < 2 else target
        raise ValueError(
            f"Shape {_text(shape)} must have rank at least 2: batch_jacobian takes a source [batch, …]",
            location=here(),
            hint="use jacobian where there is no batch axis",
        )
    if target[0] != source[0]:
        raise ValueError(
            f"Need first dimension of target shape ({_text(target)}) and source shape ({_text(source)}) to match.",
            location=here(),
        )


def _text(shape: Shape) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def zeros_of(type: TensorType) -> Tensor:
    """Zeros: the gradient of what does not count, where that is wanted."""
    return apply("constant", value=0, type=type)  # type: ignore[no-any-return]
