"""``tapec cache``: what is kept of compiled programs on disk, and removing it."""

from __future__ import annotations

import json

import click

from tapec import config
from tapec.compiler import cache as kept_programs
from tapec.runtime.cache import Cache, Held


@click.group()
def cache() -> None:
    """Look at the folder of compiled programs, or empty it."""


@cache.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def info(as_json: bool) -> None:
    """Where the folder is, whether it is used, how much it holds."""
    kept = _cache()
    refusal = kept.refusal()
    if as_json:
        held = Held(0, 0) if refusal is not None else kept.held()
        found = {"folder": str(kept.folder), "used": refusal is None, "refusal": refusal}
        click.echo(json.dumps(found | held._asdict() | {"most": config.cache_bytes()}, indent=1))
        return
    click.echo(f"folder  {kept.folder}")
    click.echo(f"used    {'yes' if refusal is None else f'no: {refusal}'}")
    if refusal is None:
        most = config.cache_bytes() / 2**20
        click.echo(f"holds   {_text(kept.held())}, of {most:.0f} MiB at most")


@cache.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def clear(as_json: bool) -> None:
    """Remove everything from the folder."""
    kept = _cache()
    refusal = kept.refusal()
    if refusal is not None:
        raise click.ClickException(f"the folder is not used: {refusal}")
    try:
        removed = kept.clear()
    except OSError as error:
        raise click.ClickException(f"the folder cannot be emptied: {error}") from None
    click.echo(json.dumps(removed._asdict(), indent=1) if as_json else f"removed {_text(removed)}")


def _cache() -> Cache:
    kept = kept_programs()
    if kept is None:
        raise click.ClickException("TAPEC_CACHE=0: no programs are kept")
    return kept


def _text(held: Held) -> str:
    return f"{held.entries} programs, {held.bytes / 2**20:.1f} MiB"
