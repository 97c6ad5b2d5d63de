"""What passes between a program and the host that runs it: functions of Python that it calls.

A traced program says `notify`: hand the operands to a function of the host, after all that was handed over before. The
first operand is where that function is: an address, `u64[1]`, which is an input of the program, so that no code and no
text of a program depends on the process. The pass `commit` decides how the function gets the operands. If nothing comes
back and no loop or branch is around, they become results, and who runs the program calls the function when it ended.
Else the program itself calls, in the middle: `call_host`, which takes and gives a token, so that calls have an order
and are as pure as all else.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from tapec.ir.core import Value
from tapec.ir.errors import DTypeError, NotDifferentiableError
from tapec.ir.loops.kernel import StoredOperand
from tapec.ir.op import OPS, Cotangents, Kernel, Op
from tapec.ir.ops.interleaved import deinterleaved, interleaved
from tapec.ir.ops.loop import LoopOp
from tapec.ir.pairs import Pair
from tapec.ir.types import I32, U64, BufferType, TensorType, Type, as_dtype

if TYPE_CHECKING:
    from tapec.ir.builder import Builder
    from tapec.ir.core import Operation

#: The type of an address, and of a token: 0 while all is well.
ADDRESS, TOKEN = TensorType(U64, (1,)), TensorType(I32)
#: The token after a call that raised.
RAISED = -1


class HostFunction(Protocol):
    """A function of Python at an address; see `tapec.traces.callbacks`."""

    def meaning(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """What it gives for these arrays, in NumPy's terms."""


#: The functions at the addresses of this process, for as long as they live.
HOST_FUNCTIONS: MutableMapping[int, HostFunction] = WeakValueDictionary()


def _evaluated(address: Any, arrays: Sequence[Any], results: Sequence[Type]) -> list[Any]:
    """What the function at an address gives; zeros where there is none, as in a program with made-up inputs."""
    function = HOST_FUNCTIONS.get(int(np.ravel(address)[0]))
    if function is not None:
        return list(function.meaning(arrays))
    types = [r for r in results if isinstance(r, TensorType)]
    return [np.zeros(t.static_shape, t.dtype.numpy) for t in types]


#: Of what calls Python in the middle of a program.
_NO_DEVICE = "a device cannot call functions of Python's"


class Notify(Op):
    """Hand the operands behind the first to the function at the address in that; the results are what it gives.

    ``number`` is the function's place among those of the program, ``what`` is for the reader. Without results the
    operation itself does nothing: see above.
    """

    name = "notify"
    form = "structural"
    pure = False
    differentiable = False

    def infer(
        self, *types: Any, number: int, what: str = "", results: tuple[Type, ...] = ()
    ) -> tuple[Type, ...]:
        """``results``, which only the function knows."""
        _require_address(self.name, types)
        return results

    def evaluate(self, *arrays: Any, results: tuple[Type, ...] = (), **attrs: Any) -> Any:
        """What the function gives, if that is anything."""
        return tuple(_evaluated(arrays[0], arrays[1:], results)) if results else ()

    def told(self, op: Operation) -> Sequence[Value]:
        """The address of the function, and what it is called with."""
        return op.operands

    def batch(
        self, b: Builder, operands: Sequence[Value], batched: Sequence[bool], **attrs: Any
    ) -> Any:
        """Once for all rows.

        Raises:
            NotDifferentiableError: the function gives something back, which would be of one row.
        """
        if attrs.get("results"):
            raise NotDifferentiableError(
                f"{attrs['what']} gives something back, and cannot run for all rows at once",
                hint="use tapec.map_fn, which runs row by row",
            )
        return b.emit(self, *operands, **attrs)


class NotifyBack(Notify):
    """A `notify` of a function that has a derivative: behind the address is another, of that.

    The derivative takes the operands and the cotangents of all results; it gives the cotangents of those operands that
    carry any.
    """

    name = "notify_back"
    no_device = _NO_DEVICE
    differentiable = True

    def infer(
        self, *types: Any, number: int, what: str = "", results: tuple[Type, ...] = ()
    ) -> tuple[Type, ...]:
        """``results``, which only the function knows."""
        _require_address(self.name, types[1:])
        return super().infer(*types, number=number, what=what, results=results)

    def evaluate(self, *arrays: Any, results: tuple[Type, ...] = (), **attrs: Any) -> Any:
        """What the function gives, if that is anything."""
        return super().evaluate(arrays[0], *arrays[2:], results=results, **attrs)

    def told(self, op: Operation) -> Sequence[Value]:
        """The address of the function, and what it is called with."""
        return [op.operands[0], *op.operands[2:]]

    def vjp(self, b: Builder, op: Operation, *cts: Any) -> Cotangents:
        """One call of the derivative."""
        _, back, *inputs = op.operands
        flows = [i for i, v in enumerate(inputs) if v.tensor.dtype.is_differentiable]
        given = [
            b.full_like(0, r) if ct is None else ct for r, ct in zip(op.results, cts, strict=True)
        ]
        attrs = {"number": op.attrs["number"], "what": f"derivative of {op.attrs['what']}"}
        types = tuple(inputs[i].type for i in flows)
        found = b.emit(OPS["notify"], back, *inputs, *given, results=types, **attrs)
        values = iter([found] if isinstance(found, Value) else found)
        return (None, None, *(next(values) if i in flows else None for i in range(len(inputs))))


class CallHost(Op):
    """Call the function at an address, if the token is 0: operands address, token, what it takes; the token first.

    The new token is 0 if the function returned, `RAISED` if it raised.
    """

    name = "call_host"
    no_device = _NO_DEVICE
    form = "nest"
    differentiable = False

    def infer(self, *types: Any, results: tuple[Type, ...] = ()) -> tuple[Type, ...]:
        """A token, then ``results``."""
        _require_address(self.name, types)
        if types[1] != TOKEN:
            raise DTypeError(f"call_host: the second operand is a token, {TOKEN}, got {types[1]}")
        return (TOKEN, *results)

    def evaluate(self, *arrays: Any, results: tuple[Type, ...] = ()) -> Any:
        """What the function gives; an error of its own comes through as it is."""
        address, token, *inputs = arrays
        return (np.asarray(token), *_evaluated(address, inputs, results))

    def lower_nest(
        self,
        k: Kernel,
        outs: Sequence[Value],
        *operands: StoredOperand,
        results: tuple[Type, ...] = (),
    ) -> None:
        """One call, with the memory of all operands and results."""
        memory = [*(x.memory for x in operands), *outs]
        k.effect(OPS["invoke"], *memory, inputs=len(operands))

    def pairs(
        self, b: Builder, *operands: Any, results: tuple[Type, ...] = (), **attrs: Any
    ) -> Any:
        """With the parts of complex numbers in turn, as NumPy has them."""
        given = [b.interleave(x.re, x.im) if isinstance(x, Pair) else x for x in operands]
        types = [r for r in results if isinstance(r, TensorType)]
        kept = tuple(interleaved(t) if t.dtype.is_complex else t for t in types)
        found = b.emit(self, *given, results=kept)
        token, *made = [found] if isinstance(found, Value) else found
        pairs = zip(made, types, strict=True)
        return (token, *(Pair(*deinterleaved(b, v)) if t.dtype.is_complex else v for v, t in pairs))


class Invoke(LoopOp):
    """`call_host` on buffers: ``inputs`` that are read (address and token first), then those that are filled."""

    name = "invoke"
    no_device = _NO_DEVICE
    pure = False

    def infer(self, *types: Any, inputs: int) -> tuple[Type, ...]:
        """No results."""
        if inputs < 2 or not all(isinstance(t, BufferType) for t in types):
            raise DTypeError("invoke takes buffers: address, token, inputs, then results")
        return ()

    def evaluate(self, *arrays: Any, inputs: int) -> Any:
        """The call, on memory."""
        address, token, *given = arrays[:inputs]
        next_token, *outs = arrays[inputs:]
        types = tuple(TensorType(as_dtype(a.dtype), np.shape(a)) for a in outs)
        next_token[...] = token
        for out, result in zip(outs, _evaluated(address, given, types), strict=True):
            out[...] = result
        return ()

    def written(self, op: Operation) -> Sequence[Value]:
        """What the call fills."""
        return op.operands[op.attrs["inputs"] :]


def _require_address(name: str, types: Sequence[Any]) -> None:
    if not types or types[0] != ADDRESS:
        raise DTypeError(f"{name}: the first operand is an address, {ADDRESS}")


class NumpyFunction(Op):
    """What the user's function of arrays gave: on tapes, where no derivative goes on."""

    name = "numpy_function"
    no_device = _NO_DEVICE
    form = "structural"
    pure = False
    differentiable = False

    def infer(self, *types: Any, results: tuple[Type, ...]) -> tuple[Type, ...]:
        """``results``, which only the function knows."""
        return results
