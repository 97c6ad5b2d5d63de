"""Gradients and their variables, as they are given to an optimizer: what is there, and whether it fits."""

from __future__ import annotations

import warnings
from typing import Any

from tapec.errors import AttributeError, ValueError
from tapec.frames import depth, here
from tapec.functions.arithmetic import cast
from tapec.functions.broadcasting import misfit
from tapec.tensor import TensorLike, as_tensor
from tapec.tensors.indexed_slices import IndexedSlices
from tapec.variable import Variable


def present(pairs: list[tuple[TensorLike | None, Variable]]) -> list[tuple[TensorLike, Variable]]:
    """The pairs that have a gradient; a warning names the variables of the others.

    Raises:
        ValueError: no pairs, or no gradient at all.
        AttributeError: a Tensor stands in the place of a variable.
    """
    if not pairs:
        raise ValueError(
            "apply_gradients got no (gradient, variable) pairs",
            location=here(),
            hint="is a generator used up, or a list of variables empty?",
        )
    for _, variable in pairs:
        if not isinstance(variable, Variable):
            raise AttributeError(
                f"pairs are (gradient, variable), but {type(variable).__name__} stands in "
                "the place of the variable and has no 'assign'",
                location=here(),
            )
    missing = [v for g, v in pairs if g is None]
    names = [v.name for v in missing]
    if len(missing) == len(pairs):
        raise ValueError(
            "No gradients provided for any variable.",
            location=here(),
            hint=f"every gradient is None: {names}{_reasons(missing)}",
        )
    if missing:
        warnings.warn(
            f"Gradients do not exist for variables {names} when minimizing the loss; they "
            f"are not updated{_reasons(missing)}",
            stacklevel=depth(),
        )
    return [(g, v) for g, v in pairs if g is not None]


def fitted(gradient: Any, variable: Variable, dense: bool) -> Any:
    """A gradient as a tensor or, unless they are to be ``dense``, slices of the variable's type.

    Other float dtypes are converted.
    """
    slices = isinstance(gradient, IndexedSlices) and not dense
    g: Any = cast(gradient if slices else as_tensor(gradient), variable.dtype)
    if isinstance(g, IndexedSlices) and g.known_dims is None:
        g = IndexedSlices(g.values, g.indices, variable.type.shape)
    if g.type.shape != variable.type.shape:
        raise misfit(
            f"Cannot update variable '{variable.name}' with shape {list(variable.shape)} using a "
            f"gradient with shape {list(g.shape)}, shapes must be equal."
        )
    return g


def _reasons(variables: list[Variable]) -> str:
    """Why their gradients are None, as tapes said when they gave them."""
    texts = [f"\n{v.missing}" for v in variables if v.missing is not None]
    return ":" + "".join(texts) if texts else "; tape.explain(loss, variable) says why"
