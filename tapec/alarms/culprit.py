"""Who made the first number that is NaN or infinite: the operation, its line, what it was given.

An operation is blamed if a result is bad and no operand was; of an elementwise one, which can tell, an element of the
result and those of the operands at its place. What is composed of several (a function at one line,
the derivative of one operation) counts as one: what is bad inside and does not come out of it, since a `where` does not
choose it, is blamed on nobody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tapec.errors import InvalidArgumentError
from tapec.ir.core import Function, Module, Operation, Value
from tapec.ir.errors import CheckError
from tapec.ir.evaluator import evaluate_function
from tapec.ir.location import Location
from tapec.ir.op import Elementwise, Op
from tapec.ir.ops.host import Notify
from tapec.ir.ops.movement import Movement
from tapec.ir.types import TensorType, as_dtype
from tapec.passes.adjoint import expand
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.recording import accusation_listeners
from tapec.tensor import Array
from tapec.traces.effects import raised

_INLINE = parse_pipeline("inline")


def is_bad(array: Any) -> bool:
    """Whether an array has an element that is NaN or infinite."""
    if type(array) is not np.ndarray:
        array = np.asarray(array)
    if array.dtype.char in "fd":
        # One pass and no array of answers; where squares overflow, a second look is needed.
        if math.isfinite(array.item() if array.size == 1 else np.vdot(array, array)):
            return False
    return not (array.dtype.kind in "biu" or np.isfinite(array).all())


def made_bad(
    defn: Op, operands: Sequence[Array], attrs: Mapping[str, Any], results: Sequence[Array]
) -> int:
    """Which result is bad although nothing that the operation was given is; -1 if none."""
    for index, result in enumerate(results):
        if is_bad(result):
            given = [*operands, *attrs.values()]
            if not any(map(_holds_bad, given)):
                return index if given else -1
            return index if isinstance(defn, Elementwise) and _is_new(operands, result) else -1
    return -1


def _is_new(operands: Sequence[Array], result: Array) -> bool:
    """Whether an element is bad although those of the operands at its place are not: a NaN elsewhere hides nothing."""
    good = np.ones(result.shape, bool)
    for operand in operands:
        if operand.dtype.kind not in "biu":
            good &= np.isfinite(operand)
    return bool((good & ~np.isfinite(result)).any())


class Watch:
    """An observer of the evaluator, which notes whether an operation made what is bad: an alarm, no verdict."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self.alarmed = False

    def __call__(self, op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
        """Look at one operation that ran; what happens in its regions is looked at by itself."""
        if not (self.alarmed or op.regions or isinstance(op.defn, Movement)):
            self.alarmed = made_bad(op.defn, operands, op.parameters, results) >= 0


def _holds_bad(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_holds_bad, value))
    return isinstance(value, float | complex | np.ndarray | np.generic) and is_bad(value)


def accusation(
    what: str,
    index: int,
    operands: Sequence[Array],
    results: Sequence[Array],
    location: Location | None,
    history: str = "",
    remedy: str = "",
) -> InvalidArgumentError:
    """The error about a bad result; ``what`` is the operation, ``history`` where it comes from."""
    result = np.asarray(results[index])
    kinds = {
        "-Inf": np.isneginf(result) if result.dtype.kind != "c" else np.isinf(result),
        "+Inf": np.isposinf(result) if result.dtype.kind != "c" else np.zeros(result.shape, bool),
        "NaN": np.isnan(result),
    }
    lines = [
        f"Detected Infinity or NaN in output {index} of {what} (# of outputs: {len(results)}){history}",
        f"  dtype: {as_dtype(result.dtype).name}",
        f"  shape: {result.shape}",
        *(f"  # of {kind} elements: {int(bad.sum())}" for kind, bad in kinds.items() if bad.any()),
        f"  the first at: {_first(operands, result)}",
        *(f"  operand {n}: {_range(np.asarray(array))}" for n, array in enumerate(operands)),
    ]
    if not remedy and not kinds["NaN"].any():
        dtype = as_dtype(result.dtype).name
        remedy = f"the numbers grow out of {dtype}: scale them down, or take a wider dtype"
    return InvalidArgumentError("\n".join(lines), location=location, hint=remedy or None)


def told(error: InvalidArgumentError) -> InvalidArgumentError:
    """An accusation that is to be raised, of which those that wait for one are told: the user may catch it."""
    for listener in accusation_listeners:
        listener(error)
    return error


def _first(operands: Sequence[Array], result: Array) -> list[int]:
    """Where the first bad element is; better one where no operand of that shape was bad before."""
    bad = ~np.isfinite(result)
    for operand in operands:
        if operand.shape == result.shape and operand.dtype.kind not in "biu":
            new = bad & np.isfinite(operand)
            bad = new if new.any() else bad
    return [int(i) for i in np.argwhere(bad)[0]]


def _range(array: Array) -> str:
    """Type and range of an operand."""
    text = str(TensorType(as_dtype(array.dtype), array.shape))
    if not array.size:
        return text
    if array.size == 1:
        return f"{text}, {array.reshape(())[()]}"
    if array.dtype.kind == "c":
        array = np.abs(array)
        return f"{text}, magnitudes from {array.min()} to {array.max()}"
    if array.dtype.kind == "f" and np.isnan(array).any():
        return (
            f"{text}, from {np.fmin.reduce(array, None)} to {np.fmax.reduce(array, None)}, and NaN"
        )
    return f"{text}, from {array.min()} to {array.max()}"


def titled(name: str, kind: str, location: Location | None) -> str:
    """An operation as a message names it, with the public function that it is part of."""
    composite = None if location is None else location.composite
    if composite is None or composite == name or composite.startswith("__"):
        return f'{kind} "{name}"'
    return f'{kind} "{name}" in {composite}'


class Finder:
    """An observer of the evaluator, which raises once it knows who is to blame.

    Raises:
        InvalidArgumentError: an operation made what is NaN or infinite, and it came out of where it was made.
    """

    def __init__(self, origins: Mapping[Operation, Operation], kind: str) -> None:
        """``origins`` says of which operation one is the derivative; ``kind`` what operations are called."""
        self.origins = origins
        self.kind = kind
        #: Accusations to come, by the group of operations that count as one; and the bad values from there.
        self.pending: dict[Hashable, InvalidArgumentError] = {}
        self.bad: dict[Value, Hashable] = {}
        #: What the program told the host so far.
        self.told: list[tuple[Operation, Sequence[Array]]] = []
        self._group: Hashable = None
        self._place: Location | None = None

    def __call__(self, op: Operation, operands: Sequence[Array], results: Sequence[Array]) -> None:
        """Look at one operation that ran."""
        if isinstance(op.defn, Notify):
            self.told.append((op, operands))
        group = self._group_of(op)
        self._use(op.operands, group)
        inside = [self.bad[v] for v in op.operands if v in self.bad]
        if op.regions:
            # What happened inside was looked at by itself.
            if self.pending and any(map(is_bad, results)):
                raise told(next(iter(self.pending.values())))
            return
        index = made_bad(op.defn, operands, op.parameters, results)
        if index >= 0 and group not in self.pending:
            self.pending[group] = self._accuse(op, index, operands, results)
        if index >= 0 or inside:
            self.bad.update(
                (v, group) for v, r in zip(op.results, results, strict=True) if is_bad(r)
            )

    def returned(self, values: Iterable[Value]) -> None:
        """Look at what the program returned."""
        self._use(values, None)

    def _use(self, values: Iterable[Value], group: Hashable) -> None:
        for value in values:
            made_in = self.bad.get(value, group)
            if made_in != group and made_in in self.pending:
                raise told(self.pending[made_in])

    def _group_of(self, op: Operation) -> Hashable:
        """What an operation is part of: the derivative of one other, or a public function at one line."""
        primal = self.origins.get(op)
        if primal is not None:
            self._place = None
            return primal
        if op.location is None or op.location != self._place:
            self._place, self._group = op.location, op
        return self._group

    def _accuse(
        self, op: Operation, index: int, operands: Sequence[Array], results: Sequence[Array]
    ) -> InvalidArgumentError:
        history, primal = "", self.origins.get(op)
        remedy = op.defn.remedy if primal is None else primal.defn.remedy
        while primal is not None:
            place = "" if primal.location is None else f", made at {primal.location.describe()}"
            history += (
                f"\n  in the gradient of {titled(primal.name, '', primal.location).strip()}{place}"
            )
            primal = self.origins.get(primal)
        what = titled(op.name, self.kind, None if history else op.location)
        return accusation(what, index, operands, results, op.location, history, remedy)


def search(
    function: Function,
    arrays: Sequence[Array],
    origins: Mapping[Operation, Operation],
    kind: str,
    tell: Callable[[Operation, Sequence[Array]], None] | None = None,
) -> None:
    """Run a function whose gradients are expanded; raise if an operation in it made what is NaN or infinite.

    ``tell`` gets what the program tells the host before that.

    Raises:
        InvalidArgumentError: it did; or a check of the program failed before.
    """
    finder = Finder(origins, kind)
    try:
        evaluate_function(function, arrays, observer=finder)
        finder.returned(function.returns)
    except (CheckError, InvalidArgumentError) as error:
        if tell is not None:
            for op, values in finder.told:
                tell(op, values)
        if isinstance(error, InvalidArgumentError):
            raise error.with_traceback(None) from None
        raise next(iter(finder.pending.values()), raised(error)) from None


def search_module(
    module: Module, arrays: Sequence[Array], tell: Callable[[Operation, Sequence[Array]], None]
) -> None:
    """As `search`, for a program as it was traced; the module is changed."""
    run_pipeline(module, _INLINE)
    name = module.entry.name
    search(
        module.entry, arrays, expand(module.entry), f"operation of compiled function {name}:", tell
    )
