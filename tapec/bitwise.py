"""The namespace ``tapec.bitwise``: the bits of integers. No gradient flows through them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapec.absences.names import namespace
from tapec.functions.broadcasting import binary, unary
from tapec.tensor import Tensor, TensorLike


def bitwise_and(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """The bits that both have."""
    return binary("and", x, y)


def bitwise_or(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """The bits that one of the two has."""
    return binary("or", x, y)


def bitwise_xor(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """The bits that one of the two has, but not both."""
    return binary("xor", x, y)


def invert(x: TensorLike, name: str | None = None) -> Tensor:
    """Every bit the other way round: ``-x - 1`` of a signed integer."""
    return unary("not", x)


def left_shift(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """The bits moved up by ``y`` places; 0 unless ``0 <= y < bits``."""
    return binary("shl", x, y)


def right_shift(x: TensorLike, y: TensorLike, name: str | None = None) -> Tensor:
    """The bits moved down by ``y`` places, filled with the sign; nothing but that unless ``0 <= y < bits``."""
    return binary("shr", x, y)


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("bitwise")
