"""Model-agnostic meta-learning of sine waves: the gradient goes through the inner gradient steps.

Source: Finn, Abbeel, Levine, "Model-agnostic meta-learning", 2017, section 5.1, smaller.
"""

from __future__ import annotations

import numpy as np

import tapec

SHOTS, INNER_RATE, TASKS = 10, 0.05, 8
rng = np.random.default_rng(0)
weights = [
    tapec.Variable((rng.standard_normal(shape) * scale).astype(np.float32))
    for shape, scale in (
        ((1, 40), 1.0),
        ((40,), 0.5),
        ((40, 40), 0.16),
        ((40,), 0.1),
        ((40, 1), 0.16),
        ((1,), 0.0),
    )
]
optimizer = tapec.optimizers.Adam(2e-3)

Weights = list[tapec.Tensor] | list[tapec.Variable]


def predict(w: Weights, x: tapec.Tensor) -> tapec.Tensor:
    """A perceptron with weights given as arguments."""
    h = tapec.tanh(x @ w[0] + w[1])
    h = tapec.tanh(h @ w[2] + w[3])
    return h @ w[4] + w[5]


def error(w: Weights, x: tapec.Tensor, y: tapec.Tensor) -> tapec.Tensor:
    """Mean squared error."""
    return tapec.reduce_mean(tapec.square(predict(w, x) - y))


def adapt(w: Weights, x: tapec.Tensor, y: tapec.Tensor) -> list[tapec.Tensor]:
    """One gradient step on a task, itself differentiable."""
    with tapec.GradientTape() as tape:
        for v in w:
            tape.watch(v)
        loss = error(w, x, y)
    gradients = tape.gradient(loss, w)
    return [v - INNER_RATE * g for v, g in zip(w, gradients, strict=True)]


@tapec.compile
def meta_step(
    x: tapec.Tensor, y: tapec.Tensor, x_new: tapec.Tensor, y_new: tapec.Tensor
) -> tapec.Tensor:
    """Weights such that one step on few points does well on others; tasks along the first axis."""
    with tapec.GradientTape() as tape:
        start = [v + 0.0 for v in weights]
        losses = [error(adapt(start, x[i], y[i]), x_new[i], y_new[i]) for i in range(TASKS)]
        loss = tapec.add_n(losses) / float(TASKS)
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss


def tasks(count: int) -> list[tapec.Tensor]:
    """Points of random sine waves: known x and y, new x and y."""
    amplitude = rng.uniform(0.5, 2.0, (count, 1, 1))
    phase = rng.uniform(0, np.pi, (count, 1, 1))
    xs = rng.uniform(-2, 2, (2, count, SHOTS, 1))
    arrays = [a for x in xs for a in (x, amplitude * np.sin(x + phase))]
    return [tapec.constant(a.astype(np.float32)) for a in arrays]


def evaluate() -> tuple[float, float]:
    """Error on new points before and after one step on the known ones, over 50 tasks."""
    x, y, x_new, y_new = tasks(50)
    before = [float(error(weights, x_new[i], y_new[i])) for i in range(50)]
    after = [
        float(error(adapt([v + 0.0 for v in weights], x[i], y[i]), x_new[i], y_new[i]))
        for i in range(50)
    ]
    return float(np.mean(before)), float(np.mean(after))


print("untrained:    before {:.3f}, after one step {:.3f}".format(*evaluate()))
for step in range(1500):
    loss = meta_step(*tasks(TASKS))
    if step % 500 == 0:
        print(f"meta step {step:4}: {float(loss):.3f}")
print("meta-trained: before {:.3f}, after one step {:.3f}".format(*evaluate()))
