"""Value and gradient of 10,000 RK4 steps of a Van der Pol oscillator: one loop forwards, one back."""

from __future__ import annotations

import os
from typing import Any

from common import Program
from workloads.vdp_scan import STEPS, rk4

import tapec

os.environ["TAPEC_CACHE"] = "0"  # the first call is timed: nothing may be left from another run


def build_tapec(data: dict[str, Any], threads: int) -> Program:
    """Build the step; the harness has set the number of threads before tapec was imported."""

    @tapec.compile
    def value_and_grad(p: tapec.Tensor, start: tapec.Tensor) -> tuple[tapec.Tensor, tapec.Tensor]:
        with tapec.GradientTape() as tape:
            tape.watch(p)
            parts = tapec.unstack(p)
            _, x, v = tapec.while_loop(
                lambda t, x, v: t < STEPS,
                lambda t, x, v: (t + 1, *rk4(parts, x, v)),
                (0, start[0], start[1]),
            )
            loss = (x - 1) ** 2 + v**2
        return loss, tape.gradient(loss, p)

    p, start = tapec.constant(data["params"]["p"]), tapec.constant(data["batch"]["start"])
    grad: Any = None

    def step() -> Any:
        nonlocal grad
        value, grad = value_and_grad(p, start)
        return value.numpy()

    return Program(step, lambda: {"grad": grad.numpy()})
