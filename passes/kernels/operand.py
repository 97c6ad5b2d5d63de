"""What a rule of lowering gets for an operand: elements that are computed, or loaded, where they are asked for."""

from __future__ import annotations

from typing import Protocol

from tapec.ir.core import Value
from tapec.ir.loops.builder import LoopBuilder
from tapec.ir.op import Index
from tapec.ir.types import TensorType


class Elements(Protocol):
    """Who knows how elements of values are made; ``inputs`` are in memory already."""

    inputs: dict[Value, Value]

    def memory(self, k: LoopBuilder, value: Value) -> Value:
        """A buffer with all elements."""

    def element(self, k: LoopBuilder, value: Value, index: Index) -> Value:
        """One of them."""

    def address(self, value: Value, index: Index) -> Index:
        """Where it is in the buffer of an input."""


class Operand:
    """An operand during lowering; see `tapec.ir.op.Operand`."""

    def __init__(
        self, writer: Elements, k: LoopBuilder, value: Value, made: Value | None = None
    ) -> None:
        self._writer = writer
        self._k = k
        self._value = value
        #: The one element that is read, if it is computed already.
        self._made = made

    @property
    def type(self) -> TensorType:
        return self._value.tensor

    @property
    def memory(self) -> Value:
        return self._writer.memory(self._k, self._value)

    def __getitem__(self, index: Index) -> Value:
        return self._made or self._writer.element(self._k, self._value, index)

    def prefetch(self, index: Index) -> None:
        if self._value in self._writer.inputs:
            self._k.prefetch(self.memory, self._writer.address(self._value, index))
