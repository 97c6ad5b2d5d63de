"""Twenty networks: each trains as a shared library with the bits of compiled functions, and as C nearly so."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from edge_nets import NETS
from test_aot import HOST
from toolchains import need, run

from tapec import aot
from tapec.edge.modelling import Modelling
from tapec.edge.signatures import arguments_of
from tapec.runtime.aot.building import Build, Options
from tapec.runtime.aot.interface import Model

STEPS = 50


def losses(library: Path, built: aot.Built, steps: list[tuple[Any, Any]]) -> Any:
    """What a library's training step gives, from the state that it holds."""
    code = ctypes.CDLL(str(library))
    first = (ctypes.c_char * built.state_bytes).in_dll(code, "net_initial")
    state, arena = bytearray(first), bytearray(built.arena_bytes + 8)
    # Aligned, as the header asks: the memory of a bytearray is.
    held, scratch = ((ctypes.c_char * len(m)).from_buffer(m) for m in (state, arena))
    found = []
    for x, y in steps:
        loss = ctypes.c_float()
        given = [held, x.ctypes.data_as(ctypes.c_void_p), y.ctypes.data_as(ctypes.c_void_p)]
        given += [ctypes.byref(loss)] + [scratch] * bool(built.arena_bytes)
        assert code.net_train(*given) == 0
        found.append(loss.value)
    return np.array(found, np.float32)


@pytest.mark.parametrize("name", NETS)
def test_a_network_trains_as_here(tmp_path: Path, name: str) -> None:
    need("gcc")
    net = NETS[name]
    model, steps = net.model(), net.batches(STEPS)
    as_library = aot.build(model.functions, model.signatures, target=HOST, name="net", emit="so")
    as_c = aot.build(model.functions, model.signatures, target="c", name="net", emit="c")
    wanted = np.array([model.functions["train"](x, y).numpy() for x, y in steps])
    as_library.write(tmp_path)
    np.testing.assert_array_equal(losses(tmp_path / "libnet.so", as_library, steps), wanted)
    as_c.write(tmp_path)
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-ffreestanding"]
    options = [*strict, "-O1", "-ffp-contract=off", "-fPIC", "-c", "net.c", "-o", "net.o"]
    run("gcc", *options, cwd=tmp_path)
    assert run("nm", "-u", "net.o", cwd=tmp_path) in (
        "",
        "                 U _GLOBAL_OFFSET_TABLE_\n",
    )
    run("gcc", "-shared", "net.o", "-o", "c.so", cwd=tmp_path)
    np.testing.assert_allclose(losses(tmp_path / "c.so", as_c, steps), wanted, rtol=1e-5)


#: Processors with floats, of each kind; `test_nothing_is_missing` has all machines, and for a Cortex-M4F
#: `test_every_network_trains_on_a_microcontroller` looks at the objects that it runs.
WHOLE = ["x86-64", "aarch64", "cortex-m55", "riscv32imfc", "riscv64gcv", "wasm32"]


@pytest.mark.parametrize("name", NETS)
def test_a_network_needs_no_library(name: str) -> None:
    model, modelling = NETS[name].model(), Modelling("net")
    for called, function in model.functions.items():
        modelling.add(called, function, arguments_of(model.signatures[called]))
    lowered: dict[Any, Model] = {}  # by all of a machine that passes ask for
    for target in map(aot.targets().__getitem__, WHOLE):
        key = target.vectors, target.small
        if key not in lowered:
            lowered[key] = modelling.for_target(target, compact=target.small)
        options = Options(("obj",), "size" if target.small else "speed")
        assert Build(lowered[key], target, options).symbols.missing == ()
