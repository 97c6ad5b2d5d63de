"""``tapec ir``: the program of a compiled function, at any stage."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

import click

from tapec.cli.colours import show_program
from tapec.cli.programs import WrongTarget, print_options
from tapec.cli.reports import REPORTS
from tapec.cli.target import Target, after_pass, target_argument
from tapec.compiled.lowering import LEVELS, NATIVE, Lowered
from tapec.inspection.following import Station, cotangents_of, followed
from tapec.inspection.lines import Line, around, lines_of, with_margin
from tapec.inspection.stages import Snapshot, snapshots
from tapec.passes.observers import count


@click.command()
@target_argument
@click.option("--after", metavar="PASS", help="After the last run of this pass.")
@click.option("--level", type=click.Choice([*LEVELS, *NATIVE]), help="At this level.")
@click.option(
    "--all", "every", is_flag=True, help="As traced, and after each pass that changed it."
)
@click.option("--unchanged", is_flag=True, help="With --all: also after those that did not.")
@click.option("--grep", metavar="REGEX", help="Only lines in which this is found.")
@click.option(
    "--around", "near", metavar="VALUE", help="Only what a value is made of, and who reads it."
)
@click.option(
    "--follow",
    metavar="VALUE",
    help="Only this value and its adjoints, through all passes: what removes it, by which rule.",
)
@click.option("--source", is_flag=True, help="Show your line at the right margin.")
@click.option("--costs", is_flag=True, help="Show bytes and flops at the right margin.")
@click.option("--cost", is_flag=True, help="Show its arithmetic and memory traffic, by kernel.")
@click.option("--memory", is_flag=True, help="Show the memory of a call, and what is in it.")
@click.option("--time", "timed", is_flag=True, help="Show how long passes and LLVM take for it.")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print JSON: stages with their lines, or what else is asked for.",
)
@print_options
def ir(
    target: Target,
    after: str | None,
    level: str | None,
    every: bool,
    unchanged: bool,
    grep: str | None,
    near: str | None,
    follow: str | None,
    source: bool,
    costs: bool,
    cost: bool,
    memory: bool,
    timed: bool,
    as_json: bool,
    locs: bool,
    full_constants: bool,
) -> None:
    """Show the program of the compiled FUNCTION that FILE defines, or what it costs.

    FILE is run as a program, with what it prints on the standard error, until it calls the function; or, with
    --shapes or --arg, it is only imported and the function is traced for these types. FUNCTION may be a path, such
    as trainer.step. A .tir file is shown as it is, or as passes make it. What stands at the right margin is a
    comment: every dump can be read back, by tapec opt and tapec run.
    """
    program = Lowered(target.module)
    told = [*["time"] * timed, *["memory"] * memory, *["cost"] * cost]
    if level in NATIVE:
        text = program.text(level)
        click.echo(json.dumps({"level": level, "text": text}, indent=1) if as_json else text)
    elif told:
        reports = {name: REPORTS[name].made(program) for name in told}
        shown = {name: REPORTS[name].json(found) for name, found in reports.items()}
        click.echo(
            json.dumps(shown, indent=1) if as_json else "\n".join(map(str, reports.values()))
        )
    elif follow is not None:
        _follow(target, follow, as_json)
    else:
        counted = costs or as_json
        if every:
            stages = snapshots(target.module, locs=locs, costs=counted)
            stages = [stage for stage in stages if stage.changed or unchanged]
        else:
            after = after or LEVELS.get(level or "")
            module = after_pass(target.module, after)
            lines = lines_of(module, locs=locs, full_constants=full_constants, costs=counted)
            stages = [Snapshot(after or "input", True, 0.0, count(module), tuple(lines))]
        wanted = _value(stages, near)
        parts = [(stage, _chosen(stage, grep, wanted)) for stage in stages]
        if as_json:
            click.echo(json.dumps([_as_json(stage, part) for stage, part in parts], indent=1))
            return
        for stage, part in parts:
            if every:
                show_program(f"// ----- {stage.stage}: {_state(stage)}")
            if stage.changed:
                show_program("\n".join(with_margin(part, source=source, costs=costs)))


def _state(stage: Snapshot) -> str:
    """What there is to say of a pass in a line."""
    return f"{stage.ops} ops, {stage.seconds * 1e3:.1f} ms" if stage.changed else "unchanged"


def _follow(target: Target, text: str, as_json: bool) -> None:
    """Show a value and its adjoints on their way."""
    stages = snapshots(target.module)
    name = _value(stages, text) or ""
    ways = [(name, "", followed(stages, name))]
    ways += [
        (c, f"adjoint of %{name}", followed(stages, c)) for c, _ in cotangents_of(stages, name)
    ]
    if as_json:
        shown = [
            {"value": value, "what": what or "value", "stages": [_station_json(s) for s in way]}
            for value, what, way in ways
        ]
        click.echo(json.dumps(shown, indent=1))
        return
    texts = []
    for value, what, way in ways:
        place = next((line.location for s in way for line in s.lines if line.location), None)
        about = [what] * bool(what) + ([place.describe()] if place else [])
        head = f"%{value}" + (f"  {', '.join(about)}" if about else "")
        texts.append("\n".join([head, *map(str, way)]))
    show_program("\n\n".join(texts))


def _station_json(station: Station) -> dict[str, Any]:
    return {
        "stage": station.stage,
        "names": list(station.names),
        "changes": [
            {"value": name, "instead": change.instead, "rules": list(change.rules)}
            for name, change in station.changes
        ],
        "lines": [line.text.strip() for line in station.lines],
    }


def _value(stages: Sequence[Snapshot], text: str | None) -> str | None:
    """The value that is asked for.

    Raises:
        WrongTarget: no stage has it.
    """
    if text is None:
        return None
    known = {name: None for stage in stages for line in stage.lines for name in line.defines}
    name = text.removeprefix("%")
    # As `--all` calls it: a number of one stage is none of another.
    for found in (name, f"v{name}"):
        if found in known:
            return found
    names = [f"%{value}" for value in known]
    shown = ", ".join(names if len(names) <= 12 else [*names[:6], "…", *names[-5:]])
    raise WrongTarget(f"the program has no value {text}: it has {shown}")


def _chosen(stage: Snapshot, grep: str | None, name: str | None) -> Sequence[Line]:
    """The lines of a stage that are asked for."""
    lines: Sequence[Line] = stage.lines if name is None else around(stage.lines, name)
    if grep is not None:
        try:
            pattern = re.compile(grep)
        except re.error as error:
            raise WrongTarget(f"--grep: {grep!r} is no regular expression: {error}") from None
        lines = [line for line in lines if pattern.search(line.text)]
    return lines


def _as_json(stage: Snapshot, lines: Sequence[Line]) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "changed": stage.changed,
        "milliseconds": round(stage.seconds * 1e3, 3),
        "operations": stage.ops,
        "lines": [dict(_line_json(line)) for line in lines],
    }


def _line_json(line: Line) -> Iterator[tuple[str, Any]]:
    yield "text", line.text
    if line.op is not None:
        yield "operation", line.op
    yield "defines", list(line.defines)
    yield "reads", list(line.reads)
    yield "values", list(line.values)
    if line.location is not None:
        yield "file", line.location.file
        yield "line", line.location.line
    for name, number in (("bytes", line.bytes), ("flops", line.flops)):
        if number is not None:
            yield name, number if isinstance(number, int) else str(number)
