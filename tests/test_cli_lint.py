"""``tapec lint``: silent pitfalls of functions that are compiled, and of those that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_cli_functions import refused, tapec, works

PITFALLS = """
import tapec

w = tapec.Variable([2.0, 1.0])

def model(x, training=False):
    return x * w

def loss_of(y, p, from_logits=False):
    return (y - p) ** 2

@tapec.compile
def step(x, y):
    with tapec.GradientTape(persistent=True) as tape:
        p = model(x)
        loss = loss_of(y, p)
        g = tape.gradient(loss, w)
    return g

@tapec.compile
def loop(x):
    tape = tapec.GradientTape(persistent=True)
    for _ in range(2):
        with tape:
            y = tapec.reduce_sum(x * w)
        g = tape.gradient(y, w)
    return g

@tapec.compile
def good(x, y):
    with tapec.GradientTape() as tape:
        p = model(x, training=True)
        loss = tapec.reduce_mean(loss_of(y, p, from_logits=True))
    return tape.gradient(loss, w)

if __name__ == "__main__":
    x = tapec.ones([2])
    good(x, x)
    loop(x)
    step(x, x)
"""


@pytest.mark.parametrize(
    ("function", "rules"),
    [
        (
            "step",
            {
                ("needless persistent=True", 14),
                ("training is not said", 15),
                ("from_logits is not said", 16),
                ("gradient inside a persistent block", 17),
                ("vector loss", 17),
            },
        ),
        ("loop", {("one tape, many steps", 24)}),
        ("good", set()),
    ],
)
def test_lint(tmp_path: Path, function: str, rules: set[tuple[str, int]]) -> None:
    path = tmp_path / "pitfalls.py"
    path.write_text(PITFALLS)
    code = 1 if rules else 0
    found = json.loads(works("lint", f"{path}:{function}", "--json", code=code))
    assert {(f["rule"], f["line"]) for f in found} == rules
    text = works("lint", f"{path}:{function}", code=code)
    assert text.count("remedy:") == len(rules)


UNCOMPILED = """
import tapec

u = tapec.Variable([[1.0], [2.0]])

@tapec.compile
def makes(x):
    w = tapec.Variable([2.0, 1.0])
    with tapec.GradientTape() as tape:
        loss = x * w
    return tape.gradient(loss, w)

@tapec.compile
def reads(x):
    return x * x.numpy()

@tapec.compile
def only_makes(x):
    return tapec.Variable(1.0) * x

@tapec.compile
def no_arguments():
    with tapec.GradientTape() as tape:
        loss = u * u
    return tape.gradient(loss, u)

@tapec.compile
def of_examples(x):
    with tapec.GradientTape() as outer:
        outer.watch(x)
        with tapec.GradientTape() as inner:
            inner.watch(x)
            y = tapec.tanh(x @ u)
        slope = inner.gradient(y, x)
    return outer.gradient(slope, x)

@tapec.compile
def of_weights(x):
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = x @ u
    return tape.gradient(y, [x, u])
"""


@pytest.mark.parametrize(
    ("function", "rules", "said"),
    [
        ("makes", {"vector loss"}, "makes cannot be compiled: ValueError: makes makes a tapec.V"),
        ("reads", {"host read"}, "reads cannot be compiled; vector losses were not looked for: "),
        ("of_examples", set(), ""),
        ("of_weights", {"vector loss"}, ""),
        ("no_arguments", {"vector loss"}, ""),
    ],
)
def test_lint_sees_what_it_can(tmp_path: Path, function: str, rules: set[str], said: str) -> None:
    """What cannot be compiled has a source; the rows of examples are no vector loss, those of weights are."""
    path = tmp_path / "uncompiled.py"
    path.write_text(UNCOMPILED)
    types = [] if function == "no_arguments" else ["--shapes=f32[2,2]"]
    result = tapec("lint", f"{path}:{function}", *types, "--json")
    assert {found["rule"] for found in json.loads(result.stdout)} == rules
    assert result.stderr.startswith(said)
    assert "click" not in result.stderr
    assert result.exit_code == bool(rules)


def test_lint_of_what_cannot_be_compiled(tmp_path: Path) -> None:
    path = tmp_path / "uncompiled.py"
    path.write_text(UNCOMPILED)
    result = tapec("lint", f"{path}:only_makes", "--shapes=f32[2]")
    assert result.exit_code == 2
    assert "only_makes makes a tapec.Variable at each call" in result.stderr


def test_lint_reads_python(tmp_path: Path) -> None:
    path = tmp_path / "f.tir"
    path.write_text("func @f(%x: f32[4]) -> f32[4] {\n  return %x\n}\n")
    assert "a .tir file has no Python" in refused("lint", path)
