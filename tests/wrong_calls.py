"""Right calls of public functions and methods, and how to make one of their arguments wrong."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bad_arguments import ARGUMENTS
from hypothesis import strategies as st

import tapec

sys.path.insert(0, str(Path(__file__).parent / "conformance" / "api"))
from cases import KINDS, OPERANDS  # type: ignore[import-not-found]


class Dense(tapec.Module):
    """A layer."""

    def __init__(self) -> None:
        """Two weights."""
        super().__init__(name="dense")
        self.weights = tapec.Variable(tapec.ones([3, 2]), name="weights")

    @tapec.Module.with_name_scope
    def __call__(self, x: Any) -> Any:
        return x @ self.weights


def _recorded() -> dict[str, Any]:
    """Two tapes and an accumulator that have recorded something, and what it was."""
    var, matrix = tapec.Variable([1.0, 2.0]), tapec.Variable([[1.0, 2.0]])
    with tapec.GradientTape(persistent=True) as tape, tapec.GradientTape(persistent=True) as rows:
        squared, product = var * var, matrix * 2.0
    with tapec.autodiff.ForwardAccumulator([var], [tapec.ones([2])]) as forward:
        image = var * var
    return {
        "tape": tape,
        "var": var,
        "squared": squared,
        "rows": rows,
        "matrix": matrix,
        "product": product,
        "forward": forward,
        "image": image,
    }


#: What the names in a call stand for, made anew for each call.
THINGS: dict[str, Callable[[], Any]] = {
    "n": lambda: tapec.constant([0.5, 1.5, 2.5]),
    "array": lambda: tapec.TensorArray(tapec.float32, 3, element_shape=[2]),
    "pieces": lambda: tapec.TensorArray(tapec.float32, 2, infer_shape=False),
    "dense": Dense,
    "rng": lambda: tapec.random.Generator.from_seed(1),
    "slices": lambda: tapec.IndexedSlices(tapec.ones([2, 3]), [0, 2], [4, 3]),
    "spec": lambda: tapec.TensorSpec([None, 3], tapec.float32),
    "dims": lambda: tapec.TensorShape([2, None]),
    "opt": lambda: tapec.optimizers.Adam(0.1),
    "mean": lambda: tapec.train.ExponentialMovingAverage(0.9),
}

#: Calls of what the cases of values do not have, one to a line; those of a tape belong to it.
METHODS = Path(__file__).with_name("right_calls.txt")


def calls() -> list[str]:
    """Expressions over ``tf``, operands and things, each right."""
    known = [expression for kind in KINDS.values() for expression in kind]
    return [*known, *METHODS.read_text("utf-8").splitlines()]


def names(expression: str) -> dict[str, Any]:
    """What the names of an expression stand for, new."""
    made: dict[str, Any] = {"tf": tapec, "np": np, **_recorded()}
    for node in ast.walk(ast.parse(expression)):
        if isinstance(node, ast.Name) and node.id in THINGS:
            made[node.id] = THINGS[node.id]()
        elif isinstance(node, ast.Name) and node.id in OPERANDS:
            made[node.id] = tapec.constant(OPERANDS[node.id])
    return made


def _places(tree: ast.AST) -> Iterator[Callable[[ast.expr], None]]:
    """Each argument, operand and index of an expression, as what puts another in its place."""

    def into(holder: Any, field: str, index: int | None = None) -> Callable[[ast.expr], None]:
        if index is None:
            return lambda new: setattr(holder, field, new)
        return lambda new: getattr(holder, field).__setitem__(index, new)

    for node in ast.walk(tree):
        match node:
            case ast.Call():
                yield from (into(node, "args", i) for i in range(len(node.args)))
                yield from (into(keyword, "value") for keyword in node.keywords)
            case ast.BinOp():
                yield from (into(node, side) for side in ("left", "right"))
            case ast.Compare():
                yield into(node, "comparators", 0)
            case ast.Subscript():
                yield into(node, "slice")


def _more(tree: ast.Expression, known: dict[str, Any]) -> list[str]:
    """Keywords that the outermost function takes and that are not given."""
    call = tree.body
    if not isinstance(call, ast.Call):
        return []
    function = eval(compile(ast.Expression(call.func), "<function>", "eval"), known)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    given = {k.arg for k in call.keywords}
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters[len(call.args) :] if p.kind in kinds and p.name not in given]


@st.composite
def wrong(draw: st.DrawFn, expression: str) -> tuple[str, dict[str, Any]]:
    """The call with one argument replaced, or one more by its name; and what its names stand for."""
    tree, known = ast.parse(expression, mode="eval"), names(expression)
    known["bad"] = draw(ARGUMENTS)
    bad = ast.Name("bad", ast.Load())
    keywords = _more(tree, known)
    places = list(_places(tree))
    chosen = draw(st.integers(0, len(places) + len(keywords) - 1)) if places or keywords else None
    if chosen is not None and chosen < len(places):
        places[chosen](bad)
    elif chosen is not None:
        assert isinstance(tree.body, ast.Call)
        tree.body.keywords.append(ast.keyword(keywords[chosen - len(places)], bad))
    return ast.unparse(ast.fix_missing_locations(tree)), known
