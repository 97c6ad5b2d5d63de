"""The namespace ``tapec.config.threading``: how many threads compiled code may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapec.absent import namespace
from tapec.errors import RuntimeError
from tapec.frames import here

_CHOSEN = {"intra": 0}


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Let functions that are compiled from now on use so many threads; 0: as many as there are cores.

    It takes the place of ``TAPEC_NUM_THREADS``.

    Raises:
        RuntimeError: a negative number.
    """
    if num_threads < 0:
        raise RuntimeError(
            f"the number of threads must not be negative: {num_threads}", location=here()
        )
    _CHOSEN["intra"] = int(num_threads)


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
