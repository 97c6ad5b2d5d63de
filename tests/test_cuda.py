"""The CUDA target with no device: the text of every kernel, run thread by thread, is what the evaluator computes."""

from __future__ import annotations

from typing import Any

import pytest
from programs_of_ops import assert_close, sample_program
from sampling import tensor_ops

from tapec.ir.core import Module
from tapec.ir.op import Op
from tapec.passes.pipeline import parse_pipeline, run_pipeline
from tapec.runtime.cuda.program import simulated

#: Two warps, so that threads of a block have to wait for each other.
SPREAD = parse_pipeline(
    "pairs,fuse,schedule{vector-bytes=0,masked=false,compact=true},plan,lower,spread{threads=64}"
)


def on_threads(module: Module) -> Any:
    """A module in the simulator, which refuses races and what has no defined meaning."""
    run_pipeline(module, SPREAD)
    return simulated(module)


@pytest.mark.parametrize("defn", tensor_ops(), ids=lambda defn: defn.name)
def test_samples(defn: Op) -> None:
    for found, expected in sample_program(defn).run(on_threads):
        assert_close(found, expected, ulps=16)
