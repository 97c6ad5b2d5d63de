"""Ahead of time, for other machines: training runs there, and its losses are those of compiled functions."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edge_models import EdgeModel, batches, classifier
from edge_nets import NETS
from emulation import CALLING, MACHINES, in_webassembly, trained

import tapec
from tapec import aot
from tapec.runtime.aot.elf import symbols

STEPS = 100


def trainable(optimizer: str) -> EdgeModel:
    """A model that nobody has trained yet."""
    update = tapec.optimizers.SGD(0.1) if optimizer == "sgd" else tapec.optimizers.Adam(0.01)
    return classifier(optimizer=update)


@functools.cache
def trained_here(optimizer: str) -> tuple[list[Any], Any]:
    """Losses of its steps as compiled functions, and what is inferred then: the same for every machine."""
    model, given = trainable(optimizer), batches(12, 5, 1, 10)
    losses = [model.functions["train"](*given[i % 10]).numpy() for i in range(STEPS)]
    return losses, model.functions["infer"](given[0][0]).numpy()[0]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_training_runs_as_here(tmp_path: Path, machine: str, optimizer: str) -> None:
    """Losses agree, and the stack is what the header says, and little less."""
    model, given = trainable(optimizer), batches(12, 5, 1, 10)
    built = aot.build(model.functions, model.signatures, target=machine, name="net", selftest=True)
    found = trained(machine, built, given, STEPS, tmp_path)
    wanted, inferred = trained_here(optimizer)
    np.testing.assert_allclose(found.losses, wanted, rtol=1e-5)
    np.testing.assert_allclose(found.inferred, inferred, rtol=1e-4)
    assert found.stack <= built.stack_bytes["train"] <= 1.5 * found.stack


@pytest.mark.parametrize("name", NETS)
def test_every_network_trains_on_a_microcontroller(tmp_path: Path, name: str) -> None:
    model, given = NETS[name].model(), NETS[name].batches(50)
    built = aot.build(
        model.functions, model.signatures, target="cortex-m4f", name="net", selftest=True
    )
    assert symbols(built.files["net.o"]).missing == ()
    found = trained("cortex-m4f", built, given, 50, tmp_path)
    wanted = [model.functions["train"](x, y).numpy() for x, y in given]
    np.testing.assert_allclose(found.losses, wanted, rtol=1e-5)
    assert found.stack <= built.stack_bytes["train"] <= 1.5 * found.stack


def test_training_runs_as_here_in_webassembly(tmp_path: Path) -> None:
    model, given = classifier(), batches(12, 5, 1, STEPS)
    built = aot.build(model.functions, model.signatures, target="wasm32", name="net")
    losses, inferred = in_webassembly(built, given, tmp_path)
    wanted = [model.functions["train"](x, y).numpy() for x, y in given]
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    np.testing.assert_allclose(
        inferred, model.functions["infer"](given[0][0]).numpy()[0], rtol=1e-4
    )


#: Counts a training step on a Cortex-M's timer, of which a turn is so many instructions with ``-icount shift=0``.
COUNTING = (
    CALLING
    + """
static NET_DECLARE_ARENA(arena);
static net_state state;
static float x[FEATURES], loss[1];
static int32_t y[1];
static volatile uint32_t *const timer = (volatile uint32_t *)0xE000E010;
int main(void) {
    for (unsigned i = 0; i < sizeof state; i++)
        ((volatile unsigned char *)&state)[i] = ((const unsigned char *)&net_initial)[i];
    timer[1] = 0xFFFFFF;
    timer[2] = 0;
    timer[0] = 5;
    const uint32_t before = timer[2];
    if (net_train(&state, SIZE x, y, loss, &arena)) return 1;
    const uint32_t taken = (before - timer[2]) & 0xFFFFFF;
    words((const unsigned char *)&taken, 4);
    return 0;
}
"""
)


def test_a_single_row_of_a_batch_that_varies_takes_few_instructions_more(tmp_path: Path) -> None:
    """Than one that the object was built for: no loop is set up for each weight to add up one term."""
    machine = MACHINES["cortex-m4f"]
    board, *others = machine.emulator
    machine = replace(machine, emulator=[board, "-icount", "shift=0", *others])

    def count(batch: str, size: str) -> int:
        model = classifier(100, 16, 5, batch=batch)
        function, signature = model.functions["train"], model.signatures["train"]
        built = aot.build(
            {"train": function}, {"train": signature}, target="cortex-m4f", name="net"
        )
        built.write(tmp_path)
        source = tmp_path / "counting.c"
        source.write_text(f"#define FEATURES 100\n#define SIZE {size}\n{COUNTING}")
        return machine.outputs(tmp_path, library=False, main=source)[0]

    assert count("N<=8", "1,") <= 1.2 * count("1", "")
