"""``relu(A @ B + bias)`` on square matrices."""

from __future__ import annotations

import os
from typing import Any

from common import Program
from workloads.matmul_relu import outputs

import tapec

os.environ["TAPEC_CACHE"] = "off"  # the first call is timed: nothing may be left from another run


def build_tapec(data: dict[str, Any], threads: int) -> Program:
    """Build the step; the harness has set the number of threads before tapec was imported."""

    @tapec.compile
    def layer(a: tapec.Tensor, b: tapec.Tensor, bias: tapec.Tensor) -> tapec.Tensor:
        return tapec.nn.relu(a @ b + bias)

    arguments = [tapec.constant(array) for array in data["params"].values()]
    result: Any = None

    def step() -> None:
        nonlocal result
        result = layer(*arguments)

    return Program(step, lambda: outputs(result.numpy()))
