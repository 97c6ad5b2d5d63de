"""What one small eager operation costs, with and without a tape, in tapec or in TensorFlow; what tapec's switches cost.

    PYTHON benchmarks/overheads.py [tapec | tensorflow]

prints the least time of an operation in microseconds, of rounds between which the process did other things. Run both in
turn on an idle machine, and compare.

    PYTHON benchmarks/overheads.py switches

prints what is added to a taped operation by the code location that explanations need, and to a step by
`enable_check_numerics`: times with and without, taken in turn, and their ratio.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_REPEATS, _CALLS = 15, 200
#: Workloads whose steps are timed with and without checking, with how many steps make a turn.
_STEPS = (
    ("eager_mlp", 20),
    ("eager_lstm", 8),
    ("dispatch", 3000),
    ("mlp_small", 300),
    ("penalty", 20),
    ("third order", 10),
)

Call = Callable[[], Any]


def elementary(tf: Any, x: Any, m: Any) -> dict[str, Call]:
    """Single operations on a vector and a matrix so small that arithmetic costs nothing."""
    return {
        "x + x": lambda: x + x,
        "x * 2.0": lambda: x * 2.0,
        "m @ m": lambda: m @ m,
        "exp(x)": lambda: tf.exp(x),
        "reduce_sum(x)": lambda: tf.reduce_sum(x),
        "reduce_mean(m, 1)": lambda: tf.reduce_mean(m, 1),
        "x[1:]": lambda: x[1:],
        "m[1:, ::2]": lambda: m[1:, ::2],
        "reshape(m)": lambda: tf.reshape(m, [4, 16]),
        "transpose(m)": lambda: tf.transpose(m),
        "concat(m, m)": lambda: tf.concat([m, m], 0),
        "stack(x, x)": lambda: tf.stack([x, x]),
        "split(m)": lambda: tf.split(m, 4, axis=1),
        "where(x > 0, x, x)": lambda: tf.where(x > 0.0, x, x),
        "relu(x)": lambda: tf.nn.relu(x),
        "sigmoid(x)": lambda: tf.sigmoid(x),
        "tanh(x)": lambda: tf.tanh(x),
        "cast(x)": lambda: tf.cast(x, tf.float64),
        "x.numpy()": lambda: x.numpy(),
    }


def composed(tf: Any, x: Any, m: Any) -> dict[str, Call]:
    """Functions that consist of several operations in tapec."""
    labels, images = tf.constant([1, 0, 3, 2, 5, 4, 7, 6]), tf.reshape(m, [1, 8, 8])
    spread = tf.nn.sigmoid(m)
    return {
        "softmax(x)": lambda: tf.nn.softmax(x),
        "log_softmax(m)": lambda: tf.nn.log_softmax(m),
        "softmax_xent(m, m)": lambda: tf.nn.softmax_cross_entropy_with_logits(spread, m),
        "sparse_xent(y, m)": lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(labels, m),
        "sigmoid_xent(m, m)": lambda: tf.nn.sigmoid_cross_entropy_with_logits(spread, m),
        "moments(m)": lambda: tf.nn.moments(m, [1]),
        "layer norm": lambda: layer_norm(tf, m),
        "reduce_variance(m)": lambda: tf.math.reduce_variance(m, 1),
        "reduce_logsumexp(m)": lambda: tf.reduce_logsumexp(m, 1),
        "clip_by_global_norm": lambda: tf.clip_by_global_norm([x, m], 1.0),
        "gather(m, y)": lambda: tf.gather(m, labels),
        "one_hot(y)": lambda: tf.one_hot(labels, 8),
        "dropout(m)": lambda: tf.nn.dropout(m, 0.5),
        "batched matmul": lambda: tf.matmul(images, images),
        "l2_normalize(m)": lambda: tf.math.l2_normalize(m, 1),
        "gelu(x)": lambda: tf.nn.gelu(x),
        "squared difference": lambda: tf.reduce_mean(tf.square(m - spread)),
    }


def random(tf: Any, x: Any, m: Any) -> dict[str, Call]:
    """Random numbers."""
    generator = tf.random.Generator.from_seed(1)
    return {
        "random.uniform": lambda: tf.random.uniform([8, 8]),
        "uniform integers": lambda: tf.random.uniform([8, 8], 0, 9, tf.int32),
        "random.normal": lambda: tf.random.normal([8, 8]),
        "truncated_normal": lambda: tf.random.truncated_normal([8, 8]),
        "random.shuffle(m)": lambda: tf.random.shuffle(m),
        "stateless_uniform": lambda: tf.random.stateless_uniform([8, 8], [1, 2]),
        "Generator.normal": lambda: generator.normal([8, 8]),
    }


def layer_norm(tf: Any, m: Any) -> Any:
    """As users write it."""
    mean, variance = tf.nn.moments(m, [-1], keepdims=True)
    return (m - mean) * tf.math.rsqrt(variance + 1e-6)


def penalty(tf: Any) -> Call:
    """An eager step with the gradient of a gradient's norm, as critics use it."""
    w, x = tf.Variable(tf.random.normal([8, 8])), tf.random.normal([16, 8])

    def step() -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(tf.tanh(tf.tanh(x @ w) @ w))
            g = inner.gradient(y, x)
            norms = tf.sqrt(tf.reduce_sum(g * g, 1) + 1e-6)
            loss = tf.reduce_mean((norms - 1.0) ** 2)
        return outer.gradient(loss, w)

    return step


def third_order(tf: Any) -> Call:
    """Three tapes around a function, and a gradient from each."""
    w, x = tf.Variable(tf.random.normal([8, 8])), tf.random.normal([16, 8])

    def step() -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape(persistent=True) as middle:
                middle.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    y = tf.reduce_sum(tf.sin(x) * tf.exp(-x * x))
                g = inner.gradient(y, x)
                squares = tf.reduce_sum(g * g)
            h = middle.gradient(squares, x)
            loss = tf.reduce_mean(h * h) * tf.reduce_sum(w)
        return outer.gradient(loss, w)

    return step


#: Steps with nested tapes.
_NESTED = {"penalty": penalty, "third order": third_order}


def seconds(call: Call, calls: int = _CALLS) -> float:
    """The time of a call, of several in a row."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def taped(tf: Any, watched: list[Any], call: Call) -> float:
    """The time of a call that a tape records."""
    with tf.GradientTape() as tape:
        tape.watch(watched)
        seconds(call, 20)
        return seconds(call)


def operations(tf: Any) -> None:
    """Print a line for each operation."""
    x, m = tf.ones([4]), tf.random.normal([8, 8])
    calls = {**elementary(tf, x, m), **composed(tf, x, m), **random(tf, x, m)}
    plain: dict[str, list[float]] = {title: [] for title in calls}
    on_tape: dict[str, list[float]] = {title: [] for title in calls}
    for _ in range(_REPEATS):
        for title, call in calls.items():
            plain[title].append(seconds(call))
            on_tape[title].append(taped(tf, [x, m], call))
    print(f"{tf.__name__:20} plain µs  taped µs")
    for title in calls:
        print(f"{title:20} {1e6 * min(plain[title]):8.2f}  {1e6 * min(on_tape[title]):8.2f}")


@contextmanager
def without_locations(tf: Any) -> Iterator[None]:
    """Let eager operations not look where they were called from."""
    module = importlib.import_module("tapec.tensor")
    looks = module.origin, module.nearest
    module.origin = module.nearest = lambda skipped: None
    try:
        yield
    finally:
        module.origin, module.nearest = looks


@contextmanager
def unchecked(tf: Any) -> Iterator[None]:
    """Let nobody look for NaN and infinities."""
    tf.debugging.disable_check_numerics()
    try:
        yield
    finally:
        tf.debugging.enable_check_numerics()


def compared(tf: Any, off: Callable[[Any], Any], measure: Call, turns: int) -> tuple[float, float]:
    """The least times with and without something, taken in turn."""
    on, without = [], []
    for _ in range(turns):
        with off(tf):
            without.append(measure())
        on.append(measure())
    return min(on), min(without)


def switches(tf: Any) -> None:
    """Print what explanations and checks cost."""
    print("what a tape notes    with µs  without   ratio")
    x, m = tf.ones([4]), tf.ones([8, 8])
    for title, call in elementary(tf, x, m).items():
        found = compared(tf, without_locations, lambda call=call: taped(tf, [x, m], call), 60)
        show(title, *found)
    print("check_numerics       with µs  without   ratio")
    for name, steps in _STEPS:
        own = _NESTED.get(name)
        step = workload(name) if own is None else own(tf)
        tf.debugging.enable_check_numerics()
        seconds(step, 4)
        show(name, *compared(tf, unchecked, lambda step=step, n=steps: seconds(step, n), 9))
        tf.debugging.disable_check_numerics()


def show(title: str, on: float, off: float) -> None:
    """Print a line of a comparison."""
    print(f"{title:20} {1e6 * on:8.2f} {1e6 * off:8.2f}  {on / off:6.3f}")


def workload(name: str) -> Call:
    """The step of a workload of tapec's."""
    path = Path(__file__).parent / "tapec_workloads" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"tapec_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    data = importlib.import_module(f"workloads.{name}").make_data(None)
    step: Call = module.build_tapec(data, 1).step
    return step


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", nargs="?", choices=("tapec", "tensorflow", "switches"), default="tapec"
    )
    name = parser.parse_args().what
    if name == "switches":
        switches(importlib.import_module("tapec"))
    else:
        operations(importlib.import_module(name))


if __name__ == "__main__":
    main()
