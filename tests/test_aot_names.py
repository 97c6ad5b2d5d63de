"""What C and Python call functions, arguments, results and state of a model, and how they are told what to take."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from test_aot import HOST, example_of, load
from toolchains import need, run

import tapec
from tapec import aot
from tapec.cli import main
from tapec.errors import TapecError

VECTOR = tapec.TensorSpec([2], tapec.float32)
weight = tapec.Variable(np.ones(2, np.float32), name="w")


@dataclass
class Pair:
    """A structure of a user's."""

    left: Any
    right: Any


def keyword(x: Any, *, scale: Any) -> Any:
    return x * scale


def several(*rows: Any) -> Any:
    total = rows[0] + rows[1]
    return total, {"mean": total / 2, "all": [rows[0], rows[1]]}


def prototypes(functions: Any, signatures: Any) -> list[str]:
    """The C functions of a model called ``net``, without what surrounds the names of arguments."""
    files = aot.build(functions, signatures, target="cortex-m4f", name="net", emit="header").files
    found = re.findall(r"^int net_([^;]*);", files["net.h"].decode(), re.MULTILINE)
    return [" ".join(re.findall(r"\w+(?=[,()])", text)) for text in found]


@pytest.mark.parametrize(
    ("function", "signature", "names"),
    [
        (lambda d: d["x"] + d["y"], [{"x": VECTOR, "y": VECTOR}], "f d_x d_y result"),
        (lambda p: p.left + p.right, [Pair(VECTOR, VECTOR)], "f p_left p_right result"),
        (lambda d: d["a b"][0], [{"a b": [VECTOR]}], "f d_a_b_0 result"),
        (keyword, "f32[2] f32[2]", "f x scale result"),
        (several, "f32[2] f32[2]", "f rows_0 rows_1 total all_0 all_1 mean"),
        (lambda x: Pair(x, x * 2), "f32[2]", "f x left right"),
        (lambda NULL, int32_t: NULL + int32_t, "f32[2] f32[2]", "f NULL_ int32_t_ result"),
        (
            lambda INT8_MAX, SIZE_MAX: INT8_MAX + SIZE_MAX,
            "f32[2] f32[2]",
            "f INT8_MAX_ SIZE_MAX_ result",
        ),
        (lambda x: x * 2, "f32[ x <= 4, 2 ]", "f x x_2 result"),
    ],
)
def test_names_tell_where_a_tensor_is(function: Any, signature: Any, names: str) -> None:
    assert prototypes({"f": function}, {"f": signature}) == [names]


def test_no_function_is_called_like_what_a_header_declares() -> None:
    """Nor are two macros alike: they are made of the names of a function and of its parameter, in capitals."""
    one, other = "f32[2]", "f32[3,2]"
    functions = {
        "state": lambda x: x * weight,
        "initial": lambda x: x * weight,
        "F": lambda x: x,
        "f": lambda x: x,
        "a": lambda b_c: b_c,
        "a_b": lambda c: c,
    }
    types = {name: other if name in "f a_b" else one for name in functions}
    found = prototypes(functions, types)
    assert [text.split()[0] for text in found] == "state_2 initial_2 F f_2 a a_b".split()
    assert found[-1] == "a_b c_2 result"
    header = aot.build(functions, types, name="net", emit="header").files["net.h"].decode()
    macros = re.findall(r"#define (\w+)", header)
    assert len(set(macros)) == len(macros)


@pytest.mark.parametrize(
    ("name", "function", "argument", "called"),
    [("x", "x", "x", "x_x"), ("数", "数", "数", "x_x"), ("uint8", "t", "x", "uint8_t_2")],
)
def test_a_header_and_its_example_compile_whatever_is_alike(
    tmp_path: Path, name: str, function: str, argument: str, called: str
) -> None:
    """The function and an array of the example's; a function and a type of C's."""
    need("gcc")
    of = eval(f"lambda {argument}: {argument} + 1.0")  # an argument of that name
    built = aot.build({function: of}, {function: "f32[2]"}, name=name)
    built.write(tmp_path)
    header = built.files[f"{built.name}.h"].decode()
    assert f"int {called}(" in header
    (tmp_path / "example.c").write_text(example_of(header))
    run("gcc", "-Wall", "-Wextra", "-Werror", "-c", "example.c", cwd=tmp_path)


@pytest.mark.parametrize(
    ("signature", "said"),
    [
        ("f32[int<=4]", "'int'"),
        ("f32[arena<=4]", "'arena'"),
        ("f32[N<=0]", "at least 1"),
        ("f32[N<=4] f32[N<=5]", "at most 4"),
    ],
)
def test_sizes_that_cannot_be_are_refused(signature: str, said: str) -> None:
    with pytest.raises(TapecError, match=said):
        prototypes({"f": lambda x, *more: x}, {"f": signature})


def test_what_a_function_takes_may_be_that_of_its_last_call(tmp_path: Path) -> None:
    @tapec.compile
    def scaled(batch: Any, factor: Any) -> Any:
        return batch["x"] * factor

    scaled({"x": np.ones(3, np.float32)}, 3.0)
    built = aot.build(scaled, target=HOST, name="net", emit="so,header")
    built.write(tmp_path)
    assert b"const float *batch_x" in built.files["net.h"]
    np.testing.assert_array_equal(load(tmp_path)["scaled"](np.ones(3)), 3 * np.ones(3))


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((np.ones((5, 4)), 1), "axis 0 has 5, expected 1 to 4"),
        ((np.ones((0, 4)), 1), "axis 0 has 0"),
        ((np.ones((2, 3)), 1), "expected shape"),
        ((1.0, 1), "axes"),
        ((np.ones((2, 4)), 300), "int8"),
        ((np.ones((2, 4)), 1.5), "int8"),
    ],
)
def test_the_module_refuses_what_would_not_fit(tmp_path: Path, arguments: Any, error: str) -> None:
    def f(x: Any, n: Any) -> Any:
        return tapec.sort(x * tapec.cast(n, tapec.float32)) * weight[0]

    aot.build(f, "f32[N<=4,4] i8[]", target=HOST, name="net", emit="so").write(tmp_path)
    net = load(tmp_path)
    state = net["initial_state"]()
    np.testing.assert_array_equal(net["f"](state, np.ones((4, 4)), 2), 2 * np.ones((4, 4)))
    with pytest.raises((ValueError, TypeError), match=error):
        net["f"](state, *arguments)
    with pytest.raises(TypeError, match="expected a State"):
        net["f"](None, np.ones((4, 4)), 2)


def test_parts_of_a_state_can_be_set(tmp_path: Path) -> None:
    built = aot.build(lambda x: x * weight, "f32[2]", target=HOST, name="net", emit="so")
    built.write(tmp_path)
    net = load(tmp_path)
    state = net["initial_state"]()
    state.w = [3, 4]
    function = next(v for k, v in net.items() if k.startswith("lambda"))
    np.testing.assert_array_equal(function(state, [1, 1]), [3, 4])
    np.testing.assert_array_equal(built.unpack(bytes(state))["w"], [3, 4])
    with pytest.raises(AttributeError, match="has no v, but w"):
        _ = state.v


def test_a_size_may_be_part_of_an_axis(tmp_path: Path) -> None:
    built = aot.build(lambda x: x + 1, "f32[2*N<=3]", target=HOST, name="net", emit="so")
    built.write(tmp_path)
    function = next(v for k, v in load(tmp_path).items() if k.startswith("lambda"))
    np.testing.assert_array_equal(function(np.zeros(6)), np.ones(6))
    for size in (5, 8):
        with pytest.raises(ValueError, match="expected"):
            function(np.zeros(size))


def test_arrays_that_a_machine_cannot_address_are_refused() -> None:
    with pytest.raises(TapecError, match=r"x of f takes 40,000 bytes.*16 bits"):
        aot.build({"f": lambda x: x * 2}, {"f": "f32[10000]"}, target="avr")


def test_arguments_that_avr_would_look_for_at_the_wrong_place_are_refused() -> None:
    """LLVM takes a return address for two bytes long; on an ATmega2560 it has three."""
    with pytest.raises(TapecError, match="10 arguments do not fit"):
        aot.build({"f": lambda *x: sum(x)}, {"f": "f32[2] " * 9}, target="avr")
    assert aot.build({"f": lambda *x: sum(x)}, {"f": "f32[2] " * 8}, target="avr").files


def test_files_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """What is in the way of one leaves no half of it behind."""
    built = aot.build({"f": lambda x: x * 2}, {"f": "f32[2]"}, name="net")
    (tmp_path / "net.o").write_text("older")
    (tmp_path / "net.h").mkdir()
    with pytest.raises(OSError, match=r"net\.h"):
        built.write(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.h", "net.o"]


def test_the_command_takes_one_function_for_two_shapes(tmp_path: Path) -> None:
    script = tmp_path / "scale.py"
    script.write_text("import tapec\n\n@tapec.compile\ndef twice(x):\n    return x * 2.0\n")
    shapes = ["--shapes", "f32[1, 4]", "--shapes", "f32[16, 4]", "--emit", "obj, header"]
    command = ["build", f"{script}:twice,twice", *shapes, "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert "int twice_twice_2(" in (tmp_path / "out" / "twice.h").read_text()
