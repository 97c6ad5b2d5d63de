"""Single operations that eager code repeats, as native programs.

Where native code gives NumPy's results to the bit, nobody can tell which of both ran: NumPy does what it would not. So
an operation that takes many
calls of NumPy, as random numbers do, becomes a program of its own once NumPy has taken about as long over it as a
compiler would: until then neither LLVM nor the passes are loaded, and nobody waits more than twice as long as was
necessary. `config.native_turn` holds here too: native code never runs before that turn, and of 0 never at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from tapec import config
from tapec.ir.core import Function, Module
from tapec.ir.errors import TargetError
from tapec.ir.op import Op
from tapec.ir.types import TensorType

#: NumPy's work in numbers made: what the calls of one operation take whatever its size, and what a compiler takes.
_WORK_OF_CALL, _WORK_OF_COMPILER = 2**10, 2**20


def repeated(
    defn: Op, inputs: Sequence[TensorType], attrs: Mapping[str, Any]
) -> Callable[..., Any]:
    """The kernel of an operation with one result for operands of these types: NumPy's, and in time a native one."""
    return _Repeated(defn, inputs, attrs)


class _Repeated:
    """A kernel that counts its calls, and the work they were for NumPy."""

    def __init__(self, defn: Op, inputs: Sequence[TensorType], attrs: Mapping[str, Any]) -> None:
        self._defn = defn
        self._inputs = tuple(inputs)
        self._attrs = attrs
        self._numpy = defn.kernel(**attrs)
        self._rest: Callable[..., Any] = partial(defn.rest, **attrs)
        self._native: Callable[..., list[Any]] | None = None
        self._turns = self._work = 0

    def __call__(self, *arrays: Any) -> Any:
        turn = config.native_turn()
        if not turn:
            return self._numpy(*arrays)
        native = self._native
        if native is None:
            self._turns += 1
            if self._turns < turn or self._work < _WORK_OF_COMPILER:
                result = self._numpy(*arrays)
                self._work += _WORK_OF_CALL + result.size
                return result
            native = self._native = self._compiled()
        return self._rest(*native(*arrays))

    def _compiled(self) -> Callable[..., list[Any]]:
        """The native program; NumPy's function in its form where there is none."""
        from tapec.compiler import compile_module  # short scripts never come here
        from tapec.ir.builder import Builder  # as above

        function = Function(self._defn.name)
        operands = [function.block.add_arg(type) for type in self._inputs]
        builder = Builder(function.block)
        builder.emit("return", *self._defn.exact(builder, *operands, **self._attrs))
        try:
            return compile_module(Module([function]))
        except TargetError:
            self._rest = itemgetter(0)
            return lambda *arrays: [[self._numpy(*arrays)]]
