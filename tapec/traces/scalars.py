"""Python numbers that are inputs of a program, not constants of it.

While a function is traced, a number that may vary (a learning rate) is a `HostNumber`. It has a value, so Python runs
on as it would with the number itself; and it remembers how it came about. Arithmetic gives further ones. Where one
meets a tensor, the program gets an input. Where Python looks at its value (a comparison, ``int()``, a format, a key of
a dict), what it saw becomes a condition on which the program may be used again.

From this follows a plain function that each call runs before the program: see `tapec.traces.recipes`.
"""

from __future__ import annotations

import functools
import math
import operator
from collections import deque
from types import CellType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tapec.frames import is_ours
from tapec.ir.types import F32, I32, DType, as_dtype

if TYPE_CHECKING:
    from tapec.traces.recipes import Recorder

#: Types of results that stay numbers of this kind; of others (bool, complex) the value is a condition.
KINDS = frozenset({float, int, np.float64, np.float32, np.float16, np.int64, np.int32})
#: What a number of this kind is combined with; anything else has its own operators, or gets the value.
OPERANDS = (int, float, np.floating, np.integer)


class HostNumber:
    """A number of Python that the program being traced does not fix; it passes for one of its own type.

    Not a subclass of float: C code reads the value of a float behind its back, but has to ask this class.
    """

    __slots__ = ("recorder", "step", "value")

    def __init__(self, value: Any, step: int, recorder: Recorder) -> None:
        """Made by a `Recorder`.

        Args:
            value: what it is in the call that is being traced.
            step: which step of the recipe computes it.
            recorder: whose number it is.
        """
        self.value = value
        self.step = step
        self.recorder = recorder

    @property
    def __class__(self) -> Any:
        """So that ``isinstance(x, float)`` holds."""
        return type(self.value)

    @__class__.setter
    def __class__(self, kind: Any) -> None:
        raise TypeError("a number has no other class")

    def exactly(self) -> Any:
        """The value; from now on the program is for this one only."""
        self.recorder.require(self)
        return self.value

    @property
    def name(self) -> str | None:
        """What the program calls it: an argument's own name."""
        return self.recorder.name(self)

    def usual_dtype(self) -> DType | None:
        """What a tensor of it has where nobody says: float32, int32, or NumPy's own; None if the value decides."""
        kind = type(self.value)
        if kind is float:
            return F32 if self.recorder.observe(_fits_float32, self) else None
        if kind is int:
            return I32 if self.recorder.observe(_fits_int32, self) else None
        return as_dtype(kind)

    def converts_to(self, dtype: DType) -> bool:
        """Whether the program can make a tensor of this dtype of it."""
        if dtype.is_floating or dtype.is_complex or dtype.is_integer:
            if isinstance(self.value, float | np.floating):
                return not dtype.is_integer
            return bool(self.recorder.observe(_fits_int64, self))
        return False

    # -- what looks at the value

    def __float__(self) -> float:
        return float(self.exactly())

    def __complex__(self) -> complex:
        return complex(self.exactly())

    def __index__(self) -> int:
        return operator.index(self.exactly() if isinstance(self.value, int | np.integer) else 0.5)  # type: ignore[arg-type]

    def __int__(self) -> int:
        return self.recorder.observe(int, self)  # type: ignore[no-any-return]

    def __bool__(self) -> bool:
        return self.recorder.observe(bool, self)  # type: ignore[no-any-return]

    def __hash__(self) -> int:
        return hash(self.exactly())

    def __repr__(self) -> str:
        return repr(self.exactly())

    def __str__(self) -> str:
        return str(self.exactly())

    def __format__(self, spec: str) -> str:
        return format(self.exactly(), spec)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.exactly(), dtype)

    def __reduce__(self) -> Any:
        return operator.pos, (self.exactly(),)

    def __copy__(self) -> HostNumber:
        return self

    def __deepcopy__(self, memo: object) -> HostNumber:
        return self

    def __getattr__(self, name: str) -> Any:
        if not hasattr(type(self.value), name):
            raise AttributeError(f"{type(self.value).__name__!r} object has no attribute {name!r}")
        if name in _BY_TYPE:
            return getattr(self.value, name)
        return getattr(self.exactly(), name)

    def __eq__(self, other: object) -> Any:
        return self.recorder.combine(operator.eq, self, other)

    def __ne__(self, other: object) -> Any:
        return self.recorder.combine(operator.ne, self, other)

    def __lt__(self, other: Any) -> Any:
        return self.recorder.combine(operator.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return self.recorder.combine(operator.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return self.recorder.combine(operator.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return self.recorder.combine(operator.ge, self, other)

    def __floor__(self) -> int:
        return self.recorder.observe(math.floor, self)  # type: ignore[no-any-return]

    def __ceil__(self) -> int:
        return self.recorder.observe(math.ceil, self)  # type: ignore[no-any-return]

    def __trunc__(self) -> int:
        return self.recorder.observe(math.trunc, self)  # type: ignore[no-any-return]

    # -- arithmetic

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return self.recorder.observe(round, self)
        return self.recorder.combine(round, self, digits)

    def __neg__(self) -> Any:
        return self.recorder.combine(operator.neg, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self.recorder.combine(abs, self)

    def __add__(self, other: Any) -> Any:
        return self.recorder.combine(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self.recorder.combine(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return self.recorder.combine(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.recorder.combine(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return self.recorder.combine(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.recorder.combine(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.recorder.combine(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.recorder.combine(operator.truediv, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self.recorder.combine(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self.recorder.combine(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> Any:
        return self.recorder.combine(operator.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        if isinstance(other, str | bytes):
            return other % self.exactly()
        return self.recorder.combine(operator.mod, other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any) -> Any:
        return self.recorder.combine(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return self.recorder.combine(operator.pow, other, self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(_is_foreign(x) for x in inputs):
            return NotImplemented  # a tensor's affair
        plain = method == "__call__" and not kwargs and ufunc.nout == 1
        if plain and all(isinstance(x, OPERANDS) for x in inputs):
            return self.recorder.combine(ufunc, *inputs)
        values = [x.exactly() if type(x) is HostNumber else x for x in inputs]
        return getattr(ufunc, method)(*values, **kwargs)


def _is_foreign(x: Any) -> bool:
    return type(x) is not HostNumber and hasattr(x, "__array_ufunc__") and not _is_numpys(x)


def _is_numpys(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.generic)


def _fits_float32(value: float) -> bool:
    return -_LARGEST <= value <= _LARGEST or not math.isfinite(value)


def _fits_int32(value: int) -> bool:
    return -(2**31) <= value < 2**31


def _fits_int64(value: int) -> bool:
    return -(2**63) <= value < 2**63


_LARGEST = float(np.finfo(np.float32).max)
#: Attributes that all numbers of a type share.
_BY_TYPE = frozenset({"dtype", "shape", "ndim", "size", "itemsize", "nbytes", "imag"})


def is_number(value: Any) -> bool:
    """Whether an object is a number that a program may take as an input: no bool, no complex number."""
    return type(value) in KINDS


def holds_numbers(structure: Any) -> bool:
    """Whether nested lists hold a number that is an input."""
    if isinstance(structure, list | tuple):
        return any(map(holds_numbers, structure))
    return type(structure) is HostNumber


def settled(structure: Any, exactly: bool = False) -> Any:
    """Plain values in place of numbers that are inputs, in nested lists and dicts too.

    Args:
        structure: anything.
        exactly: the program will be for these values only; else each is held to its usual dtype.
    """
    if type(structure) is HostNumber:
        if exactly:
            return structure.exactly()
        structure.usual_dtype()
        return structure.value
    if type(structure) in (list, tuple):
        return type(structure)([settled(s, exactly) for s in structure])
    if type(structure) is dict:
        return {key: settled(s, exactly) for key, s in structure.items()}
    return structure


def settle_within(function: Any) -> None:
    """Make numbers constants that a function holds which programs call when they run: it would go on with the first.

    Looked through are closures, defaults, bound arguments, and what lists, dicts and objects of user code hold.
    """
    met: set[int] = set()
    stack = [function]
    while stack:
        thing = stack.pop()
        if type(thing) is HostNumber:
            thing.exactly()
        elif id(thing) not in met and type(thing) not in _BARREN:
            met.add(id(thing))
            stack += _parts(thing)


def _parts(thing: Any) -> list[Any]:
    """What one comes to from an object."""
    if isinstance(thing, FunctionType):
        cells = [c.cell_contents for c in thing.__closure__ or () if _is_filled(c)]
        return [*cells, *(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
    if isinstance(thing, functools.partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, MethodType):
        return [thing.__self__, thing.__func__]
    if isinstance(thing, dict):
        return list(thing.values())
    if isinstance(thing, list | tuple | set | frozenset | deque):
        return list(thing)
    if isinstance(thing, type | ModuleType) or is_ours(type(thing).__module__):
        return []
    return list(getattr(thing, "__dict__", {}).values())


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


#: Types of what holds nothing.
_BARREN = frozenset({int, float, str, bytes, bool, type(None), np.ndarray})


def identical(a: Any, b: Any) -> bool:
    """Equal to the last bit: zeros by sign, NaN to NaN."""
    return type(a) is type(b) and repr(a) == repr(b)
