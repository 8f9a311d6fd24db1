"""Charts of pages use their area, and a page has no chart whose bars are all equal."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Armillary

from armillary.explain.backend_comparison import Rung, page
from armillary.report import names, planner
from armillary.report.chart import Chart, wrapping
from armillary.report.page import Table

PLAN: dict[str, Any] = {
    "model": "dlrm-small",
    "platform": "dgx-a100",
    "ranks": 4,
    "ranks_per_node": 4,
    "unit": "s",
    "greatest_load": 1e-3,
    "lowest_load": 1e-3,
    "lower_bound": 1e-3,
    "step_ns": None,
    "backend": None,
    "by_costs": "no simulation was asked for",
    "compared": [],
    "warnings": [],
    "gap": 0.0,
    "imbalance": 1.0,
    "heuristics": {},
    "schemes": {"table": 4},
    "allowed_schemes": ["table"],
    "on_hosts": 0,
    "fits": "yes",
    "near_load": None,
    "on_disk": 0,
    "memory_bytes": [1e9, 2e9, 3e9, 4e9],
    "host_bytes": [0] * 4,
    "disk_bytes": [0] * 4,
    "dense_bytes": 0,
    "capacity_bytes": 40e9,
}


@pytest.mark.parametrize(
    ("loads", "said"),
    [
        ([1e-3] * 4, "All ranks have the same load."),
        ([1e-3, 1e-3, 1e-3, 1.008e-3], "The load of every rank is within 0.6% of the mean."),
        ([1e-3, 1e-3, 1e-3, 2e-3], None),
    ],
)
def test_a_plan_draws_loads_that_differ(loads: list[float], said: str | None) -> None:
    found, memory, *_ = planner.page({**PLAN, "loads": loads}).sections
    (part,) = found.parts
    assert (part if said else isinstance(part, Chart)) == (said or True)
    (chart,) = memory.parts
    assert isinstance(chart, Chart)
    assert [row["off"] for row in chart.records()] == pytest.approx([-0.6, -0.2, 0.2, 0.6])


def test_network_models_have_a_chart() -> None:
    """Parts of a bar add up to the step, in one unit."""
    rungs = [
        Rung(name, step, exposed, 0.1, 0.0, [], {}, [])
        for name, step, exposed in (("analytical", 2e6, 5e5), ("packet", 4e9, 1e9))
    ]
    chart = page(rungs, "title").sections[0].parts[0]
    assert isinstance(chart, Chart)
    assert {row["network"]: 0.0 for row in chart.records()} == {"analytical": 0, "packet": 0}
    packets = [row["time"] for row in chart.records() if row["network"] == "packet"]
    assert packets == [1.0, 3.0]
    assert "step, s" in str(chart.spec)


def test_a_title_has_no_path(armillary: Armillary, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/gpt-64", tmp_path / "gpt-64")
    run = armillary(
        *("compare", str(tmp_path / "gpt-64"), "-p", str(tmp_path / "gpt-64/platform.yml")),
        *("--groups", str(tmp_path / "gpt-64/comm_group.json")),
        *("--backends", "analytical,link", "--report", "r.html"),
    )
    assert run.returncode == 0, run.stderr
    page_ = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<h1>gpt-64 on " in page_


def test_long_names_break_into_lines_and_are_not_cut() -> None:
    long = "what collectives must send beyond Switch(8), over all links of Switch(128)"
    axis, height = wrapping([long, "step"])
    assert axis["labelLimit"] == 0 and height["step"] > wrapping(["step"])[1]["step"]
    rows = [{"name": long, "x": 1}, {"name": "step", "x": 2}]
    y = {"field": "name", "type": "nominal", "axis": axis}
    x = {"field": "x", "type": "quantitative"}
    chart = Chart("c", "c", rows, {"mark": "bar", "height": height, "encoding": {"x": x, "y": y}})
    lines = re.findall("<tspan[^>]*>([^<]*)</tspan>", chart.svg())
    assert " ".join(lines[:2]).strip() == long or long in " ".join(lines)


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["/runs/a.json", "/runs/b.json"], ["a.json", "b.json"]),
        (["/runs/a/r.json", "/runs/b/r.json"], ["a/r.json", "b/r.json"]),
        (["a.json", "a.json"], ["a.json", "a.json"]),
        (["A", "B"], ["A", "B"]),
    ],
)
def test_runs_are_named_without_their_folders(paths: list[str], said: list[str]) -> None:
    assert names.files(paths) == said


def test_a_plan_of_equal_ranks_has_no_empty_sections_and_columns() -> None:
    """One section for two sentences, no table of a single plan, no column without a value."""
    equal = {**PLAN, "loads": [1e-3] * 4, "memory_bytes": [1e9] * 4}
    sections = {each.title: each for each in planner.page(equal).sections}
    assert list(sections) == ["Load and memory", "Plans and bounds"]
    for table in sections["Plans and bounds"].parts:
        assert isinstance(table, Table)
        assert all(table.columns)
        assert all(any(row[at] for row in table.rows) for at in range(len(table.columns)))
