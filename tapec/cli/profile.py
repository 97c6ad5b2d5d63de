"""``tapec profile``: where the time of a compiled function in a user's file goes."""

from __future__ import annotations

from collections.abc import Sequence

import click
import numpy as np

from tapec.cli.functions import loaded, types_of
from tapec.compiled.profile import profile_of
from tapec.ir.types import TensorType
from tapec.tensor import Tensor, as_tensor


@click.command()
@click.argument("where", metavar="FILE:FUNCTION")
@click.option(
    "--shapes",
    metavar="TYPES",
    help="Time it with ones of these types, 'f32[32,784] i32[32]', instead of running FILE "
    "as a program.",
)
def profile(where: str, shapes: str | None) -> None:
    """Show how long each kernel of the compiled FUNCTION takes that FILE defines.

    FILE is run as a program, with what it prints on the standard error, and must call the
    function, whose latest program is timed with ones for its arguments; or, with --shapes, FILE
    is only imported.
    """
    with loaded(where, as_main=shapes is None) as function:
        if shapes is None:
            function.ir()  # raises if it was not called
            program = function.programs[-1]
            found = profile_of(program, _ones(program.pattern), program.first_numbers())
        else:
            found = function.profile(*_ones(types_of(shapes)))
    click.echo(str(found))


def _ones(types: Sequence[TensorType]) -> list[Tensor]:
    if not all(t.is_static for t in types):
        raise click.UsageError("give sizes that are numbers, with --shapes")
    return [as_tensor(np.ones(t.static_shape, t.dtype.numpy)) for t in types]
