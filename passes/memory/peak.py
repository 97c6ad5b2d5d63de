"""When most of the arena is in use, and by what."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from tapec.ir.core import Body, Function
from tapec.ir.dims import typical
from tapec.ir.ops.regions import RegionOp
from tapec.ir.placement import Lifetime, Place, lifetimes


class Peak(NamedTuple):
    """When most bytes of the arena are in use: while operation number ``at`` runs, ``bytes`` in ``alive``.

    What the operation's regions have in the arena then counts, too. Bytes of open sizes are typical ones.
    """

    at: int
    bytes: int
    alive: tuple[Lifetime, ...]


def peak(body: Function | Body) -> Peak:
    """The peak of a planned function or region; a value that was written over another counts, not both."""
    found = [life for life in lifetimes(body) if life.place.kind == "arena"]
    ends: dict[Lifetime, int] = {}
    latest: dict[Place, Lifetime] = {}
    for life in found:
        before = latest.get(life.place)
        if before is not None and before.last == life.first:
            ends[before] -= 1
        ends[life] = life.last
        latest[life.place] = life
    changes = [0] * (len(body.block.ops) + 1)
    for life, last in ends.items():
        changes[life.first] += typical(life.bytes)
        changes[last + 1] -= typical(life.bytes)
    inside = {}
    for i, op in enumerate(body.block.ops):
        if isinstance(op.defn, RegionOp):
            inside[i] = max((peak(region) for region in op.defn.bodies(op)), key=lambda p: p.bytes)
            changes[i] += inside[i].bytes
            changes[i + 1] -= inside[i].bytes
    used = list(accumulate(changes[:-1]))
    at = max(range(len(used)), key=used.__getitem__)
    alive = tuple(life for life, last in ends.items() if life.first <= at <= last)
    return Peak(at, used[at], alive + (inside[at].alive if at in inside else ()))
