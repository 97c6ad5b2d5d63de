"""``tapec run``: run a program on arrays."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from tapec.cli.programs import program_argument, read
from tapec.compiler import compile_module
from tapec.errors import ValueError
from tapec.ir.core import Function, Module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.verifier import verify
from tapec.passes.observers import random_inputs
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime import compile_module as compile_loops


@click.command()
@program_argument
@click.option("--passes", default="", help="Passes and pipelines to run first.")
@click.option(
    "--backend",
    type=click.Choice(["numpy", "cpu"]),
    default="numpy",
    show_default=True,
    help="NumPy says what the program means; cpu is compiled code.",
)
@click.option(
    "--input",
    "source",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A .npz file with an array for each argument, by name or in order; default: random.",
)
@click.option("--output", type=click.Path(path_type=Path), help="A .npz file for the results.")
@click.option("--seed", default=0, show_default=True, help="Of the random arrays.")
def run(
    file: Path, passes: str, backend: str, source: Path | None, output: Path | None, seed: int
) -> None:
    """Run the entry of the program in FILE and show its results."""
    module = read(file)
    verify(module)
    arrays = random_inputs(module.entry, seed) if source is None else _load(source, module.entry)
    run_pipeline(module, parse_pipeline(passes))
    results = _compiled(module, arrays) if backend == "cpu" else evaluate_module(module, arrays)
    for i, result in enumerate(results):
        text = np.array2string(result, separator=", ", prefix=f"result {i}: ")
        click.echo(f"result {i}: {text}")
    if output is not None:
        np.savez(output, *results)


def _compiled(module: Module, arrays: Sequence[Any]) -> list[Any]:
    """The results of the program as native code; the arrays are left alone."""
    loops = module.entry.is_loop_level
    program = compile_loops(module) if loops else compile_module(module)
    given = [array.copy() for array in arrays]
    fresh = iter(program(*given))
    updates = program.updates
    count = len(updates) + len(program.outputs)
    return [given[updates[i]] if i in updates else next(fresh) for i in range(count)]


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
        raise ValueError(
            f"{source} has the arrays {', '.join(found)}; @{entry.name} takes {', '.join(names)}"
        )
    # NumPy's files hold bfloat16 as two bytes without meaning.
    return [
        array.view(arg.type.dtype.numpy) if array.dtype.kind == "V" else array
        for array, arg in zip(given, args, strict=True)
    ]
