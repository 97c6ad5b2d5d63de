"""A compiled function for one signature, and one for one instance: `get_concrete_function`, and methods."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tapec.compiled.call import Call
from tapec.errors import TypeError
from tapec.frames import here
from tapec.ir.core import Module
from tapec.structure import flatten, unflatten
from tapec.tensor import Tensor, as_tensor
from tapec.tensors.type_spec import TensorSpec
from tapec.variable import Variable

if TYPE_CHECKING:
    from tapec.compiled.function import CompiledFunction
    from tapec.compiled.lowering import Lowered
    from tapec.compiled.program import Program

R = TypeVar("R")


class ConcreteFunction:
    """What `get_concrete_function` returns: called with tensors of the types that it was made for, and no others.

    Attributes:
        name: of the function.
        program: what it runs.
    """

    def __init__(
        self,
        function: CompiledFunction[Any, Any],
        call: Call,
        leaves: Sequence[Any],
        program: Program,
    ) -> None:
        """Made by `CompiledFunction.get_concrete_function`.

        Args:
            function: the function.
            call: arguments as they were asked for.
            leaves: what these are made of; Tensors may have open sizes.
            program: for these.
        """
        self.name = function.name
        self.program = program
        self._function = function
        self._call = call
        self._leaves = leaves

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it on its tensors, in order, or on all arguments; what is no tensor may be left out.

        Raises:
            TypeError: other arguments than those that it was made for.
        """
        given, _ = flatten([list(args), kwargs], parts=True)
        tensors = [leaf for leaf in self._leaves if isinstance(leaf, Tensor)]
        if len(given) == len(self._leaves):
            leaves = [self._fitting(*pair) for pair in zip(self._leaves, given, strict=True)]
        elif len(given) == len(tensors):
            left = iter(given)
            leaves = [
                self._fitting(leaf, next(left)) if isinstance(leaf, Tensor) else leaf
                for leaf in self._leaves
            ]
        else:
            raise TypeError(
                f"{self!r} takes {len(tensors)} tensors, got {len(given)} arguments",
                location=here(),
            )
        structure = unflatten(self._call.spec, leaves)
        bound = structure if self._call.has_kwargs else (structure, {})
        return self._function(*bound[0], **bound[1])

    def _fitting(self, wanted: Any, given: Any) -> Any:
        """An argument that is as it was asked for."""
        if not isinstance(wanted, Tensor):
            if wanted is given or (type(wanted) is type(given) and wanted == given):
                return wanted
            raise TypeError(f"{self!r} was made for {wanted!r}, got {given!r}", location=here())
        spec = TensorSpec.from_tensor(wanted)
        value = given if isinstance(given, Tensor) else as_tensor(given, wanted.dtype)
        if not spec.is_compatible_with(value):
            raise TypeError(
                f"Binding inputs to the compiled function failed due to `Can not cast "
                f"{TensorSpec.from_tensor(value)} to {spec}`: {self!r}",
                location=here(),
                hint=f"cast or reshape the argument, or call {self.name} itself",
            )
        return value

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with a `tapec.TensorSpec` in the place of each tensor."""
        specs = [TensorSpec.from_tensor(x) if isinstance(x, Tensor) else x for x in self._leaves]
        structure = unflatten(self._call.spec, specs)
        args, kwargs = structure if self._call.has_kwargs else (structure, {})
        return tuple(args), kwargs

    @property
    def structured_outputs(self) -> Any:
        """What a call returns, with a `tapec.TensorSpec` in the place of each tensor."""
        return self.program.result_specs

    @property
    def captured_inputs(self) -> list[Any]:
        """What it reads from outside: Variables, Tensors, NumPy arrays."""
        return list(self.program.captures)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The Variables that it reads or assigns."""
        return tuple(c for c in self.program.captures if isinstance(c, Variable))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        """Those of them that tapes watch by themselves."""
        return tuple(v for v in self.variables if v.trainable)

    def __repr__(self) -> str:
        args, kwargs = self.structured_input_signature
        named = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        return f"<ConcreteFunction {self.name}({', '.join(named)})>"


class BoundFunction(functools.partial[R]):
    """A compiled method, looked up on an instance: that is the first of the arguments."""

    @property
    def python_function(self) -> Any:
        """The method as it was written."""
        return functools.partial(self._compiled.python_function, *self.args)

    @property
    def _compiled(self) -> CompiledFunction[Any, Any]:
        return cast("CompiledFunction[Any, Any]", self.func)

    def trace(self, *args: Any, **kwargs: Any) -> Module:
        """See `CompiledFunction.trace`."""
        found: Module = self._compiled.trace(*self.args, *args, **kwargs)
        return found

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """See `CompiledFunction.lower`."""
        found: Lowered = self._compiled.lower(*self.args, *args, **kwargs)
        return found

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """See `CompiledFunction.get_concrete_function`."""
        found: ConcreteFunction = self._compiled.get_concrete_function(*self.args, *args, **kwargs)
        return found

    def __getattr__(self, name: str) -> Any:
        """What the compiled function has."""
        return getattr(self.func, name)
