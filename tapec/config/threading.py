"""The namespace ``tapec.config.threading``: how many threads compiled code may use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tapec.absences.names import namespace
from tapec.config.names import hold
from tapec.errors import RuntimeError
from tapec.frames import here

_CHOSEN = {"intra": 0}
#: Called when the number has changed.
listeners: list[Callable[[], None]] = []


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Let compiled functions use so many threads from their next call on; 0: as many as there are cores.

    It takes the place of ``TAPEC_NUM_THREADS``. Functions are compiled again for another number; their programs for
    the number before are kept for its return.

    Raises:
        RuntimeError: a negative number.
    """
    if num_threads < 0:
        raise RuntimeError(
            f"the number of threads must not be negative: {num_threads}", location=here()
        )
    _CHOSEN["intra"] = int(num_threads)
    for hear in listeners:
        hear()


def get_intra_op_parallelism_threads() -> int:
    """The number that was set, 0 if none was."""
    return _CHOSEN["intra"]


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Without effect: operations of a program run one behind the other."""


def get_inter_op_parallelism_threads() -> int:
    """0: operations of a program run one behind the other."""
    return 0


if not TYPE_CHECKING:  # who checks types knows that other names are mistakes
    __getattr__, __dir__ = namespace("config.threading")

hold(__name__)
