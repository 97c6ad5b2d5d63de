"""The golden collector itself: a test that cannot fail is no test."""

from __future__ import annotations

import re
from pathlib import Path

import click
import conftest
import pytest

# Imported here, so that pytester, which forgets what a run of its own imports, does not forget it.
from tapec import cli


@click.command()
@click.argument("path")
@click.option("--fail", is_flag=True)
@click.option("--crash", is_flag=True)
def echo(path: str, fail: bool, crash: bool) -> None:
    """Stand for ``tapec``: print the program's name, or end in one of two ways."""
    if crash:
        raise ZeroDivisionError("a bug")
    if fail:
        raise click.UsageError("no such pass: nonsense")
    click.echo(f"module {Path(path).stem}")


@pytest.fixture
def golden(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Give an empty project that collects goldens, with `echo` as its command."""
    monkeypatch.setattr(cli, "main", echo)
    pytester.makeconftest(Path(conftest.__file__).read_text(encoding="utf-8"))
    return pytester


@pytest.mark.parametrize(
    ("text", "outcome", "says"),
    [
        ("RUN: tapec %s | filecheck %s\n// CHECK: module case", "passed", ""),
        ("RUN: tapec %s | filecheck %s\n// CHECK: module other", "failed", "module other"),
        ("RUN: tapec %s --fail | filecheck %s\n// CHECK: x", "failed", "no such pass"),
        ("RUN: not tapec %s --fail | filecheck %s\n// CHECK: no such pass", "passed", ""),
        ("RUN: not tapec %s | filecheck %s\n// CHECK: module", "failed", "must fail"),
        ("RUN: not tapec %s --crash | filecheck %s\n// CHECK: bug", "failed", "ZeroDivision"),
        ("RUN: tapec %s | filecheck %s --check-prefix=A\n// A: module", "passed", ""),
        ("RUN: tapec %s | diff %s.out -", "failed", "+module case"),
        ("RUN: tapec a%%s %s | filecheck %s\n// CHECK: module a%s", "failed", "Usage:"),
        ("RUN: tapec a%%s | filecheck %s\n// CHECK: module a%s", "passed", ""),
        ("RUN: tapec %s | grep x", "errors", "each RUN line must read"),
        ("no command", "errors", "each RUN line must read"),
    ],
    ids="match mismatch fails must-fail succeeds crash prefix whole escaped-two escaped other-tool no-run".split(),
)
def test_collector(golden: pytest.Pytester, text: str, outcome: str, says: str) -> None:
    (golden.path / "case.tir").write_text(f"// {text}\n", encoding="utf-8")
    result = golden.runpytest_inprocess("-p", "no:cacheprovider", "case.tir")
    assert result.parseoutcomes() == {outcome: 1}
    result.stdout.re_match_lines([f".*{re.escape(says)}.*"])


def test_bless(golden: pytest.Pytester) -> None:
    """What is kept whole is written once, and then holds."""
    (golden.path / "case.tir").write_text("// RUN: tapec %s | diff %s.out -\n", encoding="utf-8")
    for options in (["--bless"], []):
        result = golden.runpytest_inprocess("-p", "no:cacheprovider", *options, "case.tir")
        assert result.parseoutcomes() == {"passed": 1}
    assert (golden.path / "case.tir.out").read_text(encoding="utf-8") == "module case\n"
