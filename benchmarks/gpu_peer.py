"""Time a train step of one library on a GPU, in a process of its own: ``python gpu_peer.py torch mlp_train 0``.

It prints a line of JSON, for `gpu.py`. It imports nothing but what it times, so each library may have its own
interpreter.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any


def seconds_of(call: Callable[[], Any], wait: Callable[[], Any], least: float = 0.2) -> float:
    """A call's share of many that are waited for together, at least so many seconds; the median of five."""
    call()
    wait()
    count = 1
    while _taken(call, wait, count) < least / 5 and count < 1 << 20:
        count *= 2
    return statistics.median(_taken(call, wait, count) / count for _ in range(5))


def _taken(call: Callable[[], Any], wait: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    wait()
    return time.perf_counter() - start


def main(peer: str, name: str, number: str) -> None:
    """Build, warm up, time; each step's loss is read, as a loop that prints it does."""
    workload = importlib.import_module(f"workloads.{name}")
    data = workload.make_data()
    wait: Callable[[], Any] = lambda: None  # noqa: E731  JAX's steps wait themselves
    if peer == "tapec":
        from gpu import built, tapec  # needs tapec

        program = built(name, f"cuda:{number}")
        wait = lambda: tapec.experimental.cuda.synchronize(int(number))  # noqa: E731
    elif peer == "torch":
        import torch

        torch.set_default_device(f"cuda:{number}")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        program = workload.build_torch(data, compiled=True)
        wait = torch.cuda.synchronize
    else:
        import jax

        jax.config.update("jax_default_device", jax.devices("gpu")[int(number)])
        jax.config.update("jax_default_matmul_precision", "highest")
        program = workload.build_jax(data)

    def read() -> None:
        loss = program.step()
        if loss is not None:
            float(loss)

    for _ in range(3):
        read()
    print(json.dumps({"seconds": seconds_of(read, wait, 1.0)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
