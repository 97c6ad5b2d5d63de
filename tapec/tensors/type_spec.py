"""TensorSpec: the dtype and shape of a tensor, without one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapec import arguments
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.ir.types import F32, DType, as_dtype
from tapec.tensor import Tensor, as_tensor
from tapec.tensors.indexed_slices import IndexedSlices
from tapec.tensors.tensor_shape import TensorShape
from tapec.variable import Variable

__all__ = ["TensorSpec", "TypeSpec", "type_spec_from_value"]


class TypeSpec:
    """What is known of a value before there is one; `TensorSpec` is the kind that tapec has."""

    __slots__ = ()


class TensorSpec(TypeSpec):
    """The dtype and shape of a tensor; sizes that may be any are None.

    Example: ``TensorSpec([None, 3]).is_compatible_with(tapec.ones([2, 3]))``.

    Args:
        shape: see `tapec.TensorShape`; None for any.
        dtype: of the elements.
        name: for messages.
    """

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(self, shape: Any, dtype: Any = F32, name: str | None = None) -> None:
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtype)
        self._name = name

    @property
    def shape(self) -> TensorShape:
        """The shape; unknown sizes are None."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    @property
    def name(self) -> str | None:
        """The name given."""
        return self._name

    @property
    def value_type(self) -> type[Tensor]:
        """The class of what it describes."""
        return Tensor

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """What describes a Tensor or Variable."""
        if not isinstance(tensor, Tensor | Variable):
            raise TypeError(
                f"expected a Tensor or Variable, got {arguments.shown(tensor)}", location=here()
            )
        if name is not None:
            arguments.text(name, "name")
        given = name or (tensor.name if isinstance(tensor, Variable) else None)
        return cls(tensor.shape, tensor.dtype, given)

    @classmethod
    def from_spec(cls, spec: TensorSpec, name: str | None = None) -> TensorSpec:
        """The same under another name."""
        return cls(spec.shape, spec.dtype, name or spec.name)

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Whether a value may be, or a spec may describe, what this one describes."""
        return (
            hasattr(spec_or_tensor, "dtype")
            and self._dtype == spec_or_tensor.dtype
            and self._shape.is_compatible_with(spec_or_tensor.shape)
        )

    def is_subtype_of(self, other: Any) -> bool:
        """Whether all that this one describes is described by the other."""
        return (
            isinstance(other, TensorSpec)
            and self._dtype == other._dtype
            and self._shape.is_subtype_of(other._shape)
        )

    def most_specific_common_supertype(self, others: Sequence[Any]) -> TensorSpec | None:
        """The narrowest spec that describes what this one or one of the others does; None if there is none."""
        if any(not isinstance(o, TensorSpec) or o._dtype != self._dtype for o in others):
            return None
        shape = self._shape.most_specific_common_supertype([o._shape for o in others])
        same = all(o._name == self._name for o in others)
        return TensorSpec(shape, self._dtype, self._name if same else None)

    def most_specific_compatible_type(self, other: Any) -> TensorSpec:
        """The narrowest spec that describes what either of the two does.

        Raises:
            ValueError: the dtypes differ.
        """
        found = self.most_specific_common_supertype([other])
        if found is None:
            raise ValueError(
                f"No TypeSpec is compatible with both {self} and {other}", location=here()
            )
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return False
        return (self._shape, self._dtype, self._name) == (other._shape, other._dtype, other._name)

    def __hash__(self) -> int:
        return hash((self._shape, self._dtype))

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorSpec, (self._shape, self._dtype, self._name)

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self._shape}, dtype={self._dtype!r}, name={self._name!r})"


def type_spec_from_value(value: Any) -> TensorSpec:
    """What describes a Tensor, Variable, array, number or nested list.

    Example: ``type_spec_from_value([[1.0, 2.0]])`` is ``TensorSpec([1, 2])``.

    Raises:
        TypeError: it is none of these.
    """
    if isinstance(value, Tensor | Variable | IndexedSlices):
        return TensorSpec(value.shape, value.dtype)
    try:
        return TensorSpec.from_tensor(as_tensor(value))
    except Exception:
        raise TypeError(
            f"Could not build a TypeSpec for {value!r} of unsupported type {type(value).__name__}.",
            location=here(),
        ) from None
