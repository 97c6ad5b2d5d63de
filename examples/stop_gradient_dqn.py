"""A DQN step: the target network stands behind stop_gradient, and the compiled program holds no adjoint of it.

The task is a corridor of 8 cells with the reward at the right end; state is one-hot, actions are left and right.
"""

from __future__ import annotations

import numpy as np

import tapec

CELLS, GAMMA = 8, 0.9
rng = np.random.default_rng(0)


def network(name: str) -> list[tapec.Variable]:
    """Two dense layers."""
    shapes = [(CELLS, 32), (32,), (32, 2), (2,)]
    return [
        tapec.Variable((0.3 * rng.standard_normal(s)).astype(np.float32), name=f"{name}_{i}")
        for i, s in enumerate(shapes)
    ]


online, target = network("online"), network("target")
optimizer = tapec.optimizers.Adam(5e-3)


def q_values(weights: list[tapec.Variable], states: tapec.Tensor) -> tapec.Tensor:
    """A value for each action."""
    w1, b1, w2, b2 = weights
    return tapec.tanh(states @ w1 + b1) @ w2 + b2


@tapec.compile
def train_step(
    states: tapec.Tensor,
    actions: tapec.Tensor,
    rewards: tapec.Tensor,
    following: tapec.Tensor,
    done: tapec.Tensor,
) -> tapec.Tensor:
    """One temporal-difference step; the target network follows softly."""
    with tapec.GradientTape() as tape:
        best = tapec.reduce_max(q_values(target, following), axis=1)
        goal = tapec.stop_gradient(rewards + GAMMA * (1.0 - done) * best)
        chosen = tapec.reduce_sum(q_values(online, states) * tapec.one_hot(actions, 2), axis=1)
        loss = tapec.reduce_mean(tapec.square(chosen - goal))
    gradients = tape.gradient(loss, [*online, *target])
    assert gradients[len(online) :] == [None] * len(target)  # cut by stop_gradient
    optimizer.apply_gradients(zip(gradients[: len(online)], online, strict=True))
    for slow, fast in zip(target, online, strict=True):
        slow.assign(0.95 * slow + 0.05 * fast)
    return loss


def batch(size: int) -> list[tapec.Tensor]:
    """Random transitions of the corridor."""
    cell = rng.integers(0, CELLS - 1, size)
    action = rng.integers(0, 2, size)
    after = np.clip(cell + np.where(action == 1, 1, -1), 0, CELLS - 1)
    done = (after == CELLS - 1).astype(np.float32)
    one_hot = np.eye(CELLS, dtype=np.float32)
    arrays = (one_hot[cell], action.astype(np.int32), done, one_hot[after], done)
    return [tapec.constant(a) for a in arrays]


for step in range(1500):
    loss = train_step(*batch(64))
    if step % 500 == 0:
        print(f"step {step:4}: loss {float(loss):.4f}")
values = q_values(online, tapec.constant(np.eye(CELLS, dtype=np.float32))).numpy()[:-1]
expected = GAMMA ** np.arange(CELLS - 2, -1, -1)
print("greedy actions:", "".join("<>"[a] for a in values.argmax(axis=1)))
print(f"largest error of the value of going right: {np.abs(values[:, 1] - expected).max():.3f}")
