"""Single operations that eager code repeats become native programs, and nobody sees it by their results."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.eager import native_operations
from tapec.eager.signatures import Signature
from tapec.ir.op import OPS
from tapec.ir.types import BF16, F16, F32, F64, U32, U64, DType, TensorType

KEY = TensorType(U64, (2,))
FLOATS = (F16, BF16, F32, F64)
DTYPES = {"random_uniform": FLOATS, "random_normal": FLOATS, "random_bits": (U32, U64)}
TYPES = [(name, dtype) for name, dtypes in DTYPES.items() for dtype in dtypes]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that are made; every operation may have one from its second call on."""
    made: list[Any] = []
    compiler = native_operations._Repeated._compiled

    def compile(self: Any) -> Any:
        made.append(compiler(self))
        return made[-1]

    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "2")
    monkeypatch.setattr(native_operations, "_WORK_OF_COMPILER", 1)
    monkeypatch.setattr(native_operations._Repeated, "_compiled", compile)
    return made


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (3, 5), (2, 16387)], ids=str)
@pytest.mark.parametrize(("name", "dtype"), TYPES, ids=str)
def test_native_numbers_are_numpys_to_the_bit(
    compiled: list[Any], name: str, dtype: DType, shape: tuple[int, ...]
) -> None:
    attrs = {"type": TensorType(dtype, shape)}
    kernel = Signature(OPS[name], (KEY,), attrs).kernel
    for key in ([0, 0], [2**64 - 1, 2**64 - 1], [2**32, 2**33 + 5], [7, 2**63]):
        array = np.array(key, np.uint64)
        found, wanted = kernel(array), OPS[name].evaluate(array, **attrs)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert found.tobytes() == wanted.tobytes()
    assert [p.native for p in compiled] == [True]


def test_each_key_of_a_batch_makes_its_row(compiled: list[Any]) -> None:
    attrs = {"type": TensorType(F32, (3, 5))}
    keys = np.arange(6, dtype=np.uint64).reshape(3, 2)
    kernel = Signature(OPS["random_uniform"], (TensorType(U64, (3, 2)),), attrs).kernel
    for _ in range(3):
        np.testing.assert_array_equal(kernel(keys), OPS["random_uniform"].evaluate(keys, **attrs))
    assert len(compiled) == 1


def test_results_are_arrays_of_their_own(compiled: list[Any]) -> None:
    draws = [tapec.random.stateless_uniform([7, 3], [1, n]) for n in range(4)]
    assert compiled
    assert len({draw.numpy().tobytes() for draw in draws}) == 4


def test_a_plan_of_random_numbers_gives_what_single_operations_give() -> None:
    x = tapec.reshape(tapec.range(12.0), [6, 2])
    orders, cut, drawn = [], [], []
    for _ in range(4):
        orders.append(tapec.random.shuffle(x, seed=11).numpy())
        tapec.random.set_seed(5)
        drawn.append(tapec.random.uniform([40], -3, 5, tapec.int32).numpy())
        cut.append(tapec.random.truncated_normal([3, 5], 1.0, 2.0, tapec.float16).numpy())
    np.testing.assert_array_equal(orders[1:], [orders[1]] * 3)  # the first is of no seed's stream
    np.testing.assert_array_equal(cut, [cut[0]] * 4)
    np.testing.assert_array_equal(drawn, [drawn[0]] * 4)


def test_the_setting_holds(compiled: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEC_EAGER_NATIVE", "0")
    kernel = Signature(OPS["random_uniform"], (KEY,), {"type": TensorType(F32, (2,))}).kernel
    for _ in range(4):
        kernel(np.zeros(2, np.uint64))
    assert not compiled


DRAWS = """
import sys, tapec
for _ in range({turns}):
    tapec.random.uniform({shape}), tapec.random.normal([3]), tapec.nn.dropout(tapec.ones([3]), 0.5)
print("llvmlite" in sys.modules, "tapec.passes.pipeline" in sys.modules)
"""


@pytest.mark.parametrize(
    ("turns", "shape", "loaded"), [(50, [3], "False False"), (3, [1000, 1100], "True True")]
)
def test_short_scripts_load_no_compiler(
    turns: int, shape: list[int], loaded: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAPEC_CACHE", "0")
    script = DRAWS.format(turns=turns, shape=shape)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == (loaded + "\n", 0), done.stderr
