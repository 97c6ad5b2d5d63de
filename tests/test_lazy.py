"""Attributes that are computed when they are first asked for."""

from __future__ import annotations

from threading import Event, Thread

from tapec.ir.lazy import lazy


class Slow:
    def __init__(self, entered: Event, go: Event) -> None:
        self.entered, self.go, self.count = entered, go, 0

    @lazy
    def value(self) -> int:
        """Waits for who lets it go."""
        self.count += 1
        self.entered.set()
        assert self.go.wait(20)
        return 3


def test_it_is_computed_once_and_then_an_attribute() -> None:
    go = Event()
    go.set()
    slow = Slow(Event(), go)
    assert (slow.value, slow.value, slow.count, vars(slow)["value"]) == (3, 3, 1, 3)
    assert Slow.value.__doc__ == "Waits for who lets it go."


def test_one_object_does_not_wait_for_another() -> None:
    """A lock for all objects, held while the process forks, would be held for ever in the child."""
    held, free = Slow(Event(), Event()), Slow(Event(), Event())
    free.go.set()
    thread = Thread(target=lambda: held.value)
    thread.start()
    assert held.entered.wait(20)
    reader = Thread(target=lambda: free.value, daemon=True)
    reader.start()
    reader.join(10)
    assert not reader.is_alive()
    held.go.set()
    thread.join()
