"""The page of ``tapec html``, in a real browser: click, follow, search, keyboard; nothing leaves it."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Page, sync_playwright

import tapec
from tapec.cli import main

STEP = """\
import tapec

w = tapec.Variable(tapec.ones([6, 3]), name="w")
optimizer = tapec.optimizers.SGD(0.1)

@tapec.compile
def step(x, y):
    with tapec.GradientTape() as tape:
        hidden = tapec.tanh(x @ w)
        loss = tapec.reduce_mean((hidden - y) ** 2)
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    return loss

step(tapec.ones([4, 6]), tapec.zeros([4, 3]))
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    (folder / "train.py").write_text(STEP)
    place = folder / "step.html"
    argv = ["html", f"{folder / 'train.py'}:step", "-o", str(place)]
    result = CliRunner().invoke(main, argv, catch_exceptions=False)
    assert result.stdout.startswith(f"{place}: ")
    return place


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None and not os.environ.get("CI"):
        pytest.skip("THE PAGE WAS NOT TESTED: there is no chromium on this machine")
    assert found is not None, "the page is tested in chromium: apt-get install chromium"
    with sync_playwright() as playwright:
        # A sandbox needs rights that containers lack.
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1400, "height": 800})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on(
        "request",
        lambda request: said.append(request.url) if "step.html" not in request.url else None,
    )
    page.goto(file.as_uri())
    yield page
    page.close()
    # No error on the console, and no request but for the page itself.
    assert said == []


def marked(page: Page, name: str) -> list[str]:
    """The stages in which something is marked so."""
    script = "found => found.map(s => s.dataset.stage)"
    return list(page.eval_on_selector_all(f"section.stage:has(.{name})", script))


def value_of(page: Page, operation: str) -> str:
    """The value that an operation of the first stage makes."""
    row = page.locator("section.stage").first.locator("pre > div", has_text=f"= {operation} ").first
    return str(row.locator("[data-defines]").first.get_attribute("data-value"))


def test_the_page_is_small_and_whole(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert len(text.encode()) < 200_000
    # The only address in it, a name.
    assert set(re.findall(r"https?://[^\"]*", text)) == {"http://www.w3.org/2000/svg"}


def test_columns(page: Page) -> None:
    stages = page.eval_on_selector_all("section.stage", "all => all.map(s => s.dataset.stage)")
    assert stages[0] == "input"
    assert {"adjoint", "prune", "fuse", "lower"} <= set(stages)
    assert "commit" in page.locator("#rail .same").all_inner_texts()
    assert "hidden = tapec.tanh(x @ w)" in page.locator("section.python").inner_text()
    assert page.locator("h1").inner_text() == "step"


def test_a_value_is_followed(page: Page) -> None:
    value = value_of(page, "matmul")
    page.locator(f"section.stage [data-value={value}]").first.click()
    assert {"input", "adjoint", "fuse", "plan"} <= set(marked(page, "value"))
    assert {"adjoint", "prune"} <= set(marked(page, "adjoint"))
    assert "input" not in marked(page, "adjoint")
    assert page.locator(".python .here").inner_text().endswith("hidden = tapec.tanh(x @ w)")
    about = page.locator("#about").inner_text()
    assert about.startswith(f"%{value} %{value} = matmul %x, ")
    assert "train.py:9" in about
    assert "lower computes it in loops: %n" in about
    assert f"its adjoint: %{value}_ct" in about
    assert page.url.endswith(f"#{value}")


def test_a_value_is_followed_into_loops_and_machine_code(page: Page) -> None:
    value = value_of(page, "tanh")
    page.locator(f"section.stage [data-value={value}]").first.click()
    loops = page.locator("section.stage[data-stage=lower] .v.value[data-defines]")
    assert loops.count() > 0
    for row in loops.all():
        assert "= tanh " in str(row.locator("..").inner_text())
    own = machine_of(page)
    assert len(own) > 10
    assert not any(":" in line.split()[0] for line in own.values())
    assert page.locator("section.machine .here").count() == 0
    # Those of the line's other value, the product, are others.
    product = value_of(page, "matmul")
    page.locator(f"section.stage [data-value={product}]").first.click()
    assert machine_of(page)
    assert own.keys().isdisjoint(machine_of(page))


def machine_of(page: Page) -> dict[int, str]:
    """The instructions of the value that was clicked, by their numbers."""
    lines = page.locator("section.machine pre > div")
    numbers: list[int] = lines.evaluate_all(
        "all => [...all.keys()].filter(n => all[n].querySelector('.v.value'))"
    )
    texts = lines.all_inner_texts()
    return {n: texts[n] for n in numbers}


def test_from_an_instruction_back_to_the_tensor(page: Page) -> None:
    """Products are summed by fused multiplications and additions; the adjoint has its own."""
    value = value_of(page, "matmul")
    page.locator(f"section.stage [data-value={value}]").first.click()
    fused = page.locator("section.machine .v.value", has_text="vfmadd").first
    fused.click()
    assert fused.evaluate("e => e.classList.contains('at')")
    assert page.locator(f"section.stage[data-stage=input] .value[data-value={value}]").count() > 0
    assert page.locator(".python .here").inner_text().endswith("hidden = tapec.tanh(x @ w)")
    assert page.locator("section.machine .v.adjoint").count() > 0


def test_from_loops_back_to_the_tensor(page: Page) -> None:
    value = value_of(page, "tanh")
    row = page.locator("section.stage[data-stage=lower] pre > div", has_text="= tanh ").first
    row.locator("[data-defines]").click()
    assert page.locator(f"section.stage[data-stage=input] .value[data-value={value}]").count() > 0


def test_an_adjoint_is_known_by_what_made_it(page: Page) -> None:
    """That of the read goes by the Variable's name, and stands for two values."""
    value = value_of(page, "read")
    page.locator(f"section.stage [data-value={value}]").first.click()
    assert {"adjoint", "prune", "fuse", "plan", "lower"} <= set(marked(page, "adjoint"))
    page.keyboard.press("a")
    assert page.locator(".at").inner_text() == f"%{value}_ct"
    assert f"adjoint of %{value}" in page.locator("#about").inner_text()
    assert "input" in marked(page, "adjoint")


def test_a_line_shows_all_that_comes_from_it(page: Page) -> None:
    page.locator(".python pre > div", has_text="hidden = ").click()
    first = page.locator("section.stage").first.locator(".here").all_inner_texts()
    assert ["matmul" in line or "tanh" in line or "read" in line for line in first] == [True] * 3
    assert "machine code " in page.locator("#about").inner_text()


def test_the_rail_leads_to_a_column(page: Page) -> None:
    page.locator("#rail a", has_text="plan").click()
    left = "document.querySelector('[data-stage=plan]').getBoundingClientRect().left"
    fixed = "document.querySelector('section.python').getBoundingClientRect().right"
    assert abs(page.evaluate(f"{left} - {fixed}")) < 2


def test_what_removed_a_value_is_told(page: Page) -> None:
    value = value_of(page, "read")
    page.locator(f"section.stage [data-value={value}]").first.click()
    told = page.locator("#about").inner_text()
    assert "prune removes it by read is a mark of the tape; readers read %w" in told
    constant = (
        page.locator("section.stage").first.locator("pre > div", has_text="= broadcast ").first
    )
    constant.locator("[data-defines]").click()
    told = page.locator("#about").inner_text()
    assert "canonicalize rewrites it by f(constant) -> constant" in told
    assert "dce removes it: nobody reads it" in told


def test_a_link_to_a_value(browser: Browser, file: Path) -> None:
    page = browser.new_page()
    page.goto(f"{file.as_uri()}#w")
    assert "input" in marked(page, "value")
    page.close()


def test_search(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("tanh")
    found = page.locator(".found").count()
    assert found > 4
    assert page.locator("#count").inner_text() == f"{found} lines"
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.locator(".found").count() == 0


def test_keyboard(page: Page) -> None:
    value = value_of(page, "matmul")
    page.locator(f"section.stage [data-value={value}]").first.click()
    page.keyboard.press("ArrowRight")
    at = "document.querySelector('.at').closest('section').dataset.stage"
    assert page.evaluate(at) != "input"
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(at) == "input"
    page.keyboard.press("j")
    after = page.locator(".at").get_attribute("data-value")
    page.keyboard.press("k")
    assert page.locator(".at").get_attribute("data-value") == value != after
    page.keyboard.press("a")
    assert page.locator(".at").get_attribute("data-value") == f"{value}_ct"
    page.keyboard.press("Escape")
    assert page.locator(".value, .adjoint, .at").count() == 0
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()


def test_memory_is_part_of_the_way(page: Page) -> None:
    box = page.locator("section.memory rect").first
    value = box.get_attribute("data-value")
    box.scroll_into_view_if_needed()
    box.click()
    assert "plan" in marked(page, "value")
    assert page.locator(f"rect.value[data-value={value}]").count() == 1


def test_light_and_dark(browser: Browser, file: Path) -> None:
    backgrounds = []
    for scheme in ("light", "dark"):
        page = browser.new_page(color_scheme=scheme)
        page.goto(file.as_uri())
        backgrounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.close()
    assert backgrounds[0] == "rgb(255, 255, 255)"
    assert backgrounds[1] != backgrounds[0]


def test_on_paper_columns_follow_each_other(page: Page) -> None:
    page.emulate_media(media="print")
    tops = page.eval_on_selector_all(
        "section.python, section.stage",
        "all => all.map(s => [s.getBoundingClientRect().left, s.getBoundingClientRect().top])",
    )
    assert {left for left, _ in tops} == {0}
    assert [top for _, top in tops] == sorted(top for _, top in tops)
    assert not page.locator("#search").is_visible()
    sheets = page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n")
    assert 1 <= sheets <= 12


def test_a_large_program_makes_a_page_that_can_be_sent() -> None:
    """Some 200 operations as traced, and a dozen passes that change something."""

    @tapec.compile
    def deep(x: tapec.Tensor) -> tapec.Tensor:
        with tapec.GradientTape() as tape:
            tape.watch(x)
            y = x
            for i in range(40):
                y = tapec.tanh(y * float(i + 2)) + x
            loss = tapec.reduce_sum(y)
        found: tapec.Tensor = tape.gradient(loss, x)
        return found

    module = deep.trace(tapec.ones([8, 16]))
    assert 190 <= sum(1 for _ in module.walk()) <= 220
    text = module.html()
    data = json.loads(text.split('type="application/json">')[1].split("</script>")[0])
    assert sum(stage["changed"] for stage in data["stages"]) >= 8
    assert len(text.encode()) < 1_000_000
