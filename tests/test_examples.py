"""Each example runs in seconds and shows what it claims; dumps of its programs can be read back."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dumps import dumps_held

from tapec.ir.op import OPS

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES, README = ROOT / "examples", ROOT / "README.md"

Run = Callable[[str], str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run an example of this name and return what it printed."""

    def run_example(name: str) -> str:
        known = set(OPS)
        try:
            with dumps_held():
                runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        finally:
            for op in set(OPS) - known:
                del OPS[op]  # custom ops of the example
        return capsys.readouterr().out

    return run_example


def number(pattern: str, text: str) -> float:
    """The number that a pattern's group finds in the output."""
    match = re.search(pattern, text)
    assert match is not None, f"{pattern!r} is not in:\n{text}"
    return float(match.group(1).replace(",", ""))


def test_quickstart() -> None:
    """The README's program, called with arrays."""
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, str(README), "exec"), names)
    rng = np.random.default_rng(0)
    x, y = rng.random((32, 64), np.float32), rng.integers(0, 10, 32, np.int32)
    losses = [float(names["train_step"](x, y)[0]) for _ in range(20)]
    assert losses[-1] < losses[0]


def test_memory_budget(run: Run) -> None:
    """Each budget is kept, by steps that compute the same weights."""
    rows = [line.split() for line in run("memory_budget").splitlines()[1:]]
    assert [row[0] for row in rows] == ["none", "0.7", "0.4", "0.25"]
    assert all(row[-1] == "same" for row in rows)
    plain, *others = (int(row[1].replace(",", "")) for row in rows)
    assert all(n <= part * plain for n, part in zip(others, (0.7, 0.4, 0.25), strict=True))


def test_linear_regression(run: Run) -> None:
    out = run("linear_regression")
    assert number(r"largest difference (\S+)", out) < 1e-4
    assert abs(number(r"compiled +\S+ +(\S+)", out) - 3.0) < 0.05


def test_adaptive_training(run: Run) -> None:
    out = run("adaptive_training")
    compiled, eager = (number(rf"{name} +error (\S+)", out) for name in ("compiled", "eager"))
    assert compiled < 0.01
    assert abs(compiled - eager) < 0.1 * eager


def test_train_digits(run: Run) -> None:
    out = run("train_digits")
    rows = {row.split("│")[1].strip(): row.split("│") for row in out.splitlines() if "%" in row}
    for name in ("eager", "compiled"):
        assert float(rows[name][3].strip().removesuffix("%")) >= 97.0
    assert rows["eager"][2] == rows["compiled"][2]


def test_higher_order(run: Run) -> None:
    out = run("higher_order")
    assert abs(number(r"sin'''\(0.7\) = (\S+),", out) - number(r"-cos\(0.7\) = (\S+)", out)) < 1e-5
    assert number(r"step 6: f = (\S+)", out) < 1e-8
    assert "minimum at [1.0, 1.0]" in out


def test_saliency(run: Run) -> None:
    out = run("saliency")
    assert number(r"training loss (\S+):", out) < 0.2
    assert "most important pixel" in out


def test_stop_gradient_dqn(run: Run) -> None:
    out = run("stop_gradient_dqn")
    assert "greedy actions: >>>>>>>" in out
    assert number(r"going right: (\S+)", out) < 0.1


def test_wgan_gp(run: Run) -> None:
    out = run("wgan_gp")
    assert number(r"after: mean distance (\S+),", out) < 0.3
    assert number(r"after: .*, (\d) of 8", out) == 8


def test_pinn_poisson(run: Run) -> None:
    assert number(r"largest error of u: (\S+)", run("pinn_poisson")) < 0.01


def test_fgsm(run: Run) -> None:
    out = run("fgsm")
    clean, attacked = number(r"accuracy (\S+) %", out), number(r"-> (\S+) %", out)
    assert number(r"pixel (\S+)", out) == 0.1
    assert clean > 98
    assert attacked < clean - 30


def test_maml_sine(run: Run) -> None:
    out = run("maml_sine")
    before = number(r"meta-trained: before (\S+),", out)
    after = number(r"meta-trained: .* one step (\S+)", out)
    assert after < 0.4 * before
    assert after < number(r"untrained: .* one step (\S+)", out)


def test_training_recipes(run: Run) -> None:
    out = run("training_recipes")
    assert number(r"large batch by (\S+)", out) < 1e-6
    assert "layer-wise rates:  0.010, 0.010, 0.100, 0.100" in out
    assert "frozen layer moved by 0.0" in out
    assert "masked weights sum to 0.0" in out
    assert abs(number(r"ratio (\S+),", out) - 0.9**10) < 1e-4
    assert "gradient 0.0e+00 without" in out
    assert abs(number(r"without, (\S+) with", out) / 2e-9 - 1) < 0.05


def test_tape_from_scratch(run: Run) -> None:
    out = run("tape_from_scratch")
    assert number(r"f'\(2\) = (\S+),", out) == number(r"2 cos 2 \+ 3 = (\S+)", out)
    assert abs(number(r"slope (\S+) at", out)) < 1e-9


def test_none_gradients(run: Run) -> None:
    out = run("none_gradients")
    assert out.count("remedy:") == 4
    for line in (
        "np.square(v.numpy())",
        "tape.watch(x)",
        "slope = inner.gradient",
        "tapec.round(v)",
    ):
        assert line in out
    assert "variables ['v:0']" in out


def test_custom_op(run: Run) -> None:
    out = run("custom_op")
    assert abs(number(r"rate found (\S+),", out) - 0.2) < 0.002
    assert out.count("calls nothing outside of the program") == 2


def test_keras_series(run: Run) -> None:
    """An LSTM tells what most of the series of an archive show."""
    assert number(r"accuracy on 150 others: (\S+)%", run("keras_series")) >= 90


def test_keras_text(run: Run) -> None:
    """A model of letters that reads more than one of them does better than one that does not."""
    out = run("keras_text")
    assert number(r"per letter: (\S+),", out) < number(r"by pairs of letters (\S+)", out) - 0.3
    assert "The statement " in out
