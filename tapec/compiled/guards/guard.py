"""Guards: whether the Python state that a program was traced with is still what it was.

All places are looked at by one function, compiled from source that is written for them: identities, one after another,
some 10 ns each; what is not the same object is then compared by value.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tapec.compiled.guards.places import COMPARISONS, Entry, Place, same
from tapec.compiled.retraces import Change, RetraceWarning
from tapec.frames import depth
from tapec.tensor import EagerTensor


class Guard:
    """What one program rests on.

    Attributes:
        places: where the trace read Python state, and what it found.
        holds: a function of nothing: whether all of it is still so.
    """

    def __init__(self, places: Sequence[Place], name: str) -> None:
        """``name``: of the function, for messages."""
        self.places = list(places)
        self.holds: Callable[[], bool] = _compiled(self.places)
        self._name = name

    def changes(self) -> list[Change]:
        """What is not as it was."""
        return [place.change() for place in self.places if not place.holds()]

    def forgive(self) -> bool:
        """Take over global Tensors that were replaced by others of their type: Tensors are captured by value.

        So TensorFlow has it. Says so once for each.

        Returns:
            Whether all is well then.
        """
        changed = [place for place in self.places if not place.holds()]
        if not changed or not all(map(_is_by_value, changed)):
            return not changed
        for place in changed:
            place.value = place.now()
            warnings.warn(
                f"{self._name} goes on with the Tensor that {place.path} was when it was traced: a Tensor is taken "
                "by value, as in TensorFlow, and the name means another one now\n"
                "  remedy: pass it as an argument, or keep it in a tapec.Variable",
                RetraceWarning,
                stacklevel=depth(),
            )
        self.holds = _compiled(self.places)
        return True


def _is_by_value(place: Place) -> bool:
    old = place.value
    if type(place) is not Entry or not isinstance(old, EagerTensor):
        return False
    new = place.owner.get(place.key)
    return isinstance(new, EagerTensor) and new.type == old.type


def _compiled(places: Sequence[Place]) -> Callable[[], bool]:
    """One function that looks at all places; what it needs are its parameters' defaults, the fastest names."""
    bound: dict[str, Any] = {"same": same, "object_get": object.__getattribute__, **COMPARISONS}
    names: dict[int, str] = {}
    conditions = []
    for i, place in enumerate(places):
        owner = names.setdefault(id(place.owner), f"o{i}")
        bound[owner], bound[f"v{i}"] = place.owner, place.value
        conditions.append(place.source(owner, f"v{i}"))
    body = "\n            and ".join(conditions) or "True"
    text = f"""def holds({", ".join(f"{n}={n}" for n in bound)}):
    try:
        return (
            {body}
        )
    except (LookupError, AttributeError, ValueError):
        return False
"""
    space: dict[str, Any] = dict(bound)
    exec(compile(text, "<tapec guards>", "exec"), space)
    holds: Callable[[], bool] = space["holds"]
    return holds
