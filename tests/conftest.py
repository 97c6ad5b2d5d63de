"""What tests share, and golden tests: each RUN line of a ``*.tir`` file is a test, run in this process.

A golden file is a program, the commands to run on it and what they must print::

    // RUN: tapec opt --passes=cse %s | filecheck %s
    // RUN: not tapec opt --passes=nonsense %s | filecheck %s --check-prefix=WRONG
    // CHECK: func @f
    // WRONG: unknown pass

``%s`` is the file; ``%%s`` is ``%s`` as the command gets it. ``not`` demands that the command
fails, and lets its standard error be matched together with its output. The loops of whole kernels
are compared with a file beside them instead, ``| diff %s.out -``; run pytest with ``--bless`` to
write those files anew, and read what git says has changed.

The syntax is that of LLVM's lit; running in-process is some twenty times faster than lit,
which starts a Python for each line, and leaves a debugger usable.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import hypothesis
import pytest
from both_ways import Wrap
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import parse_argv_options
from filecheck.parser import Parser

import tapec

# Derandomised: a failure on one machine is a failure on every machine. No deadline: the first
# example of a property pays for compilation. `--hypothesis-profile=search` looks further.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None)
hypothesis.settings.register_profile("search", max_examples=2000, deadline=None)
hypothesis.settings.load_profile("ci")


@pytest.fixture(autouse=True)
def cache_as_it_was() -> Iterator[None]:
    """Workloads of the benchmarks turn the cache of their process off; a test that loads one leaves it as it was."""
    before = os.environ.get("TAPEC_CACHE")
    yield
    if os.environ.get("TAPEC_CACHE") == before:
        return
    if before is None:
        del os.environ["TAPEC_CACHE"]
    else:
        os.environ["TAPEC_CACHE"] = before


@pytest.fixture(params=["eager", "compiled"])
def wrap(request: pytest.FixtureRequest) -> Wrap:
    """Run a function as it is, or compiled: the answers are the same."""
    return tapec.compile if request.param == "compiled" else lambda f: f


RUN = re.compile(
    r"^// RUN: (?P<negated>not )?tapec (?P<argv>.+?) \| (?P<tool>filecheck|diff) (?P<options>.+)$",
    re.MULTILINE,
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--bless``."""
    parser.addoption("--bless", action="store_true", help="write the outputs that are kept whole")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none, with the reason."""
    wanted = [item for item in items if item.get_closest_marker("gpu")]
    reason = _no_gpu() if wanted else None
    for item in wanted if reason is not None else ():
        item.add_marker(pytest.mark.skip(reason=f"NO GPU: {reason}"))


def _no_gpu() -> str | None:
    """Why there is none."""
    from tapec.runtime.cuda.device.driver import CudaDriver  # for tests that ask for one

    try:
        CudaDriver(0)
    except tapec.errors.TargetError as error:
        return error.message
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say it once more at the end: a summary of dots hides that nothing ran on a device."""
    skipped = [r for r in terminalreporter.stats.get("skipped", ()) if "NO GPU" in str(r.longrepr)]
    if skipped:
        terminalreporter.section("NO GPU", yellow=True)
        terminalreporter.write_line(
            f"{len(skipped)} tests were skipped: no kernel of this run has run on a device. With one: pytest -m gpu, "
            "and python benchmarks/gpu.py"
        )


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> pytest.Collector | None:
    """Claim every ``*.tir`` file."""
    return GoldenFile.from_parent(parent, path=file_path) if file_path.suffix == ".tir" else None


class GoldenFile(pytest.File):
    """One ``.tir`` file; each RUN line is a test."""

    def collect(self) -> Iterator[pytest.Item]:
        text = self.path.read_text(encoding="utf-8")
        runs = list(RUN.finditer(text))
        if len(runs) == 0 or len(runs) != text.count("// RUN:"):
            raise self.CollectError(
                f"{self.path}: each RUN line must read '// RUN: [not ]tapec … | filecheck %s …' "
                "or '… | diff %s.out -', and there must be one"
            )
        for run in runs:
            line = text.count("\n", 0, run.start()) + 1
            yield GoldenRun.from_parent(self, name=f"line{line}", line=line, run=run)


class GoldenRun(pytest.Item):
    """Run ``tapec`` and match what it prints against the file's CHECK lines."""

    def __init__(self, *, line: int, run: re.Match[str], **kwargs: object) -> None:
        super().__init__(**kwargs)  # type: ignore[arg-type]
        self.line = line
        self.must_fail = run["negated"] is not None
        self.argv = self.words(run["argv"])
        self.is_whole = run["tool"] == "diff"
        self.options = self.words(run["options"])

    def words(self, text: str) -> list[str]:
        """Split a command as a shell would, with ``%s`` standing for the golden file, ``%%s`` for itself."""
        parts = (re.split("%(%s)", word) for word in shlex.split(text))
        own = str(self.path)
        return [
            "".join(part if i % 2 else part.replace("%s", own) for i, part in enumerate(split))
            for split in parts
        ]

    def runtest(self) -> None:
        out = io.StringIO()
        err = out if self.must_fail else io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            failed = run_tapec(self.argv) != 0
        if failed != self.must_fail:
            self.complain("failed" if failed else "succeeded, though it must fail", out, err)
        if self.is_whole:
            self.compare(Path(self.options[0]), out, err)
            return
        options = parse_argv_options(["filecheck", *self.options])
        report = io.StringIO()
        with contextlib.redirect_stderr(report):
            output = FInput("<output>", out.getvalue())
            mismatch = Matcher(options, output, Parser.from_opts(options)).run() != 0
        if mismatch:
            self.complain(report.getvalue(), out, err)

    def compare(self, kept: Path, out: io.StringIO, err: io.StringIO) -> None:
        """Hold the whole output to what is kept, or keep it."""
        if self.config.getoption("--bless"):
            kept.write_text(out.getvalue(), encoding="utf-8")
        wanted = kept.read_text(encoding="utf-8") if kept.exists() else ""
        if out.getvalue() != wanted:
            lines = wanted.splitlines(), out.getvalue().splitlines()
            difference = difflib.unified_diff(*lines, str(kept), "output", lineterm="")
            self.complain("\n".join(["differs (see pytest --bless)", *difference]), out, err)

    def complain(self, what: str, out: io.StringIO, err: io.StringIO) -> None:
        """Fail with everything that is needed to see why."""
        text = f"$ tapec {shlex.join(self.argv)}\n{what}\n--- output\n{out.getvalue()}"
        if err is not out and err.getvalue():
            text += f"--- standard error\n{err.getvalue()}"
        raise GoldenMismatch(text)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException]) -> str:  # type: ignore[override]
        """Show a mismatch as it is, and anything else with its traceback: that is a bug of ours."""
        if isinstance(excinfo.value, GoldenMismatch):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.line - 1, f"{self.path.name}:{self.line}"


class GoldenMismatch(Exception):
    """The exit status or the output is not what the golden file says."""


def run_tapec(argv: list[str]) -> int:
    """Run the command line in this process and return its exit status.

    Errors made for the user end it as they would end the command. Any other exception passes
    through: not even a run that must fail may fail by a bug.
    """
    # Here, not at the top: goldens alone need the command line, and must report its faults.
    from tapec.cli import main
    from tapec.ir.errors import TapecError

    try:
        status = main.main(args=argv, prog_name="tapec", standalone_mode=False)
    except click.ClickException as error:
        error.show(file=sys.stderr)
        return error.exit_code
    except TapecError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return status if isinstance(status, int) else 0
