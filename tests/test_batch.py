"""The pass batch: a mapped program is the program for each row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_programs import inputs, programs
from test_adjoint import Net, arrays, derivatives, mlp, wgan_gp

from tapec.ir.builder import Builder
from tapec.ir.core import Function, Module, clone_module
from tapec.ir.errors import NotDifferentiableError, PassError
from tapec.ir.evaluator import evaluate_module
from tapec.ir.parser import parse_module
from tapec.ir.types import F64, TensorType
from tapec.ir.verifier import verify
from tapec.passes.batch import batch_function
from tapec.passes.pipeline import parse_pipeline, run_pipeline


def check_is_a_loop(module: Module, mask: list[bool], size: int) -> None:
    """Mapping a program gives what running it for each row gives."""
    mapped = clone_module(module)
    batch_function(mapped.entry, size, mask)
    verify(mapped)
    rows = [
        [row[i] if has else inputs(module)[i] for i, has in enumerate(mask)]
        for row in (inputs(module, seed) for seed in range(size))
    ]
    stacked = [
        np.stack([row[i] for row in rows]) if has else rows[0][i] for i, has in enumerate(mask)
    ]
    with np.errstate(all="ignore"):
        found = evaluate_module(mapped, stacked)
        expected = [evaluate_module(module, row) for row in rows]
    for number, array in enumerate(found):
        wanted = np.stack([row[number] for row in expected])
        assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(array, wanted, rtol=1e-4, atol=1e-6)


@settings(max_examples=settings().max_examples * 3 // 5)
@given(module=programs(), data=st.data())
def test_random_programs(module: Module, data: st.DataObject) -> None:
    count = len(module.entry.args)
    mask = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    check_is_a_loop(module, mask, 3)


@pytest.mark.parametrize("net", [mlp, wgan_gp])
@pytest.mark.parametrize("mask", [0b00001, 0b00110, 0b11111])
def test_gradients_of_nets(net: Net, mask: int) -> None:
    module = derivatives(net, 1)
    run_pipeline(module, parse_pipeline("adjoint,prune"))
    check_is_a_loop(module, [bool(mask >> i & 1) for i in range(5)], 2)


def test_rows_of_a_gradient() -> None:
    """Batched seeds give a gradient for each row of them."""
    module = derivatives(mlp, 1)
    function = module.entry
    last = function.block.ops.pop()
    loss, sources = last.operands[0], function.args[1:]
    last.drop()
    function.block.ops.pop().drop()
    b = Builder(function.block)
    assert loss.op is not None
    seeds = function.block.add_arg(TensorType(F64, (2,)))
    rows = b.gradient(loss, seeds, *sources, segments=(1, 1, len(sources), 0), batched=True)
    b.emit("return", *rows)
    verify(module)
    run_pipeline(module, parse_pipeline("adjoint"))
    verify(module)
    one = derivatives(mlp, 1)
    run_pipeline(one, parse_pipeline("adjoint"))
    gradients = evaluate_module(one, arrays())[1:]
    found = evaluate_module(module, [*arrays(), np.array([1.0, -3.0])])
    for row, gradient in zip(found, gradients, strict=True):
        np.testing.assert_allclose(row, np.stack([gradient, -3 * gradient]))


@pytest.mark.parametrize("args", ["x", "0+2", "-1"])
def test_no_such_argument(args: str) -> None:
    module = parse_module("func @f(%x: f32, %y: f32) -> f32 {\n  return %x\n}")
    with pytest.raises(PassError, match="args"):
        run_pipeline(module, parse_pipeline(f"batch{{size=2,args={args}}}"))


def test_an_update_needs_the_axis() -> None:
    module = parse_module("func @f(%x: f32, %w: f32) -> (f32 into %w) {\n  return %x\n}")
    with pytest.raises(PassError, match="updates argument 1"):
        run_pipeline(module, parse_pipeline("batch{size=2,args=0}"))


def test_what_has_no_rule_is_named() -> None:
    function = Function("f", [TensorType(F64)])
    b = Builder(function.block)
    b.emit("return", b.gradient(function.args[0], function.args[0], segments=(1, 0, 1, 0)))
    with pytest.raises(NotDifferentiableError, match="gradient cannot be mapped"):
        batch_function(function, 2, [True])
