"""Steps that have no memory raise an error of tapec's, and leave Variables as they were: there, address space ends."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tapec.runtime.shortage import loading

#: Takes a train step, `mode`; then one for which there is no room; then, the space being back, both.
SCRIPT = """
import resource
import sys
from pathlib import Path

import numpy as np
import tapec

WIDE, ROOM = 4096, 32 << 20
mode = sys.argv[1]
rng = np.random.default_rng(0)
count = tapec.Variable(0)
layers = [
    tapec.Variable(rng.normal(size=shape).astype("f4") / 64) for shape in ((1, WIDE), (WIDE, 1))
]
speeds = [tapec.Variable(tapec.zeros_like(w)) for w in layers]
everything = [count, *layers, *speeds]


def step(x):
    if mode != "eager":
        count.assign_add(1)
    with tapec.GradientTape() as tape:
        hidden = tapec.tanh(x @ layers[0])
        loss = tapec.reduce_mean((hidden @ layers[1]) ** 2)
    for w, v, g in zip(layers, speeds, tape.gradient(loss, layers)):
        v.assign(0.9 * v + g)
        w.assign_sub(0.1 * v)
    return loss, hidden if mode == "results" else tapec.reduce_sum(hidden)


if mode == "open":
    step = tapec.compile(step, dims={"x": ("N", 1)})
elif mode == "evaluated":
    step = tapec.compile(step, jit=False)
elif mode != "eager":
    step = tapec.compile(step)


def state():
    return [w.numpy().tobytes() for w in everything]


few, many = (rng.normal(size=(rows, 1)).astype("f4") for rows in (2, 8192))
if mode in ("fixed", "results", "evaluated"):
    step.get_concrete_function(many)  # what is compiled needs room, too
for _ in range(4):  # eager gradients are compiled, too
    step(few)
before = state()
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, hard))
for _ in range(2):
    try:
        step(many)
    except tapec.errors.ResourceExhaustedError as error:
        print("no memory for" in str(error), state() == before)
step(few)
between = state()
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
step(many)
print(between != before, state() != between, all(np.isfinite(w.numpy()).all() for w in everything))
"""


@pytest.mark.parametrize("mode", ["fixed", "open", "results", "evaluated", "eager"])
def test_no_variable_is_changed(mode: str) -> None:
    """Native, with sizes that are fixed or open, and with results that have no room; by NumPy; and eagerly."""
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT, mode], capture_output=True, text=True, check=False
    )
    assert told.stdout.split() == ["True"] * 7, told.stdout + told.stderr


#: A first call, with so many bytes of room for what it loads; then one with room for all.
FIRST = """
import resource
import sys
from pathlib import Path

import tapec

w = tapec.Variable(tapec.ones([2]))


@tapec.compile
def step(x):
    w.assign_add(x)
    return tapec.tanh(w)


soft, hard = resource.getrlimit(resource.RLIMIT_AS)
pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + int(sys.argv[1]), hard))
try:
    step(tapec.ones([2]))  # here
except tapec.errors.ResourceExhaustedError as error:
    said = error
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
print(said)
print(w.numpy())
print(step(tapec.ones([2])).numpy().round(2))
"""


@pytest.mark.parametrize(("room", "library"), [(0, "numpy/random"), (32 << 20, "libllvmlite")])
def test_libraries_that_have_no_room(room: int, library: str, tmp_path: Path) -> None:
    """What a first call loads, NumPy's random numbers and LLVM: the error names the line, and all works later."""
    script = tmp_path / "first.py"
    script.write_text(FIRST, encoding="utf-8")
    told = subprocess.run(
        [sys.executable, script, str(room)],
        env={**os.environ, "TAPEC_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not told.stderr
    first, *_, before, after = told.stdout.splitlines()
    assert first.startswith("no memory to ")
    assert library in first
    assert "step(tapec.ones([2]))  # here" in told.stdout
    assert (before, after) == ("[1. 1.]", "[0.96 0.96]")


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOMEM, MemoryError), (errno.EACCES, ImportError)]
)
def test_a_folder_that_an_import_cannot_read(number: int, kind: type[Exception]) -> None:
    """No room for its names is no memory, also where another error tells of it; what nobody may read is not there."""

    @loading()
    def imports() -> None:
        raise ImportError("no numpy/random") from OSError(
            number, os.strerror(number), "/packages/numpy/random"
        )

    with pytest.raises(kind, match="numpy/random"):
        imports()


#: Steps of growing room, in KiB: first there is none for LLVM, then enough for it and not for a thread.
COMPILING = """
import resource
import sys
from pathlib import Path

import tapec

weights = [tapec.Variable(tapec.ones([4, 4])) for _ in range(8)]


def step(x):
    with tapec.GradientTape() as tape:
        loss = tapec.reduce_mean(x)
        for w in weights:
            loss = loss + tapec.reduce_sum(tapec.tanh(x @ w))
    for w, g in zip(weights, tape.gradient(loss, weights)):
        w.assign_sub(g)
    return loss


tapec.compile(lambda x: x + 1)(tapec.ones([2]))
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
for room in 1500, 2000, 2500, 3000, 8200, 40000:
    limit = pages * resource.getpagesize() + (room << 10)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        tapec.compile(step)(tapec.ones([2, 4]))
        print("compiled")
    except (tapec.errors.ResourceExhaustedError, MemoryError):
        print("refused")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_compiler_that_has_no_room_is_not_called(threads: str) -> None:
    """LLVM would end the process, and Python wait for ever for a thread that has no memory to begin."""
    told = subprocess.run(
        [sys.executable, "-c", COMPILING],
        env={**os.environ, "TAPEC_CACHE": "off", "TAPEC_NUM_THREADS": threads},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert told.stdout.split() == ["refused"] * 5 + ["compiled"], told.stdout + told.stderr
