"""Ahead of time, for this machine: the same bits as compiled functions, headers that compile, nothing missing."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from custom_kernels import registered
from edge_models import EdgeModel, batches, classifier
from toolchains import need, run

import tapec
from tapec import aot
from tapec.cli import main
from tapec.errors import TapecError
from tapec.runtime.aot.elf import symbols
from tapec.runtime.aot.emission import loses_a_product
from tapec.runtime.cpu.vectors import vector_unit

#: The target with this machine's vectors.
HOST = {64: "x86-64-v4", 32: "x86-64-v3", 16: "x86-64"}.get(vector_unit().bytes, "x86-64")


def built(model: EdgeModel, target: str = HOST, **options: Any) -> aot.Built:
    options = {"name": "net", "emit": "obj,header", **options}
    return aot.build(model.functions, model.signatures, target=target, **options)


def load(folder: Path) -> Any:
    """The module that was made beside a shared library."""
    names: dict[str, Any] = {"__file__": str(folder / "net.py"), "__name__": "net"}
    exec((folder / "net.py").read_text(), names)
    return names


@pytest.mark.parametrize("optimizer", [None, tapec.optimizers.Adam(0.01)], ids=["sgd", "adam"])
def test_the_bits_are_those_of_compiled_functions(tmp_path: Path, optimizer: Any) -> None:
    model = classifier(optimizer=optimizer)
    built(model, emit="so").write(tmp_path)
    net = load(tmp_path)
    state = net["initial_state"]()
    for x, y in batches(12, 5, 1, 20):
        loss = model.functions["train"](x, y)
        assert net["train"](state, x, y) == loss.numpy()
    np.testing.assert_array_equal(net["infer"](state, x), model.functions["infer"](x).numpy())
    for variable in model.variables:
        held = getattr(state, variable.name.removesuffix(":0"))
        np.testing.assert_array_equal(held, variable.numpy())


def test_a_newer_build_of_a_loaded_library_is_loaded_beside_it(tmp_path: Path) -> None:
    """The loader would give a process the older one, which has the same name and perhaps other functions."""
    loaded = []
    for factor in (2.0, 3.0):
        scale = {"scale": functools.partial(tapec.multiply, factor)}
        aot.build(scale, {"scale": "f32[4]"}, name="net", emit="so").write(tmp_path)
        loaded.append(load(tmp_path))
    again = load(tmp_path)
    results = [net["scale"](np.ones(4, "f4"))[0] for net in (*loaded, again)]
    assert results == [2, 3, 3]
    assert again["_library"]._handle == loaded[1]["_library"]._handle


LANGUAGES = [("gcc", "c99"), ("gcc", "c11"), ("g++", "c++17")]


def example_of(header: str) -> str:
    """The program in a header's first comment."""
    text = header.partition("Example:")[2].partition("*/")[0]
    return "\n".join(line.removeprefix(" *").removeprefix("     ") for line in text.splitlines())


@pytest.mark.parametrize("checked", [False, True], ids=["trusting", "checked"])
@pytest.mark.parametrize(("compiler", "standard"), LANGUAGES)
def test_the_header_and_its_example_compile(
    tmp_path: Path, compiler: str, standard: str, checked: bool
) -> None:
    need(compiler)
    files = built(classifier(batch="N<=4"), checked=checked)
    files.write(tmp_path)
    header = files.files["net.h"].decode()
    assert set(re.findall(r"#include (\S+)", header.partition("*/")[2])) == {
        "<stddef.h>",
        "<stdint.h>",
    }
    (tmp_path / "example.c").write_text(example_of(header))
    (tmp_path / "alone.c").write_text('#include "net.h"\ntypedef int nothing;\n')
    language = "c++" if "++" in compiler else "c"
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", f"-std={standard}", "-x", language]
    strict += ["-Wconversion", "-Wsign-conversion", "-Wshadow"]
    for file in ("alone.c", "example.c"):
        run(compiler, *strict, "-c", file, "-o", f"{file}.o", cwd=tmp_path)
    run(compiler, "example.c.o", "net.o", "-o", "example", cwd=tmp_path)
    run(tmp_path / "example")


def test_two_models_link_into_one_program(tmp_path: Path) -> None:
    need("gcc")
    for name in ("left", "right"):
        built(classifier(), name=name, emit="lib,header").write(tmp_path)
    (tmp_path / "main.c").write_text(
        '#include "left.h"\n#include "right.h"\n'
        "int main(void) { return left_initial.w1[0] != right_initial.w1[0]; }\n"
    )
    run("gcc", "main.c", "-L.", "-lleft", "-lright", "-o", "both", cwd=tmp_path)
    run(tmp_path / "both")


ALL = [name for name, target in aot.targets().items() if target.triple]


@pytest.mark.parametrize("target", ALL)
def test_nothing_is_missing(target: str) -> None:
    """Floats that the processor has need no library, in training too; others only arithmetic."""
    files = built(classifier(), target, emit="obj,header")
    missing = symbols(files.files["net.o"]).missing
    if "f32" in aot.targets()[target].floats:
        assert missing == ()
    header = files.files["net.h"].decode()
    assert all(re.search(rf"\b{re.escape(name)}\b", header) for name in missing)


DIGESTS = """
import hashlib
from edge_models import classifier
from tapec import aot

for target, emit in (("x86-64-v3", "obj,header,lib,so,bin,asm"), ("c", "c"), ("avr", "obj,header")):
    model = classifier()
    options = {"target": target, "emit": emit, "name": "net", "selftest": True}
    files = aot.build(model.functions, model.signatures, **options).files
    print(*(f"{name} {hashlib.sha256(data).hexdigest()}" for name, data in files.items()))
"""


def test_the_output_is_the_same_each_time() -> None:
    """In processes whose sets are in different orders."""

    def digests(seed: str) -> str:
        here = Path(__file__).parent
        return run(sys.executable, "-c", DIGESTS, cwd=here, env={"PYTHONHASHSEED": seed})

    assert digests("1") == digests("2") != ""


def test_where_llvm_ends_its_process_an_error_says_so_and_no_files_are_left(tmp_path: Path) -> None:
    """Sections are named as ELF has them, over which LLVM aborts where there is none."""
    script = tmp_path / "scale.py"
    script.write_text("import tapec\n\n@tapec.compile\ndef twice(x):\n    return x * 2.0\n")
    command = ["build", f"{script}:twice", "--shapes", "f32[4]", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(main, [*command, "--target", "aarch64-apple-darwin"])
    assert done.exit_code == 2
    assert "LLVM ERROR" in done.output
    assert "emit='c'" in done.output
    assert not (tmp_path / "out").exists()


def test_a_product_that_avr_code_loses_is_found() -> None:
    """The flags go through r0, where ``mul`` leaves half of its product."""
    saved, kept = "\tmul\tr30, r25\n\tin\tr0, 63\n\tout\t63, r0\n", "\tmov\tr22, r0\n"
    assert loses_a_product(saved + kept)
    assert not loses_a_product(kept + saved)
    assert not loses_a_product(saved + "\tmul\tr30, r25\n" + kept)


def test_an_assertion_of_llvm_is_told_in_its_words() -> None:
    """Without the files of the machine on which LLVM was built."""
    with pytest.raises(TapecError, match=r"initAsmInfo .*disagree on default exception") as caught:
        built(classifier(), "i386-unknown-none-coff")
    assert ".cpp" not in str(caught.value)


GUARDED = """
#include "net.h"
#include <string.h>
static unsigned char memory[NET_ARENA_BYTES + 128];
static net_state state;
int main(void) {
    float x[NET_TRAIN_X_ITEMS] = {0}, loss[1];
    int32_t y[1] = {2};
    memset(memory, 0xA5, sizeof memory);
    unsigned char *arena = memory + 64;
    arena += (8 - (uintptr_t)arena % 8) % 8;
    state = net_initial;
    for (int i = 0; i < 10; i++)
        if (net_train(&state, x, y, loss, arena)) return 1;
    for (unsigned char *p = memory; p < arena; p++) if (*p != 0xA5) return 2;
    for (unsigned char *p = arena + NET_ARENA_BYTES; p < memory + sizeof memory; p++)
        if (*p != 0xA5) return 3;
    return 0;
}
"""


def test_nothing_is_written_beside_the_arena(tmp_path: Path) -> None:
    need("gcc")
    built(classifier()).write(tmp_path)
    (tmp_path / "main.c").write_text(GUARDED)
    run("gcc", "-Wall", "-Werror", "main.c", "net.o", "-o", "guarded", cwd=tmp_path)
    run(tmp_path / "guarded")


def test_an_arena_of_one_byte_less_does_not_compile(tmp_path: Path) -> None:
    need("gcc")
    built(classifier()).write(tmp_path)
    for less, works in ((0, True), (1, False)):
        (tmp_path / "arena.c").write_text(
            f'#include "net.h"\nchar mine[NET_ARENA_BYTES - {less}];\nNET_CHECK_ARENA(mine);\n'
        )
        done = subprocess.run(
            ["gcc", "-c", "arena.c"], cwd=tmp_path, capture_output=True, check=False
        )
        assert (done.returncode == 0) == works


CHECKED = """
#include "net.h"
static NET_DECLARE_ARENA(arena);
static net_state state;
static float x[NET_TRAIN_X_ITEMS], loss[1];
static int32_t y[NET_TRAIN_Y_ITEMS];
int main(void) {
    char *odd = (char *)x + 1;
    state = net_initial;
    if (net_train(&state, 4, x, y, loss, &arena, sizeof arena) != NET_OK) return 1;
    if (net_train(0, 4, x, y, loss, &arena, sizeof arena) != NET_ERROR_NULL) return 2;
    if (net_train(&state, 4, (float *)odd, y, loss, &arena, sizeof arena) != NET_ERROR_MISALIGNED) return 3;
    if (net_train(&state, 4, x, y, loss, &arena, NET_TRAIN_ARENA_BYTES - 1) != NET_ERROR_ARENA) return 4;
    if (net_train(&state, 5, x, y, loss, &arena, sizeof arena) != NET_ERROR_SIZE) return 5;
    if (net_train(&state, 0, x, y, loss, &arena, sizeof arena) != NET_ERROR_SIZE) return 6;
    return 0;
}
"""


def test_checked_functions_return_errors(tmp_path: Path) -> None:
    need("gcc")
    built(classifier(batch="N<=4"), checked=True).write(tmp_path)
    (tmp_path / "main.c").write_text(CHECKED)
    run("gcc", "main.c", "net.o", "-o", "checked", cwd=tmp_path)
    run(tmp_path / "checked")


SELFTEST = """
#include "net.h"
#include <string.h>
static union { unsigned char bytes[NET_SELFTEST_BYTES]; double aligned; } memory;
int main(int count, char **given) { (void)given; (void)count; return net_selftest(&memory); }
"""


@pytest.mark.parametrize("emit", ["obj,header", "c"])
@pytest.mark.parametrize("checked", [False, True], ids=["trusting", "checked"])
def test_a_model_tests_itself(tmp_path: Path, emit: str, checked: bool) -> None:
    """It finds nothing; with one weight's bits changed, it does."""
    need("gcc")
    target = "c" if emit == "c" else HOST
    files = built(classifier(batch="N<=3"), target, emit=emit, selftest=True, checked=checked)
    files.write(tmp_path)
    (tmp_path / "main.c").write_text(SELFTEST)
    program = "net.c" if emit == "c" else "net.o"
    run("gcc", "-Wall", "-Wextra", "-Werror", "main.c", program, "-o", "tried", cwd=tmp_path)
    run(tmp_path / "tried")
    if emit != "c":
        weights = classifier().variables[0].numpy().tobytes()
        damaged = files.files["net.o"].replace(weights, b"\0" * len(weights))
        (tmp_path / "net.o").write_bytes(damaged)
        run("gcc", "main.c", program, "-o", "tried", cwd=tmp_path)
        assert subprocess.run([str(tmp_path / "tried")], check=False).returncode == 1


def test_a_shared_library_of_another_machine_tests_itself(tmp_path: Path) -> None:
    """The values that training begins with are found through a table of addresses, since others see them too."""
    need("aarch64-linux-gnu-gcc", "qemu-aarch64-static")
    built(classifier(), "aarch64", emit="so,header", selftest=True).write(tmp_path)
    (tmp_path / "main.c").write_text(SELFTEST.replace("#include <string.h>", ""))
    start = Path(__file__).parent / "emulated" / "linux.c"
    linked = ["main.c", start, "-L.", "-lnet", "-Wl,-rpath,$ORIGIN", "-o", "tried"]
    run("aarch64-linux-gnu-gcc", "-ffreestanding", "-nostdlib", *linked, cwd=tmp_path)
    run("qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu", tmp_path / "tried")


@pytest.mark.parametrize(
    "line",
    [
        "return tapec.py_function(lambda a: a, [x], tapec.float32) + 1.0",
        "tapec.print(x); return x + 1.0",
    ],
)
def test_what_no_other_machine_can_do_is_refused_and_leaves_no_files(
    tmp_path: Path, line: str
) -> None:
    script = tmp_path / "told.py"
    script.write_text(f"import tapec\n\n@tapec.compile\ndef told(x):\n    {line}\n")
    command = ["build", f"{script}:told", "--shapes", "f32[3]", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(main, [*command, "--target", "cortex-m4f"])
    assert done.exit_code == 2
    assert all(word in done.output for word in ("told.py", "5", "cortex-m4f", "Python"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "z80"}, "no target 'z80'"),
        ({"emit": "hex"}, "no 'hex'"),
        ({"state": "flash"}, "no 'flash'"),
        ({"optimize": "fun"}, "speed or size"),
        ({"target": "avr", "emit": "so"}, "no shared library"),
        ({"target": "cortex-m4f", "emit": "ptx"}, "target='cuda-sm_80'"),
        (
            {"target": "cuda-sm_80", "emit": "c"},
            "emit='c' for cuda-sm_80.*\n.*\n.*obj, header, ptx",
        ),
        ({"target": "cuda-sm_80", "checked": True}, "checked=True for cuda-sm_80"),
        ({"target": "cuda-sm_80", "selftest": True}, "selftest=True for cuda-sm_80"),
        ({"target": "cuda-sm_80", "state": "extern"}, "state='extern' for cuda-sm_80"),
        ({"target": "cuda-sm_80", "optimize": "size"}, "optimize='size' for cuda-sm_80"),
        ({"target": "xtensa-esp32-elf"}, "target='c', emit='c'"),
        ({"target": "powerpc-unknown-none"}, "objects for powerpc-unknown-none"),
        ({"target": "mipsel-unknown-linux-gnu"}, "would call .*\n.*emit='c'"),
    ],
)
def test_options_that_are_unknown_or_for_other_targets_are_named(
    options: dict[str, Any], said: str
) -> None:
    with pytest.raises(TapecError, match=said):
        built(classifier(), **options)


def test_a_selftest_whose_numbers_a_check_refuses_is_refused() -> None:
    """As long as there is one: the function itself is built."""

    @tapec.compile
    def root(x: Any, n: Any) -> Any:
        tapec.debugging.assert_greater(x, 3.0, message="x is too small")
        return tapec.sqrt(x) + tapec.cast(12 // n, tapec.float32)

    with pytest.raises(
        TapecError, match=r"root cannot test itself: .*x is too small.*\n.*test_aot\.py"
    ):
        aot.build(root, "f32[2] i32", target=HOST, selftest=True)
    assert (
        "root_root_selftest"
        not in aot.build(root, "f32[2] i32", target=HOST).files["root.h"].decode()
    )


@pytest.mark.parametrize(
    ("kernel", "target", "said"),
    [
        ("remainder", HOST, "test.remainder is a custom op, .* this process alone (fmodf, exp2f)"),
        ("running", HOST, "test.running is a custom op, .* this process alone (itself)"),
        ("softplus", "cortex-m4f", "test.softplus is a custom op, whose code counts in 64 bits"),
        ("softplus", "c", "test.softplus is a custom op, whose code is LLVM's"),
    ],
)
def test_users_kernels_are_refused_by_name(kernel: str, target: str, said: str) -> None:
    with registered() as ops:
        given = {"running": "f32[3]", "remainder": "f32[3] f32[3]"}.get(kernel, "f32[3]")
        f = tapec.compile(lambda *arrays: ops[kernel](*arrays))
        match = re.escape(said).replace(r"\.\*", ".*") + r"(.*\n)+.*test_aot.py"
        with pytest.raises(TapecError, match=match):
            aot.build(f, given, target=target, name="net", emit="c" if target == "c" else "obj")


@pytest.mark.parametrize(
    ("options", "said"),
    [((), "--shapes"), (("--shapes", "f32[2] f32[2]"), "2 arguments"), (("--emit", "hex"), "hex")],
)
def test_the_command_says_what_it_wants(
    tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    script = tmp_path / "scale.py"
    script.write_text("import tapec\n\n@tapec.compile\ndef twice(x):\n    return x * 2.0\n")
    done = CliRunner().invoke(main, ["build", f"{script}:twice", *options])
    assert done.exit_code == 2
    assert said in done.output


def test_functions_whose_names_are_alike_in_c_have_names_of_their_own() -> None:
    functions = {"add one": lambda x: x + 1.0, "add-one": lambda x: x - 1.0}
    files = aot.build(functions, dict.fromkeys(functions, "f32[2]"), name="net").files
    assert set(symbols(files["net.o"]).defined) >= {"net_add_one", "net_add_one_2"}


def test_what_a_function_takes_may_be_told_where_it_is_compiled() -> None:
    @tapec.compile(input_signature=[tapec.TensorSpec([4, 3], tapec.float32)])
    def twice(x: Any) -> Any:
        return x * 2.0

    assert b"[4][3]" in aot.build(twice, name="net").files["net.h"]


def test_a_size_without_a_bound_is_refused() -> None:
    with pytest.raises(TapecError, match="has no bound"):
        built(classifier(batch="N"))


def test_the_command_builds_what_a_file_defines(tmp_path: Path) -> None:
    script = tmp_path / "scale.py"
    script.write_text("import tapec\n\n@tapec.compile\ndef twice(x):\n    return x * 2.0\n")
    where = f"{script}:twice"
    out = tmp_path / "out"
    done = CliRunner().invoke(main, ["build", where, "--shapes", "f32[4]", "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert sorted(p.name for p in out.iterdir()) == ["twice.h", "twice.o"]
    listed = CliRunner().invoke(main, ["targets"]).output
    assert all(name in listed for name in ("cortex-m4f", "wasm32", "no float64", "cuda-sm_80"))


def test_machines_say_what_they_have_of_floats_of_16_bits() -> None:
    lines = CliRunner().invoke(main, ["targets"]).output.splitlines()
    said = {line.split()[0]: line for line in lines}
    assert said["wasm32"].endswith("no float16 instructions")
    assert said["x86-64-v3"].endswith("no float16 arithmetic, only conversions")
    floats = {name for name, target in aot.targets().items() if target.floats and target.triple}
    assert {name for name, line in said.items() if "float16" in line} == floats


def test_what_a_device_has_trained_comes_back() -> None:
    model = classifier()
    files = built(model, emit="header")
    first = files.pack({})
    assert len(first) == files.state_bytes
    arrays = files.unpack(first)
    np.testing.assert_array_equal(arrays["w1"], model.variables[0].numpy())
    files.restore(files.pack({"b2": np.arange(5.0)}))
    np.testing.assert_array_equal(model.variables[3].numpy(), np.arange(5.0))
    with pytest.raises(TapecError, match="has no 'w3'"):
        files.pack({"w3": 1.0})
    with pytest.raises(TapecError, match="shape"):
        files.pack({"b2": np.zeros(4)})
    with pytest.raises(TapecError, match="bytes"):
        files.unpack(b"")


def test_files_of_named_arrays(tmp_path: Path) -> None:
    arrays: dict[str, Any] = {
        "w": np.arange(6, dtype=np.float32).reshape(2, 3),
        "steps": np.array(7, np.int64),
        "mask": np.array([True, False]),
        "half": np.ones(3, np.float16),
        "brain": np.ones(3, tapec.bfloat16.as_numpy_dtype),
        "none": np.zeros((0, 4)),
    }
    aot.save_state(tmp_path / "state.safetensors", arrays)
    found = aot.load_state(tmp_path / "state.safetensors")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("contents", [b"", b"short", b"\2\0\0\0\0\0\0\0{]", b"\2\0\0\0\0\0\0\0[]"])
def test_files_of_another_format_are_refused(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / "state").write_bytes(contents)
    with pytest.raises(TapecError, match="safetensors"):
        aot.load_state(tmp_path / "state")
