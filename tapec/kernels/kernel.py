"""One user's kernel: its native code for each combination of dtypes, its meaning, its derivative."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapec.errors import RuntimeError, TypeError
from tapec.frames import here
from tapec.ir.errors import DTypeError, NotDifferentiableError, TargetError
from tapec.ir.foreign import Derivative, ForeignCode
from tapec.ir.location import Location
from tapec.ir.quiet import quiet
from tapec.ir.types import BufferType, DType, TensorType, Type
from tapec.kernels import numba_code
from tapec.kernels.derivative import trace_vjp
from tapec.kernels.frozen import Frozen
from tapec.kernels.numba_code import Compiled
from tapec.kernels.rule import Rule
from tapec.traces.hearing import unheard

#: Numba's functions that a program must not call: it would wait for Python, or draw numbers that no key determines.
_IMPURE = {
    "random": "draws random numbers that no key determines: make them an operand (tapec.random)",
    "gil_": "calls into Python: it prints, or makes a Python object",
    "Py": "calls into Python: it prints, or makes a Python object",
    "printf": "prints",
}


class Kernel:
    """What `tapec.custom_op` makes of a function; see `tapec.ir.foreign.ForeignSource`."""

    def __init__(
        self, name: str, function: Any, vjp: Callable[..., Any] | None, place: Location | None
    ) -> None:
        """Nothing is compiled before the kernel is first called, with operands of some dtypes."""
        self.name = name
        self.function = function
        self.vjp = vjp
        self.place = place
        #: By what the code depends on of the types of operands and results.
        self._codes: dict[Any, ForeignCode] = {}
        self._meanings: dict[Any, Callable[..., Any]] = {}
        #: By the hash of the code.
        self._compiled: dict[str, Compiled] = {}
        self._derivatives: dict[Any, Derivative] = {}
        #: What the function read from outside when it was first compiled, and its vjp when it was first traced.
        self._frozen: dict[str, Frozen] = {}
        self._lock = threading.RLock()

    def hold_to_frozen(self) -> None:
        """Refuse to run after a value that was made a constant of the code has changed.

        Raises:
            RuntimeError: it has.
        """
        for what, frozen in self._frozen.items():
            changed = frozen.changed()
            if changed is not None:
                raise RuntimeError(
                    f"{what} with {changed}: values from outside of a kernel are constants of its code",
                    location=here(),
                    hint="hand over as an operand what changes",
                )

    @unheard  # else Numba takes twice as long
    def code(self, operands: Sequence[Type], results: Sequence[Type] = ()) -> ForeignCode:
        """The native code for operands of these types.

        Raises:
            DTypeError: Numba does not compile it for these.
            TypeError: the kernel may raise, or does what a program cannot do.
        """
        key = self._key(operands, results)
        found = self._codes.get(key)
        if found is None:
            with self._lock:
                self._freeze(f"{self.name} was compiled", self.function)
                found = self._codes.get(key) or self._compile(operands, results)
                self._codes[key] = found
        return found

    @unheard
    def meaning(self, operands: Sequence[Type], results: Sequence[Type] = ()) -> Callable[..., Any]:
        """The kernel as a function of NumPy arrays."""
        key = self._key(operands, results)
        found = self._meanings.get(key)
        if found is None:
            with self._lock:
                found = self._meanings[key] = self._meaning(operands, results)
        return found

    def derivative(
        self, operands: Sequence[TensorType], results: Sequence[TensorType]
    ) -> Derivative:
        """The program of the user's vjp for operands of these types."""
        if self.vjp is None:
            raise NotDifferentiableError(f"{self.name} has no derivative", location=self.place)
        key = (*operands, *results)
        found = self._derivatives.get(key)
        if found is None:
            self._freeze(f"the vjp of {self.name} was traced", self.vjp)
            found = trace_vjp(self.name, self.vjp, operands, results, spread=self.is_scalar)
            self._derivatives[key] = found
        return found

    def _freeze(self, what: str, function: Any) -> None:
        """Keep what a function reads from outside, if that is not kept; otherwise it must still be so."""
        if what in self._frozen:
            self.hold_to_frozen()
        else:
            self._frozen[what] = Frozen(function)

    def address(self, content: str, symbol: str) -> int:
        """Where a function is that the code with this hash calls."""
        return self._compiled[content].address(symbol)

    #: Whether it takes and returns numbers.
    is_scalar = True

    def _key(self, operands: Sequence[Type], results: Sequence[Type]) -> Any:
        return tuple([t.dtype for t in operands])

    def _compile(self, operands: Sequence[Type], results: Sequence[Type]) -> ForeignCode:
        from tapec.runtime.cpu.machine_code.adoption import adopt_scalar  # LLVM, as in `_adopted`

        dtypes = [t.dtype for t in operands]
        compiled = Compiled(self.name, self.function, numba_code.scalar_types(self.name, dtypes))
        returned = compiled.result
        if returned is None:
            raise DTypeError(
                f"{self.name} returns {compiled.returned}, expected one number",
                location=self.place,
                hint="a kernel that fills arrays is declared by infer=",
            )
        return self._adopted(
            compiled,
            lambda: adopt_scalar(
                compiled.text, compiled.native, dtypes, returned, _narrowed(returned, dtypes)
            ),
        )

    def _adopted(self, compiled: Compiled, adopt: Callable[[], ForeignCode]) -> ForeignCode:
        """What a kernel's code becomes in a program.

        Raises:
            TypeError: it may raise, or does what a program cannot do.
        """
        from tapec.runtime.cpu.machine_code.adoption import MayRaise

        try:
            code = adopt()
        except MayRaise:
            listed = compiled.exceptions()
            own = [x for x in listed if self.place is not None and self.place.file in x]
            what = f": {', '.join((own or listed)[:3])}" if listed else ""
            raise TypeError(
                f"{self.name} may raise an exception, and native code cannot{what}",
                location=self.place,
                hint=_no_raising(listed),
            ) from None
        except TargetError as error:
            raise TypeError(
                f"{self.name} cannot be part of a program: {error.message}",
                location=self.place,
                hint="hand over as an operand what it takes from outside",
            ) from error
        for symbol in code.foreign:
            for part, what in _IMPURE.items():
                if symbol.name.startswith(part) or (part in symbol.name and part != "Py"):
                    raise TypeError(f"{self.name} {what} ({symbol.name})", location=self.place)
            if not compiled.address(symbol.name):
                raise TypeError(
                    f"{self.name} calls {symbol.name}, which nothing in this process has",
                    location=self.place,
                )
        self._compiled[code.content] = compiled
        return code

    def _meaning(self, operands: Sequence[Type], results: Sequence[Type]) -> Callable[..., Any]:
        (result,) = self.code(operands).results
        self.hold_to_frozen()  # it is compiled once more
        types = numba_code.scalar_types(self.name, [t.dtype for t in operands])
        call = numba_code.elementwise(self.function, types)
        quietly, dtype = quiet(call), result.numpy
        return lambda *arrays: np.asarray(quietly(*arrays), dtype)

    def result_types(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """The operands' shape."""
        (result,) = self.code(types).results
        return (types[0].with_dtype(result),)


class ArrayKernel(Kernel):
    """A kernel that reads arrays and fills others."""

    is_scalar = False

    def __init__(
        self,
        name: str,
        function: Any,
        vjp: Callable[..., Any] | None,
        place: Location | None,
        rule: Rule,
    ) -> None:
        """``rule`` gives the types of the arrays that it fills."""
        super().__init__(name, function, vjp, place)
        self.rule = rule

    def result_types(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """By the declared rule."""
        return self.rule(self.name, types)

    def _key(self, operands: Sequence[Type], results: Sequence[Type]) -> Any:
        return tuple([(t.dtype, _rank(t)) for t in (*operands, *results)])

    def _compile(self, operands: Sequence[Type], results: Sequence[Type]) -> ForeignCode:
        from tapec.runtime.cpu.machine_code.adoption import adopt_arrays  # LLVM, as in `_adopted`

        every = [*operands, *results]
        dtypes, ranks = [t.dtype for t in every], [_rank(t) for t in every]
        types = numba_code.array_types(self.name, dtypes, ranks, len(operands))
        compiled = Compiled(self.name, self.function, types)
        if compiled.returned != "none":
            raise DTypeError(
                f"{self.name} returns {compiled.returned}: a kernel of arrays fills its last arguments "
                "and returns nothing",
                location=self.place,
            )
        layouts = list(zip(dtypes, ranks, strict=True))
        inputs = len(operands)
        return self._adopted(
            compiled,
            lambda: adopt_arrays(
                compiled.text, compiled.native, layouts[:inputs], layouts[inputs:]
            ),
        )

    def _meaning(self, operands: Sequence[Type], results: Sequence[Type]) -> Callable[..., Any]:
        call = self._compiled[self.code(operands, results).content].call
        numbers = [i for i, t in enumerate(operands) if _rank(t) == 0]
        if not numbers:
            return call

        def run(*arrays: Any) -> None:
            given = list(arrays)
            for i in numbers:
                given[i] = arrays[i][()]
            call(*given)

        return run


def _narrowed(returned: DType, operands: Sequence[DType]) -> DType:
    """The dtype of a result: the widest operand's, where Numba gives a wider one of the same kind.

    To Numba a number in a program is float64 or int64, so ``0.5 * x`` is float64 where x is float32.
    """
    alike = [d for d in operands if d.kind == returned.kind]
    widest = max(alike, key=lambda d: d.bits, default=returned)
    return min(widest, returned, key=lambda d: d.bits)


def _rank(type: Type) -> int:
    assert isinstance(type, TensorType | BufferType)
    return len(type.shape)


def _no_raising(listed: Sequence[str]) -> str:
    """What to do about a kernel that may raise."""
    if any(name.startswith("ZeroDivisionError") for name in listed):
        return 'with @numba.njit(error_model="numpy"), or without njit, a division by zero gives inf or NaN'
    return "give a number such as NaN back, and check before the call (tapec.debugging)"
