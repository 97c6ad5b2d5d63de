"""The settings that a program was compiled under. Where one changes, programs for others wait for its return.

`tapec.config.threading` tells of changes. Settings of the environment are read when a function is traced: looking at
them at each call would take as long as a small program.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from tapec import config
from tapec.compiled.retraces import Cause, Change
from tapec.config import threading

if TYPE_CHECKING:
    from tapec.compiled.function import CompiledFunction


class Settings(NamedTuple):
    """Those that make other code of a program."""

    threads: int

    @classmethod
    def now(cls) -> Settings:
        """As they are."""
        return cls(config.threads())


class Build:
    """What one program was compiled for.

    Attributes:
        fits: whether the settings are so now.
    """

    __slots__ = ("__weakref__", "_owner", "_settings", "fits")

    def __init__(self, owner: CompiledFunction[Any, Any]) -> None:
        """For the settings of now; ``owner`` is the function."""
        self._settings = Settings.now()
        self._owner = weakref.ref(owner)
        self.fits = True
        _builds.add(self)

    def compare(self, now: Settings) -> None:
        """Hear of a change."""
        self.fits = self._settings == now
        owner = self._owner()
        if owner is not None:
            owner.forget_quick_way()

    def changes(self) -> list[Change]:
        """What is not as it was."""
        now = Settings.now()
        return [
            Change(f"config.{name}", Cause.CONFIGURATION, f"{old} {name}", f"{new} {name}")
            for name, old, new in zip(Settings._fields, self._settings, now, strict=True)
            if old != new
        ]


_builds: weakref.WeakSet[Build] = weakref.WeakSet()


def _compare_all() -> None:
    now = Settings.now()
    for build in list(_builds):
        build.compare(now)


threading.listeners.append(_compare_all)
