"""`vectorized_map`: a function of one row, run for all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapec import arguments
from tapec.autograph.conversion import converted
from tapec.derivatives.subprogram import map_rows
from tapec.errors import ValueError
from tapec.frames import here
from tapec.functions.broadcasting import broadcast
from tapec.structure import flatten, unflatten
from tapec.tensor import Tensor, as_tensor


def vectorized_map(
    fn: Callable[[Any], Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True
) -> Any:
    """What a function returns for each row of some tensors, stacked.

    The function is traced for one row, and every operation is replaced by one of all rows; there is no loop. Gradients
    taken inside are those of one row, so gradients for each example of a batch are::

        def one(example):
            with tapec.GradientTape() as tape:
                loss = loss_of(example)
            return tape.gradient(loss, weights)

        gradients = tapec.vectorized_map(one, examples)

    Args:
        fn: takes a structure like ``elems``, without the leading axes, and returns a structure of Tensors, None where
            there is none.
        elems: a structure of tensors that have the same leading axis; one of size 1 is repeated.
        fallback_to_while_loop: without effect: every operation can be mapped.
        warn: without effect.

    Returns:
        The structure that ``fn`` returns; each Tensor has the leading axis too.

    Raises:
        ValueError: ``elems`` are empty, or their leading axes differ.
        RuntimeError: ``fn`` assigns or makes a Variable.
    """
    arguments.function(fn, "fn")
    leaves, spec = flatten(elems)
    rows = [as_tensor(leaf) for leaf in leaves]
    sizes = {r.type.shape[0] for r in rows if r.type.rank}
    if len(sizes) > 1:
        sizes.discard(1)
    if len(sizes) != 1 or not all(r.type.rank for r in rows):
        shapes = ", ".join(str(r.shape) for r in rows)
        raise ValueError(
            f"vectorized_map takes tensors with one leading axis in common, got shapes {shapes or 'of none'}",
            location=here(),
        )

    def one(inputs: Sequence[Tensor]) -> Any:
        result, structure = flatten(converted(fn)(unflatten(spec, list(inputs))))
        return unflatten(structure, [None if v is None else as_tensor(v) for v in result])

    (size,) = sizes
    rows = [broadcast(r, (size, *r.type.shape[1:])) for r in rows]
    return map_rows("vectorized_map", one, rows, size)
