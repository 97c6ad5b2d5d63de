"""Random Python functions whose branches give different shapes: compiled, each call does what it does eagerly.

As a script, ``python tests/random_shapes.py COUNT SEED``, it runs as many programs and says how many differed.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
from random_control import State, function_of

import tapec

_CONDITIONS = [
    "a > 0.1371",
    "b < x - 0.2177",
    "tapec.reduce_sum(s) > 0.3313",
    "v > 0.1177",
    "tapec.random.uniform([], dtype=x.dtype) > 0.4377",
    "c % 2 == 1",
    "a > 0.2073 and b < 0.4119",
    "not b > 0.0737",
    "tapec.size(s) > 3",
    "tapec.reduce_max(s) > a",
    "flag",
]
_VALUES = [
    "tapec.tanh(a * 1.3 + b)",
    "tapec.sin(b) - x * 0.5",
    "tapec.tanh(v * x + 0.3)",
    "tapec.reduce_mean(s)",
    "tapec.random.uniform([], dtype=x.dtype) - 0.5",
    "tapec.reduce_sum(s * s) * 0.1",
    "tapec.cast(c, x.dtype) * 0.03",
]
_SHAPES = [
    "s = s[:1]",
    "s = s[1:] if s.shape[0] > 2 else s",
    "s = tapec.concat([s, s[:1] * {v}], 0)",
    "s = tapec.concat([s, [{v}]], 0)",
    "s = tapec.stack([{v}, a])",
    "s = s[::2] + {v}",
    "s = tapec.reshape(tapec.stack([s, s * {v}]), [-1])",
    "s = tapec.cond({c}, lambda: s[:1], lambda: tapec.concat([s, s], 0))",
]
_OTHERS = [
    "s = s * {v}",
    "v.assign(tapec.tanh(v + {v}))",
    "c.assign_add(1)",
    "a = {v}",
    "b = {v}",
]


class _Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def program(self) -> str:
        """A function of ``x, flag`` that returns a vector and two numbers."""
        body = self._block(2, False)
        if self._random.random() < 0.3:
            body = [
                "with tapec.GradientTape() as tape:",
                "    tape.watch(x)",
                *_indented(body),
                "    t = tapec.reduce_sum(s) + a",
                "g = tape.gradient(t, x)",
                "a = a if g is None else a + g * 0.01",
            ]
        lines = ["a, b = x * 0.5, x + 0.2", "s = tapec.stack([x, a, b])", *body]
        lines.append("return s, a, v.read_value()")
        return "\n".join(["def program(x, flag):", *_indented(lines)]) + "\n"

    def _block(self, depth: int, in_loop: bool) -> list[str]:
        return [
            line
            for _ in range(self._random.randint(1, 3))
            for line in self._statement(depth, in_loop)
        ]

    def _statement(self, depth: int, in_loop: bool) -> list[str]:
        pick, kind = self._random.choice, self._random.random()
        if depth == 0 or kind < 0.4:
            changes = not in_loop and self._random.random() < 0.5
            return [
                pick(_SHAPES if changes else _OTHERS).format(v=pick(_VALUES), c=pick(_CONDITIONS))
            ]
        if kind > 0.8:
            head, inside = pick([("tapec.range(3)", True), ("range(2)", in_loop)])
            return [f"for k in {head}:", *_indented(self._block(depth - 1, inside))]
        lines = [f"if {pick(_CONDITIONS)}:", *_indented(self._block(depth - 1, in_loop))]
        if self._random.random() < 0.3:
            lines += [f"elif {pick(_CONDITIONS)}:", *_indented(self._block(depth - 1, in_loop))]
        if self._random.random() < 0.5:
            lines += ["else:", *_indented(self._block(depth - 1, in_loop))]
        if not in_loop and self._random.random() < 0.15:
            lines += [f"if {pick(_CONDITIONS)}:", "    return s, a, v.read_value()"]
        return lines


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def check(seed: int, calls: int = 5) -> int:
    """Run a program eagerly and compiled, with a tape around; of how many outcomes it had programs.

    Raises:
        AssertionError: what it gives, its gradient, or its state is not what it is eagerly; the text has the program.
    """
    source, found = _Writer(seed).program(), []
    for is_compiled in (False, True):
        state, draws = State.new(), random.Random(seed)
        state.start()
        f = function_of(source, v=state.v, c=state.c)
        f = tapec.compile(f) if is_compiled else f
        for _ in range(calls):
            x, flag = tapec.constant(draws.uniform(-1, 1), tapec.float64), draws.random() < 0.5
            with tapec.GradientTape() as tape:
                tape.watch(x)
                s, *rest = f(x, flag)
                total = tapec.reduce_sum(s) + rest[0]
            g = tape.gradient(total, x, unconnected_gradients="zero")
            found.append([np.asarray(t) for t in (s, *rest, g, state.v, state.c)])
    for want, got in zip(found[:calls], found[calls:], strict=True):
        assert [a.shape for a in got] == [a.shape for a in want], source
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=source)
    programs: Any = f
    return len(programs.programs)


def sweep(count: int, first: int) -> int:
    """Check ``count`` programs from a seed on, print each that differs; how many did, or raised."""
    different = 0
    for seed in range(first, first + count):
        try:
            check(seed)
        except Exception as error:  # the next ones are run all the same
            different += 1
            print(f"\nseed {seed}: {type(error).__name__}: {error}", flush=True)
    print(f"{count} programs ran; {different} differed", flush=True)
    return different


if __name__ == "__main__":  # python tests/random_shapes.py COUNT SEED
    sys.exit(sweep(int(sys.argv[1]), int(sys.argv[2])) > 0)
