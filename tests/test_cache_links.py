"""What stands in the folder of compiled programs and is no file of it: links and pipes, which lead elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tapec.runtime import Cache


@pytest.mark.parametrize("name", ["count", "a.image"])
def test_what_a_link_leads_to_is_left_alone(tmp_path: Path, name: str) -> None:
    other, folder = tmp_path / "other", tmp_path / "folder"
    other.write_bytes(b"somebody else's")
    folder.mkdir(mode=0o700)
    (folder / name).symlink_to(other)
    cache = Cache(folder, limit=1)  # each addition makes room
    assert cache.get("a") is None
    cache.put("a", b"one")
    cache.put("b", b"two")
    cache.clear()
    assert other.read_bytes() == b"somebody else's"
    cache = Cache(folder)
    cache.put("a", b"three")
    assert cache.get("a") == b"three"


@pytest.mark.parametrize("name", ["count", "a.image"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o700)
    os.mkfifo(folder / name)
    cache = Cache(folder)
    assert cache.get("a") is None
    cache.put("a", b"one")
    assert cache.get("a") == b"one"
