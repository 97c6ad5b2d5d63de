"""``tapec run``: run a program on arrays."""

from __future__ import annotations

import builtins
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from tapec import config
from tapec.cli.programs import WrongTarget, hold_to_memory, program_argument, read
from tapec.compiler import lowered
from tapec.errors import InvalidArgumentError, TapecError, ValueError
from tapec.inspection.results import distance, native_results
from tapec.ir.core import Function, Module
from tapec.ir.verifier import verify
from tapec.passes.observers import meaning, random_inputs
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime import compile_module as compile_loops
from tapec.traces.effects import Effects


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
@click.option("--compare", is_flag=True, help="Run both backends; end with 1 if they differ.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def run(
    context: click.Context,
    file: Path,
    passes: str,
    backend: str,
    source: Path | None,
    output: Path | None,
    seed: int,
    compare: bool,
    as_json: bool,
) -> None:
    """Run the entry of the program in FILE and show its results."""
    module = read(file)
    verify(module)
    hold_to_memory(module)
    arrays = random_inputs(module.entry, seed) if source is None else _load(source, module.entry)
    run_pipeline(module, parse_pipeline(passes))
    results = _compiled(module, arrays) if backend == "cpu" else meaning(module, arrays)
    differences = _differences(module, arrays) if compare else []
    if as_json:
        shown = [{"dtype": str(r.dtype), "shape": r.shape, "values": _listed(r)} for r in results]
        click.echo(json.dumps({"results": shown, "differences": differences}, indent=1))
    else:
        for i, result in enumerate(results):
            text = np.array2string(result, separator=", ", prefix=f"result {i}: ")
            click.echo(f"result {i}: {text}")
        for text in differences:
            click.echo(text)
    if output is not None:
        np.savez(output, *results)
    context.exit(1 if differences else 0)


def _listed(array: Any) -> Any:
    """An array as nested lists of numbers or, where JSON has none, their texts."""
    if array.dtype.kind in "biuf" and np.isfinite(array).all():
        return array.tolist()
    return np.vectorize(str, otypes=[object])(array).tolist() if array.size else []


def _differences(module: Module, arrays: Sequence[Any]) -> list[str]:
    """In which results compiled code and NumPy differ by more than rounding explains."""
    expected = meaning(module, [np.array(a) for a in arrays])
    found = []
    for i, (right, got) in enumerate(zip(expected, _compiled(module, arrays), strict=True)):
        try:
            distance(i, np.asarray(right), np.asarray(got))
        except TapecError as error:
            found.append(str(error))
    return found


def _compiled(module: Module, arrays: Sequence[Any]) -> list[Any]:
    """The results of the program as native code, compiled anew.

    Raises:
        InvalidArgumentError: one of its checks does not hold.
    """
    ready = module.entry.is_loop_level
    program = compile_loops(
        module if ready else lowered(module), threads=config.threads(), apart=True
    )
    results = native_results(program, arrays)
    if not ready:
        Effects(module, program.checks).settle(arrays, results)
    elif program.checks and (status := int(results.pop())):
        raise InvalidArgumentError(f"check {status} of @{module.entry.name} does not hold")
    return results


def _load(source: Path, entry: Function) -> list[Any]:
    """The arguments' arrays: by name where all have one, else in the file's order."""
    args = entry.args[: entry.attrs.get("inputs")]
    found = _archive(source)
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


def _archive(source: Path) -> dict[str, Any]:
    """The arrays of a file by name.

    Raises:
        WrongTarget: it has none, or some that only Python could read.
    """
    try:
        with source.open("rb") as file:
            loaded = np.load(file)
            if isinstance(loaded, np.ndarray):  # from np.save
                return {"array": loaded}
            return dict(loaded)
    except (OSError, EOFError, builtins.ValueError, zipfile.BadZipFile) as error:
        raise WrongTarget(f"{source} is no .npz file of arrays: {error}") from None
