"""What a tape notes of the gradients that it gives, for explanations, which are loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from tapec.explanations.trail import CAPACITY, Trail, Value
from tapec.recording import announce_gradient, bystanders
from tapec.tapes.records import Recording
from tapec.tensor import Tensor
from tapec.variable import Variable


def note_answer(
    trail: Trail,
    recording: Recording,
    targets: Sequence[Tensor | Variable],
    sources: Sequence[Tensor | Variable],
    gradients: Sequence[Tensor | None],
) -> None:
    """Tell the tapes that wait for theirs of gradients that were given, and this one which are None."""
    trail.past = recording
    if bystanders:
        outputs = [g.id for g in gradients if g is not None]
        announce_gradient([t.id for t in targets if isinstance(t, Tensor)], outputs)
    note_missing_ways(trail, targets, sources, gradients)
    for source in sources:
        if isinstance(source, Variable):
            source.missing = None


def note_missing_ways(
    trail: Trail,
    targets: Sequence[Tensor | Variable],
    sources: Sequence[Tensor | Variable],
    gradients: Sequence[Tensor | None],
) -> None:
    """Remember which gradients turned out to be None: a derivative of the user's own may return that."""
    missing = [Value.of(s).key for s, g in zip(sources, gradients, strict=True) if g is None]
    if missing:
        if len(trail.unanswered) >= CAPACITY:
            trail.unanswered.clear()
        keys = frozenset(Value.of(t).key for t in targets)
        trail.unanswered.update((keys, key) for key in missing)
