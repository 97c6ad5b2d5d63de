"""Ways into a compiled function and out of it: its program, cost and memory, plain Python, NumPy, breakpoints."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tapec
from tapec.ir.parser import parse_module
from tapec.ir.printer import print_module


def trainer() -> tuple[tapec.Variable, Any, list[str]]:
    """A train step, its Variable, and what Python said while it ran."""
    w = tapec.Variable(np.linspace(-1, 1, 12).reshape(4, 3).astype(np.float32), name="w")
    optimizer = tapec.optimizers.Adam(0.1)
    said: list[str] = []

    @tapec.compile
    def step(x: tapec.Tensor) -> tapec.Tensor:
        said.append("traced")
        with tapec.GradientTape() as tape:
            loss = tapec.reduce_mean(tapec.tanh(x @ w))
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    return w, step, said


# ---- programs


def test_trace_runs_nothing() -> None:
    w, step, said = trainer()
    before = w.numpy()
    for given in (np.ones([5, 4], np.float32), tapec.TensorSpec([5, 4]), tapec.ones([5, 4])):
        module = step.trace(given)
        assert str(module.entry.args[0].type) == "f32[5,4]"
    assert said == ["traced"] * len(said)
    assert step.programs == []
    assert repr(step) == "<CompiledFunction step: 0 programs>"
    np.testing.assert_array_equal(w.numpy(), before)
    step(tapec.ones([5, 4]))
    text = print_module(step.trace(tapec.ones([5, 4])), full_constants=True)
    assert text == print_module(step.ir(), full_constants=True)
    assert len(step.programs) == 1
    assert repr(step) == "<CompiledFunction step: 1 program>"
    assert print_module(parse_module(text), full_constants=True) == text


def test_trace_leaves_sizes_open() -> None:
    _, step, _ = trainer()
    assert str(step.trace(tapec.TensorSpec([None, 4])).entry.args[0].type) == "f32[d0_0,4]"

    @tapec.compile(input_signature=[{"x": tapec.TensorSpec([None, 2], tapec.float64)}])
    def signed(batch: Any) -> Any:
        return tapec.reduce_sum(batch["x"], 0)

    @tapec.compile(dims={"x": ("N<=9",)})
    def named(x: Any, flag: bool = True) -> Any:
        return x * 2.0 if flag else x

    (argument,) = signed.trace().entry.args
    assert argument.type.rank == 2  # type: ignore[union-attr]
    assert not argument.type.is_static  # type: ignore[union-attr]
    assert str(named.trace(np.ones(3), flag=False).entry.args[0].type) == "f64[N]"
    with pytest.raises(ValueError, match="leaves the rank open"):
        named.trace(tapec.TensorSpec(None))


def test_text_of_every_level() -> None:
    lowered = trainer()[1].lower(tapec.TensorSpec([5, 4]))
    assert str(lowered) == lowered.text().rstrip()
    assert "gradient" in lowered.text()
    assert "gradient" not in lowered.text(after="adjoint")
    assert 'loc("' in lowered.text(locs=True)
    assert 'place = ["' in lowered.text("kernels")
    assert "launch" in lowered.text("loop")
    assert "define hidden ptr @tapec.call" in lowered.text("llvm")
    assert "tapec.call:" in lowered.text("asm")
    with pytest.raises(ValueError, match="no level 'ssa'") as caught:
        lowered.text("ssa")
    assert "asm" in str(caught.value)
    with pytest.raises(tapec.errors.PassError, match="no pass 'magic'"):
        lowered.text(after="magic")


def test_lowered_compiles() -> None:
    @tapec.compile
    def double(x: Any) -> Any:
        return x * 2.0

    run = double.lower(tapec.TensorSpec([3])).compile()
    assert run(np.ones(3, np.float32))[0].tolist() == [2.0, 2.0, 2.0]


# ---- cost and memory


def test_cost_counts_what_the_program_says() -> None:
    @tapec.compile
    def f(a: Any, b: Any) -> Any:
        return tapec.reduce_sum(tapec.exp(a @ b) + 1.0, 1)

    m, k, n = 7, 5, 6
    cost = f.lower(tapec.TensorSpec([m, k]), tapec.TensorSpec([k, n])).cost()
    assert cost.flops == 2 * m * k * n + m * n + m * n  # products, additions of 1, the sum
    assert cost.transcendentals == m * n
    assert cost.bytes >= 4 * (m * k + k * n + m)
    lines = {kernel.location.text for kernel in cost.kernels if kernel.location}
    assert lines == {"return tapec.reduce_sum(tapec.exp(a @ b) + 1.0, 1)"}
    for text in (str(cost), cost._repr_html_()):
        assert f"{cost.flops:,} flops" in text
        assert "2 for each product of a contraction" in text
    assert cost.__rich__().row_count == len(cost.kernels)
    assert repr(cost).startswith("<Cost: ")


def test_cost_of_loops_is_by_turn() -> None:
    @tapec.compile
    def scanned(x: Any) -> Any:
        return tapec.scan(lambda c, row: c + tapec.sin(row), x)

    @tapec.compile
    def endless(x: Any) -> Any:
        return tapec.while_loop(lambda v: v[0] < 5.0, lambda v: (v * 2.0,), (x,))

    cost = scanned.lower(tapec.TensorSpec([9, 4])).cost()
    assert cost.transcendentals == 8 * 4
    assert 8 in {kernel.runs for kernel in cost.kernels}
    assert "?" not in str(cost)
    cost = endless.lower(tapec.TensorSpec([4])).cost()
    assert None in {kernel.runs for kernel in cost.kernels}
    assert "where each that runs ? times counts once" in str(cost)


def test_memory_is_the_plan() -> None:
    w, step, _ = trainer()
    lowered = step.lower(tapec.TensorSpec([5, 4]))
    memory = lowered.memory()
    run = lowered.compile()
    assert memory.arena == run.arena_bytes
    assert 0 < memory.lower_bound <= memory.arena
    assert memory.results == 4
    assert memory.states >= 3 * w.numpy().nbytes  # the weights and two moments
    assert memory.arguments >= 5 * 4 * 4
    for buffer in memory.buffers:
        assert buffer.offset + buffer.bytes <= memory.arena
        assert buffer.first <= buffer.last
        assert buffer.location is not None
        assert buffer.location.file == __file__
    for text in (str(memory), memory._repr_html_()):
        assert f"arena {memory.arena:,} bytes" in text
    assert memory.__rich__().row_count == len(memory.buffers)
    assert "arena" in repr(memory)
    assert lowered.__rich__().row_count == len(lowered.cost().kernels)
    assert memory._repr_html_() in lowered._repr_html_()
    assert "6 inputs" in repr(lowered)


# ---- NumPy in place of native code


def test_without_native_code() -> None:
    """The same numbers and states, and no kernels."""
    losses = {}
    for jit in (True, False):
        w, step, _ = trainer()
        run = tapec.compile(step.python_function, jit=jit)
        x = tapec.constant(np.linspace(0, 1, 20).reshape(5, 4), tapec.float32)
        losses[jit] = [float(run(x)) for _ in range(4)] + w.numpy().ravel().tolist()
        executable = run.programs[0].executable
        assert executable.native is jit
        assert ("evaluated by NumPy" in repr(executable)) is not jit
        with tapec.GradientTape() as tape:
            y = run(x)
        assert tape.gradient(y, w).shape == w.shape
    np.testing.assert_allclose(losses[True], losses[False], rtol=1e-5)


def test_without_native_code_checks_hold() -> None:
    v = tapec.Variable([1.0])

    @tapec.compile(jit=False)
    def f(x: Any) -> Any:
        v.assign_add(x)
        tapec.debugging.assert_less(x, 3.0)
        return v.read_value()

    assert f(tapec.constant([1.0])).numpy().tolist() == [2.0]
    with pytest.raises(tapec.errors.InvalidArgumentError):
        f(tapec.constant([5.0]))
    assert v.numpy().tolist() == [2.0]
    first = f(tapec.constant([1.0]))
    f(tapec.constant([1.0]))
    assert first.numpy().tolist() == [3.0]  # a result does not change with the Variable


# ---- plain Python


def test_functions_run_eagerly() -> None:
    seen: list[Any] = []

    @tapec.compile
    def f(x: Any) -> Any:
        seen.append(x.numpy() if tapec.executing_eagerly() else None)
        return x + 1.0

    tapec.config.run_functions_eagerly(True)
    try:
        assert tapec.config.functions_run_eagerly()
        f(tapec.constant(2.0))
    finally:
        tapec.config.run_functions_eagerly(False)
    f(tapec.constant(2.0))
    assert seen == [2.0, None]
    assert f.python_function(tapec.constant(1.0)).numpy() == 2.0


PROGRAM = """
import tapec
@tapec.compile
def f(x):
    breakpoint()
    return x * 2.0
f(tapec.constant(3.0))
"""


def run(command: str, **environment: str) -> str:
    """What a program prints when the debugger gets one command."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PATH": "/usr/bin:/bin", "TAPEC_CACHE": "0", **environment},
        input=f"{command}\nc\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


def test_breakpoints_say_where_values_are() -> None:
    said = run("p x.dtype")
    assert "breakpoint() in f, which is being compiled" in said
    assert "TAPEC_EAGER=1" in said
    assert "run_functions_eagerly(True)" in said
    assert "tapec.float32" in said  # the debugger is in the user's frame


def test_breakpoints_work_in_eager_functions() -> None:
    said = run("p x.numpy() + 0.5", TAPEC_EAGER="1")
    assert "3.5" in said
    assert "being compiled" not in said


def test_breakpoints_can_be_switched_off() -> None:
    assert run("", PYTHONBREAKPOINT="0") == ""


def test_other_debuggers_are_called(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    calls: list[Any] = []
    hook = lambda *args, **kwargs: calls.append((args, kwargs))  # noqa: E731
    monkeypatch.setattr(sys, "breakpointhook", hook)

    @tapec.compile
    def f(x: Any) -> Any:
        breakpoint("here", depth=1)
        return tapec.compile(lambda y: y)(x)

    f(tapec.ones([2]))
    f(tapec.ones([2]))
    assert calls == [(("here",), {"depth": 1})]
    assert "breakpoint() in f" in capsys.readouterr().err
    assert sys.breakpointhook is hook


# ---- a program that shows itself


def test_a_trace_shows_itself() -> None:
    _, step, _ = trainer()
    module = step.trace(tapec.ones([5, 4]))
    text = str(module)
    assert text.startswith("// tapec-ir 1\nfunc @step(")
    assert len(list(parse_module(text).walk())) == len(list(module.walk()))
    shown = module._repr_html_()
    assert unescape(re.sub(r"<[^>]*>", "", shown)) == text
    assert shown.count("<span") > 20
    assert module.html().startswith("<!doctype html>")


def test_a_trace_as_a_graph() -> None:
    _, step, _ = trainer()
    module = step.trace(tapec.ones([5, 4]))
    ops = len(module.entry.block.ops)
    nodes = ops + len(module.entry.args)
    picture = ElementTree.fromstring(module.svg())
    assert len(picture.findall("{*}g")) == nodes
    dot = module.dot()
    assert dot.count(" [label=") == dot.count(" -> ") + nodes
    assert re.search(r'"x" -> "\d+" \[label="f32\[5,4\]"\];', dot)


def test_functions_without_native_code_get_none() -> None:
    """With ``jit=False`` NumPy evaluates the program, looked at or not."""
    v = tapec.Variable(1.0)

    @tapec.compile(jit=False)
    def f(x: Any) -> Any:
        v.assign_add(1.0)
        y = tapec.math.log(x)
        return y * v

    tapec.debugging.enable_check_numerics()
    try:
        assert f(tapec.constant(1.0)).numpy() == 0.0
        with pytest.raises(tapec.errors.InvalidArgumentError) as caught:
            f(tapec.constant(-1.0))
    finally:
        tapec.debugging.disable_check_numerics()
    assert caught.value.location is not None
    assert caught.value.location.text == "y = tapec.math.log(x)"
    inspected: Any = f.programs[0]._inspected
    assert not inspected.executable.native
    assert v.numpy() == 2.0
