"""The evaluator: what programs mean, at both levels, and what it refuses to run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tapec.ir import Module, Operation, TapecError
from tapec.ir.evaluator import evaluate_function, evaluate_module, written_args
from tapec.ir.parser import parse_module
from tapec.passes.pipeline import parse_pipeline, run_pipeline

STEP = """
func @step(%x: f32[3], %w: f32[3]) -> (f32, f32[3] into %w) {
  %0 = call %x, %w {callee = "product"} : f32[3]
  %loss = sum %0 {axes = [0]} : f32
  %1 = kernel %w, %x : f32[3] { ^(%a: f32[3], %b: f32[3]):
    %2 = sub %a, %b : f32[3]
    yield %2
  }
  return %loss, %1
}
func @product(%a: f32[3], %b: f32[3]) -> f32[3] {
  %0 = mul %a, %b : f32[3]
  return %0
}
"""


def arrays(*lists: Any) -> list[Any]:
    return [np.array(values, np.float32) for values in lists]


def kernel(body: str, args: str = "%x: &f32[4], %y: &f32[4]") -> Module:
    """A kernel with some index constants at hand."""
    return parse_module(f"""
        kernel @k({args}) {{
          %c0 = constant {{value = 0}} : index
          %c1 = constant {{value = 1}} : index
          %c4 = constant {{value = 4}} : index
          {body}
          return
        }}""")


def run(body: str, *buffers: Any, args: str = "%x: &f32[4], %y: &f32[4]") -> list[Any]:
    given = [np.array(b, np.float32) if isinstance(b, list) else b for b in buffers]
    evaluate_function(kernel(body, args).entry, given)
    return given


# ---- tensor level


def test_calls_and_kernels() -> None:
    x, w = arrays([1, 2, 3], [4, 5, 6])
    loss, new = evaluate_module(parse_module(STEP), [x, w])
    assert loss == 32
    assert new.tolist() == [3, 3, 3]
    assert w.tolist() == [4, 5, 6]  # the arrays are left alone


def test_the_observer_sees_every_operation() -> None:
    seen: list[tuple[str, int, int]] = []

    def observe(op: Operation, operands: Sequence[Any], values: Sequence[Any]) -> None:
        seen.append((op.name, len(operands), len(values)))

    evaluate_module(parse_module(STEP), arrays([1, 2, 3], [4, 5, 6]), observe)
    assert seen == [
        ("mul", 2, 1),
        ("call", 2, 1),
        ("sum", 1, 1),
        ("sub", 2, 1),
        ("kernel", 2, 1),
    ]


def test_symbols_take_the_arrays_sizes() -> None:
    module = parse_module("""
        func @f(%x: f32[N,2], %y: f32[2*N]) -> (f32[N,2], f32[2*N+1]) {
          %0 = broadcast %y {axes = [1], shape = [N, 2*N]} : f32[N,2*N]
          %1 = slice %0 {sizes = [N, 2], starts = [0, 0], strides = [1, 1]} : f32[N,2]
          %2 = add %x, %1 : f32[N,2]
          %3 = iota {axis = 0} : f32[2*N+1]
          return %2, %3
        }""")
    for n in (1, 3):
        x, y = np.ones((n, 2), np.float32), np.arange(2 * n, dtype=np.float32)
        z, numbers = evaluate_module(module, [x, y])
        assert z.tolist() == [[1, 2]] * n
        assert numbers.tolist() == list(range(2 * n + 1))
    with pytest.raises(TapecError, match=r"%y of @f is f32\[2\*N\], got shape \[5\], N is 3"):
        evaluate_module(module, [np.ones((3, 2), np.float32), np.ones(5, np.float32)])


def test_what_inference_assumed_must_hold() -> None:
    """NumPy would repeat the one element of ``y``; the program says nothing like it."""
    module = parse_module("""
        func @f(%x: f32[N], %y: f32[M]) -> f32[N] where N == M {
          %0 = add %x, %y : f32[N]
          return %0
        }""")
    assert evaluate_module(module, arrays([1, 2], [3, 4]))[0].tolist() == [4, 6]
    with pytest.raises(TapecError, match="@f needs N == M, got 2 and 1"):
        evaluate_module(module, arrays([1, 2], [3]))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([np.ones(3, np.float32)], "@step takes 2 arrays, got 1"),
        ([np.ones(4, np.float32)] * 2, r"argument %x of @step is f32\[3\], got shape \[4\]"),
        ([np.ones(3)] * 2, r"argument %x of @step is f32\[3\], got an array of float64"),
    ],
)
def test_arrays_must_fit(given: list[Any], says: str) -> None:
    with pytest.raises(TapecError, match=says):
        evaluate_module(parse_module(STEP), given)


def test_an_unknown_callee() -> None:
    module = parse_module(STEP)
    with pytest.raises(TapecError, match="there is no function @product to call"):
        evaluate_function(module.entry, arrays([1, 2, 3], [4, 5, 6]))


def test_an_error_names_the_operation() -> None:
    module = parse_module(STEP)
    del module.functions["product"]
    with pytest.raises(TapecError) as raised:
        evaluate_module(module, arrays([1, 2, 3], [4, 5, 6]))
    (note,) = raised.value.__notes__
    assert note.splitlines()[1].strip() == '%0 = call %x, %w {callee = "product"} : f32[3]'


# ---- both levels


def test_lowered_means_the_same() -> None:
    given = arrays([1, 2, 3], [4, 5, 6])
    module = parse_module(STEP)
    expected = evaluate_module(module, given)
    run_pipeline(module, parse_pipeline("default"))
    assert module.entry.is_loop_level
    found = evaluate_module(module, given)
    assert [f.tolist() for f in found] == [e.tolist() for e in expected]
    assert given[1].tolist() == [4, 5, 6]


# ---- loop level


def test_loops_carry_values() -> None:
    body = """
      %zero = constant {value = 0.0} : f32
      %sum = for %c0, %c4, %zero : f32 { ^(%i: index, %s: f32):
        %0 = load %x, %i : f32
        %1 = add %s, %0 : f32
        yield %1
      }
      store %sum, %y, %c0"""
    _, y = run(body, [1, 2, 3, 4], [0, 0, 0, 0])
    assert y.tolist() == [10, 0, 0, 0]


def test_a_parallel_loop_that_is_none_shows() -> None:
    """A running sum gives another result when its turns come in another order."""
    body = """
      for %c1, %c4 {parallel = PARALLEL} { ^(%i: index):
        %h = sub %i, %c1 : index
        %0 = load %x, %h : f32
        %1 = load %x, %i : f32
        %2 = add %0, %1 : f32
        store %2, %x, %i
        yield
      }"""
    (in_order, _), (backwards, _) = (
        run(body.replace("PARALLEL", word), [1, 1, 1, 1], [0, 0, 0, 0])
        for word in ("false", "true")
    )
    assert in_order.tolist() == [1, 2, 3, 4]
    assert backwards.tolist() == [1, 2, 2, 2]


@pytest.mark.parametrize("first", [1.0, -1.0])
def test_one_region_of_an_if_runs(first: float) -> None:
    body = """
      %zero = constant {value = 0.0} : f32
      %0 = load %x, %c0 : f32
      %1 = lt %0, %zero : bool
      %2 = if %1 : f32 {
        yield %zero
      } {
        yield %0
      }
      if %1 {
        store %0, %y, %c1
        yield
      }
      store %2, %y, %c0"""
    _, y = run(body, [first, 0, 0, 0], [7, 7, 7, 7])
    assert y.tolist() == ([1, 7, 7, 7] if first > 0 else [0, -1, 7, 7])


def test_vectors() -> None:
    body = """
      %0 = load %x, %c0 {lanes = 4} : f32x4
      %1 = shuffle %0, %0 {mask = [3, 2, 5, 0]} : f32x4
      %2 = lanes : indexx4
      %3 = load_at %x, %2 : f32x4
      %4 = add %1, %3 : f32x4
      store %4, %y, %c0
      %5 = reduce_lanes %0 {combine = "mul"} : f32
      %6 = splat %5 {lanes = 2} : f32x2
      store %6, %y, %c1"""
    _, y = run(body, [1, 2, 3, 4], [0, 0, 0, 0])
    assert y.tolist() == [5, 24, 24, 5]


@pytest.mark.parametrize(("count", "left"), [(1, [1, 0, 0, 0]), (0, [0] * 4), (9, [1, 2, 3, 4])])
def test_masks(count: int, left: list[float]) -> None:
    body = f"""
      %n = constant {{value = {count}}} : index
      %0 = load %x, %c0, %n {{lanes = 4, masked = true}} : f32x4
      store %0, %y, %c0, %n {{masked = true}}"""
    _, y = run(body, [1, 2, 3, 4], [0, 0, 0, 0])
    assert y.tolist() == left


def test_a_masked_load_may_reach_beyond_the_end() -> None:
    body = """
      %0 = load %x, %c1, %c1 {lanes = 4, masked = true} : f32x4
      store %0, %y, %c0"""
    _, y = run(body, [1, 2, 3, 4], [9, 9, 9, 9])
    assert y.tolist() == [2, 0, 0, 0]


def test_views_share_memory() -> None:
    body = """
      %0 = view %x {offset = 8} : &f32[2,1]
      %1 = load %0, %c1, %c0 : f32
      store %1, %0, %c0, %c0"""
    x, _ = run(body, [1, 2, 3, 4], [0, 0, 0, 0])
    assert x.tolist() == [1, 2, 4, 4]


def test_scratch_starts_as_nan() -> None:
    body = """
      %0 = alloc : &f32[4]
      %1 = load %0, %c0 {lanes = 4} : f32x4
      store %1, %y, %c0"""
    _, y = run(body, [1, 2, 3, 4], [0, 0, 0, 0])
    assert np.isnan(y).all()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("%0 = load %x, %c4 : f32", r"index \[4\] is outside of shape \[4\]"),
        ("%m = sub %c0, %c1 : index\n%0 = load %x, %m : f32", r"index \[-1\] is outside"),
        ("%0 = load %x, %c1 {lanes = 4} : f32x4", "4 lanes from element 1 leave a buffer of 4"),
        ("%0 = view %x {offset = 4} : &f32[4]", "bytes 4 to 20 are outside of a buffer of 16"),
        ("%i = splat %c4 {lanes = 2} : indexx2\n%0 = load_at %x, %i : f32x2", "reach outside of 4"),
        ('%0 = lanes : f32x3\n%1 = reduce_lanes %0 {combine = "add"} : f32', "a power of two"),
    ],
)
def test_what_leaves_a_buffer_is_refused(body: str, says: str) -> None:
    with pytest.raises((IndexError, TapecError), match=says):
        run(body, [1, 2, 3, 4], [0, 0, 0, 0])


def test_a_buffer_must_be_contiguous() -> None:
    with pytest.raises(TapecError, match="is a buffer, got an array that is not contiguous"):
        run("", np.ones(8, np.float32)[::2], [0, 0, 0, 0])


LAUNCH = """
func @f(%x: &f32[4], %y: &f32[4]) -> (%y) {inputs = 1} {
  launch %x, OTHER {kernel = "copy"}
  return
}
kernel @copy(%a: &f32[4], %b: &f32[4]) {
  %c0 = constant {value = 0} : index
  %0 = load %a, %c0 {lanes = 4} : f32x4
  %1 = view %b : &f32[2,2]
  %2 = view %1 : &f32[4]
  store %0, %2, %c0
  return
}
"""


def test_a_launch_must_not_write_over_what_it_reads() -> None:
    module = parse_module(LAUNCH.replace("OTHER", "%y"))
    assert written_args(module.functions["copy"]) == {1}
    assert evaluate_module(module, arrays([1, 2, 3, 4]))[0].tolist() == [1, 2, 3, 4]
    with pytest.raises(TapecError, match="@copy writes to operand 1, which overlaps 0"):
        evaluate_module(parse_module(LAUNCH.replace("OTHER", "%x")), arrays([1, 2, 3, 4]))


def test_a_buffer_that_nobody_wrote_is_nan() -> None:
    module = parse_module(LAUNCH.replace("  launch %x, OTHER", "  launch %y, %x"))
    (y,) = evaluate_module(module, arrays([1, 2, 3, 4]))
    assert np.isnan(y).all()


def test_the_entry_at_loop_level_takes_the_arrays_of_the_tensor_level() -> None:
    module = parse_module("""
        func @f(%w: &f32[4], %x: &f32[4], %y: &f32[4], %arena: &u8[16]) -> (%y, %w) {arena = 16, inputs = 2} {
          %0 = view %arena : &f32[4]
          launch %x, %0 {kernel = "double"}
          launch %0, %y {kernel = "double"}
          launch %x, %w {kernel = "double"}
          return
        }
        kernel @double(%a: &f32[4], %b: &f32[4]) {
          %c0 = constant {value = 0} : index
          %0 = load %a, %c0 {lanes = 4} : f32x4
          %1 = add %0, %0 : f32x4
          store %1, %b, %c0
          return
        }""")
    assert module.entry.updates == {1: 0}
    assert module.entry.result_args == (2, 0)
    w, x = arrays([0, 0, 0, 0], [1, 2, 3, 4])
    y, new = evaluate_module(module, [w, x])
    assert y.tolist() == [4, 8, 12, 16]
    assert new.tolist() == [2, 4, 6, 8]
    assert w.tolist() == [0, 0, 0, 0]
    with pytest.raises(TapecError, match="@f takes 2 arrays, got 3"):
        evaluate_module(module, [w, x, x])
