"""Silent pitfalls of code that uses a tape: each with the line, what happens there, and what to write instead.

Most are seen in the source of a function and of what it defines inside; which object a name stands for is looked up
where the function would find it. That a loss is a vector is seen in the traced program.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tapec.ir.core import Module, Value
from tapec.ir.location import Location
from tapec.ir.ops.control import Gradient, Read
from tapec.tape import GradientTape


class Rule(StrEnum):
    """A pitfall; each equals its text, and says what to do about it."""

    VECTOR_LOSS = "vector loss"
    REUSED_TAPE = "one tape, many steps"
    NEEDLESS_PERSISTENT = "needless persistent=True"
    GRADIENT_INSIDE = "gradient inside a persistent block"
    NO_TRAINING = "training is not said"
    NO_FROM_LOGITS = "from_logits is not said"
    HOST_READ = "host read"

    @property
    def remedy(self) -> str:
        """What to write instead."""
        return _REMEDIES[self]


_REMEDIES = {
    Rule.VECTOR_LOSS: "take reduce_mean or reduce_sum of the loss, whichever is meant, or pass output_gradients",
    Rule.REUSED_TAPE: "make the tape where the step begins: with tapec.GradientTape() as tape",
    Rule.NEEDLESS_PERSISTENT: "leave persistent=True out: the tape then frees what it kept as soon as it was asked",
    Rule.GRADIENT_INSIDE: "ask after the block; for a gradient of the gradient, take the first by a tape inside it",
    Rule.NO_TRAINING: "pass training=True in a train step, training=False elsewhere",
    Rule.NO_FROM_LOGITS: "pass from_logits=True if the model ends without softmax or sigmoid, else from_logits=False",
    Rule.HOST_READ: "return the tensor, and read it after the call",
}

#: Methods of a tape that use it up.
_ASKS = {"gradient", "jacobian", "batch_jacobian"}
#: Methods of a tensor, and functions, that take its elements to Python.
_READS = {"numpy", "item", "tolist"}
_CONVERSIONS = {"float", "int", "bool"}


@dataclass(frozen=True)
class Pitfall:
    """One place at which code does what its author hardly means.

    Attributes:
        rule: which pitfall.
        location: the user's line.
        message: what happens there.
    """

    rule: Rule
    location: Location
    message: str

    def __str__(self) -> str:
        """The message, the line, the remedy."""
        return f"{self.rule}: {self.message}\n  {self.location.describe()}\n  remedy: {self.rule.remedy}"


def pitfalls(function: Any, module: Module | None = None) -> list[Pitfall]:
    """What is found in a function, by line.

    Args:
        function: a Python function whose source can be read.
        module: its program, if there is one.
    """
    found = list(_Source(function).found())
    if module is not None:
        found += _vector_losses(module)
    return sorted(set(found), key=lambda p: (p.location.file, p.location.line, p.rule))


def _vector_losses(module: Module) -> Iterator[Pitfall]:
    """Gradients of targets that are no scalars, whose elements are added without a word."""
    for op in module.walk():
        if not isinstance(op.defn, Gradient) or op.location is None:
            continue
        targets, seeds, sources, _ = op.attrs["segments"]
        asked = op.operands[targets + seeds :][:sources]
        for target in op.operands[:targets] if not seeds else ():
            if target.tensor.rank and not all(_is_of_examples(s, target) for s in asked):
                yield Pitfall(
                    Rule.VECTOR_LOSS,
                    op.location,
                    f"the target of the gradient is {target.type}: its elements are summed",
                )


def _is_of_examples(source: Value, target: Value) -> bool:
    """Whether a source has a row for each of a target's, as x has in du/dx at many points: the sum is then meant.

    The rows of a Variable are no examples, however many there are.
    """
    if source.op is not None and isinstance(source.op.defn, Read):
        return False
    return source.tensor.rank > 0 and source.tensor.shape[0] == target.tensor.shape[0]


class _Source:
    """The source of one function, and what its names stand for."""

    def __init__(self, function: Any) -> None:
        lines, first = inspect.getsourcelines(function)
        self._tree = ast.parse(textwrap.dedent("".join(lines)))
        ast.increment_lineno(self._tree, first - 1)
        self._file = inspect.getsourcefile(function) or function.__code__.co_filename
        closure = inspect.getclosurevars(function)
        self._names: Mapping[str, Any] = {
            **vars(builtins),
            **function.__globals__,
            **closure.nonlocals,
        }

    def found(self) -> Iterator[Pitfall]:
        """All that the source shows."""
        tapes = dict(self._tapes())
        yield from self._needless(tapes)
        yield from self._blocks(tapes)
        yield from self._reads(tapes)

    def _place(self, node: ast.AST) -> Location:
        return Location(self._file, getattr(node, "lineno", 1))

    def _object(self, node: ast.expr) -> Any:
        """What an expression of names and attributes stands for, as the function would find it; None if unknown."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._object(node.value)
            return (
                None
                if owner is None
                else inspect.getattr_static(owner, node.attr, None)
                or (getattr(owner, node.attr, None) if inspect.ismodule(owner) else None)
            )
        return None

    def _makes_tape(self, node: ast.AST | None) -> bool:
        return isinstance(node, ast.Call) and self._object(node.func) is GradientTape

    def _tapes(self) -> Iterator[tuple[str, ast.Call]]:
        """The names of tapes with the calls that make them."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.withitem):
                target, made = node.optional_vars, node.context_expr
            elif isinstance(node, ast.Assign):
                target, made = node.targets[0], node.value
            else:
                continue
            if (
                isinstance(target, ast.Name)
                and isinstance(made, ast.Call)
                and self._makes_tape(made)
            ):
                yield target.id, made

    def _needless(self, tapes: Mapping[str, ast.Call]) -> Iterator[Pitfall]:
        """Persistent tapes that are asked once, and tapes that several turns of a loop enter."""
        loops = [n for n in ast.walk(self._tree) if isinstance(n, ast.For | ast.While)]
        inside = {id(n) for loop in loops for part in loop.body for n in ast.walk(part)}
        for name, made in tapes.items():
            asks = list(_asks(self._tree, name))
            turns = any(id(ask) in inside for ask in asks) and id(made) not in inside
            if _is_persistent(made) and len(asks) <= 1 and not turns:
                how = "once" if asks else "never"
                yield Pitfall(
                    Rule.NEEDLESS_PERSISTENT,
                    self._place(made),
                    f"{name} is persistent, and asked {how}",
                )
            for node in ast.walk(self._tree):
                if (
                    isinstance(node, ast.With)
                    and id(node) in inside
                    and id(made) not in inside
                    and any(
                        isinstance(i.context_expr, ast.Name) and i.context_expr.id == name
                        for i in node.items
                    )
                ):
                    yield Pitfall(
                        Rule.REUSED_TAPE,
                        self._place(node),
                        f"{name} is made before the loop and entered at each turn: it keeps all that it recorded",
                    )

    def _blocks(self, tapes: Mapping[str, ast.Call]) -> Iterator[Pitfall]:
        """What the blocks of tapes do: gradients of their own, calls that do not say what they are for."""
        for block in ast.walk(self._tree):
            if not isinstance(block, ast.With):
                continue
            own = [i.optional_vars.id for i in block.items if isinstance(i.optional_vars, ast.Name)]
            for name in own:
                if name in tapes and _is_persistent(tapes[name]):
                    for ask in (a for part in block.body for a in _asks(part, name)):
                        yield Pitfall(
                            Rule.GRADIENT_INSIDE,
                            self._place(ask),
                            f"{name} records how its own gradient is computed",
                        )
            if any(self._makes_tape(i.context_expr) for i in block.items):
                for part in block.body:
                    yield from self._unsaid(part)

    def _unsaid(self, part: ast.stmt) -> Iterator[Pitfall]:
        """Calls that leave out ``training`` or ``from_logits``, where what is called has such a parameter."""
        for node in ast.walk(part):
            if not isinstance(node, ast.Call):
                continue
            called = self._object(node.func)
            said = {keyword.arg for keyword in node.keywords}
            for name, rule in (
                ("training", Rule.NO_TRAINING),
                ("from_logits", Rule.NO_FROM_LOGITS),
            ):
                at = _position(called, name)
                if at is not None and name not in said | {None} and len(node.args) <= at:
                    what = ast.unparse(node.func)
                    yield Pitfall(rule, self._place(node), f"{what} is called without {name}=")

    def _reads(self, tapes: Mapping[str, ast.Call]) -> Iterator[Pitfall]:
        """Elements that are taken to Python."""
        for node in ast.walk(self._tree):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Attribute) and node.func.attr in _READS and not node.args:
                yield Pitfall(
                    Rule.HOST_READ,
                    self._place(node),
                    f"{ast.unparse(node)} waits for the value and takes it out of the program",
                )
            elif (
                isinstance(node.func, ast.Name)
                and node.func.id in _CONVERSIONS
                and len(node.args) == 1
                and isinstance(node.args[0], ast.Name)
                and node.args[0].id in _targets(self._tree, tapes)
            ):
                yield Pitfall(
                    Rule.HOST_READ,
                    self._place(node),
                    f"{ast.unparse(node)} makes a Python number of what a tape is asked about",
                )


def _asks(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    """Calls of a tape's ``gradient`` and its kin."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in _ASKS
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == name
        ):
            yield node


def _targets(tree: ast.AST, tapes: Mapping[str, ast.Call]) -> set[str]:
    """The names of what tapes are asked about: losses."""
    asked = (ask for name in tapes for ask in _asks(tree, name))
    return {ask.args[0].id for ask in asked if ask.args and isinstance(ask.args[0], ast.Name)}


def _is_persistent(made: ast.Call) -> bool:
    said = {k.arg: k.value for k in made.keywords}
    value = said.get("persistent", made.args[0] if made.args else None)
    return isinstance(value, ast.Constant) and value.value is True


def _position(called: Any, name: str) -> int | None:
    """Where a parameter of a callable stands; None if it has none of that name."""
    if called is None or inspect.isbuiltin(called):
        return None
    try:
        parameters = list(inspect.signature(called).parameters)
    except (TypeError, ValueError):
        return None
    return parameters.index(name) if name in parameters else None
