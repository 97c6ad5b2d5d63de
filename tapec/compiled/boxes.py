"""Tensors and Variables as compiled programs take them: the boxes and holders of `tapec.runtime.boxes`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapec.ir.types import TensorType
from tapec.runtime.boxes import Boxes, places_in, use
from tapec.tensor import EagerTensor, numbers, type_with
from tapec.variable import Variable
from tapec.variables.alignment import LineMemory


def deal_in_tensors() -> None:
    """Let all programs know what Tensors and Variables are."""
    parts: tuple[Any, Any, int] = (np.zeros(1), object(), 2**40 + 1)
    array, kind, number = places_in(EagerTensor(*parts), *parts)
    variable = object.__new__(Variable)
    variable._array = parts[0]
    (held,) = places_in(variable, parts[0])
    use(
        Boxes(
            EagerTensor, array, kind, number, numbers, _own,
            holder=Variable, held=held, memory=LineMemory,
        )
    )  # fmt: skip


def _own(kind: TensorType) -> TensorType:
    """The object that the type of tensors like these is."""
    return type_with(kind.dtype.numpy, kind.static_shape)
