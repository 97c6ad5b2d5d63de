"""The update that an optimizer is making: one at a time, whichever thread asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from tapec.ir.types import DType
from tapec.optimizers.undo import K, Undo, V
from tapec.tensor import Tensor
from tapec.variables.claims import survive_fork


class Updating:
    """What holds while an update is made; a copy of an optimizer has its own.

    Attributes:
        mask: whether values are taken at all, a scalar; None if they are.
        biases: bias corrections, the same for all variables; None in between.
        undo: takes the update back, if it fails.
    """

    def __init__(self) -> None:
        """Nobody updates."""
        self.mask: Tensor | None = None
        self.biases: dict[tuple[int, DType], Tensor] | None = None
        self.undo: Undo | None = None
        self.lock = RLock()
        survive_fork(self)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Others wait; if the block fails, all that it changed is taken back.

        A signal handler may update in the middle of another update of its thread, which then goes on as it was.
        """
        with self.lock:
            before = self.mask, self.biases, self.undo
            try:
                with Undo() as self.undo:
                    yield
            finally:
                self.mask, self.biases, self.undo = before

    def enters(self, table: dict[K, V], key: K, value: V) -> None:
        """Enter in a table what is not there yet; if an update goes on and fails, it is taken out again."""
        if self.undo is None:
            table[key] = value
        else:
            self.undo.enters(table, key, value)

    def __deepcopy__(self, memo: object) -> Updating:
        return Updating()

    def __reduce__(self) -> tuple[type[Updating], tuple[()]]:
        return Updating, ()
