"""``tapec ops``, ``tapec passes``, ``tapec config``: documentation made from the code."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Sequence
from dataclasses import fields
from difflib import get_close_matches

import click

from tapec import config as settings_module
from tapec.errors import ValueError
from tapec.ir import OPS, Op
from tapec.passes import ORDER, PASSES, PIPELINES
from tapec.tables import Table

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _tables(as_json: bool, **tables: tuple[Sequence[str], Iterable[Sequence[str]]]) -> None:
    """Print tables, a blank line between two; or as JSON, by name, a row as an object."""
    if as_json:
        found = {
            name: [dict(zip(head, row, strict=True)) for row in rows]
            for name, (head, rows) in tables.items()
        }
        click.echo(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        texts = [Table(head, list(rows)).text() for head, rows in tables.values()]
        click.echo("\n\n".join(texts))


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_json
def ops(names: tuple[str, ...], as_json: bool) -> None:
    """List the operations, or describe those named."""
    for name in names:
        if name not in OPS:
            close = ", ".join(get_close_matches(name, OPS)) or "tapec ops lists them"
            raise ValueError(f"no operation is called {name}", hint=close)
        if not as_json:
            _describe(OPS[name])
    if not names or as_json:
        rows = [
            (name, _levels(op), op.form, _derivative(op), _on_devices(op), _summary(op))
            for name, op in sorted(OPS.items())
            if not names or name in names
        ]
        _tables(as_json, ops=(("name", "level", "form", "derivative", "cuda", "meaning"), rows))


def _describe(op: Op) -> None:
    """Everything that the class says about an operation."""
    click.echo(f"{op.name}  ({_levels(op)} level{'s' * (len(op.levels) > 1)}, {op.form} form)\n")
    click.echo(f"{inspect.cleandoc(type(op).__doc__ or '')}\n")
    keywords = [
        str(p).split(":")[0] + ("" if p.default is p.empty else f" = {p.default!r}")
        for p in inspect.signature(op.infer).parameters.values()
        if p.kind is p.KEYWORD_ONLY and not (op.typed and p.name == "type")
    ]
    if keywords:
        click.echo(f"attributes  {', '.join(keywords)}")
    kinds = getattr(op, "kinds", ())
    if kinds:
        click.echo(f"dtypes      {', '.join(sorted(kinds))}")
    if op.no_device:
        click.echo(f"cuda        no: {op.no_device}")
    click.echo(f"results     {_first_line(op.infer)}")
    if _derivative(op) == "yes":
        click.echo(f"vjp         {_first_line(op.vjp)}")
    click.echo()


def _summary(op: Op) -> str:
    return inspect.cleandoc(type(op).__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def _first_line(method: object) -> str:
    return (inspect.getdoc(method) or "").partition("\n")[0]


def _levels(op: Op) -> str:
    return "both" if len(op.levels) > 1 else next(iter(op.levels))


def _on_devices(op: Op) -> str:
    return "no" if op.no_device else "yes"


def _derivative(op: Op) -> str:
    has = op.differentiable and op.form != "structural" and type(op).vjp is not Op.vjp
    return "yes" if has else ""


@click.command()
@_json
def passes(as_json: bool) -> None:
    """List the passes, their options and their order."""
    rows = []
    for name, row in PASSES.items():
        default = row.options()
        options = ", ".join(_option(f.name, getattr(default, f.name)) for f in fields(row.options))
        levels = row.takes if row.takes == row.leaves else f"{row.takes} → {row.leaves}"
        rows.append((name, levels, options, row.summary))
    _tables(
        as_json,
        passes=(("pass", "level", "options", "what it does"), rows),
        pipelines=(("pipeline", "passes"), list(PIPELINES.items())),
        order=(("before", "after", "because"), [(c.earlier, c.later, c.why) for c in ORDER]),
    )


def _option(name: str, value: object) -> str:
    """An option of a pass, as it is written in a pipeline."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{name.replace('_', '-')}={text}"


@click.command()
@_json
def config(as_json: bool) -> None:
    """List the settings: environment variables, what they are set to, what they mean."""
    rows = [
        (s.name, s.value or "-", "" if s.value == s.default else "set", s.meaning)
        for s in settings_module.settings
    ]
    _tables(as_json, settings=(("variable", "value", "is", "meaning"), rows))
