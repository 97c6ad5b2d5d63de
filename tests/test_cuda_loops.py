"""Loops over time on devices: which of them become one launch, and that they compute what the processor computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from loop_programs import until_large

import tapec
from tapec.compiler import lowered_for
from tapec.ir.ops import device, loop
from tapec.ir.parser import parse_module
from tapec.ir.verifier import verify
from tapec.passes.device import predicate
from tapec.runtime.cuda.launches import recorded
from tapec.runtime.cuda.program import simulated
from tapec.runtime.cuda.simulator.memory import SimulationError
from tapec.runtime.cuda.text.module_text import write_text

#: A batch of rows, and what they share.
TIME, ROWS, WIDTH = 3, 8, 40


def array(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def recurrent(x: Any, w: Any) -> Any:
    """Each row of the state by itself, by a product that all rows share."""
    return tapec.foldl(
        lambda h, now: tapec.tanh(h @ w + now), x, initializer=tapec.zeros([ROWS, WIDTH])
    )


def gradient(x: Any, w: Any) -> Any:
    with tapec.GradientTape() as tape:
        tape.watch(w)
        total = tapec.reduce_sum(recurrent(x, w) ** 2)
    return tape.gradient(total, w)


def softmaxes(x: Any, w: Any) -> Any:
    """Rows that need memory of their own, and two loops one in the other."""

    def turn(h: Any, now: Any) -> Any:
        def again(h: Any, _: Any) -> Any:
            return tapec.nn.softmax(h * 2.0 + now)

        return tapec.foldl(again, tapec.range(2), initializer=h) * w[0]

    return tapec.scan(turn, x, initializer=tapec.ones([ROWS, WIDTH]))


def masked(x: Any, w: Any) -> Any:
    """Rows of different lengths, and one number for each of them."""

    def turn(state: Any, now: Any) -> Any:
        h, count = state
        ends = tapec.cast(tapec.range(ROWS) % TIME, tapec.float32)
        return tapec.where((count < ends)[:, None], h @ w + now, h), count + 1.0

    start = (tapec.zeros([ROWS, WIDTH]), tapec.zeros([ROWS]))
    return tapec.foldl(turn, x, initializer=start)


def blocks_of_loops(function: Any, *arrays: Any) -> list[int]:
    """How many blocks each launch has that is a whole loop over time."""
    launches = recorded(write_text(lowered_for(tapec.compile(function).trace(*arrays), "cuda")))
    assert launches is not None
    return [one.blocks for one in launches if one.kernel.name.startswith("loop")]


@pytest.mark.parametrize("function", [recurrent, gradient, softmaxes, masked])
def test_rows_go_through_time_by_themselves(function: Any) -> None:
    x, w = array(TIME, ROWS, WIDTH), array(WIDTH, WIDTH)
    assert set(blocks_of_loops(function, x, w)) == {ROWS}
    found = tapec.compile(function, target="cuda", engine="simulator")(x, w)
    expected = function(tapec.constant(x), tapec.constant(w))
    for one, other in zip(tapec.nest.flatten(found), tapec.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def test_what_mixes_rows_keeps_its_launches() -> None:
    """A turn needs all of the one before it: the mean of all rows, or the next one."""
    x, w = array(TIME, 64, WIDTH), array(WIDTH, WIDTH)

    def mean(x: Any, w: Any) -> Any:
        def turn(h: Any, now: Any) -> Any:
            return tapec.tanh(h @ w + now) - tapec.reduce_mean(h, axis=0)

        return tapec.foldl(turn, x, initializer=tapec.zeros([64, WIDTH]))

    def shifted(x: Any, w: Any) -> Any:
        def turn(h: Any, now: Any) -> Any:
            return tapec.tanh(tapec.roll(h, 1, axis=0) + now)

        return tapec.foldl(turn, x, initializer=tapec.zeros([64, WIDTH]))

    for function in (mean, shifted):
        assert blocks_of_loops(function, x, w) == []


def test_what_rows_share_may_be_too_much_to_read_for_each() -> None:
    specs = [tapec.TensorSpec(s) for s in ([TIME, 512, 256], [256, 256])]

    def wide(x: Any, w: Any) -> Any:
        start = tapec.zeros([512, 256])
        return tapec.foldl(lambda h, now: tapec.tanh(h @ w + now), x, initializer=start)

    assert blocks_of_loops(wide, *specs) == []


def test_a_barrier_too_few_is_found() -> None:
    """Threads of a block that do not wait read what others are about to write."""
    x, w = array(TIME, ROWS, WIDTH), array(WIDTH, WIDTH)
    module = lowered_for(tapec.compile(recurrent).trace(x, w), "cuda")
    barriers = [op for op in module.walk() if isinstance(op.defn, device.Barrier)]
    assert len(barriers) > 1
    for barrier in barriers:
        barrier.erase()
    with pytest.raises(SimulationError, match="data race"):
        simulated(module)(x, w)


def test_rows_that_are_none_are_found() -> None:
    """Blocks that read what other blocks write are a race, barriers or not."""
    x, w = array(TIME, ROWS, WIDTH), array(WIDTH, WIDTH)
    module = lowered_for(tapec.compile(recurrent).trace(x, w), "cuda")
    (kernel,) = [f for f in module.functions.values() if f.name.startswith("loop")]
    (rows,) = [op for op in kernel.walk() if op.attrs.get("over") == "blocks"]
    row = rows.regions[0].block.args[0]
    for op in list(kernel.walk()):
        if op.name == "load" and op.operands[1:2] == (row,):
            op.set_operand(1, rows.operands[0])  # the first row, whichever it is
            break
    with pytest.raises(SimulationError, match=r"data race.*block"):
        simulated(module)(x, w)


def launches_of(function: Any, *arrays: Any) -> Any:
    """What a call launches; None if that depends on numbers that the host waits for."""
    return recorded(write_text(lowered_for(tapec.compile(function).trace(*arrays), "cuda")))


def test_kernels_look_at_conditions() -> None:
    """A step that updates every second time is launched as a whole, and so are ways in ways."""
    x = array(40, 33)

    def trained(**options: Any) -> list[Any]:
        w = tapec.Variable(array(33, 35))
        count = tapec.Variable(0)

        def train(x: Any) -> Any:
            count.assign_add(1)
            if count % 2 == 0:
                w.assign_add(0.01 * tapec.matmul(x, x @ w, transpose_a=True))
                total = tapec.reduce_sum(w)
            elif count > 2:
                total = tapec.reduce_max(tapec.nn.softmax(w), axis=0)[3]
            else:
                total = tapec.constant(0.0)
            return total

        if options:
            assert launches_of(train, x) is not None
        step: Any = tapec.compile(train, **options)
        return [step(x).numpy() for _ in range(4)] + [w.numpy()]

    found, expected = trained(target="cuda", engine="simulator"), trained()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_conditions_may_be_of_arrays_of_open_sizes() -> None:
    def chosen(x: Any) -> Any:
        return tapec.cond(tapec.reduce_sum(x) > 0, lambda: x * 2.0, lambda: x - 1.0)

    found = tapec.compile(chosen, target="cuda", engine="simulator", dims={"x": ("N", 4)})
    for x in (np.ones((3, 4), np.float32), -np.ones((2, 4), np.float32)):
        np.testing.assert_array_equal(found(x).numpy(), chosen(tapec.constant(x)).numpy())


def test_loops_of_conditions_are_one_launch() -> None:
    x, w = array(16, 6), array(6, 6)

    def alternate(x: Any, w: Any) -> Any:
        def turn(h: Any, i: Any) -> Any:
            return tapec.cond(i % 2 == 0, lambda: h @ w, lambda: tapec.tanh(h))

        return tapec.foldl(turn, tapec.range(4), initializer=x)

    def halved(x: Any, w: Any) -> Any:
        return tapec.while_loop(
            lambda h: tapec.reduce_max(h) > 0.4, lambda h: (h * 0.5,), (x,), maximum_iterations=3
        )

    for function in (alternate, halved):
        assert len(launches_of(function, x, w)) == 2
        found = tapec.compile(function, target="cuda", engine="simulator")(x, w)
        expected = function(tapec.constant(x), tapec.constant(w))
        for one, other in zip(tapec.nest.flatten(found), tapec.nest.flatten(expected), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)


def test_a_loop_becomes_one_launch_where_its_bound_is_known() -> None:
    """All else is alike: one that nobody bounds would not end, and a number of the call is in no memory."""

    def counted(x: Any, n: Any) -> Any:
        return tapec.while_loop(
            lambda x: tapec.reduce_sum(x) < 100.0, lambda x: [x * 2.0], [x], maximum_iterations=n
        )[0]

    for function in (until_large, counted):
        for bound, loops in ((5, 0), (tapec.TensorSpec([], tapec.int32), 1)):
            traced = tapec.compile(function).trace(tapec.TensorSpec([2]), bound)
            entry = lowered_for(traced, "cuda").entry
            assert sum(isinstance(op.defn, loop.While) for op in entry.walk()) == loops


def test_conditions_that_are_overwritten_stay_with_the_host() -> None:
    text = """// tapec-ir 1
func @f(%x: &bool, %y: &f32[4], %arena: &u8[64]) {{arena = 64, inputs = 2}} {{
  %c = view %arena {{offset = {at}}} : &bool
  launch %x, %c {{kernel = "ask"}}
  %0 = load %c : bool
  %v = view %arena {{offset = 0}} : &f32[4]
  if %0 {{
    launch %v {{kernel = "fill"}}
    launch %v {{kernel = "fill"}}
    yield
  }} {{
    yield
  }}
  return
}}
kernel @ask(%in: &bool, %out: &bool) {{
  %0 = load %in : bool
  store %0, %out
  return
}}
kernel @fill(%out: &f32[4]) {{
  %0 = constant {{value = 0}} : index
  %1 = constant {{value = 4}} : index
  %2 = constant {{value = 1.0}} : f32
  for %0, %1 {{ ^(%3: index):
    store %2, %out, %3
    yield
  }}
  return
}}
"""
    for at, taken in ((32, True), (8, False)):
        module = parse_module(text.format(at=at))
        assert predicate.run(module, predicate.Options()) is taken
        assert any(op.name == "if" for op in module.entry.walk()) is not taken
        verify(module)
