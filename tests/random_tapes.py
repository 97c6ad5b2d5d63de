"""Random Python code under tapes: shared subexpressions, Variables assigned between reads, tapes in tapes.

A program is data (`Step`), so that one interpreter runs it in every way: eagerly, compiled, as a compiled function
under an eager tape, and with its inputs moved a little, which gives differences to compare a gradient with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tapec

#: Inputs and Variables are vectors of this size, and so are all values.
SIZE = 3

#: Functions of one and of two operands: smooth, and of values that stay small.
UNARY: dict[str, Callable[[Any], Any]] = {
    "sin": tapec.sin,
    "tanh": tapec.tanh,
    "halve": lambda x: x * 0.5,
    "bell": lambda x: tapec.exp(-tapec.square(x)),
    "turn": lambda x: tapec.reverse(x, [0]),
    "mix": lambda x: x + 0.1 * tapec.reduce_sum(x),
    "root": lambda x: tapec.sqrt(1.0 + x * x),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: tapec.sin(x * y),
    "div": lambda x, y: x / (1.5 + tapec.cos(y)),
    "outer": lambda x, y: tapec.linalg.matvec(tapec.expand_dims(x, 1) * 0.3, y[:1]),
}


@dataclass(frozen=True)
class Step:
    """One line of a program; operands are numbers of earlier values, taken modulo how many there are.

    ``kind`` is an operation's name, ``stop`` for what no gradient passes, ``read``, ``assign`` or ``assign_add`` of a
    Variable; ``loop`` for two rounds of ``body``, ``branch`` for ``body`` or another line, by the sign of the operand;
    ``call`` for a function of ``body``, which may be compiled; ``tape`` for a tape around ``body``, whose gradients by
    the operand and by the Variable are values too.
    """

    kind: str
    x: int = 0
    y: int = 0
    variable: int = 0
    body: tuple[Step, ...] = ()
    persistent: bool = False


def count(steps: Sequence[Step]) -> int:
    """How many lines a program has."""
    return sum(1 + count(step.body) for step in steps)


def has_branches(steps: Sequence[Step]) -> bool:
    """Whether there is a ``branch`` anywhere."""
    return any(step.kind == "branch" or has_branches(step.body) for step in steps)


def lines(depth: int) -> st.SearchStrategy[Step]:
    """One line, with up to so many tapes in it."""
    number = st.integers(0, 59)
    kinds = [*UNARY, *BINARY, *BINARY, "read", "read", "assign", "assign_add", "stop"]
    plain = st.builds(Step, st.sampled_from(kinds), number, number, st.integers(0, 1))
    if not depth:
        return plain
    pure = st.sampled_from([*UNARY, *BINARY, "read"])
    rounds = st.lists(
        st.builds(Step, pure, number, number, st.integers(0, 1)), min_size=1, max_size=3
    )
    control = st.builds(
        Step, st.sampled_from(["loop", "branch"]), number, number, body=rounds.map(tuple)
    )
    body = st.lists(lines(depth - 1), min_size=2, max_size=8).map(tuple)
    kind = st.sampled_from(["tape", "tape", "call"])
    nested = st.builds(Step, kind, number, number, st.integers(0, 1), body, st.booleans())
    return st.one_of(plain, plain, plain, nested, control)


def programs(depth: int = 2, least: int = 5, most: int = 60) -> st.SearchStrategy[tuple[Step, ...]]:
    """Programs of ``least`` to ``most`` lines."""
    listed = st.lists(lines(depth), min_size=least, max_size=most // 2).map(tuple)
    return listed.filter(lambda steps: count(steps) <= most)


@dataclass
class Run:
    """One way to run a program.

    Attributes:
        variables: what it reads and assigns.
        compiles: whether the functions that it calls are compiled.
        moved: what is added to each read of a Variable.
        kept: the values that assignments and stops give instead of their own, for none of their derivatives counts.
        log: where these values are noted, in eager code.
    """

    variables: Sequence[tapec.Variable]
    compiles: bool = False
    moved: Sequence[Any] | None = None
    kept: Iterator[Any] | None = None
    log: list[Any] | None = None

    def read(self, number: int) -> Any:
        """The value of a Variable."""
        variable = self.variables[number]
        return variable * 1.0 if self.moved is None else variable + self.moved[number]

    def steps(self, steps: Sequence[Step], values: list[Any]) -> None:
        """Run lines, which append to the values."""
        for step in steps:
            x, y = values[step.x % len(values)], values[step.y % len(values)]
            if step.kind in UNARY:
                values.append(UNARY[step.kind](x))
            elif step.kind in BINARY:
                values.append(BINARY[step.kind](x, y))
            elif step.kind == "read":
                values.append(self.read(step.variable) * x)
            elif step.kind == "stop":
                values.append(self.constant(tapec.stop_gradient(x)))
            elif step.kind == "tape":
                self.tape(step, x, values)
            elif step.kind == "call":
                self.call(step, values)
            elif step.kind == "loop":
                values.append(self.loop(step, x, values))
            elif step.kind == "branch":
                values.append(self.branch(step, x, values))
            else:
                self.assign(step, x)

    def constant(self, value: Any) -> Any:
        """A value, or the one that stands for it where inputs were moved."""
        if self.kept is not None:
            return next(self.kept)
        if self.log is not None:
            self.log.append(tapec.constant(value.numpy()))
        return value

    def assign(self, step: Step, x: Any) -> None:
        """Change a Variable."""
        variable = self.variables[step.variable]
        if step.kind == "assign":
            variable.assign(self.constant(tapec.tanh(x)))
        else:
            variable.assign_add(self.constant(tapec.tanh(x) * 0.1))

    def tape(self, step: Step, x: Any, values: list[Any]) -> None:
        """A tape around lines, and its gradients."""
        with tapec.GradientTape(persistent=step.persistent) as tape:
            tape.watch(x)
            inner = list(values)
            self.steps(step.body, inner)
        sources = [x, self.variables[step.variable]]
        # Zeros: a branch that was not taken connects values in a compiled function, as it does in TensorFlow's.
        found = tape.gradient(inner[-1], sources, unconnected_gradients="zero")
        if step.persistent:
            found += tape.gradient(inner[-2], sources, unconnected_gradients="zero")
        values.append(inner[-1])
        values += [tapec.tanh(g) for g in found]

    def call(self, step: Step, values: list[Any]) -> None:
        """A function of all values so far."""

        def function(*given: Any) -> Any:
            inner = list(given)
            self.steps(step.body, inner)
            return inner[-1], inner[-2]

        called = tapec.compile(function) if self.compiles else function
        values += called(*values)

    def loop(self, step: Step, x: Any, values: list[Any]) -> Any:
        """The body twice, each time with the value that it gave before."""

        def body(i: Any, z: Any) -> Any:
            inner = [*values, z]
            self.steps(step.body, inner)
            return i + 1, tapec.tanh(inner[-1] + z)

        return tapec.while_loop(lambda i, z: i < 2, body, [tapec.constant(0), x])[1]

    def branch(self, step: Step, x: Any, values: list[Any]) -> Any:
        """The body, or one line."""

        def chosen() -> Any:
            inner = list(values)
            self.steps(step.body, inner)
            return inner[-1]

        return tapec.cond(tapec.reduce_sum(x) > 0.0, chosen, lambda: tapec.sin(x))

    def loss(self, steps: Sequence[Step], x: Any) -> Any:
        """What the program computes: a scalar."""
        values = [x, tapec.cos(x)]
        self.steps(steps, values)
        return tapec.reduce_sum(values[-1] * values[len(values) // 2])


def start() -> list[tapec.Variable]:
    """The Variables, as each run finds them."""
    return [tapec.Variable(np.array(v)) for v in ([0.3, -0.7, 0.5], [1.1, 0.4, -0.2])]


X = np.array([0.6, -0.4, 0.9])


@dataclass
class Outcome:
    """The loss's gradients by input and Variables, the Variables' last values, and what was logged."""

    gradients: list[Any]
    variables: list[Any]
    log: list[Any]


def gradients(steps: Sequence[Step], compiled: str = "nothing") -> Outcome:
    """Run a program under a tape.

    ``compiled`` is ``nothing``, the ``calls`` in it, the ``function`` whose gradient it is, or the whole ``step``.
    """
    run = Run(start(), compiles=compiled == "calls", log=[] if compiled == "nothing" else None)

    def function(x: Any) -> Any:
        return run.loss(steps, x)

    inner = tapec.compile(function) if compiled == "function" else function

    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            loss = inner(x)
        return tape.gradient(loss, [x, *run.variables])

    found = (tapec.compile(step) if compiled == "step" else step)(tapec.constant(X))
    arrays = [None if g is None else g.numpy() for g in found]
    return Outcome(arrays, [v.numpy() for v in run.variables], run.log or [])


def slope(steps: Sequence[Step], log: Sequence[Any], direction: Sequence[Any]) -> float:
    """The derivative of the loss in a direction (of the input, then of the Variables), by differences."""

    def at(h: float) -> float:
        moved = [tapec.constant(h * d) for d in direction[1:]]
        run = Run(start(), moved=moved, kept=iter(log))
        return float(run.loss(steps, tapec.constant(X + h * direction[0])))

    h = 1e-3  # the five-point rule: an error of h ** 4
    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
