"""The page in a real headless Chromium: no errors, plots there, tables that sort and filter, no overflow."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright import sync_api

from frontier_oracle.reports.report import report

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = (os.environ.get("CHROMIUM", "chromium"), "chromium-browser", "google-chrome")
BROWSER = next((path for name in NAMES if (path := shutil.which(name))), None)

REMEDY = "install Chromium (apt install chromium), or name one with CHROMIUM=/path/to/it"
pytestmark = pytest.mark.skipif(BROWSER is None, reason=f"no Chromium: {REMEDY}")


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with long names, many rows, hostile text, and every kind of plot."""
    folder = tmp_path_factory.mktemp("browser")
    rng = np.random.default_rng(0)
    rows = []
    for r in range(40):
        at = 1
        for n in range(60):
            length = int(min(rng.geometric(0.4), 6))
            rows.append({"request_id": f"request-{r}-" + "with-a-very-long-name" * 3, "round": n, "al_raw": length,
                         "al_committed": length, "drafted": 5, "out_pos": at, "ctx_len": at + 90,
                         "category": "<b onmouseover=alert(1)>x</b>" if r % 2 else "plain"})  # fmt: skip
            at += length
    (folder / "rounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + "broken\n")
    files = [folder / "rounds.jsonl", *sorted(FIXTURES.glob("*.jsonl")), FIXTURES / "vllm_server.log"]
    return report(files, folder / "out", draft_cost=0.05).html


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        instance = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield instance
        instance.close()


@pytest.fixture
def opened(browser: Any, page_file: Path) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", lambda dialog: messages.append(f"dialog {dialog.message}"))
    page.on("request", lambda request: messages.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(page_file.as_uri())
    yield page
    assert messages == []
    context.close()


@pytest.mark.parametrize("width", [390, 820, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_overflow_and_readable_colours(opened: Any, width: int, scheme: str) -> None:
    opened.set_viewport_size({"width": width, "height": 900})
    opened.emulate_media(color_scheme=scheme)
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    ink, paper = opened.evaluate(
        "(() => { const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]; })()"
    )
    light = [sum(int(part) for part in colour.strip("rgb()").split(",")[:3]) / 765 for colour in (ink, paper)]
    assert abs(light[0] - light[1]) > 0.6 and (light[1] > 0.5) is (scheme == "light")
    stroke = opened.evaluate("getComputedStyle(document.querySelector('#input-0 figure svg text')).fill")
    assert stroke == ink, "plots take the page's ink"


def test_plots_are_there_and_have_a_size(opened: Any) -> None:
    sizes = opened.evaluate(
        "[...document.querySelectorAll('#input-0 figure svg')].map(s => [s.clientWidth, s.clientHeight])"
    )
    assert len(sizes) == 5 and all(w > 200 and h > 80 for w, h in sizes)
    labels = opened.evaluate(
        "[...document.querySelectorAll('figure [role=img]')].map(d => d.getAttribute('aria-label'))"
    )
    assert all(labels)


def values(page: Any, column: int) -> list[str]:
    found: list[str] = page.evaluate(
        f"[...document.querySelectorAll('#overview-means-table tbody tr:not([hidden])')]"
        f".map(r => r.cells[{column}].dataset.value ?? r.cells[{column}].textContent)"
    )
    return found


def test_tables_sort_by_number_with_empty_cells_last(opened: Any) -> None:
    head = opened.locator("#overview-means-table thead th").nth(5)
    for direction in ("ascending", "descending"):
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == direction
        cells = values(opened, 5)
        filled = [float(cell) for cell in cells if cell]
        assert filled == sorted(filled, reverse=direction == "descending") and len(filled) > 3
        assert cells[: len(filled)] == [cell for cell in cells if cell]


def test_tables_sort_by_keyboard(opened: Any) -> None:
    button = opened.locator("#overview-means-table thead th").first.get_by_role("button")
    button.focus()
    opened.keyboard.press("Enter")
    ascending = values(opened, 0)
    opened.keyboard.press("Enter")
    assert values(opened, 0) == ascending[::-1] and ascending[0].lower() < ascending[-1].lower()
    assert opened.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_tables_filter(opened: Any) -> None:
    field = opened.get_by_label("Filter rows of All inputs")
    field.fill("SGLANG")
    assert values(opened, 0) and all("sglang" in name for name in values(opened, 0))
    assert "of" in opened.locator("#overview-means .filter output").inner_text()
    field.fill("")
    assert len(values(opened, 0)) > 10


def test_the_skip_link_is_first_and_works(opened: Any) -> None:
    opened.keyboard.press("Tab")
    assert opened.evaluate("document.activeElement.className") == "skip"
    opened.keyboard.press("Enter")
    assert opened.url.endswith("#main")


def test_hostile_text_is_text(opened: Any) -> None:
    assert opened.evaluate("document.querySelectorAll('b, img').length") == 0
    assert opened.get_by_text("<b onmouseover=alert(1)>x</b>").count() > 0


def test_it_prints(opened: Any, tmp_path: Path) -> None:
    opened.emulate_media(media="print")
    assert opened.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert opened.pdf(path=tmp_path / "page.pdf")[:5] == b"%PDF-"
