"""Keras models ahead of time: inference and ``train_step`` on a microcontroller, as compiled functions do here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from emulation import trained
from keras_installed import keras
from test_aot import load

import tapec
from tapec import aot
from tapec.cli import main

STEPS = 5


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_a_model_trains_on_a_microcontroller(tmp_path: Path, optimizer: str) -> None:
    """The loss is the mean over the steps so far: state of a metric, beside weights and slots."""
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(4, activation="relu"), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((6,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(getattr(keras.optimizers, optimizer)(0.05), loss)
    model.optimizer.build(model.trainable_variables)

    @tapec.compile
    def infer(x: Any) -> Any:
        return tapec.nn.softmax(model(x))

    @tapec.compile
    def train(x: Any, y: Any) -> Any:
        return model.train_step((x, y))["loss"]

    functions = {"infer": infer, "train": train}
    signatures = {"infer": "f32[2,6]", "train": "f32[2,6] i32[2]"}
    built = aot.build(functions, signatures, target="cortex-m4f", name="net", selftest=True)
    rng = np.random.default_rng(0)
    given = [
        (rng.normal(size=(2, 6)).astype(np.float32), rng.integers(0, 3, 2).astype(np.int32))
        for _ in range(STEPS)
    ]
    found = trained("cortex-m4f", built, given, STEPS, tmp_path)
    wanted = [train(x, y).numpy() for x, y in given]
    assert len(set(wanted)) == STEPS
    np.testing.assert_allclose(found.losses, wanted, rtol=1e-5)
    np.testing.assert_allclose(found.inferred, infer(given[0][0]).numpy().ravel(), rtol=1e-4)
    assert found.stack <= built.stack_bytes["train"]


def test_a_model_of_a_file_is_built_as_its_inference(tmp_path: Path) -> None:
    """Without a function around it; dropout is none then, and batch normalization takes the averages."""
    file = tmp_path / "script.py"
    file.write_text(
        "import tapec.keras as keras\n"
        "layers = [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]\n"
        "net = keras.Sequential([keras.Input((3,)), *layers])\n"
        "net.layers[1].moving_mean.assign([1.0, 2.0, 3.0, 4.0])\n"
        "net.save(__file__ + '.keras')\n"
    )
    command = ["build", f"{file}:net", "-o", str(tmp_path), "--emit", "so"]
    done = CliRunner().invoke(main, [*command, "--shapes", "f32[N<=4,3]"])
    assert done.exit_code == 0, done.output
    built, x = load(tmp_path), np.arange(6, dtype=np.float32).reshape(2, 3)
    wanted = keras.models.load_model(f"{file}.keras").predict(x, verbose=0)
    np.testing.assert_array_equal(built["net"](built["initial_state"](), x), wanted)
    done = CliRunner().invoke(main, command)
    assert "net is a model: tell what it takes, such as --shapes" in done.output
