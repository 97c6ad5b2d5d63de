"""``tapec doctor``: does everything work here?"""

from __future__ import annotations

import json
import os
import platform
import runpy
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

import tapec
from tapec import config
from tapec.compiler import cache
from tapec.runtime import TARGETS

#: What must be there, for the versions that are shown.
_PACKAGES = ("numpy", "scipy", "llvmlite", "numba", "ml-dtypes", "optree", "networkx")


#: The targets that are linked here, by machine.
_LIBRARIES = {"x86_64": "x86-64-v3", "aarch64": "aarch64"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Try tapec out on this machine: the derivative of x² at 3, eagerly, compiled and ahead of time.

    Versions, processor and settings are shown, too. Ends with 1 if something does not work, and says what to do.
    """
    facts = {name: fact() for name, fact in _FACTS.items()}
    checks = {name: _answer(check) for name, check in _CHECKS.items()}
    good = all(problem is None for problem in checks.values())
    if as_json:
        click.echo(json.dumps({"works": good, "checks": checks, "facts": facts}, indent=1))
    else:
        for name, fact_text in facts.items():
            click.echo(f"      {name}: {fact_text}")
        for name, problem in checks.items():
            click.echo(f"ok    {name}" if problem is None else f"FAIL  {name}: {problem}")
    context.exit(0 if good else 1)


def _answer(check: Callable[[], str | None]) -> str | None:
    """What is wrong and what to do about it; None if all is well."""
    try:
        return check()
    except Exception as error:
        # Whatever it is, it is the answer.
        return f"{type(error).__name__}: {error}"


def _derivative(function: Callable[[Any], Any]) -> float:
    x = tapec.constant(3.0)
    return float(function(x))


def _squared(x: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    return tape.gradient(y, x)


def _eager() -> str | None:
    found = _derivative(_squared)
    return None if found == 6.0 else f"it is {found}, not 6: reinstall NumPy"


def _compiled() -> str | None:
    function: Any = tapec.compile(_squared)
    found = _derivative(function)
    if found != 6.0:
        return f"it is {found}, not 6: try TAPEC_CACHE=0, and `tapec cache clear`"
    executable = function.programs[-1].executable
    if not executable.native or not executable.kernels:
        return "no native code was made: it takes Linux on x86-64 with FMA, or on AArch64"
    return None


def _ahead() -> str | None:
    """As a shared library, which Python calls without tapec."""
    target = _LIBRARIES.get(platform.machine())
    if target is None or sys.platform != "linux":
        return f"no library was made: it takes Linux on {' or '.join(_LIBRARIES)}"
    built = tapec.aot.build(_squared, "f32[]", target=target, name="derivative", emit="so")
    with tempfile.TemporaryDirectory() as folder:
        built.write(folder)
        module = runpy.run_path(str(Path(folder) / "derivative.py"))
        found = float(module["squared"](3.0))
    return None if found == 6.0 else f"it is {found}, not 6: the processor lacks what {target} has"


def _kept() -> str | None:
    kept = cache()
    refusal = None if kept is None else kept.refusal()
    return refusal and f"{refusal}: set TAPEC_CACHE to a folder that only you may write to"


_CHECKS: Mapping[str, Callable[[], str | None]] = {
    "the derivative of x² at 3 is 6, eagerly": _eager,
    "the derivative of x² at 3 is 6, compiled": _compiled,
    "the derivative of x² at 3 is 6, ahead of time": _ahead,
    "the folder of compiled programs can be used": _kept,
}


def _processor() -> str:
    unit = TARGETS["cpu"].vectors()
    masked = ", masked" if unit.masked else ""
    return f"{platform.machine()}, vectors of {unit.bytes} bytes{masked}, {os.cpu_count()} cores"


def _cuda() -> str:
    from numba import cuda  # heavy, and asked for here alone

    available: Any = cuda.is_available
    return "available" if available() else "no device"


_FACTS: Mapping[str, Callable[[], str]] = {
    "tapec": lambda: version("tapec"),
    "python": lambda: f"{platform.python_version()} at {sys.executable}",
    "system": platform.platform,
    "packages": lambda: ", ".join(f"{name} {version(name)}" for name in _PACKAGES),
    "processor": _processor,
    "threads": lambda: str(config.threads()),
    "compiled programs": lambda: str(config.cache_folder() or "not kept"),
    "CUDA": _cuda,
}
