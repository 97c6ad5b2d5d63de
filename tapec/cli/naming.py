"""What is named on the command line: files, functions in them, types of their arguments."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

from tapec.cli.programs import WrongTarget
from tapec.compiled.concrete import BoundFunction
from tapec.compiled.function import CompiledFunction
from tapec.ir.dims import symbol
from tapec.ir.text.type_text import TypeTextError, parse_type
from tapec.ir.types import TensorType

#: Types in a list: what stands between blanks, commas and semicolons that are in no brackets.
_TYPE = re.compile(r"(?:\[[^\]]*\]?|[^\s,;\[])+")
#: TensorFlow's names of dtypes, which are longer than those of a program's text.
_LONG = re.compile(r"(bfloat|float|complex|uint|int)(?=\d)")
_SHORT = {"bfloat": "bf", "float": "f", "complex": "c", "uint": "u", "int": "i"}
#: What compiles a function, as its decorator is called.
_COMPILERS = frozenset({"compile", "function"})


def refuse_missing(file: str) -> None:
    """Refuse a file that there is not.

    Raises:
        WrongTarget: there is none; with those that are called alike.
    """
    path = Path(file)
    if path.is_file():
        return
    if path.is_dir():
        raise WrongTarget(f"{file} is a folder: a file was expected")
    there = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    alike = difflib.get_close_matches(path.name, there, n=3, cutoff=0.75)
    hint = f": there is {', '.join(str(path.parent / name) for name in alike)}" if alike else ""
    raise WrongTarget(f"there is no file {file}{hint}")


def resolved(names: Mapping[str, Any], name: str) -> Any:
    """The compiled function of that name, or of that path of names; None if there is none."""
    found = _at(names, name)
    return found if _is_compiled(found) else None


def _at(names: Mapping[str, Any], path: str) -> Any:
    """What goes by that path of names; None if nothing does."""
    first, *rest = path.split(".")
    try:
        return reduce(getattr, rest, names[first])
    except (KeyError, AttributeError):
        return None


def built_of(names: Mapping[str, Any], name: str, file: str, *, typed: bool) -> Any:
    """The compiled function of that name; or the model, whose call is built, as `tapec.aot.build` takes it.

    Raises:
        WrongTarget: there is neither; or it is a model, and types are not given (``typed``).
    """
    found = _at(names, name)
    if not _is_model(found):
        return function_of(names, name, file)
    if not typed:
        raise WrongTarget(f"{name} is a model: tell what it takes, such as --shapes 'f32[1,784]'")
    return found


def _is_model(value: Any) -> bool:
    """Whether a value is a model, of Keras or a `tapec.Module`: an object with Variables that can be called."""
    is_object = callable(value) and not isinstance(value, type) and not _is_compiled(value)
    return is_object and hasattr(type(value), "trainable_variables")


def function_of(names: Mapping[str, Any], name: str, file: str) -> Any:
    """The compiled function of that name.

    Raises:
        WrongTarget: there is none; with those that there are.
    """
    found = resolved(names, name)
    if found is None:
        written = compiled_in(Path(file))
        if name in written and name.partition(".")[0] not in names:
            raise WrongTarget(f"{file} ended before it defined {name}")
        there = sorted(_compiled(names)) or written
        hint = f"it has {', '.join(there)}" if there else "decorate one with @tapec.compile"
        raise WrongTarget(f"{file} has no compiled function {name}: {hint}")
    return found


def _is_compiled(value: Any) -> bool:
    """Whether a value is a compiled function; objects may answer to any name."""
    return isinstance(value, CompiledFunction | BoundFunction)


def _compiled(names: Mapping[str, Any]) -> Iterator[str]:
    """The compiled functions among names, and those of their objects."""
    for name, value in names.items():
        if _is_compiled(value):
            yield name
        elif not isinstance(value, type | ModuleType) and not name.startswith("_"):
            own = type(value)
            # Classes that others wrote have many names, and none that is meant.
            if own.__module__ in ("__main__", names.get("__name__")):
                methods = {n for c in own.__mro__ for n, m in vars(c).items() if _is_compiled(m)}
                yield from (f"{name}.{method}" for method in methods)


def compiled_in(file: Path) -> list[str]:
    """The functions of a file that are decorated to be compiled, as it is written; it is not run."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError, RecursionError):
        return []
    return sorted(_decorated(tree, ""))


def _decorated(tree: ast.AST, path: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        inner = path
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if any(_compiles(decorator) for decorator in node.decorator_list):
                yield path + node.name
            # Functions inside of functions go by their own names.
            inner = f"{path}{node.name}." if isinstance(node, ast.ClassDef) else ""
        yield from _decorated(node, inner)


def _compiles(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    return name in _COMPILERS


def types_in(text: str) -> list[TensorType]:
    """The types in a list.

    Raises:
        WrongTarget: one is no type of a tensor.
    """
    return [type_of(written) for written in _TYPE.findall(text)]


def named_types(texts: Sequence[str]) -> dict[str, TensorType]:
    """Types by name, from texts such as ``x=f32[32,784]``.

    Raises:
        WrongTarget: one is no such text, or two name the same argument.
    """
    found: dict[str, TensorType] = {}
    for text in texts:
        name, equals, written = text.partition("=")
        if not equals or not name.isidentifier():
            raise WrongTarget(
                f"--arg: expected NAME=TYPE such as x=f32[32,784], got {_shortened(text)!r}"
            )
        if name in found:
            raise WrongTarget(f"--arg: {name} is given twice")
        found[name] = type_of(written, f"--arg {name}")
    return found


def type_of(text: str, what: str = "--shapes") -> TensorType:
    """A type that was written on the command line, as ``f32[N,784]``; its symbols are sizes of at least 1.

    Blanks are ignored, and dtypes may be called as TensorFlow calls them.

    Raises:
        WrongTarget: it is not one of a tensor.
    """
    written = "".join(text.split())
    try:
        given = parse_type(_LONG.sub(lambda name: _SHORT[name[1]], written, count=1))
    except TypeTextError as error:
        reason = _shortened(str(error), 120)
        raise WrongTarget(
            f"{what}: expected a type such as f32[32,784], got {_shortened(text)!r}: {reason}"
        ) from None
    if not isinstance(given, TensorType):
        raise WrongTarget(f"{what}: expected a type such as f32[32,784], got {_shortened(text)!r}")
    return given.substitute({s.name: symbol(s.name, 1) for s in given.symbols()})


def _shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
