"""``break``, ``continue`` and ``return`` inside of branches and loops, written without them.

What stands behind a branch that always leaves moves into the other branch; where only the run knows whether there was
a jump, a flag says so, and what follows runs under its negation. A loop with flags (`exits`) ends when one is set.
The value of a ``return`` goes into a variable, which the function returns at its end. So

::

    for x in xs:                      leaves = False
        if x < 0:                     for x in xs:   # exits: leaves
            continue                      if x < 0:
        if x > 9:            becomes          pass
            break                         elif x > 9:
        s += x                                leaves = True
                                          else:
                                              s += x
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tapec.autograph.names import Scope, own_nodes

#: Names of the variables that are made here begin with this, which users' do not.
OURS = "ag__"
#: The variable that holds what the function returns, and the flag which says that it does.
RETURNED = f"{OURS}returned"
_LEAVES = f"{OURS}leaves"

_BLOCKS = (ast.If, ast.While, ast.For)


class Refused(Exception):
    """A function has something that cannot be converted; the text says what."""


@dataclass(frozen=True)
class _Loop:
    """The flags of the loop around a statement."""

    ends: str
    skips: str


@dataclass(frozen=True)
class _Lowered:
    """A block without jumps: the flags that it may set, and whether it always ends with a jump."""

    body: list[ast.stmt]
    flags: frozenset[str] = frozenset()
    always: bool = False


def without_jumps(body: Sequence[ast.stmt]) -> tuple[list[ast.stmt], dict[ast.stmt, list[str]]]:
    """A function's body without jumps, and for each of its loops the flags that end it.

    Raises:
        Refused: a ``finally`` jumps.
    """
    return _Jumps().function(list(body))


class _Jumps:
    def __init__(self) -> None:
        self.exits: dict[ast.stmt, list[str]] = {}
        self._loops = 0
        self._asked: set[str] = set()
        self._returns = False

    def function(self, body: list[ast.stmt]) -> tuple[list[ast.stmt], dict[ast.stmt, list[str]]]:
        if any(isinstance(node, ast.TryStar) for node in own_nodes(body)):
            raise Refused("it has an except*")
        self._returns = _returns_inside(body)
        if not self._returns:
            return self._pruned(self._block(body, None).body), self.exits
        end = ast.copy_location(ast.Return(value=None), body[-1])
        lowered = self._block([*body, end], None).body
        result = ast.Return(value=ast.Name(RETURNED, ast.Load()))
        start = 1 if ast.get_docstring(ast.Module(body, [])) is not None else 0
        first = [_set(_LEAVES, False, body[0])]
        whole = [*lowered[:start], *first, *lowered[start:], ast.copy_location(result, body[-1])]
        return self._pruned(whole), self.exits

    # ---- blocks

    def _block(self, body: Sequence[ast.stmt], loop: _Loop | None) -> _Lowered:
        done: list[ast.stmt] = []
        for number, node in enumerate(body):
            rest = body[number + 1 :]
            jump = self._jump(node, loop)
            if jump is not None:
                return _Lowered([*done, *jump.body], jump.flags, jump.always)
            if isinstance(node, ast.Raise):
                return _Lowered([*done, node], frozenset(), True)
            if isinstance(node, ast.If):
                found, rest = self._branch(node, rest, loop)
            elif isinstance(node, ast.While | ast.For):
                found = self._loop(node, loop)
            else:
                found = self._other(node, loop)
            done += found.body
            if not found.flags:
                continue
            if found.always or not rest:
                return _Lowered(done, found.flags, found.always)
            behind = self._block(rest, loop)
            done.append(self._unless(sorted(found.flags), behind.body, rest[0]))
            return _Lowered(done, found.flags | behind.flags, behind.always)
        return _Lowered(done)

    def _jump(self, node: ast.stmt, loop: _Loop | None) -> _Lowered | None:
        if isinstance(node, ast.Return) and self._returns:
            value = node.value or ast.copy_location(ast.Constant(None), node)
            target = ast.Name(RETURNED, ast.Store())
            keep = ast.copy_location(ast.Assign([target], value), node)
            return _Lowered([keep, _set(_LEAVES, True, node)], frozenset([_LEAVES]), True)
        if isinstance(node, ast.Break | ast.Continue):
            assert loop is not None
            flag = loop.ends if isinstance(node, ast.Break) else loop.skips
            return _Lowered([_set(flag, True, node)], frozenset([flag]), True)
        return None

    def _branch(
        self, node: ast.If, rest: Sequence[ast.stmt], loop: _Loop | None
    ) -> tuple[_Lowered, Sequence[ast.stmt]]:
        """An ``if``, and what is left of the rest of its block."""
        body, orelse = node.body, node.orelse
        ends = [_always_leaves(side) for side in (body, orelse)]
        if rest and ends[0] != ends[1] and self._jumps_in([node]):
            body, orelse = (body, [*orelse, *rest]) if ends[0] else ([*body, *rest], orelse)
            rest = ()
        then, other = self._block(body, loop), self._block(orelse, loop)
        new = ast.copy_location(ast.If(node.test, then.body or [_pass(node)], other.body), node)
        always = then.always and other.always
        return _Lowered([new], then.flags | other.flags, always), rest

    def _jumps_in(self, nodes: Iterable[ast.AST], inside: bool = False) -> bool:
        """Whether statements leave the block that they stand in; ``inside``: they stand in a loop of it."""
        for node in nodes:
            if isinstance(node, ast.Return) and self._returns:
                return True
            if isinstance(node, ast.Break | ast.Continue) and not inside:
                return True
            if isinstance(node, Scope | ast.ClassDef):
                continue
            within = inside or isinstance(node, ast.While | ast.For)
            if self._jumps_in(ast.iter_child_nodes(node), within):
                return True
        return False

    def _loop(self, node: ast.While | ast.For, loop: _Loop | None) -> _Lowered:
        self._loops += 1
        own = _Loop(f"{OURS}ends_{self._loops}", f"{OURS}skips_{self._loops}")
        inner = self._block(node.body, own)
        exits = sorted(inner.flags - {own.skips})
        body = [_set(own.skips, False, node), *inner.body]
        new: ast.While | ast.For
        if isinstance(node, ast.While):
            new = ast.While(node.test, body, [])
        else:
            new = ast.For(node.target, node.iter, body, [])
        ast.copy_location(new, node)
        self.exits[new] = exits
        self._asked |= set(exits)
        before = [_set(own.ends, False, node)] if own.ends in exits else []
        flags = frozenset(exits) - {own.ends}
        done: list[ast.stmt] = [*before, new]
        otherwise = self._block(node.orelse, loop)
        if exits and otherwise.body:
            done.append(self._unless(exits, otherwise.body, node.orelse[0]))
        else:
            done += otherwise.body
        always = otherwise.always and not exits
        if isinstance(node, ast.While) and _holds(node.test) and own.ends not in exits:
            always = True  # it is left by return alone
        return _Lowered(done, flags | otherwise.flags, always)

    def _other(self, node: ast.stmt, loop: _Loop | None) -> _Lowered:
        """A statement that stays what it is, around blocks without jumps."""
        if isinstance(node, ast.With):
            inner = self._block(node.body, loop)
            new: ast.stmt = ast.With(node.items, inner.body)
            return _Lowered([ast.copy_location(new, node)], inner.flags)
        if isinstance(node, ast.Try):
            return self._attempt(node, loop)
        if isinstance(node, ast.Match):
            blocks = [self._block(case.body, loop) for case in node.cases]
            pairs = zip(node.cases, blocks, strict=True)
            cases = [ast.match_case(c.pattern, c.guard, b.body or [_pass(node)]) for c, b in pairs]
            new = ast.copy_location(ast.Match(node.subject, cases), node)
            return _Lowered([new], frozenset().union(*(b.flags for b in blocks)))
        return _Lowered([node])

    def _attempt(self, node: ast.Try, loop: _Loop | None) -> _Lowered:
        body, last = self._block(node.body, loop), self._block(node.finalbody, loop)
        if last.flags:
            raise Refused("a finally block leaves by break, continue or return")
        handlers, flags = [], body.flags
        for handler in node.handlers:
            inner = self._block(handler.body, loop)
            flags |= inner.flags
            made = ast.ExceptHandler(handler.type, handler.name, inner.body or [_pass(node)])
            handlers.append(ast.copy_location(made, handler))
        otherwise = self._block(node.orelse, loop)
        orelse = otherwise.body
        if orelse and body.flags:
            orelse = [self._unless(sorted(body.flags), orelse, node.orelse[0])]
        new = ast.Try(body.body, handlers, orelse, last.body)
        return _Lowered([ast.copy_location(new, node)], flags | otherwise.flags)

    # ---- flags

    def _unless(self, flags: Sequence[str], body: list[ast.stmt], like: ast.stmt) -> ast.stmt:
        self._asked |= set(flags)
        new = ast.If(none_of(flags), body or [_pass(like)], [])
        return ast.fix_missing_locations(ast.copy_location(new, like))

    def _pruned(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Without the flags that nobody asks for."""
        kept = [_Pruner(self._asked).visit(node) for node in body]
        return [node for node in kept if node is not None]


class _Pruner(ast.NodeTransformer):
    def __init__(self, asked: set[str]) -> None:
        self._asked = asked

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | ast.Pass | None:
        target = node.targets[0]
        ours = isinstance(target, ast.Name) and target.id.startswith(OURS)
        if ours and isinstance(target, ast.Name) and target.id not in {*self._asked, RETURNED}:
            return ast.copy_location(ast.Pass(), node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node


def none_of(flags: Sequence[str]) -> ast.expr:
    """The expression that no flag is set; `goes_on` if that means that the function has not returned."""
    name = "goes_on" if [*flags] == [_LEAVES] else "none_of"
    function = ast.Attribute(ast.Name(OURS, ast.Load()), name, ast.Load())
    return ast.Call(function, [ast.Name(flag, ast.Load()) for flag in flags], [])


def _always_leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether nothing that stands behind a block would run."""
    return any(
        isinstance(node, ast.Return | ast.Break | ast.Continue | ast.Raise)
        or (isinstance(node, ast.If) and _always_leaves(node.body) and _always_leaves(node.orelse))
        for node in body
    )


def _holds(test: ast.expr) -> bool:
    """Whether a condition is written out as one that always holds."""
    return isinstance(test, ast.Constant) and bool(test.value)


def _returns_inside(body: Sequence[ast.stmt]) -> bool:
    """Whether a branch or loop returns."""
    blocks = [n for n in own_nodes(body) if isinstance(n, _BLOCKS)]
    return any(isinstance(n, ast.Return) for b in blocks for n in own_nodes([b]))


def _set(flag: str, value: bool, like: ast.stmt) -> ast.stmt:
    new = ast.Assign([ast.Name(flag, ast.Store())], ast.Constant(value))
    return ast.fix_missing_locations(ast.copy_location(new, like))


def _pass(like: ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Pass(), like)
