"""Programs as text: what is printed reads back as the same program, and prints the same again."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_programs import programs
from sampling import cases, results

from tapec.ir import Builder, Function, Location, Module, TensorType
from tapec.ir.compare import difference, structurally_equal
from tapec.ir.core import clone_module
from tapec.ir.dims import Dim, DimLike, Symbol, symbol
from tapec.ir.errors import ParseError, TapecError, VerifyError, underline
from tapec.ir.op import Op, Sample
from tapec.ir.parser import parse_module, read_module
from tapec.ir.printer import print_function, print_module, print_operation, write_module
from tapec.ir.text.literals import literal
from tapec.ir.text.type_text import TypeTextError, parse_dim, parse_type
from tapec.ir.types import BF16, DTYPES, F32, BufferType, DType, VectorType
from tapec.ir.verifier import verify
from tapec.passes.pipeline import parse_pipeline, run_pipeline


def assert_round_trip(module: Module) -> None:
    """The text reads back as the module, and prints the same again."""
    text = print_module(module, locs=True, full_constants=True)
    again = parse_module(text)
    assert difference(module, again) is None
    assert print_module(again, locs=True, full_constants=True) == text
    assert "not parsable" not in text


def one_constant(array: Any, dtype: DType = F32) -> Module:
    function = Function("f")
    b = Builder(function.block)
    b.emit("return", b.dense(array, dtype))
    return Module([function])


@given(programs(gradients=1))
def test_round_trip(module: Module) -> None:
    assert_round_trip(module)


@given(programs())
def test_round_trip_at_loop_level(module: Module) -> None:
    run_pipeline(module, parse_pipeline("default"))
    assert_round_trip(module)


@pytest.mark.parametrize(("defn", "sample"), [pytest.param(d, s, id=i) for d, s, i in cases()])
def test_round_trip_of_every_operation(defn: Op, sample: Sample) -> None:
    function = Function("f", sample.types)
    b = Builder(function.block)
    with b.at(Location('a folder/with "quotes".py', 3, defn.name)):
        made = b.emit(defn, *function.args, **sample.attrs)
    b.emit("return", *(made if len(results(defn, sample)) > 1 else [made]))
    module = Module([function])
    verify(module)
    assert_round_trip(module)


# ---- literals


NAMES = st.sampled_from(["N", "M", "K", "n_1"])


@st.composite
def dims(draw: Any, depth: int = 3) -> DimLike:
    """An expression over symbols."""
    if depth == 0 or draw(st.booleans()):
        return draw(st.integers(-5, 5)) if draw(st.booleans()) else symbol(draw(NAMES))
    left, right = draw(dims(depth=depth - 1)), draw(dims(depth=depth - 1))
    sign = draw(st.sampled_from(["+", "-", "*", "//", "%"]))
    if sign in ("//", "%") and isinstance(right, int):
        right = abs(right) + 1
    result: DimLike = {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "//": lambda: left // right,
        "%": lambda: left % right,
    }[sign]()
    return result


@given(dims())
def test_dims_read_back(dim: DimLike) -> None:
    assert parse_dim(str(dim)) == dim


@given(dims(), st.integers(0, 9))
def test_dims_in_types_and_attributes(dim: DimLike, number: int) -> None:
    if isinstance(dim, Dim):
        given_type = TensorType(F32, (dim, number))
        assert parse_type(str(given_type)) == given_type
    function = Function("f", [TensorType(F32)])
    function.attrs = {"a": dim, "b": (dim, (dim, number), "text"), "c": number}
    Builder(function.block).emit("return")
    assert_round_trip(Module([function]))


@pytest.mark.parametrize(
    "text", ["f32", "f32[]", "&f32[4,N]", "i8x16", "bf16[0]", "indexx8", "&u8"]
)
def test_types_read_back(text: str) -> None:
    assert str(parse_type(text)) == text.removesuffix("[]")


@pytest.mark.parametrize(
    "text", ["", "f33", "f32[", "f32[4", "f32[a b]", "f32[(N]", "f32[2.5]", "&f32x4", "f32x", "N/2"]
)
def test_what_is_no_type(text: str) -> None:
    with pytest.raises(TypeTextError):
        parse_type(text)


ATTRIBUTES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(),
        st.complex_numbers(),
        st.text(),
        st.sampled_from(DTYPES),
        st.sampled_from([TensorType(F32), TensorType(F32, (2, symbol("N")))]),
        st.sampled_from([BufferType(F32, (4,)), VectorType(F32, 16)]),
    ),
    lambda items: st.lists(items, max_size=3).map(tuple),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["a", "axes", "index", "f32", "loc"]), ATTRIBUTES))
def test_attributes_read_back(attrs: dict[str, Any]) -> None:
    function = Function("f", [TensorType(F32)])
    function.attrs = attrs
    Builder(function.block).emit("return")
    assert_round_trip(Module([function]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays_read_back_to_the_bit(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    for shape in [(2000,), (3, 5), (0, 2), (1,), ()]:
        raw = rng.bytes(int(np.prod(shape)) * dtype.bytes)
        array = np.frombuffer(raw, np.uint8)
        array = (array % 2 if dtype.is_bool else array).view(dtype.numpy).reshape(shape)
        with np.errstate(all="ignore"):
            array = np.where(array == array, array, np.zeros((), dtype.numpy))  # NaN has many bits
        text = print_module(one_constant(array, dtype), full_constants=True)
        value = parse_module(text).entry.block.ops[0].attrs["value"]
        assert value.dtype == array.dtype
        assert value.shape == array.shape
        assert value.tobytes() == array.tobytes()


def test_an_array_of_another_type_says_its_own() -> None:
    function = Function("f")
    function.attrs = {
        "table": np.array([1, 2], np.int16),
        "half": np.array(0.5, ml_dtypes.bfloat16),
    }
    Builder(function.block).emit("return")
    module = Module([function])
    assert "{half = dense<bf16[]>[0.5], table = dense<i16[2]>[1, 2]}" in print_module(module)
    assert_round_trip(module)


def test_no_text_is_refused() -> None:
    with pytest.raises(TapecError, match="has no text"):
        literal(object())


@given(ATTRIBUTES)
def test_never_two_brackets_before_a_letter(value: Any) -> None:
    """A golden test would take them for a variable."""
    if not isinstance(value, str):
        assert (
            re.search(r"\[\[[A-Za-z]", re.sub(r'"(\\.|[^"])*"', "", literal(((value,),)))) is None
        )


# ---- names


def test_names_are_kept_where_they_are_unique_and_legal() -> None:
    function = Function("f", [TensorType(F32)] * 6, ["x", "x", "3", "dense/kernel:0", None, "?"])
    Builder(function.block).emit("return", *function.args)
    text = print_function(function)
    assert "(%x: f32, %0: f32, %1: f32, %dense_kernel_0: f32, %2: f32, %3: f32)" in text
    assert text.endswith("return %x, %0, %1, %dense_kernel_0, %2, %3\n}")
    assert_round_trip(Module([function]))


def test_scopes_may_use_a_name_again() -> None:
    module = parse_module("""
        func @f(%x: f32) -> f32 {
          %0 = kernel %x : f32 { ^(%a: f32): %y = tanh %a : f32
            yield %y }
          %1 = kernel %0 : f32 { ^(%a: f32): %y = sin %a : f32
            yield %y }
          return %1
        }""")
    verify(module)
    assert_round_trip(module)


def test_one_operation_is_named_as_in_its_function() -> None:
    module = parse_module("""
        func @f(%x: f32) -> f32 {
          %0 = tanh %x : f32
          %1 = kernel %0 : f32 { ^(%a: f32):
            %2 = sin %a : f32
            yield %2
          }
          return %1
        }""")
    kernel = module.entry.block.ops[1]
    inner = kernel.regions[0].block.ops[0]
    assert print_operation(inner) == "%2 = sin %a : f32"
    assert print_operation(kernel).startswith("%1 = kernel %0 : f32 { ^(%a: f32):\n  %2 = sin")
    assert underline(inner, "here") == "here\n    %2 = sin %a : f32\n         ^^^"


def test_an_operation_outside_of_a_block_prints() -> None:
    module = parse_module("func @f(%x: f32) -> f32 {\n%0 = tanh %x : f32\nreturn %0\n}")
    op = module.entry.block.ops[0]
    module.entry.block.ops.clear()
    op.block = None
    assert print_operation(op) == "%0 = tanh %? : f32"


# ---- large constants


@pytest.mark.parametrize("dtype", [F32, BF16], ids=str)
def test_large_constants_go_to_a_side_file(tmp_path: Path, dtype: DType) -> None:
    array = np.arange(40).reshape(8, 5).astype(dtype.numpy)
    module = one_constant(array, dtype)
    path = tmp_path / "step.tir"
    write_module(module, path, head="// said by hand\n")
    first, second, *_ = path.read_text().splitlines()
    assert first == '// tapec-ir 1, constants in "step.npz"'
    assert second == "// said by hand"
    assert structurally_equal(read_module(path), module)
    (tmp_path / "step.npz").unlink()
    with pytest.raises(ParseError, match="which is missing"):
        read_module(path)


def test_no_side_file_without_need(tmp_path: Path) -> None:
    module = one_constant(np.zeros(40, np.float32))
    write_module(module, tmp_path / "full.tir", full_constants=True)
    assert [p.name for p in tmp_path.iterdir()] == ["full.tir"]
    assert structurally_equal(read_module(tmp_path / "full.tir"), module)


def test_a_text_that_cannot_be_parsed_says_so() -> None:
    module = one_constant(np.arange(17, dtype=np.float32))
    text = print_module(module)
    assert text.startswith("// tapec-ir 1, not parsable: left out 1 large constants")
    with pytest.raises(ParseError, match="are not in this text"):
        parse_module(text)
    large: dict[str, Any] = {}
    print_module(module, large=large)
    assert structurally_equal(parse_module(text, constants=large), module)


# ---- versions, comments, freedom


def test_a_newer_format_is_refused_by_number_wherever_it_stands_among_comments() -> None:
    for head in ("", "// RUN: tapec opt %s\n", "\n\n  // note\n"):
        with pytest.raises(ParseError, match="the text has format 2, this tapec reads up to 1"):
            parse_module(f"{head}// tapec-ir 2\nfunc @f() {{\n  return\n}}")


def test_a_text_may_begin_with_anything_that_is_blank() -> None:
    text = "\n" * 20_000 + "// a comment\n" * 1000 + "func @f() { return }"
    assert list(parse_module(text).functions) == ["f"]


def test_empty_text_is_an_empty_module() -> None:
    assert parse_module("").functions == {}
    assert print_module(Module()) == "// tapec-ir 1\n"


def test_quotients_are_no_comments() -> None:
    text = "func @f(%x: f32[N,(N-1)//2]) where N//2 == M//3 {a = N//2} { // (N-1)//2\n  return\n}"
    function = parse_module(text).entry
    assert function.guards == [("N//2", "M//3")]
    assert function.attrs["a"] == symbol("N") // 2


def test_bounds_belong_to_the_function() -> None:
    module = parse_module("""
        func @f<N in 2..8>(%x: f32[N]) -> f32[N] {
          return %x
        }
        func @g(%x: f32[N]) -> f32[N] {
          return %x
        }""")
    f, g = module.functions.values()
    assert f.dims == {"N": Symbol("N", 2, 8)}
    assert g.dims == {"N": Symbol("N")}
    assert_round_trip(module)


def test_inference_adds_its_guards() -> None:
    text = "func @f(%x: f32[N], %y: f32[M]) -> f32[N] {\n%0 = add %x, %y : f32[N]\nreturn %0\n}"
    module = parse_module(text)
    assert module.entry.guards == [("N", "M")]
    assert_round_trip(module)


# ---- comparison


BASE = """
func @f(%x: f32, %w: f32) -> (f32, f32 into %w) {a = 1} {
  %0 = cast %x {dtype = f64} : f64
  %1 = cast %0 {dtype = f32} : f32
  %2 = kernel %w : f32 { ^(%a: f32):
    %3 = tanh %a : f32
    yield %3
  }
  return %1, %2
}"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("@f", "@g", "functions ['f'] and ['g']"),
        ("f32 into %w", "f32", "in @f: updates {1: 1} and {}"),
        ("{a = 1}", "{a = 1.0}", "in @f: attributes {'a': 1} and {'a': 1.0}"),
        ("{a = 1}", "where N == M {a = 1}", "in @f: guards [] and [('N', 'M')]"),
        ("dtype = f64} : f64", "dtype = bf16} : bf16", "in @f: operation 0: cast with "),
        ("tanh", "sin", "in @f: operation 2: kernel: operation 0: tanh and sin"),
        ("return %1, %2", "return %2, %1", "in @f: operation 3: return reads other values"),
        ("return %1", "%5 = tanh %1 : f32\nreturn %1", "in @f: operation 3: return and tanh"),
    ],
)
def test_differences_are_named(old: str, new: str, says: str) -> None:
    base, other = parse_module(BASE), parse_module(BASE.replace(old, new))
    found = difference(base, other)
    assert found is not None
    assert found.startswith(says)
    assert structurally_equal(base, clone_module(base))


# ---- robustness


def corpus() -> list[str]:
    """The programs of the golden files, without their comments."""
    texts = []
    for path in sorted((Path(__file__).parent / "golden" / "ir").glob("*.tir")):
        for part in path.read_text().split("// -----"):
            lines = [line for line in part.splitlines() if not line.startswith("//")]
            texts.append("\n".join(line for line in lines if line.strip()))
    return texts


CORPUS = corpus()
PIECES = [*'()[]{}<>,:=^*%-@"#', "->", "dense", "dense[1]", "f32", "%x", "0", "loc(", "in", "nan"]


def must_be_refused_or_valid(text: str) -> None:
    """Whatever stands in a text, the error is one of ours."""
    try:
        module = parse_module(text)
        verify(module)
        print_module(module)
    except (ParseError, VerifyError):
        pass


@given(st.sampled_from(CORPUS), st.data())
def test_a_damaged_text(text: str, data: Any) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        stop = start + data.draw(st.integers(0, 6))
        text = text[:start] + data.draw(st.sampled_from(["", *PIECES])) + text[stop:]
    must_be_refused_or_valid(text)


@pytest.mark.parametrize("text", CORPUS[:: max(1, len(CORPUS) // 12)])
def test_a_text_that_ends_early(text: str) -> None:
    for stop in range(0, len(text), 7 if len(text) > 1000 else 1):
        must_be_refused_or_valid(text[:stop])
