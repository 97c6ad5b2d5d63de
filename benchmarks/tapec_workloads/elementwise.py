"""Value and gradient of a long elementwise chain on four million elements."""

from __future__ import annotations

import os
from typing import Any

from common import Program
from workloads.elementwise import gradient_outputs

import tapec

os.environ["TAPEC_CACHE"] = "off"  # the first call is timed: nothing may be left from another run


def build_tapec(data: dict[str, Any], threads: int) -> Program:
    """Build the step; the harness has set the number of threads before tapec was imported."""

    @tapec.compile
    def value_and_grad(x: tapec.Tensor, y: tapec.Tensor, z: tapec.Tensor) -> tuple[Any, list[Any]]:
        with tapec.GradientTape() as tape:
            tape.watch([x, y, z])
            gate = tapec.nn.gelu(x, approximate=True) * tapec.sigmoid(y)
            value = tapec.reduce_sum(gate + tapec.math.log1p(tapec.exp(z)))
        return value, tape.gradient(value, [x, y, z])

    arguments = [tapec.constant(array) for array in data["params"].values()]
    gradients: list[Any] = []

    def step() -> Any:
        nonlocal gradients
        value, gradients = value_and_grad(*arguments)
        return value.numpy()

    return Program(step, lambda: gradient_outputs([g.numpy() for g in gradients]))
