"""Invariants that no text can break; `golden/ir/verify-errors.tir` has those that one can."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import tapec.ir.verifier
from tapec.ir import Block, Builder, Function, Module, Operation, Region, TensorType, VerifyError
from tapec.ir.core import Value
from tapec.ir.dims import symbol
from tapec.ir.op import OPS
from tapec.ir.parser import parse_module
from tapec.ir.placement import Place, lifetimes, parse_place
from tapec.ir.types import F32, F64
from tapec.ir.verifier import verify, verify_function

TEXT = """
func @f(%x: f32[4], %w: f32[4]) -> (f32[4], f32[4] into %w) {
  %0 = tanh %x : f32[4]
  %1 = kernel %0, %w : f32[4] { ^(%a: f32[4], %b: f32[4]):
    %2 = mul %a, %b : f32[4]
    yield %2
  }
  return %0, %1
}
"""


def a_list(function: Function) -> None:
    function.block.ops[0].attrs["axes"] = [0, 1]


def an_object(function: Function) -> None:
    function.attrs["owner"] = object()


def another_name(function: Function) -> None:
    function.name = "g"


def another_kind(function: Function) -> None:
    function.kind = "method"


def read_too_early(function: Function) -> None:
    tanh, *_ = function.block.ops
    function.block.ops.remove(tanh)
    function.block.ops.insert(1, tanh)


def read_of_another_function(function: Function) -> None:
    other = parse_module(TEXT).entry
    function.block.ops[0].set_operand(0, other.args[0])


def lost_reader(function: Function) -> None:
    function.args[0].users.clear()


def reader_that_is_gone(function: Function) -> None:
    Operation(OPS["tanh"], [function.args[0]], [function.args[0].type])


def another_owner(function: Function) -> None:
    function.block.ops[0].results[0].owner = function.block


def another_index(function: Function) -> None:
    function.args[1].index = 0


def another_block(function: Function) -> None:
    function.block.ops[0].block = Block()


def region_of_nobody(function: Function) -> None:
    function.block.ops[1].regions[0].owner = None


def two_blocks(function: Function) -> None:
    function.block.ops[1].regions[0].blocks.append(Block())


def body_of_nobody(function: Function) -> None:
    function.body.owner = None


def another_type(function: Function) -> None:
    function.block.ops[0].results[0].type = TensorType(F64, (4,))


def operand_of_another_shape(function: Function) -> None:
    function.args[0].type = TensorType(F32, (5,))


def missing_attribute(function: Function) -> None:
    Builder(function.block, function.block.ops[0]).emit("cast", function.args[0], dtype=F64)
    del function.block.ops[0].attrs["dtype"]


def typed_operation_without_type(function: Function) -> None:
    Builder(function.block, function.block.ops[0]).full(1.0, TensorType(F32))
    function.block.ops[0].attrs["type"] = TensorType(F64)


def update_of_nothing(function: Function) -> None:
    function.updates = {0: 7}


def update_by_nothing(function: Function) -> None:
    function.updates = {3: 1}


def bounds_that_differ(function: Function) -> None:
    function.attrs["guess"] = (symbol("N", 1, 8), symbol("N"))


BREAKS: list[tuple[int, Callable[[Function], None], str]] = [
    (1, another_name, "@g: it stands in the module as @f"),
    (1, another_kind, "its kind is 'method'"),
    (3, read_too_early, "operand 0 is read before it is defined, or out of scope"),
    (3, read_of_another_function, "operand 0 is read before"),
    (5, lost_reader, "%x: f32[4] does not know its readers"),
    (5, reader_that_is_gone, "it counts 1 reads by a tanh"),
    (5, another_owner, "value number 0 has another owner"),
    (5, another_index, "value number 1 has another owner or index"),
    (5, another_block, "tanh does not know the block that it stands in"),
    (5, region_of_nobody, "a region has another owner"),
    (5, two_blocks, "a region has another owner, or more than one block"),
    (5, body_of_nobody, "its body is not a region of its own"),
    (6, another_type, "expected (f32[4]), came (f64[4])"),
    (6, operand_of_another_shape, "expected (f32[5]), came (f32[4])"),
    (6, missing_attribute, "cast needs the attribute dtype"),
    (6, typed_operation_without_type, "expected (f64), came (f32)"),
    (9, update_of_nothing, "a result updates argument 7 of 2"),
    (9, update_by_nothing, "there is no result 3 to update %w"),
    (10, a_list, "axes is a list, which has no text"),
    (10, an_object, "owner is a object, which has no text"),
    (11, bounds_that_differ, "N has the bounds 1..8 and 0..None"),
]


@pytest.mark.parametrize(
    ("number", "spoil", "says"), [pytest.param(*row, id=row[1].__name__) for row in BREAKS]
)
def test_broken(number: int, spoil: Callable[[Function], None], says: str) -> None:
    module = parse_module(TEXT)
    verify(module)
    spoil(module.entry)
    with pytest.raises(VerifyError) as raised:
        verify(module)
    assert raised.value.message.startswith(f"invariant {number}: ")
    assert says in raised.value.message


def test_what_inference_assumes_must_be_recorded() -> None:
    module = parse_module(
        "func @f(%x: f32[N], %y: f32[M]) -> f32[N] {\n%0 = add %x, %y : f32[N]\nreturn %0\n}"
    )
    verify(module)
    module.entry.guards.clear()
    with pytest.raises(VerifyError, match="invariant 12: @f: no guard says that N == M"):
        verify(module)
    assert module.entry.guards == []  # looking changes nothing


def test_an_error_knows_the_users_line() -> None:
    module = parse_module(
        'func @f(%x: f32) {\n  %0 = tanh %x : f32 loc("train.py":14)\n  return\n}'
    )
    module.entry.block.ops[0].results[0].type = TensorType(F64)
    with pytest.raises(VerifyError, match=r"train\.py:14"):
        verify(module)


def test_a_function_can_be_checked_without_what_it_calls() -> None:
    module = parse_module("""
        func @f(%x: f32) -> f32 {
          %0 = call %x {callee = "g"} : f32
          return %0
        }""")
    verify_function(module.entry)
    with pytest.raises(VerifyError, match="invariant 8"):
        verify_function(module.entry, module)


def test_each_function_has_its_own_symbols() -> None:
    verify(
        parse_module("""
        func @f(%x: f32[N,4]) -> f32[N,4] {
          %0 = call %x {callee = "g"} : f32[N,4]
          return %0
        }
        func @g<M in 1..>(%x: f32[M,4]) -> f32[M,4] {
          return %x
        }""")
    )


def test_every_invariant_is_tested() -> None:
    """Each number of the docstring is cited by a test here or by the golden file."""
    documented = {int(n) for n in re.findall(r"^(\d+)\.", tapec.ir.verifier.__doc__ or "", re.M)}
    golden = Path(__file__).parent / "golden" / "ir" / "verify-errors.tir"
    cited = {int(n) for n in re.findall(r"invariant (\d+):", golden.read_text())}
    assert documented == cited | {number for number, _, _ in BREAKS} | {12}


# ---- plans


def planned(places: list[str], arena: int = 64) -> Module:
    """Three kernels in a row, ``b = f(a)``, ``c = f(b)``, ``d = c + b``, at these places."""
    return parse_module(f"""
        func @f(%x: f32[4], %w: f32[4]) -> (f32[4], f32[4] into %w) {{arena = {arena}}} {{
          %a = kernel %x {{place = ["{places[0]}"]}} : f32[4] {{ ^(%p: f32[4]):
            %q = tanh %p : f32[4]
            yield %q
          }}
          %b = kernel %a {{place = ["{places[1]}"]}} : f32[4] {{ ^(%p: f32[4]):
            %q = sin %p : f32[4]
            yield %q
          }}
          %c = kernel %b, %w {{place = ["{places[2]}"]}} : f32[4] {{ ^(%p: f32[4], %q: f32[4]):
            %r = add %p, %q : f32[4]
            yield %r
          }}
          %d = reshape %b {{shape = [4]}} : f32[4]
          return %d, %c
        }}""")


@pytest.mark.parametrize(
    "places",
    [
        ["arena+0", "result 0", "arg 1"],
        ["result 0", "result 0", "arg 1"],  # in place: a is read for the last time
        ["arena+0", "arena+16", "arg 1"],
        ["arena+0", "arena+0", "arg 1"],
        ["arg 1", "result 0", "arg 1"],  # refused: w is read later
    ],
)
def test_places(places: list[str]) -> None:
    module = planned(places)
    if places[0] == "arg 1":
        with pytest.raises(VerifyError, match="invariant 15: arg 1 is written over %w in arg 1"):
            verify(module)
    else:
        verify(module)


@pytest.mark.parametrize(
    ("places", "number", "says"),
    [
        (["arena+0", "arena+8", "arg 1"], 15, "arena+8 is written over %a in arena+0, which this"),
        (["arena+0", "arena+16", "arena+24"], 15, "which is still read by: return %d, %c"),
        (["arena+0", "result 1", "arg 1"], 14, "result 1 has no buffer of its own"),
        (["arena+0", "result 2", "arg 1"], 14, "result 2 has no buffer of its own"),
        (["arena+0", "result 0", "arg 0"], 14, "argument 0 is not updated"),
        (["arena+60", "result 0", "arg 1"], 14, "arena+60 and 16 bytes are outside of 64"),
        (["arena-1", "result 0", "arg 1"], 14, "'arena-1' is no place"),
    ],
)
def test_bad_places(places: list[str], number: int, says: str) -> None:
    with pytest.raises(VerifyError) as raised:
        verify(planned(places))
    assert f"invariant {number}: " in str(raised.value)
    assert says in str(raised.value)


def test_a_place_for_each_result() -> None:
    module = planned(["arena+0", "result 0", "arg 1"])
    module.entry.block.ops[0].attrs["place"] = ()
    with pytest.raises(VerifyError, match="invariant 14: 0 places for 1 results"):
        verify(module)


def test_what_does_not_fit() -> None:
    module = planned(["arena+0", "result 0", "arg 1"])
    function = module.entry
    function.block.ops[0].attrs["place"] = ("result 0",)
    verify(module)
    wide = TensorType(F64, (4,))
    inner = function.block.ops[0].regions[0].block
    b = Builder(inner, inner.terminator)
    inner.terminator.set_operand(0, b.cast(inner.terminator.operands[0], dtype=F64))
    cast_back = Builder(function.block, function.block.ops[1])
    result = function.block.ops[0].results[0]
    result.type = wide
    narrow = cast_back.cast(result, dtype=F32)
    function.block.ops[2].set_operand(0, narrow)
    with pytest.raises(VerifyError, match=r"a f64\[4\] does not fit into result 0"):
        verify(module)


def test_lifetimes() -> None:
    found = {
        life.value.name: life for life in lifetimes(planned(["arena+0", "result 0", "arg 1"]).entry)
    }
    assert {name: (life.first, life.last) for name, life in found.items()} == {
        "x": (-1, 0),
        "w": (-1, 2),
        "a": (0, 1),
        "b": (1, 4),  # read through its reshape until the end
        "c": (2, 4),
    }
    assert str(found["a"].place) == "arena+0"
    assert str(found["b"].place) == "result 0"
    assert parse_place("arg 12") == Place("arg", 12)
    assert parse_place("args 12") is None


def test_regions_are_checked_too() -> None:
    module = parse_module(TEXT)
    kernel = module.entry.block.ops[1]
    inner: Value = kernel.regions[0].block.args[0]
    module.entry.block.ops[2].set_operand(0, inner)
    with pytest.raises(VerifyError, match="invariant 3"):
        verify(module)
    kernel.regions = [Region([Block()])]
    kernel.regions[0].owner = kernel
    with pytest.raises(VerifyError, match=r"invariant [46]"):
        verify(module)
