from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import browser
import pytest
from playwright.sync_api import Browser

from armillary.errors import InputError
from armillary.report.chart import Chart
from armillary.report.page import Drawing, Fact, Page, Part, Section, Table

EVIL = '<script>alert("1 & 2")</script>'
BARS: dict[str, Any] = {
    "mark": "bar",
    "encoding": {
        "x": {"field": "ns", "type": "quantitative"},
        "y": {"field": "ranks", "type": "nominal"},
    },
}
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="9"><clipPath id="clip0"/><g '
    'clip-path="url(#clip0)"/></svg>'
)


def page(word: str = "x") -> Page:
    chart = Chart(
        "bars", f"Time of {word}", [{"ranks": word, "ns": 3}, {"ranks": "b", "ns": 4}], BARS, word
    )
    table = Table(word, [word, "NPUs"], [[word, "1"]], word)
    parts: list[Part] = [word, chart, Drawing("box", word, SVG), Drawing("box-2", word, SVG), table]
    return Page(word, [Section(word, parts)], word, [Fact("Step", word, word)], [word], word)


class Elements(HTMLParser):
    """Counts elements, their identifiers, and what is left open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.counts: dict[str, int] = {}
        self.open: list[str] = []
        self.identifiers: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.identifiers += [value or "" for name, value in attrs if name == "id"]
        if tag not in {"meta", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if not {"script", "style"} & set(self.open) else ""


def test_text_is_escaped_wherever_it_stands() -> None:
    tame, wild = Elements(page("x").html()), Elements(page(EVIL).html())
    assert wild.counts == tame.counts
    assert wild.text.count(EVIL) >= 9
    assert EVIL not in page(EVIL).html()


def test_it_is_well_formed_and_names_differ() -> None:
    seen = Elements(page().html())
    assert seen.open == []
    assert len(seen.identifiers) == len(set(seen.identifiers))
    assert 'clip-path="url(#box-2-clip0)"' in page().html()


def test_same_page_same_bytes() -> None:
    assert page().html() == page().html()


def test_tables_are_tables() -> None:
    html = page().html()
    assert "<caption>x</caption>" in html
    assert '<th class="label" scope="col">x</th><th scope="col">NPUs</th>' in html
    assert '<th class="label" scope="row">x</th><td>1</td>' in html


def test_without_charts_it_needs_no_viewer() -> None:
    assert len(Page("x", [Section("y", ["z"])]).html()) < 40_000


def test_an_unwritable_file_is_named() -> None:
    with pytest.raises(InputError, match="/dev/null/x"):
        page().write("/dev/null/x")


def test_in_a_browser(tmp_path: Path, running: Browser) -> None:
    file = tmp_path / "page.html"
    page(EVIL).write(file)
    for width in (1280, 390):
        with browser.visit(running, file, width) as seen:
            assert seen.complaints == []
            assert seen.requests == []
            assert seen.page.locator("#bars .live path[aria-roledescription=bar]").count() == 2
            assert seen.ask("document.documentElement.scrollWidth") == width
            check_downloads(seen, tmp_path)
    with browser.visit(running, file, scripts=False) as seen:
        bars = seen.page.locator("#bars .drawn path[aria-roledescription=bar]")
        assert bars.count() == 2
        assert bars.first.is_visible()


def check_downloads(seen: browser.Visit, folder: Path) -> None:
    for kind, start in (("SVG", b"<svg"), ("PNG", b"\x89PNG"), ("CSV", b"ranks,ns\n")):
        with seen.page.expect_download() as download:
            seen.page.locator("#bars .downloads button", has_text=kind).click()
        target = folder / f"bars.{kind.lower()}"
        download.value.save_as(target)
        assert download.value.suggested_filename == target.name
        assert target.read_bytes().startswith(start)
    (quoted,) = re.findall(
        r'"<script>.*</script>",3', (folder / "bars.csv").read_text(encoding="utf-8")
    )
    assert quoted == '"' + EVIL.replace('"', '""') + '",3'
