"""Python code written anew, so that what decides over control flow is asked of `tapec.autograph.operators`.

::

    if x > 0:                  def body():
        y = x                      nonlocal y
    else:                          y = x
        y = -x      becomes    def orelse():
                                   nonlocal y
                                   y = -x
                               ag__.if_stmt(x > 0, body, orelse, ("y",), ("y",), ())

Loops become calls in the same way, ``and``, ``or``, ``not``, chained comparisons and conditional expressions calls with
lambdas; the function of a call is wrapped, so that functions of the user's are converted too. Everything keeps its line
and column, and variables stay what they are: cells that closures share.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tapec.autograph.conversion import OPERATORS
from tapec.autograph.jumps import OURS, Refused, none_of, without_jumps
from tapec.autograph.names import Liveness, bound, declared, own_nodes, places_in

#: Functions that look at the frame they are called from.
_FRAMES = {"locals", "vars", "dir", "eval", "exec"}

_OPERATORS = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Is: "is_",
    ast.IsNot: "is_not",
    ast.In: "in_",
    ast.NotIn: "not_in",
}


def rewritten(node: ast.FunctionDef | ast.Lambda, owner: str | None) -> bool:
    """Rewrite a function, in the body of a class if it has an ``owner``, in place; whether there was anything to do.

    Raises:
        Refused: it has something that cannot be converted.
    """
    if isinstance(node, ast.FunctionDef) and _suspends(node.body):
        raise Refused("it is a generator")
    rewriter = _Rewriter(owner)
    if isinstance(node, ast.Lambda):
        node.body = rewriter.visit(node.body)
    else:
        rewriter.function(node)
    ast.fix_missing_locations(node)
    return rewriter.changed


def _suspends(nodes: Sequence[ast.AST]) -> bool:
    kinds = ast.Yield | ast.YieldFrom | ast.Await
    return any(isinstance(n, kinds) for n in own_nodes(nodes))


class _Rewriter(ast.NodeTransformer):
    """Rewrites one function after the other; nested ones with an instance of their own."""

    def __init__(self, owner: str | None) -> None:
        self.changed = False
        self._owner = owner
        self._count = 0
        self._first: str | None = None
        self._live = Liveness([], {})
        self._exits: dict[ast.stmt, list[str]] = {}
        self._elsewhere: dict[str, set[str]] = {}

    # ---- functions

    def function(self, node: ast.FunctionDef) -> None:
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
        self._first = names[0] if names else None
        self._elsewhere = {
            "global": declared(node.body, ast.Global),
            "nonlocal": declared(node.body, ast.Nonlocal),
        }
        body, self._exits = without_jumps(node.body)
        self._live = Liveness(body, self._exits)
        local = [n for n in bound(body) if n not in set().union(*self._elsewhere.values())]
        node.body = self._block(body)
        if self._count:
            node.body = _with_locals(local, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if _suspends(node.body):
            return node
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args = self.visit(node.args)
        inner = _Rewriter(self._owner)
        inner.function(node)
        self.changed |= inner.changed
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AsyncFunctionDef:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return node  # its methods are converted when they are called

    def _block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for node in body:
            found = self.visit(node)
            done += found if isinstance(found, list) else [found]
        return done

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            for field in ("body", "orelse", "finalbody"):
                if getattr(node, field, None):
                    setattr(node, field, self._block(getattr(node, field)))
        for field, value in ast.iter_fields(node):
            if field in ("body", "orelse", "finalbody") and isinstance(value, list):
                continue
            if isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
            elif isinstance(value, list):
                value[:] = [self.visit(v) if isinstance(v, ast.AST) else v for v in value]
        return node

    # ---- statements

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        """A local's annotation means nothing at run time, and a name that has one may not be nonlocal."""
        if not isinstance(node.target, ast.Name):
            self.generic_visit(node)
            return node
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        plain = ast.Assign([node.target], self.visit(node.value))
        return ast.copy_location(plain, node)

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        states = self._states(node, [*node.body, *node.orelse])
        body = self._part("body", node, node.body)
        orelse = self._part("orelse", node, node.orelse)
        call = self._operator(
            "if_stmt", [self.visit(node.test), _name(body), _name(orelse)], node.test
        )
        return [body, orelse, self._statement(call, states, node)]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        states = self._states(node, [node.test, *node.body])
        test = self._ends(node, self.visit(node.test))
        asks = self._part("test", node, [ast.copy_location(ast.Return(test), node.test)])
        body = self._part("body", node, node.body)
        call = self._operator("while_stmt", [_name(asks), _name(body)], node.test)
        states.append(ast.Constant(bool(bound([node.test]))))
        return [asks, body, self._statement(call, states, node)]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        states = self._states(node, [node.target, *node.body])
        value = f"{OURS}value"
        take = ast.Assign([node.target], ast.Name(value, ast.Load()))
        body = self._part("body", node, [ast.copy_location(take, node.target), *node.body])
        body.args.args = [ast.arg(value)]
        over = self._iterated(node.iter)
        parts: list[ast.stmt] = [body]
        asks: ast.expr = ast.Constant(None)
        if self._exits.get(node):
            test = self._part("test", node, [ast.copy_location(ast.Return(self._ends(node)), node)])
            parts.append(test)
            asks = _name(test)
        call = self._operator("for_stmt", [over, _name(body), asks], node.target)
        return [*parts, self._statement(call, states, node)]

    def _ends(self, node: ast.While | ast.For, test: ast.expr | None = None) -> ast.expr:
        """The test of a loop, and that none of the flags is set which end it."""
        flags = self._exits.get(node)
        if not flags:
            assert test is not None
            return test
        goes_on = ast.fix_missing_locations(ast.copy_location(none_of(flags), node))
        if test is None:
            return goes_on
        return self._operator("and_", [goes_on, _lambda(test)], test)

    def _states(self, node: ast.stmt, parts: Sequence[ast.AST]) -> list[ast.expr]:
        """What a statement changes: variables, those read behind it (or in a loop's next turn), places in objects."""
        names = bound(parts)
        known = (self._live.after, self._live.again)
        read = [[n for n in names if n in live[node]] for live in known if node in live]
        places: list[ast.expr] = []
        for variable, steps in places_in(parts, set(names)):
            known_steps = tuple(
                (kind, self._as_known(key) if kind == "." else key) for kind, key in steps
            )
            items: list[ast.expr] = [_lambda(variable), _literal(known_steps)]
            places.append(ast.Tuple(items, ast.Load()))
        lists: list[list[ast.expr]] = [
            [ast.Constant(self._as_known(n)) for n in found] for found in (names, *read)
        ]
        return [ast.Tuple(items, ast.Load()) for items in (*lists, places)]

    def _as_known(self, name: Any) -> Any:
        """A name as Python has it, which puts that of the class before private ones."""
        private = isinstance(name, str) and name.startswith("__") and not name.endswith("__")
        return f"_{self._owner.lstrip('_')}{name}" if self._owner and private else name

    def _part(self, what: str, node: ast.stmt, body: Sequence[ast.stmt]) -> ast.FunctionDef:
        """A function of a statement's body, which shares the variables around it."""
        self._count += 1
        names = bound(body)
        found = self._block(body) if what != "test" else list(body)
        outer = [n for n in names if n in self._elsewhere["global"]]
        shared = [n for n in names if n not in self._elsewhere["global"]]
        first: list[ast.stmt] = [ast.Global(outer)] if outer else []
        first += [ast.Nonlocal(shared)] if shared else []
        function = ast.parse(f"def {OURS}{what}_{self._count}(): pass").body[0]
        assert isinstance(function, ast.FunctionDef)
        function.body = [*first, *found] or function.body
        return ast.fix_missing_locations(ast.copy_location(function, node))

    def _statement(self, call: ast.Call, states: list[ast.expr], node: ast.stmt) -> ast.stmt:
        call.args += [ast.copy_location(s, call) for s in states]
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))

    # ---- expressions

    def _operator(self, name: str, args: list[ast.expr], like: ast.expr) -> ast.Call:
        self.changed = True
        function = ast.Attribute(ast.Name(OPERATORS, ast.Load()), name, ast.Load())
        call = ast.Call(function, args, [])
        # All on the first line: instructions of a call may bear the last line of the function's expression.
        for node in (call, function, function.value):
            ast.copy_location(node, like)
            node.end_lineno, node.end_col_offset = node.lineno, node.col_offset + 1
        return ast.fix_missing_locations(call)

    def _iterated(self, node: ast.expr) -> ast.expr:
        """What a ``for`` goes over: ``range`` and ``zip`` need not be made if they are called there."""
        if isinstance(node, ast.Call) and not _is_super(node):
            function = self._operator("iterated", [self.visit(node.func)], node.func)
            call = self.generic_visit(node)
            assert isinstance(call, ast.Call)
            call.func = function
            return call
        found: ast.expr = self.visit(node)
        return found

    def visit_Call(self, node: ast.Call) -> ast.Call:
        if isinstance(node.func, ast.Name) and node.func.id in _FRAMES:
            raise Refused(f"it calls {node.func.id}, which looks at variables")
        if _is_super(node):
            if self._first is None:
                return node
            names: list[ast.expr] = [ast.Name(n, ast.Load()) for n in ("__class__", self._first)]
            return ast.fix_missing_locations(
                ast.copy_location(ast.Call(node.func, names, []), node)
            )
        self.generic_visit(node)
        node.func = self._operator("converted", [node.func], node.func)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        if not _suspends([node.body]):
            self.generic_visit(node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        if _binds_or_suspends(node.values[1:]):
            return self._plain(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        first, *rest = [self.visit(v) for v in node.values]
        return self._operator(name, [first, *map(_lambda, rest)], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return self._operator("not_", [self.visit(node.operand)], node)
        return self._plain(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        if _binds_or_suspends([node.body, node.orelse]):
            return self._plain(node)
        test, body, orelse = map(self.visit, (node.test, node.body, node.orelse))
        return self._operator("if_exp", [test, _lambda(body), _lambda(orelse)], node)

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if len(node.ops) == 1 or _binds_or_suspends(node.comparators[1:]):
            return self._plain(node)
        kinds = ast.Tuple([ast.Constant(_OPERATORS[type(op)]) for op in node.ops], ast.Load())
        first, second, *rest = [self.visit(v) for v in (node.left, *node.comparators)]
        return self._operator("compare", [kinds, first, second, *map(_lambda, rest)], node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        self.generic_visit(node)
        if not node.is_async:
            node.iter = self._operator("rows", [node.iter], node.iter)
        return node

    def _plain(self, node: ast.expr) -> ast.expr:
        self.generic_visit(node)
        return node


def _with_locals(names: Sequence[str], body: list[ast.stmt]) -> list[ast.stmt]:
    """Name a function's variables in code that never runs: those bound in parts alone would not be its own."""
    docstring = body[:1] if ast.get_docstring(ast.Module(body, [])) is not None else []
    if not names:
        return body
    targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in names]
    never = ast.If(ast.Constant(False), [ast.Assign(targets, ast.Constant(None))], [])
    ast.fix_missing_locations(ast.copy_location(never, body[0]))
    return [*docstring, never, *body[len(docstring) :]]


def _is_super(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args


def _binds_or_suspends(nodes: Sequence[ast.expr]) -> bool:
    """Whether an expression cannot become a lambda."""
    kinds = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)
    return any(isinstance(n, kinds) for node in nodes for n in ast.walk(node))


def _literal(value: Any) -> ast.expr:
    """An expression for a constant, or a tuple of such."""
    if isinstance(value, tuple):
        return ast.Tuple([_literal(item) for item in value], ast.Load())
    return ast.Constant(value)


def _lambda(body: ast.expr) -> ast.expr:
    args = ast.arguments([], [], None, [], [], None, [])
    return ast.fix_missing_locations(ast.copy_location(ast.Lambda(args, body), body))


def _name(function: ast.FunctionDef) -> ast.expr:
    return ast.copy_location(ast.Name(function.name, ast.Load()), function)
