"""The settings that a program was compiled under. Where one changes, programs for others wait for its return.

`tapec.config.threading` and `tapec.devices` tell of changes. Settings of the environment are read when a function is
traced: looking at them at each call would take as long as a small program.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from tapec import config, devices
from tapec.compiled.retraces import Cause, Change
from tapec.config import threading

if TYPE_CHECKING:
    from tapec.compiled.function import CompiledFunction


class Setting(NamedTuple):
    """One that makes other code of a program."""

    name: str
    value: str

    @classmethod
    def now(cls, target: str) -> Setting:
        """As it is, of the one that counts for a target: a processor's threads, a GPU's precision."""
        if target.startswith("cuda"):
            name = "config.experimental.tensor_float_32_execution_enabled"
            return cls(name, str(devices.tensor_float_32_execution_enabled()))
        return cls("config.threads", f"{config.threads()} threads")


class Build:
    """What one program was compiled for.

    Attributes:
        fits: whether the setting is so now.
    """

    __slots__ = ("__weakref__", "_owner", "_setting", "_target", "fits")

    def __init__(self, owner: CompiledFunction[Any, Any]) -> None:
        """For the setting of now; ``owner`` is the function."""
        self._target = owner.settings.target
        self._setting = Setting.now(self._target)
        self._owner = weakref.ref(owner)
        self.fits = True
        _builds.add(self)

    def compare(self) -> None:
        """Hear of a change."""
        fits = self._setting == Setting.now(self._target)
        if fits == self.fits:
            return
        self.fits = fits
        owner = self._owner()
        if owner is not None:
            owner.forget_quick_way()

    def changes(self) -> list[Change]:
        """What is not as it was."""
        old, new = self._setting, Setting.now(self._target)
        if old == new:
            return []
        return [Change(old.name, Cause.CONFIGURATION, old.value, new.value)]


_builds: weakref.WeakSet[Build] = weakref.WeakSet()


def _compare_all() -> None:
    for build in list(_builds):
        build.compare()


threading.listeners.append(_compare_all)
devices.listeners.append(_compare_all)
