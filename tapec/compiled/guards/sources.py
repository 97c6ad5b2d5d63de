"""What gives something else each time it is asked, and so must not be asked while a function is traced.

An iterator that moves on, Python's and NumPy's random numbers, the clock, a file: a program would go on with what one
call got of them. TensorFlow's functions do, and programs written for it expect that; but here it is said, with the line
and what to do. What is only printed, logged or kept aside does no harm: where results of calls go, the bytecode tells.
"""

from __future__ import annotations

import random
import warnings
from types import BuiltinFunctionType, FrameType, GeneratorType, ModuleType
from typing import Any

import numpy as np

from tapec.at_line import AtLine
from tapec.autograph.conversion import original_code
from tapec.compiled.guards.flow import CONSTRUCTIONS, Flow, flow_of
from tapec.compiled.guards.ownership import is_users_class, is_users_code
from tapec.compiled.retraces import RetraceWarning
from tapec.frames import depth, resolve
from tapec.ir.location import Location
from tapec.runtime.shortage import loading

#: Functions of Python's that are written in C, by name: the modules or the classes that have them.
_ASKED = {
    **dict.fromkeys(
        (
            *("time", "perf_counter", "monotonic", "process_time", "thread_time"),
            *("time_ns", "perf_counter_ns", "monotonic_ns", "process_time_ns", "thread_time_ns"),
            *("localtime", "gmtime"),
        ),
        ("time",),
    ),
    **dict.fromkeys(("now", "today", "utcnow"), ("datetime", "date")),
    **dict.fromkeys(("random", "getrandbits", "getstate"), ("Random", "SystemRandom")),
    **dict.fromkeys(("urandom", "stat", "listdir", "scandir", "getcwd"), ("posix", "nt")),
    "open": ("io", "_io"),
    **dict.fromkeys(
        ("read", "readline", "readlines"),
        ("TextIOWrapper", "BufferedReader", "BufferedRandom", "FileIO"),
    ),
}
#: The names of all of them.
NAMES = frozenset(_ASKED)
#: Modules of Python's through which code of the user's gets at them.
_BETWEEN = {"datetime", "genericpath", "os", "pathlib", "posixpath", "random", "secrets", "uuid"}
#: Who takes a value and lets nothing of it into the program.
_TELLING = {
    "add", "append", "close", "critical", "debug", "error", "exception", "flush", "info", "log", "print", "warn",
    "warning", "write",
}  # fmt: skip
#: Who gives something made of a value.
_CONVERTING = {"float", "format", "int", "repr", "round", "str"}
#: Instructions that do.
_COMPUTING = {
    "BEFORE_WITH", "BINARY_OP", "BUILD_STRING", "CONVERT_VALUE", "FORMAT_SIMPLE", "FORMAT_VALUE", "FORMAT_WITH_SPEC",
    "UNARY_NEGATIVE", *CONSTRUCTIONS,
}  # fmt: skip
#: Instructions that put a value aside.
_KEEPING = {"POP_TOP", "STORE_ATTR", "STORE_DEREF", "STORE_GLOBAL", "STORE_SUBSCR"}
_OF_FILES = {
    "getcwd", "listdir", "open", "read", "readline", "readlines", "scandir", "stat",
}  # fmt: skip
#: What users call the modules and classes.
_SPELLINGS = {"posix": "os", "nt": "os", "_io": "io", "Random": "random"}
_REMEDIES = {
    "clock": "read the clock outside of the function, and pass what it said as an argument",
    "random": "use tapec.random, whose numbers differ at each call, or pass the numbers as arguments",
    "file": "read it outside of the function, and pass what it held as an argument",
    "iterator": "draw outside of the function, and pass the item as an argument; or draw in a tapec.numpy_function",
}


class Sources:
    """What one trace asked of them."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._iterators: list[tuple[Any, str, Any]] = []
        self._generators: list[tuple[Any, str, Any]] = []
        self._resumed: list[FrameType] = []
        self._asked: tuple[str, str, Location | None] | None = None
        with (
            AtLine("no memory to watch np.random"),
            loading(),
        ):  # NumPy loads it when it is asked for
            self.found(np.random.mtrand._rand, "np.random")

    def found(self, thing: Any, path: str) -> None:
        """Hear of an object in reach."""
        if isinstance(thing, GeneratorType):
            self._iterators.append((thing, path, thing.gi_frame))
        elif isinstance(thing, np.random.Generator | np.random.RandomState):
            self._generators.append((thing, path, _state(thing)))
        elif hasattr(type(thing), "__next__") and not is_users_class(type(thing)):
            self._iterators.append((thing, path, _position(thing)))

    def entered(self, frame: FrameType) -> None:
        """Hear of a generator that runs."""
        self._resumed.append(frame)

    def called(self, frame: FrameType, function: BuiltinFunctionType) -> None:
        """Hear of a call of a function in C."""
        if self._asked is not None:
            return
        owner = function.__self__
        named = owner if isinstance(owner, ModuleType | type) else type(owner)
        if named.__name__ not in _ASKED.get(function.__name__, ()):
            return
        caller: FrameType | None = frame
        while caller is not None and caller.f_globals.get("__name__") in _BETWEEN:
            caller = caller.f_back
        if caller is None or not is_users_code(original_code(caller.f_code), caller.f_globals):
            return
        if _Course(flow_of(caller.f_code)).reaches(caller.f_lasti):
            name = function.__name__
            is_random = isinstance(owner, random.Random) or name == "urandom"
            kind = "random" if is_random else "file" if name in _OF_FILES else "clock"
            name = f"{_SPELLINGS.get(named.__name__, named.__name__)}.{name}"
            place = resolve((caller.f_code, caller.f_lasti, ""))
            self._asked = kind, name, place

    def tell(self, name: str) -> None:
        """Warn, once, if the function asked: its program goes on with what it got, as TensorFlow's functions do."""
        told = self._told()
        if told is None:
            return
        what, kind, place = told
        line = "" if place is None else f"\n  {place.describe()}"
        warnings.warn(
            f"{name} {what} while it was traced, and every call goes on with that{line}\n  remedy: {_REMEDIES[kind]}",
            RetraceWarning,
            stacklevel=depth(),
        )

    def _told(self) -> tuple[str, str, Location | None] | None:
        """What the function did, of which kind that is, and where."""
        if self._asked is not None:
            kind, source, place = self._asked
            return f"computes with what {source} gave", kind, place
        for thing, path, before in self._generators:
            if _state(thing) != before:
                return f"drew random numbers of NumPy's from {path}", "random", None
        for thing, path, before in self._iterators:
            if self._moved(thing, before):
                return f"drew from the iterator {path}", "iterator", None
        return None

    def _moved(self, iterator: Any, before: Any) -> bool:
        if isinstance(iterator, GeneratorType):
            return any(frame is before for frame in self._resumed)
        return bool(_position(iterator) != before)


def _state(generator: Any) -> str:
    """Where NumPy's generator of random numbers is."""
    if isinstance(generator, np.random.RandomState):
        return repr([np.asarray(part).tobytes() for part in generator.get_state()])
    return repr(generator.bit_generator.state)


def _position(iterator: Any) -> Any:
    """Where an iterator of Python's stands; None where it does not tell."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that some of them will not tell any more
            parts = iterator.__reduce__()
    except Exception:  # of whatever class it is
        return None
    return [_place(part) for part in parts]


def _place(part: Any) -> Any:
    if isinstance(part, tuple):
        return [_place(inner) for inner in part]
    if isinstance(part, int | str | None):
        return part
    if isinstance(part, list):
        return len(part)
    return _position(part) if hasattr(type(part), "__next__") else id(part)


class _Course:
    """Where the result of a call goes, within one piece of code."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._followed: set[int] = set()

    def reaches(self, at: int) -> bool:
        """Whether something of what the call at a place in the code gives may get into the program."""
        return self._gets_in(self._flow.number(at))

    def _gets_in(self, maker: int) -> bool:
        if maker in self._followed:
            return False
        self._followed.add(maker)
        return any(self._takes(use.taker) for use in self._flow.uses[maker])

    def _takes(self, taker: int) -> bool:
        instruction = self._flow.instructions[taker]
        name = instruction.opname
        if name in _KEEPING:
            return False
        if name.startswith("STORE_FAST"):
            return any(map(self._gets_in, self._flow.loads_of(instruction)))
        if name in _COMPUTING:
            return self._gets_in(taker)
        if name in ("LOAD_ATTR", "LOAD_METHOD"):
            return instruction.argval not in _TELLING and self._gets_in(taker)
        if name.startswith("CALL"):
            callees = self._flow.callees(taker)
            if "__exit__" in callees:
                return False
            if callees & _CONVERTING:
                return self._gets_in(taker)
            return not callees & _TELLING
        return True
