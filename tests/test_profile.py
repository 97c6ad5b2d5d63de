"""Where the time of a call goes: every kernel that runs is timed, nothing changes, and the lines are the user's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapec
from tapec.compiled.cost import KernelCost
from tapec.compiled.expectation import Limits, expected_seconds

#: A machine of 100 and 50 Gflop/s, with 100 GB/s from caches and 10 from memory; both halves of it are alike.
MEASURED = {
    **{f"fma_f32_gflops_{n}": 100.0 * n for n in (1, 2)},
    **{f"fma_f64_gflops_{n}": 50.0 * n for n in (1, 2)},
    **{f"triad_{size}_per_thread_gbs_{n}": 100.0 for n in (1, 2) for size in ("96KB", "768KB")},
    **{f"triad_8MB_per_thread_gbs_{n}": 100.0 for n in (1, 2)},
    **{f"triad_dram_gbs_{n}": 10.0 for n in (1, 2)},
    "tanh_ns": 1.0,
    "fma_latency_ns": 2.0,
    "fma_scalar_ns": 0.5,
    "fork_join_ns_2": 500.0,
    "call_ns": 100.0,
}


def test_no_variable_changes_and_lines_are_the_users() -> None:
    w = tapec.Variable(np.ones([4, 3], np.float32))
    optimizer = tapec.optimizers.Adam(0.1)

    @tapec.compile
    def step(x: Any) -> Any:
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_mean(tapec.tanh(x @ w))
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    x = np.ones([5, 4], np.float32)
    profile = step.profile(x)
    np.testing.assert_array_equal(w.numpy(), np.ones([4, 3], np.float32))
    assert int(optimizer.iterations.numpy()) == 0
    assert [k.cost.number for k in profile.kernels] == [k.number for k in profile.kernels]
    assert all(k.runs == 1 and k.seconds > 0 for k in profile.kernels)
    assert all(k.location is None or k.location.file == __file__ for k in profile.kernels)
    lines = {k.location.text for k in profile.kernels if k.location is not None}
    assert {line.split("(")[0] for line in lines} >= {"optimizer.apply_gradients"}
    assert profile.rest + sum(k.seconds for k in profile.kernels) == pytest.approx(profile.seconds)
    assert sum(k.share for k in profile.kernels) < 1
    assert len(step.programs) == 1
    step(x)
    assert len(step.programs) == 1


def test_the_table() -> None:
    step = tapec.compile(lambda x: tapec.exp(x @ x), name="step")
    profile = step.profile(np.eye(8))
    text = str(profile)
    first, head, *rows, rest, end = text.splitlines()
    assert first == "where the time of step goes"
    assert head.split()[:4] == ["kernel", "time", "share", "runs"]
    assert len(rows) == len(profile.kernels)
    assert "outside of kernels" in rest
    assert end.endswith(("1 thread", "threads"))
    assert "<table>" in profile._repr_html_()
    assert repr(profile).startswith("<Profile of step: ")


def test_runs_are_counted_in_loops_and_branches() -> None:
    @tapec.compile
    def loop(x: Any, n: Any) -> Any:
        for _ in tapec.range(n):
            x = x @ x
        if n > 100:
            x = tapec.exp(x)
        return x

    profile = loop.profile(np.eye(4), tapec.constant(7))
    products = [k for k in profile.kernels if "matmul" in k.cost.ops]
    assert [k.runs for k in products] == [7]
    assert products[0].flops_per_second > 0
    assert all("exp" not in k.cost.ops for k in profile.kernels)


def test_costs_are_of_the_sizes_of_the_call() -> None:
    @tapec.compile(dims={"x": ("N", 3)})
    def double(x: Any) -> Any:
        return 2.0 * x

    (kernel,) = double.profile(np.ones([5, 3])).kernels
    assert (kernel.cost.flops, kernel.cost.bytes_written) == (15, 120)
    (kernel,) = double.profile(np.ones([6, 3])).kernels
    assert (kernel.cost.flops, kernel.cost.bytes_written) == (18, 144)
    assert len(double.programs) == 1


def test_numbers_and_checks() -> None:
    @tapec.compile
    def scaled(x: Any, rate: float) -> Any:
        tapec.debugging.assert_less(x, 2.0, message="too much")
        return x * rate

    scaled(np.ones(3), 0.5)
    assert scaled.profile(np.ones(3), 0.25).kernels
    with pytest.raises(tapec.errors.InvalidArgumentError, match="too much"):
        scaled.profile(np.full(3, 9.0), 0.25)


def test_a_program_without_kernels() -> None:
    same = tapec.compile(lambda: tapec.zeros([0]))
    profile = same.profile()
    assert profile.seconds > 0
    assert "outside of kernels" in str(profile)


# ---- the model


def kernel(**numbers: Any) -> KernelCost:
    """A kernel of nothing but these numbers."""
    given = {"flops": 0, "transcendentals": 0, "bytes_read": 0, "bytes_written": 0, **numbers}
    return KernelCost(0, (), None, 1, **given)


@pytest.mark.parametrize("text", ["{}", "[]", "[", '{"tanh_ns": "?"}'])
def test_a_file_that_holds_no_limits(text: str, tmp_path: Path) -> None:
    (tmp_path / "limits.json").write_text(text)
    with pytest.raises(tapec.errors.ValueError, match="does not hold the limits of a machine"):
        Limits.read(tmp_path / "limits.json")


def test_kernels_take_the_longest_of_what_they_do_at_once() -> None:
    limits = Limits.of(MEASURED)
    kernels = [
        kernel(flops=300_000, products=200_000),  # 2 us of products, 2 of others
        kernel(flops=100_000, products=100_000, is_double=True),
        kernel(transcendentals=5000),
        kernel(transcendentals=5000, is_parallel=True),
        kernel(depth=7),
        kernel(flops=100_000, products=100_000, memory=(("a", 200_000),)),
        kernel(flops=4, instructions=4),
    ]
    found = expected_seconds(kernels, limits, threads=2)
    np.testing.assert_allclose(found, [4e-6, 2e-6, 5e-6, 3e-6, 14e-9, 2e-6, 2e-9])


def test_turns_of_a_loop_wait_only_for_what_they_need_of_the_turn_before() -> None:
    @tapec.compile
    def step(x: Any, y: Any) -> Any:
        for _ in tapec.range(100):
            z = tapec.sqrt(tapec.sqrt(y * y) - 1.0)
            x, y = y + z, x / 2.0
        return x, y

    (loop,) = [
        k for k in step.lower(np.float64(3), np.float64(2)).cost().kernels if "sqrt" in k.ops
    ]
    # The longest cycle takes two turns: x becomes y, by 1, and that x again, by mul, sqrt, sub, sqrt, add.
    assert loop.depth == pytest.approx((1 + 5) / 2)
    assert loop.instructions == 6


def test_what_was_touched_long_ago_comes_from_memory() -> None:
    limits = Limits.of(MEASURED)
    small, large = ("small", 1_000_000), ("large", 400_000_000)
    kernels = [kernel(memory=(small,)), kernel(memory=(small,)), kernel(memory=(large,))]
    far, near, slow = expected_seconds(kernels, limits, threads=1)
    assert far == pytest.approx(1e-4)  # the large one was touched since, in the step before
    assert near == pytest.approx(1e-5)
    assert slow == pytest.approx(4e-2)
    (alone,) = expected_seconds([kernel(memory=(small,))], limits, threads=1)
    assert alone == near


def test_a_profile_tells_what_was_expected(tmp_path: Any) -> None:
    path = tmp_path / "limits.json"
    path.write_text(json.dumps(MEASURED))
    step = tapec.compile(lambda x: tapec.exp(x @ x), name="step")
    profile = step.profile(np.eye(16))
    assert profile.expected is None
    told = profile.against(path)
    assert told.expected == pytest.approx(100e-9 + sum(k.expected or 0 for k in told.kernels))
    assert [k.seconds for k in told.kernels] == [k.seconds for k in profile.kernels]
    assert "expected" in str(told).splitlines()[1].split()
    assert "it is expected to take" in str(told)
