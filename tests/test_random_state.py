"""Random objects, a function that reads some of them, random changes: after each, compiled equals eager."""

from __future__ import annotations

import random
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapec


class Node:
    """An object with attributes, items and a method, all of which random code may read."""

    scale = 1.0

    def __init__(self, parts: dict[str, Any]) -> None:
        vars(self).update(parts)

    def total(self) -> float:
        """The numbers that it holds itself."""
        return self.scale * sum(v for v in vars(self).values() if isinstance(v, int | float))


class World:
    """Nested containers and objects under one name, with ways to read and to change them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.root = self.node(3)
        #: Texts of Python that read a number, and that change something.
        self.paths = ["root"]

    def number(self) -> Any:
        return self.random.choice(
            [self.random.randint(-3, 3), round(self.random.random(), 2), True]
        )

    def node(self, depth: int) -> Any:
        """A random thing."""
        if depth == 0 or self.random.random() < 0.2:
            return self.number()
        parts = [self.node(depth - 1) for _ in range(self.random.randint(1, 3))]
        named = dict(zip("abc", parts, strict=False))
        kind = self.random.randrange(6)
        if kind == 0:
            return Node(named)
        if kind == 1:
            return SimpleNamespace(**named)
        if kind == 2:
            return named
        return [parts, tuple(parts), deque(parts)][kind - 3]

    def places(self, thing: Any = None, path: str = "root") -> list[tuple[str, Any]]:
        """Everything there is, by the Python text that leads to it."""
        thing = self.root if thing is None else thing
        found = [(path, thing)]
        if isinstance(thing, Node | SimpleNamespace):
            inner: Any = ((f"{path}.{k}", v) for k, v in vars(thing).items())
        elif isinstance(thing, dict):
            inner = ((f"{path}[{k!r}]", v) for k, v in thing.items())
        elif isinstance(thing, list | tuple | deque):
            inner = ((f"{path}[{i}]", v) for i, v in enumerate(thing))
        else:
            return found
        for where, value in list(inner):
            found += self.places(value, where)
        return found

    def reader(self) -> str:
        """An expression over some of the places."""
        terms = []
        for path, thing in self.random.sample(self.places(), min(4, len(self.places()))):
            if isinstance(thing, int | float):
                terms.append(path)
            elif isinstance(thing, Node):
                terms.append(f"{path}.total()")
            elif isinstance(thing, SimpleNamespace):
                terms.append(f"len(vars({path}))")
            elif isinstance(thing, dict):
                terms.append(f"sum(v for v in {path}.values() if isinstance(v, (int, float)))")
            else:
                terms.append(f"sum(v for v in {path} if isinstance(v, (int, float)))")
        return " + ".join(["x", *(f"{i + 1} * {term}" for i, term in enumerate(terms))])

    def change(self) -> str:
        """A statement that changes one place, or the number of items of one."""
        changes = []
        for path, thing in self.places():
            if path.endswith("]") and isinstance(
                eval(path.rpartition("[")[0], {"root": self.root}), tuple
            ):
                continue
            if isinstance(thing, int | float):
                changes.append(f"{path} = {self.number()}")
            elif isinstance(thing, list | deque):
                changes.append(f"{path}.append({self.number()})")
            elif isinstance(thing, dict):
                changes.append(f"{path}['d'] = {self.number()}")
            elif isinstance(thing, Node):
                changes += [f"{path}.scale = {self.number()}", f"Node.scale = {self.number()}"]
        return self.random.choice(changes or ["pass"])


@pytest.mark.filterwarnings("ignore::tapec.compiled.retraces.RetraceWarning")
@pytest.mark.parametrize("seed", range(24))
def test_compiled_equals_eager_after_each_change(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Node, "scale", 1.0)
    world = World(seed)
    names: dict[str, Any] = {"tapec": tapec, "root": world.root, "Node": Node}
    exec(f"def f(x): return {world.reader()}", names)
    f = tapec.compile(names["f"], jit=False)
    x = tapec.constant(0.5)
    for _ in range(12):
        for _ in range(2):
            np.testing.assert_allclose(f(x), names["f"](x), rtol=1e-5, err_msg=world.reader())
        exec(world.change(), names)
        world.root = names["root"]
