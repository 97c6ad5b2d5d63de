"""Public signatures against TensorFlow's: what is called one way there can be called that way here.

``conformance/api/signatures.txt`` lists TensorFlow's public names, one to a line: a function or class with its
parameters and their defaults, or ``module``, or ``value`` and its type; ``methods.txt`` lists those of classes.
``outside.txt`` lists the names that tapec has not, with what the AttributeError says (``python
tests/test_signatures.py`` writes it).
"""

from __future__ import annotations

import ast
import inspect
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tapec

FOLDER = Path(__file__).parent / "conformance" / "api"
TABLE, OUTSIDE = FOLDER / "signatures.txt", FOLDER / "outside.txt"

#: What is called otherwise, and why.
OTHERWISE = {
    "DType": "made by tapec alone",
    "Tensor": "made by tapec alone",
    "dtypes.DType": "made by tapec alone",
    "errors": "messages carry a location and a hint instead of TensorFlow's node",
}


def listed() -> dict[str, str]:
    """What TensorFlow says of each of its public names."""
    return dict(line.split(" ", 1) for line in TABLE.read_text("utf-8").splitlines())


def found(name: str) -> Any:
    """The object of that name in tapec, or None."""
    place: Any = tapec
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


@cache  # every absent name is looked for among all those that are like it
def signatures() -> dict[str, str]:
    """TensorFlow's parameters of each function or class that tapec has too."""
    return {
        name: text.removeprefix("class ")
        for name, text in listed().items()
        if "(" in text and callable(found(name)) and not excepted(name)
    }


def excepted(name: str) -> bool:
    return name in OTHERWISE or name.split(".")[0] in OTHERWISE


def parameters(text: str) -> tuple[list[str], dict[str, str]]:
    """Names in order, and defaults as text, of ``(x, axis=None)``."""
    definition = ast.parse(f"def f{text}: pass").body[0]
    assert isinstance(definition, ast.FunctionDef)
    arguments = definition.args
    names = [a.arg for a in arguments.args]
    defaults = arguments.defaults
    return names, {
        name: ast.unparse(value)
        for name, value in zip(names[len(names) - len(defaults) :], defaults, strict=True)
    }


def shown(default: Any) -> str:
    """A default as the table has it."""
    if isinstance(default, Enum):
        return f"{type(default).__name__}.{default.name}"
    if inspect.isfunction(default):
        return default.__name__
    return default.name if isinstance(default, tapec.DType) else repr(default)


@pytest.mark.parametrize("name", signatures())
def test_a_call_of_tensorflow_is_a_call_of_tapec(name: str) -> None:
    names, defaults = parameters(signatures()[name])
    ours = inspect.signature(found(name)).parameters
    places = [p.name for p in ours.values() if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    assert places[: len(names)] == names
    for parameter, default in defaults.items():
        own = ours[parameter].default
        assert own is not inspect.Parameter.empty, f"{parameter} has no default"
        # A name in TensorFlow's graph is None here, and so are objects that are nothing but themselves.
        # A tuple stands for a list, which every call would share.
        same = {shown(own), repr(list(own))} if isinstance(own, tuple) else {shown(own)}
        assert parameter == "name" or "<object" in default or default in same, parameter
    added = list(ours.values())[len(names) :]
    assert all(
        p.default is not p.empty or p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in added
    )


@cache
def methods() -> dict[str, str]:
    """TensorFlow's methods and properties of the classes that programs use most."""
    return dict(
        line.split(" ", 1) for line in (FOLDER / "methods.txt").read_text("utf-8").splitlines()
    )


@pytest.mark.parametrize("name", methods())
def test_a_method_of_tensorflow_is_one_of_tapec(name: str) -> None:
    owner, _, last = name.rpartition(".")
    member = inspect.getattr_static(found(owner), last)
    if methods()[name] == "property":
        assert not inspect.isfunction(member)
        return
    names, _ = parameters(methods()[name])
    ours = list(inspect.signature(getattr(found(owner), last)).parameters)
    assert ours[: len(names)] == names


# -- what is not there


@cache
def refusals() -> dict[str, str]:
    """What is said about each name of TensorFlow's that tapec has not; of a whole namespace, once."""
    said: dict[str, str] = {}
    for name in listed():
        parent, _, last = name.rpartition(".")
        if found(name) is None and (not parent or found(parent) is not None):
            try:
                getattr(found(parent) if parent else tapec, last)
            except AttributeError as error:
                said[name] = str(error)
    return said


def lines(said: dict[str, str]) -> str:
    return "".join(f"{name}: {text}\n" for name, text in sorted(said.items()))


def test_absent_names_are_listed() -> None:
    known = dict(line.split(": ", 1) for line in OUTSIDE.read_text("utf-8").splitlines())
    assert refusals() == known, f"write {OUTSIDE.name} anew"


def test_absent_names_say_what_to_do() -> None:
    plain = [
        name for name, text in refusals().items() if ": " not in text and "did you mean" not in text
    ]
    assert not plain


def test_other_names_are_plainly_absent() -> None:
    with pytest.raises(AttributeError, match=r"tapec\.nn has no 'no_such_name'$"):
        _ = tapec.nn.no_such_name  # type: ignore[attr-defined]
    with pytest.raises(
        AttributeError, match=r"tapec\.math has no 'logg', did you mean tapec\.math\.log\?"
    ):
        _ = tapec.math.logg  # type: ignore[attr-defined]


if __name__ == "__main__":
    OUTSIDE.write_text(lines(refusals()), "utf-8")
