"""The operators that Tensor and Variable share, and NumPy's protocol.

An operand that is a Python number or an array takes the dtype of the tensor; tensors of different dtypes never mix.
"""

from __future__ import annotations

from functools import cache, partial, wraps
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tapec.absences.attributes import missing_attribute
from tapec.errors import ValueError
from tapec.frames import here, shown_as
from tapec.functions import arithmetic, indexing, products
from tapec.functions.broadcasting import binary, unary
from tapec.functions.rearrangement import transpose
from tapec.interchange import dlpack
from tapec.tensor import Tensor, as_tensor, departs
from tapec.tensors.indexed_slices import IndexedSlices
from tapec.variable import Variable
from tapec.variables.updates import assign_slice


class Operators:
    """Arithmetic, comparison and indexing, as the public functions of the same meaning do it.

    The most frequent ones go the shortest way.
    """

    #: NumPy arrays let our operators win: ``array * tensor`` is a Tensor.
    __array_priority__ = 100

    def __add__(self, other: Any) -> Tensor:
        return binary("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return binary("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return binary("sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return binary("sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return binary("mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return binary("mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return arithmetic.truediv(self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return arithmetic.truediv(other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return arithmetic.floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return arithmetic.floordiv(other, self)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return arithmetic.floordiv(self, other), arithmetic.floormod(self, other)

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return arithmetic.floordiv(other, self), arithmetic.floormod(other, self)

    def __mod__(self, other: Any) -> Tensor:
        return arithmetic.floormod(self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return arithmetic.floormod(other, self)

    def __pow__(self, other: Any) -> Tensor:
        return arithmetic.pow(self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return arithmetic.pow(other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return products.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return products.matmul(other, self)

    def __neg__(self) -> Tensor:
        return arithmetic.negative(self)

    def __pos__(self) -> Tensor:
        return as_tensor(self)

    def __abs__(self) -> Tensor:
        return arithmetic.abs(self)

    def __round__(self, digits: int | None = None) -> Tensor:
        if not digits:
            return arithmetic.round(self)
        scale = 10.0**digits
        return arithmetic.divide(arithmetic.round(arithmetic.multiply(self, scale)), scale)

    def __invert__(self) -> Tensor:
        return unary("not", self)

    def __and__(self, other: Any) -> Tensor:
        return binary("and", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return binary("and", other, self)

    def __or__(self, other: Any) -> Tensor:
        return binary("or", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return binary("or", other, self)

    def __xor__(self, other: Any) -> Tensor:
        return binary("xor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return binary("xor", other, self)

    def __lt__(self, other: Any) -> Tensor:
        return arithmetic.less(self, other)

    def __le__(self, other: Any) -> Tensor:
        return arithmetic.less_equal(self, other)

    def __gt__(self, other: Any) -> Tensor:
        return arithmetic.greater(self, other)

    def __ge__(self, other: Any) -> Tensor:
        return arithmetic.greater_equal(self, other)

    def __eq__(self, other: object) -> Any:
        return arithmetic.tensor_equal(self, other)

    def __ne__(self, other: object) -> Any:
        return arithmetic.tensor_not_equal(self, other)

    def __getitem__(self, key: Any) -> Tensor:
        return indexing.getitem(self, key)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _dispatch().ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _dispatch().function(func, args, kwargs)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        value = as_tensor(self)
        departs(value, "DLPack")
        return dlpack.export(value.array, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.DEVICE

    def __lshift__(self, other: Any) -> Tensor:
        return binary("shl", self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return binary("shl", other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return binary("shr", self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return binary("shr", other, self)

    # -- what the array API standard asks of an array beside operators

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """The functions of the array API standard: `tapec.numpy`.

        Raises:
            ValueError: another version of the standard than those up to 2024.12.
        """
        if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            raise ValueError(
                f"tapec.numpy follows the array API standard 2024.12, not {api_version!r}",
                location=here(),
            )
        return import_module("tapec.numpy")

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor:
        """The tensor itself: there is the CPU.

        Raises:
            ValueError: another device, or a stream, which the CPU has not.
        """
        if "cpu" not in str(device).lower() or stream is not None:
            raise ValueError(
                f"expected the CPU as device and no stream, got {device!r}, {stream!r}",
                location=here(),
                hint="tapec runs on the CPU; leave to_device out",
            )
        return as_tensor(self)

    @property
    def T(self) -> Tensor:
        """The transpose of a matrix."""
        x = as_tensor(self)
        if x.type.rank != 2:
            raise ValueError(
                f"x.T is the transpose of a matrix, and this tensor is {x.type}",
                location=here(),
                hint="use x.mT for a batch of matrices, tapec.transpose for other axes",
            )
        return transpose(x)

    @property
    def mT(self) -> Tensor:
        """The transpose of each matrix, which are the last two axes."""
        x = as_tensor(self)
        rank = x.type.rank
        if rank < 2:
            raise ValueError(
                f"x.mT transposes matrices, and this tensor is {x.type}", location=here()
            )
        return transpose(x, [*range(rank - 2), rank - 1, rank - 2])

    @property
    def size(self) -> int | None:
        """The number of elements; None if only a call will know it."""
        return as_tensor(self).shape.num_elements()

    if not TYPE_CHECKING:  # who checks types knows that other names are mistakes

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(self, name)


@cache
def _dispatch() -> Any:
    """What knows NumPy's functions, loaded when one of them is called."""
    return import_module("tapec.interchange.dispatch")


# The functions above need Tensor, so Tensor cannot inherit from this class when it is made; it and Variable receive
# the methods here instead, and type checkers see them as subclasses.
_MORE = ("__array_priority__", "to_device", "T", "mT", "size")
for _name, _method in vars(Operators).items():
    if _name in _MORE or (_name.startswith("__") and callable(_method)):
        setattr(Tensor, _name, _method)
        setattr(Variable, _name, _method)


def defer_to(*kinds: type) -> None:
    """Let objects of these classes decide what an operator means with one at the right of a Tensor or Variable.

    Without it these would convert them, or fail. The check costs nothing until another library asks for it.
    """
    for name in _BINARY:
        for owner in (Tensor, Variable):
            usual = getattr(owner, name)
            setattr(owner, name, shown_as(name, _deferring(usual, kinds)))


def _deferring(usual: Any, kinds: tuple[type, ...]) -> Any:
    @wraps(usual)
    def operator(self: Tensor | Variable, other: Any) -> Any:
        return NotImplemented if isinstance(other, kinds) else usual(self, other)

    return operator


#: The operators that ask their right operand first.
_BINARY = [
    f"__{name}__"
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"),
        *("lt", "le", "gt", "ge", "eq", "ne"),
    )
]


def _sliced(self: Variable, key: Any) -> Tensor:
    result = indexing.getitem(self, key)
    if not indexing.is_mask(key):
        result.assign = partial(assign_slice, self, key)
    return result


Variable.__getitem__ = _sliced  # type: ignore[method-assign, assignment]


class SliceOperators:
    """Arithmetic of IndexedSlices: what is linear in the slices, and with one scalar, keeps them; else it is dense."""

    __slots__ = ()

    #: As for Tensor.
    __array_ufunc__ = None

    def __neg__(self) -> Any:
        return _slices(self).map(arithmetic.negative)

    def __mul__(self, other: Any) -> Any:
        return _scaled(arithmetic.multiply, _slices(self), other)

    def __rmul__(self, other: Any) -> Any:
        return _scaled(arithmetic.multiply, _slices(self), other)

    def __truediv__(self, other: Any) -> Any:
        return _scaled(arithmetic.truediv, _slices(self), other)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, IndexedSlices):
            return _slices(self).joined(other)
        return arithmetic.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return arithmetic.add(other, self)

    def __sub__(self, other: Any) -> Any:
        if isinstance(other, IndexedSlices):
            return _slices(self).joined(other.map(arithmetic.negative))
        return arithmetic.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return arithmetic.subtract(other, self)

    def __pow__(self, other: Any) -> Tensor:
        return arithmetic.pow(self, other)


def _slices(self: SliceOperators) -> IndexedSlices:
    assert isinstance(self, IndexedSlices)
    return self


def _scaled(function: Any, slices: IndexedSlices, other: Any) -> Any:
    factor = other if isinstance(other, float | int) else as_tensor(other)
    if isinstance(factor, Tensor) and factor.type.rank:
        return function(slices, factor)
    return slices.map(lambda values: function(values, factor))


for _name, _method in vars(SliceOperators).items():
    if _name.startswith("__") and (callable(_method) or _name == "__array_ufunc__"):
        setattr(IndexedSlices, _name, _method)
