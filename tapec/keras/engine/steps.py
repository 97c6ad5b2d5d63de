"""Steps of training, evaluation and prediction as compiled functions of the batches that data come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from keras.src import tree

import tapec
from tapec.keras.engine.control import scan
from tapec.keras.engine.conversion import convert_to_tensor
from tapec.structure import flatten, unflatten
from tapec.tensor import EagerTensor, Tensor, type_of

Step = Callable[[Any], Any]
#: Makes one result of those of several steps.
Join = Callable[[Tensor, Tensor], Tensor]


class Form(NamedTuple):
    """What a batch is beside its tensors: how they are nested, and where there is none."""

    spec: Any
    present: tuple[bool, ...]

    def batch(self, tensors: Sequence[Tensor]) -> Any:
        """The batch again, around tensors."""
        rest = iter(tensors)
        return unflatten(self.spec, [next(rest) if p else None for p in self.present])


def taken_apart(batch: Any) -> tuple[list[Tensor], Form]:
    """The tensors of a batch, and its form."""
    leaves, spec = flatten(batch)
    present = tuple([leaf is not None for leaf in leaves])
    return [_tensor(leaf) for leaf in leaves if leaf is not None], Form(spec, present)


def _tensor(leaf: Any) -> Tensor:
    """A leaf as it goes into a program, in 32 bits where there is a choice; an array is not copied."""
    if type(leaf) is np.ndarray and leaf.dtype.kind in "fiub" and leaf.dtype != np.float64:
        return EagerTensor(leaf, type_of(leaf))
    return convert_to_tensor(leaf)


class CompiledSteps:
    """A function of a list of batches that runs a step for each, all of them in one native call.

    There is a program for each form of a batch. It takes the tensors alone, which is the shortest way into a compiled
    function. Several batches of one shape are stacked, and the program has a loop over them.
    """

    def __init__(self, step: Step, join: Join | None = None) -> None:
        """Nothing is traced before the first call.

        Args:
            step: a function of one batch.
            join: for the results of all steps; the last step's alone is given if None.
        """
        self._step, self._join = step, join
        self._programs: dict[tuple[Form, bool], Callable[..., Any]] = {}

    def __call__(self, batches: Sequence[Any]) -> Any:
        """The result of the last step, or of all of them joined."""
        if len(batches) == 1:
            tensors, form = taken_apart(batches[0])
            return self._program(form, False)(*tensors)
        parts = [taken_apart(batch) for batch in batches]
        form = parts[0][1]
        types = [[x.type for x in tensors] for tensors, _ in parts]
        if any(t != types[0] or f != form for t, (_, f) in zip(types, parts, strict=True)):
            return self._in_turn(batches)
        columns = zip(*(tensors for tensors, _ in parts), strict=True)
        return self._program(form, True)(*[_stacked(column) for column in columns])

    def _in_turn(self, batches: Sequence[Any]) -> Any:
        """The last batch, which is smaller, has a call of its own."""
        found = self(batches[:-1])
        last = self(batches[-1:])
        return last if self._join is None else tree.map_structure(self._join, found, last)

    def _program(self, form: Form, several: bool) -> Callable[..., Any]:
        found = self._programs.get((form, several))
        if found is None:
            body = self._all if several else self._one

            def run(*tensors: Tensor) -> Any:
                return body(form, tensors)

            name = getattr(self._step, "__name__", "step")
            found = self._programs[form, several] = tapec.compile(run, autograph=False, name=name)
        return found

    def _one(self, form: Form, tensors: Sequence[Tensor]) -> Any:
        return self._step(form.batch(tensors))

    def _all(self, form: Form, columns: Sequence[Tensor]) -> Any:
        def step(_: Any, row: Any) -> tuple[Any, Any]:
            return (), self._step(form.batch(row))

        _, rows = scan(step, (), list(columns))
        if self._join is None:
            return tree.map_structure(lambda x: x[-1], rows)
        return tree.map_structure(_merged, rows)


def _stacked(column: Sequence[Tensor]) -> Tensor:
    array = np.stack([x.array for x in column])
    return EagerTensor(array, type_of(array))


def _merged(x: Tensor) -> Tensor:
    """The batches of all steps as one."""
    return tapec.reshape(x, [-1, *x.shape[2:]])


def plainly(step: Step, join: Join | None = None) -> Callable[[Sequence[Any]], Any]:
    """The same without any program, as ``run_eagerly`` asks for it."""

    def run(batches: Sequence[Any]) -> Any:
        found = None
        for batch in batches:
            tensors, form = taken_apart(batch)
            result = step(form.batch(tensors))
            found = (
                result if found is None or join is None else tree.map_structure(join, found, result)
            )
        return found

    return run
