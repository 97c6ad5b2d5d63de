"""Faults put into kernels' texts: the simulator has to refuse them, or what it gives has to be wrong.

What it would let pass it would let pass in a kernel that is written wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.compiler import lowered_for
from tapec.ir.core import Module
from tapec.runtime.cuda.program import simulated
from tapec.runtime.cuda.simulator.memory import SimulationError
from tapec.runtime.cuda.simulator.simulator import MOST_BLOCKS
from tapec.runtime.cuda.text.module_text import Text, write_text


def array(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


@dataclass(frozen=True)
class Program:
    """A function and what it is called with."""

    function: Callable[..., Any]
    given: tuple[Any, ...]

    def module(self) -> Module:
        """As it is for devices."""
        specs = [tapec.TensorSpec(a.shape, a.dtype) for a in self.given]
        return lowered_for(tapec.compile(self.function).trace(*specs), "cuda")


def recurrent(x: Any, w: Any) -> Any:
    return tapec.foldl(lambda h, now: tapec.tanh(h @ w + now), x, initializer=tapec.zeros([8, 34]))


def scattered(at: Any, rows: Any) -> Any:
    return tapec.math.unsorted_segment_sum(rows, at, 7)


PLACES = np.array([6, 0, 3, 3, 1, 6], np.int32)
PROGRAMS = {
    "softmax": Program(tapec.nn.softmax, (array(3, 150),)),
    "sums": Program(lambda x: tapec.reduce_sum(x, axis=1), (array(3, 300),)),
    "total": Program(tapec.reduce_sum, (array(40, 50),)),
    "product": Program(tapec.matmul, (array(40, 33), array(33, 25))),
    "copied product": Program(tapec.matmul, (array(64, 32), array(32, 32))),
    "recurrent": Program(recurrent, (array(3, 8, 34), 0.1 * array(34, 34))),
    "scatter": Program(scattered, (PLACES, array(6, 35))),
    "elementwise": Program(lambda x: tapec.tanh(x) * 2.0, (array(9, 31),)),
    "joined": Program(lambda x, y: (tapec.exp(x), tapec.tanh(y)), (array(9, 31), array(40))),
    "transpose": Program(lambda x: tapec.transpose(x) + 1.0, (array(12, 17),)),
}
BARRIER, CHECK = r"\n +barrier\(\)", r"if (j\w*) < u32\(150\):"
#: Programs, what stands in their text, which of the places (from 0; -1 is the last), and what stands there instead.
FAULTS: dict[str, tuple[str, str, int, str]] = {
    "sums of warps are read too soon": ("softmax", BARRIER, 0, ""),
    "a row begins while the last is read": ("sums", BARRIER, -1, ""),
    "half of the threads wait": (
        "softmax",
        r"( +)barrier\(\)",
        0,
        r"\1if thread() < u32(128):\n\1    barrier()",
    ),
    "sums lie in the row": ("softmax", r"(sums\w*) = shared_f32\(\d+\)", 1, r"\1 = shared_f32(0)"),
    "one too many": ("softmax", CHECK, 0, r"if \1 <= u32(150):"),
    "no check of a store": ("softmax", CHECK, 1, "if True:"),
    "no check of a sum": ("softmax", CHECK, 2, "if True:"),
    "no check of a result": ("softmax", CHECK, 3, "if True:"),
    "all threads store a warp's sum": ("sums", r"if u32\(thread\(\) % .*:", 0, "if True:"),
    "a warp's sum without half of it": ("sums", r"shuffle_xor_f32\((\w+), 16\)", 0, "f32(0)"),
    "a lane adds its neighbour's twice": ("sums", r"_f32\((\w+), 8\)", 0, r"_f32(\1, 4)"),
    "threads do what others do": ("total", r"u32\(i \+ u32\(256\)\)", 0, "u32(i + u32(128))"),
    "threads leave gaps": ("total", r"u32\(i \+ u32\(256\)\)", 0, "u32(i + u32(257))"),
    "a tile is read too soon": ("product", BARRIER, 0, ""),
    "the next tile comes too soon": ("product", BARRIER, -1, ""),
    "tiles overlap": ("product", r"shared_f32\(5120\)", 0, "shared_f32(2560)"),
    "a tile of other rows": ("product", r"// u32\(16\)", 0, "// u32(8)"),
    "a tile's rows of another length": ("product", r"\* u32\(20\)", 0, "* u32(16)"),
    "column for row": ("product", r"t_1 % u32\(8\)", 0, "t_1 // u32(8)"),
    "a copy is not waited for": ("copied product", r"\n +wait_copies\(0\)", 0, ""),
    "a copy too many goes on": ("copied product", r"wait_copies\(0\)", 0, "wait_copies(1)"),
    "copies are not ended": ("copied product", r"\n +commit_copies\(\)", 0, ""),
    "copies that others read": ("copied product", BARRIER, 0, ""),
    "the next part comes into the one that is read": (
        "copied product",
        r"% u32\(2\)\)",
        0,
        "* u32(0))",
    ),
    "a tile at an odd place": ("copied product", r"shared_f32\(5120\)", 0, "shared_f32(5124)"),
    "four neighbours one further": (
        "copied product",
        r"load4_f32\((scratch_1\w*), u32\(",
        0,
        r"load4_f32(\1, u32(u32(1) + ",
    ),
    "rows go on before they are there": ("recurrent", BARRIER, 0, ""),
    "rows change while they are read": ("recurrent", BARRIER, 1, ""),
    "all rows are the first": ("recurrent", r"i = u32\(block\)", 0, "i = u32(0)"),
    # The first barrier is of a single warp, which looks at the places.
    "updates before there is anything": ("scatter", BARRIER, 1, ""),
    "updates of a row too many": ("scatter", r"if j < u32\(35\)", 0, "if j <= u32(35)"),
    "blocks leave gaps": ("elementwise", r"block \* u32\(32\)", 0, "block * u32(33)"),
    "blocks meet": ("elementwise", r"block \* u32\(32\)", 0, "block * u32(31)"),
    "turns leave gaps": ("elementwise", r"blocks \* u32\(32\)", 0, "blocks * u32(33)"),
    "one block too many": ("elementwise", r"while i < u32\(279\)", 0, "while i <= u32(279)"),
    "a result that is forgotten": ("joined", r"out1\[.*\] = .*", -1, "pass"),
    "a write to an argument": ("joined", r"out1\[(.*)\] = ", -1, r"in0[\1] = "),
    "indices are swapped": (
        "transpose",
        r"u32\(u32\((\w+) \* u32\(17\)\) \+ (\w+)\)",
        0,
        r"u32(u32(\2 * u32(17)) + \1)",
    ),
}


@cache
def of_program(name: str) -> tuple[Module, str, list[Any]]:
    """A program's module, its text and what it gives."""
    program = PROGRAMS[name]
    module = program.module()
    return module, write_text(module).source(), results(module, program.given)


def results(module: Module, given: tuple[Any, ...], blocks: int = MOST_BLOCKS) -> list[Any]:
    return [np.array(r) for r in simulated(module, blocks=blocks)(*given)]


def replaced(text: str, pattern: str, which: int, new: str) -> str:
    """One of the places in a text as something else."""
    found = list(re.finditer(pattern, text))[which]
    return text[: found.start()] + found.expand(new) + text[found.end() :]


def runs(name: str, given: tuple[Any, ...]) -> Iterator[list[Any]]:
    """What a program gives, run by many blocks and by one; nothing where it is refused."""
    for blocks in (MOST_BLOCKS, 1):
        try:
            yield results(of_program(name)[0], given, blocks)
        except SimulationError:
            yield []


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, *change = FAULTS[fault]
    _, text, expected = of_program(name)
    faulty = replaced(text, *change)  # type: ignore[arg-type]
    monkeypatch.setattr(Text, "source", lambda _: faulty)
    for found in runs(name, PROGRAMS[name].given):
        if not found or not all(map(np.array_equal, found, expected)):
            return
    pytest.fail(f"nothing is seen of it: {fault}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_without_faults_nothing_is_found(name: str) -> None:
    expected = of_program(name)[2]
    for found in runs(name, PROGRAMS[name].given):
        assert found
        assert all(map(np.array_equal, found, expected))
