"""Tracebacks that go from the user's line to the user's line, where converted code calls our operators in between."""

from __future__ import annotations

from types import TracebackType

from tapec.frames import is_ours


def shortened(traceback: TracebackType | None) -> TracebackType | None:
    """Without our own frames above the user's last one; those where the error came from stay."""
    entries = []
    while traceback is not None:
        entries.append(traceback)
        traceback = traceback.tb_next
    users = [not is_ours(entry.tb_frame.f_globals.get("__name__", "")) for entry in entries]
    last = max((i for i, is_users in enumerate(users) if is_users), default=-1)
    result: TracebackType | None = None
    for i in reversed(range(len(entries))):
        entry = entries[i]
        if users[i] or i > last:
            result = TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result
