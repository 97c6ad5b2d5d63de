"""Own kernels as operations: how fast does heat spread in a plate? Found from temperatures before and after.

The Laplacian is a stencil over an array, the loss a function of one number; both are plain loops and formulas that
Numba compiles. `tapec.custom_op` makes operations of them, with the derivatives that stand beside them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tapec

SIZE, STEPS = 48, 12
TRUE_RATE = 0.2


def transposed(u: tapec.Tensor, y: tapec.Tensor, dy: tapec.Tensor) -> Any:
    """The cotangent of u: the Laplacian is symmetric, so the kernel is its own derivative."""
    return laplacian(dy)


@tapec.custom_op("heat.laplacian", infer="T[n,m] -> T[n,m]", vjp=transposed)
def laplacian(u: Any, out: Any) -> None:
    """The sum of the four neighbours less four times the element; outside of the plate it is cold."""
    rows, columns = u.shape
    for i in range(rows):
        for j in range(columns):
            total = -4 * u[i, j]
            if i > 0:
                total += u[i - 1, j]
            if i < rows - 1:
                total += u[i + 1, j]
            if j > 0:
                total += u[i, j - 1]
            if j < columns - 1:
                total += u[i, j + 1]
            out[i, j] = total


@tapec.custom_op("heat.log_cosh", vjp=lambda x, y, dy: dy * tapec.tanh(x))
def log_cosh(x: Any) -> Any:
    """A loss that is square near 0 and grows like the absolute value: ``log(cosh(x))``, without overflow."""
    return abs(x) + math.log1p(math.exp(-2.0 * abs(x))) - math.log(2.0)


def spread(u: tapec.Tensor, rate: Any) -> tapec.Tensor:
    """The temperatures some time later."""
    for _ in range(STEPS):
        u += rate * laplacian(u)
    return u


place = np.linspace(-1, 1, SIZE, dtype=np.float32)
hot = np.exp(-20 * ((place[:, None] - 0.2) ** 2 + (place[None, :] + 0.3) ** 2))
before = tapec.constant(10 * hot, tapec.float32)
after = spread(before, TRUE_RATE)

rate = tapec.Variable(0.05)
optimizer = tapec.optimizers.Adam(0.01)


@tapec.compile
def train_step() -> tapec.Tensor:
    """Compare the temperatures that the rate leads to with those that were measured."""
    with tapec.GradientTape() as tape:
        loss = tapec.reduce_mean(log_cosh(spread(before, rate) - after))
    optimizer.apply_gradients([(tape.gradient(loss, rate), rate)])
    return loss


for step in range(120):
    loss = train_step()
    if step % 30 == 0:
        print(f"step {step:3}: loss {float(loss):.2e}, rate {float(rate):.4f}")
print(f"rate found {float(rate):.4f}, true {TRUE_RATE}")
for op, operand in ((laplacian, before), (log_cosh, before)):
    outside = ", ".join(op.foreign_symbols(operand)) or "nothing"
    print(f"{op.name} calls {outside} outside of the program")
