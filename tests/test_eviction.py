"""Kernels run again where what they made was given up: programs mean the same, and take the room that was reckoned."""

from __future__ import annotations

import numpy as np
import pytest
from random_plans import program

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Value
from tapec.ir.evaluator import evaluate_module
from tapec.ir.types import F32, TensorType
from tapec.ir.verifier import verify
from tapec.passes.memory import eviction
from tapec.passes.memory.eviction import with_reruns
from tapec.passes.memory.footprint import footprint
from tapec.passes.observers import random_inputs
from tapec.passes.pipeline import parse_pipeline, run_pipeline

READY = "inline,canonicalize,cse,dce,adjoint,prune,commit,pairs,hoist,canonicalize,cse,dce"
SQUARE = TensorType(F32, (32, 32))


def there_and_back(layers: int) -> Function:
    """Products one after the other, and each once more in the other direction, with what the first one made."""
    function = Function("f", [SQUARE, SQUARE], ["x", "w"])
    b = Builder(function.block)
    x, w = function.args
    made: list[Value] = [x]
    for _ in range(layers):
        made.append(b.matmul(made[-1], w))
    back = made.pop()
    while len(made) > 1:
        back = b.matmul(back, made.pop())
    b.emit("return", back)
    return function


def repeated(function: Function) -> int:
    """How many products run again."""
    return sum(op.name == "matmul" and "recompute" in op.attrs for op in function.block.ops)


def test_less_room_takes_more_runs() -> None:
    function = there_and_back(10)
    plain = footprint(function)
    size = SQUARE.bytes
    assert isinstance(size, int)
    assert plain.arena == 11 * size
    again = []
    for values in (11, 9, 7, 5, 4):
        found = with_reruns(function, plain.kernels, values * size)
        assert found is not None
        assert footprint(found).arena <= values * size
        again.append(repeated(found))
    assert again[0] == 0
    assert again == sorted(again)
    assert with_reruns(function, plain.kernels, 2 * size) is None


def drawn(seed: int) -> Function:
    """Products, sums and views of what was made long ago; one argument is replaced, some is returned."""
    rng = np.random.default_rng(seed)
    function = Function("f", [SQUARE, SQUARE, SQUARE], ["x", "w", "v"], updates={0: 2})
    b = Builder(function.block)
    pool: list[Value] = [*function.args]
    for _ in range(30):
        x, y = (pool[rng.integers(len(pool))] for _ in range(2))
        kind = rng.integers(4)
        if kind < 2:
            made = b.matmul(x, y)
        elif kind < 3:
            made = b.transpose(b.tanh(x), permutation=(1, 0))
        else:
            view = b.reshape(b.reshape(x, shape=(16, 64)), shape=(32, 32))
            made = b.add(view, b.broadcast(b.sum(y, axes=(0,)), shape=(32, 32), axes=(1,)))
        pool.append(b.tanh(made))
    b.emit("return", b.add(pool[-1], pool[3]), b.matmul(pool[4], pool[5]), pool[-2])
    return function


def same(function: Function, wanted: list[bytes]) -> bool:
    """Whether a function is valid, and makes what is wanted."""
    verify(Module([function]))
    made = evaluate_module(Module([function]), random_inputs(function))
    return [np.asarray(a).tobytes() for a in made] == wanted


def test_random_programs_mean_the_same() -> None:
    """However little room there is, though what is read again was replaced in place."""
    again = 0
    for seed in range(4):
        function = drawn(seed)
        made = evaluate_module(Module([function]), random_inputs(function))
        wanted = [np.asarray(a).tobytes() for a in made]
        plain = footprint(function)
        for part in range(3, 8):
            found = with_reruns(function, plain.kernels, plain.arena * part // 8)
            if found is not None:
                again += sum("recompute" in op.attrs for op in found.block.ops)
                assert same(found, wanted)
    assert again > 10


@pytest.mark.parametrize("seed", range(4))
def test_what_must_not_run_again_stays(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops and branches, and what reads them in another shape."""
    monkeypatch.setattr(eviction, "SMALL", 0)
    module = program(seed)
    run_pipeline(module, parse_pipeline(READY))
    made = evaluate_module(module, random_inputs(module.entry))
    plain = footprint(module.entry)
    found = with_reruns(module.entry, plain.kernels, plain.arena // 4)
    assert found is None or same(found, [np.asarray(a).tobytes() for a in made])
