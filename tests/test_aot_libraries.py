"""Shared libraries and the modules that call them: from Python without tapec, from threads, built at the same time."""

from __future__ import annotations

import re
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from custom_kernels import registered
from edge_models import EdgeModel, batches, classifier
from test_aot import HOST, built, load
from toolchains import run

import tapec
from tapec import aot
from tapec.errors import TapecError
from tapec.runtime.aot.elf import symbols


def test_one_library_for_every_size_up_to_a_bound(tmp_path: Path) -> None:
    model = classifier(batch="N<=7")
    built(model, emit="so").write(tmp_path)
    net = load(tmp_path)
    state = net["initial_state"]()
    for size in (1, 7, 3):
        for x, y in batches(12, 5, size, 2):
            wanted = model.functions["train"](x, y).numpy()
            np.testing.assert_allclose(net["train"](state, x, y), wanted, rtol=2e-6)


def test_python_needs_neither_tapec_nor_llvmlite_nor_numba(tmp_path: Path) -> None:
    built(classifier(), emit="so").write(tmp_path)
    code = (
        "import sys, numpy as np, net; state = net.initial_state()\n"
        "net.train(state, np.ones((1, 12)), np.zeros(1)); print(net.infer(state, np.ones((1, 12))).sum())\n"
        "assert not {'tapec', 'llvmlite', 'numba', 'scipy'} & set(sys.modules)"
    )
    said = run(sys.executable, "-c", code, cwd=tmp_path)
    assert abs(float(said) - 1) < 1e-6


def test_a_check_of_the_program_is_a_number_in_the_header(tmp_path: Path) -> None:
    total = tapec.Variable(1.0, name="total")

    @tapec.compile
    def add(x: Any) -> Any:
        tapec.debugging.assert_positive(x, message="x has to be positive")
        return total.assign_add(tapec.reduce_sum(x))

    model = EdgeModel({"add": add}, {"add": "f32[3]"}, [total])
    files = built(model, emit="so,header")
    files.write(tmp_path)
    assert re.search(
        r"1: test_aot_libraries.py:\d+: .*x has to be positive", files.files["net.h"].decode()
    )
    net = load(tmp_path)
    state = net["initial_state"]()
    with pytest.raises(RuntimeError, match="error 1"):
        net["add"](state, np.array([1, -1, 1], np.float32))
    assert state.total == 1
    assert net["add"](state, np.array([1, 1, 1], np.float32)) == 4


def test_users_kernels_are_part_of_a_library(tmp_path: Path) -> None:
    """Of numbers, on vectors and in a derivative, and of arrays: the same bits, without Numba."""
    with registered() as ops:

        @tapec.compile
        def smooth(x: Any, n: Any) -> Any:
            with tapec.GradientTape() as tape:
                tape.watch(x)
                y = tapec.reduce_sum(ops["softplus"](x) + ops["horner"](x, n))
            return ops["blur"](x, 0.25), tape.gradient(y, x)

        x = np.random.default_rng(3).normal(size=(3, 17)).astype(np.float32)
        n = np.arange(51, dtype=np.int32).reshape(3, 17) % 5
        wanted = smooth(x, n)
        signature = "f32[3,17] i32[3,17]"
        aot.build(smooth, signature, target=HOST, name="net", emit="so,obj").write(tmp_path)
    assert not symbols((tmp_path / "net.o").read_bytes(), HOST).missing
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "n.npy", n)
    code = (
        "import sys, numpy as np, net; np.savez('y.npz', *net.smooth(np.load('x.npy'), np.load('n.npy')))\n"
        "assert not {'tapec', 'llvmlite', 'numba'} & set(sys.modules)"
    )
    run(sys.executable, "-c", code, cwd=tmp_path)
    for found, array in zip(np.load(tmp_path / "y.npz").values(), wanted, strict=True):
        np.testing.assert_array_equal(found, array.numpy())


def test_state_outside_of_the_object(tmp_path: Path) -> None:
    model = classifier()
    files = built(model, emit="so", state="extern")
    files.write(tmp_path)
    assert "net_initial" not in symbols(files.files["libnet.so"]).defined
    net = load(tmp_path)
    state = net["initial_state"]()
    np.testing.assert_array_equal(state.w1, model.variables[0].numpy())


def test_a_library_serves_threads_and_may_be_loaded_twice(tmp_path: Path) -> None:
    """All that a call has is what it is given, so each state learns alike."""
    files, given = built(classifier(), emit="so"), batches(12, 5, 1, 30)
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        files.write(place)
    nets = [load(place) for place in (*places, places[0])]
    learned: dict[int, bytes] = {}

    def learn(number: int) -> None:
        net = nets[number % len(nets)]
        state = net["initial_state"]()
        for x, y in given * 5:
            net["train"](state, x, y)
        learned[number] = bytes(state)

    threads = [threading.Thread(target=learn, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(learned) == 6
    assert len(set(learned.values())) == 1
    assert learned[0] != bytes(nets[0]["initial_state"]())


def test_who_writes_at_the_same_time_leaves_the_files_of_one_build(tmp_path: Path) -> None:
    models = [built(classifier(hidden=size), emit="so,header") for size in (4, 6, 9)]

    def write(number: int) -> None:
        for _ in range(30):
            models[number].write(tmp_path)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(len(models))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found in [model.files for model in models]


@pytest.mark.parametrize("contents", [b"", b"short", b"\0" * 609])
def test_a_state_of_another_size_is_refused(tmp_path: Path, contents: bytes) -> None:
    files = built(classifier(), emit="so", state="extern")
    files.write(tmp_path)
    (tmp_path / "net.bin").write_bytes(contents)
    with pytest.raises(ValueError, match=f"608 bytes, got {len(contents)}"):
        load(tmp_path)["initial_state"]()
    with pytest.raises(TapecError, match=f"608 bytes, got {len(contents)}"):
        files.restore(contents)
