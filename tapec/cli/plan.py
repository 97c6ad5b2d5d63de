"""``tapec plan``: offsets for buffers that live for a time."""

from __future__ import annotations

import builtins
import csv
import json
import math
from pathlib import Path
from typing import Any

import click

from tapec.errors import ValueError
from tapec.passes.memory.arena.buffers import Buffer, Plan, most_alive
from tapec.passes.memory.arena.planning import best_plan

#: Columns of other tools that would change what a plan is, with what changes nothing.
_REFUSED = {"alignment": ("", "1"), "gaps": ("",)}


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--capacity",
    type=click.IntRange(0),
    help="Bytes that are enough; as few as possible if not given.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0),
    default=1.0,
    show_default=True,
    help="How long to search, once the search is loaded.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
@click.pass_context
def plan(
    ctx: click.Context, file: Path, capacity: int | None, seconds: float, as_json: bool
) -> None:
    """Place the buffers of FILE in as few bytes as can be found.

    FILE is a table in the format of MiniMalloc: CSV with the columns id, lower, upper (a buffer lives from lower to
    upper, without upper) and size in bytes.

    Exit status: 1 if a capacity is given and no plan that stays within it was found.
    """
    if math.isnan(seconds):
        raise click.BadParameter("nan is no time", param_hint="--seconds")
    names, buffers = _read(file)
    found = best_plan(
        buffers, seconds=seconds, capacity=capacity, tell=lambda text: click.echo(text, err=True)
    )
    if as_json:
        click.echo(json.dumps(_fields(found, names, buffers)))
    else:
        click.echo(f"total        {found.total:,} bytes")
        click.echo(f"lower bound  {found.bound:,} bytes")
        click.echo(f"ratio        {_ratio(found):.4f}")
        click.echo(f"optimal      {'yes, proven' if found.is_optimal else 'not proven'}")
    if capacity is not None and found.total > capacity:
        proven = found.bound > capacity
        click.echo(
            f"no plan stays within {capacity:,} bytes: none takes less than {found.bound:,}"
            if proven
            else f"no plan within {capacity:,} bytes was found in {seconds:g} s",
            err=True,
        )
        ctx.exit(1)


def _read(file: Path) -> tuple[list[str], list[Buffer]]:
    """The buffers of a table, and what they are called.

    Raises:
        ValueError: it is no such table, or asks for what is not done.
    """
    names: dict[str, None] = {}
    buffers = []
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            table = csv.DictReader(lines, skipinitialspace=True)
            table.fieldnames = [name.strip() for name in table.fieldnames or ()]
            for column in ("id", "lower", "upper", "size"):
                number = table.fieldnames.count(column)
                if number != 1:
                    raise ValueError(
                        f"{file} has {'two columns' if number else 'no column'} {column}: "
                        "expected id,lower,upper,size"
                    )
            for row in table:
                where = f"{file}, line {table.line_num}"
                buffers.append(_buffer(row, where))
                if row["id"] in names:
                    raise ValueError(f"{where}: there is a buffer {row['id']!r} already")
                names[row["id"]] = None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{file} is no table of text: {error}") from None
    return list(names), buffers


def _buffer(row: dict[str | Any, str | Any], where: str) -> Buffer:
    """The buffer of a row."""
    surplus: Any = row.get(None, [])
    if any(surplus):
        raise ValueError(f"{where}: there are more cells than columns: {','.join(surplus)}")
    try:
        buffer = Buffer(int(row["lower"]), int(row["upper"]), int(row["size"]))
    except (TypeError, builtins.ValueError):
        raise ValueError(f"{where}: lower, upper and size must be integers") from None
    if buffer.size < 0 or buffer.last <= buffer.first:
        raise ValueError(f"{where}: a buffer lives for a time, and has no negative size")
    for column, none in _REFUSED.items():
        if (row.get(column) or "").strip() not in none:
            raise ValueError(
                f"{where}: {column} {row[column]} is not planned for",
                hint="round sizes up; cut a buffer with gaps into several",
            )
    return buffer


def _fields(plan: Plan, names: list[str], buffers: list[Buffer]) -> dict[str, object]:
    return {
        "total": plan.total,
        "lower_bound": plan.bound,
        "most_alive": most_alive(buffers),
        "ratio": _ratio(plan),
        "optimal": plan.is_optimal,
        "offsets": dict(zip(names, plan.offsets, strict=True)),
    }


def _ratio(plan: Plan) -> float:
    return plan.total / plan.bound if plan.bound else 1.0
