"""What a call computes in Python before its program runs: the numbers that are inputs, and their conditions.

A `Recorder` takes down, while a function is traced, the arithmetic of its `HostNumber`s and what Python saw of them.
The `Recipe` that comes of it repeats that with other numbers, in Python, so with Python's own results to the last bit.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapec.compiled.retraces import Cause, Change
from tapec.frames import Origin, origin, resolve
from tapec.ir.location import Location
from tapec.traces.scalars import KINDS, OPERANDS, HostNumber, identical


class Leaf(NamedTuple):
    """A number that others are made of.

    Attributes:
        path: where it comes from: an argument's path, or that of Python state.
        value: what it was when the function was traced.
        read: gives its value now; None for an argument.
        cause: of which kind a change is.
    """

    path: str
    value: Any
    read: Callable[[], Any] | None = None
    cause: Cause = Cause.NUMBER


class Condition(NamedTuple):
    """What must hold for the program to be used.

    Attributes:
        leaves: the numbers that it depends on.
        exact: whether Python saw the value itself, not only what a comparison said.
        where: the user's code that looked.
    """

    leaves: tuple[int, ...]
    exact: bool
    where: Origin | None

    @property
    def location(self) -> Location | None:
        """The user's line that looked."""
        return resolve(self.where)


class Recorder:
    """The numbers of one trace: what they are made of and what Python saw of them."""

    def __init__(self) -> None:
        """No numbers yet."""
        self.leaves: list[Leaf] = []
        self.conditions: list[Condition] = []
        self._lines: list[str] = []
        self._names: dict[str, Any] = {}
        #: The leaves behind each step.
        self._behind: list[tuple[int, ...]] = []
        self._leaf_steps: list[int] = []
        self._known: dict[Any, HostNumber] = {}
        self._seen: set[str] = set()
        self._closed = False

    # -- numbers

    def argument(self, value: Any, path: str, varies: bool) -> Any:
        """A number that each call passes; all arguments come before other numbers.

        Returns:
            An input of the program, if it ``varies``; else the value, which is a condition.
        """
        number = self._leaf(Leaf(path, value))
        if varies:
            return number
        self._observed(f"v{number.step}", [number], value, exact=True)
        self.conditions[-1] = self.conditions[-1]._replace(where=None)
        return value

    def source(
        self, key: Any, value: Any, path: str, read: Callable[[], Any], cause: Cause
    ) -> HostNumber:
        """A number that is read anew before each call.

        Args:
            key: equal for the same place.
            value: what it is now.
            path: what the user calls it.
            read: gives its value.
            cause: of which kind a change is.
        """
        found = self._known.get(key)
        if found is not None and identical(found.value, value) is True:
            return found
        number = self._leaf(Leaf(path, value, read, cause))
        name = f"v{number.step}"
        self._condition(f"type({name}) is not {self._constant(type(value))}", [number], True)
        self._known[key] = number
        return number

    def _leaf(self, leaf: Leaf) -> HostNumber:
        self.leaves.append(leaf)
        self._leaf_steps.append(len(self._behind))
        self._behind.append((len(self.leaves) - 1,))
        return HostNumber(leaf.value, len(self._behind) - 1, self)

    def combine(self, function: Callable[..., Any], *operands: Any) -> Any:
        """What a function of numbers gives: one of ours, or a plain value that is a condition from now on."""
        values = []
        for operand in operands:
            if type(operand) is not HostNumber and not isinstance(operand, OPERANDS):
                return NotImplemented
            values.append(operand.value if type(operand) is HostNumber else operand)
        result = function(*values)
        if self._closed:
            return result
        if type(result) not in KINDS:
            return self._observed(self._text(function, operands), operands, result)
        name = f"v{len(self._behind)}"
        self._lines.append(f"{name} = {self._text(function, operands)}")
        behind = {leaf for x in operands if self._owns(x) for leaf in self._behind[x.step]}
        self._behind.append(tuple(sorted(behind)))
        number = HostNumber(result, len(self._behind) - 1, self)
        self._condition(f"type({name}) is not {self._constant(type(result))}", [number], True)
        return number

    # -- conditions

    def observe(self, function: Callable[[Any], Any], number: HostNumber) -> Any:
        """What a function says of a number, which holds from now on."""
        result = function(number.value)
        if self._closed:
            return result
        return self._observed(self._text(function, [number]), [number], result)

    def require(self, number: HostNumber) -> None:
        """From now on a number is what it is."""
        if not self._closed:
            self._observed(f"v{number.step}", [number], number.value, exact=True)

    def _observed(
        self, text: str, operands: Sequence[Any], result: Any, exact: bool = False
    ) -> Any:
        if isinstance(result, bool):
            self._condition(f"({text}) is not {result}", operands, exact)
        elif isinstance(result, int) or (isinstance(result, float) and abs(result) > 0):
            self._condition(f"({text}) != {self._constant(result)}", operands, exact)
        else:  # zeros by sign, and NaN
            same = self._constant(identical)
            self._condition(f"not {same}({text}, {self._constant(result)})", operands, exact)
        return result

    def _condition(self, fails: str, operands: Sequence[Any], exact: bool) -> None:
        if fails in self._seen:
            return
        self._seen.add(fails)
        behind = {leaf for x in operands if self._owns(x) for leaf in self._behind[x.step]}
        self._lines.append(f"if {fails}: return {len(self.conditions)}")
        self.conditions.append(Condition(tuple(sorted(behind)), exact, origin()))

    def name(self, number: HostNumber) -> str | None:
        """The path of a number that others are made of, if a program can use it as a name."""
        behind = self._behind[number.step]
        is_leaf = len(behind) == 1 and self._leaf_steps[behind[0]] == number.step
        path = self.leaves[behind[0]].path if is_leaf else ""
        return path if path.isidentifier() else None

    # -- the recipe

    def owns(self, number: HostNumber) -> bool:
        """Whether a number is one of these, and the trace goes on."""
        return number.recorder is self and not self._closed

    def close(self, outputs: Sequence[int]) -> Recipe:
        """The trace is over: numbers that somebody kept are plain values from now on.

        Args:
            outputs: the steps that give inputs of the program.
        """
        self._closed = True
        arguments = [f"v{step}" for step in self._leaf_steps]
        array = self._constant(np.array)
        results = "".join(f"{array}(v{step}), " for step in outputs)
        lines = [
            f"def recipe({', '.join(arguments)}):",
            " try:",
            *(f"  {line}" for line in self._lines),
            f"  return ({results})",
            " except Exception: return -1",
        ]
        exec("\n".join(lines), self._names)
        return Recipe(self._names["recipe"], tuple(self.leaves), tuple(self.conditions))

    def _owns(self, operand: Any) -> bool:
        return type(operand) is HostNumber and operand.recorder is self

    def _text(self, function: Callable[..., Any], operands: Sequence[Any]) -> str:
        parts = [f"v{x.step}" if self._owns(x) else self._constant(_plain(x)) for x in operands]
        sign = _SIGNS.get(function)
        if sign is not None and len(parts) == 2:
            return f"{parts[0]} {sign} {parts[1]}"
        return f"{self._constant(function)}({', '.join(parts)})"

    def _constant(self, value: Any) -> str:
        name = f"k{len(self._names)}"
        self._names[name] = value
        return name


_SIGNS: dict[Any, str] = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.pow: "**",
    operator.eq: "==",
    operator.ne: "!=",
    operator.lt: "<",
    operator.le: "<=",
    operator.gt: ">",
    operator.ge: ">=",
}


def _plain(x: Any) -> Any:
    return x.value if type(x) is HostNumber else x


class Recipe:
    """What a call computes in Python before its program runs.

    Attributes:
        leaves: the numbers that it begins with: arguments, then what is read anew.
        conditions: what must hold.
    """

    def __init__(
        self,
        function: Callable[..., tuple[Any, ...] | int],
        leaves: Sequence[Leaf],
        conditions: Sequence[Condition],
    ) -> None:
        """Take what a `Recorder` took down.

        Args:
            function: takes the leaves; gives arrays for the program, or which condition fails, -1 where Python's
                arithmetic raised an error.
            leaves: see above.
            conditions: see above.
        """
        self.leaves = leaves
        self.conditions = conditions
        self._function = function
        self._reads = [leaf.read for leaf in leaves if leaf.read is not None]

    def run(self, numbers: Sequence[Any]) -> tuple[Any, ...] | int:
        """Arrays for the program, or the number of a condition that fails; see above."""
        if not self._reads:
            return self._function(*numbers)
        try:
            read = [read() for read in self._reads]
        except Exception:  # whatever the user's object raises: what was there is gone
            return -1
        return self._function(*numbers, *read)

    def first(self) -> tuple[Any, ...]:
        """Arrays for the call that was traced."""
        found = self._function(*[leaf.value for leaf in self.leaves])
        assert isinstance(found, tuple)
        return found

    def refusal(self, numbers: Sequence[Any]) -> list[Change]:
        """What is different where the program is not for these numbers: those that the failing condition is about."""
        failed = self.run(numbers)
        if isinstance(failed, tuple):
            return []
        given = iter(numbers)
        now = [next(given) if leaf.read is None else _read(leaf) for leaf in self.leaves]
        changed = [i for i, leaf in enumerate(self.leaves) if not identical(leaf.value, now[i])]
        condition = self.conditions[failed] if failed >= 0 else None
        about = changed if condition is None else [i for i in condition.leaves if i in changed]
        decided = condition is not None and not condition.exact
        where = None if condition is None else condition.location
        return [
            Change(
                leaf.path,
                Cause.BRANCH if decided else leaf.cause,
                repr(leaf.value),
                repr(now[i]),
                where,
            )
            for i in about
            for leaf in [self.leaves[i]]
        ]


def _read(leaf: Leaf) -> Any:
    assert leaf.read is not None
    try:
        return leaf.read()
    except Exception as error:  # as above
        return error
