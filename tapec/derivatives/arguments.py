"""What is asked for a gradient: targets and sources, checked."""

from __future__ import annotations

import warnings
from typing import Any

from tapec.errors import TypeError
from tapec.frames import depth, here
from tapec.structure import flatten
from tapec.tensor import Tensor
from tapec.tensors.indexed_slices import IndexedSlices
from tapec.variable import Variable, variable_behind


def leaves_of(structure: Any) -> list[Any]:
    """The leaves of a structure, in order."""
    return flatten(structure)[0]


def targets_of(structure: Any) -> list[Tensor | Variable]:
    """The targets in a structure.

    Raises:
        TypeError: one is no Tensor or Variable.
    """
    return _all_checked(structure, leaves_of(structure), "target")


def sources_of(structure: Any, warn: bool = False) -> tuple[list[Tensor | Variable], Any]:
    """The sources in a structure, and what `tapec.structure.unflatten` needs to arrange gradients alike.

    ``warn``: of an empty structure.

    Raises:
        TypeError: one is no Tensor or Variable.
    """
    leaves, spec = flatten(structure)
    if warn and not leaves:
        warnings.warn(
            "no sources: the list of variables was empty at this line; ask a layer for them after it "
            "has made them",
            stacklevel=depth(),
        )
    return _all_checked(structure, leaves, "source"), spec


def _all_checked(structure: Any, leaves: list[Any], what: str) -> list[Tensor | Variable]:
    if len(leaves) == 1 and leaves[0] is structure:
        return [checked(structure, what)]
    return [checked(leaf, f"{what}s[{i}]") for i, leaf in enumerate(leaves)]


def single(value: Any, what: str, method: str) -> Tensor | Variable:
    """The one Tensor or Variable that a method takes.

    Raises:
        TypeError: it is something else, or a structure.
    """
    if isinstance(value, list | tuple | dict):
        raise TypeError(
            f"{method} takes one Tensor or Variable as {what}, got {type(value).__name__}",
            location=here(),
            hint="stack them, or ask for each with a persistent tape",
        )
    return checked(value, what)


def checked(leaf: Any, what: str) -> Tensor | Variable:
    """A target or source; of IndexedSlices the values.

    Raises:
        TypeError: it is no Tensor or Variable.
    """
    if isinstance(leaf, Tensor | Variable):
        return leaf
    if isinstance(leaf, IndexedSlices):
        return leaf.values
    own = variable_behind(leaf)
    if own is not None:
        return own
    if leaf is None:
        raise TypeError(
            f"{what} is None; it must be a Tensor or Variable",
            location=here(),
            hint="does the function that makes it return it?",
        )
    hint = None
    if type(leaf).__module__ == "numpy":
        hint = ".numpy() left the tape; keep the Tensor"
    elif callable(leaf):
        hint = "call it: the gradient is that of a value"
    elif isinstance(leaf, bool | int | float | complex):
        hint = "a Python number is on no tape; keep the Tensor it was made of"
    raise TypeError(
        f"{what} must be a Tensor or Variable, got {type(leaf).__name__}",
        location=here(),
        hint=hint,
    )
