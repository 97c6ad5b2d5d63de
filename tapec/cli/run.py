"""``tapec run``: run a program on arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from tapec.cli.programs import program_argument, read
from tapec.ir.core import Function
from tapec.ir.errors import TapecError
from tapec.ir.evaluator import evaluate_module
from tapec.ir.verifier import verify
from tapec.passes.observers import random_inputs
from tapec.passes.pipeline import parse_pipeline, run_pipeline


@click.command()
@program_argument
@click.option("--passes", default="", help="Passes and pipelines to run first.")
@click.option(
    "--input",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A .npz file with an array for each argument, by name or in order; default: random.",
)
@click.option("--output", type=click.Path(path_type=Path), help="A .npz file for the results.")
@click.option("--seed", default=0, show_default=True, help="Of the random arrays.")
def run(file: Path, passes: str, source: Path | None, output: Path | None, seed: int) -> None:
    """Run the entry of the program in FILE with NumPy, and show its results.

    What the numbers are is the meaning of the program: compiled code is tested against it.
    """
    module = read(file)
    verify(module)
    arrays = random_inputs(module.entry, seed) if source is None else _load(source, module.entry)
    run_pipeline(module, parse_pipeline(passes))
    results = evaluate_module(module, arrays)
    for i, result in enumerate(results):
        text = np.array2string(result, separator=", ", prefix=f"result {i}: ")
        click.echo(f"result {i}: {text}")
    if output is not None:
        np.savez(output, *results)


def _load(source: Path, entry: Function) -> list[Any]:
    """The arguments' arrays: by name where all have one, else in the file's order."""
    args = entry.args[: entry.attrs.get("inputs")]
    with np.load(source) as archive:
        found = dict(archive)
    names = [arg.name or "" for arg in args]
    if set(names) <= set(found):
        given = [found[name] for name in names]
    elif len(found) == len(args):
        given = list(found.values())
    else:
        raise TapecError(
            f"{source} has the arrays {', '.join(found)}; @{entry.name} takes {', '.join(names)}"
        )
    # NumPy's files hold bfloat16 as two bytes without meaning.
    return [
        array.view(arg.type.dtype.numpy) if array.dtype.kind == "V" else array
        for array, arg in zip(given, args, strict=True)
    ]
