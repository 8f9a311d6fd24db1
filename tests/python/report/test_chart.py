from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import browser
import polars as pl
import pytest
import vl_convert
from playwright.sync_api import Browser

from armillary.errors import InputError
from armillary.report import viewer
from armillary.report.chart import WIDTH, Chart, Row
from armillary.report.page import Drawing, Fact, Page, Part, Section, Table, write_figures

SVG = "{http://www.w3.org/2000/svg}"
BARS: dict[str, Any] = {
    "mark": "bar",
    "encoding": {
        "x": {"field": "share", "type": "quantitative"},
        "y": {"field": "ranks", "type": "nominal"},
    },
}
ROWS = [{"ranks": "0-31", "share": 0.25}, {"ranks": '32-63, "b"', "share": 0.5, "note": "a,b"}]


def bars(rows: Sequence[Row] | pl.DataFrame = ROWS, spec: dict[str, Any] = BARS) -> Chart:
    return Chart("bars", "Shares", rows, spec)


def marks(svg: str) -> list[str]:
    """Bars as SVG paths, in the order of the rows."""
    return [
        path.get("d", "")
        for path in ElementTree.fromstring(svg).iter(f"{SVG}path")
        if path.get("aria-roledescription") == "bar"
    ]


def test_svg_has_a_mark_a_row_as_long_as_its_number() -> None:
    lengths = [float(path.split("h")[1].split("v")[0]) for path in marks(bars().svg())]
    assert len(lengths) == 2
    assert lengths[1] == pytest.approx(2 * lengths[0])


def test_same_chart_same_bytes() -> None:
    assert bars().svg() == bars().svg()
    assert bars().png() == bars().png()


def test_without_a_width_it_is_as_wide_as_a_page() -> None:
    root = ElementTree.fromstring(bars().svg())
    assert float(root.get("width", 0)) == WIDTH
    assert bars().is_fluid()


@pytest.mark.parametrize("more", [{"width": 100}, {"facet": {"field": "ranks"}}])
def test_a_width_or_a_composition_is_kept(more: dict[str, Any]) -> None:
    chart = bars(spec={**BARS, **more})
    assert not chart.is_fluid()
    assert "autosize" not in chart.vega_lite()


def test_png_is_twice_as_wide() -> None:
    header = bars().png()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(header[16:20], "big") == 2 * WIDTH


def test_csv_holds_every_row_and_column() -> None:
    rows = list(csv.DictReader(io.StringIO(bars().csv())))
    assert rows == [
        {"ranks": "0-31", "share": "0.25", "note": ""},
        {"ranks": '32-63, "b"', "share": "0.5", "note": "a,b"},
    ]


def test_frames_are_rows() -> None:
    frame = pl.DataFrame({"ranks": ["a", "b"], "share": [1.0, 2.0]})
    assert bars(frame).svg() == bars(frame.to_dicts()).svg()
    assert bars(frame).csv() == "ranks,share\na,1.0\nb,2.0\n"


def test_figures_as_files(tmp_path: Path) -> None:
    drawing = Drawing(
        "box", "A box", '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="5"/>'
    )
    written = write_figures(tmp_path / "figures", [bars(), drawing])
    assert written == ["bars.csv", "bars.png", "bars.svg", "box.png", "box.svg"]
    assert (tmp_path / "figures/bars.svg").read_text(encoding="utf-8") == bars().svg()
    with pytest.raises(InputError, match="can't be written"):
        write_figures("/dev/null/figures", [bars()])


def test_viewer_is_kept_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "vegaEmbed" in viewer.script()
    # Making the real one takes a second.
    monkeypatch.setattr(vl_convert, "javascript_bundle", lambda *_, **__: "made")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    viewer.script.cache_clear()
    made = viewer.script()
    assert made.endswith("*/\nmade")
    (kept,) = (tmp_path / "armillary").iterdir()
    assert made.endswith(kept.read_text(encoding="utf-8"))
    kept.write_text("kept", encoding="utf-8")
    viewer.script.cache_clear()
    assert viewer.script().endswith("*/\nkept")
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    viewer.script.cache_clear()
    assert viewer.script() == made
    viewer.script.cache_clear()


UNFIT = "\x1b[31m\0\x07\x9b\u202e\ufffe\uffff\ud800"


def test_names_that_no_drawing_can_hold_are_cleaned() -> None:
    """Each of these characters alone ended the process."""
    chart = Chart(
        "bars", f"Title {UNFIT}", [{"ranks": UNFIT, "share": 0.5, f"more{UNFIT}": 1}], BARS
    )
    assert r"\x1b[31m" in chart.svg()
    assert chart.png().startswith(b"\x89PNG")
    assert not set(UNFIT) - set("[31m") & set(
        chart.svg() + json.dumps(chart.vega_lite(), ensure_ascii=False)
    )


def test_a_page_holds_no_such_character_either(tmp_path: Path) -> None:
    chart = Chart("bars", UNFIT, [{"ranks": UNFIT, "share": 0.5}], BARS, UNFIT)
    parts: list[Part] = [UNFIT, chart, Table(UNFIT, [UNFIT], [[UNFIT]], UNFIT)]
    page = Page(
        UNFIT, [Section(UNFIT, parts)], UNFIT, [Fact(UNFIT, UNFIT, UNFIT)], [UNFIT], UNFIT, UNFIT
    )
    page.write(tmp_path / "page.html")
    assert not set(UNFIT) - set("[31m") & set((tmp_path / "page.html").read_text(encoding="utf-8"))


def test_formulas_are_texts_in_csv() -> None:
    chart = bars([{"ranks": "=1+2", "share": -0.5}, {"ranks": "@x", "share": 1}])
    assert chart.csv() == "ranks,share\n'=1+2,-0.5\n'@x,1\n"


LIMITED = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (16 << 30, resource.RLIM_INFINITY))
from armillary.report.chart import Chart
from armillary.report.page import Page, Section, write_figures
x = {"field": "a", "type": "quantitative"}
chart = Chart("bars", "Bars", [{"a": 1}], {"mark": "bar", "encoding": {"x": x}})
Page("Title", [Section("Bars", [chart])]).write(sys.argv[1])
print(write_figures(Path(sys.argv[1]).parent / "figures", [chart]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds a process to RLIMIT_AS")
def test_under_a_limit_on_addresses_charts_are_left_to_the_reader(
    tmp_path: Path, running: Browser
) -> None:
    """Without room for V8's address space drawing ended the process, after all the work."""
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED, tmp_path / "page.html"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, "['bars.csv']\n")
    assert [
        line.split("RuntimeWarning: ")[1][:20]
        for line in ran.stderr.splitlines()
        if "Warning" in line
    ] == ["charts are not drawn"] * 2
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("ulimit -v") == 1
    with browser.visit(running, tmp_path / "page.html") as seen:
        assert seen.complaints == []
        assert seen.page.locator("#bars .live path[aria-roledescription=bar]").count() == 1
