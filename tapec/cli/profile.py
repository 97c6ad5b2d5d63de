"""``tapec profile``: where the time of a compiled function in a user's file goes."""

from __future__ import annotations

import click

from tapec.cli.programs import WrongTarget
from tapec.cli.target import Target, target_argument
from tapec.compiled.profile import profile_of


@click.command()
@target_argument
@click.option(
    "--limits",
    type=click.Path(exists=True, dir_okay=False),
    help="What benchmarks/limits.py measured: show what each kernel should take, too.",
)
def profile(target: Target, limits: str | None) -> None:
    """Show how long each kernel of the compiled FUNCTION takes that FILE defines.

    Timed is the call that was caught, on copies of Variables; with --shapes or --arg, one with random arrays.
    """
    if target.caught is not None:
        call, program = target.caught
        found = profile_of(program, call.tensors, program.first_numbers())
    elif target.function is None:
        raise WrongTarget("a .tir file has no function to call: give FILE.py:FUNCTION")
    else:
        args, kwargs = target.examples()
        found = target.function.profile(*args, **kwargs)
    click.echo(str(found if limits is None else found.against(limits)))
