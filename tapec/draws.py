"""The keys that a function draws from generators, so that it draws the same ones when it runs again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from tapec.errors import RuntimeError
from tapec.frames import here
from tapec.recording import current_trace

if TYPE_CHECKING:
    from tapec.tensor import Tensor

#: Moves a generator's state on and gives its next key.
Draw = Callable[[], "Tensor"]

#: What gives keys: by default, generators' states do.
_SOURCE: ContextVar[Callable[[Draw], Tensor] | None] = ContextVar("source of keys", default=None)


def drawn(draw: Draw) -> Tensor:
    """The next key, which ``draw`` would give."""
    source = _SOURCE.get()
    return draw() if source is None else source(draw)


class Draws:
    """The keys that were drawn while a function ran."""

    def __init__(self) -> None:
        self._keys: list[Tensor] = []

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Remember the keys that are drawn meanwhile."""
        outer = _SOURCE.get()

        def source(draw: Draw) -> Tensor:
            key = draw() if outer is None else outer(draw)
            self._keys.append(key)
            return key

        with _from(source):
            yield

    @contextmanager
    def again(self) -> Iterator[None]:
        """Give the same keys once more; new ones to who draws more than before.

        Raises:
            RuntimeError: at a draw, if a branch or loop of a compiled function made its key.
        """
        keys = iter(self._keys)

        def source(draw: Draw) -> Tensor:
            key = next(keys, None)
            if key is None:
                return draw()
            if not _is_in_reach(key):
                raise RuntimeError(
                    "what a branch or loop of a compiled function draws at random cannot be drawn again for a gradient",
                    location=here(),
                    hint="let recompute_grad wrap what stands inside of the branch or loop, or draw from seeds: "
                    "tapec.random.stateless_uniform(shape, seed)",
                )
            return key

        with _from(source):
            yield


def _is_in_reach(key: Tensor) -> bool:
    """Whether a key can be read here: it is an array, or of a program around this one."""
    made, trace = getattr(key, "trace", None), current_trace()
    while trace is not None and trace is not made:
        trace = trace.parent
    return made is None or trace is made


@contextmanager
def _from(source: Callable[[Draw], Tensor]) -> Iterator[None]:
    token = _SOURCE.set(source)
    try:
        yield
    finally:
        _SOURCE.reset(token)
