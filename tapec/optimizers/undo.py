"""What is done to Variables in an update that may fail half-way: kept, so that it can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tapec.at_line import AtLine, at_home
from tapec.recording import current_trace
from tapec.tensor import Array, Reference
from tapec.tensors.indexed_slices import IndexedSlices
from tapec.variable import Variable

K = TypeVar("K")
V = TypeVar("V")


class Undo:
    """A context: if it is left by an error, Variables that were kept have the values back that they had then.

    A value that is replaced is only held on to, so this costs no time; until the context is left, memory has to have
    room for both. While a function is traced no value is kept: a compiled step changes Variables when it has all it
    needs.
    """

    def __init__(self) -> None:
        """Nothing was changed yet."""
        self._replaced: set[Reference] = set()
        self._steps: list[Callable[[], object]] = []

    def keep(self, variable: Variable) -> None:
        """Hold on to a value that is going to be replaced."""
        if current_trace() is not None or variable.ref() in self._replaced:
            return
        self._replaced.add(variable.ref())
        self._steps.append(partial(variable.adopt, variable.array))

    def keep_slices(self, variable: Variable, slices: IndexedSlices) -> None:
        """Copy parts that are going to be written to.

        The whole is not held: then it could not be written to in place.

        Raises:
            ResourceExhaustedError: there is no memory for the copy.
        """
        if current_trace() is not None or variable.ref() in self._replaced:
            return
        indices = slices.indices.array
        with AtLine(f"no memory for a copy of parts of {variable.name}"):
            parts = at_home(variable.array)[indices]

        def put(own: Array) -> None:
            own[indices] = parts

        self._steps.append(partial(variable.write, put))

    def enters(self, table: dict[K, V], key: K, value: V) -> V:
        """Enter in a table what is not there yet; while a function is traced, too."""
        table[key] = value
        self._steps.append(partial(table.pop, key, None))
        return value

    def __enter__(self) -> Undo:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """The latest change is taken back first; each is forgotten as it is, so that nobody else holds an array."""
        while kind is not None and self._steps:
            self._steps.pop()()
        self._steps.clear()
