"""Ahead of time, for other machines: training runs there, and its losses are those of compiled functions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from edge_models import batches, classifier
from emulation import HERE, MACHINES, inputs_header
from toolchains import need, run

import tapec
from tapec import aot

#: Bytes of stack of the C function that measures, below where it begins to count.
CALLER = 64


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_training_runs_as_here(tmp_path: Path, machine: str, optimizer: str) -> None:
    update = tapec.optimizers.SGD(0.1) if optimizer == "sgd" else tapec.optimizers.Adam(0.01)
    model, steps = classifier(optimizer=update), batches(12, 5, 1, 100)
    built = aot.build(model.functions, model.signatures, target=machine, name="net", selftest=True)
    built.write(tmp_path)
    (tmp_path / "inputs.h").write_text(inputs_header(steps))
    lacks_floats = not built.target.floats
    words = MACHINES[machine].outputs(tmp_path, library=lacks_floats)
    *values, stack = words
    got = np.array(values, np.uint32).view(np.float32)
    wanted = [model.functions["train"](x, y).numpy() for x, y in steps]
    np.testing.assert_allclose(got[:100], wanted, rtol=1e-5)
    np.testing.assert_allclose(
        got[100:], model.functions["infer"](steps[0][0]).numpy()[0], rtol=1e-4
    )
    if not lacks_floats:  # else the compiler's arithmetic has a share in it
        assert stack <= max(built.stack_bytes["train"], 256) + CALLER


def test_training_runs_as_here_in_webassembly(tmp_path: Path) -> None:
    need("wasm-ld", "node")
    model, steps = classifier(), batches(12, 5, 1, 100)
    built = aot.build(model.functions, model.signatures, target="wasm32", name="net")
    built.write(tmp_path)
    options = ["--no-entry", "--export-all", "-o", "net.wasm", "net.o"]
    run("wasm-ld", *options, cwd=tmp_path)
    (tmp_path / "inputs").write_bytes(b"".join(x.tobytes() for x, _ in steps))
    (tmp_path / "labels").write_bytes(b"".join(y.tobytes() for _, y in steps))
    sizes = [built.state_bytes, built.arena_bytes, 12, 5]
    files = [HERE / "wasm.mjs", "net.wasm", "inputs", "labels"]
    words = [int(word, 16) for word in run("node", *files, *sizes, cwd=tmp_path).split()]
    got = np.array(words, np.uint32).view(np.float32)
    wanted = [model.functions["train"](x, y).numpy() for x, y in steps]
    np.testing.assert_allclose(got[:100], wanted, rtol=1e-5)
    np.testing.assert_allclose(
        got[100:], model.functions["infer"](steps[0][0]).numpy()[0], rtol=1e-4
    )
