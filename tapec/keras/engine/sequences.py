"""Connectionist temporal classification: labels without a time, of predictions for each step."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src import backend

import tapec
from tapec.keras.engine.control import scan
from tapec.keras.engine.conversion import convert_to_numpy, convert_to_tensor, floating
from tapec.keras.engine.selection import take_along_axis
from tapec.recording import current_trace
from tapec.tensor import Tensor

#: The logarithm of a probability that is as good as none.
_NEVER = -1e5


def ctc_loss(
    target: Any, output: Any, target_length: Any, output_length: Any, mask_index: int = 0
) -> Tensor:
    """The surprise at labels, of all ways in which they may be spread over the steps.

    Args:
        target: ``[batch, labels]``.
        output: logits ``[batch, steps, classes]``.
        target_length: how many labels there are, for each row.
        output_length: how many steps there are, for each row.
        mask_index: the class that means no label.

    Source: Graves et al., "Connectionist Temporal Classification", 2006; two states for each label: it was just said,
    or it was said and nothing since.
    """
    labels = convert_to_tensor(target, "int32")
    logits = floating(output)
    dtype = backend.result_type(logits.dtype, "float32")
    logs = tapec.nn.log_softmax(tapec.cast(logits, dtype))
    lengths = convert_to_tensor(target_length, "int32")
    steps = convert_to_tensor(output_length, "int32")
    batch, count = labels.shape
    same = tapec.cast(tapec.equal(labels[:, :-1], labels[:, 1:]), dtype)
    repeats = tapec.pad(same, [[0, 0], [0, 1]])
    said = tapec.einsum(
        "btk,bnk->tbn", logs, tapec.one_hot(labels, logs.shape[-1], dtype=logs.dtype)
    )
    silent = tapec.transpose(logs[:, :, mask_index : mask_index + 1], [1, 0, 2])
    inside = tapec.range(logs.shape[1])[:, None] < steps[None, :]

    def step(before: Any, row: Any) -> tuple[Any, None]:
        waiting, speaking = before
        say, pause, holds = row
        moved = _raised(waiting, speaking + _NEVER * repeats)
        spoken = tapec.math.logaddexp(moved[:, :-1] + say, speaking + say)
        paused = _raised(moved + pause, speaking + pause + _NEVER * (1.0 - repeats))
        holds = holds[:, None]
        return (tapec.where(holds, paused, waiting), tapec.where(holds, spoken, speaking)), None

    begun = tapec.concat([tapec.zeros([batch, 1], dtype), tapec.fill([batch, count], _NEVER)], 1)
    first = (tapec.cast(begun, dtype), tapec.cast(tapec.fill([batch, count], _NEVER), dtype))
    (waiting, speaking), _ = scan(step, first, (said, silent, inside))
    end = _raised(waiting, speaking)
    hits = tapec.one_hot(lengths, count + 1, dtype=end.dtype)
    return tapec.negative(tapec.reduce_sum(end * hits, -1))


def _raised(waiting: Tensor, speaking: Tensor) -> Tensor:
    """Who was speaking label n may wait for label n + 1."""
    return tapec.concat([waiting[:, :1], tapec.math.logaddexp(waiting[:, 1:], speaking)], -1)


def ctc_decode(
    inputs: Any,
    sequence_lengths: Any,
    strategy: str = "greedy",
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = True,
    mask_index: int | None = 0,
) -> tuple[Tensor, Tensor]:
    """Likely labels ``[paths, batch, steps]``, filled up with -1, and the logarithms of how likely they are.

    Raises:
        ValueError: ``strategy`` is neither ``"greedy"`` nor ``"beam_search"``.
        NotImplementedError: a beam search is compiled.
    """
    x = floating(inputs)
    x = tapec.cast(x, backend.result_type(x.dtype, "float32"))
    lengths = convert_to_tensor(sequence_lengths, "int32")
    blank = x.shape[-1] - 1 if mask_index is None else mask_index
    if strategy == "greedy":
        return _greedy(x, lengths, merge_repeated, blank)
    if strategy == "beam_search":
        return _beams(x, lengths, beam_width, top_paths, blank)
    raise ValueError(
        f"Invalid strategy {strategy}. Supported values are 'greedy' and 'beam_search'."
    )


def _greedy(x: Tensor, lengths: Tensor, merge: bool, blank: int) -> tuple[Tensor, Tensor]:
    steps = x.shape[1]
    inside = tapec.range(steps)[None, :] < lengths[:, None]
    classes = tapec.cast(tapec.argmax(x, -1), "int32")
    classes = tapec.where(inside, classes, tapec.constant(blank))
    best = tapec.reduce_max(x, -1)
    scores = tapec.negative(tapec.reduce_sum(tapec.where(inside, best, tapec.zeros_like(best)), 1))
    is_blank = tapec.equal(classes, tapec.constant(blank))
    if merge:
        same = tapec.equal(classes[:, 1:], classes[:, :-1])
        nothing = tapec.zeros_like(same[:, :1])
        is_blank = tapec.logical_or(is_blank, tapec.concat([nothing, same], 1))
    labels = tapec.where(is_blank, tapec.constant(-1), classes)
    order = tapec.where(is_blank, tapec.constant(steps), tapec.range(steps)[None, :])
    labels = take_along_axis(labels, tapec.argsort(order, -1, stable=True), -1)
    return labels[None], scores[:, None]


def _beams(x: Tensor, lengths: Tensor, width: int, top: int, blank: int) -> tuple[Tensor, Tensor]:
    if current_trace() is not None:
        raise NotImplementedError(
            "ctc_decode with a beam search cannot be compiled: use strategy='greedy'"
        )
    logs = convert_to_numpy(tapec.nn.log_softmax(x))
    found = [
        _search(rows[: int(n)], width, blank) for rows, n in zip(logs, lengths.numpy(), strict=True)
    ]
    steps = logs.shape[1]
    labels = [[list(path) + [-1] * (steps - len(path)) for path, _ in best[:top]] for best in found]
    scores = [[score for _, score in best[:top]] for best in found]
    return (
        tapec.transpose(tapec.constant(labels, "int32"), [1, 0, 2]),
        convert_to_tensor(scores, x.dtype.name),
    )


def _search(rows: Any, width: int, blank: int) -> list[tuple[tuple[int, ...], float]]:
    """The likeliest labels for one sequence, best first: for each, its chance to end in silence and in a label."""
    never = -np.inf
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, never)}
    for row in rows:
        grown: dict[tuple[int, ...], list[float]] = {}

        def add(path: tuple[int, ...], at: int, score: float, into: Any = grown) -> None:
            state = into.setdefault(path, [never, never])
            state[at] = np.logaddexp(state[at], score)

        for path, (silent, said) in beams.items():
            add(path, 0, np.logaddexp(silent, said) + row[blank])
            for label, score in enumerate(row):
                if label == blank:
                    continue
                if path and path[-1] == label:
                    add(path, 1, said + score)
                    add((*path, label), 1, silent + score)
                else:
                    add((*path, label), 1, np.logaddexp(silent, said) + score)
        ranked = sorted(grown.items(), key=lambda item: -np.logaddexp(item[1][0], item[1][1]))
        beams = {path: (state[0], state[1]) for path, state in ranked[:width]}
    scored = [(path, float(np.logaddexp(state[0], state[1]))) for path, state in beams.items()]
    return sorted(scored, key=lambda item: -item[1])
