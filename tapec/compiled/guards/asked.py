"""Places that a guard's source asks themselves: what they compare takes more than a value."""

from __future__ import annotations

from typing import Self

from tapec.compiled.guards.places import Place


class Asked(Place):
    """A place that tells whether it is as it was."""

    def source(self, owner: str, value: str) -> str:
        """A call of its own."""
        return f"{value}.holds()"

    @property
    def bound(self) -> Self:
        """Itself is what the source calls the value."""
        return self
