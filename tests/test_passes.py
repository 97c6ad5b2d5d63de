"""Passes keep what a program computes, and pipelines keep to their order."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_programs import (
    EXACT_STEPS,
    Step,
    binary,
    convert,
    inputs,
    move,
    multiply,
    programs,
    select,
    unary,
)

from tapec import passes
from tapec.ir.builder import Builder
from tapec.ir.compare import difference
from tapec.ir.core import Function, Module, clone_module
from tapec.ir.errors import NotDifferentiableError, PassError, TapecError
from tapec.ir.evaluator import evaluate_module
from tapec.ir.op import OPS
from tapec.ir.parser import parse_module
from tapec.ir.printer import print_module
from tapec.ir.types import F32, F64, TensorType
from tapec.ir.verifier import verify
from tapec.passes import adjoint, table
from tapec.passes.observers import Check, Dump, Narrate, Times
from tapec.passes.pipeline import Observer, Stage, parse_pipeline, run_pipeline

SIMPLIFYING = ["inline", "canonicalize", "cse", "dce"]
TENSOR_LEVEL = "inline,canonicalize,cse,dce,adjoint,prune,canonicalize,cse,dce"


def text(module: Module) -> str:
    return print_module(module, full_constants=True)


def run(module: Module, pipeline: str) -> bool:
    changed = run_pipeline(module, parse_pipeline(pipeline))
    verify(module)
    return changed


def meaning(module: Module) -> list[Any]:
    with np.errstate(all="ignore"):
        return evaluate_module(module, inputs(module))


def assert_same(expected: Sequence[Any], found: Sequence[Any], rtol: float) -> None:
    """The same numbers; NaN is NaN, and at the strictest zeros have their sign."""
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=rtol, atol=0 if rtol < 1e-12 else 1e-9)
        if rtol < 1e-12 and a.dtype.kind == "f":
            zeros = (a == 0) & (b == 0)
            np.testing.assert_array_equal(np.signbit(a[zeros]), np.signbit(b[zeros]))


# ---- meaning


@pytest.mark.parametrize("name", SIMPLIFYING)
@given(data=st.data())
def test_pass_keeps_the_meaning(name: str, data: st.DataObject) -> None:
    module = data.draw(programs(EXACT_STEPS))
    expected = meaning(module)
    run(module, name)
    assert_same(expected, meaning(module), rtol=1e-14)


@given(module=programs())
def test_together_they_keep_the_meaning(module: Module) -> None:
    """Matrix products and sums included, which may be rounded in another order."""
    expected = meaning(module)
    run(module, "inline,canonicalize,cse,dce")
    assert_same(expected, meaning(module), rtol=1e-12)


@pytest.mark.parametrize("name", [*SIMPLIFYING, "prune"])
@given(data=st.data())
def test_pass_twice_is_once(name: str, data: st.DataObject) -> None:
    module = data.draw(programs())
    run(module, name)
    once = clone_module(module)
    changed = run(module, name)
    assert difference(once, module) is None
    assert not changed


@pytest.mark.parametrize("step", [move, multiply, convert, select, unary, binary])
@given(data=st.data())
def test_chains_of_one_kind(step: Step, data: st.DataObject) -> None:
    """Long chains in which the rules of one kind meet each other."""
    module = data.draw(programs([step], shapes=[(2, 3, 4), (3, 3)]))
    expected = meaning(module)
    run(module, "canonicalize")
    assert_same(expected, meaning(module), rtol=1e-14 if step is not multiply else 1e-10)


@given(module=programs(gradients=1))
def test_down_to_loops_it_keeps_the_meaning(module: Module) -> None:
    plain = clone_module(module)
    run(plain, "adjoint,prune")
    expected = meaning(plain)
    run(module, "default")
    with np.errstate(all="ignore"):
        found = evaluate_module(module, inputs(plain))
    for a, b in zip(expected, found, strict=True):
        finite = np.isfinite(a)
        np.testing.assert_allclose(b[finite], a[finite], rtol=1e-9, atol=1e-9)


def moved_twice() -> Iterator[tuple[str, dict[str, Any], str, dict[str, Any]]]:
    """Two movements of a cube, whose sizes would not betray an axis in a wrong place."""
    turns = list(itertools.permutations(range(3)))
    for first, second in itertools.product(turns, repeat=2):
        yield "transpose", {"permutation": first}, "transpose", {"permutation": second}
    for axes, turn in itertools.product(itertools.combinations(range(3), 2), turns):
        spread = {"axes": axes, "shape": (4, 4, 4)}
        yield "broadcast", spread, "transpose", {"permutation": turn}
    for start, stride in itertools.product(range(2), range(1, 3)):
        outer = {"starts": (start, 0, 1), "sizes": (2, 4, 3), "strides": (stride, 1, 1)}
        inner = {"starts": (0, 1, start), "sizes": (2, 1, 2), "strides": (1, stride, 1)}
        yield "slice", outer, "slice", inner
        inner = {"starts": (1, 0, 0), "sizes": (1, 2, 2), "strides": (1, 2, 2)}
        yield "slice", outer, "slice", inner


@pytest.mark.parametrize(("first", "attrs", "second", "more"), list(moved_twice()))
def test_two_movements_become_one(
    first: str, attrs: dict[str, Any], second: str, more: dict[str, Any]
) -> None:
    shape = (4, 4) if first == "broadcast" else (4, 4, 4)
    function = Function("f", [TensorType(F64, shape)], ["x"])
    b = Builder(function.block)
    b.emit("return", b.emit(second, b.emit(first, *function.args, **attrs), **more))
    module = Module([function])
    array = np.arange(4.0 ** len(shape)).reshape(shape)
    expected = evaluate_module(module, [array])
    run(module, "canonicalize,dce")
    assert sum(op.name == first for op in module.walk()) <= 1
    np.testing.assert_array_equal(evaluate_module(module, [array]), expected)


@given(module=programs(gradients=2))
def test_simplifying_first_keeps_gradients(module: Module) -> None:
    """The gradient of the simplified program is the gradient of the program, wherever finite."""
    plain = clone_module(module)
    run(plain, "adjoint,prune")
    run(module, TENSOR_LEVEL)
    assert not any(op.name == "gradient" for op in module.walk())
    for a, b in zip(meaning(plain), meaning(module), strict=True):
        finite = np.isfinite(a)
        np.testing.assert_allclose(b[finite], a[finite], rtol=1e-9, atol=1e-9)


@given(module=programs(gradients=1))
def test_changed_means_changed(module: Module) -> None:
    for stage in parse_pipeline(TENSOR_LEVEL):
        before = text(module)
        if not run_pipeline(module, [stage]):
            assert text(module) == before


def test_canonicalize_folds_with_symbolic_dims() -> None:
    module = parse_module("""
        func @f(%x: f32[N]) -> f32[N] {
          %0 = constant {value = 2.0} : f32[N]
          %1 = constant {value = 0.5} : f32[N]
          %2 = mul %0, %1 : f32[N]
          %3 = mul %2, %x : f32[N]
          return %3
        }""")
    run(module, "canonicalize,dce")
    assert module.entry.returns == (module.entry.args[0],)


@pytest.mark.parametrize("number", [0.0, -0.0, float("nan"), float("inf"), -1.0])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "mul_no_nan", "max"])
@pytest.mark.parametrize("swapped", [False, True])
def test_rules_at_special_numbers(name: str, number: float, swapped: bool) -> None:
    """Each rule at every pair of special numbers, to the bit."""
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 5e-324, 1e308]
    kind = TensorType(F64, (len(special),))
    function = Function("f", [kind], ["x"])
    b = Builder(function.block)
    operands = [function.args[0], b.full(number, kind)]
    b.emit("return", b.emit(name, *(operands[::-1] if swapped else operands)))
    module = Module([function])
    with np.errstate(all="ignore"):
        expected = evaluate_module(module, [np.array(special)])
        run(module, "canonicalize")
        assert_same(expected, evaluate_module(module, [np.array(special)]), rtol=1e-15)


def test_cse_looks_into_regions_but_not_out_of_isolated_ones() -> None:
    module = parse_module("""
        func @f(%x: f32[2]) -> f32[2] {
          %0 = exp %x : f32[2]
          %1 = kernel %x : f32[2] { ^(%a: f32[2]):
            %2 = exp %a : f32[2]
            %3 = exp %a : f32[2]
            %4 = add %2, %3 : f32[2]
            yield %4
          }
          %5 = add %0, %1 : f32[2]
          return %5
        }""")
    run(module, "cse")
    assert [op.name for op in module.walk()].count("exp") == 2


def test_inline_refuses_recursion() -> None:
    module = parse_module("""
        func @f(%x: f32) -> f32 {
          %0 = call %x {callee = "g"} : f32
          return %0
        }
        func @g(%x: f32) -> f32 {
          %0 = call %x {callee = "f"} : f32
          return %0
        }""")
    with pytest.raises(PassError, match="calls itself: @f -> @g -> @f"):
        run_pipeline(module, parse_pipeline("inline"))


# ---- the table and the text of pipelines


def test_every_pass_says_what_it_does() -> None:
    assert all(row.summary.endswith(".") for row in passes.PASSES.values())


@pytest.mark.parametrize("name", passes.PIPELINES)
def test_pipelines_parse(name: str) -> None:
    stages = parse_pipeline(name)
    again = parse_pipeline(",".join(map(str, stages)))
    assert again == stages


def test_options_are_typed() -> None:
    (stage,) = parse_pipeline("canonicalize{limit=16}")
    assert stage.options.limit == 16
    assert str(stage) == "canonicalize{limit=16}"
    with pytest.raises(dataclasses.FrozenInstanceError):
        stage.options.limit = 17


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("nonsense", "unknown pass 'nonsense'\n  hint: passes: inline, "),
        ("cse{limit=1}", "the pass cse has no option 'limit'\n  hint: it has none"),
        ("canonicalize{size=1}", "no option 'size'\n  hint: its options: limit"),
        ("canonicalize{limit=few}", "the option 'limit' of canonicalize is of type int, got 'few'"),
        ("canonicalize{limit}", "the option 'limit' of canonicalize has no value"),
        ("cse dce", "cannot read 'cse dce'"),
        ("default{limit=1}", "default is a pipeline and takes no options"),
    ],
)
def test_pipelines_that_do_not_parse(pipeline: str, message: str) -> None:
    with pytest.raises(PassError) as caught:
        parse_pipeline(pipeline)
    assert message in str(caught.value)


def test_disorder_is_refused_with_the_repair() -> None:
    with pytest.raises(PassError) as caught:
        parse_pipeline("prune,canonicalize{limit=2},adjoint,dce")
    assert "prune stands before adjoint: " in str(caught.value)
    assert caught.value.hint == "--passes=canonicalize{limit=2},adjoint,prune,dce"
    parse_pipeline("canonicalize{limit=2},adjoint,prune,dce")


def test_table_is_checked() -> None:
    table.check(passes.PASSES, passes.PIPELINES, passes.ORDER)
    with pytest.raises(PassError, match="'nonsense', which is no pass"):
        table.check(passes.PASSES, {"p": "nonsense"}, passes.ORDER)
    with pytest.raises(PassError, match="in the pipeline 'p', adjoint comes after prune"):
        table.check(passes.PASSES, {"p": "prune,adjoint"}, passes.ORDER)
    circle = [table.Constraint("cse", "dce", "a"), table.Constraint("dce", "cse", "b")]
    with pytest.raises(
        PassError,
        match="no order of cse, dce, lower, registers, predicate, enclose, spread, join, widen, poll, alarm is allowed",
    ):
        table.check(passes.PASSES, {}, circle)


# ---- running


@pytest.fixture
def module() -> Module:
    return parse_module("""
        func @step(%x: f32[2]) -> f32[2] {
          %0 = exp %x : f32[2]
          %1 = exp %x : f32[2]
          %2 = mul %0, %1 : f32[2]
          %3 = gradient %2, %x {segments = [1, 0, 1, 0]} : f32[2]
          return %3
        }""")


@pytest.fixture
def replace_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str, Callable[[Module, Any], bool]], None]:
    """Put another function in the place of a pass."""

    def replace(name: str, function: Callable[[Module, Any], bool]) -> None:
        monkeypatch.setattr(import_module(f"tapec.passes.{name}"), "run", function)

    return replace


def test_stop_after(module: Module) -> None:
    run_pipeline(module, parse_pipeline("cse,adjoint"), stop_after=1)
    assert [op.name for op in module.walk()] == ["exp", "mul", "gradient", "return"]


def test_a_bug_of_a_pass_names_the_pass(module: Module, replace_pass: Any) -> None:
    def broken(module: Module, options: object) -> bool:
        raise KeyError("lost")

    replace_pass("cse", broken)
    with pytest.raises(PassError, match=r"in pass 'cse' of '@step': KeyError: 'lost'"):
        run_pipeline(module, parse_pipeline("cse"))


def test_a_mistake_of_the_user_keeps_its_class() -> None:
    module = parse_module("""
        func @step(%x: f32) -> f32 {
          %0 = call %x {callee = "f"} : f32
          %1 = gradient %0, %x {segments = [1, 0, 1, 0]} : f32
          return %1
        }
        func @f(%x: f32) -> f32 {
          return %x
        }""")
    with pytest.raises(NotDifferentiableError, match=r"in pass 'adjoint' of '@step': the call"):
        run_pipeline(module, parse_pipeline("adjoint"))


def test_dumps_can_be_continued(module: Module, tmp_path: Path) -> None:
    stages = parse_pipeline("cse,adjoint,canonicalize{limit=4}")
    run_pipeline(module, stages, [Dump(tmp_path)])
    names = [path.name for path in sorted(tmp_path.iterdir())]
    assert names == ["00-input.tir", "01-cse.tir", "02-adjoint.tir", "03-canonicalize.tir"]
    middle = (tmp_path / "01-cse.tir").read_text()
    assert "tapec opt --passes=adjoint,canonicalize{limit=4} 01-cse.tir" in middle
    again = parse_module(middle)
    run_pipeline(again, stages[1:])
    assert difference(again, module) is None


def test_narration_and_times(module: Module) -> None:
    lines: list[str] = []
    times = Times()
    narrate = Narrate(lines.append, programs=False)
    run_pipeline(module, parse_pipeline("inline,cse"), [narrate, times])
    assert lines[0] == "// ----- input: 5 ops\n"
    assert lines[1].startswith("// ----- after inline: unchanged, ")
    assert lines[2].startswith("// ----- after cse: 5 → 4 ops, ")
    assert [row[0] for row in times.rows] == ["inline", "cse"]
    assert "total" in str(times)


def test_check_accepts_the_passes(module: Module) -> None:
    run_pipeline(module, parse_pipeline(TENSOR_LEVEL), [Check(2)])


def test_check_finds_a_pass_that_computes_something_else(module: Module, replace_pass: Any) -> None:
    def broken(module: Module, options: object) -> bool:
        block = module.entry.block
        block.ops[2].set_operand(1, module.entry.args[0])
        return True

    replace_pass("cse", broken)
    with pytest.raises(PassError, match="after pass 'cse' of '@step': result 0 changed"):
        run_pipeline(module, parse_pipeline("cse"), [Check(2)])


def test_check_finds_a_pass_that_leaves_a_broken_program(module: Module, replace_pass: Any) -> None:
    def broken(module: Module, options: object) -> bool:
        module.entry.block.ops.reverse()
        return True

    replace_pass("cse", broken)
    with pytest.raises(PassError, match="after pass 'cse' of '@step'"):
        run_pipeline(module, parse_pipeline("cse"), [Check(1)])


def test_observers_see_every_pass(module: Module) -> None:
    seen: list[str] = []

    class Watch(Observer):
        def before(self, module: Module, index: int, stages: Sequence[Stage]) -> None:
            seen.append(stages[index].name)

    run_pipeline(module, parse_pipeline("cse,dce"), [Watch()])
    assert seen == ["cse", "dce"]


def test_errors_are_ours(module: Module) -> None:
    with pytest.raises(TapecError, match="prune meets a gradient"):
        run_pipeline(module, parse_pipeline("prune"))


def test_check_chooses_sizes_within_guards() -> None:
    module = parse_module("""
        func @f<N in 2..9>(%x: f32[N], %y: f32[M]) -> f32[N] where N == M {
          %0 = add %x, %y : f32[N]
          return %0
        }""")
    run_pipeline(module, parse_pipeline("cse"), [Check(2)])


def test_a_wide_program_takes_linear_time() -> None:
    """Counted, not timed: each operation is visited a bounded number of times."""
    function = Function("f", [TensorType(F32)], ["x"])
    b = Builder(function.block)
    value = function.args[0]
    for _ in range(500):
        value = b.mul(value, b.neg(b.neg(value)))
    gradient = b.gradient(value, function.args[0], segments=(1, 0, 1, 0))
    b.emit(OPS["return"], gradient)
    module = Module([function])
    run(module, "canonicalize,cse,dce")
    assert sum(1 for _ in module.walk()) == 502
    adjoint.run(module)
    assert sum(1 for _ in module.walk()) == 502 + 3 * 500
