"""What users pass by mistake, and the public functions to pass it to."""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import strategies as st

import tapec

ROOT = Path(tapec.__file__).resolve().parents[1]
NAMESPACES = """autodiff debugging image initializers linalg math nest nn random signal sets bitwise strings
    audio""".split()

#: Two are tested with functions to compile; explanations are made by tapec alone.
LEFT_OUT = {"compile", "function", "debugging.Explanations"}
#: They change what lasts: a mode, the streams of random numbers.
LASTING = ("set_", "enable_", "disable_", "run_functions_eagerly")


class Thing:
    """Nothing that a function could use."""

    def __repr__(self) -> str:
        return "Thing()"


def _public(module: ModuleType) -> Iterator[str]:
    """The public names of a namespace: what its file defines, or imports under the same name on purpose."""
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ImportFrom):
            yield from (a.name for a in node.names if a.asname == a.name)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def functions() -> dict[str, Callable[..., Any]]:
    """Every public function and class that has a signature, by its name."""
    found: dict[str, Any] = {n: getattr(tapec, n) for n in dir(tapec) if not n.startswith("_")}
    for namespace in NAMESPACES:
        try:
            module = importlib.import_module(f"tapec.{namespace}")
        except ModuleNotFoundError:
            continue
        found |= {f"{namespace}.{n}": getattr(module, n, None) for n in _public(module)}
    return {
        name: thing
        for name, thing in found.items()
        if callable(thing)
        and name not in LEFT_OUT
        and not name.rpartition(".")[2].startswith(LASTING)
        and _has_signature(thing)
    }


def _has_signature(thing: Any) -> bool:
    if inspect.isclass(thing) and issubclass(thing, BaseException | enum.Enum):
        return False  # enumerations have errors of Python's
    try:
        inspect.signature(thing)
    except ValueError:
        return False
    return True


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """Arrays of small numbers in few shapes, so that some fit each other; and kinds that are no tensor's."""
    shape = draw(
        st.sampled_from([(), (0,), (1,), (3,), (2, 3), (3, 3), (3, 0), (2, 3, 3), (1, 4, 4, 2)])
    )
    dtype = draw(
        st.sampled_from(["f4", "f4", "f4", "i4", "i4", "?", "c8", "u8", "U1", "M8[D]", "O"])
    )
    numbers = np.random.default_rng(draw(st.integers(0, 9))).integers(-3, 4, shape)
    array = numbers.astype(dtype)
    if dtype == "f4" and draw(st.booleans()):
        array = np.where(array > 1, np.float32(np.nan), array).astype("f4")
    return array


def _tensor(array: Any) -> Any:
    return tapec.constant(array if array.dtype.kind in "fibcu" else np.ones(3, np.float32))


ARGUMENTS = st.one_of(
    arrays(),
    arrays().map(_tensor),
    arrays().map(lambda a: tapec.Variable(_tensor(a))),
    st.integers(-2, 4),
    st.sampled_from([2**31, 2**63, 2**70, -(2**70), 10**12, True, False, 2.5, -0.0, 1j]),
    st.sampled_from([float("nan"), float("inf"), np.float64(1.5), np.int64(2), np.bool_(True)]),
    st.sampled_from([None, "", "a", "SAME", "float32", b"x", ..., slice(2), int, tapec.float32]),
    st.lists(st.one_of(st.integers(-2, 3), st.none(), st.floats(-1, 1)), max_size=3),
    st.just([[1], [1, 2]]),
    st.just([10**6] * 3),
    st.builds(lambda: [tapec.ones([2]), tapec.ones([3])]),
    st.builds(lambda: [tapec.ones([2]), None]),
    st.builds(lambda: (i for i in range(3))),
    st.builds(dict),
    st.builds(lambda: {"a": 1.0}),
    st.builds(lambda: {1, 2}),
    st.builds(Thing),
    st.builds(lambda: lambda *args: 1.0),
    st.builds(lambda: lambda x: x),
    st.builds(lambda: tapec.IndexedSlices([1.0, 2.0], [0, 5], [9])),
    st.builds(lambda: tapec.IndexedSlices([1.0], [0])),
    st.builds(lambda: tapec.TensorShape([2, None])),
)


def argument_lists(function: Callable[..., Any]) -> st.SearchStrategy[list[Any]]:
    """Positional arguments, as many as the function takes; of those it can do without, some."""
    kinds = inspect.Parameter
    parameters = inspect.signature(function).parameters.values()
    positional = [
        p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    ]
    needed = sum(p.default is kinds.empty for p in positional)
    several = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
    most = len(positional) + (2 if several else 0)
    return st.integers(needed, min(most, needed + 3)).flatmap(
        lambda n: st.lists(ARGUMENTS, min_size=n, max_size=n)
    )


def complaint(error: Exception) -> str | None:
    """What is wrong with an error, or None if a user can make something of it.

    It is one of ours, or says something where tapec itself raises it, or Python found the arguments not to fit.
    """
    if isinstance(error, tapec.errors.TapecError):
        return None
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    here = Path(__file__).name
    is_call = isinstance(error, TypeError) and (
        Path(last.filename).name.startswith(("test_", "<", here))
        or "positional argument" in str(error)
    )
    is_ours = Path(last.filename).is_relative_to(ROOT) and (last.line or "").startswith("raise ")
    if is_call or (is_ours and isinstance(error, TypeError | ValueError | NotImplementedError)):
        return None
    place = next((f for f in reversed(frames) if Path(f.filename).is_relative_to(ROOT)), last)
    return f"{type(error).__name__}: {error}\n  at {place.filename}:{place.lineno} {place.line}"
