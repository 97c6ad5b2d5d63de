"""Runs Keras' own tests on a backend of ours: loads it first, and knows which tests are expected to fail, and why.

`run.py` passes it to pytest. A test in the list of expected failures that passes is a failure as well.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Generator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

#: What a line of a list holds: a test's id, and why it fails.
SEPARATOR = "  # "


def entries(path: Path) -> dict[str, str]:
    """The tests of a list of expected failures, each with its reason."""
    if not path.exists():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    return {test: reason for test, _, reason in (line.partition(SEPARATOR) for line in lines)}


def expectations(path: Path) -> dict[str, str]:
    """Those of them that count here: ``without MODULE: …`` does where that module is not installed."""
    return {test: reason for test, reason in entries(path).items() if not _is_met(reason)}


def _is_met(reason: str) -> bool:
    condition = re.match(r"without (\w+):", reason)
    return condition is not None and find_spec(condition[1]) is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("keras")
    group.addoption("--keras-backend", default="tapec", help="what Keras runs on")
    group.addoption("--expected", type=Path, help="the tests that fail, and why")
    group.addoption("--outcomes", type=Path, help="file to which each test's outcome is written")


def pytest_configure(config: pytest.Config) -> None:
    """Load Keras on the backend, before a test file imports it."""
    # Some tests import `skip_if_backend` from the conftest.py of Keras' repository; its wheel has none.
    sys.modules["conftest"] = sys.modules[__name__]
    backend = config.getoption("--keras-backend")
    if backend == "tapec":
        import_module("tapec.keras")
    else:
        os.environ["KERAS_BACKEND"] = backend
    found = import_module("keras").backend.backend()
    if found != backend:
        raise pytest.UsageError(f"Keras runs on {found}, not on {backend}")
    if not hasattr(config, "workerinput") and config.getoption("--outcomes"):
        config.pluginmanager.register(_Outcomes(config.getoption("--outcomes")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    expected = expectations(config.getoption("--expected") or Path(os.devnull))
    for item in items:
        reason = expected.get(item.nodeid)
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.hookimpl(wrapper=True)
def pytest_ignore_collect(
    collection_path: Path, config: pytest.Config
) -> Generator[None, bool | None, bool | None]:
    """Leave out files that cannot be imported here: the list names them as it names tests."""
    expected = expectations(config.getoption("--expected") or Path(os.devnull))
    try:
        name = collection_path.relative_to(config.rootpath).as_posix()
    except ValueError:
        name = ""
    usual = yield
    return True if name in expected else usual


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The tests of trainers know Keras' own backends alone: while they are imported, ours answers for NumPy's."""
    if (
        collector.path.name != "trainer_test.py"
        or collector.config.getoption("--keras-backend") != "tapec"
    ):
        return (yield)
    theirs = ModuleType("keras.src.backend.numpy.trainer")
    vars(theirs)["NumpyTrainer"] = import_module("tapec.keras.engine.trainer").Trainer
    backend = import_module("keras.src.backend")
    with (
        mock.patch.dict(sys.modules, {theirs.__name__: theirs}),
        mock.patch.object(backend, "backend", return_value="numpy"),
    ):
        return (yield)


@pytest.fixture(autouse=True)
def _bare_signatures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test compares signatures, of which Keras' have no annotations: neither have ours, then."""
    if request.path.name == "ops_test.py":
        usual = inspect.signature

        def bare(function: Callable[..., object]) -> inspect.Signature:
            found = usual(function)
            parameters = [p.replace(annotation=p.empty) for p in found.parameters.values()]
            return found.replace(parameters=parameters, return_annotation=found.empty)

        monkeypatch.setattr(inspect, "signature", bare)


def skip_if_backend(backend: str, reason: str) -> pytest.MarkDecorator:
    """Skip a test where Keras runs on ``backend``."""
    return pytest.mark.skipif(import_module("keras").backend.backend() == backend, reason=reason)


class _Outcomes:
    """Writes a line for each test that ended: ``outcome id``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        worst = self._outcomes.get(report.nodeid, "passed")
        if worst == "passed" or report.failed:
            outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
            self._outcomes[report.nodeid] = outcome

    def pytest_sessionfinish(self) -> None:
        lines = [f"{outcome} {test}\n" for test, outcome in sorted(self._outcomes.items())]
        self._path.write_text("".join(lines), encoding="utf-8")
