"""Convolutions and pooling against loops in Python: eager, compiled, derivatives to second order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from both_ways import slope
from traced import traced_results

import tapec
from tapec import nn
from tapec.debugging import check_gradients
from tapec.errors import InvalidArgumentError, TapecError, UnimplementedError

Array = np.ndarray[Any, Any]
Pairs = Sequence[tuple[int, int]]
rng = np.random.default_rng(5)


def random(*shape: int) -> Array:
    return np.asarray(rng.uniform(-1, 1, shape))


def windows(
    x: Array, sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Any:
    """Yield the place of each window in the result, and the window ``[batch, taps..., channels]``."""
    reaches = [(n - 1) * d + 1 for n, d in zip(sizes, dilations, strict=True)]
    counts = [(n - r) // s + 1 for n, r, s in zip(x.shape[1:-1], reaches, strides, strict=True)]
    for place in itertools.product(*map(range, counts)):
        parts: list[Any] = [
            slice(p * s, p * s + r, d)
            for p, s, r, d in zip(place, strides, reaches, dilations, strict=True)
        ]
        yield place, x[(slice(None), *parts)]


def assembled(found: dict[tuple[int, ...], Array]) -> Array:
    """``[batch, places..., channels]`` from one ``[batch, channels]`` for each place."""
    shape = tuple(n + 1 for n in max(found))
    first = next(iter(found.values()))
    result = np.zeros((first.shape[0], *shape, first.shape[1]))
    for place, value in found.items():
        at: Any = (slice(None), *place)
        result[at] = value
    return result


def convolution(
    x: Array, w: Array, strides: Sequence[int], pairs: Pairs, dilations: Sequence[int]
) -> Array:
    """By loops over places and groups."""
    x = np.pad(x, [(0, 0), *pairs, (0, 0)])
    groups = x.shape[-1] // w.shape[-2]
    filters = np.split(w, groups, -1)
    found = {}
    for place, window in windows(x, w.shape[:-2], strides, dilations):
        channels = np.split(window, groups, -1)
        sums = [np.tensordot(c, f, axes=c.ndim - 1) for c, f in zip(channels, filters, strict=True)]
        found[place] = np.concatenate(sums, -1)
    return assembled(found)


def transposed(
    y: Array, w: Array, shape: Sequence[int], strides: Sequence[int], pairs: Pairs
) -> Array:
    """Each pixel times the filter, added where the window was."""
    wide = [n + low + high for n, (low, high) in zip(shape[1:-1], pairs, strict=True)]
    result = np.zeros((shape[0], *wide, shape[-1]))
    for place in itertools.product(*map(range, y.shape[1:-1])):
        parts = [slice(p * s, p * s + n) for p, s, n in zip(place, strides, w.shape, strict=False)]
        at: Any = (slice(None), *place)
        product = np.tensordot(y[at], w, axes=(1, w.ndim - 1))
        result[(slice(None), *parts)] += product
    inner = [slice(low, low + n) for n, (low, _) in zip(shape[1:-1], pairs, strict=True)]
    return np.asarray(result[(slice(None), *inner)])


def pooled(
    x: Array, sizes: Sequence[int], strides: Sequence[int], pairs: Pairs, mean: bool
) -> Array:
    x = np.pad(x, [(0, 0), *pairs, (0, 0)], constant_values=np.nan)
    axes = tuple(range(1, x.ndim - 1))
    reduced = np.nanmean if mean else np.nanmax
    ones = [1] * len(sizes)
    return assembled({p: reduced(w, axes) for p, w in windows(x, sizes, strides, ones)})


X, W = random(2, 5, 4, 2), random(3, 2, 2, 3)
ONE, NONE = (1, 1), ((0, 0), (0, 0))

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Array, ...]]] = {
    "conv2d": (
        lambda x, w: nn.conv2d(x, w, 1, "VALID"),
        lambda x, w: convolution(x, w, ONE, NONE, ONE),
        (X, W),
    ),
    "conv2d, same": (
        lambda x, w: nn.conv2d(x, w, 1, "SAME"),
        lambda x, w: convolution(x, w, ONE, ((1, 1), (0, 1)), ONE),
        (X, W),
    ),
    "conv2d, same with strides": (
        lambda x, w: nn.conv2d(x, w, [1, 2, 3, 1], "SAME"),
        lambda x, w: convolution(x, w, (2, 3), ((1, 1), (0, 1)), ONE),
        (X, W),
    ),
    "conv2d, padding and dilations": (
        lambda x, w: nn.conv2d(x, w, [2, 1], [[0, 0], [1, 2], [0, 3], [0, 0]], dilations=[2, 1]),
        lambda x, w: convolution(x, w, (2, 1), ((1, 2), (0, 3)), (2, 1)),
        (X, W),
    ),
    "conv2d of groups": (
        lambda x, w: nn.conv2d(x, w, 2, "VALID"),
        lambda x, w: convolution(x, w, (2, 2), NONE, ONE),
        (random(1, 4, 5, 4), random(2, 2, 2, 4)),
    ),
    "conv2d of one pixel": (
        lambda x, w: nn.conv2d(x, w, 2, "SAME"),
        lambda x, w: convolution(x, w, (2, 2), NONE, ONE),
        (X, random(1, 1, 2, 3)),
    ),
    "conv2d of batches of batches": (
        lambda x, w: nn.conv2d(x, w, 1, "VALID"),
        lambda x, w: np.stack([convolution(v, w, ONE, NONE, ONE) for v in x]),
        (random(2, 1, 3, 3, 1), random(2, 2, 1, 2)),
    ),
    "conv1d": (
        lambda x, w: nn.conv1d(x, w, 2, "SAME"),
        lambda x, w: convolution(x, w, (2,), ((0, 1),), (1,)),
        (random(2, 6, 2), random(3, 2, 2)),
    ),
    "convolution": (
        lambda x, w: nn.convolution(x, w, dilations=2),
        lambda x, w: convolution(x, w, (1,), ((0, 0),), (2,)),
        (random(1, 5, 2), random(2, 2, 1)),
    ),
    "conv3d": (
        lambda x, w: nn.conv3d(x, w, [1, 1, 1, 2, 1], "VALID"),
        lambda x, w: convolution(x, w, (1, 1, 2), ((0, 0),) * 3, (1, 1, 1)),
        (random(1, 3, 2, 4, 2), random(2, 1, 2, 2, 2)),
    ),
    "depthwise_conv2d": (
        lambda x, w: nn.depthwise_conv2d(x, w, [1, 2, 1, 1], "VALID"),
        lambda x, w: convolution(x, w.reshape(2, 3, 1, 4), (2, 1), NONE, ONE),
        (X, random(2, 3, 2, 2)),
    ),
    "depthwise_conv2d, one filter": (
        lambda x, w: nn.depthwise_conv2d(x, w, 1, "SAME"),
        lambda x, w: convolution(x, w.reshape(2, 3, 1, 2), ONE, ((0, 1), (1, 1)), ONE),
        (X, random(2, 3, 2, 1)),
    ),
    "separable_conv2d": (
        lambda x, w, v: nn.separable_conv2d(x, w, v, 1, "VALID"),
        lambda x, w, v: convolution(x, w.reshape(2, 2, 1, 2), ONE, NONE, ONE) @ v[0, 0],
        (random(1, 3, 3, 2), random(2, 2, 2, 1), random(1, 1, 2, 3)),
    ),
    "conv1d_transpose": (
        lambda y, w: nn.conv1d_transpose(y, w, [1, 6, 2], 2, "SAME"),
        lambda y, w: transposed(y, w, (1, 6, 2), (2,), ((0, 1),)),
        (random(1, 3, 1), random(3, 2, 1)),
    ),
    "conv2d_transpose": (
        lambda y, w: nn.conv2d_transpose(y, w, [1, 6, 5, 2], 2, "VALID"),
        lambda y, w: transposed(y, w, (1, 6, 5, 2), (2, 2), NONE),
        (random(1, 2, 2, 3), random(3, 2, 2, 3)),
    ),
    "conv2d_transpose, much padding": (
        lambda y, w: nn.conv2d_transpose(y, w, [1, 2, 3, 1], [1, 2], [[2, 3], [1, 1]]),
        lambda y, w: transposed(y, w, (1, 2, 3, 1), (1, 2), ((2, 3), (1, 1))),
        (random(1, 6, 2, 2), random(2, 2, 1, 2)),
    ),
    "max_pool1d": (
        lambda x: nn.max_pool1d(x, 2, 1, "VALID"),
        lambda x: pooled(x, (2,), (1,), ((0, 0),), False),
        (random(2, 4, 2),),
    ),
    "max_pool2d": (
        lambda x: nn.max_pool2d(x, [3, 2], [2, 1], "SAME"),
        lambda x: pooled(x, (3, 2), (2, 1), ((1, 1), (0, 1)), False),
        (X,),
    ),
    "max_pool by the number of axes": (
        lambda x: nn.max_pool(x, 2, 2, "VALID"),
        lambda x: pooled(x, (2, 2), (2, 2), NONE, False),
        (X,),
    ),
    "avg_pool2d": (
        lambda x: nn.avg_pool2d(x, [1, 3, 2, 1], [1, 2, 1, 1], "SAME"),
        lambda x: pooled(x, (3, 2), (2, 1), ((1, 1), (0, 1)), True),
        (X,),
    ),
    "avg_pool2d, padded as told": (
        lambda x: nn.avg_pool(x, 2, 2, [[1, 0], [1, 1]]),
        lambda x: pooled(x, (2, 2), (2, 2), ((1, 0), (1, 1)), True),
        (X,),
    ),
    "avg_pool3d": (
        lambda x: nn.avg_pool3d(x, 2, 1, "VALID"),
        lambda x: pooled(x, (2, 2, 2), (1, 1, 1), ((0, 0),) * 3, True),
        (random(1, 2, 3, 3, 1),),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_loops(name: str) -> None:
    ours, theirs, arrays = CASES[name]
    operands = [tapec.constant(a) for a in arrays]
    expected = theirs(*arrays)
    np.testing.assert_allclose(ours(*operands), expected, rtol=1e-12, atol=1e-14)
    compiled = tapec.compile(lambda *xs: ours(*xs))
    np.testing.assert_allclose(compiled(*operands), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")
    ours, _, arrays = CASES[name]
    check_gradients(ours, arrays, rtol=1e-6, atol=1e-8)
    check_gradients(slope(ours), arrays, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", ["VALID", "SAME"])
def test_gradients_in_a_compiled_function(padding: str) -> None:
    def slopes(x: tapec.Tensor, w: tapec.Tensor) -> Any:
        with tapec.GradientTape() as tape:
            tape.watch([x, w])
            y = nn.max_pool2d(nn.relu(nn.conv2d(x, w, 1, padding) + 0.1), 2, 2, padding)
            loss = tapec.reduce_sum(y * y)
        return tape.gradient(loss, [x, w])

    operands = tapec.constant(random(2, 9, 8, 3)), tapec.constant(random(3, 3, 3, 5))
    for found, expected in zip(tapec.compile(slopes)(*operands), slopes(*operands), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


def test_batches_of_any_size() -> None:
    def f(x: tapec.Tensor) -> tapec.Tensor:
        pooled = nn.avg_pool2d(nn.conv2d(x, W, 1, "SAME"), 2, 2, "SAME")
        return nn.conv2d_transpose(pooled, W, [tapec.shape(x)[0], 3, 2, 2], 1, "SAME")

    (found,) = traced_results(f, [X], symbolic=True)
    np.testing.assert_allclose(found, f(tapec.constant(X)), rtol=1e-12)


def test_rows_of_any_number() -> None:
    def f(x: tapec.Tensor) -> tapec.Tensor:
        rows = tapec.expand_dims(x, 0)
        return nn.avg_pool1d(nn.conv1d(rows, W[:, 0], 1, "SAME"), 3, 1, "SAME")

    (found,) = traced_results(f, [X[0, :, 0]], symbolic=True)
    np.testing.assert_allclose(found, f(tapec.constant(X[0, :, 0])), rtol=1e-12)


def halved(x: tapec.Tensor) -> tapec.Tensor:
    """Every second place."""
    return nn.max_pool1d(nn.conv1d(x[None], W[:, 0], 2, "SAME"), 3, 2, "SAME")


@pytest.mark.parametrize("rows", [2, 3, 4, 5, 6, 7])
def test_strides_over_rows_of_any_number(rows: int) -> None:
    x = np.resize(X[0, :, 0], (rows, *X.shape[3:]))
    (found,) = traced_results(halved, [x], symbolic=True)
    np.testing.assert_allclose(found, halved(tapec.constant(x)), rtol=1e-12)
    with pytest.raises(NotImplementedError, match="stride 3 of an axis whose size is not known"):
        traced_results(lambda x: nn.max_pool1d(x[None], 2, 3, "SAME"), [x], symbolic=True)


def test_the_first_of_equal_entries_gets_the_gradient() -> None:
    x = tapec.ones([1, 2, 2, 1])
    with tapec.GradientTape() as tape:
        tape.watch(x)
        y = nn.max_pool2d(x, 2, 2, "VALID")
    assert tape.gradient(y, x).numpy().reshape(-1).tolist() == [1.0, 0.0, 0.0, 0.0]


def test_pools_of_other_dtypes() -> None:
    integers = tapec.constant(np.arange(-4, 0).reshape(1, 4, 1))
    assert nn.max_pool1d(integers, 2, 2, "SAME").numpy().reshape(-1).tolist() == [-3, -1]
    half = tapec.fill([1, 4096, 1], tapec.constant(1.0, tapec.float16))
    assert nn.avg_pool1d(half, 4096, 1, "VALID").numpy().item() == 1.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.conv2d(X, W, 1, "VALID", "NWHC"), UnimplementedError, "only 'NHWC'"),
        (lambda: nn.conv2d(X, W, 1, "FULL"), TapecError, "SAME, VALID or pairs"),
        (lambda: nn.conv2d(X, W, [2, 1, 1, 1], "VALID"), TapecError, "strides must be"),
        (lambda: nn.conv2d(X, W, 0, "VALID"), TapecError, "strides must be"),
        (lambda: nn.conv2d(X, W, 1, [[1, 1]]), TapecError, "a pair of paddings"),
        (
            lambda: nn.conv2d(X, random(9, 9, 2, 1), 1, "VALID"),
            InvalidArgumentError,
            "not fit into",
        ),
        (lambda: nn.conv2d(X, random(3, 3, 3, 1), 1, "VALID"), InvalidArgumentError, "channels"),
        (lambda: nn.conv2d(X, X[0], 1, "VALID"), InvalidArgumentError, "expected filters"),
        (lambda: nn.conv2d(X[0, 0, 0], W, 1, "VALID"), InvalidArgumentError, "batch"),
        (lambda: nn.depthwise_conv2d(X, random(2, 2, 3, 1), 1, "VALID"), TapecError, "channels"),
        (lambda: nn.max_pool2d(X, 6, 1, "VALID"), InvalidArgumentError, "does not fit"),
        (lambda: nn.max_pool(X[0, 0], 1, 1, "VALID"), InvalidArgumentError, "one to three"),
        (
            lambda: nn.conv2d_transpose(X, W, [2, 5, 4, 2], 1, "SAME"),
            InvalidArgumentError,
            "do not make an image",
        ),
    ],
)
def test_is_refused(call: Callable[[], Any], error: type[TapecError], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


#: Functions of an image and its format, on channels that come last: lists with an entry for each axis in that order.
FORMATS: dict[str, tuple[str, tuple[int, ...], Callable[..., Any]]] = {
    "conv1d": ("NCW", (2, 6, 2), lambda x, f, e: nn.conv1d(x, W[0], 2, "SAME", f)),
    "conv2d": (
        "NCHW",
        (2, 5, 6, 2),
        lambda x, f, e: nn.conv2d(x, W, e([1, 2, 1, 1]), e([[0, 0], [1, 2], [0, 1], [0, 0]]), f),
    ),
    "conv3d": (
        "NCDHW",
        (1, 3, 4, 3, 2),
        lambda x, f, e: nn.conv3d(x, W[None], 1, "VALID", f, e([1, 1, 1, 2, 1])),
    ),
    "depthwise_conv2d": (
        "NCHW",
        (2, 5, 4, 2),
        lambda x, f, e: nn.depthwise_conv2d(x, W, e([1, 1, 1, 1]), "SAME", f),
    ),
    "separable_conv2d": (
        "NCHW",
        (2, 5, 4, 2),
        lambda x, f, e: nn.separable_conv2d(
            x, W, np.ones((1, 1, 6, 2)), e([1, 2, 2, 1]), "SAME", f
        ),
    ),
    "conv2d_transpose": (
        "NCHW",
        (2, 3, 2, 3),
        lambda x, f, e: nn.conv2d_transpose(x, W, e([2, 6, 4, 2]), 2, "SAME", f),
    ),
    "max_pool2d": (
        "NCHW",
        (2, 5, 6, 2),
        lambda x, f, e: nn.max_pool2d(x, e([1, 2, 3, 1]), e([1, 2, 1, 1]), "SAME", f),
    ),
    "avg_pool3d": ("NCDHW", (1, 3, 4, 3, 2), lambda x, f, e: nn.avg_pool3d(x, 2, 1, "SAME", f)),
    "pool": (
        "NCHW",
        (2, 5, 6, 2),
        lambda x, f, e: nn.pool(x, [2, 3], "AVG", data_format=f, dilations=[2, 1]),
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_channels_first_is_channels_last_moved(name: str) -> None:
    data_format, shape, f = FORMATS[name]
    x = random(*shape)
    expected = f(x, None, lambda entries: entries).numpy()
    moved = np.moveaxis(x, -1, 1)
    found = f(tapec.constant(moved), data_format, lambda e: [e[0], e[-1], *e[1:-1]]).numpy()
    np.testing.assert_allclose(found, np.moveaxis(expected, -1, 1), rtol=1e-12)


@pytest.mark.parametrize(("kind", "combine"), [("MAX", np.max), ("AVG", np.mean)])
def test_pools_with_gaps(kind: str, combine: Callable[..., Array]) -> None:
    x = random(2, 6, 5, 2)
    found = nn.pool(x, [2, 3], kind, dilations=[3, 1])
    expected = [
        [combine(x[:, [i, i + 3]][:, :, j : j + 3], axis=(1, 2)) for j in range(3)]
        for i in range(3)
    ]
    np.testing.assert_allclose(found.numpy(), np.moveaxis(np.array(expected), 2, 0), rtol=1e-12)
    for arguments in ({"padding": "SAME"}, {"strides": [2, 2]}):
        with pytest.raises(ValueError, match="not"):
            nn.pool(x, [2, 3], kind, dilations=[3, 1], **arguments)
