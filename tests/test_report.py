"""What a tape reports of its variables: one row each, with the gradient or why there is none."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

import tapec
from tapec.explanations.report import Report


def reported(capsys: pytest.CaptureFixture[str]) -> tuple[Report, str]:
    """A report with a row of each kind, and what was printed."""
    w = tapec.Variable([[3.0], [4.0]])
    stopped = tapec.Variable(1.0)
    frozen = tapec.Variable(2.0, trainable=False)
    count = tapec.Variable(3)
    with tapec.GradientTape() as tape:
        loss = tapec.reduce_sum(w) * frozen + tapec.stop_gradient(stopped)
    report = tape.report(loss, {"w": w, "stopped": stopped, "frozen": frozen, "count": count})
    # Asking did not use the tape up.
    assert tape.gradient(loss, w).numpy().tolist() == [[2.0], [2.0]]
    return report, capsys.readouterr().out


def test_rows(capsys: pytest.CaptureFixture[str]) -> None:
    report, printed = reported(capsys)
    assert printed == f"{report}\n"
    rows = {row.name: row for row in report.rows}
    assert list(rows) == ["count", "frozen", "stopped", "w"]  # dicts go by sorted keys
    w = rows["w"]
    assert (w.shape, w.dtype, w.trainable, w.watched, w.missing) == (
        (2, 1),
        "float32",
        True,
        True,
        None,
    )
    assert w.norm == pytest.approx(math.sqrt(8))
    assert report.global_norm == w.norm
    assert [row.watched for row in report.rows] == [False, False, True, True]
    assert [row.trainable for row in report.rows] == [True, False, True, True]
    causes = {row.name: row.missing.cause for row in report.rows if row.missing}
    assert causes == {
        "count": "integer source",
        "frozen": "trainable=False",
        "stopped": "stop_gradient",
    }


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    report, _ = reported(capsys)
    lines = str(report).splitlines()
    assert lines[:6] == [
        "gradients of loss (f32) = 15",
        "variable  shape  dtype    trainable  watched  gradient",
        "count     []     int32    yes        no       None: integer source",
        "frozen    []     float32  no         no       None: trainable=False",
        "stopped   []     float32  yes        yes      None: stop_gradient",
        "w         [2,1]  float32  yes        yes      norm 2.828",
    ]
    assert lines[6] == "global norm 2.828, of 1 gradients; 3 are None"
    assert "stopped is None: the path stopped -> stop_gradient" in str(report)
    assert repr(report) == f"<Report of 4 variables: {lines[6]}>"


def test_shown_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    report, _ = reported(capsys)
    html = report._repr_html_()
    assert html.count("<tr>") == 5
    assert "<td>None: stop_gradient</td>" in html
    assert "-&gt; stop_gradient" in html
    stream = io.StringIO()
    Console(file=stream, width=200).print(report)
    assert "None: stop_gradient" in stream.getvalue()
    assert "take stop_gradient away" in stream.getvalue()


def test_bad_numbers_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    v = tapec.Variable([0.0, -1.0, 4.0])
    dead = tapec.Variable([-1.0, -2.0])
    with tapec.GradientTape() as tape:
        loss = tapec.reduce_sum(tapec.sqrt(v)) + tapec.reduce_sum(tapec.nn.relu(dead))
    first, second = tape.report(loss, [v, dead]).rows
    assert (first.inf, first.nan, first.size) == (1, 1, 3)
    assert first.gradient == "norm nan, 1 NaN, 1 Inf"
    assert second.gradient == "norm 0, all zeros"


def test_gradients_that_were_taken(capsys: pytest.CaptureFixture[str]) -> None:
    x, v = tapec.constant(2.0), tapec.Variable(3.0)
    with tapec.GradientTape() as tape:
        y = v * v * x
    gradients = tape.gradient(y, [v, x])
    with pytest.raises(tapec.errors.RuntimeError, match="one set of gradients"):
        tape.report(y, [v, x])
    first, second = tape.report(y, [v, x], gradients).rows
    assert first.norm == 12.0
    assert second.missing is not None
    assert second.missing.cause == "not watched"
    assert second.trainable is None
    assert second.cells[3] == "-"


def test_outer_tapes_do_not_hear(capsys: pytest.CaptureFixture[str]) -> None:
    v = tapec.Variable(3.0)
    with tapec.GradientTape() as outer:
        with tapec.GradientTape() as tape:
            y = v**3
        tape.report(y, v)
        before = len(outer.trail.steps)
        slope = tape.gradient(y, v)
    assert before == 0
    assert outer.gradient(slope, v).numpy() == 18.0


def test_refused() -> None:
    with pytest.raises(tapec.errors.RuntimeError, match="never recorded"):
        tapec.GradientTape().report(tapec.constant(1.0), [])

    @tapec.compile
    def step(x: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.report(y, x)
        return y

    with pytest.raises(tapec.errors.NotImplementedError, match="looks at values"):
        step(tapec.constant(1.0))
