"""The command that runs all benchmarks goes on where a part of them fails, and says so."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmark_steps import BENCHMARKS, load


@pytest.fixture(autouse=True)
def harness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of the harness find each other."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])


def test_a_peer_that_cannot_start_or_takes_too_long_fails_alone() -> None:
    run = load(BENCHMARKS / "run.py")
    with pytest.raises(run.PeerFailed, match="No such file"):
        run.Peer("jax", "/nowhere/python", "dispatch", 1, None)
    slow = run.Peer("tapec", sys.executable, "dispatch", 1, None, limit=0.01)
    with pytest.raises(run.PeerFailed, match=r"no answer within 0\.01 seconds"):
        slow.receive()
    assert slow.process.poll() is not None


def test_pieces_that_fail_are_told_and_can_be_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = load(BENCHMARKS / "everything.py")

    def pieces(codes: dict[str, str]) -> list[Any]:
        return [
            everything.Piece(name, [sys.executable, "-c", code], 5 if name != "slow" else 0.05)
            for name, code in codes.items()
        ]

    def lost(codes: dict[str, str], resume: bool) -> dict[str, str]:
        monkeypatch.setattr(everything, "pieces", lambda *args: pieces(codes))
        everything.run(argparse.Namespace(resume=resume, minutes=None), tmp_path)
        found: dict[str, str] = json.loads((tmp_path / "lost.json").read_text())
        return found

    bad = {"good": "", "bad": "exit(3)", "slow": "import time; time.sleep(9)"}
    assert lost(bad, False) == {"bad": "ended with 3", "slow": "longer than 0 seconds"}
    # What is done is not done again: it would fail now.
    assert lost({"good": "exit(1)", "bad": ""}, True) == {}
    assert lost({"good": "exit(1)"}, False) == {"good": "ended with 1"}
    assert (tmp_path / "results.jsonl").read_text() == ""  # the page has no rows then


def test_products_are_compared_with_the_library_by_kind(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setenv("TAPEC_NUM_THREADS", "1")
    gemm = importlib.import_module("gemm")

    def in_turn(calls: list[Any]) -> list[float]:
        for call in calls:
            call()
        return [1.0, 2.0]

    monkeypatch.setattr(gemm, "in_turn", in_turn)
    gemm.print_library(3, seed=1)
    shapes = list(gemm.random_products(3, seed=1))
    *_, last = lines = capsys.readouterr().out.splitlines()
    assert last == "| all | 3 | 0.50 | 0.50 | 0 |"
    assert [line.split()[1] for line in lines[2:5]] == [str(shape) for shape in shapes]
    assert gemm.kind_of(gemm.Product(8, 20, 300)) == "f32, least size 2 to 15"


def test_the_page_has_ratios_and_what_failed(tmp_path: Path) -> None:
    limits = {f"{name}_{n}": 100.0 for n in (1, 2) for name in ("fma_f32_gflops", "triad_dram_gbs")}
    (tmp_path / "limits.json").write_text(json.dumps({**limits, "tanh_ns": 0.4}))

    def row(scale: float) -> dict[str, Any]:
        times = {"median_s": 1e-3 * scale, "min_s": 1e-3 * scale, "spread": 0.0, "extra": {}}
        calls = {"import_s": 1.0, "first_call_s": scale}
        return {**times, **calls, "peak_rss_delta": 1e6 * scale, "peak_rss_whole": 1e7}

    record = {
        "workload": "dispatch",
        "threads": 2,
        "peers": {"tapec": row(1.0), "jax": row(4.0)},
        "check": {"tapec": "ok", "jax": "ok"},
        "failed": {
            "tf-xla": "Traceback\nImportError: none",
            "torch-eager": "it has no build_torch",
        },
    }
    (tmp_path / "results.jsonl").write_text(json.dumps(record) + "\n")
    (tmp_path / "lost.json").write_text(json.dumps({"limits": "ended with 1"}))
    (tmp_path / "open_sizes.md").write_text("| net | batch |\n")
    load(BENCHMARKS / "page.py").write(tmp_path / "page.md", tmp_path, [], ["dispatch"])
    text = (tmp_path / "page.md").read_text()
    assert "| dispatch | 2 | 1 ms | jax 4 ms | **0.25** |  |  | 1.00 s | 0.25 | 0.40 |" in text
    assert "## Steps for batches of any size\n\n| net | batch |\n" in text
    assert text.endswith("* limits: ended with 1\n* tf-xla: ImportError: none (dispatch with 2)\n")


def test_what_pages_quote_is_what_was_measured() -> None:
    """`python benchmarks/quotes.py` writes it; whoever renews the results and forgets that is told here."""
    quotes = load(BENCHMARKS / "quotes.py")
    results = quotes.Results((BENCHMARKS / "RESULTS.md").read_text())
    pages = [path.read_text() for path in quotes.QUOTING]
    for page in pages:
        assert quotes.quoted(page, results) == page
    heads = [" | ".join(quotes.cells(line)) for page in pages for line in page.splitlines()]
    assert {heads.count(head) for head in quotes.TABLES} == {1}


def test_another_figure_is_written_where_it_is_quoted() -> None:
    quotes = load(BENCHMARKS / "quotes.py")
    text = (BENCHMARKS / "RESULTS.md").read_text()
    row = next(line for line in text.splitlines() if line.startswith("| pinn | 1 |"))
    seconds = quotes.cells(row)[2]
    renewed = quotes.Results(text.replace(row, row.replace(seconds, "7.77 us", 1)))
    page = quotes.QUOTING[0].read_text()
    changed = quotes.quoted(page, renewed)
    differing = [
        (old, new)
        for old, new in zip(page.splitlines(), changed.splitlines(), strict=True)
        if old != new
    ]
    assert [new for _, new in differing] == [differing[0][0].replace(seconds, "7.77 µs", 1)]
