"""Tensors as compiled programs take and make them: the boxes of `tapec.runtime.boxes`."""

from __future__ import annotations

from tapec.ir.types import TensorType
from tapec.runtime.boxes import Boxes, use
from tapec.tensor import EagerTensor, numbers, type_with


def deal_in_tensors() -> None:
    """Let all programs know what a Tensor is."""
    use(Boxes.of(EagerTensor, numbers, _own))


def _own(kind: TensorType) -> TensorType:
    """The object that the type of tensors like these is."""
    return type_with(kind.dtype.numpy, kind.static_shape)
