"""``tapec profile``: where the time of a compiled function in a user's file goes."""

from __future__ import annotations

import json
from typing import Any

import click

from tapec.cli.programs import WrongTarget
from tapec.cli.target import Target, target_argument
from tapec.compiled.profile import Profile, profile_of


@click.command()
@target_argument
@click.option(
    "--limits",
    type=click.Path(exists=True, dir_okay=False),
    help="What benchmarks/limits.py measured: show what each kernel should take, too.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def profile(target: Target, limits: str | None, as_json: bool) -> None:
    """Show how long each kernel of the compiled FUNCTION takes that FILE defines.

    Timed is the call that was caught, on copies of Variables; with --shapes or --arg, one with random arrays.
    """
    found = profiled(target)
    if limits is not None:
        found = found.against(limits)
    if as_json:
        whole = {"seconds": found.seconds, "calls": found.calls, "threads": found.threads}
        click.echo(json.dumps(whole | {"kernels": kernels_json(found)}, indent=1))
    else:
        click.echo(str(found))


def profiled(target: Target) -> Profile:
    """The kernels of a compiled function, timed: by the call that was caught, or with random arrays.

    Raises:
        WrongTarget: there is no function.
    """
    if target.caught is not None:
        call, program = target.caught
        return profile_of(program, call.tensors, program.first_numbers())
    if target.function is None:
        raise WrongTarget("a .tir file has no function to call: give FILE.py:FUNCTION")
    args, kwargs = target.examples()
    found: Profile = target.function.profile(*args, **kwargs)
    return found


def kernels_json(found: Profile) -> list[dict[str, Any]]:
    """The kernels, that which takes longest first."""
    return [
        {
            "kernel": kernel.number,
            "seconds": kernel.seconds,
            "share": kernel.share,
            "runs": kernel.runs,
            "expected": kernel.expected,
            "operations": list(kernel.cost.ops),
            "file": None if kernel.location is None else kernel.location.file,
            "line": None if kernel.location is None else kernel.location.line,
        }
        for kernel in sorted(found.kernels, key=lambda k: -k.seconds)
    ]
