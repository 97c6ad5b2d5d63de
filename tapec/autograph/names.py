"""Which names a piece of Python code binds and reads, and which of them somebody still reads behind it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

#: Nodes with names of their own.
Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def bound(nodes: Iterable[ast.AST]) -> list[str]:
    """The names that statements or expressions bind (or delete) in the function that they stand in, as first met."""
    found: dict[str, None] = {}
    for node in nodes:
        _bind(node, found)
    return list(found)


def _bind(node: ast.AST, found: dict[str, None]) -> None:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        found[node.name] = None
        return
    if isinstance(node, ast.Lambda):
        return
    if isinstance(node, COMPREHENSIONS):  # what it binds is its own, save by :=
        found.update((n.target.id, None) for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
        return
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        found[node.id] = None
    elif isinstance(node, ast.Import | ast.ImportFrom):
        found.update((a.asname or a.name.partition(".")[0], None) for a in node.names)
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        found[node.name] = None
    elif isinstance(node, ast.MatchMapping) and node.rest:
        found[node.rest] = None
    for child in ast.iter_child_nodes(node):
        _bind(child, found)


def parameters(args: ast.arguments) -> list[str]:
    """The names of a function's parameters."""
    every = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    return [a.arg for a in every if a is not None]


def declared(body: Iterable[ast.AST], kind: type[ast.Global] | type[ast.Nonlocal]) -> set[str]:
    """The names that a function's body declares to be another's."""
    return {name for node in own_nodes(body) if isinstance(node, kind) for name in node.names}


def own_nodes(nodes: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """The nodes, and those inside of them that belong to the same function: not what nested ones consist of."""
    for node in nodes:
        yield node
        if not isinstance(node, Scope | ast.ClassDef):
            yield from own_nodes(ast.iter_child_nodes(node))


def read(node: ast.AST) -> set[str]:
    """The names that code reads of the function that it stands in, nested functions included."""
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Store) else {node.id}
    if isinstance(node, Scope):
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        own = set(parameters(node.args)) | set(bound(body))
        if not isinstance(node, ast.Lambda):
            own -= declared(body, ast.Global) | declared(body, ast.Nonlocal)
        outside = [node.args, *getattr(node, "decorator_list", ())]
        return (_read(body) - own) | _read(outside)
    if isinstance(node, COMPREHENSIONS):
        return _read(ast.iter_child_nodes(node)) - set(bound(g.target for g in node.generators))
    found = _read(ast.iter_child_nodes(node))
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        found.add(node.target.id)
    return found


def _read(nodes: Iterable[ast.AST]) -> set[str]:
    return set().union(*map(read, nodes))


#: One step from an object to what is in it: ``"."`` and a name, ``"[]"`` and an index; ``"[*]"`` for any index, and
#: ``"[+]"`` for those that are not there before.
Step = tuple[str, Any]
#: Methods of lists and dicts by which items come to be.
_ADDING = {"append", "extend", "setdefault", "update"}


def places_in(
    parts: Iterable[ast.AST], names: Collection[str]
) -> Iterator[tuple[ast.Name, tuple[Step, ...]]]:
    """The attributes and items that code assigns: a variable, and the steps from its value to them.

    Only those of objects that the code does not bind itself; ``names`` are the ones that it does.
    """
    met = set()
    for node in own_nodes(parts):
        steps: tuple[Step, ...] = ()
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            variable, steps = _steps(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            variable, steps = _steps(node.func.value)
            if node.func.attr not in _ADDING:
                continue
            steps = (*steps, ("[*]" if node.func.attr == "update" else "[+]", None))
        if steps:
            place = ast.dump(variable), repr(steps)
            if place in met or not isinstance(variable, ast.Name) or variable.id in names:
                continue
            met.add(place)
            yield copy.deepcopy(variable), steps


def _steps(node: ast.expr) -> tuple[ast.expr, tuple[Step, ...]]:
    """The expression that a chain of attributes and items begins with, and the chain."""
    found: list[Step] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            found.append((".", node.attr))
        elif isinstance(node.slice, ast.Constant):
            found.append(("[]", node.slice.value))
        else:
            found.append(("[*]", None))
        node = node.value
    return node, tuple(reversed(found))


class Liveness:
    """For the branches and loops of a function, the names that are read behind them.

    ``after`` has what is read behind each of them, ``again`` for each loop what its next turn reads. Jumps are gone
    before (see `tapec.autograph.jumps`), but for ``return`` at the end; ``exits`` are the flags that end loops. What
    nested functions, handlers of exceptions and other scopes read counts as read everywhere.
    """

    def __init__(self, body: Sequence[ast.stmt], exits: Mapping[ast.stmt, Collection[str]]) -> None:
        self.after: dict[ast.stmt, set[str]] = {}
        self.again: dict[ast.stmt, set[str]] = {}
        self._exits = exits
        #: Whether what is found is kept: not while a loop around finds out what its next turn reads.
        self._keeps = True
        self._always = declared(body, ast.Global) | declared(body, ast.Nonlocal)
        for node in own_nodes(body):
            if isinstance(node, Scope | ast.ClassDef | ast.ExceptHandler):
                self._always |= read(node)
            elif isinstance(node, ast.Try):
                self._always |= _read(node.finalbody)
        self._block(body, set())

    def _block(self, body: Sequence[ast.stmt], live: set[str]) -> set[str]:
        """What is read from the beginning of a block on, if ``live`` is what is read behind it."""
        for node in reversed(body):
            live = self._statement(node, live)
        return live

    def _statement(self, node: ast.stmt, live: set[str]) -> set[str]:
        if isinstance(node, ast.If):
            if self._keeps:
                self.after[node] = live | self._always
            sides = self._block(node.body, live) | self._block(node.orelse, live)
            return sides | read(node.test)
        if isinstance(node, ast.While | ast.For):
            return self._loop(node, live)
        if isinstance(node, ast.With):
            live = self._block(node.body, live) - set(bound(node.items))
            return live | _read(node.items)
        if isinstance(node, ast.Try | ast.Match):
            blocks = [h.body for h in (node.handlers if isinstance(node, ast.Try) else node.cases)]
            if isinstance(node, ast.Try):
                live = self._block(node.finalbody, live)
                last = self._block(node.orelse, live)
                return self._block(node.body, last).union(*(self._block(b, live) for b in blocks))
            found = live.union(*(self._block(b, live) for b in blocks))
            guards = [c.guard for c in node.cases if c.guard is not None]
            return found | read(node.subject) | _read(guards)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.FunctionDef):
            live = live - set(bound([node]))
        return live | read(node)

    def _loop(self, node: ast.While | ast.For, live: set[str]) -> set[str]:
        governs = set(self._exits.get(node, ()))
        targets: set[str] = set()
        if isinstance(node, ast.While):
            governs |= read(node.test)
        else:
            targets = set(bound([node.target]))
        keeps, self._keeps = self._keeps, False
        # Once is enough: what a turn leaves to the next one, that reads itself, or leaves as well.
        again = governs | (self._block(node.body, live | governs) - targets)
        self._keeps = keeps
        if keeps:
            self.after[node] = live | self._always
            self.again[node] = again | self._always
            self._block(node.body, live | again)
        return live | again | (read(node.iter) if isinstance(node, ast.For) else set())
