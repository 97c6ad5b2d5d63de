"""Random functions of a batch whose size is open: what each value's shape is made of is known, never what N is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

import tapec

#: The kinds of values: a batch of rows, a number for each of the batch, one row, pairs of the batch, a square.
BATCH, COLUMN, ROW, PAIRS, SQUARE = "batch", "column", "row", "pairs", "square"
#: Numbers in a row.
WIDTH = 4

Step = tuple[tuple[str, ...], str, Callable[..., Any]]


def _rolled(x: Any) -> Any:
    return tapec.concat([x[1:], x[:1]], 0)


def _twice(x: Any) -> Any:
    return tapec.concat([x, x * 0.5], 0)[::2]


def _padded(x: Any) -> Any:
    return tapec.pad(x, [[1, 2], [0, 0]])[1:-2]


def _segments(x: Any) -> Any:
    rows = tapec.range(tapec.shape(x)[0])
    sums = tapec.math.unsorted_segment_sum(x, rows % 3, 3)
    return tapec.gather(sums, rows % 3)


def _reshaped(x: Any) -> Any:
    flat = tapec.reshape(x, [-1, 2])
    return tapec.reshape(flat + 1.0, [tapec.shape(x)[0], WIDTH])


def _scanned(x: Any) -> Any:
    return tapec.scan(
        lambda carry, row: tapec.tanh(carry + row), x, tapec.zeros([WIDTH], tapec.float64)
    )


def _looped(x: Any) -> Any:
    def body(i: Any, total: Any) -> tuple[Any, Any]:
        return i + 1, total * 0.5 + tapec.gather(x, i)

    start = (tapec.constant(0), tapec.zeros([WIDTH], tapec.float64))
    n = tapec.shape(x)[0]
    return tapec.while_loop(lambda i, t: i < n, body, start, maximum_iterations=n)[1]


def _collected(x: Any) -> Any:
    n = tapec.shape(x)[0]
    rows = tapec.TensorArray(tapec.float64, size=n, element_shape=[WIDTH])

    def body(i: Any, rows: Any) -> tuple[Any, Any]:
        return i + 1, rows.write(n - 1 - i, tapec.gather(x, i) * 2.0)

    return tapec.while_loop(
        lambda i, _: i < n, body, (tapec.constant(0), rows), maximum_iterations=n
    )[1].stack()


def _scattered(x: Any) -> Any:
    n = tapec.shape(x)[0]
    places = tapec.reverse(tapec.range(n), [0])[:, None]
    return tapec.tensor_scatter_nd_add(x, places, x * 0.5)


def _convolved(x: Any) -> Any:
    kernel = tapec.reshape(
        tapec.range(3 * WIDTH * WIDTH, dtype=tapec.float64) * 0.01, [3, WIDTH, WIDTH]
    )
    return tapec.nn.conv1d(x[None], kernel, 1, "SAME")[0]


def _pooled(x: Any) -> Any:
    return tapec.nn.max_pool1d(x[None], 3, 1, "SAME")[0]


def _picked(x: Any) -> Any:
    best = tapec.one_hot(tapec.argmax(x, 1), WIDTH, dtype=tapec.float64)
    return x * best


STEPS: list[Step] = [
    ((BATCH,), BATCH, tapec.tanh),
    ((PAIRS,), PAIRS, tapec.nn.softmax),
    ((COLUMN,), COLUMN, lambda x: tapec.exp(-x * x)),
    ((BATCH, BATCH), BATCH, tapec.add),
    ((BATCH, ROW), BATCH, tapec.multiply),
    ((BATCH, COLUMN), BATCH, lambda x, c: x + c[:, None]),
    ((COLUMN, COLUMN), PAIRS, lambda a, b: a[:, None] * b[None, :]),
    ((BATCH, SQUARE), BATCH, tapec.matmul),
    ((BATCH, BATCH), SQUARE, lambda x, y: tapec.matmul(x, y, transpose_a=True) * 0.1),
    ((BATCH, BATCH), PAIRS, lambda x, y: tapec.matmul(x, y, transpose_b=True) * 0.1),
    ((PAIRS, BATCH), BATCH, tapec.matmul),
    ((PAIRS, COLUMN), COLUMN, tapec.linalg.matvec),
    ((BATCH,), ROW, lambda x: tapec.reduce_mean(x, 0)),
    ((BATCH,), ROW, lambda x: tapec.reduce_max(x, 0)),
    ((BATCH,), COLUMN, lambda x: tapec.reduce_logsumexp(x, 1)),
    ((PAIRS,), COLUMN, lambda x: tapec.math.reduce_std(x, 0)),
    ((PAIRS,), PAIRS, tapec.transpose),
    ((BATCH,), BATCH, lambda x: tapec.nn.softmax(x, 0)),
    ((BATCH,), BATCH, lambda x: tapec.cumsum(x, 0)),
    ((COLUMN,), COLUMN, lambda x: tapec.cumsum(x, exclusive=True, reverse=True)),
    ((BATCH,), BATCH, lambda x: tapec.reverse(x, [0])),
    ((BATCH,), BATCH, _rolled),
    ((BATCH,), BATCH, _twice),
    ((BATCH,), BATCH, _padded),
    ((BATCH,), BATCH, _segments),
    ((BATCH,), BATCH, _reshaped),
    ((BATCH,), BATCH, _scanned),
    ((BATCH,), ROW, _looped),
    ((BATCH,), BATCH, lambda x: tapec.map_fn(lambda row: row - tapec.reduce_max(row), x)),
    ((BATCH,), BATCH, _collected),
    ((BATCH,), BATCH, lambda x: tapec.sort(x, 0)),
    (
        (COLUMN, BATCH),
        BATCH,
        lambda c, x: tapec.gather(x, tapec.argsort(c, direction="DESCENDING")),
    ),
    ((BATCH,), BATCH, _scattered),
    ((BATCH,), BATCH, _convolved),
    ((BATCH,), BATCH, _pooled),
    ((BATCH,), BATCH, _picked),
    ((BATCH,), BATCH, lambda x: tapec.where(x > tapec.reduce_mean(x), x, 0.25 * x)),
    ((PAIRS,), PAIRS, lambda x: tapec.linalg.band_part(x, -1, 0)),
    ((BATCH,), BATCH, lambda x: x / tapec.cast(tapec.size(x), tapec.float64)),
    ((SQUARE,), ROW, lambda x: tapec.linalg.diag_part(x)),
]


@dataclass
class SizedProgram:
    """Steps with the numbers of the values that they read."""

    steps: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)

    def __call__(self, x: Any, w: Any) -> Any:
        """All that was made last: of a batch, and a square of weights."""
        values = [x, w]
        for step, operands in self.steps:
            values.append(STEPS[step][2](*(values[n] for n in operands)))
        return values[-1]

    def gradients(self, x: Any, w: Any) -> Any:
        """The result, its weighted sum, and the gradients of that."""
        with tapec.GradientTape() as tape:
            tape.watch([x, w])
            result = self(x, w)
            total = tapec.reduce_sum(result * tapec.sin(result))
        return result, total, tape.gradient(total, [x, w])


@st.composite
def sized_programs(draw: st.DrawFn) -> SizedProgram:
    """A few steps, each of values that there are, the last of the newest."""
    program, kinds = SizedProgram(), [BATCH, SQUARE]
    for _ in range(draw(st.integers(1, 6))):
        fitting = [n for n, step in enumerate(STEPS) if set(step[0]) <= set(kinds)]
        step = draw(st.sampled_from(fitting))
        operands = []
        for kind in STEPS[step][0]:
            known = [n for n, k in enumerate(kinds) if k == kind]
            operands.append(draw(st.sampled_from(known[-3:])))
        program.steps.append((step, tuple(operands)))
        kinds.append(STEPS[step][1])
    return program
