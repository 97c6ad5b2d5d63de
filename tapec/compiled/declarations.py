"""What users say of the sizes of arguments: ``input_signature`` as in TensorFlow, and ``dims`` by name.

Both come down to one list: for each tensor among a call's leaves, a `Declared` shape or None.
"""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tapec.compiled.parameters import Parameters
from tapec.cyclic import Finite
from tapec.errors import TypeError, ValueError
from tapec.frames import here
from tapec.ir.types import TensorType
from tapec.tensor import Tensor, as_tensor
from tapec.tensors.tensor_shape import TensorShape
from tapec.tensors.type_spec import TensorSpec
from tapec.variable import Variable

_SIZE = re.compile(r"\s*(?:(\d+)\s*<=\s*)?([A-Za-z_]\w*)\s*(?:<=\s*(\d+)\s*)?")


class Size(NamedTuple):
    """A size that a call gives: its name, and what it is at least and at most."""

    name: str
    low: int = 1
    high: int | None = None

    @classmethod
    def parse(cls, text: str) -> Size:
        """``"N"``, ``"N<=128"`` or ``"2<=N<=128"``.

        Raises:
            ValueError: it is none of these.
        """
        match = _SIZE.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{text!r} names no size",
                location=here(),
                hint='write a name, with bounds if there are any: "N", "N<=128", "2<=N<=128"',
            )
        low, high = (None if match[n] is None else int(match[n]) for n in (1, 3))
        return cls(match[2], 1 if low is None else low, high)


@dataclass(frozen=True)
class Declared:
    """The shape of one argument as it is declared; a size is a number, a `Size`, or None for any."""

    argument: str
    sizes: tuple[int | Size | None, ...]

    @classmethod
    def of(cls, argument: str, dims: Any) -> Declared:
        """From what a user wrote: ``("N", 784, None)``."""
        return cls(argument, tuple(Size.parse(d) if isinstance(d, str) else d for d in dims))


class NamedDims:
    """The option ``dims``: shapes by the name of the parameter."""

    def __init__(self, parameters: Parameters, dims: Mapping[str, Any]) -> None:
        """Look for mistakes.

        Raises:
            ValueError: a name is none of the function's parameters, or a size is written in no known way.
        """
        self._names = [p.name for p in parameters.shown]
        self._dims = {name: _declaration(name, given) for name, given in dims.items()}
        unknown = [name for name in self._dims if self._names and name not in self._names]
        if unknown and not parameters.takes(inspect.Parameter.VAR_KEYWORD):
            raise ValueError(
                f"dims names {unknown[0]!r}, which is no parameter of {parameters}",
                location=here(),
            )

    def spread(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments with `Declared` in place of the tensors that a shape is declared of."""
        named = dict(zip(self._names, args, strict=False))
        positional = [
            _spread(named[n], self._dims[n]) if n in self._dims else named[n] for n in named
        ]
        positional += args[len(named) :]
        if not kwargs:
            return positional
        return [
            positional,
            {n: _spread(v, self._dims[n]) if n in self._dims else v for n, v in kwargs.items()},
        ]


def _declaration(name: str, given: Any) -> Any:
    """A tuple is a shape; dicts and lists hold those of their items."""
    if isinstance(given, Mapping):
        return {k: _declaration(f"{name}[{k!r}]", v) for k, v in given.items()}
    if isinstance(given, list):
        return [_declaration(f"{name}[{k}]", v) for k, v in enumerate(given)]
    if given is None:
        return None
    dims = (given,) if isinstance(given, str | int) else given
    if not isinstance(dims, tuple) or not all(d is None or isinstance(d, str | int) for d in dims):
        raise ValueError(
            f"dims says {given!r} of {name}",
            location=here(),
            hint='a shape is a tuple of numbers, names and None: ("N", 784)',
        )
    return Declared.of(name, dims)


def _spread(value: Any, declared: Any) -> Any:
    if isinstance(declared, Mapping) and isinstance(value, Mapping):
        return {k: _spread(v, declared[k]) if k in declared else v for k, v in value.items()}
    if isinstance(declared, list) and isinstance(value, list | tuple):
        padded = [*declared, *[None] * (len(value) - len(declared))]
        return type(value)([_spread(v, d) for v, d in zip(value, padded, strict=False)])
    return value if declared is None else declared


class InputSignature:
    """The option ``input_signature``: a TensorSpec for each positional argument, which is made one that fits."""

    def __init__(self, parameters: Parameters, signature: Any) -> None:
        """Look for mistakes.

        Raises:
            TypeError: it is no sequence of specs, or the function has other parameters.
            ValueError: it contains itself.
        """
        if not isinstance(signature, Sequence) or isinstance(signature, str):
            raise TypeError(
                f"input_signature must be either a tuple or a list, got {type(signature)}",
                location=here(),
            )
        with Finite(signature):
            specs = list(_specs(signature))
        for spec in specs:
            if not isinstance(spec, TensorSpec):
                raise TypeError(
                    "input_signature must be a possibly nested sequence of TensorSpec, got "
                    f"{type(spec).__name__}",
                    location=here(),
                )
        self.specs = tuple(signature)
        named = parameters.by_place()
        self._skipped = int(bool(named) and named[0].name == "self")
        taken = named[self._skipped :]
        missing = [p for p in taken[len(self.specs) :] if p.default is p.empty]
        if missing:
            raise TypeError(
                f"input_signature missing type constraint for {missing[0].name}", location=here()
            )
        is_open = parameters.takes(inspect.Parameter.VAR_POSITIONAL)
        if taken and len(self.specs) > len(taken) and not is_open:
            raise TypeError(
                f"input_signature has {len(self.specs)} specs, but the function takes "
                f"{len(taken)} arguments",
                location=here(),
            )
        extra = range(len(taken), len(self.specs))
        self._names = [*(p.name for p in taken[: len(self.specs)]), *(f"arg{n}" for n in extra)]

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The positional arguments, as tensors of the specs.

        Raises:
            TypeError: one is missing, is too many or does not fit.
        """
        me, given = args[: self._skipped], list(args[self._skipped :])
        left = dict(kwargs)
        for name in self._names[len(given) :]:
            if name not in left:
                break
            given.append(left.pop(name))
        if left or len(given) != len(self.specs):
            raise self._unfit(
                f"expected {len(self.specs)} arguments ({', '.join(self._names)}), got "
                f"{len(args) - len(me)} and keywords {sorted(kwargs)}",
                args,
                kwargs,
            )
        try:
            return [*me, *map(_cast, given, self.specs)]
        except _Unfit as unfit:
            raise self._unfit(f"`{unfit}`", args, kwargs) from None

    def spread(self, bound: Sequence[Any]) -> list[Any]:
        """Bound arguments with `Declared` in place of their tensors."""
        me = bound[: self._skipped]
        return [*me, *(_shapes(s, n) for s, n in zip(self.specs, self._names, strict=True))]

    def _unfit(self, why: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TypeError:
        wanted = ", ".join(f"{n}: {s}" for n, s in zip(self._names, self.specs, strict=True))
        return TypeError(
            f"Binding inputs to the compiled function failed due to {why}. Received args: "
            f"{tuple(args)} and kwargs: {dict(kwargs)} for signature: ({wanted})",
            location=here(),
        )


class _Unfit(Exception):
    """Why an argument is none of its spec."""


def _cast(value: Any, spec: Any) -> Any:
    """A value as the tensors of a spec."""
    if isinstance(spec, Mapping):
        if not isinstance(value, Mapping) or value.keys() != spec.keys():
            raise _Unfit(f"expected a dict with keys {sorted(map(str, spec))}, got {value!r}")
        return {k: _cast(value[k], s) for k, s in spec.items()}
    if isinstance(spec, list | tuple):
        if not isinstance(value, list | tuple) or len(value) != len(spec):
            raise _Unfit(f"expected {len(spec)} items, got {value!r}")
        return type(spec)([_cast(v, s) for v, s in zip(value, spec, strict=True)])
    given = value.read_value() if isinstance(value, Variable) else value
    if not isinstance(given, Tensor):
        try:
            given = as_tensor(given, spec.dtype)
        except (builtins.TypeError, builtins.ValueError) as error:
            raise _Unfit(f"Can not convert {value!r} to {spec}: {error}") from None
    if not spec.is_compatible_with(given):
        raise _Unfit(f"Can not cast {TensorSpec.from_tensor(given)} to {spec}")
    return given


def _specs(structure: Any) -> Iterator[Any]:
    if isinstance(structure, Mapping):
        structure = list(structure.values())
    if isinstance(structure, list | tuple):
        for item in structure:
            yield from _specs(item)
    else:
        yield structure


def _shapes(spec: Any, name: str) -> Any:
    if isinstance(spec, Mapping):
        return {k: _shapes(s, f"{name}[{k!r}]") for k, s in spec.items()}
    if isinstance(spec, list | tuple):
        return type(spec)([_shapes(s, f"{name}[{n}]") for n, s in enumerate(spec)])
    shape: TensorShape = spec.shape
    return AnyRank(name) if shape.rank is None else Declared(name, tuple(shape))


@dataclass(frozen=True)
class AnyRank:
    """An argument of which not even the rank is declared."""

    argument: str

    def of(self, type: TensorType) -> Declared:
        """Any sizes."""
        return Declared(self.argument, (None,) * type.rank)
