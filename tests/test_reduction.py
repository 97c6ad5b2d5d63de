"""``tapec reduce``: programs shrink while something about them still holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from tapec.cli import main
from tapec.inspection.reduction import reduced
from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, Operation, clone_module
from tapec.ir.evaluator import evaluate_module
from tapec.ir.parser import read_module
from tapec.ir.types import F32, TensorType
from tapec.ir.verifier import verify
from tapec.passes.observers import count, random_inputs


def random_module(seed: int, ops: int) -> Module:
    """A program of about as many operations, in which each value is read soon."""
    rng = np.random.default_rng(seed)
    function = Function("f", [TensorType(F32, (4, 6))] * 4)
    b = Builder(function.block)
    pool = list(function.args)
    while len(function.block.ops) < ops:
        x, y = (pool[-1 - int(rng.integers(min(len(pool), 12)))] for _ in range(2))
        kind = rng.choice(["add", "mul", "sub", "max", "tanh", "neg", "abs", "sum", "matmul"])
        if kind in ("tanh", "neg", "abs"):
            pool.append(b.emit(kind, x))
        elif kind == "sum":
            total = b.emit("sum", x, axes=(0,))
            pool.append(b.emit("broadcast", total, axes=(1,), shape=(4, 6)))
        elif kind == "matmul":
            square = b.emit("matmul", x, y, transpose_b=True)
            pool.append(b.emit("matmul", b.emit("tanh", square), x))
        else:
            pool.append(b.emit(kind, x, y))
    b.emit("return", *pool[-6:])
    return Module([function])


def swap_sub(op: Operation) -> None:
    """A bug: differences are turned around."""
    if op.name == "sub":
        op.set_operands(op.operands[::-1])


def forget_neg_of_max(op: Operation) -> None:
    """A bug: the sign in front of a maximum is lost."""
    if op.name == "neg" and op.operands[0].op is not None and op.operands[0].op.name == "max":
        op.result.replace_all_uses(op.operands[0])


def first_of_sums(op: Operation) -> None:
    """A bug: what reads two sums reads one of them twice."""
    made = [v.op for v in op.operands if v.op is not None and v.op.name == "broadcast"]
    if op.name == "mul" and len(made) == 2:
        op.set_operand(1, op.operands[0])


def differs(bug: Callable[[Operation], None]) -> Callable[[Module], bool]:
    """Whether a pass with a bug changes what a program computes."""

    def holds(module: Module) -> bool:
        arrays = random_inputs(module.entry)
        wrong = clone_module(module)
        for op in list(wrong.walk()):
            bug(op)
        with np.errstate(all="ignore"):
            pairs = zip(
                evaluate_module(module, arrays), evaluate_module(wrong, arrays), strict=True
            )
            return not all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)

    return holds


@pytest.mark.parametrize("bug", [swap_sub, forget_neg_of_max, first_of_sums])
def test_a_program_of_500_operations_shrinks_tenfold(bug: Callable[[Operation], None]) -> None:
    module = random_module(1, 500)
    holds = differs(bug)
    assert holds(module)
    small = reduced(module, holds)
    verify(small)
    assert holds(small)
    assert count(small) <= count(module) // 10
    # What the bug is about is all that is left.
    assert count(small) <= 8


def test_nothing_is_lost_where_all_is_needed() -> None:
    function = Function("f", [TensorType(F32, (2,))])
    b = Builder(function.block)
    b.emit("return", b.emit("tanh", function.args[0]))
    module = Module([function])
    small = reduced(module, lambda m: any(op.name == "tanh" for op in m.walk()))
    assert [op.name for op in small.walk()] == ["tanh", "return"]
    assert small.entry.args[0].tensor.static_shape == (1,)
    assert module.entry.args[0].tensor.static_shape == (2,)


def test_what_is_updated_stays(tmp_path: Path) -> None:
    path = tmp_path / "step.tir"
    path.write_text(
        "func @f(%x: f32[4], %w: f32[4]) -> (f32[4], f32[4] into %w) {\n"
        "  %0 = tanh %x : f32[4]\n  %1 = exp %0 : f32[4]\n  %2 = sub %w, %1 : f32[4]\n  return %0, %2\n}\n"
    )
    small = reduced(read_module(path), lambda m: any(op.name == "sub" for op in m.walk()))
    assert [op.name for op in small.walk()] == ["sub", "return"]
    assert list(small.entry.updates) == [0]


PROGRAM = """\
func @f(%x: f32[4], %y: f32[4]) -> f32[4] {
  %0 = tanh %x : f32[4]
  %1 = exp %y : f32[4]
  %2 = mul %0, %1 : f32[4]
  return %2
}
"""


@pytest.mark.parametrize("command", ["tapec opt --passes=fuse,adjoint %s", "! grep -q tanh %s"])
def test_commands(tmp_path: Path, command: str) -> None:
    """A command of tapec's runs in a fork, another one in a shell."""
    path, out = tmp_path / "big.tir", tmp_path / "small.tir"
    path.write_text(PROGRAM)
    result = CliRunner().invoke(main, ["reduce", str(path), "--test", command, "-o", str(out)])
    assert result.exit_code == 0, result.stderr
    small = read_module(out)
    assert count(small) < 4
    assert ("tanh" in out.read_text()) == ("tanh" in command)


def test_a_command_that_does_not_fail(tmp_path: Path) -> None:
    path = tmp_path / "f.tir"
    path.write_text(PROGRAM)
    result = CliRunner().invoke(main, ["reduce", str(path), "--test", "tapec opt %s"])
    assert result.exit_code == 2
    assert "'tapec opt %s' succeeds for" in result.stderr
