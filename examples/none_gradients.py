"""Four gradients that are None, and what `tape.explain` and an optimizer say about them."""

from __future__ import annotations

import warnings

import numpy as np

import tapec

v = tapec.Variable(2.0, name="v")
w = tapec.Variable(1.0, name="w")
optimizer = tapec.optimizers.SGD(0.1)

# 1. NumPy computes the square: what leaves the tape does not come back.
with tapec.GradientTape() as tape:
    y = tapec.constant(np.square(v.numpy())) * w
print(tape.explain(y, v), "\n")

# 2. A Tensor is watched only on request, and before it is used.
x = tapec.constant(3.0)
with tapec.GradientTape() as tape:
    y = x * x
    tape.watch(x)
print(tape.explain(y, x), "\n")

# 3. The inner gradient is taken where the outer tape no longer records.
with tapec.GradientTape() as outer, tapec.GradientTape() as inner:
    y = v**3
slope = inner.gradient(y, v)
print(outer.explain(slope, v), "\n")


# 4. In a compiled step, said by the optimizer.
@tapec.compile
def step() -> tapec.Tensor:
    """One step of gradient descent, with a rounded weight."""
    with tapec.GradientTape() as tape:
        loss = tapec.round(v) * w
    gradients = tape.gradient(loss, [v, w])
    optimizer.apply_gradients(zip(gradients, [v, w], strict=True))
    return loss


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    step()
print(caught[0].message)
