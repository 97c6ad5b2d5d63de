"""Kernels that join others: sums of everything, and what takes no more memory than what it is made of.

A kernel that reduces values to one number reads them once more than they are written, and what it computes from them
was often computed where they were made. So if its loops and those of the kernels before it run over the same elements,
all become one kernel, which keeps the sum while it writes the rest (`tapec.passes.fusion.totals`); what only the sum
needed is not in memory at all.

What several kernels read of a value is in memory, though all but one may be in the kernel that makes it. Where the last
one only makes of it, element by element, what takes its place, such as the choice between an optimizer's new state and
the old one, it becomes part of that kernel, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tapec.ir.core import Operation, Value
from tapec.ir.op import RUNS
from tapec.ir.ops.control import Return
from tapec.ir.ops.loop import Yield
from tapec.passes.fusion.access import identity
from tapec.passes.fusion.depth import DEEPEST
from tapec.passes.fusion.grouping import Group, repeats
from tapec.passes.fusion.totals import total_of


def merge(
    groups: list[Group],
    outside: Iterable[Operation],
    position: Callable[[Operation], int],
    most_ops: int,
) -> list[Group]:
    """The groups, those that belong together merged; ``position`` tells where in the program an operation is."""
    kept = set(outside)
    return _merge_totals(
        _merge_followers(groups, kept, position, most_ops), kept, position, most_ops
    )


def _merge_totals(
    groups: list[Group],
    outside: set[Operation],
    position: Callable[[Operation], int],
    most_ops: int,
) -> list[Group]:
    """Sums of everything join what they add up."""
    for total in list(groups):
        op = total_of(total.ops, total.outputs) if total.core is None else None
        if op is None:
            continue
        shape = op.operands[0].tensor.shape
        members = [total]
        for group in groups:
            fits = group.core is None and group.space == shape and not group.has_loops
            if fits and total in group.readers and _fit([*members, group], outside, most_ops):
                members.append(group)
        if len(members) > 1:
            groups = _merged(groups, members, outside, position)
    return groups


def _merge_followers(
    groups: list[Group],
    outside: set[Operation],
    position: Callable[[Operation], int],
    most_ops: int,
) -> list[Group]:
    """What replaces a value joins what makes it."""
    for follower in list(groups):
        homes = [group for group in groups if follower in group.readers]
        home = next((g for g in homes if _replaces(follower, g, groups, outside, most_ops)), None)
        if home is not None:
            groups = _merged(groups, [follower, home], outside, position)
    return groups


def _replaces(
    follower: Group, home: Group, groups: list[Group], outside: set[Operation], most_ops: int
) -> bool:
    """Whether what a group writes may be written in place of what it reads from another, and takes no more memory."""
    space = home.space
    plain = follower.core is None and not follower.has_loops and len(space) > 0
    contracts = home.core is None or home.core.defn.form == "contraction"
    if not (plain and contracts) or repeats(follower) or repeats(home):
        return False
    written = [*follower.outputs, *home.outputs]
    if any(value.tensor.shape != space for value in written):
        return False
    read = [value for value in home.outputs if value in follower.accesses]
    rest = [group for group in groups if group not in (follower, home)]
    saved = [value for value in read if not _is_needed(value, rest, outside)]
    own = [identity(len(space))]
    return (
        sum(v.tensor.dtype.bytes for v in follower.outputs)
        <= sum(v.tensor.dtype.bytes for v in saved)
        and all(follower.accesses[value] == own for value in read)
        and not _reads_through(outside, [follower], home.outputs)
        and _is_small([follower, home], most_ops)
        and _is_closed([follower, home])
    )


def _is_needed(value: Value, rest: Iterable[Group], outside: set[Operation]) -> bool:
    """Whether others than the groups that are merged read a value: it must be in memory."""
    return any(
        isinstance(user.defn, Return | Yield)
        or user in outside
        or any(user in group.ops for group in rest)
        for user in value.users
    )


def _fit(members: list[Group], outside: set[Operation], most_ops: int) -> bool:
    """Whether groups can be one: the first, whose loops are a reduction's, and others that write what it reads."""
    total, *others = members
    space = others[0].space
    runs, own = (RUNS,) * len(space), identity(len(space))
    written = [value for group in others for value in group.outputs]
    return (
        _is_small(members, most_ops)
        and all(value.tensor.shape == space for value in written)
        and all(
            access == (runs if reader is total else own)
            for reader in members
            for value in written
            for access in reader.accesses.get(value, ())
        )
        and not _reads_through(outside, members, written)
        and _is_closed(members)
    )


def _is_small(members: list[Group], most_ops: int) -> bool:
    """Whether groups as one have few enough operations, and not too many of them on top of each other."""
    return (
        len({op for member in members for op in member.ops}) <= most_ops
        and sum(member.depth for member in members) <= DEEPEST
    )


def _reads_through(outside: set[Operation], members: list[Group], written: Iterable[Value]) -> bool:
    """Whether a member reads what an operation outside of kernels makes of the values: those must be in memory."""
    stack = [user for value in written for user in value.users if user in outside]
    while stack:
        for user in [user for result in stack.pop().results for user in result.users]:
            if any(user in member.ops for member in members):
                return True
            if user in outside:
                stack.append(user)
    return False


def _is_closed(members: list[Group]) -> bool:
    """Whether nothing that others make from the members' results comes back to a member."""
    others = {reader for member in members for reader in member.readers}.difference(members)
    return not any(other.reaches(member) for other in others for member in members)


def _merged(
    groups: list[Group],
    members: list[Group],
    outside: set[Operation],
    position: Callable[[Operation], int],
) -> list[Group]:
    """The groups with one in place of the members."""
    rest = [group for group in groups if group not in members]
    merged = Group((), core=next((m.core for m in members if m.core is not None), None))
    for member in reversed(members):
        for value in member.outputs:
            if _is_needed(value, rest, outside):
                merged.write(value)
        merged.readers |= member.readers.difference(members)
    ops = {op for member in members for op in member.ops}
    merged.recompute(sorted(ops, key=position, reverse=True))
    for group in rest:
        if not group.readers.isdisjoint(members):
            group.readers = group.readers.difference(members) | {merged}
    return [*rest, merged]
