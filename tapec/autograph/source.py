"""The source of a function: the part of its file's syntax tree that its code was made of."""

from __future__ import annotations
import __future__

import ast
import copy
import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeGuard

from tapec.autograph.conversion import OPERATORS
from tapec.autograph.names import own_nodes

#: What ``from __future__ import …`` sets in a code object.
_FUTURES = sum({getattr(__future__, n).compiler_flag for n in __future__.all_feature_names})

#: The syntax trees of the files met last, by name, with the lines they were made of.
_trees: dict[str, tuple[list[str], ast.Module]] = {}
_FILES = 64


@dataclass(frozen=True)
class Source:
    """A function in its file.

    Attributes:
        node: its definition, which is the caller's to change.
        owner: the class whose body it stands in: names such as ``__x`` mean something else there.
        imports: what the file imports: other instructions get attributes of such names.
    """

    node: ast.FunctionDef | ast.Lambda
    owner: str | None
    imports: Sequence[ast.stmt]

    def copied(self) -> Source:
        """The same for somebody who changes the definition."""
        return Source(copy.deepcopy(self.node), self.owner, self.imports)


def source_of(code: CodeType, namespace: dict[str, Any]) -> Source | None:
    """The source of a code object; None where there is none, or it has changed since."""
    lines = linecache.getlines(code.co_filename, namespace)
    tree = _tree(code.co_filename, lines)
    if tree is None:
        return None
    imports = [n for n in own_nodes(tree.body) if _imports(n)]
    for node, owner in _functions(tree, None):
        if _name(node) == code.co_name and _first_line(node) == code.co_firstlineno:
            source = Source(node, owner, imports)
            made = compiled(source.copied(), code)
            if made is not None and _alike(made, code, node):
                return source.copied()
    return None


def _imports(node: ast.AST) -> TypeGuard[ast.Import | ast.ImportFrom]:
    if isinstance(node, ast.ImportFrom):
        return node.module != "__future__" and node.names[0].name != "*"
    return isinstance(node, ast.Import)


def _tree(file: str, lines: list[str]) -> ast.Module | None:
    if not lines:
        return None
    known = _trees.get(file)
    if known is None or known[0] != lines:
        try:
            known = lines, ast.parse("".join(lines))
        except (SyntaxError, ValueError):
            return None
        if len(_trees) >= _FILES:
            _trees.pop(next(iter(_trees)))
        _trees[file] = known
    return known[1]


def _functions(
    node: ast.AST, owner: str | None
) -> Iterator[tuple[ast.FunctionDef | ast.Lambda, str | None]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.Lambda):
            yield child, owner
        yield from _functions(child, child.name if isinstance(child, ast.ClassDef) else owner)


def _name(node: ast.FunctionDef | ast.Lambda) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _first_line(node: ast.FunctionDef | ast.Lambda) -> int:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return min([node.lineno, *(d.lineno for d in decorators)])


def compiled(source: Source, like: CodeType) -> CodeType | None:
    """The code of a function, with free variables as those of another code object have, and `OPERATORS`.

    The definition is not run, so neither are decorators and defaults; a function that is made of the code takes them
    from elsewhere.
    """
    node = source.node
    inner: ast.stmt
    if isinstance(node, ast.FunctionDef):
        node.returns = None
        if hasattr(node, "type_params"):
            node.type_params = []
        inner = node
    else:
        inner = ast.copy_location(ast.Expr(node), node)
    _without_defaults(node.args)
    body: list[ast.stmt] = [inner]
    if source.owner is not None:
        body = [
            ast.ClassDef(name=source.owner, bases=[], keywords=[], body=body, decorator_list=[])
        ]
    free = [name for name in like.co_freevars if name != "__class__" or source.owner is None]
    names: list[ast.expr] = [ast.Name(name, ast.Store()) for name in (*free, OPERATORS)]
    around = ast.parse("def around(): pass")
    function = around.body[0]
    assert isinstance(function, ast.FunctionDef)
    own = node.name if isinstance(node, ast.FunctionDef) else None
    here = {source.owner or own} - {None, *free}  # what it calls so is not what stands here
    function.body = [ast.Assign(names, ast.Constant(None)), *body]
    if here:
        function.body.insert(0, ast.Global([str(name) for name in here]))
    around.body = [*source.imports, function]
    ast.fix_missing_locations(around)
    code = compile(around, like.co_filename, "exec", like.co_flags & _FUTURES, dont_inherit=True)
    return _first(code, like.co_name, 2 if source.owner is None else 3)


def _without_defaults(args: ast.arguments) -> None:
    """Keep how many defaults there are, and nothing of annotations."""
    args.defaults = [ast.Constant(None) for _ in args.defaults]
    args.kw_defaults = [d and ast.Constant(None) for d in args.kw_defaults]
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            arg.annotation = None


def _first(code: CodeType, name: str, depth: int) -> CodeType | None:
    """The code named so that stands at a depth."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if depth == 1 and inner.co_name == name:
                return inner
            found = _first(inner, name, depth - 1) if depth > 1 else None
            if found is not None:
                return found
    return None


def _alike(made: CodeType, code: CodeType, node: ast.AST) -> bool:
    """Whether code is what a source gives; what tests' tools rewrite, assertions, is not looked at."""
    if any(isinstance(n, ast.Assert) for n in ast.walk(node)):
        return made.co_varnames[: made.co_argcount] == code.co_varnames[: code.co_argcount]
    same = made.co_code == code.co_code and made.co_names == code.co_names
    constants = [[c for c in k.co_consts if not isinstance(c, CodeType)] for k in (made, code)]
    same = same and repr(constants[0]) == repr(constants[1])
    if not isinstance(node, ast.Lambda):
        return same
    # Which of several on a line it is, columns tell.
    return same and list(made.co_positions()) == list(code.co_positions())
