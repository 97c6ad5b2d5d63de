"""Pages of documentation: every block of their code runs, and prints what is shown below it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from pages import DOCS, as_run


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_every_block_prints_what_is_shown(page: Path) -> None:
    if page.stem == "keras":
        import_module("keras_installed")  # which skips where it is not
    text = page.read_text("utf-8")
    assert as_run(text) == text
