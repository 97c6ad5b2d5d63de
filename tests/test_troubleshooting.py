"""The page of symptoms has a section for each; its code is run by ``test_pages.py``."""

from __future__ import annotations

import re

from pages import DOCS


def test_every_symptom_has_a_section() -> None:
    text = (DOCS / "troubleshooting.md").read_text("utf-8")
    links = re.findall(r"^\| \[.*?\]\(#(.*?)\)", text, re.MULTILINE)
    heads = [
        re.sub(r"\W+", "-", head.lower()) for head in re.findall(r"^## (.*)$", text, re.MULTILINE)
    ]
    assert links == heads
