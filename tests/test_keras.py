"""Keras on tapec: how it is loaded, custom loops, ``fit`` and what it saves.

Keras' own tests, of its wheel, are another command: ``tests/keras_conformance``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keras_installed import keras
from sklearn.datasets import load_digits

import tapec

layers = keras.layers


def data(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def classes(count: int, n: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).integers(0, n, count)


def classifier(*, dropout: float = 0.0) -> Any:
    """A small network with what changes in a step besides weights: statistics, and the seed of a dropout."""
    keras.utils.set_random_seed(3)
    return keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, activation="relu"),
            layers.BatchNormalization(),
            layers.Dropout(dropout),
            layers.Dense(3),
        ]
    )


def compiled(model: Any, **options: Any) -> Any:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], **options)
    return model


def weights(model: Any) -> list[Any]:
    return [np.asarray(w) for w in model.variables]


# -- loading


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )


def test_names_are_those_of_tf_keras() -> None:
    from tapec.keras.layers import Dense  # type: ignore[import-not-found]
    from tapec.keras.optimizers.schedules import (  # type: ignore[import-not-found]
        CosineDecay,
    )

    assert Dense is keras.layers.Dense
    assert CosineDecay is keras.optimizers.schedules.CosineDecay
    assert keras.backend.backend() == "tapec"
    assert keras.losses.MSE is keras.losses.mean_squared_error
    np.testing.assert_array_equal(keras.losses.MSE([[0.0, 2.0]], [[0.0, 0.0]]), [2.0])
    assert not hasattr(keras, "no_such_name")


def test_importing_tapec_loads_nothing_of_it() -> None:
    assert run("import tapec, sys; assert 'keras' not in sys.modules").returncode == 0


def test_keras_with_another_backend_is_named_with_what_to_do() -> None:
    code = """
import sys, types
config = types.ModuleType("keras.src.backend.config")
config.backend = lambda: "jax"
sys.modules["keras.src.backend.config"] = config
import tapec.keras
"""
    found = run(code).stderr
    assert "keras was imported before tapec.keras, and runs on jax" in found
    assert "import tapec.keras before keras" in found


def test_the_environment_stays_as_it_was() -> None:
    code = "import os, tapec.keras as k; assert os.environ['KERAS_BACKEND'] == 'jax'; print(k.backend.backend())"
    assert run(code, KERAS_BACKEND="jax").stdout.strip() == "tapec"


def test_symbolic_tensors_go_through_operators_and_layers_not_functions() -> None:
    x = keras.Input((2,))
    scale = tapec.Variable(3.0)
    model = keras.Model(x, layers.Lambda(tapec.nn.relu)(scale * x) - (scale - x))
    np.testing.assert_array_equal(model(np.array([[-1.0, 2.0]], np.float32)), [[-4.0, 5.0]])
    for given in (x, [x, x]):
        with pytest.raises(tapec.errors.ValueError) as caught:
            tapec.nn.relu(given)
        assert "call it in a layer" in str(caught.value)


# -- tapes and compiled functions


def test_tape_takes_and_watches_variables_of_keras() -> None:
    model, x = classifier(), data(4, 6)
    with tapec.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(model.trainable_variables)
        loss = tapec.reduce_sum(model(x))
    gradients = tape.gradient(loss, model.trainable_variables)
    assert [tuple(g.shape) for g in gradients] == [
        tuple(v.shape) for v in model.trainable_variables
    ]


def test_optimizers_of_tapec_update_variables_of_keras() -> None:
    layer = layers.Dense(1, use_bias=False, kernel_initializer="ones")
    with tapec.GradientTape() as tape:
        loss = tapec.reduce_sum(layer(np.ones([1, 2], np.float32)))
    gradients = tape.gradient(loss, layer.trainable_variables)
    tapec.optimizers.SGD(0.25).apply_gradients(
        zip(gradients, layer.trainable_variables, strict=True)
    )
    np.testing.assert_array_equal(layer.kernel, [[0.75], [0.75]])


def steps(run_it: Any, model: Any) -> tuple[list[Any], list[Any]]:
    """Losses of three steps of a custom loop, and all state after it."""
    x, y = data(16, 6), classes(16, 3)
    optimizer, metric = keras.optimizers.Adam(0.01), keras.metrics.SparseCategoricalAccuracy()
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x: Any, y: Any) -> Any:
        with tapec.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_of(y, logits)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        metric.update_state(y, logits)
        return loss

    step = run_it(step)
    losses = [float(step(x, y)) for _ in range(3)]
    state = [*model.variables, *optimizer.variables, *metric.variables]
    return losses, [np.asarray(v) for v in state]


def test_a_compiled_step_updates_all_state_as_an_eager_one() -> None:
    eager = steps(lambda step: step, classifier(dropout=0.5))
    native = steps(tapec.compile, classifier(dropout=0.5))
    np.testing.assert_allclose(native[0], eager[0], rtol=1e-5)
    for one, other in zip(native[1], eager[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_operators_leave_it_to_keras_what_they_mean() -> None:
    placeholder = keras.Input((2,))
    model = keras.Model(placeholder, tapec.ones([2]) + placeholder)
    np.testing.assert_array_equal(model(np.zeros([1, 2], np.float32)), [[1, 1]])
    variable = keras.Variable(2.0)
    assert float(tapec.constant(3) * variable) == 6.0


def test_shapes_of_what_a_function_gives_are_found_without_computing() -> None:
    from keras.src.backend import compute_output_spec

    found = compute_output_spec(
        lambda x: keras.ops.reshape(x, (-1, 6)) * 2, keras.KerasTensor((None, 2, 3))
    )
    assert (found.shape, found.dtype) == ((None, 6), "float32")


# -- fit


def test_several_steps_in_one_call_are_the_same_steps() -> None:
    x, y = data(50, 6), classes(50, 3)
    found = []
    for count in (1, 3):
        model = compiled(classifier(dropout=0.3), steps_per_execution=count)
        history = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0).history
        found.append((history["loss"], weights(model)))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    for one, other in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_running_eagerly_gives_the_same() -> None:
    x, y = data(24, 6), classes(24, 3)
    found = []
    for eager in (False, True):
        model = compiled(classifier(), run_eagerly=eager)
        model.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0)
        found.append(model.predict(x, verbose=0))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_an_own_train_step_is_compiled() -> None:
    class Own(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.dense = layers.Dense(1)
            self.traces = 0

        def call(self, x: Any) -> Any:
            return self.dense(x)

        def train_step(self, data: Any) -> Any:
            self.traces += 1
            x, y = data
            with tapec.GradientTape() as tape:
                loss = tapec.reduce_mean((self(x) - y) ** 2)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"mine": loss}

    model = Own()
    model.compile("sgd")
    history = model.fit(data(64, 4), data(64, 1), batch_size=16, epochs=4, verbose=0).history
    assert len(history["mine"]) == 4
    assert model.traces == 1


def batches(x: Any, y: Any) -> Any:
    while True:
        for start in range(0, len(x), 8):
            yield x[start : start + 8], y[start : start + 8]


def test_a_model_with_an_own_step_need_not_be_callable() -> None:
    class Pair(keras.Model):  # type: ignore[misc]
        """Two networks, as of an adversarial training, and nothing that the two together would compute."""

        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = (
                keras.Sequential([keras.Input((4,)), layers.Dense(4)]) for _ in range(2)
            )

        def train_step(self, x: Any) -> Any:
            with tapec.GradientTape() as tape:
                loss = tapec.reduce_mean((self.one(x) - self.other(x)) ** 2)
            weights = self.one.trainable_weights
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return {"apart": loss}

    model = Pair()
    model.compile(keras.optimizers.Adam(0.1))
    history = model.fit(data(32, 4), batch_size=8, epochs=10, verbose=0).history["apart"]
    assert history[-1] < 0.2 * history[0]


class Sequence(keras.utils.PyDataset):  # type: ignore[misc]
    def __init__(self, x: Any, y: Any) -> None:
        super().__init__()
        self.x, self.y = x, y

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        part = slice(8 * index, 8 * index + 8)
        return self.x[part], self.y[part]


@pytest.mark.parametrize("source", ["arrays", "generator", "dataset"])
def test_data_of_each_kind(source: str) -> None:
    x, y = data(24, 6), classes(24, 3)
    given: Any = {
        "arrays": lambda: {"x": x, "y": y, "batch_size": 8, "shuffle": False},
        "generator": lambda: {"x": batches(x, y), "steps_per_epoch": 3, "shuffle": False},
        "dataset": lambda: {"x": Sequence(x, y), "shuffle": False},  # type: ignore[no-untyped-call]
    }[source]()
    model = compiled(classifier())
    losses = model.fit(**given, epochs=2, verbose=0).history["loss"]
    expected = compiled(classifier())
    wanted = expected.fit(x, y, batch_size=8, shuffle=False, epochs=2, verbose=0).history["loss"]
    np.testing.assert_allclose(losses, wanted, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:Layer 'lstm'")  # of which Keras 3.16 says that it has no masks
def test_weights_masks_callbacks_and_validation() -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            layers.Embedding(9, 4, mask_zero=True),
            layers.LSTM(5),
            layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    x, y = classes(40 * 7, 9).reshape(40, 7), classes(40, 2)
    seen: list[int] = []
    stop = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch))
    history = model.fit(
        x,
        y,
        batch_size=16,
        epochs=3,
        class_weight={0: 1.0, 1: 2.0},
        validation_split=0.25,
        callbacks=[stop, keras.callbacks.EarlyStopping("val_loss", patience=9)],
        verbose=0,
    ).history
    assert seen == [0, 1, 2]
    assert set(history) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    longer = np.concatenate([x, np.zeros([40, 3], x.dtype)], 1)  # masked steps change nothing
    np.testing.assert_allclose(
        model.predict(longer, verbose=0), model.predict(x, verbose=0), rtol=1e-5
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_precision(dtype: str) -> None:
    keras.utils.set_random_seed(0)
    policy = f"mixed_{dtype}"
    model = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(16, activation="relu", dtype=policy),
            layers.Dense(3, dtype="float32"),
        ]
    )
    optimizer: Any = keras.optimizers.Adam(0.01)
    if dtype == "float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss)
    assert model.layers[0].compute_dtype == dtype
    assert model.layers[0].kernel.dtype == "float32"
    history = model.fit(data(64, 6), classes(64, 3), epochs=8, verbose=0).history["loss"]
    assert history[-1] < history[0]


# -- what needs values while a function is compiled


def test_counts_below_a_length_are_compiled() -> None:
    counts = tapec.compile(lambda x: keras.ops.bincount(x, minlength=4))
    assert counts(tapec.constant([1, 3, 1])).numpy().tolist() == [0, 2, 0, 1]
    with pytest.raises(tapec.errors.InvalidArgumentError, match="below minlength=4"):
        counts(tapec.constant([1, 4, 1]))
    with pytest.raises(NotImplementedError, match=r"bincount cannot be compiled.*minlength"):
        tapec.compile(keras.ops.bincount)(tapec.constant([1]))


def test_unequal_numbers_and_bytes_without_an_axis() -> None:
    found = keras.ops.convert_to_numpy(
        keras.ops.unique(np.array([1.0, np.nan, 2.0, np.nan], np.float32))
    )
    np.testing.assert_array_equal(found, [1.0, 2.0, np.nan, np.nan])
    filled = keras.ops.unique(np.array([[1, 0, 1], [0, 1, 0]]), axis=-1, size=3, fill_value=-1)
    np.testing.assert_array_equal(filled, [[0, 1, -1], [1, 0, -1]])
    assert keras.ops.view(np.array(1, np.int16), "float16").dtype == "float16"
    with pytest.raises(tapec.errors.InvalidArgumentError, match="no axis for several int8"):
        keras.ops.view(np.array(1, np.int16), "int8")


def test_truths_and_small_integers() -> None:
    assert keras.ops.diag(np.array([True, True])).numpy().tolist() == [[True, False], [False, True]]
    band = tapec.linalg.diag_part(tapec.constant([[True, False]] * 2), k=(0, 1))
    assert band.numpy().tolist() == [[False, False], [True, False]]
    assert keras.ops.isreal(np.array([True])).numpy().tolist() == [True]
    assert keras.ops.bincount(np.array([2, 0], np.uint8)).numpy().tolist() == [1, 0, 1]


def test_what_is_known_while_compiling_is_found() -> None:
    places = tapec.compile(lambda x: x[keras.ops.nonzero(np.array([0, 1, 1]))[0][0]])
    assert places(tapec.constant([5.0, 6.0, 7.0])).numpy() == 6.0
    with pytest.raises(NotImplementedError, match="unique cannot be compiled"):
        tapec.compile(keras.ops.unique)(tapec.constant([1]))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_augmentations_in_a_compiled_step(dtype: str) -> None:
    images = np.arange(2 * 6 * 6 * 3).reshape(2, 6, 6, 3).astype(dtype)
    blur = layers.RandomGaussianBlur(1.0, 3, 1.0, seed=1, dtype=dtype)
    found = tapec.compile(lambda x: blur(x, training=True))(images).numpy()
    inner = (slice(None), slice(1, -1), slice(1, -1))  # a slope stays one, but for its ends
    np.testing.assert_allclose(found[inner], images[inner], rtol=2e-2)
    assert found[0, 0, 0, 0] != images[0, 0, 0, 0]
    elastic = layers.RandomElasticTransform(1.0, 0.5, value_range=(0, 255), dtype=dtype)
    assert elastic(images, training=True).dtype == dtype
    with pytest.raises(NotImplementedError, match="elastic_transform cannot be compiled"):
        tapec.compile(lambda x: elastic(x, training=True))(images)


# -- saving


@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
def test_a_loaded_model_predicts_the_same_bits(name: str, tmp_path: Path) -> None:
    model, x = compiled(classifier()), data(8, 6)
    model.fit(x, classes(8, 3), verbose=0)
    model.save(tmp_path / name)
    loaded = keras.models.load_model(tmp_path / name)
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), model.predict(x, verbose=0))


def test_a_damaged_file_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    model = classifier()
    path = tmp_path / "m.weights.h5"
    model.save_weights(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    before = weights(model)
    with pytest.raises(OSError, match="truncated"):
        model.load_weights(path)
    for one, other in zip(before, weights(model), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
def test_weights_and_optimizer_in_a_file_of_arrays(suffix: str, tmp_path: Path) -> None:
    model, x, y = compiled(classifier()), data(8, 6), classes(8, 3)
    model.fit(x, y, verbose=0)
    path = tmp_path / f"step{suffix}"
    everything = {"model": model, "optimizer": model.optimizer}
    tapec.save(path, everything)
    saved = weights(model)
    model.fit(x, y, verbose=0)
    assert any(
        not np.array_equal(one, other) for one, other in zip(saved, weights(model), strict=True)
    )
    tapec.load(path, into=everything)
    for one, other in zip(saved, weights(model), strict=True):
        np.testing.assert_array_equal(one, other)
    assert int(model.optimizer.iterations) == 1
    other = keras.Sequential([keras.Input((2,)), layers.Dense(3)])
    with pytest.raises(tapec.errors.ValueError, match="is in the file alone"):
        tapec.load(path, into={"model": other})


@pytest.mark.parametrize("name", ["Adam", "Adagrad", "Lamb", "RMSprop", "SGD"])
def test_optimizers_keep_64_bits(name: str) -> None:
    """Keras has tables of 32 bits alone for operands; a difference of two floats of 64 bits is not lost in them."""
    variable = keras.Variable(np.array([1.0, 2.0]), dtype="float64")
    gradient = tapec.constant([1.0, 1.0 + 1e-12], "float64")
    getattr(keras.optimizers, name)(0.1).apply([gradient], [variable])
    same, other = keras.ops.convert_to_numpy(variable) - [1.0, 2.0]
    assert same < -1e-3
    np.testing.assert_allclose(other, same, rtol=0.2)
    total = keras.ops.einsum("i,i->i", gradient, gradient) - keras.ops.clip(gradient, 0.0, 9.0)
    assert 1e-13 < float(total[1]) < 1e-11


# -- real data


def test_digits() -> None:
    """A small convolutional network tells handwritten digits apart."""
    images, labels = load_digits(return_X_y=True)
    x = (images.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(32, 3, activation="relu", padding="same"),
            layers.BatchNormalization(),
            layers.Conv2D(64, 3, activation="relu", padding="same"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.4),
            layers.Dense(10),
        ]
    )
    rate = keras.optimizers.schedules.CosineDecay(3e-3, 44 * 16)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"])
    order = np.random.default_rng(0).permutation(len(x))
    train, test = order[:1400], order[1400:]
    model.fit(x[train], labels[train], batch_size=32, epochs=16, verbose=0)
    assert model.evaluate(x[test], labels[test], verbose=0)[1] >= 0.985


def test_operators_keep_their_names_beside_keras() -> None:
    v = tapec.Variable([1.0, 2.0])
    with tapec.GradientTape() as tape:
        tapec.tanh(v) * v
    assert "derivative of mul" in str(tape.memory())
