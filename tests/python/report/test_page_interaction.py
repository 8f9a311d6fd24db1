"""What a reader does with a page: sort, filter, zoom, read in the dark, without a mouse, on paper,
without scripts.

Tests share visits, so they run on one worker, in the order of the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import accessibility
import browser
import pytest
from playwright.sync_api import Browser, Locator, expect
from playwright.sync_api import Page as Shown

from armillary.report.chart import Chart, zoomed
from armillary.report.page import Fact, Page, Part, Section, Table
from armillary.report.quantity import time

ROWS = 40
END = 100.0


def over_time(name: str) -> Chart:
    params, axis = zoomed("time, ms", "at", END)
    spec: dict[str, Any] = {
        "params": params,
        "height": 120,
        "mark": {"type": "line", "clip": True},
        "encoding": {"x": axis, "y": {"field": "share", "type": "quantitative"}},
    }
    return Chart(
        name, f"Shares {name}", [{"at": float(i), "share": i % 7} for i in range(101)], spec
    )


def picked(name: str) -> Chart:
    bind = {"input": "select", "options": ["a", "b"], "name": " "}
    rule = {"mark": "rule", "encoding": {"x": {"datum": 3}}}
    bars = {
        "mark": "bar",
        "encoding": {
            "x": {"field": "n", "type": "quantitative"},
            "y": {"field": "is", "type": "nominal"},
        },
    }
    spec = {"params": [{"name": "chosen", "value": "a", "bind": bind}], "layer": [bars, rule]}
    return Chart(name, "Bars", [{"is": "a", "n": 4}, {"is": "b", "n": 5}], spec)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a table of times whose text sorts otherwise than their values, and two charts of
    one time axis."""
    rows = [[f"layer{i}", time(10 ** (i % 10) * (1 + i / 100)), str(i)] for i in range(ROWS)]
    table = Table("Layers", ["Layer", "Time", "Count"], rows, shown=15)
    parts: list[Part] = [over_time("one"), over_time("two"), picked("bars"), table]
    page = Page(
        "A run",
        [Section("First", parts), Section("Second part", ["Text."])],
        "Lead.",
        [Fact("Step", "3 ms", main=True), Fact("Idle", "3%")],
        ["Mind the gap."],
        "End.",
        "Half of the step is communication.",
    )
    path = tmp_path_factory.mktemp("page") / "page.html"
    page.write(path)
    return path


@pytest.fixture(scope="module")
def light(running: Browser, file: Path) -> Iterator[browser.Visit]:
    with browser.visit(running, file) as seen:
        yield seen


@pytest.fixture(scope="module")
def dark(running: Browser, file: Path) -> Iterator[browser.Visit]:
    with browser.visit(running, file, scheme="dark") as seen:
        yield seen


@pytest.fixture
def shown(light: browser.Visit) -> Iterator[Shown]:
    """The page, which must not complain. All tests share one visit: each leaves the page as it was
    or does not care."""
    yield light.page
    assert light.complaints == []
    assert light.requests == []


def column(page: Shown, place: int) -> list[str]:
    cells = page.locator(f".table tbody tr:not([hidden]) > :nth-child({place})")
    return [text.strip() for text in cells.all_text_contents()]


def head(page: Shown, name: str) -> Locator:
    return page.get_by_role("columnheader", name=name)


def test_the_verdict_stands_below_the_title(shown: Shown) -> None:
    assert shown.locator("h1 + .verdict").text_content() == "Half of the step is communication."


def test_landmarks_and_ways_through_the_page(shown: Shown) -> None:
    """First, as the next press of a key begins where the last click was."""
    for role in ("banner", "navigation", "main", "contentinfo"):
        assert shown.get_by_role(role).count() == 1
    links = shown.get_by_role("navigation").get_by_role("link")
    assert links.all_text_contents() == ["First", "Second part"]
    for link in links.all():
        assert (
            shown.locator(str(link.get_attribute("href"))).get_by_role("heading", level=2).count()
            == 1
        )
    shown.keyboard.press("Tab")
    assert shown.evaluate("document.activeElement.textContent") == "Skip to the report"
    assert shown.locator("th:not([scope])").count() == 0


def test_numbers_sort_by_value_and_names_by_number(shown: Shown) -> None:
    head(shown, "Time").get_by_role("button").click()
    assert column(shown, 1)[:5] == ["layer39", "layer29", "layer19", "layer9", "layer38"]
    assert head(shown, "Time").get_attribute("aria-sort") == "descending"
    head(shown, "Time").get_by_role("button").click()
    assert column(shown, 1)[:3] == ["layer0", "layer10", "layer20"]
    head(shown, "Layer").get_by_role("button").click()
    assert column(shown, 1) == [f"layer{i}" for i in range(15)]
    head(shown, "Layer").get_by_role("button").click()
    head(shown, "Layer").get_by_role("button").click()
    assert head(shown, "Layer").get_attribute("aria-sort") is None


def test_all_rows_are_there(shown: Shown) -> None:
    assert len(column(shown, 1)) == 15
    shown.get_by_role("button", name=f"Show all {ROWS} rows").click()
    assert len(column(shown, 1)) == ROWS
    shown.get_by_role("button", name="Show 15 rows").click()
    assert len(column(shown, 1)) == 15


def test_rows_are_filtered_among_all(shown: Shown) -> None:
    shown.get_by_role("searchbox").fill("LAYER3")
    assert column(shown, 1) == ["layer3", *(f"layer{i}" for i in range(30, 40))]
    assert shown.get_by_role("status").text_content() == "11 of 40 rows"
    shown.get_by_role("searchbox").fill("")
    assert len(column(shown, 1)) == 15


def domain(page: Shown, name: str) -> list[float]:
    labels = page.locator(f"#{name} .live .role-axis-label").first.locator("text")
    return sorted(float(text) for text in labels.all_text_contents() if text)


def test_charts_of_one_axis_zoom_together_without_a_mouse(shown: Shown) -> None:
    whole = domain(shown, "two")
    shown.locator("#one").get_by_role("button", name="Zoom in on the time axis").press("Enter")
    expect(shown.locator("#two .live")).to_contain_text("30")
    assert domain(shown, "one") == domain(shown, "two") != whole
    shown.locator("#two").get_by_role("button", name="Later").press("Enter")
    expect(shown.locator("#one .live")).to_contain_text("90")
    shown.locator("#two").get_by_role("button", name="Show the whole time axis").press("Enter")
    expect(shown.locator("#one .live")).to_contain_text("20")
    assert domain(shown, "one") == whole


def test_a_dragged_range_is_zoomed_to(shown: Shown) -> None:
    drawing = shown.locator("#one .live svg")
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    shown.mouse.move(box["x"] + box["width"] * 0.5, y)
    shown.mouse.down()
    shown.mouse.move(box["x"] + box["width"] * 0.6, y, steps=4)
    shown.mouse.up()
    expect(shown.locator("#two .live")).not_to_contain_text("100")
    first, *_, last = domain(shown, "two")
    assert 40 < first < last < 65
    shown.locator("#two").get_by_role("button", name="Show the whole time axis").press("Enter")
    expect(shown.locator("#two .live")).to_contain_text("100")


def test_values_of_a_chart_can_be_read_as_a_table(shown: Shown) -> None:
    shown.locator("#bars").get_by_role("button", name="Values").press("Enter")
    table = shown.locator("#bars .values table")
    assert table.get_by_role("columnheader").all_text_contents() == ["is", "n"]
    assert table.locator("tbody tr").all_text_contents() == ["a4", "b5"]
    shown.locator("#bars").get_by_role("button", name="Values").press("Enter")
    expect(table).not_to_be_visible()


def background(page: Shown) -> str:
    return str(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))


LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 28)"
LABEL = "getComputedStyle(document.querySelector('#one .live .role-axis-label text')).fill"


def test_dark_by_system(dark: browser.Visit) -> None:
    assert background(dark.page) == DARK
    assert dark.ask(LABEL) == "rgb(228, 231, 235)"


def test_paper_is_white_and_has_no_buttons(dark: browser.Visit) -> None:
    dark.page.emulate_media(media="print")
    assert background(dark.page) == LIGHT
    assert not dark.page.get_by_role("button", name="SVG").first.is_visible()
    assert not dark.page.get_by_role("navigation").is_visible()
    assert dark.page.locator("#one .drawn svg").is_visible()
    assert not dark.page.locator("#one .live svg").is_visible()
    dark.page.emulate_media(media="screen")
    assert background(dark.page) == DARK


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_grave_for_a_checker(dark: browser.Visit, width: int) -> None:
    """Dark by the system here. Light and dark pages of runs are in `test_run_page.py`."""
    browser.resize(dark, width)
    assert accessibility.violations(dark.page, *(["dark"] if width == 1280 else [])) == []


def test_dark_by_button(dark: browser.Visit) -> None:
    """Last, as the page remembers the choice."""
    dark.page.get_by_role("button", name="Light mode").click()
    assert background(dark.page) == LIGHT
    assert dark.ask(LABEL) == "rgb(29, 29, 31)"
    dark.page.get_by_role("button", name="Dark mode").click()
    assert background(dark.page) == DARK


def test_only_its_own_scripts_run(running: Browser, file: Path, tmp_path: Path) -> None:
    """A script that escaping had let through would still not run: the policy names the page's own
    by their hashes."""
    bad = tmp_path / "bad.html"
    text = file.read_text(encoding="utf-8")
    bad.write_text(
        text.replace("<p>Text.</p>", "<script>document.title = 'bad'</script>"), encoding="utf-8"
    )
    with browser.visit(running, bad) as seen:
        assert seen.ask("document.title") == "A run"
        assert any("Content Security Policy" in each for each in seen.complaints)
    assert "unsafe-eval" not in text
    assert "script-src 'unsafe-inline'" not in text


def test_without_scripts_everything_can_be_read(running: Browser, file: Path) -> None:
    with browser.visit(running, file, scripts=False) as seen:
        assert seen.page.locator("#one .drawn svg").is_visible()
        assert seen.page.locator(".table tbody tr").count() == ROWS
        assert seen.page.locator(".table tbody tr").last.is_visible()
