"""The page of a run: every number a person would look for, in a real browser, small and at once."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import accessibility
import browser
import pytest
from conftest import ROOT
from playwright.sync_api import Browser
from thorough import THOROUGH, usually

import armillary as arm
from armillary.report import run_page
from armillary.report.chart import Chart
from armillary.report.page import Page, Table
from armillary.schema import GanttBar, Report
from armillary.workload import transformer

MEGABYTES = 2_000_000


def charts(page: Page) -> dict[str, Chart]:
    return {figure.name: figure for figure in page.figures() if isinstance(figure, Chart)}


def tables(page: Page) -> dict[str, Table]:
    parts = [part for section in page.sections for part in section.parts]
    return {part.caption: part for part in parts if isinstance(part, Table)}


def test_headline(report: Report) -> None:
    """1.572864 PFLOP on 64 NPUs in 48.731 ms: 504.3 TFLOP/s each, 51.0 % of 989; 128 samples of
    2,048 tokens. What runs would take 24.3655 ms at its peak."""
    page = run_page.page(report)
    facts = {fact.label: fact.value for fact in page.facts}
    assert page.title == "toy-gpt on dgx-h100-8n"
    assert facts["Step time"] == "48.73 ms"
    assert facts["Achieved"] == "504.3 TFLOP/s"
    assert facts["MFU"] == "51.0%"
    assert facts["HFU"] == "50.0%"
    assert facts["Samples/s"] == "2,626.7"
    assert facts["Tokens/s"] == "5,379,409"
    main = {fact.label for fact in page.facts if fact.main}
    assert main == {"Step time", "Tokens/s", "MFU", "HFU"}
    assert list(page.warnings) == report["warnings"]


def test_parts_of_every_class_are_drawn_and_sum_to_the_step(report: Report) -> None:
    rows = charts(run_page.page(report))["classes"].records()
    for item in report["classes"]:
        parts = [
            row["ns"]
            for row in rows
            if row["class"] == item["label"] or row["class"] == f"ranks {item['ranks']}"
        ]
        assert sum(parts) == pytest.approx(report["step_time_ns"])
    assert {row["part"] for row in rows} == {
        "compute",
        "exposed communication",
        "exposed remote memory",
        "idle",
    }


def test_layers_are_those_of_the_report(report: Report) -> None:
    detail = report["detail"]
    assert detail is not None
    rows = charts(run_page.page(report))["layers"].records()
    assert [row["layer"] for row in rows] == ["embedding", "layer0", "layer1", "step"]
    counts = [item["count"] for item in report["classes"]]
    for row in rows:
        found = [layer for layer in detail["layers"] if layer["layer"] == row["layer"]]
        total = sum(layer["exposed_comm_ns"] * counts[layer["rank_class"]] for layer in found)
        assert row["exposed_comm_ns"] == pytest.approx(
            total / sum(counts[layer["rank_class"]] for layer in found)
        )


def test_layers_stand_in_the_order_of_the_model(report: Report) -> None:
    """Stages list their own: 0 and 2 here, 1 and 3 there."""
    detail = report["detail"]
    assert detail is not None
    one = detail["layers"][0]
    names = (
        ["embedding", "layer0", "layer10", "layer2", "step"],
        ["layer1", "layer3", "head", "step"],
    )
    detail["layers"] = [
        {**one, "layer": name, "rank_class": i} for i, stage in enumerate(names) for name in stage
    ]
    rows = tables(run_page.page(report))["Layers of the model"].rows
    assert [row[0] for row in rows] == [
        "embedding",
        *(f"layer{i}" for i in (0, 1, 2, 3, 10)),
        "step",
        "head",
    ]
    assert [row[1] for row in rows][:3] == ["ranks 0-15", "ranks 0-15", "ranks 16-31"]
    assert rows[6][1] == "2 classes"


def test_of_very_many_layers_the_small_ones_are_one(report: Report) -> None:
    detail = report["detail"]
    assert detail is not None
    one = detail["layers"][0]
    detail["layers"] = [{**one, "layer": f"l{i}", "compute_ns": float(i)} for i in range(1000)]
    rows = charts(run_page.page(report))["layers"].records()
    assert len(rows) == 201
    assert rows[-1]["layer"] == "800 more"
    assert sum(row["compute_ns"] for row in rows) == pytest.approx(sum(range(1000)))


def test_many_classes_end_in_their_mean(report: Report) -> None:
    one, apart = report["classes"][0], report["step_time_ns"] / 500
    report["classes"] = [
        {**one, "ranks": str(i), "count": 1, "idle_ns": i * apart} for i in range(100)
    ]
    rows = charts(run_page.page(report))["classes"].records()
    rest = next(row for row in rows if row["class"] == "68 more classes" and row["part"] == "idle")
    assert rest["ns"] == pytest.approx(apart * sum(range(32, 100)) / 68)


def test_classes_that_hardly_differ_are_one_row(report: Report) -> None:
    one, apart = report["classes"][0], report["step_time_ns"] / 2e6
    report["classes"] = [
        {**one, "ranks": str(i), "count": 2, "idle_ns": i * apart} for i in range(100)
    ]
    rows = charts(run_page.page(report))["classes"].records()
    assert {row["class"] for row in rows} == {"ranks 0 and 99 more"}
    assert {row["npus"] for row in rows} == {200}
    assert [row["ns"] for row in rows if row["part"] == "idle"] == [pytest.approx(apart * 49.5)]


def test_over_time_there_is_a_row_a_bin_and_the_end(report: Report) -> None:
    detail = report["detail"]
    assert detail is not None
    rows = charts(run_page.page(report))["dimensions"].records()
    assert len(rows) == len(detail["activity"]["compute"]) + 1
    assert rows[1] == {"start_ns": 4194304.0, "1 Switch(8)": 0.5, "2 Ring(8)": 0.2}
    assert rows[-1]["start_ns"] == report["step_time_ns"]


def test_the_critical_path_has_its_sums(report: Report) -> None:
    found = tables(run_page.page(report))
    assert list(found["By kind"].rows[0]) == ["compute", "2", "18.00 ms", "36.9%"]
    assert [row[0] for row in found["By cause"].rows][:2] == ["last member", "dependency"]


def test_the_critical_path_fills_every_bin(report: Report) -> None:
    rows = charts(run_page.page(report))["critical_path"].records()
    for row in rows:
        assert sum(value for name, value in row.items() if name != "start_ns") == pytest.approx(
            1, abs=1e-4
        )


def test_operations_by_cost_with_their_share_of_all_ranks(report: Report) -> None:
    first, item = (
        tables(run_page.page(report))["Operations by cost"].rows[0],
        report["operations"][0],
    )
    assert first[0] == item["name"]
    assert first[3:5] == ["1.200 s", f"{1.2e9 / (64 * report['step_time_ns']):.1%}"]


def bar(start: float, end: float, kind: str, label: str) -> GanttBar:
    return {"start_ns": start, "end_ns": end, "kind": kind, "label": label}


def test_lanes_of_very_many_bars_are_drawn_with_fewer(report: Report) -> None:
    """Each lane keeps where it waits: only neighbours of one kind become one."""
    detail = report["detail"]
    assert detail is not None
    bars = [
        bar(10.0 * i, 10.0 * i + 9, "forward" if i % 100 < 50 else "backward", str(i))
        for i in range(1000)
    ]
    detail["gantt"] = [{"rank_class": 0, "label": f"stage {i}", "bars": bars} for i in range(20)]
    chart = charts(run_page.page(report))["gantt"]
    rows = [row for row in chart.records() if row["lane"] == "stage 3"]
    assert len(rows) == 150
    assert "drawn as one" in chart.note
    assert [row["kind"] for row in rows][:1] == ["forward"]
    assert all(before["end_ns"] <= after["start_ns"] for before, after in pairwise(rows))
    assert sum(row["end_ns"] - row["start_ns"] for row in rows) == 1000 * 9 + (1000 - 150)
    assert {row["kind"] for row in rows if row["start_ns"] % 1000 >= 500} == {"backward"}


@pytest.mark.parametrize(
    ("model", "family", "shown"),
    [
        ("llama-3-70b", "transformer", "llama-3-70b"),
        ("worker0_step_12.1694128201545.pt.trace.json", "recorded", "worker0_step_12 (recorded)"),
        ("rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz", "recorded", "rank-0 (recorded)"),
        ("/tmp/a.b/.json", "recorded", "/tmp/a.b/.json (recorded)"),
    ],
)
def test_titles_can_be_read(report: Report, model: str, family: str, shown: str) -> None:
    report["config"]["workload"]["summary"] |= {"model": model, "family": family}
    assert run_page.page(report).title == f"{shown} on dgx-h100-8n"


def test_without_a_summary_the_title_has_no_directories(report: Report) -> None:
    report["config"]["workload"] |= {"summary": None, "traces": "/data/of/someone/gpt-64"}
    assert run_page.page(report).title == "gpt-64 on dgx-h100-8n"


def test_labelled_classes_are_called_so(report: Report) -> None:
    for i, item in enumerate(report["classes"]):
        item["label"] = f"stage {min(i, 2)}"
    rows = tables(run_page.page(report))["By class of ranks"].rows
    assert [list(row[:2]) for row in rows] == [
        ["stage 0", "0-15"],
        ["stage 1", "16-31"],
        ["stage 2, ranks 32-47", "32-47"],
        ["stage 2, ranks 48-50,52-54,56-58,60-62", "48-50,52-54,56-58,60-62"],
    ]


def test_phases_and_links(report: Report) -> None:
    found = tables(run_page.page(report))
    assert [row[0] for row in found["Phases"].rows] == [item["name"] for item in report["phases"]]
    assert found["Busiest links"].rows[0][0] == "npu7 -> npu15 (dimension 2)"


def test_memory_over_time(report: Report) -> None:
    detail = report["detail"]
    assert detail is not None
    rows = charts(run_page.page(report))["memory_over_time"].records()
    assert len(rows) == 13
    start, *held = rows[3].values()
    assert start == pytest.approx(3 * detail["bin_ns"])
    assert held == [84.0, 79.0, 74.0, 69.0]


def test_without_detail_the_page_says_how_to_get_it(report: Report) -> None:
    report["detail"] = None
    page = run_page.page(report)
    assert {"classes", "phases", "memory"} == set(charts(page))
    assert "--report" in page.html()


def test_nothing_ran() -> None:
    empty = arm.workload.Program()
    empty.compute("nothing", [])
    workload = arm.workload.Workload.listed("idle", [empty], [0, 0], {})
    result = arm.simulate(
        workload, arm.Platform("SW(2)", bandwidth="1 GB/s", latency="1 us"), detail=True
    )
    page = run_page.page(result.report)
    assert {fact.label: fact.value for fact in page.facts}["Step time"] == "0"
    assert page.html()


EVIL = '</script><script>alert("x")</script>'


def hostile(report: Report) -> Report:
    """The same report with names that would break out of the page, or of its charts."""
    changed: Any = copy.deepcopy(report)
    for item in changed["classes"]:
        item["ranks"] = EVIL + item["ranks"]
    for item in [
        *changed["phases"],
        *changed["operations"],
        *changed["detail"]["critical_path"]["segments"],
    ]:
        item["name"] = EVIL
    changed["detail"]["layers"] = [
        {**item, "layer": f"{EVIL}.[0]'\"\\"} for item in changed["detail"]["layers"][:1]
    ]
    changed["detail"]["layer_phases"] = [
        {**item, "layer": EVIL, "pass_name": EVIL, "phase": f"{EVIL}'\"\\ {i}"}
        for i, item in enumerate(changed["detail"]["layer_phases"])
    ]
    changed["dimensions"] = [{**item, "name": "a.b[0]'\"\\"} for item in changed["dimensions"]]
    changed["config"]["platform"]["name"] = EVIL
    return changed  # type: ignore[no-any-return]


NARROW = 390


def look(
    running: Browser, path: Path, names: set[str], width: int = 1280, schemes: Sequence[str] = ()
) -> None:
    """No complaint, no request, marks in every chart, nothing wider than the window, also after it
    has become narrow. Contrast in these schemes."""
    with browser.visit(running, path, width) as seen:
        for now in dict.fromkeys([width, NARROW]):
            if now != width:
                browser.resize(seen, now)
            asked = schemes if now == width else ()
            assert accessibility.violations(seen.page, *asked) == []
            assert seen.complaints == []
            assert seen.requests == []
            assert seen.ask("document.documentElement.scrollWidth") == now
            assert set(seen.ask(LIVE)) == names  # type: ignore[call-overload]
            assert seen.ask(EMPTY) == []


LIVE = "[...document.querySelectorAll('figure[data-live]')].map(figure => figure.id)"
MARKS = ".role-mark > *"
EMPTY = f"""[...document.querySelectorAll('figure[data-live]')].filter(figure =>
    ['.drawn', '.live'].some(part => !figure.querySelector(part + " {MARKS}"))
).map(figure => figure.id)"""


@pytest.mark.parametrize("named", usually(["as hostile"], ["as usual", "as hostile"]))
def test_in_a_browser(named: str, report: Report, tmp_path: Path, running: Browser) -> None:
    """Both pages have the same charts and classes. Names of the hostile one are longer."""
    page = run_page.page(report if named == "as usual" else hostile(report))
    page.write(tmp_path / "r.html")
    look(running, tmp_path / "r.html", set(charts(page)), schemes=accessibility.SCHEMES)
    assert EVIL not in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_a_large_run_stays_small(tmp_path: Path, running: Browser) -> None:
    workload = transformer("gpt3-175b", tp=16, dp=64, global_batch=64)
    platform = arm.Platform.load("dgx-h100-16n", settings={"npus": 1024})
    html = arm.simulate(workload, platform, detail=True).html(tmp_path / "r.html", what_if=False)
    assert len(html.encode()) < MEGABYTES
    names = {"classes", "gantt", "layers", "layer_communication", "critical_path", "activity"}
    look(
        running,
        tmp_path / "r.html",
        names
        | {"layer_passes", "layer_delays", "phases", "dimensions", "queues"}
        | {"memory", "memory_over_time"},
        NARROW,
    )


def test_folded_and_not_the_page_is_the_same() -> None:
    platform = arm.Platform.load(ROOT / "examples/gpt-64/platform.yml")
    workload = arm.load(ROOT / "examples/gpt-64", platform)
    pages = [
        arm.simulate(workload, platform, detail=True, fold=fold).html(what_if=THOROUGH)
        for fold in (True, False)
    ]
    assert pages[0] == pages[1]
    assert len(pages[0].encode()) < MEGABYTES


def test_notebooks_show_where_the_time_goes(report: Report) -> None:
    shown = run_page.glance(report)
    assert "Step time 48.73 ms" in shown
    assert "<svg" in shown
    assert "<table" in shown
    assert "<script" not in shown
