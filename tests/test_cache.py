"""Compiled programs on disk: kept whole, found again, rebuilt when damaged, forgotten when there are too many."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from loop_programs import arena_module, kernel_module

from tapec.ir.core import Module
from tapec.ir.errors import ShapeError
from tapec.ir.parser import parse_module
from tapec.ir.types import BF16, F16
from tapec.runtime import Cache, compile_module, find_program
from tapec.runtime.cache import key_of
from tapec.runtime.cpu import jit

TEXT = """
func @f(%x: &f32[8], %r: &f32[8]) {
  launch %x, %r {kernel = "k"}
  return
}
kernel @k(%x: &f32[8], %r: &f32[8]) {
  %zero = constant {value = 0} : index
  %v = load %x, %zero {lanes = 8} : f32x8
  %w = exp %v : f32x8
  store %w, %r, %zero
  return
}
"""


def program() -> Module:
    module = parse_module(TEXT)
    module.entry.attrs["inputs"] = 1
    return module


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_what_was_put_is_found(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new" / "folder")
    assert cache.get("a") is None
    cache.put("a", b"one")
    cache.put("b", b"")
    cache.put("a", b"two")
    assert cache.get("a") == b"two"
    assert cache.get("b") == b""
    assert Cache(tmp_path / "new" / "folder").get("a") == b"two"
    assert len(entries(cache.folder)) == 2


def test_keys_tell_parts_apart() -> None:
    assert key_of("ab", "c") != key_of("a", "bc")
    assert key_of("ab", "c") == key_of("ab", "c")


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "other"])
def test_a_damaged_entry_is_absent(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path)
    cache.put("a", b"0123456789")
    (path,) = entries(tmp_path)
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[-1] ^= 1
    kept = {"cut": bytes(data[:-1]), "flip": bytes(data), "empty": b"", "other": b"x" * 99}
    path.write_bytes(kept[damage])
    assert cache.get("a") is None
    assert entries(tmp_path) == []
    cache.put("a", b"again")
    assert cache.get("a") == b"again"


def test_least_recently_used_are_forgotten(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=400)
    for i, name in enumerate("abc"):
        cache.put(name, bytes(60))
        os.utime(cache._path(name), ns=(i, i))
    assert cache.get("a") is not None  # which makes it young
    for name in "de":
        cache.put(name, bytes(60))
    assert [name for name in "abcde" if cache.get(name) is not None] == ["a", "d", "e"]


def test_what_a_crash_left_is_forgotten_too(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=200)
    left = tmp_path / "a.123.abcd"
    left.write_bytes(bytes(300))
    os.utime(left, ns=(0, 0))
    cache.put("a", b"x")
    assert not left.exists()
    assert cache.get("a") == b"x"


def test_readers_see_all_or_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=1 << 20)
    contents = {bytes([i]) * 50_000 for i in range(4)}
    wrong: list[bytes] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            found = cache.get("a")
            if found is not None and found not in contents:
                wrong.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(50):
        for each in contents:
            cache.put("a", each)
    done.set()
    reader.join()
    assert not wrong


def test_a_folder_that_cannot_be_written_costs_a_warning(tmp_path: Path) -> None:
    """Root may write anywhere, so a file stands where the folder should."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        executable = compile_module(program(), cache=blocked)
    x = np.zeros(8, np.float32)
    np.testing.assert_array_equal(executable(x)[0], 1)


def test_a_program_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_module(program(), cache=tmp_path)
    (path,) = entries(tmp_path)
    compiled: list[str] = []
    original = jit.JitCompiler.compile

    def compile_and_count(self: jit.JitCompiler, text: str) -> bytes:
        compiled.append(text)
        return original(self, text)

    monkeypatch.setattr(jit.JitCompiler, "compile", compile_and_count)
    second = compile_module(program(), cache=str(tmp_path))
    assert not compiled
    x = np.linspace(-1, 1, 8, dtype=np.float32)
    np.testing.assert_array_equal(first(x)[0], second(x)[0])
    compile_module(program(), cache=tmp_path, opt=2)  # other options, another entry
    assert len(compiled) == 1
    assert len(entries(tmp_path)) == 2
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    third = compile_module(program(), cache=tmp_path)
    assert len(compiled) == 2
    np.testing.assert_array_equal(first(x)[0], third(x)[0])
    assert path.read_bytes() == data


def test_a_program_is_found_by_what_it_was_made_from(tmp_path: Path) -> None:
    """The key stands for a program before any pass; the signature comes from the folder as well."""
    module = arena_module()
    made = compile_module(module, cache=tmp_path, key="source")
    found = find_program("source", cache=tmp_path)
    assert found is not None
    assert found.signature == made.signature
    assert str(found.inputs[0]) == "f32[N,4]"
    x, w = np.ones((3, 4), np.float32), np.ones(4, np.float32)
    np.testing.assert_array_equal(found(x, w)[0], 3)
    assert find_program("other", cache=tmp_path) is None
    assert find_program("source", cache=tmp_path, threads=2) is None
    with pytest.raises(ShapeError, match="x is"):
        found(np.ones((3, 5), np.float32), w)


def test_programs_of_one_text_are_kept_apart(tmp_path: Path) -> None:
    """Copying float16 and bfloat16 is the same native code, but not the same program."""
    body = """
  %zero = constant {value = 0} : index
  %v = load %x, %zero : DT
  store %v, %r, %zero"""
    for dtype in (F16, BF16, F16):
        signature = f"%x: &{dtype}[1], %r: &{dtype}[1]"
        module = kernel_module(signature, body.replace("DT", str(dtype)), inputs=1)
        executable = compile_module(module, cache=tmp_path)
        (result,) = executable(np.ones(1, dtype.numpy))
        assert result.dtype == dtype.numpy
        assert result[0] == 1
    assert len(entries(tmp_path)) == 2


def test_a_warm_start_needs_no_compiler(tmp_path: Path) -> None:
    """Neither LLVM nor SciPy is imported where the program is found, with threads or without."""
    code = """
import sys
import numpy as np
from tapec.ir.parser import parse_module
from tapec.runtime import compile_module
module = parse_module(sys.argv[1])
module.entry.attrs["inputs"] = 1
executable = compile_module(module, cache=sys.argv[2], threads=2)
print(float(executable(np.zeros(8, np.float32))[0].sum()), "llvmlite" in sys.modules)
"""
    printed = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", code, TEXT, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.split())
    assert printed[0] == ["8.0", "True"]
    assert printed[1] == ["8.0", "False"]


def test_entries_are_for_their_owner(tmp_path: Path) -> None:
    """Nobody else may put code into the folder that this makes."""
    cache = Cache(tmp_path / "made")
    cache.put("a", b"x")
    assert stat.S_IMODE(cache.folder.stat().st_mode) & 0o022 == 0
