"""What one small eager operation costs, with and without a tape, in tapec or in TensorFlow.

    PYTHON benchmarks/overheads.py [tapec | tensorflow]

prints the median time of an operation in microseconds. Run both in turn on an idle machine, and compare.
"""

from __future__ import annotations

import importlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

_REPEATS, _CALLS = 15, 200


def operations(tf: Any, x: Any, m: Any) -> dict[str, Callable[[], Any]]:
    """Calls on a vector and a matrix so small that arithmetic costs nothing."""
    return {
        "x + x": lambda: x + x,
        "x * 2.0": lambda: x * 2.0,
        "m @ m": lambda: m @ m,
        "exp(x)": lambda: tf.exp(x),
        "reduce_sum(x)": lambda: tf.reduce_sum(x),
        "x[1:]": lambda: x[1:],
        "softmax(x)": lambda: tf.nn.softmax(x),
        "x.numpy()": lambda: x.numpy(),
    }


def seconds(call: Callable[[], Any]) -> float:
    """The median time of a call."""
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        for _ in range(_CALLS):
            call()
        times.append((time.perf_counter() - start) / _CALLS)
    return statistics.median(times)


def main() -> None:
    """Print a line for each operation."""
    name = sys.argv[1] if len(sys.argv) > 1 else "tapec"
    tf = importlib.import_module(name)
    x, m = tf.ones([4]), tf.ones([8, 8])
    print(f"{name:16} plain µs  taped µs")
    for title, call in operations(tf, x, m).items():
        plain = seconds(call)
        times = []
        for _ in range(_REPEATS):
            with tf.GradientTape() as tape:
                tape.watch([x, m])
                _ = [call() for _ in range(20)]
                start = time.perf_counter()
                for _ in range(_CALLS):
                    call()
                times.append((time.perf_counter() - start) / _CALLS)
        print(f"{title:16} {1e6 * plain:8.2f}  {1e6 * statistics.median(times):8.2f}")


if __name__ == "__main__":
    main()
