"""The namespace ``tapec.config``: devices, and every setting of tapec. The only reader of the environment.

A setting is read when it is used, so that a test may change it; `settings` lists them for ``tapec config``.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tapec.absences.names import namespace
from tapec.config import experimental as experimental
from tapec.config import threading as threading
from tapec.config.names import hold
from tapec.devices import LogicalDevice as LogicalDevice
from tapec.devices import PhysicalDevice as PhysicalDevice
from tapec.devices import get_soft_device_placement as get_soft_device_placement
from tapec.devices import get_visible_devices as get_visible_devices
from tapec.devices import list_logical_devices as list_logical_devices
from tapec.devices import list_physical_devices as list_physical_devices
from tapec.devices import set_soft_device_placement as set_soft_device_placement
from tapec.devices import set_visible_devices as set_visible_devices
from tapec.errors import ValueError
from tapec.recording import functions_run_eagerly as functions_run_eagerly
from tapec.recording import run_functions_eagerly as run_functions_eagerly
from tapec.runtime.processors import MOST_THREADS, processors


class Setting(NamedTuple):
    """One environment variable."""

    name: str
    default: str
    meaning: str

    @property
    def value(self) -> str:
        """The variable's value, or the default."""
        return os.environ.get(self.name, self.default)

    @property
    def number(self) -> int:
        """The value as a whole number; one that is set but empty is the default.

        Raises:
            ValueError: it is none, or negative.
        """
        text = self.value or self.default
        with suppress(builtins.ValueError):
            if int(text) >= 0:
                return int(text)
        raise ValueError(
            f"{self.name} is a whole number from 0 on, got {text!r}",
            hint=f"{self.name}: {self.meaning}",
        )


_THREADS = Setting(
    "TAPEC_NUM_THREADS", "", "threads of compiled code; empty or 0: the cores this process may use"
)
_CACHE = Setting(
    "TAPEC_CACHE", "", "folder of compiled code; empty: the user's cache folder; 0: none"
)
_CACHE_SIZE = Setting("TAPEC_CACHE_SIZE", "512", "MiB that the folder of compiled code may take")
_CHECK = Setting("TAPEC_CHECK", "0", "0 off, 1 verify after each pass, 2 also evaluate and compare")
_POISON = Setting(
    "TAPEC_POISON",
    "0",
    "1: compiled code fills memory that it is done with with NaN patterns; so it does if TAPEC_CHECK is 2",
)
_DIRECT = Setting(
    "TAPEC_DIRECT",
    "0",
    "1: convolutions are summed up term by term; otherwise those with filters of 3 by 3 take fewer multiplications",
)
_DUMP = Setting("TAPEC_DUMP", "", "folder that gets the program after each pass")
_NATIVE = Setting(
    "TAPEC_EAGER_NATIVE",
    "2",
    "at which turn of a loop the gradient of its eager tape becomes native; 0: never",
)

_EAGER = Setting(
    "TAPEC_EAGER",
    "0",
    "1: compiled functions run as plain Python, for debuggers; read at the start",
)

_DEBUG = Setting(
    "TAPEC_DEBUG",
    "0",
    "1: compiled code has the lines of its source, for gdb and perf; else a folder for it",
)

_PERF = Setting(
    "TAPEC_PERF",
    "",
    "map: perf gets the names of compiled functions; jitdump: their code, too; see docs/compile.md",
)

settings = (
    _THREADS, _CACHE, _CACHE_SIZE, _CHECK, _POISON, _DIRECT, _DUMP, _NATIVE, _EAGER, _DEBUG, _PERF,
)  # fmt: skip

if _EAGER.value not in ("", "0"):
    run_functions_eagerly(True)


@contextmanager
def with_keras_backend(name: str) -> Iterator[None]:
    """Keras reads in the environment what it is to run on, while it is imported; it is left as it was."""
    before = os.environ.get("KERAS_BACKEND")
    os.environ["KERAS_BACKEND"] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ["KERAS_BACKEND"]
        else:
            os.environ["KERAS_BACKEND"] = before


def environment() -> dict[Any, Any]:
    """The variables of the process as they are kept, for who wants to see them change."""
    found: dict[Any, Any] = vars(os.environ)["_data"]
    return found


def is_environment(thing: Any) -> bool:
    """Whether it is the mapping by which code reads and writes the variables of the process."""
    return isinstance(thing, type(os.environ))


def threads() -> int:
    """Number of threads that compiled code may use: no more than a program can, however many cores there are."""
    chosen = threading.get_intra_op_parallelism_threads()
    if not chosen and _THREADS.value:
        chosen = _THREADS.number
    return min(chosen or processors(), MOST_THREADS)


def cache_folder() -> Path | None:
    """Where compiled code is kept on disk; None when it is not."""
    if _CACHE.value in ("0", "off"):
        return None
    if _CACHE.value:
        return Path(_CACHE.value)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "tapec"


def cache_bytes() -> int:
    """How many bytes compiled code may take on disk."""
    return _CACHE_SIZE.number << 20


def check_level() -> int:
    """How much is checked after each pass: 0, 1 or 2."""
    return _CHECK.number


def direct() -> bool:
    """Whether compiled code sums up convolutions term by term."""
    return _DIRECT.value not in ("", "0")


def poison() -> bool:
    """Whether compiled code fills memory that it is done with."""
    return _POISON.value not in ("", "0") or check_level() >= 2


def dump_folder() -> Path | None:
    """Where programs are dumped after each pass; None when they are not."""
    return Path(_DUMP.value) if _DUMP.value else None


def debug_folder() -> Path | None:
    """Where compiled code is written with the lines of its source, for tools; None when it is not."""
    if _DEBUG.value in ("", "0"):
        return None
    if _DEBUG.value != "1":
        return Path(_DEBUG.value)
    import tempfile  # slow to import, and rarely needed

    return Path(tempfile.gettempdir()) / f"tapec-debug-{os.getuid()}"


def perf() -> str | None:
    """In which form Linux's perf is told of compiled functions; None if it is not."""
    return None if _PERF.value in ("", "0") else _PERF.value


def breakpoints_off() -> bool:
    """Whether Python is told to pass over ``breakpoint()``."""
    return os.environ.get("PYTHONBREAKPOINT") == "0"


def own_debugger() -> bool:
    """Whether Python is told to call another debugger than its own at ``breakpoint()``."""
    return os.environ.get("PYTHONBREAKPOINT", "") not in ("", "0", "pdb.set_trace")


def colours() -> bool:
    """Whether text on a terminal may have colours: not where NO_COLOR says so, nor on one that has none."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def native_turn() -> int:
    """At which turn of a loop an eager gradient is compiled; 0 never."""
    return _NATIVE.number


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("config")

hold(__name__)
