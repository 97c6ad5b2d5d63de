"""The folder of compiled programs: entries are whole, found again, absent when damaged, forgotten when too many."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from tapec.runtime import Cache
from tapec.runtime.cache import BLOCK, key_of


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.image"))


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


def test_an_entry_is_found_under_its_own_name_alone(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("a", b"program of a")
    entries(tmp_path)[0].rename(tmp_path / "b.image")
    assert cache.get("b") is None
    assert entries(tmp_path) == []


def test_least_recently_used_are_forgotten(tmp_path: Path) -> None:
    """Above the limit a quarter of it is made free: of four blocks three stay."""
    cache = Cache(tmp_path, limit=4 * BLOCK)
    for i, name in enumerate("abcd"):
        cache.put(name, bytes(60))
        os.utime(tmp_path / f"{name}.image", ns=(i, i))
    assert cache.get("a") is not None  # which makes it young
    cache.put("e", bytes(60))
    assert [name for name in "abcde" if cache.get(name) is not None] == ["a", "d", "e"]
    assert cache.held().entries == 3


def test_most_additions_look_at_no_other_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To list the folder each time would make the n-th program cost n."""
    listings: list[Any] = []
    original = os.scandir

    def scandir(folder: Any) -> Any:
        listings.append(folder)
        return original(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    cache = Cache(tmp_path, limit=100 * BLOCK)
    for i in range(400):
        cache.put(f"{i:04}", bytes(BLOCK // 2))
    assert len(listings) <= 1 + 400 // 25
    assert 70 <= cache.held().entries <= 100
    assert cache.get("0399") is not None


def test_a_lost_count_is_made_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit=4 * BLOCK)
    for i, name in enumerate("abcd"):
        cache.put(name, b"")
        os.utime(tmp_path / f"{name}.image", ns=(i, i))
    (tmp_path / "count").unlink()
    cache.put("e", b"")
    assert [name for name in "abcde" if cache.get(name) is not None] == ["c", "d", "e"]


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    """Once it is so old that nobody can be writing it, or when its room is needed."""
    cache = Cache(tmp_path, limit=4 * BLOCK)
    cache.put("a", b"x")
    old, young = tmp_path / "a.123.abcd", tmp_path / "b.123.abcd"
    for left in (old, young):
        left.write_bytes(b"half of it")
    os.utime(old, ns=(0, 0))
    for name in "cdef":
        cache.put(name, b"x")
    assert not old.exists()
    assert cache.held().entries + young.exists() == 3
    assert cache.get("f") == b"x"


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


@pytest.mark.parametrize("failing", ["write", "replace", "open"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_what_cannot_be_written_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, number: int
) -> None:
    """A full disk takes half of an entry; a folder may be there to be read alone. It is said once."""
    folder = tmp_path / f"{failing}{number}"
    cache = Cache(folder)
    cache.put("old", b"kept")
    original = getattr(os, failing)

    def fail(*args: Any, **kwargs: Any) -> Any:
        if failing == "open" and not args[1] & os.O_CREAT:
            return original(*args, **kwargs)
        if failing == "write" and len(args[1]) > 1 << 15:
            return original(args[0], args[1][: 1 << 15])
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, failing, fail)
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        cache.put("new", bytes(1 << 16))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("new", bytes(1 << 16))
    assert cache.get("new") is None
    assert cache.get("old") == b"kept"
    assert sorted(p.name for p in folder.iterdir()) == ["count", "old.image"]


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / str(mode)
    cache = Cache(folder)
    cache.put("a", b"x")
    folder.chmod(mode)
    with pytest.warns(RuntimeWarning, match="others may write to it"):
        assert cache.get("a") is None
    cache.put("b", b"x")  # silently: it was said
    assert len(entries(folder)) == 1
    assert str(cache.refusal()).startswith("others may write")
    folder.chmod(0o755)
    assert cache.get("a") == b"x"


def test_a_folder_of_another_user_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path)
    cache.put("a", b"x")
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if owner == 0:
        assert cache.get("a") == b"x"  # root could do anything anyway
        os.chown(tmp_path, 7, 7)
    with pytest.warns(RuntimeWarning, match="it belongs to user"):
        assert cache.get("a") is None


def test_entries_are_for_their_owner(tmp_path: Path) -> None:
    """Nobody else may look into the folder that this makes."""
    cache = Cache(tmp_path / "made")
    cache.put("a", b"x")
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache.folder.iterdir()} == {0o600}


WRITE = """
import os, sys
from tapec.runtime.cache import Cache, BLOCK
cache = Cache(sys.argv[1], limit=40 * BLOCK)
number = int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
while True:
    for i in range(20):
        cache.put(f"{i}", bytes([i]) * (3 * BLOCK))
        found = cache.get(f"{(i + number) % 20}")
        assert found in (None, bytes([(i + number) % 20]) * (3 * BLOCK))
"""


def test_writers_may_be_killed_at_any_time(tmp_path: Path) -> None:
    """Four processes write and read the same entries until each is killed; all that is found is whole."""
    folder = tmp_path / "shared"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, str(folder), str(i)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(4)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    for i, writer in enumerate(writers):
        time.sleep(0.1 + 0.013 * i)
        assert writer.poll() is None, "a writer found something wrong"
        writer.kill()
        writer.communicate()
    cache = Cache(folder, limit=40 * BLOCK)
    for i in range(20):
        found = cache.get(f"{i}")
        assert found in (None, bytes([i]) * (3 * BLOCK))
    for i in range(200):
        cache.put(f"after {i}", b"x")
    assert cache.held().bytes <= 40 * BLOCK
