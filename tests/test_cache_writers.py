"""Several writers in one folder of compiled programs, which make room at the same time."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from tapec.runtime import Cache


def test_an_entry_that_others_remove_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is forgotten, as any entry may be: nothing to warn of."""
    cache, replace = Cache(tmp_path), os.replace

    def replace_late(*args: Any, **options: Any) -> None:
        cache.clear()
        replace(*args, **options)

    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setattr(os, "replace", replace_late)
        cache.put("a", b"one")
    assert cache.get("a") is None
    cache.put("a", b"two")
    assert cache.get("a") == b"two"
