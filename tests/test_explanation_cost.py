"""What explanations cost while nobody asks: one code location for each operation that a tape records."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import tapec
from tapec.explanations.trail import CAPACITY

ROOT = Path(tapec.__file__).parent


def calls(run: Callable[[], object]) -> Counter[str]:
    """How often functions are called that explanations need, by file."""
    found: Counter[str] = Counter()

    def heard(frame: FrameType, event: str, argument: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            name = path.relative_to(ROOT).as_posix()
            if name == "frames.py" or name.startswith("explanations/"):
                found[name] += 1

    sys.setprofile(heard)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def test_one_location_for_each_operation() -> None:
    v = tapec.Variable(2.0)
    y = v * v  # classifies this file, and makes what is kept of the operation

    def operations() -> None:
        nonlocal y
        for _ in range(10):
            y = y * 1.5

    gc.collect()
    assert not calls(operations)  # no tape
    with tapec.GradientTape() as tape:
        y = v * v
        assert calls(operations) == {"frames.py": 10}
    assert tape.gradient(y, v) is not None


def test_a_location_is_a_code_object_and_a_number() -> None:
    """No frame, which would keep the variables of a function alive, and no line: that is found out when asked."""
    v = tapec.Variable(2.0)
    with tapec.GradientTape() as tape:
        y = v * v
    assert tape._recording is not None
    (record,) = tape._recording.records
    code, instruction, name = record.origin or (None, None, None)
    assert (type(code), type(instruction), type(name)) == (CodeType, int, str)
    assert sys.getsizeof(record.origin) <= 64
    assert tape.gradient(y, v) is not None


def test_an_operation_that_nobody_follows_takes_little_room() -> None:
    """Ids and the location; no array, and no more than a bound of them."""
    x = tapec.constant(2.0)

    def unfollowed(count: int) -> int:
        with tapec.GradientTape() as tape:
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            for _ in range(count):
                x * 1.5
            gc.collect()
            after, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert len(tape.trail.steps) == min(count, CAPACITY)
        return after - before

    unfollowed(10)
    assert unfollowed(1000) < 1000 * 500
    assert unfollowed(CAPACITY + 1000) < CAPACITY * 500
