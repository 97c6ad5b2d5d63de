"""`print`: tensors in text, eagerly and whenever a compiled function runs."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tapec import arguments
from tapec.cyclic import Finite
from tapec.errors import ValueError
from tapec.frames import here
from tapec.tensor import Array, Tensor, as_tensor
from tapec.traces.effects import tell

#: Axes and elements that are shown at each end of a long axis.
_SUMMARIZE = 3
_FILE = "file://"


def print(
    *inputs: Any,
    output_stream: Any = None,
    summarize: int = _SUMMARIZE,
    sep: str = " ",
    end: str | None = "\n",
    name: str | None = None,
) -> None:
    """Print values; in a compiled function, at each of its calls.

    Tensors and Variables, also inside of lists, tuples and dicts, are printed by their elements; anything else as
    Python prints it. What a compiled function prints appears when its call ends, in the order of the program; if a
    check fails, what comes before it.

    Args:
        inputs: what to print.
        output_stream: ``sys.stderr`` (the default), ``sys.stdout``, a level of `logging` (``logging.info`` and its
            kin, or their names), or ``"file://"`` and a path, to which lines are added.
        summarize: how many elements at each end of a long axis; all, if it is -1.
        sep: between the inputs.
        end: after the last one; None for nothing.
        name: ignored.

    Raises:
        ValueError: ``output_stream`` is none of those; or an input contains itself.
    """
    write = _writer(output_stream)
    summarize, sep = arguments.integer(summarize, "summarize"), arguments.text(sep, "sep")
    end = "" if end is None else arguments.text(end, "end")
    texts: list[str] = [""]
    tensors: list[Tensor] = []
    for position, thing in enumerate(inputs):
        texts[-1] += sep if position else ""
        if isinstance(thing, str):
            texts[-1] += thing
            continue
        with Finite(thing):
            _collect(thing, texts, tensors)
    texts[-1] += end

    def show(*arrays: Array) -> None:
        shown = [element_text(a, summarize) for a in arrays]
        write("".join(t for pair in zip(texts, [*shown, ""], strict=True) for t in pair))

    tell(show, tensors, "print")


def _collect(thing: Any, texts: list[str], tensors: list[Tensor]) -> None:
    """Add to the texts what surrounds the tensors in a structure, and to the tensors these."""
    if isinstance(thing, Tensor) or hasattr(thing, "read_value"):
        tensors.append(as_tensor(thing))
        texts.append("")
    elif isinstance(thing, Mapping):
        texts[-1] += "{"
        for position, (key, value) in enumerate(thing.items()):
            texts[-1] += f"{', ' if position else ''}{key!r}: "
            _collect(value, texts, tensors)
        texts[-1] += "}"
    elif isinstance(thing, list | tuple):
        left, right = ("[", "]") if isinstance(thing, list) else ("(", ")")
        texts[-1] += left
        for position, value in enumerate(thing):
            texts[-1] += ", " if position else ""
            _collect(value, texts, tensors)
        texts[-1] += f"{',' if right == ')' and len(thing) == 1 else ''}{right}"
    else:
        texts[-1] += repr(thing)


def element_text(array: Array, summarize: int = _SUMMARIZE) -> str:
    """The elements of an array as TensorFlow prints them: ``[0 1 2 ... 7 8 9]``, rows below each other."""
    ends = array.size if summarize < 0 else summarize
    return _axis_text(np.asarray(array), ends, 1)


def _axis_text(array: Array, ends: int, depth: int) -> str:
    if array.ndim == 0:
        return _number_text(array[()])
    size = len(array)
    rows = [
        _axis_text(np.asarray(array[i]), ends, depth + 1)
        for i in range(size)
        if not ends <= i < size - ends
    ]
    if size > 2 * ends:
        rows.insert(ends, "...")
    # Rows stand below each other, matrices apart from each other by an empty line.
    between = " " if array.ndim == 1 else "\n" * (array.ndim - 1) + " " * depth
    return f"[{between.join(rows)}]"


def _number_text(number: Any) -> str:
    """A number in as few digits as tell it from its neighbours, of the two numbers of digits that C has for that."""
    kind = np.asarray(number).dtype
    if kind.kind == "b":
        return "1" if number else "0"
    if kind.kind in "iu":
        return str(int(number))
    if kind.kind == "c":
        return str(number)
    if kind.kind in "OSU":
        return f'"{number.decode() if isinstance(number, bytes) else number}"'
    few, all_digits = (15, 17) if kind.itemsize == 8 else (6, 9)
    short = f"{float(number):.{few}g}"
    round_trip = np.float64(short) if kind.itemsize == 8 else np.float32(short)
    return short if round_trip == number or number != number else f"{float(number):.{all_digits}g}"


def _writer(stream: Any) -> Callable[[str], None]:
    """The function that puts a text where ``output_stream`` says."""
    if stream is None or stream is sys.stderr:
        return lambda text: _write("stderr", text)
    if stream is sys.stdout:
        return lambda text: _write("stdout", text)
    import logging  # slow to import, and rarely asked for

    level = stream if isinstance(stream, str) else getattr(stream, "__name__", "")
    known: Sequence[str] = ("debug", "info", "warning", "error", "critical")
    if level in known and (isinstance(stream, str) or stream is getattr(logging, level)):
        return lambda text: getattr(logging, level)(text.rstrip("\n"))
    if isinstance(stream, str) and stream.startswith(_FILE):
        path = Path(stream.removeprefix(_FILE))
        return lambda text: _append(path, text)
    raise ValueError(
        f"Unsupported output stream {stream!r}",
        location=here(),
        hint='sys.stdout, sys.stderr, logging.info and its kin, or "file://PATH"',
    )


def _write(name: str, text: str) -> None:
    """Write to what ``sys`` calls by this name now."""
    builtins.print(text, end="", file=getattr(sys, name), flush=True)


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
