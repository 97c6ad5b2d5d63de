"""``tapec build`` and ``tapec targets``: ahead of time, for other machines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from tapec import aot
from tapec.cli.naming import built_of, refuse_missing
from tapec.cli.programs import WrongTarget
from tapec.cli.running import as_program, run_file
from tapec.runtime.aot.building import FORMS
from tapec.runtime.aot.interface import c_name


@click.command()
@click.argument("where", metavar="FILE:FUNCTION[,FUNCTION…]")
@click.option("--target", default="x86-64-v3", show_default=True, help="A machine: tapec targets.")
@click.option(
    "-o", "folder", metavar="DIR", default="build", show_default=True, help="Where files go."
)
@click.option("--name", help="What all C names begin with; default: the first function's name.")
@click.option(
    "--emit",
    metavar="FORMS",
    default="obj,header",
    show_default=True,
    help=f"What to make, with commas between: {', '.join(FORMS)}.",
)
@click.option(
    "--shapes",
    metavar="TYPES",
    multiple=True,
    help="What a function takes, 'f32[N<=32,784] i32[N]'; once for each function, in order.",
)
@click.option(
    "--state",
    type=click.Choice(["embed", "extern"]),
    default="embed",
    show_default=True,
    help="Whether the object holds the Variables' values, or files do.",
)
@click.option("--checked", is_flag=True, help="Let functions look at pointers and sizes.")
@click.option("--selftest", is_flag=True, help="Add a function that tries the others out.")
@click.option("--optimize", type=click.Choice(["speed", "size"]), help="What to prefer.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def build(
    where: str,
    target: str,
    folder: str,
    name: str | None,
    emit: str,
    shapes: tuple[str, ...],
    state: str,
    checked: bool,
    selftest: bool,
    optimize: str | None,
    as_json: bool,
) -> None:
    """Make objects and C headers of functions, for other machines.

    The compiled FUNCTIONs are those that FILE defines; a model, such as one of Keras, is built as its inference.
    FILE is run as a program first, so Variables have the values that it leaves them with. Functions of one model
    share their Variables.
    """
    file, colon, names = where.rpartition(":")
    if not colon:
        raise WrongTarget(f"expected FILE:FUNCTION, such as train.py:step, got {where!r}")
    refuse_missing(file)
    listed = [name.strip() for name in names.split(",")]
    if len(shapes) not in (0, len(listed)):
        raise WrongTarget(f"--shapes: {len(listed)} functions, but {len(shapes)} texts")
    unknown = [form for form in emit.replace(",", " ").split() if form not in FORMS]
    if unknown:
        raise click.BadParameter(
            f"there is no {unknown[0]!r}, but {', '.join(FORMS)}", param_hint="--emit"
        )
    with as_program(Path(file)):
        found = run_file(Path(file))
        functions: dict[str, Any] = {}
        for n in listed:
            called = c_name(n.rsplit(".", 1)[-1], functions)
            functions[called] = built_of(found, n, file, typed=bool(shapes))
        built = aot.build(
            functions,
            dict(zip(functions, shapes, strict=True)) if shapes else None,
            target=target,
            name=name,
            emit=emit,
            state=state,
            checked=checked,
            selftest=selftest,
            optimize=optimize,
        )
    _tell(built, built.write(folder), as_json)


def _tell(built: aot.Built, paths: Sequence[Path], as_json: bool) -> None:
    """Say what was written, and what it takes."""
    if as_json:
        files = {str(path): path.stat().st_size for path in paths}
        sizes = {"state": built.state_bytes, "arena": built.arena_bytes}
        click.echo(
            json.dumps({"files": files, "bytes": sizes, "stack": dict(built.stack_bytes)}, indent=1)
        )
        return
    for path in paths:
        click.echo(f"{path}  {path.stat().st_size:,} bytes")
    told = f"state {built.state_bytes:,} bytes, arena {built.arena_bytes:,}"
    # How much stack C source takes, only its compiler knows.
    stack = [f"stack at most {max(built.stack_bytes.values()):,}"] if built.stack_bytes else []
    click.echo(", ".join([told, *stack]))


#: CUDA devices, all in one row.
_DEVICES = {
    "name": "cuda-sm_80",
    "triple": "nvptx64-nvidia-cuda",
    "vector bytes": 0,
    "lacks": "sizes that vary; later ones are cuda-sm_90 and so on, see docs/cuda.md",
    "gcc": "",
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def targets(as_json: bool) -> None:
    """List the machines to build for, and what each lacks.

    A triple of LLVM's names another. With --json, also how GCC is called for code that objects are linked with.
    """
    rows: list[dict[str, Any]] = [
        {
            "name": t.name,
            "triple": t.triple,
            "vector bytes": t.vectors.bytes,
            "lacks": t.wanting,
            "gcc": t.gcc,
        }
        for t in aot.targets().values()
    ]
    rows.append(_DEVICES)
    if as_json:
        click.echo(json.dumps({"targets": rows}, indent=1))
        return
    for row in rows:
        size = row["vector bytes"]
        vectors = f"{size}-byte vectors" if size else "scalar"
        click.echo(f"{row['name']:12} {row['triple']:34} {vectors:16} {row['lacks']}".rstrip())
