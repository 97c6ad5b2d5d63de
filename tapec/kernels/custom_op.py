"""`custom_op`: a user's kernel as an operation, with everything that operations have."""

from __future__ import annotations

import builtins
import functools
import re
from collections.abc import Callable
from typing import Any, overload

from tapec import arguments
from tapec.errors import AlreadyExistsError, InvalidArgumentError, TypeError, ValueError
from tapec.frames import here
from tapec.functions.broadcasting import broadcast, common_shape, has_dtype, like
from tapec.ir.errors import DTypeError, ShapeError
from tapec.ir.location import Location
from tapec.ir.op import OPS, Op
from tapec.ir.ops.foreign import ForeignArrays, ForeignScalar
from tapec.ir.types import TensorType
from tapec.kernels import numba_code
from tapec.kernels.kernel import ArrayKernel, Kernel
from tapec.kernels.rule import Computed, Declaration, Rule, declaration
from tapec.recording import current_trace
from tapec.tensor import Tensor, apply, as_tensor

#: How many combinations of types a call need not look at again.
_CAPACITY = 1024

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


class CustomOp:
    """A user's kernel: called with tensors like any function of tapec.

    Attributes:
        name: of the operation, in programs and messages.
        python_function: the function that was decorated.
        vjp: its derivative, or None.
    """

    def __init__(self, name: str, function: Any, kernel: Kernel) -> None:
        """Made by `custom_op`."""
        self.name = name
        self.python_function = function
        self.vjp = kernel.vjp
        self._kernel = kernel
        #: The hash of the kernel's code by the types of operands that need no broadcasting.
        self._contents: dict[tuple[int, ...], tuple[str, list[TensorType]]] = {}
        self._parameters = len(numba_code.parameters(function))
        functools.update_wrapper(self, numba_code.python_function(function), updated=())

    def __call__(self, *operands: Any) -> Any:
        """The kernel's result, a tensor or a tuple of them.

        Scalar kernels are applied to each element; operands broadcast. Python numbers take the dtype of the first
        operand that has one.
        """
        self._kernel.hold_to_frozen()
        tensors = _tensors(operands)
        # By identity, as in `tapec.eager.signatures`: the types are kept.
        key = tuple([id(t.type) for t in tensors])
        known = self._contents.get(key)
        if known is not None:
            return apply(self.name, *tensors, content=known[0])
        types = [t.type for t in tensors]
        try:
            prepared, content = self._prepared(tensors)
        except (ShapeError, DTypeError) as error:
            kind = TypeError if isinstance(error, DTypeError) else ValueError
            found = InvalidArgumentError if current_trace() is None else kind
            place = error.location or here()
            raise found(error.message, location=place, hint=error.hint) from error.__cause__
        if [t.type for t in prepared] == types:
            if len(self._contents) >= _CAPACITY:
                self._contents.clear()
            self._contents[key] = content, types
        return apply(self.name, *prepared, content=content)

    def _prepared(self, tensors: list[Tensor]) -> tuple[list[Tensor], str]:
        """The operands as the kernel takes them, and the hash of its code for these.

        Raises:
            ShapeError, DTypeError: it does not take them.
            TypeError: it takes another number of them.
        """
        kernel, types = self._kernel, [t.type for t in tensors]
        results = () if kernel.is_scalar else kernel.result_types(types)
        count = self._parameters - len(results)
        if len(tensors) != count:
            raise TypeError(
                f"{self.name} takes {count} operands, got {len(tensors)}", location=here()
            )
        if kernel.is_scalar:
            shape = common_shape(*[t.shape for t in types])
            tensors = [broadcast(t, shape) for t in tensors]
        return tensors, kernel.code(types, results).content

    def foreign_symbols(self, *operands: Any) -> tuple[str, ...]:
        """What the kernel for such operands calls that no program can hold: it runs in this process alone then."""
        types = [t.type for t in _tensors(operands)]
        results = () if self._kernel.is_scalar else self._kernel.result_types(types)
        return tuple(symbol.name for symbol in self._kernel.code(types, results).foreign)

    def __repr__(self) -> str:
        return f"<custom op {self.name}>"


def _tensors(operands: Any) -> list[Tensor]:
    """Tensors; what has no dtype takes that of the first that has one."""
    if all(isinstance(x, Tensor) for x in operands):
        return list(operands)
    first = next((as_tensor(x) for x in operands if has_dtype(x)), None)
    if first is None:
        return [as_tensor(x) for x in operands]
    return [as_tensor(x) if has_dtype(x) else like(x, first.type.dtype) for x in operands]


@overload
def custom_op(name: Callable[..., Any]) -> CustomOp: ...
@overload
def custom_op(
    name: str | None = None,
    *,
    vjp: Callable[..., Any] | None = None,
    infer: str | Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], CustomOp]: ...
def custom_op(name: Any = None, *, vjp: Any = None, infer: Any = None) -> Any:
    """Decorate a kernel for Numba, which makes it an operation: eager, compiled, on tapes, mapped.

    ::

        @tapec.custom_op("acme.softplus", vjp=lambda x, y, dy: dy * tapec.sigmoid(x))
        def softplus(x):
            return math.log1p(math.exp(-abs(x))) + max(x, 0.0)

    The function is what ``numba.njit`` made, or what it can compile; then a division by zero gives inf or NaN. Without
    ``infer`` it is a kernel of numbers, applied to each element; compiled, it becomes part of the loop around it. With
    ``infer`` it is a kernel of arrays: it gets the operands, which it must not write to, then an array for each result,
    which it fills; operands of rank 0 are passed as numbers. It is compiled for the dtypes that it is called with.
    Values of globals and closures that it reads are constants of the code; after one has changed, calls raise.

    Args:
        name: of the operation, with a dot in it. By default the module's and the function's.
        vjp: a function of the operands, the results, and the cotangents of the results, that returns the cotangent of
            each operand (or None), written with functions of tapec and other custom ops. Derivatives of any order
            follow from it. Without it the operation has no derivative.
        infer: types of the results: text, ``"T[n,m], T[k] -> T[n-k+1,m]"`` with names for sizes and dtypes, or a
            function of one `tapec.TensorSpec` for each operand that returns one for each result.

    Raises:
        AlreadyExistsError: there is an operation of this name.
        ValueError: the name has no dot, or ``infer`` cannot be understood.
        TypeError: at a call, if the kernel may raise, cannot be compiled, or has effects.
        RuntimeError: at a call, if a constant of its code has changed.
    """
    if callable(name):
        return _registered(name, None, None, None)
    if name is not None and not isinstance(name, str):
        raise TypeError(f"custom_op takes a name, got {name!r}", location=here())
    return lambda function: _registered(function, name, vjp, infer)


def _registered(function: Any, name: str | None, vjp: Any, infer: Any) -> CustomOp:
    arguments.function(function, "custom_op")
    if vjp is not None:
        arguments.function(vjp, "vjp")
    python = numba_code.python_function(function)
    code = getattr(python, "__code__", None)
    if code is None:
        raise TypeError(
            f"custom_op takes a function of Python or of numba.njit, got {python!r}",
            location=here(),
        )
    place = Location(code.co_filename, code.co_firstlineno)
    if name is None:
        name = f"{python.__module__.replace('<', '').replace('>', '')}.{python.__name__}"
    _check_name(name)
    try:
        count = len(numba_code.parameters(function))
    except builtins.ValueError as error:
        raise ValueError(f"{name} has {error}", location=place) from None
    kernel: Kernel
    if infer is None:
        family: type[Op] = ForeignScalar
        kernel = Kernel(name, function, vjp, place)
    else:
        family = ForeignArrays
        kernel = ArrayKernel(name, function, vjp, place, _rule(name, infer, count, place))
    parts: dict[str, Any] = {
        "name": name,
        "source": kernel,
        "arity": count,
        "differentiable": vjp is not None,
        "__doc__": python.__doc__ or f"The kernel {python.__name__} ({place.describe()}).",
    }
    type(python.__name__, (family,), parts)
    return CustomOp(name, function, kernel)


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"custom_op: {name!r} is no name for an operation",
            location=here(),
            hint='names of custom ops have a dot in them: "acme.softplus"',
        )
    known = OPS.get(name)
    if known is not None:
        place = getattr(getattr(known, "source", None), "place", None)
        where = f" at {place.describe()}" if place is not None else ""
        raise AlreadyExistsError(
            f"custom_op: {name} was registered already{where}",
            location=here(),
            hint="programs tell operations apart by name: use another one, or start Python anew",
        )


def _rule(name: str, infer: Any, count: int, place: Location) -> Rule:
    if callable(infer):
        return Computed(infer)
    if not isinstance(infer, str):
        raise TypeError(f"custom_op: infer is a text or a function, got {infer!r}", location=here())
    rule: Declaration = declaration(infer)
    arrays = len(rule.operands) + len(rule.results)
    if arrays != count:
        raise ValueError(
            f"{name} has {count} parameters, its rule {infer!r} speaks of {arrays} arrays",
            location=place,
            hint="the parameters are the operands, then an array for each result",
        )
    return rule
