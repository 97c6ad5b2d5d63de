"""Python text as a program: run as it is, or each kernel compiled first."""

from __future__ import annotations

import builtins
import linecache
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import numpy as np

from tapec.ir.core import Module
from tapec.ir.dims import DimLike, plain_symbol, substitute
from tapec.ir.text.type_text import parse_dim
from tapec.ir.types import TensorType
from tapec.runtime.executable import MISMATCH, Executable, Signature
from tapec.runtime.python_text import primitives
from tapec.runtime.python_text.calling import invoke
from tapec.runtime.python_text.writer import PythonText, identifier, stored, write_python
from tapec.runtime.residence import Remote
from tapec.runtime.symbols import symbols_of, value_of

_numbers = count()


def functions_of(text: PythonText, name: str) -> dict[str, Any]:
    """The functions of a text, by name; tracebacks show its lines."""
    source = text.source()
    file = f"<tapec.{name}.{next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"np": np, "invoke": invoke, "__name__": "tapec.runtime.python_text"}
    names |= {imported: getattr(primitives, imported) for imported in text.imports}
    exec(compile(source, file, "exec"), names)
    # In the functions' own namespace: the text shows no more than the beginning of a large table.
    names.update(text.tables)
    return names


def executable(
    module: Module, compiled: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
) -> Executable:
    """A module as a program of Python's.

    Args:
        module: at loop level, without vectors.
        compiled: given the kernels by name, gives those that the entry is to call; they are what they were if None.

    Raises:
        TargetError: it has what Python text cannot say.
    """
    text = write_python(module)
    names = functions_of(text, module.entry.name)
    if compiled is not None:
        names |= compiled(
            {name: names[name] for name in text.kernels if name not in text.interpreted}
        )
    entry = names[identifier(module.entry.name)]
    # The functions look their names up in the namespace that they were made in.
    entry.__globals__.update(names)
    call = _Call(module, entry, quiet=compiled is None)
    return Executable(Signature.of(module), call, native=compiled is not None)


class Arrays:
    """Takes the arrays of a call: exactly of their types, or new ones for the results."""

    def __init__(self, module: Module) -> None:
        """Take those of a module's entry."""
        self.signature = Signature.of(module)
        self._written = {*self.signature.updates.values()}

    def take(self, arrays: Any) -> tuple[Any, Any, dict[str, int], bool]:
        """The arguments, the results, what the symbols stand for, and whether results were brought.

        Raises:
            TypeError: the arrays are not exactly of their types, without details.
        """
        given, brought, sizes = self.hold(arrays)
        outputs = self.signature.outputs
        results = brought or [np.empty(_shape(t, sizes), t.dtype.numpy) for t in outputs]
        return given, results, sizes, bool(brought)

    def hold(self, arrays: Any) -> tuple[Any, Any, dict[str, int]]:
        """The arguments, the arrays that were brought for results, if any, and what the symbols stand for.

        Raises:
            TypeError: the arrays are not exactly of their types, without details.
        """
        inputs, outputs = self.signature.inputs, self.signature.outputs
        given, brought = arrays[: len(inputs)], arrays[len(inputs) :]
        if len(given) != len(inputs) or (brought and len(brought) != len(outputs)):
            raise TypeError(MISMATCH)
        sizes = self._sizes(given)
        for i, (array, kind) in enumerate(zip(arrays, (*inputs, *outputs), strict=False)):
            _hold(array, kind, sizes, writes=i in self._written or i >= len(inputs))
        return given, brought, sizes

    def _sizes(self, arrays: Any) -> dict[str, int]:
        """What the symbols stand for."""
        sizes: dict[str, int] = {}
        for array, kind in zip(arrays, self.signature.inputs, strict=True):
            for dim, extent in zip(kind.shape, _shape_of(array), strict=False):
                name = plain_symbol(dim)
                if name is not None:
                    sizes.setdefault(name, extent)
        for of in self.signature.symbols:
            extent = sizes.get(of.name)
            beyond = not isinstance(extent, int) or extent < of.low
            if beyond or (of.high is not None and extent > of.high):  # type: ignore[operator]
                raise TypeError(MISMATCH)
        for left, right in self.signature.guards:
            if substitute(parse_dim(left), sizes) != substitute(parse_dim(right), sizes):
                raise TypeError(MISMATCH)
        return sizes


class _Call:
    """What an `Executable` calls: takes arrays of exactly their types, gives new ones or fills those it is given."""

    def __init__(self, module: Module, entry: Callable[..., None], *, quiet: bool) -> None:
        self._arrays = Arrays(module)
        self._entry = entry
        self._quiet = quiet
        self._symbols = symbols_of(module.entry)

    def __call__(self, *arrays: Any) -> list[Any] | None:
        """Run the program.

        Raises:
            TypeError: the arrays are not exactly of their types, without details.
        """
        given, results, sizes, brought = self._arrays.take(arrays)
        buffers = [stored(array) for array in (*given, *results)]
        of = self._arrays.signature
        if of.arena_bytes != 0:
            buffers.append(np.empty(value_of(of.arena_bytes, sizes), np.uint8))
        numbers = [sizes[name] for name in self._symbols]
        if self._quiet:
            with np.errstate(all="ignore"):
                self._entry(*buffers, *numbers)
        else:
            self._entry(*buffers, *numbers)
        return None if brought else results


def _shape(kind: TensorType, sizes: Mapping[str, DimLike]) -> tuple[Any, ...]:
    return tuple(substitute(d, sizes) for d in kind.shape)


def _shape_of(array: Any) -> tuple[Any, ...]:
    return array.shape if isinstance(array, Remote) else np.shape(array)


def _hold(array: Any, kind: TensorType, sizes: Mapping[str, DimLike], *, writes: bool) -> None:
    """Refuse what is no contiguous array of a type, or may not be written to and is.

    An array on a device is never written to, and contiguous.
    """
    remote = isinstance(array, Remote)
    fits = (
        (type(array) is np.ndarray or (remote and not writes))
        and array.dtype == kind.dtype.numpy
        and array.shape == _shape(kind, sizes)
    )
    if fits and not remote:
        flags = array.flags
        fits = flags.c_contiguous and flags.aligned and (flags.writeable or not writes)
    if not fits:
        raise builtins.TypeError(MISMATCH)
