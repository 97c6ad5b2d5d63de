"""A gated recurrent network that learns to foretell a vibration, on a machine that keeps it up to date.

The network runs over a window of samples as a loop of the program, so code does not grow with the window. Training is
a step per window. Built for three machines; the last is plain C for any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tapec
from tapec import aot

WINDOW, UNITS = 24, 8
rng = np.random.default_rng(0)


def weight(*shape: int) -> tapec.Variable:
    """Numbers to begin with."""
    return tapec.Variable((rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32))


w, u, b = weight(1, 3 * UNITS), weight(UNITS, 3 * UNITS), tapec.Variable(tapec.zeros([3 * UNITS]))
out = weight(UNITS, 1)
weights = [w, u, b, out]
optimizer = tapec.optimizers.Adam(0.01)


def turn(hidden: Any, sample: Any) -> Any:
    """What the network knows after one sample more."""
    given, kept = tapec.reshape(sample, [1, 1]) @ w + b, hidden @ u
    update = tapec.sigmoid(given[:, :UNITS] + kept[:, :UNITS])
    reset = tapec.sigmoid(given[:, UNITS : 2 * UNITS] + kept[:, UNITS : 2 * UNITS])
    new = tapec.tanh(given[:, 2 * UNITS :] + reset * kept[:, 2 * UNITS :])
    return update * hidden + (1.0 - update) * new


@tapec.compile
def foretell(samples: Any) -> Any:
    """The sample after a window."""
    hidden = tapec.scan(turn, samples, initializer=tapec.zeros([1, UNITS]))[-1]
    return tapec.reshape(hidden @ out, [1])


@tapec.compile
def learn(samples: Any, following: Any) -> Any:
    """One step; the squared error before it."""
    with tapec.GradientTape() as tape:
        loss = tapec.reduce_sum((foretell(samples) - following) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss


def vibration(start: int) -> tuple[Any, Any]:
    """A window of it, and the sample after that."""
    t = np.arange(start, start + WINDOW + 1)
    signal = (np.sin(0.5 * t) * np.cos(0.07 * t)).astype(np.float32)
    return signal[:-1], signal[-1:]


errors = [float(learn(*vibration(7 * i))) for i in range(400)]
print(f"squared error: first {np.mean(errors[:50]):.4f}, last {np.mean(errors[-50:]):.4f}")

types = {"foretell": f"f32[{WINDOW}]", "learn": f"f32[{WINDOW}] f32[1]"}
functions = {"foretell": foretell, "learn": learn}
for target, form in (("cortex-m4f", "obj header"), ("wasm32", "obj header"), ("c", "c")):
    built = aot.build(functions, types, target=target, name="vibration", emit=form)
    sizes = ", ".join(f"{name} {len(contents):,} bytes" for name, contents in built.files.items())
    print(f"{target:10} {sizes}; state {built.state_bytes:,}, arena {built.arena_bytes:,}")
