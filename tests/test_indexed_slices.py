"""IndexedSlices: gradients of what was looked up, and the updates that take them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapec as tf

TABLE = np.arange(12.0, dtype=np.float32).reshape(4, 3)
IDS = np.array([[2, 0], [2, 3]], np.int32)


def dense(gradient: Any) -> Any:
    return tf.convert_to_tensor(gradient).numpy()


def values(slices: Any) -> Any:
    return slices.values


def looked_up(table: Any, ids: Any) -> Any:
    return tf.reduce_sum(tf.nn.embedding_lookup(table, ids) ** 3)


def expected(table: Any, ids: Any) -> Any:
    """The dense gradient of `looked_up`."""
    result = np.zeros_like(table)
    np.add.at(result, ids, 3 * table[ids] ** 2)
    return result


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "compiled"])
def test_the_gradient_of_lookups_is_slices(wrap: Callable[[Any], Any]) -> None:
    v = tf.Variable(TABLE)

    @wrap
    def gradient(ids: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = looked_up(v, ids)
        return tape.gradient(loss, v)

    g = gradient(IDS)
    assert isinstance(g, tf.IndexedSlices)
    assert g.indices.numpy().tolist() == [2, 0, 2, 3]
    assert g.values.shape == (4, 3)
    np.testing.assert_allclose(dense(g), expected(TABLE, IDS), rtol=1e-6)


def test_one_row_too() -> None:
    v = tf.Variable(TABLE)
    with tf.GradientTape(persistent=True) as tape:
        row = tf.reduce_sum(tf.gather(v, 2))
        entry = tf.reduce_sum(v[tf.constant(2)])
    slices = tape.gradient(row, v)
    assert (slices.indices.numpy().tolist(), slices.values.shape) == ([2], (1, 3))
    assert isinstance(tape.gradient(entry, v), tf.Tensor)  # as in TensorFlow


def test_indices_of_two_widths_meet_in_the_wider() -> None:
    v = tf.Variable(TABLE)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.gather(v, np.int64(1))) + tf.reduce_sum(tf.gather(v, [0, 1]))
    g = tape.gradient(y, v)
    assert (g.indices.dtype, g.indices.numpy().tolist()) == (tf.int64, [1, 0, 1])


@pytest.mark.parametrize(
    "use",
    [
        lambda v: tf.reduce_sum(tf.gather(v, [1])) + tf.reduce_sum(v),
        lambda v: tf.reduce_sum(tf.gather(tf.gather(v, [1, 1]) * v[:2], [0])),
        lambda v: tf.reduce_sum(tf.gather(2.0 * v, [1])),
        lambda v: tf.reduce_sum(tf.gather(v, [1], axis=1)),
        lambda v: tf.reduce_sum(tf.boolean_mask(v, [True, False, True, True])),
    ],
)
def test_other_uses_make_it_dense(use: Callable[[Any], Any]) -> None:
    v = tf.Variable(TABLE)
    with tf.GradientTape() as tape:
        y = use(v)
    assert isinstance(tape.gradient(y, v), tf.Tensor)


def test_a_target_that_is_the_source_makes_it_dense() -> None:
    x = tf.constant(TABLE)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.gather(x, [1])
    np.testing.assert_array_equal(tape.gradient([x, y], x)[1], [2, 2, 2])


def test_a_lookup_cut_off_does_not_count() -> None:
    v = tf.Variable(TABLE)
    with tf.GradientTape(persistent=True) as tape:
        cut = tf.stop_gradient(tf.gather(v, [0]))
        y = tf.reduce_sum(tf.gather(v, [1])) + tf.reduce_sum(cut)
    assert tape.gradient(y, v).indices.numpy().tolist() == [1]
    assert tape.gradient(cut, v) is None


def test_slices_are_targets_and_are_followed() -> None:
    v = tf.Variable(TABLE)
    with tf.GradientTape(persistent=True) as outer:
        with tf.GradientTape() as inner:
            loss = looked_up(v, IDS)
        g = inner.gradient(loss, v)
        norm = tf.reduce_sum(tf.convert_to_tensor(g))
    wanted = np.zeros_like(TABLE)
    np.add.at(wanted, IDS, 6 * TABLE[IDS])
    np.testing.assert_allclose(dense(outer.gradient(g, v)), wanted)
    np.testing.assert_allclose(dense(outer.gradient(norm, v)), wanted)


def test_jacobians_are_dense() -> None:
    v = tf.Variable(TABLE)
    with tf.GradientTape() as tape:
        y = tf.gather(v, [2, 2])
    assert tape.jacobian(y, v).shape == (2, 3, 4, 3)


def test_the_way_through_a_users_derivative_is_no_hindrance() -> None:
    @tf.custom_gradient
    def doubled(x: Any) -> Any:
        return 2.0 * x, lambda ct: 5.0 * ct

    v = tf.Variable(TABLE)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(doubled(tf.gather(v, [1, 1])))
    g = tape.gradient(y, v)
    assert g.indices.numpy().tolist() == [1, 1]
    np.testing.assert_array_equal(g.values, np.full((2, 3), 5))


# ---- what it is


def slices() -> Any:
    return tf.IndexedSlices([[1.0], [2.0], [4.0]], [1, 1, 0], [3, 1])


def test_it_stands_for_a_tensor() -> None:
    s = slices()
    np.testing.assert_array_equal(dense(s), [[4], [3], [0]])
    np.testing.assert_array_equal(np.asarray(s), s.numpy())
    assert (s.shape, s.dtype, s.dense_shape.numpy().tolist()) == ((3, 1), tf.float32, [3, 1])
    np.testing.assert_array_equal(tf.square(s), [[16], [9], [0]])
    np.testing.assert_array_equal(tf.add_n([s, tf.ones([3, 1])]), [[5], [4], [1]])
    assert tf.is_tensor(s)


def test_arithmetic_keeps_slices_where_it_can() -> None:
    s = slices()
    for result, wanted in (
        (s * 2.0, 2),
        (2.0 * s, 2),
        (tf.constant(2.0) * s, 2),
        (s / 2.0, 0.5),
        (-s, -1),
        (s + s, 2),
        (s - 2.0 * s, -1),
    ):
        np.testing.assert_allclose(dense(result), wanted * dense(s))
    assert isinstance(s * 2.0, tf.IndexedSlices)
    assert len((s + s).indices) == 6
    np.testing.assert_array_equal(s + tf.ones([3, 1]), dense(s) + 1)
    np.testing.assert_array_equal(tf.ones([3, 1]) - s, 1 - dense(s))
    np.testing.assert_array_equal(s * tf.ones([3, 1]), dense(s))


def test_functions_of_the_values() -> None:
    s: Any = slices()
    assert tf.cast(s, tf.float64).dtype == tf.float64
    for same in (tf.identity(s), tf.stop_gradient(s)):
        np.testing.assert_array_equal(values(same), s.values)
    np.testing.assert_array_equal(values(tf.clip_by_value(s, 0.0, 1.5)), [[1], [1.5], [1.5]])
    root = np.sqrt(21)
    np.testing.assert_allclose(values(tf.clip_by_norm(s, 1.0)), np.array([[1], [2], [4]]) / root)
    assert float(tf.linalg.global_norm([s, None])) == pytest.approx(root)


def test_without_a_shape_it_stands_for_nothing() -> None:
    s = tf.IndexedSlices([1.0], [0])
    assert s.dense_shape is None
    with pytest.raises(ValueError, match="without dense_shape"):
        tf.convert_to_tensor(s)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(TypeError, match="integers"):
        tf.IndexedSlices([1.0], [0.5])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[0\] = 7"):
        tf.convert_to_tensor(tf.IndexedSlices([1.0], [7], [3]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="values of shape"):
        tf.convert_to_tensor(tf.IndexedSlices([1.0, 2.0], [1], [3]))


def test_it_is_pickled_and_printed() -> None:
    again = pickle.loads(pickle.dumps(slices()))
    np.testing.assert_array_equal(dense(again), dense(slices()))
    assert repr(again).startswith("IndexedSlices(indices=")


def test_compiled_functions_take_it() -> None:
    @tf.function
    def scaled(s: Any) -> Any:
        return tf.IndexedSlices(3.0 * s.values, s.indices, s.dense_shape)

    np.testing.assert_array_equal(dense(scaled(slices())), 3 * dense(slices()))


# ---- Variables

METHODS: dict[str, Any] = {
    "scatter_add": np.add.at,
    "scatter_sub": np.subtract.at,
    "scatter_mul": np.multiply.at,
    "scatter_div": np.divide.at,
    "scatter_max": np.maximum.at,
    "scatter_min": np.minimum.at,
    "scatter_update": np.ndarray.__setitem__,
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_scatter_methods(method: str, compiled: bool) -> None:
    v = tf.Variable(TABLE)
    ids, values = np.array([3, 0, 3], np.int32), np.linspace(1, 9, 9, dtype=np.float32)
    values = values.reshape(3, 3)

    def update() -> None:
        assert getattr(v, method)(tf.IndexedSlices(values, ids)) is v

    before = tf.identity(v)
    (tf.function(update) if compiled else update)()
    wanted = TABLE.copy()
    METHODS[method](wanted, ids, values)
    np.testing.assert_allclose(v.numpy(), wanted, rtol=1e-6)
    np.testing.assert_array_equal(before, TABLE)  # what was read stays


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        ("add", [[0, 11, 2], [3, 4, 26]]),
        ("sub", [[0, -9, 2], [3, 4, -16]]),
        ("max", [[0, 10, 2], [3, 4, 20]]),
        ("min", [[0, 1, 2], [3, 4, 1]]),
        ("update", [[0, 10, 2], [3, 4, 1]]),
    ],
)
def test_scatter_nd_methods(method: str, wanted: Any, compiled: bool) -> None:
    v = tf.Variable(TABLE[:2])

    def update() -> None:
        getattr(v, f"scatter_nd_{method}")([[0, 1], [1, 2], [1, 2]], [10.0, 20.0, 1.0])

    (tf.function(update) if compiled else update)()
    np.testing.assert_array_equal(v.numpy(), wanted)


def test_batch_scatter_update() -> None:
    v = tf.Variable(TABLE[:2])
    v.batch_scatter_update(tf.IndexedSlices([[9.0], [8.0]], [[2], [0]]))
    np.testing.assert_array_equal(v.numpy(), [[0, 1, 9], [8, 4, 5]])


def test_reads_by_index() -> None:
    v = tf.Variable(TABLE)
    np.testing.assert_array_equal(v.sparse_read([1, 1]), TABLE[[1, 1]])
    np.testing.assert_array_equal(v.gather_nd([[1, 2]]), [5])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ((slice(1, None),), 7.0),
        ((1,), [5.0, 6.0, 7.0]),
        ((slice(None, None, 2), -1), [5.0, 6.0]),
        ((..., None, 0), np.ones((4, 1))),
        ((slice(None, None, -1), slice(0, 2)), np.arange(8.0).reshape(4, 2)),
        ((slice(2, 2),), np.ones((0, 3))),
    ],
)
def test_slices_of_a_variable_are_assigned(key: Any, value: Any, compiled: bool) -> None:
    v = tf.Variable(TABLE)

    def update() -> None:
        v[key].assign(value)

    (tf.function(update) if compiled else update)()
    wanted = TABLE.copy()
    wanted[key] = value
    np.testing.assert_array_equal(v.numpy(), wanted)


def test_only_slices_of_variables_are_assigned() -> None:
    v = tf.Variable(TABLE)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot broadcast"):
        v[0].assign([1.0, 2.0])
    assert not hasattr(tf.constant(TABLE)[0], "assign")
    assert not hasattr(v[v > 3.0], "assign")


# ---- optimizers


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda: tf.optimizers.SGD(0.1),
        lambda: tf.optimizers.SGD(0.1, momentum=0.9),
        lambda: tf.optimizers.SGD(0.1, clipnorm=1.0),
        lambda: tf.optimizers.SGD(0.1, gradient_accumulation_steps=2),
        lambda: tf.optimizers.SGD(0.1, weight_decay=0.1, use_ema=True),
        lambda: tf.optimizers.Adam(0.1),
        lambda: tf.optimizers.Adagrad(0.1),
        lambda: tf.optimizers.LossScaleOptimizer(tf.optimizers.SGD(0.1)),
    ],
)
def test_optimizers_take_slices_for_the_sum(make: Callable[[], Any], compiled: bool) -> None:
    a, b = tf.Variable(TABLE), tf.Variable(TABLE)
    one, other = make(), make()

    def update(ids: Any, values: Any) -> None:
        s = tf.IndexedSlices(values, ids, a.shape)
        one.apply_gradients([(s, a)])
        other.apply_gradients([(tf.convert_to_tensor(s), b)])

    run = tf.function(update) if compiled else update
    for step in range(3):
        run(np.array([1, step, 1]), np.ones((3, 3), np.float32) * (step + 1))
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    assert not np.array_equal(a.numpy(), TABLE)


def test_a_compiled_step_writes_only_the_rows_it_read() -> None:
    """A copy of the table would be in the plan."""
    table = tf.Variable(np.ones((5000, 8), np.float32))
    optimizer = tf.optimizers.SGD(0.1)

    @tf.function
    def step(ids: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, ids) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, table), table)])
        return loss

    step(np.array([3, 4, 3]))
    address = table.array.ctypes.data
    step(np.array([7, 7, 9]))
    assert table.array.ctypes.data == address
    (planned,) = step.ir(after="plan").functions.values()
    whole = [op for op in planned.block.ops for r in op.results if r.tensor.size == 5000 * 8]
    assert [op.attrs["place"] for op in whole] == [("arg 1",)]
    assert planned.attrs["arena"] < 5000
    np.testing.assert_allclose(table.numpy()[[3, 4, 7, 9, 0], 0], [0.6, 0.8, 0.6, 0.8, 1], 1e-6)
