"""``tapec ir``: the program of a compiled function in a user's file."""

from __future__ import annotations

import click
import numpy as np

from tapec.cli.functions import loaded, types_of
from tapec.cli.programs import print_options, show
from tapec.compiled.lowering import Lowered
from tapec.compiler import lowered
from tapec.passes.observers import Times
from tapec.tensor import Tensor


@click.command()
@click.argument("where", metavar="FILE:FUNCTION")
@click.option(
    "--after", metavar="PASS", help="After the last run of this pass; default: as traced."
)
@click.option(
    "--shapes",
    metavar="TYPES",
    help="Call it once with ones of these types, 'f32[32,784] i32[32]', instead of running FILE "
    "as a program; or, for sizes left open, 'f32[N,784] i32[N]', only trace it.",
)
@click.option("--cost", is_flag=True, help="Show its arithmetic and memory traffic, by kernel.")
@click.option("--memory", is_flag=True, help="Show the memory of a call, and what is in it.")
@click.option("--time", "timed", is_flag=True, help="Show how long each pass takes for it.")
@print_options
def ir(
    where: str,
    after: str | None,
    shapes: str | None,
    cost: bool,
    memory: bool,
    timed: bool,
    locs: bool,
    full_constants: bool,
) -> None:
    """Show the program of the compiled FUNCTION that FILE defines, or what it costs.

    FILE is run as a program, with what it prints on the standard error, and must call the
    function; or, with --shapes, it is only imported and the function is called here. FUNCTION may
    be a path, such as trainer.step.
    """
    with loaded(where, as_main=shapes is None) as function:
        types = [] if shapes is None else types_of(shapes)
        if all(t.is_static for t in types):
            if shapes is not None:
                function(*(np.ones(t.static_shape, t.dtype.numpy) for t in types))
            module = function.ir()
        else:
            module = function.trace(*(Tensor(None, t) for t in types))
        program = Lowered(module)
    if timed:
        times = Times()
        lowered(module, observers=[times])
        click.echo(str(times))
    if not (cost or memory or timed):
        module = module if after is None else lowered(module, after)
        show(module, locs=locs, full_constants=full_constants)
    for report in [program.memory] * memory + [program.cost] * cost:
        click.echo(str(report()))
