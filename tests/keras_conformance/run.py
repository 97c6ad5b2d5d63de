"""Keras' own tests, of the wheel that is installed, on tapec.

::

    python tests/keras_conformance/run.py                  # what .ci/run takes
    python tests/keras_conformance/run.py --all            # all areas
    python tests/keras_conformance/run.py layers ops/nn_test.py
    python tests/keras_conformance/run.py losses --update  # write what fails to the list; reasons are written by hand
    python tests/keras_conformance/run.py --all --backend numpy --update

A test may fail only if ``expected/AREA.txt`` says so, with a reason; one that is listed and passes is a failure. The
last command records what Keras' NumPy backend does not pass: tapec has to pass 95 % of what it passes.

Keras 3.15.1 has its tests in its wheel. They need pytest, pytest-xdist, absl-py, pandas and scikit-learn; some import
jax or tensorflow-cpu while they are collected, whatever they run on: ``--all`` wants both.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from keras_plugin import SEPARATOR, entries, expectations

HERE = Path(__file__).parent
#: The areas, each with what `.ci/run` takes of it: all, or parts that need neither JAX nor long.
AREAS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "losses",
            "metrics",
            "optimizers",
            "activations",
            "initializers",
            "random",
            "models",
            "saving",
        ),
        ("",),
    ),
    "ops": (
        "/linalg_test.py",
        "/ops_test.py",
        "/nn_test.py::NNOpsCorrectnessTest",
        "/numpy_test.py::NumpyOneInputOpsCorrectnessTest",
        "/numpy_test.py::NumpyTwoInputOpsCorrectnessTest",
    ),
    "layers": (
        "/activations",
        "/attention",
        "/core/dense_test.py",
        "/merging",
        "/normalization",
        "/pooling",
        "/regularization",
        "/reshaping",
        "/rnn",
    ),
    "trainers": (),
}
#: Of what the NumPy backend passes, tapec passes this much; of these areas, all.
SHARE, WHOLE = 0.95, ("losses", "metrics", "optimizers")
UNEXPLAINED = "?"


def main() -> int:
    parser = argparse.ArgumentParser(description="Keras' own tests on tapec.")
    parser.add_argument("areas", nargs="*", help=f"of {', '.join(AREAS)}, or a path in one")
    parser.add_argument("--all", action="store_true", help="all areas")
    parser.add_argument("--backend", default="tapec", help="what Keras runs on: tapec or numpy")
    parser.add_argument("--jobs", default="auto", help="processes (pytest -n)")
    parser.add_argument("--update", action="store_true", help="write what fails to the list")
    options = parser.parse_args()
    named = options.areas or (list(AREAS) if options.all else [])
    unknown = [path for path in named if path.partition("/")[0] not in AREAS]
    if unknown:
        parser.error(f"no area is named {unknown[0]}; there are {', '.join(AREAS)}")
    chosen = [[path] for path in named]
    if not chosen:
        chosen = [[area + part for part in parts] for area, parts in AREAS.items() if parts]
    failed = [" ".join(paths) for paths in chosen if not _run(paths, options)]
    if failed:
        print(f"not as expected: {', '.join(failed)}")
    return 1 if failed else 0


def _run(paths: list[str], options: argparse.Namespace) -> bool:
    """Run tests of one area, say how they went; whether all went as expected."""
    area = paths[0].partition("/")[0]
    whole = paths == [area]
    listed = _list(options.backend, area)
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder) / "outcomes"
        code = subprocess.run(_command(paths, options, listed, outcomes), cwd=_site()).returncode
        found = dict(_parsed(outcomes)) if outcomes.exists() else {}
    seconds = time.monotonic() - start
    print(f"---- {' '.join(paths)}: {_summary(found)}, {seconds:.0f} s", flush=True)
    if options.update and found:
        _write(listed, found, whole)
        return True
    enough = options.backend != "tapec" or not whole or _enough(area, found)
    return code == 0 and enough


def _command(
    paths: list[str], options: argparse.Namespace, listed: Path, outcomes: Path
) -> list[str]:
    given = [sys.executable, "-m", "pytest", *(f"keras/src/{path}" for path in paths)]
    given += ["-q", "--tb=short", "-rfE"]
    given += ["-p", "no:cacheprovider", "-p", "keras_plugin", "-W", "ignore", "-n", options.jobs]
    given += [f"--rootdir={_site()}", "-c", "/dev/null", f"-o=pythonpath={HERE}"]
    given += [f"--keras-backend={options.backend}", f"--outcomes={outcomes}"]
    return given + (
        ["--continue-on-collection-errors"] if options.update else [f"--expected={listed}"]
    )


def _list(backend: str, area: str) -> Path:
    return HERE / ("expected" if backend == "tapec" else "numpy_backend") / f"{area}.txt"


def _site() -> Path:
    spec = find_spec("keras")
    if spec is None or spec.origin is None:
        sys.exit("Keras is not installed: pip install keras==3.15.1")
    return Path(spec.origin).parents[1]


def _parsed(outcomes: Path) -> list[tuple[str, str]]:
    pairs = (line.split(" ", 1) for line in outcomes.read_text(encoding="utf-8").splitlines())
    return [(test, outcome) for outcome, test in pairs]


def _summary(found: dict[str, str]) -> str:
    counts = Counter(found.values())
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in sorted(counts)) or "no test ran"


def _enough(area: str, found: dict[str, str]) -> bool:
    """Whether tapec passes as much as it has to of what Keras' NumPy backend passes."""
    beyond = entries(_list("numpy", area))
    listed = expectations(_list("tapec", area))
    beyond |= {test: why for test, why in listed.items() if why.startswith("without ")}
    theirs = [test for test in found if test not in beyond]
    ours = [test for test in theirs if found[test] == "passed"]
    print(f"     of what Keras' NumPy backend passes: {len(ours)} of {len(theirs)}", flush=True)
    return len(ours) >= len(theirs) * (1 if area in WHOLE else SHARE)


def _write(listed: Path, found: dict[str, str], whole: bool) -> None:
    """Write the tests that failed to the list; known reasons stay, new ones are to be written."""
    reasons = entries(listed)
    if listed.parent.name == "numpy_backend":  # what it does not pass is of interest, not why
        said = {test: outcome for test, outcome in found.items() if outcome != "passed"}
    else:
        failing = [test for test, outcome in found.items() if outcome == "failed"]
        said = {test: reasons.get(test, UNEXPLAINED) for test in failing}
    for (
        test,
        reason,
    ) in reasons.items():  # of what did not run, and of files that cannot be imported
        if (not whole and test not in found) or "::" not in test:
            said.setdefault(test, reason)
    lines = [f"{test}{SEPARATOR}{said[test]}\n" for test in sorted(said)]
    listed.parent.mkdir(exist_ok=True)
    listed.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
