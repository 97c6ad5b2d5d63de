"""What tapes hold, and that they let go of it: without the garbage collector, whatever is done with a tape.

The long form of the growth test is a command: ``python tests/test_tape_memory.py`` takes 20,000 steps.
"""

from __future__ import annotations

import gc
import io
import resource
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from sampling import arrays, cases

import tapec
from tapec.ir.op import Op, Sample
from tapec.ir.reachability import vjp_reads
from tapec.tensor import Tensor, apply


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage collection: what is in a reference cycle stays."""
    gc.disable()
    yield
    gc.enable()


def tensors(operands: list[Any]) -> list[Tensor]:
    return [tapec.constant(a) for a in operands]


KEPT = [
    pytest.param(d, s, id=name)
    for d, s, name in cases()
    if d.differentiable and any(t.dtype.is_differentiable for t in s.types)
]


@pytest.mark.parametrize(("defn", "sample"), KEPT)
def test_only_what_the_derivative_reads_is_kept(
    defn: Op, sample: Sample, uncollected: None
) -> None:
    inputs = tensors(arrays(sample))
    followed = [i for i, x in enumerate(inputs) if x.dtype.is_differentiable]
    with tapec.GradientTape() as tape:
        tape.watch([inputs[i] for i in followed])
        made = apply(defn.name, *inputs, **sample.attrs)
    outputs = list(made) if isinstance(made, tuple) else [made]
    reads = vjp_reads(defn, sample.types, sample.attrs, followed)
    values = {i: weakref.ref(x) for i, x in enumerate(inputs)}
    values |= {~i: weakref.ref(y) for i, y in enumerate(outputs)}
    del inputs, outputs, made
    assert {i for i, value in values.items() if value() is not None} == set(reads)
    del tape
    assert all(value() is None for value in values.values())


# ---- nothing stays


def plain() -> None:
    w = tapec.Variable([[0.5, -1.0], [2.0, 0.3]])
    with tapec.GradientTape() as tape:
        loss = tapec.reduce_sum(tapec.tanh(tapec.ones([3, 2]) @ w))
    tape.gradient(loss, w)


def nested() -> None:
    x = tapec.constant([0.3, 0.7])
    with tapec.GradientTape() as outer:
        outer.watch(x)
        with tapec.GradientTape() as inner:
            inner.watch(x)
            y = tapec.reduce_sum(tapec.exp(x) * x)
        slope = inner.gradient(y, x)
    outer.gradient(slope, x)


def persistent() -> None:
    x = tapec.constant([0.3, 0.7])
    with tapec.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tapec.exp(x)
        z = y * y
    tape.gradient(z, x)
    tape.gradient(y, x)


def abandoned() -> None:
    x = tapec.constant([0.3, 0.7])
    with tapec.GradientTape() as tape:
        tape.watch(x)
        tapec.exp(x) * x


def jacobian() -> None:
    x = tapec.constant([0.3, 0.7])
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = tapec.sin(x) * x
    tape.jacobian(y, x)


@tapec.custom_gradient
def rounded(x: Any) -> Any:
    return tapec.round(x), lambda upstream: upstream * tapec.cos(x)


def custom() -> None:
    x = tapec.constant([0.3, 0.7])
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = rounded(x * 3.0) * x
    tape.gradient(y, x)


def failing() -> None:
    x = tapec.constant([0.3, 0.7])
    try:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = tapec.exp(x)
            y @ x
    except tapec.errors.InvalidArgumentError:
        pass


SCALE = tapec.Variable(2.0)


@tapec.compile
def scaled(x: Any) -> Any:
    y = x * SCALE
    SCALE.assign(SCALE * 1.0)
    return y * SCALE


def compiled() -> None:
    x = tapec.constant([0.3, 0.7])
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = scaled(x) * x
    tape.gradient(y, [x, SCALE])


def unconnected() -> None:
    x, y = tapec.constant(1.0), tapec.constant(2.0)
    with tapec.GradientTape() as tape:
        tape.watch([x, y])
        z = x * x
    assert tape.gradient(z, y) is None


PROGRAMS = [
    plain,
    nested,
    persistent,
    abandoned,
    jacobian,
    custom,
    failing,
    compiled,
    unconnected,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_nothing_stays(program: Callable[[], None], uncollected: None) -> None:
    for _ in range(120):  # NumPy keeps small blocks of memory, up to a number of them
        program()
    gc.collect()
    # What stays does so in each round; a thread that imports meanwhile takes memory in one.
    assert min(grown_by(program) for _ in range(3)) < 80  # less than one for each time


def grown_by(program: Callable[[], None]) -> int:
    """How many blocks of memory are left of 80 times."""
    before = sys.getallocatedblocks()
    for _ in range(80):
        program()
    assert gc.collect() == 0  # nothing was in a cycle
    return sys.getallocatedblocks() - before


def test_a_persistent_tape_keeps_tensors_until_it_goes(uncollected: None) -> None:
    x = tapec.Variable(tapec.ones([10]))
    with tapec.GradientTape(persistent=True) as tape:
        y = tapec.exp(x)
        z = y * y
    kept, unread = weakref.ref(y), weakref.ref(z)
    tape.gradient(z, x)
    del y, z
    assert kept() is not None
    assert unread() is None
    del tape
    assert kept() is None


# ---- what a tape says that it holds


def recorded() -> tuple[Any, Any, int]:
    """A persistent tape, its loss, and the line of the first operation."""
    w = tapec.Variable(np.ones((8, 8), np.float32), name="w")
    x = tapec.ones([4, 8])
    with tapec.GradientTape(persistent=True) as tape:
        line = sys._getframe().f_lineno + 1
        h = tapec.tanh(x @ w)
        y = h * h
        loss = tapec.reduce_sum(tapec.sin(tapec.reshape(y, [8, 4])))
    return tape, loss, line


def test_memory_names_lines_and_reasons() -> None:
    tape, _, line = recorded()
    memory = tape.memory()
    rows = {row.op: row for row in memory.rows}
    # The reshaped y is a view: one buffer, named after the first who is kept. The Variable itself is not read.
    assert set(rows) == {"tanh", "reshape", "from outside of the tape"}
    assert [row.bytes for row in memory.rows] == [128, 128, 128]
    assert memory.total == 3 * 4 * 8 * 4
    tanh = rows["tanh"]
    assert tanh.location is not None
    assert (tanh.location.file, tanh.location.line) == (__file__, line)
    assert [(r.op, r.location and r.location.line) for r in tanh.reasons] == [
        ("tanh", line),
        ("mul", line + 1),
    ]
    assert rows["from outside of the tape"].location is None


def test_memory_is_what_the_arrays_take() -> None:
    tape, _, _ = recorded()
    kept = [x.array for saved in tape._recording.saved for x in saved]
    owners = {id(a if a.base is None else a.base): a for a in kept}
    assert tape.memory().total == sum(a.nbytes for a in owners.values())


def test_memory_of_a_loop_is_one_row() -> None:
    x = tapec.constant([0.3, 0.7])
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(5):
            y = tapec.exp(y)
    (row,) = tape.memory().rows
    assert (row.op, row.arrays, row.bytes) == ("exp", 5, 40)
    assert len(row.reasons) == 1


def test_memory_sees_what_a_derivative_of_the_users_own_refers_to() -> None:
    x = tapec.constant([0.3, 0.7])
    with tapec.GradientTape() as tape:
        tape.watch(x)
        rounded(x)
    assert tape.memory().total == 8


def test_memory_after_the_gradient() -> None:
    tape, loss, _ = recorded()
    before = tape.memory()
    tape.gradient(loss, loss)
    assert tape.memory() == before  # persistent
    x = tapec.constant(1.0)
    with tapec.GradientTape() as once:
        once.watch(x)
        y = x * x
    assert once.memory().total == 4
    once.gradient(y, x)
    assert once.memory().rows == ()
    assert str(once.memory()) == "the tape holds no arrays"


def test_memory_shows_itself() -> None:
    tape, _, line = recorded()
    memory = tape.memory()
    text = str(memory)
    assert text.splitlines()[0] == "what the tape holds"
    assert f"{__file__}:{line}" in text
    assert f"derivative of tanh (line {line}); derivative of mul (line {line + 1})" in text
    assert text.endswith("384 bytes in 3 arrays")
    assert repr(memory) == "<Memory: 384 bytes in 3 arrays>"
    assert "<td>tanh</td>" in memory._repr_html_()
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(memory)
    assert "derivative of tanh" in console.export_text()


def test_the_process_does_not_grow() -> None:
    """In a process of its own: the most memory that one ever had is told, and here others had more."""
    run = subprocess.run(
        [sys.executable, __file__, "2000"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr


def main(steps: int) -> None:
    """Print how much the process grows in so many steps of each kind, after warm-up."""
    for _ in range(200):
        for program in PROGRAMS:
            program()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(steps // len(PROGRAMS)):
        for program in PROGRAMS:
            program()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    sys.stdout.write(f"{steps} steps: {grown} KiB more\n")
    assert grown < 1024


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
