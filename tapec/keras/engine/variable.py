"""Keras' Variable, which keeps its value in a `tapec.Variable`: tapes and compiled functions know it by that."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend.common import KerasVariable
from keras.src.backend.common.global_state import get_global_attribute
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.backend.common.stateless_scope import get_stateless_scope, in_stateless_scope

import tapec
from tapec.keras.engine.conversion import convert_to_tensor
from tapec.keras.engine.distribution_lib import distribute_variable
from tapec.recording import current_trace, tracing
from tapec.tensors.operators import defer_to


class Variable(KerasVariable):
    """State of a layer, optimizer or metric; compiled functions read and update it in place."""

    #: A `tapec.Variable`; None before it is initialised.
    _value: Any
    #: How it lies on devices; None where nobody asked.
    _layout: Any

    def _initialize(self, value: Any) -> None:
        self._shape = self._validate_shape(value.shape)
        distribution = get_global_attribute("distribution")
        if distribution is not None and self._layout is None:
            self._layout = distribution.get_variable_layout(self)
        if self._layout is not None:
            distribute_variable(value, self._layout)
        inside = current_trace() if value._array is None else None  # of what is being traced
        with tracing(inside):
            self._value = tapec.Variable(
                value, trainable=self._trainable, name=self._name, dtype=self._dtype
            )

    def _initialize_with_initializer(self, initializer: Any) -> None:
        with tracing(None):  # a state begins outside of the program that is being traced
            super()._initialize_with_initializer(initializer)

    def _direct_assign(self, value: Any) -> None:
        self._value.assign(value)

    def _convert_to_tensor(self, value: Any, dtype: Any = None) -> tapec.Tensor:
        return convert_to_tensor(value, dtype)

    @property
    def value(self) -> tapec.Tensor:
        """The value now, in the dtype that the layer which runs computes with."""
        if self._value is None or in_stateless_scope():
            return self._elsewhere()
        return self._maybe_autocast(self._value.read_value())

    def _elsewhere(self) -> Any:
        """The value that a scope has for it, or that it will begin with."""
        if in_stateless_scope():
            value = get_stateless_scope().get_current_value(self)
            if value is not None:
                return self._maybe_autocast(value)
        if self._value is None:
            return self._maybe_autocast(self._initializer(self._shape, dtype=self._dtype))
        return self._maybe_autocast(self._value.read_value())

    def read_value(self) -> tapec.Tensor:
        """The value, under the name by which tapec asks for it."""
        return self.value

    @property
    def __tapec_variable__(self) -> tapec.Variable:
        """The Variable that tapes and optimizers of tapec mean by this one."""
        if self._value is None:
            self._deferred_initialize()
        return self._value

    @property
    def trainable(self) -> bool:
        """Whether tapes watch it by themselves, and optimizers update it."""
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        self._trainable = bool(value)
        if self._value is not None:
            self._value._trainable = self._trainable

    def numpy(self) -> Any:
        """The value as an array."""
        return np.asarray(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.value.__array__(dtype, copy)


defer_to(KerasVariable, KerasTensor)
