"""The rules of the house: what is packaged, who may import whom, how large a thing may grow.

Each rule is one test, and its failure lists every place that breaks it. Run as a program, this file
only makes the link tree that mypy reads (see `link_tree`).
"""

from __future__ import annotations

import ast
import functools
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
import types
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import tapec

ROOT = Path(__file__).resolve().parents[1]

# Import name → folder. The longest names come first: `package_of` takes the first that fits.
HOMES = {"tapec.ir": "ir", "tapec.passes": "passes", "tapec.runtime": "runtime", "tapec": "tapec"}
MAY_IMPORT = {
    "tapec.ir": {"tapec.ir"},
    "tapec.passes": {"tapec.ir", "tapec.passes"},
    "tapec.runtime": {"tapec.ir", "tapec.runtime"},
    "tapec": set(HOMES),
}

# Distributions that take long to import, or that one part alone should know, and who may name them.
# A place is a file or a folder. Whatever is not listed here comes with Python, NumPy or ml_dtypes.
HEAVY = {
    "llvmlite": [
        "runtime/cpu/machine_code/jit.py",  # turns LLVM text into native code
        "runtime/cpu/machine_code/emission.py",  # writes the code of several modules at once
        "runtime/aot/emission.py",  # the same for other machines
        "runtime/cpu/machine_code/adoption.py",  # takes in what Numba made
        "tapec/kernels/numba_code.py",  # where a function of Numba's is
        "runtime/cuda/machine_code/intrinsics.py",  # instructions, as numba.cuda takes them
    ],
    "numba": [
        "tapec/kernels/numba_code.py",
        "passes/memory/arena/search.py",
        "tapec/cli/doctor.py",  # whether there is a CUDA device
        "runtime/numba",
        "runtime/cuda/machine_code/intrinsics.py",
        "runtime/cuda/machine_code/assembly.py",
    ],  # compiles users' kernels, a search, and the kernels of an engine and of devices
    "cuda": [
        "runtime/cuda/machine_code/assembly.py",
        "runtime/cuda/device/driver.py",
    ],  # comes with numba-cuda
    "scipy": ["ir/scalar.py"],  # erf, lgamma and their kin for eager evaluation
    "optree": ["tapec/structure.py"],  # nested arguments, flattened in one place
    "networkx": [
        "tapec/inspection/graph.py",  # lays a program out as a graph
        "passes/memory/cut.py",
    ],
    "keras": ["tapec/keras"],
    "click": ["tapec/cli"],
    "matplotlib": ["tapec/inspection/memory_map.py"],  # a picture as PNG, if it is installed
    "tensorboardX": ["tapec/summary.py"],  # writes files of events, if it is installed
    "rich": ["tapec/explanations/report.py", "tapec/tables.py"],  # tables of its console
}
LIGHT = {"numpy", "ml_dtypes", "tapec"}
NOT_AT_START = ["numba", "click", "llvmlite", "scipy", "networkx", "rich"]

MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60  # aim at 50
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "base"}


def sources() -> Iterator[tuple[str, Path]]:
    """Yield (package, file) for every source file of the four packages."""
    for package, home in HOMES.items():
        for path in sorted((ROOT / home).rglob("*.py")):
            yield package, path


def own_files() -> Iterator[Path]:
    """Yield every Python file that is ours to keep small and well named, tests included."""
    yield from (path for _, path in sources())
    for folder in ("tests", "examples", "benchmarks/tapec_workloads"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.is_relative_to(ROOT / "tests" / "conformance"):
                yield path


def short(path: Path) -> str:
    """Return a path as seen from the top, with slashes."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tree(path: Path) -> ast.Module:
    """Parse a file once, however many rules read it."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@pytest.fixture(scope="module", autouse=True)
def trees() -> Iterator[None]:
    """All trees are two million objects, through which Python would look for garbage in the tests of other files."""
    yield
    tree.cache_clear()


@functools.cache
def imported(path: Path) -> list[tuple[int, str]]:
    """Return (line, absolute module name) for each import of a file, lazy ones included."""
    found = []
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom):
            found.append((node.lineno, "." * node.level + (node.module or "")))
        elif isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
    return found


def package_of(module: str) -> str | None:
    """Return which of the four packages a module is in, or None."""
    return next((p for p in HOMES if module == p or module.startswith(p + ".")), None)


def within(path: Path, places: list[str]) -> bool:
    """Tell whether a file is, or lies in, one of the places."""
    return any(path.is_relative_to(ROOT / place) for place in places)


def complain(wrong: list[str]) -> None:
    """Fail with one line for each place that breaks a rule."""
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


# ---- packaging


def setuptools_table() -> dict[str, list[str]]:
    """Return the setuptools table of pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table: dict[str, list[str]] = tomllib.loads(text)["tool"]["setuptools"]
    return table


def test_every_package_is_listed() -> None:
    """An unlisted package works in the editable install and is missing from the wheel."""
    found = {
        ".".join([package, *path.parent.relative_to(ROOT / HOMES[package]).parts])
        for package, path in sources()
    }
    assert set(setuptools_table()["packages"]) == found


def test_every_package_has_an_init() -> None:
    folders = {path.parent for _, path in sources()}
    complain(
        [f"{short(f)} has no __init__.py" for f in folders if not (f / "__init__.py").exists()]
    )


def test_wheel_holds_tapec_alone(tmp_path: Path) -> None:
    """The wheel has every source file, nothing beside `tapec`, and imports from anywhere."""
    project = tmp_path / "project"  # a copy: a build leaves files behind, and may find old ones
    for folder in HOMES.values():
        shutil.copytree(
            ROOT / folder, project / folder, ignore=shutil.ignore_patterns("__pycache__")
        )
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, project)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check"]
    build += ["--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(project)]
    run(build, cwd=tmp_path)
    (wheel,) = tmp_path.glob("tapec-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    assert {name.split("/")[0].split("-")[0] for name in held} == {"tapec"}
    wanted = {
        "/".join([*package.split("."), path.relative_to(ROOT / HOMES[package]).as_posix()])
        for package, path in sources()
    } | {"tapec/py.typed"}
    complain(sorted(wanted - held))
    # From the top of the checkout, bare `ir` would be found there: start elsewhere.
    has_keras = find_spec("keras") is not None  # an extra
    packages = setuptools_table()["packages"]
    names = ", ".join(p for p in packages if has_keras or not p.startswith("tapec.keras"))
    code = f"import {names}; print(tapec.ir.__file__)"
    place = run([sys.executable, "-c", code], cwd=tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert Path(place.strip()).is_relative_to(tmp_path / "site")


def test_readme_and_ci_run_the_same_commands() -> None:
    """`.ci/run` takes the test command out of the README; here: that there is exactly one."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.endswith("&& .venv/bin/pytest -n auto")]) == 1
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "README.md" in script
    assert "bin/pytest" not in script.replace("&& .venv/bin/pytest", "")


def test_readme_names_files_that_exist() -> None:
    """A path is a name with a slash in it that begins with a folder of ours; NAME stands for any."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:ir|passes|runtime|tapec|tests|examples|benchmarks)/[^`\s]*)`", text)
    assert named
    complain([name for name in named if "NAME" not in name and not (ROOT / name).exists()])


# ---- imports


def test_imports_point_one_way() -> None:
    wrong = []
    for package, path in sources():
        for line, name in imported(path):
            target = package_of(name)
            # `import ir` works in the checkout, makes every class twice, and fails in the wheel.
            bare = name.split(".")[0] in ("ir", "passes", "runtime")
            if bare or name.startswith(".") or (target and target not in MAY_IMPORT[package]):
                wrong.append(f"{short(path)}:{line}: {package} may not import {name}")
    complain(wrong)


def test_distributions_are_imported_in_listed_places() -> None:
    wrong = []
    for _, path in sources():
        for line, name in imported(path):
            top = name.split(".")[0]
            if top in LIGHT or top in sys.stdlib_module_names:
                continue
            if not within(path, HEAVY.get(top, [])):
                wrong.append(f"{short(path)}:{line}: {top} is not listed for this file")
    complain(wrong)


def test_listed_places_import_what_they_are_listed_for() -> None:
    """What no longer needs a distribution is not let to it."""
    users = {
        (name.split(".")[0], short(path)) for _, path in sources() for _, name in imported(path)
    }
    complain(
        [
            f"{place} does not import {top}: take it off the list"
            for top, places in HEAVY.items()
            for place in places
            if not any(top == name and within(ROOT / file, [place]) for name, file in users)
        ]
    )


def test_import_is_light() -> None:
    """Importing tapec loads none of the heavy distributions."""
    code = f"import sys, tapec; print([m for m in {NOT_AT_START} if m in sys.modules])"
    assert run([sys.executable, "-c", code], cwd=ROOT).strip() == "[]"


def test_what_is_heavy_need_not_be_there() -> None:
    """Gradients, programs, optimizers and the simulator of devices do without what only some parts import."""
    missing = ["numba", "cuda", "keras", "click", "networkx", "rich", "matplotlib", "tensorboardX"]
    code = f"""
        import sys
        sys.modules.update(dict.fromkeys({missing}))
        import numpy, tapec
        v = tapec.Variable(numpy.ones((4, 3), numpy.float32))
        adam = tapec.optimizers.Adam(0.1)
        def step(x):
            with tapec.GradientTape() as tape:
                loss = tapec.reduce_mean(tapec.tanh(x @ v))
            adam.apply_gradients([(tape.gradient(loss, v), v)])
            return loss
        x = tapec.ones([5, 4])
        for one in (step, tapec.compile(step), tapec.compile(step, target="cuda", engine="simulator")):
            assert numpy.isfinite(float(one(x)))
        try:
            tapec.compile(step, target="cuda")(x)
        except tapec.errors.TargetError as error:
            print("refused:", error.hint)
    """
    said = run([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT).strip()
    assert said == "refused: pip install 'tapec[cuda]'"


def test_one_identity() -> None:
    """No test has imported a source file under its bare name, as `--doctest-modules ir` would."""
    assert not {"ir", "passes", "runtime"} & set(sys.modules)


def test_environment_is_read_in_config_alone() -> None:
    wrong = [
        f"{short(path)}:{node.lineno}: only tapec/config/__init__.py reads the environment"
        for _, path in sources()
        if short(path) != "tapec/config/__init__.py"
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb"))
        or (isinstance(node, ast.ImportFrom) and node.module == "os" and names_environment(node))
    ]
    complain(wrong)


def names_environment(node: ast.ImportFrom) -> bool:
    """Tell whether `from os import …` takes a way to the environment."""
    return any(alias.name in ("environ", "getenv", "environb") for alias in node.names)


# ---- size and names


def test_files_stay_small() -> None:
    complain(
        [
            f"{short(path)}: {lines} lines, at most {MAX_FILE_LINES}"
            for path in own_files()
            if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_FILE_LINES
        ]
    )


def test_functions_stay_small() -> None:
    wrong = []
    for path in own_files():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > MAX_FUNCTION_LINES:
                    wrong.append(
                        f"{short(path)}:{node.lineno}: {node.name} has {lines} lines, "
                        f"at most {MAX_FUNCTION_LINES}"
                    )
    complain(wrong)


def test_names_say_something() -> None:
    complain([short(path) for path in own_files() if path.stem.strip("_") in VAGUE_NAMES])


def test_no_module_is_named_like_a_public_name() -> None:
    """Importing ``tapec.shape`` would put the module in the place of the function."""
    complain(
        [
            f"{short(path)}: tapec.{path.stem} is a public name"
            for path in sorted((ROOT / "tapec").glob("*.py"))
            if path.stem in dir(tapec)
            and not isinstance(getattr(tapec, path.stem), types.ModuleType)
        ]
    )


def test_passes_and_runtime_know_no_op_by_name() -> None:
    """They ask the op's class; a name there is an op that the next author will forget."""
    asks = re.compile(
        r"\bop(?:eration)?\.name\s*(?:[=!]=|(?:not )?in\b)|\bmatch \w*op\w*\.name\b|\bdefn (?:is|==|!=)(?: not)? OPS\["
    )
    complain(
        [
            f"{short(path)}:{number}: {line.strip()}"
            for package, path in sources()
            if package in ("tapec.passes", "tapec.runtime")
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
            if asks.search(line)
        ]
    )


# ---- types and style


def link_tree() -> Path:
    """Lay the wheel's shape out as symbolic links, for tools that read files and run no imports."""
    top = ROOT / "build" / "typing" / "tapec"
    top.mkdir(parents=True, exist_ok=True)
    wanted = {p.name: p for p in (ROOT / "tapec").iterdir() if p.name != "__pycache__"}
    wanted |= {home: ROOT / home for home in HOMES.values() if home != "tapec"}
    for link in top.iterdir():
        if link.name not in wanted:
            link.unlink()
    for name, target in wanted.items():
        if not (top / name).is_symlink():
            (top / name).symlink_to(os.path.relpath(target, top))
    return top.parent


def test_types() -> None:
    link_tree()
    run([sys.executable, "-m", "mypy"], cwd=ROOT)


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=" ".join)
def test_style(command: list[str]) -> None:
    run([sys.executable, "-m", "ruff", *command, "--quiet", "."], cwd=ROOT)


def run(command: list[str], cwd: Path, **environment: str) -> str:
    """Run a command, fail with all it printed if it fails, and return its standard output."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{done.stdout}{done.stderr}", pytrace=False)
    return done.stdout


if __name__ == "__main__":
    print(link_tree())
