"""What gives something else each time it is asked, and so must not be asked while a function is traced.

An iterator that moves on, Python's and NumPy's random numbers, the clock, a file: a program would go on with what one
call got of them. TensorFlow's functions do, and programs written for it expect that; but here it is said, with the line
and what to do. What is only printed, logged or kept aside does no harm: where results of calls go, the bytecode tells.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from types import BuiltinFunctionType, CodeType, FrameType, GeneratorType, ModuleType
from typing import Any

import numpy as np

from tapec.at_line import AtLine
from tapec.autograph.conversion import original_code
from tapec.compiled.guards.flow import CONSTRUCTIONS, Flow, flow_of
from tapec.compiled.guards.ownership import is_users_code
from tapec.compiled.guards.positions import draws, iterates, position_of
from tapec.compiled.guards.reads import parts
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
            *(
                "clock_gettime",
                "clock_gettime_ns",
                "localtime",
                "gmtime",
                "ctime",
                "asctime",
                "strftime",
            ),
        ),
        ("time",),
    ),
    "generate_time_safe": ("_uuid",),
    **dict.fromkeys(("now", "today", "utcnow"), ("datetime", "date")),
    **dict.fromkeys(("random", "getrandbits", "getstate"), ("Random", "SystemRandom")),
    **dict.fromkeys(("urandom", "stat", "listdir", "scandir", "getcwd"), ("posix", "nt")),
    **dict.fromkeys(("times", "getloadavg"), ("posix", "nt")),
    "open": ("io", "_io"),
    **dict.fromkeys(
        ("read", "readline", "readlines"),
        ("TextIOWrapper", "BufferedReader", "BufferedRandom", "FileIO"),
    ),
}
#: What begins numbers that are the same each time.
_SEEDED = "seed"
#: The names of all of them.
NAMES = frozenset({*_ASKED, _SEEDED})
#: Modules of Python's through which code of the user's gets at them.
_BETWEEN = {
    "_strptime", "datetime", "genericpath", "os", "pathlib", "posixpath", "random", "secrets", "tempfile", "uuid",
}  # fmt: skip
#: Who changes what it is given by numbers that it draws.
_SHUFFLING = {"shuffle"}
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
_KEEPING = {"POP_TOP", "STORE_ATTR", "STORE_GLOBAL", "STORE_SUBSCR"}
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
        #: What moves, by what path it is reached, and where it stood.
        self._iterators: list[tuple[Any, str, Any]] = []
        self._generators: list[tuple[Any, str, Any]] = []
        self._resumed: list[FrameType] = []
        self._asked: tuple[str, str, Location | None] | None = None
        #: Generators of Python's that were given a seed, by ``id``.
        self._seeded: dict[int, Any] = {}
        with (
            AtLine("no memory to watch np.random"),
            loading(),
        ):  # NumPy loads it when it is asked for
            self.found(np.random.mtrand._rand, "np.random")

    def found(self, thing: Any, path: str) -> None:
        """Hear of an object in reach."""
        if isinstance(thing, GeneratorType):
            self._iterators.append((thing, path, thing.gi_frame))
        elif draws(thing) and not isinstance(thing, random.Random):  # whose calls are heard
            self._generators.append((thing, path, position_of(thing)))
        elif iterates(thing):
            self._iterators.append((thing, path, position_of(thing)))

    def entered(self, frame: FrameType) -> None:
        """Hear of a generator that runs."""
        self._resumed.append(frame)

    def called(self, frame: FrameType, function: BuiltinFunctionType) -> None:
        """Hear of a call of a function in C."""
        owner = function.__self__
        if function.__name__ == _SEEDED and isinstance(owner, random.Random):
            if frame.f_locals.get("a") is not None:
                self._seeded[id(owner)] = owner
            return
        if self._asked is not None or id(owner) in self._seeded:
            return
        named = owner if isinstance(owner, ModuleType | type) else type(owner)
        if named.__name__ not in _ASKED.get(function.__name__, ()):
            return
        caller: FrameType | None = frame
        while caller is not None and _is_between(caller):
            caller = caller.f_back
        if caller is None or not is_users_code(original_code(caller.f_code), caller.f_globals):
            return
        if _Course(caller).reaches(caller.f_lasti):
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
            if position_of(thing) != before:
                return f"drew random numbers of NumPy's from {path}", "random", None
        for thing, path, before in self._iterators:
            if self._moved(thing, before):
                return f"drew from the iterator {path}", "iterator", None
        return None

    def _moved(self, iterator: Any, before: Any) -> bool:
        if isinstance(iterator, GeneratorType):
            return any(frame is before for frame in self._resumed)
        return bool(position_of(iterator) != before)


def _is_between(frame: FrameType) -> bool:
    """Whether code is Python's or NumPy's, through which the user's gets at what it asks."""
    name = frame.f_globals.get("__name__") or ""
    return name in _BETWEEN or name.startswith("numpy.")


def _sharing(frame: FrameType) -> Sequence[CodeType]:
    """The code that runs in a frame, and that of the functions around and inside with which it shares variables."""
    own, around = frame.f_code, frame.f_code
    outer = frame.f_back
    while outer is not None:
        if any(part is own for part in parts(outer.f_code)):
            around = outer.f_code
        outer = outer.f_back
    return list(parts(around))


class _Course:
    """Where the result of a call goes, within one function."""

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame
        self._followed: set[tuple[int, int]] = set()

    def reaches(self, at: int) -> bool:
        """Whether something of what the call at a place in the code gives may get into the program."""
        flow = flow_of(self._frame.f_code)
        maker = flow.number(at)
        callees = flow.callees(maker)
        if "RandomState" in callees:  # begins with some seed, which it forgets for that it is given
            return len(flow.operands[maker]) <= 2
        return bool(callees & _SHUFFLING) or self._gets_in(flow, maker)

    def _gets_in(self, flow: Flow, maker: int) -> bool:
        if (id(flow), maker) in self._followed:
            return False
        self._followed.add((id(flow), maker))
        return any(self._takes(flow, use.taker) for use in flow.uses[maker])

    def _takes(self, flow: Flow, taker: int) -> bool:
        instruction = flow.instructions[taker]
        name = instruction.opname
        if name in _KEEPING:
            return False
        if name.startswith("STORE_FAST"):
            return any(self._gets_in(flow, load) for load in flow.loads_of(instruction))
        if name == "STORE_DEREF":
            flows = map(flow_of, _sharing(self._frame))
            return any(self._gets_in(f, load) for f in flows for load in f.loads_of(instruction))
        if name in _COMPUTING:
            return self._gets_in(flow, taker)
        if name in ("LOAD_ATTR", "LOAD_METHOD"):
            return instruction.argval not in _TELLING and self._gets_in(flow, taker)
        if name.startswith("CALL"):
            callees = flow.callees(taker)
            if "__exit__" in callees:
                return False
            if callees & _CONVERTING:
                return self._gets_in(flow, taker)
            return not callees & _TELLING
        return True
