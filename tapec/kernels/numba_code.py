"""What Numba makes of a kernel: native code for given dtypes, as LLVM text and as a function of arrays.

The only place that knows Numba, which is loaded when the first kernel is compiled.
"""

from __future__ import annotations

import inspect
import pickle
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tapec.ir.errors import DTypeError
from tapec.ir.types import BOOL, DType, as_dtype

#: Numba's compiler may be entered by one thread at a time.
_LOCK = threading.RLock()
_PICKLED = re.compile(r'@\.const\.pickledata\.\w+ = [^"\n]*c"(.*?)"')
_KINDS = ("float", "int", "uint", "bool")


def is_dispatcher(function: Any) -> bool:
    """Whether a function was made by ``numba.njit``."""
    return hasattr(function, "py_func") and hasattr(function, "overloads")


def python_function(function: Any) -> Callable[..., Any]:
    """The function as it was written."""
    found: Callable[..., Any] = function.py_func if is_dispatcher(function) else function
    return found


def parameters(function: Any) -> list[str]:
    """The names of its parameters.

    Raises:
        ValueError: it has keywords or takes any number.
    """
    found = inspect.signature(python_function(function)).parameters.values()
    for parameter in found:
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            raise ValueError(f"the parameter {parameter}, where a kernel has positional ones alone")
    return [parameter.name for parameter in found]


class Compiled:
    """A kernel, compiled for some dtypes.

    Attributes:
        text: the LLVM module.
        native: the name of the kernel's function in it.
        call: the same as a function of Python's.
        returned: the name of the type that it returns.
    """

    def __init__(self, name: str, function: Any, types: Sequence[Any]) -> None:
        """Compile it.

        Raises:
            DTypeError: Numba has no code for these types.
        """
        from numba.core.errors import NumbaError

        with _LOCK:
            dispatcher = _dispatcher(function)
            known = tuple(types) in dispatcher.overloads
            if not known and not dispatcher._can_compile:
                raise DTypeError(
                    f"{name} was compiled by njit for {_listed(dispatcher)}, not for {_shown(types)}",
                    hint="convert the operands with tapec.cast, or give njit no signatures",
                )
            try:
                if not known:
                    dispatcher.compile(tuple(types))
                if _is_from_cache(dispatcher, tuple(types)):
                    dispatcher = _uncached(dispatcher)
                    dispatcher.compile(tuple(types))
            except NumbaError as error:
                raise DTypeError(
                    f"{name} cannot be compiled for {_shown(types)}: {_first_line(error)}",
                    hint="Numba's message is behind this one",
                ) from error
            self._result = dispatcher.overloads[tuple(types)]
            self.text = str(self._result.library.get_llvm_str())
        self.native = str(self._result.fndesc.llvm_func_name)
        self.call: Callable[..., Any] = self._result.entry_point
        self.returned = str(self._result.signature.return_type)

    @property
    def result(self) -> DType | None:
        """The dtype that the kernel returns; None if that is no number."""
        from numba.core import types

        unliteral: Any = types.unliteral
        returned = unliteral(self._result.signature.return_type)
        if isinstance(returned, types.Boolean):
            return BOOL
        is_real = isinstance(returned, types.Integer | types.Float)
        return as_dtype(str(returned)) if is_real else None

    def address(self, symbol: str) -> int:
        """Where a function is that the code calls, or the code's own; 0 if this process has none of the name."""
        import llvmlite.binding as llvm

        from tapec.runtime.cpu.machine_code.adoption import ITSELF

        if symbol == ITSELF:
            return int(self._result.library.get_pointer_to_function(self.native))
        return int(llvm.address_of_symbol(symbol) or 0)

    def exceptions(self) -> list[str]:
        """What the code may raise, as far as it tells."""
        found = []
        for data in _PICKLED.findall(self.text):
            bytes_ = re.sub(
                rb"\\([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), data.encode("latin-1")
            )
            # Numba wrote this text in this process, just now.
            kind, _, place = pickle.loads(bytes_)
            where = f" at {place[1]}:{place[2]}" if place else ""
            found.append(f"{kind.__name__}{where}")
        return list(dict.fromkeys(found))


def scalar_types(name: str, dtypes: Sequence[DType]) -> list[Any]:
    """Numba's types of numbers.

    Raises:
        DTypeError: Numba has no such numbers.
    """
    import numba

    _refuse(name, dtypes)
    return [numba.from_dtype(d.numpy) for d in dtypes]


def array_types(name: str, dtypes: Sequence[DType], ranks: Sequence[int], inputs: int) -> list[Any]:
    """Numba's types of arrays: the inputs, which cannot be written to (numbers where the rank is 0), then others."""
    from numba.core import types

    kinds = scalar_types(name, dtypes)
    return [
        kind if i < inputs and rank == 0 else types.Array(kind, rank, "C", readonly=i < inputs)
        for i, (kind, rank) in enumerate(zip(kinds, ranks, strict=True))
    ]


def elementwise(function: Any, types: Sequence[Any]) -> Callable[..., Any]:
    """A scalar kernel as a function of arrays of one shape."""
    import numba

    vectorize: Any = numba.vectorize
    with _LOCK:
        made = vectorize([tuple(types)])(python_function(function))
    # NumPy's own ufunc inside has a shorter way; which dtypes there are is settled.
    found: Callable[..., Any] = getattr(made, "ufunc", made)
    return found


def _refuse(name: str, dtypes: Sequence[DType]) -> None:
    for dtype in dtypes:
        if dtype.kind not in _KINDS or dtype.code in ("f16", "bf16"):
            raise DTypeError(
                f"{name} does not take {dtype.name}: kernels are compiled by Numba",
                hint="convert it with tapec.cast, to float32 for example",
            )


def _dispatcher(function: Any) -> Any:
    if is_dispatcher(function):
        return function
    import numba

    # As everywhere in tapec, x / 0 is inf or NaN.
    return numba.njit(error_model="numpy")(function)


def _is_from_cache(dispatcher: Any, types: tuple[Any, ...]) -> bool:
    """Whether Numba found the code on disk (``cache=True``), where it keeps no LLVM text."""
    return bool(getattr(dispatcher.overloads[types].library, "_disable_inspection", False))


def _uncached(dispatcher: Any) -> Any:
    """A dispatcher of the same options that looks at no disk."""
    import numba

    options = {k: v for k, v in dispatcher.targetoptions.items() if k != "nopython"}
    return numba.njit(**options)(dispatcher.py_func)


def _shown(types: Sequence[Any]) -> str:
    return f"({', '.join(map(str, types))})"


def _listed(dispatcher: Any) -> str:
    return " and ".join(map(_shown, dispatcher.overloads))


def _first_line(error: Exception) -> str:
    """The first line of Numba's message that says what is wrong, not where it was noticed."""
    lines = [line.strip() for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(("Failed in", "During", "File"))]
    return said[0] if said else type(error).__name__
