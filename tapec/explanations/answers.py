"""What tapes answered: gradients that were taken, and why those are None that are.

The explanation of a None is made when it is given, once for each line that asks and each way in which its tape was
used, so a loop pays for it once. It holds no tape and no array; messages about a None quote it later.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tapec.explanations.connections import Remembered
from tapec.explanations.explain import explain
from tapec.explanations.explanation import Explanation
from tapec.explanations.names import Names
from tapec.explanations.report import Report, row_of
from tapec.explanations.trail import Trail, Value
from tapec.frames import origin
from tapec.recording import missing_listeners, note_missing
from tapec.tapes.records import Recording
from tapec.tensor import Tensor
from tapec.variable import Variable

#: How many explanations one call of ``gradient`` makes, of how many lines they are kept, and how often one is made
#: anew because the tape was used in another way: of a loop whose turns all differ, the last of these has to do.
_EXPLAINED = 8
_KEPT = 256
_TRIES = 8


@dataclass(slots=True)
class _Told:
    """An explanation, for what use of the tape it was made, how often one was made for that line."""

    used: Any
    explanation: Explanation
    tries: int


_known: OrderedDict[Any, _Told] = OrderedDict()


def explain_each(
    trail: Trail,
    recording: Recording,
    targets: Sequence[Tensor | Variable],
    sources: Sequence[Tensor | Variable],
) -> list[Explanation]:
    """Why the gradient of the targets with respect to each source is None."""
    remembered, names = Remembered(trail, recording), Names()
    ends = [Value.of(t) for t in targets]
    return [explain(remembered, names, ends, Value.of(s)) for s in sources]


def report_on(
    trail: Trail,
    recording: Recording,
    targets: Sequence[Tensor | Variable],
    sources: Sequence[Tensor | Variable],
    gradients: Sequence[Any],
) -> Report:
    """What there is to say of gradients: one row for each."""
    remembered, names = Remembered(trail, recording), Names()
    ends = [Value.of(t) for t in targets]
    rows = []
    for source, gradient in zip(sources, gradients, strict=True):
        value = Value.of(source)
        missing = None
        if gradient is None:
            missing = explain(remembered, names, ends, value)
        watched = value.key in trail.watches or value.key in recording.variables
        rows.append(row_of(names.of(value, "a Tensor"), source, watched, gradient, missing))
    ended = [f"{names.of(v, 'the target')} ({t.type})" for v, t in zip(ends, targets, strict=True)]
    if len(targets) == 1 and not targets[0].type.shape:
        ended[0] += f" = {targets[0].array.item():.6g}"
    return Report(", ".join(ended), tuple(rows))


def explain_missing(
    trail: Trail,
    recording: Recording,
    targets: Sequence[Tensor | Variable],
    sources: Sequence[Tensor | Variable],
    gradients: Sequence[Tensor | None],
) -> None:
    """Say why gradients are None, to Variables and to messages about the None."""
    where = origin()
    asked = None if where is None else where[:2]
    used = (
        len(recording.entries),
        len(trail.steps),
        len(trail.departures),
        len(trail.assignments),
        len(trail.watches),
    )
    known: tuple[Remembered, Names] | None = None
    ends = [Value.of(t) for t in targets]
    missing: list[Explanation] = []
    for i, (source, gradient) in enumerate(zip(sources, gradients, strict=True)):
        if gradient is not None or len(missing) == _EXPLAINED:
            continue
        value = Value.of(source)
        key = asked, source.number if isinstance(source, Variable) else (i, source.type)
        told = _known.get(key)
        if told is None or (told.used != used and told.tries < _TRIES):
            known = known or (Remembered(trail, recording), Names())
            tries = 1 if told is None else told.tries + 1
            told = _known[key] = _Told(used, explain(*known, ends, value), tries)
            if len(_known) > _KEPT:
                _known.popitem(last=False)
        found = told.explanation
        missing.append(found)
        if isinstance(source, Variable):
            source.missing = found
    note_missing(tuple([str(explanation) for explanation in missing]))
    for hear in missing_listeners:
        hear(missing)
