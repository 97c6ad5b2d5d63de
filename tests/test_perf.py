"""`TAPEC_PERF`: what Linux's perf reads of code in memory, the map and the jitdump, as its specifications say."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from test_debug_lines import PROGRAM

from tapec.errors import TargetError
from tapec.runtime.cpu import threads
from tapec.runtime.cpu.machine_code import perf


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files of this process go."""
    monkeypatch.setattr(perf, "_FOLDER", tmp_path)
    monkeypatch.setattr(perf, "_told", set())
    return tmp_path


def run(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """Compile and run a program whose functions perf is told of."""
    monkeypatch.setenv("TAPEC_PERF", form)
    exec(compile(PROGRAM, "train.py", "exec"), {"__name__": "train"})


def test_map(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads.require()
    run(monkeypatch, "map")
    (path,) = folder.glob("perf-*.map")
    rows = [line.split(" ", 2) for line in path.read_text().splitlines()]
    names = [name for _, _, name in rows]
    assert "model" in names
    assert any(name.startswith("model.k") for name in names)
    assert names.count("tapec.pool") == 1  # where threads wait
    spans = sorted((int(start, 16), int(size, 16)) for start, size, _ in rows)
    for (start, size), (following, _) in pairwise(spans):
        assert 0 < size <= following - start


def records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and body of each record of a jitdump."""
    magic, version, size, machine, _, _, _, flags = struct.unpack_from("<IIIIIIQQ", data)
    assert (magic, version, size, flags) == (0x4A695444, 1, 40, 0)
    assert machine in (62, 183)
    at = size
    while at < len(data):
        kind, total, _ = struct.unpack_from("<IIQ", data, at)
        yield kind, data[at + 16 : at + total]
        at += total
    assert at == len(data)


def test_jitdump(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(monkeypatch, "jitdump")
    (path,) = folder.glob("jit-*.dump")
    found = {}
    for kind, body in records(path.read_bytes()):
        assert kind == 0
        _, _, address, again, size, number = struct.unpack_from("<IIQQQQ", body)
        assert address == again
        name, _, code = body[40:].partition(b"\0")
        assert len(code) == size
        found[name.decode()] = number
    assert "model" in found
    assert len(set(found.values())) == len(found)
    assert any(str(path) in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_another_form_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TargetError, match="perf reads no 'nonsense'"):
        run(monkeypatch, "nonsense")
