"""What a call takes, which lines own it, and pictures of that."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import tapec
from tapec.cli import main
from tapec.compiled.buffers import ProgramMemory
from tapec.inspection.memory_map import COLOURS, bytes_text, save_png

SCRIPT = """\
import numpy as np
import tapec

sizes = (784, 128, 64, 10)
rng = np.random.default_rng(0)
kernels = [tapec.Variable(0.05 * rng.normal(size=s).astype("f4")) for s in zip(sizes, sizes[1:])]
biases = [tapec.Variable(tapec.zeros([n])) for n in sizes[1:]]

@tapec.compile
def step(x, y):
    with tapec.GradientTape() as tape:
        h = x
        for w, b in zip(kernels[:-1], biases[:-1]):
            h = tapec.nn.relu(h @ w + b)
        logits = h @ kernels[-1] + biases[-1]
        loss = tapec.reduce_mean(
            tapec.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        )
    variables = kernels + biases
    for v, g in zip(variables, tape.gradient(loss, variables)):
        v.assign_sub(0.1 * g)
    return loss

if __name__ == "__main__":
    step(rng.normal(size=(32, 784)).astype("f4"), rng.integers(0, 10, 32).astype("i4"))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mem") / "mlp.py"
    path.write_text(SCRIPT, encoding="utf-8")
    return path


def run(*arguments: object) -> str:
    """What ``tapec mem`` prints."""
    done = CliRunner().invoke(main, ["mem", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def memory(script: Path) -> ProgramMemory:
    names: dict[str, Any] = {"__name__": "mlp"}
    exec(compile(SCRIPT, str(script), "exec"), names)
    found: ProgramMemory = names["step"].memory(
        tapec.TensorSpec([32, 784]), tapec.TensorSpec([32], tapec.int32)
    )
    return found


def test_a_step_takes_its_activations_and_no_gradients(memory: ProgramMemory) -> None:
    """A network of 784-128-64-10, 32 rows, updated in place: less than 48 KiB, where one gradient takes 392 KiB."""
    assert isinstance(memory.arena, int)
    assert memory.arena <= 48 * 1024
    assert memory.arena == memory.lower_bound
    assert memory.states == 4 * (784 * 128 + 128 * 64 + 64 * 10 + 128 + 64 + 10)
    assert not any("784" in b.type for b in memory.buffers)


def test_what_is_alive_at_the_peak_adds_up(memory: ProgramMemory) -> None:
    assert sum(b.bytes for b in memory.alive) == memory.lower_bound
    largest = memory.alive[0]
    assert largest.location is not None
    assert largest.location.text == "h = tapec.nn.relu(h @ w + b)"
    assert memory.alive == memory.at(memory.peak_at)


def test_the_picture_has_a_rectangle_for_each_value(memory: ProgramMemory) -> None:
    root = ET.fromstring(memory.svg())
    titles = [e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == len(memory.buffers)
    assert any("h = tapec.nn.relu(h @ w + b)" in title for title in titles)
    rects = [e for e in root.iter("{http://www.w3.org/2000/svg}rect") if len(e)]
    assert {e.get("fill") for e in rects} <= set(COLOURS.values())
    # The largest is as high as its share of the arena.
    heights = sorted(float(e.get("height", 0)) for e in rects)
    assert heights[-1] == pytest.approx((440 - 30 - 62) * 16384 / 40960, abs=0.1)


def test_the_picture_in_letters(memory: ProgramMemory) -> None:
    lines = memory.picture().splitlines()
    assert lines[0].endswith("arena")
    assert lines[0].split()[0] == "40"
    body = [line.partition("│")[2] for line in lines if "│" in line]
    assert len(body) == 24
    assert "A" in body[-1]
    assert sum(line.startswith("* ") for line in lines) == len(memory.alive)


def test_in_notebooks(memory: ProgramMemory) -> None:
    html = memory._repr_html_()
    assert html.startswith("<svg")
    assert "alive when most bytes are in use" in html


def test_loops_and_branches_are_inside_of_their_operation() -> None:
    @tapec.compile
    def f(x: Any) -> Any:
        y = tapec.tanh(x @ x)
        return tapec.scan(lambda a, row: tapec.tanh((a @ y) @ (a + row)), y, tapec.ones([8, 8]))

    f(tapec.ones([8, 8]))
    memory = f.memory()
    kinds = {b.kind for b in memory.buffers}
    assert "product" in kinds
    inside = [
        b for b in memory.buffers if b.span[0] != int(b.span[0]) or b.span[1] != int(b.span[1])
    ]
    assert inside
    ET.fromstring(memory.svg())


def test_open_sizes_are_drawn_at_typical_ones() -> None:
    @tapec.compile(dims={"x": ("N", 8)})
    def f(x: Any) -> Any:
        return tapec.tanh(tapec.matmul(tapec.tanh(x), x, transpose_b=True)) @ x

    memory = f.memory(tapec.TensorSpec([None, 8]))
    assert not isinstance(memory.arena, int)
    assert "f32[N,N]" in memory.svg()
    ET.fromstring(memory.svg())
    assert memory.picture()


def test_sizes_left_open_keep_their_declared_bound() -> None:
    @tapec.compile(dims={"x": ("N<=128", 16)})
    def gram(x):  # type: ignore[no-untyped-def]
        rows = tapec.tanh(x)
        return tapec.reduce_sum(rows @ tapec.transpose(rows))

    most = gram.memory(np.ones((4, 16), np.float32)).arena
    assert gram.memory(tapec.TensorSpec([None, 16])).arena == most
    assert gram.memory(tapec.TensorSpec([None, None])).arena == most


def test_nothing_in_the_arena() -> None:
    f = tapec.compile(lambda x: x + 1.0)
    memory = f.memory(tapec.TensorSpec([3]))
    assert (memory.arena, memory.alive, memory.peak_at) == (0, (), 0.0)
    ET.fromstring(memory.svg())


@pytest.mark.parametrize(
    ("bytes", "text"), [(0, "0 B"), (1000, "1000 B"), (40960, "40 KiB"), (3 << 19, "1.5 MiB")]
)
def test_bytes(bytes: int, text: str) -> None:
    assert bytes_text(bytes) == text


# ---- the command


def test_command(script: Path, tmp_path: Path) -> None:
    text = run(f"{script}:step", "--svg", tmp_path / "mem.svg")
    assert "arena       40,960 bytes, 1.0000 of the lower bound" in text
    assert "parameters  437,544 bytes, updated in place" in text
    assert f"{script}:14" in text
    ET.fromstring((tmp_path / "mem.svg").read_text(encoding="utf-8"))
    assert "what is in the arena" in run(f"{script}:step", "--all")


def test_command_for_types(script: Path) -> None:
    found = json.loads(run(f"{script}:step", "--shapes", "f32[64,784] i32[64]", "--json"))
    assert found["arena"] == 2 * 40960
    assert sum(b["bytes"] for b in found["alive"]) == found["lower_bound"]
    assert found["buffers"][0]["line"] == 14


def test_png_needs_matplotlib(memory: ProgramMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(RuntimeError, match=r"pip install 'tapec\[plot\]'"):
        save_png(memory, Path("mem.png"))


def test_png(memory: ProgramMemory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is drawn, by a stand-in for matplotlib that only counts."""
    drawn: list[str] = []

    class Axes:
        def __getattr__(self, name: str) -> Any:
            return lambda *args, **kwargs: drawn.append(name)

    class Figure:
        def __init__(self, **kwargs: Any) -> None:
            pass

        def subplots(self) -> Axes:
            return Axes()

        def savefig(self, file: Path) -> None:
            file.write_bytes(np.ones(3, np.uint8).tobytes())

    stand_in = type(sys)("matplotlib.figure")
    stand_in.Figure = Figure  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "matplotlib", type(sys)("matplotlib"))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", stand_in)
    save_png(memory, tmp_path / "mem.png")
    kinds = {b.kind for b in memory.buffers}
    assert drawn.count("bar") == len(memory.buffers) + len(kinds)
    assert (tmp_path / "mem.png").exists()


def test_operators_are_called_as_what_they_do() -> None:
    """A number on the left is no other operation, and a power of several operations is one."""

    @tapec.compile
    def run(x: Any) -> Any:
        return round(1.5 * x) ** 2 @ x

    made = {b.made_by for b in run.memory(np.ones((3, 3), np.float32)).buffers}
    assert made == {"pow"}
