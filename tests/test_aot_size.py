"""How much flash and RAM models take on a Cortex-M4F: code and constants without weights, arena, state."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from edge_models import classifier

import tapec
from tapec import aot


def code_bytes(data: bytes) -> int:
    """Bytes of code and constants in an ELF object of 32 bits, weights excepted."""
    start = struct.unpack_from("<I", data, 32)[0]
    width, count, names = struct.unpack_from("<HHH", data, 46)
    heads = [struct.unpack_from("<IIIIIIIIII", data, start + i * width) for i in range(count)]
    total = 0
    for head in heads:
        begin = heads[names][4] + head[0]
        name = data[begin : data.index(b"\0", begin)].decode()
        if name.startswith((".text", ".rodata", ".data", ".bss")) and not name.endswith("_initial"):
            total += head[5]
    return total


def size_of(name: str, model: Any) -> tuple[int, aot.Built]:
    function, signature = model.functions[name], model.signatures[name]
    built = aot.build(function, signature, target="cortex-m4f", name="net")
    return code_bytes(built.files["net.o"]), built


def test_a_network_of_eight_neurons() -> None:
    rng = np.random.default_rng(0)
    w1, w2 = (tapec.Variable(rng.normal(size=s).astype(np.float32)) for s in ((2, 8), (8, 1)))
    b1, b2 = tapec.Variable(np.zeros(8, np.float32)), tapec.Variable(np.zeros(1, np.float32))

    @tapec.compile
    def tiny(x: Any) -> Any:
        return tapec.nn.relu(x @ w1 + b1) @ w2 + b2

    built = aot.build(tiny, "f32[1,2]", target="cortex-m4f")
    assert code_bytes(built.files["tiny.o"]) <= 400


@pytest.mark.parametrize(
    ("name", "optimizer", "code", "slots"),
    [
        ("infer", tapec.optimizers.SGD, 1200, 0),
        ("train", tapec.optimizers.SGD, 3500, 0),
        ("train", tapec.optimizers.Adam, 5000, 2),
    ],
)
def test_a_classifier_of_digits(name: str, optimizer: Any, code: int, slots: int) -> None:
    """784-32-10 with batch 1: no gradient is kept, and optimizers keep what their rule says."""
    model = classifier(784, 32, 10, optimizer=optimizer(0.01))
    taken, built = size_of(name, model)
    assert taken <= code
    assert built.arena_bytes <= 2048
    parameters = sum(v.numpy().nbytes for v in model.variables)
    assert (built.state_bytes - parameters * (1 + slots)) <= 16  # a rate and a count of steps
