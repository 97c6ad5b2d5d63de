"""The gradients of what a tape recorded, for whole Variables: who knows the program is asked for those of values."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tapec.derivatives.cotangents import total
from tapec.derivatives.slices import Ask, gradients_by_slices
from tapec.errors import RuntimeError
from tapec.frames import here
from tapec.recording import current_trace, tracing
from tapec.tapes.records import Record, Recording, with_stand_ins
from tapec.tensor import EagerTensor, Tensor, next_id
from tapec.variable import Variable

if TYPE_CHECKING:
    from tapec.tracing import Trace


def gradients_of(
    recording: Recording,
    home: Trace | None,
    late: Mapping[int, int],
    targets: Sequence[Tensor | Variable],
    sources: Sequence[Tensor | Variable],
    seeds: Sequence[Tensor] | None,
    batched: bool = False,
) -> list[Tensor | None]:
    """A gradient for each source; those of what carries none are None.

    Args:
        recording: what the tape knows.
        home: the function that was being compiled when the recording began, if one was.
        late: when tensors were watched that recorded operations had used before, by id.
        targets: whose sum the gradient is of.
        sources: with respect to what.
        seeds: the weights of the targets' elements; ones if None.
        batched: whether seeds, and then gradients, have one more leading axis.

    Raises:
        RuntimeError: the tape was taken out of the function that it recorded.
    """
    kept = [i for i, t in enumerate(targets) if t.dtype.is_differentiable]
    differentiable = [i for i, s in enumerate(sources) if s.dtype.is_differentiable]
    gradients: list[Tensor | None] = [None] * len(sources)
    if kept and differentiable:
        found = _gradients(
            recording,
            home,
            late,
            [targets[i] for i in kept],
            [sources[i] for i in differentiable],
            None if seeds is None else [seeds[i] for i in kept],
            batched,
        )
        for i, gradient in zip(differentiable, found, strict=True):
            gradients[i] = gradient
    return gradients


def _gradients(
    recording: Recording,
    home: Trace | None,
    late: Mapping[int, int],
    targets: Sequence[Tensor | Variable],
    sources: Sequence[Tensor | Variable],
    seeds: Sequence[Tensor] | None,
    batched: bool,
) -> list[Any]:
    """Gradients of tensors: a Variable stands for all its reads, whose gradients add up."""
    trace = current_trace()
    if home is not None and (trace is None or not trace.is_within(home)):
        raise RuntimeError(
            "this tape recorded a function while it was compiled, and was taken out of it",
            location=here(),
            hint="ask for the gradient inside of that function, and return it",
        )
    if home is not None and trace is not None and trace is not home:
        # Asked inside of a branch or loop: the answer is computed in front of it, where the tape recorded.
        _refuse_inner(home, targets)
        with tracing(home, trace.tapes_at(home)):
            return _gradients(recording, home, late, targets, sources, seeds, batched)
    fresh: dict[int, int] = {}
    target_tensors = [_target_tensor(t, fresh) for t in targets]
    groups: list[list[int]] = []
    for source in sources:
        if isinstance(source, Tensor):
            groups.append([source.id])
        else:
            _, reads = recording.variables.get(id(source), (source, []))
            mine = [*reads, *([fresh[id(source)]] if id(source) in fresh else [])]
            groups.append(list(dict.fromkeys(mine)))
    # What is used but was never watched is no source, save as a target's own.
    followed = recording.active | {t.id for t in target_tensors}
    groups = [[i for i in group if i in followed] for group in groups]
    types = {i: s.type for s, group in zip(sources, groups, strict=True) for i in group}
    # What was recorded before a function is compiled has values, also inside of it.
    records: Sequence[Record] = recording.records if late or recording.looks_up or home else ()
    ask: Ask
    if trace is not None and home is not None:
        # Whoever compiles nothing need not load it.
        from tapec.derivatives.traced_gradient import gradient

        ask = functools.partial(gradient, trace)
    else:
        ask, records = _eager_ask(recording, records, late)
    found = gradients_by_slices(ask, records, target_tensors, types, seeds, batched)
    return [total([found[i] for i in group]) for group in groups]


def _eager_ask(
    recording: Recording, records: Sequence[Record], late: Mapping[int, int]
) -> tuple[Ask, Sequence[Record]]:
    """Who answers what a tape recorded outside of compiled functions, and which records it is asked about."""
    from tapec.derivatives.eager_gradient import eager_gradient, gradient_of_records  # slow to load

    if late:
        return gradient_of_records, with_stand_ins(records, late, _stand_in)
    return lambda _, *question: eager_gradient(recording, *question), records


def _refuse_inner(home: Trace, targets: Sequence[Tensor | Variable]) -> None:
    for target in targets:
        own = getattr(target, "trace", home)
        if own is not home and own.is_within(home):
            raise RuntimeError(
                "this target was computed inside of a branch or loop, of which the tape outside hears as a whole",
                location=here(),
                hint="open the tape inside of the function that computes it",
            )


def _target_tensor(target: Tensor | Variable, fresh: dict[int, int]) -> Tensor:
    if isinstance(target, Tensor):
        return target
    # A Variable as target is one more read of it, which its source part must know.
    trace = current_trace()
    if trace is not None:
        value = trace.read(target, heard=False)
    else:
        value = EagerTensor(target.array, target.type, next_id())
    fresh[id(target)] = value.id
    return value


def _stand_in(tensor: Tensor) -> Tensor:
    return EagerTensor(tensor.array, tensor.type, ~tensor.id)
