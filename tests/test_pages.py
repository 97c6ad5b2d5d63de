"""Pages of documentation: every block of their code runs, and prints what is shown below it."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path

import pytest
from pages import DOCS, as_run


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_every_block_prints_what_is_shown(page: Path) -> None:
    if page.stem == "keras":
        import_module("keras_installed")  # which skips where it is not
    text = page.read_text("utf-8")
    with ProcessPoolExecutor(
        1, get_context("spawn")
    ) as own:  # a page may change how its process works
        assert own.submit(as_run, text).result() == text
