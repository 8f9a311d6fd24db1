"""Points that need more memory than an NPU has: marked, counted, left out, brought back, refused by
constraints."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from conftest import Armillary
from frames import framed

import armillary as arm
from armillary.errors import InputError
from armillary.sweep import Sweep, check, load
from armillary.sweep.out_of_memory import points_out_of_memory
from armillary.sweep.page import verdict
from armillary.workload import build, needed_memory

pytestmark = pytest.mark.usefixtures("workers_in_copies")

CAPACITY = 12e9


def study(**changes: object) -> dict[str, Any]:
    """Eight points, of which those with little tensor parallelism and without recomputation don't
    fit."""
    found: dict[str, Any] = {
        "name": "memory",
        "workload": {
            "model": "megatron-1.7b",
            "options": {"global_batch": 32, "seq": 2048, "micro_batch": 4},
        },
        "platform": {"file": "dgx-h100", "settings": {"npu.memory.capacity": "12 GB"}},
        "parameters": {
            "workload.tp": [1, 2, 4, 8],
            "workload.dp": [1, 2, 4, 8],
            "workload.recompute": ["none", "full"],
        },
        "constraints": ["tp * dp == npus"],
    }
    found["platform"]["npus"] = 8
    return {**found, **changes}


@pytest.fixture(scope="module")
def found() -> Sweep:
    return arm.sweep(study(), workers=1)


def test_what_fits_is_what_the_report_does_not_warn_of(found: Sweep) -> None:
    table = found.table
    assert (table.height, found.failed) == (8, 0)
    assert table["memory_capacity_bytes"].unique().to_list() == [CAPACITY]
    for row in table.iter_rows(named=True):
        chosen = {name: row[f"workload.{name}"] for name in ("tp", "dp", "recompute")}
        workload = build("megatron-1.7b", **study()["workload"]["options"], **chosen)
        report = arm.simulate(
            workload, arm.Platform.load("dgx-h100", {"npu.memory.capacity": "12 GB"})
        ).report
        warned = any("does not fit" in warning for warning in report["warnings"])
        assert (row["fits"] == "no") == warned == (row["memory_bytes"] > 1.05 * CAPACITY)
        assert (row["fits"] == "yes") == (row["memory_bytes"] <= 0.95 * CAPACITY)
        assert row["fits"] == report["fits"]
        assert (
            needed_memory("megatron-1.7b", **study()["workload"]["options"], **chosen)
            == row["memory_bytes"]
        )
    assert 0 < found.infeasible < table.height
    assert found.infeasible == (table["fits"] == "no").sum()


def test_what_does_not_fit_is_recommended_nowhere(found: Sweep) -> None:
    fitting = found.table.filter(pl.col("fits") == "yes").sort("step_time_ns")
    assert found.table.sort("step_time_ns")["fits"][0] == "no"
    assert found.best()["index"].to_list() == fitting["index"].to_list()
    assert (
        found.best(3, include_infeasible=True)["index"][0] == found.table["step_time_ns"].arg_min()
    )
    view = found.view()
    assert sorted(view.ran["index"]) == sorted(fitting["index"])
    charts = {figure.name: figure for figure in found.page().figures()}
    kept = set(fitting["index"])
    assert {row["point"] for row in charts["parallel"].records()} == kept  # type: ignore[union-attr]
    assert {row["point"] for row in charts["pareto"].records()} <= kept  # type: ignore[union-attr]
    cells = charts["heat-map"].records()  # type: ignore[union-attr]
    first = [row for row in cells if row["pair"] == cells[0]["pair"]]
    assert (sum(row["points"] for row in first), sum(row["do not fit"] for row in first)) == (
        fitting.height,
        found.infeasible,
    )
    assert min(row["step time (ms)"] for row in cells if row["points"]) == pytest.approx(
        fitting["step_time_ns"][0] / 1e6, rel=1e-5
    )
    assert any(row["step time (ms)"] is None for row in cells)


def test_what_does_not_fit_comes_back_marked(found: Sweep) -> None:
    page = found.page(include_infeasible=True)
    charts = {figure.name: figure for figure in page.figures()}
    for name in ("parallel", "pareto"):
        marks = {
            row["memory"]
            for row in charts[name].records()  # type: ignore[union-attr]
            if row["point"] not in set(found.best()["index"])
        }
        assert marks == {"does not fit in memory"}
    table = page.sections[0].parts[0]
    assert table.columns[-1] == "fits"  # type: ignore[union-attr]
    assert [row[-1] for row in table.rows].count("no") == found.infeasible  # type: ignore[union-attr,index]
    assert "included here" in page.verdict


def test_the_page_says_how_many_why_and_what_would_fit(found: Sweep) -> None:
    out = points_out_of_memory(found.view())
    assert out is not None
    best, instead = found.table.sort("step_time_ns").row(0, named=True), out.instead
    assert instead is not None
    assert out.best == best
    names = ("workload.tp", "workload.dp", "workload.recompute")

    def changed(row: dict[str, Any]) -> int:
        return sum(row[name] != best[name] for name in names)

    least = min(
        found.table.filter(pl.col("fits") == "yes").iter_rows(named=True),
        key=lambda row: (changed(row), row["step_time_ns"]),
    )
    assert instead["index"] == least["index"]
    page = found.page()
    text = " ".join(page.warnings)
    assert f"{found.infeasible} of 8 points do not fit in memory" in text
    assert f"(point {least['index']}, " in text
    assert "of an NPU's 12.00 GB" in text
    assert page.verdict.startswith(f"The best step time is {found.page().facts[0].value}: point ")
    assert f"{found.infeasible} of 8 points don't fit" in page.verdict
    assert "Points that do not fit" in [section.title for section in page.sections]


def test_where_nothing_fits_that_is_said() -> None:
    tight = study(constraints=["tp * dp == npus"])
    tight["platform"] = {**tight["platform"], "settings": {"npu.memory.capacity": "1 GB"}}
    found = arm.sweep(tight, workers=1)
    assert (found.infeasible, found.best().height) == (8, 0)
    closest = found.table.sort("memory_bytes", "index")["index"][0]
    text = str(points_out_of_memory(found.view()))
    assert text.startswith(
        f"None of the 8 points fits in memory. Closest is point {closest}, which needs "
    )
    assert "None of the 8 points fits in memory." in found.html()
    assert "Best first" in found.html(include_infeasible=True)


@pytest.fixture(scope="module")
def close() -> Sweep:
    """The study on NPUs whose memory is 2 % less than its fastest point needs."""
    free = arm.sweep(study(), workers=1).table
    needed = free.sort("step_time_ns")["memory_bytes"][0]
    tight = study()
    tight["platform"] = {
        **tight["platform"],
        "settings": {"npu.memory.capacity": f"{int(needed / Decimal('1.02'))} B"},
    }
    return arm.sweep(tight, workers=1)


def test_a_near_point_is_first_only_where_that_is_asked_for(close: Sweep) -> None:
    fastest = close.table.sort("step_time_ns").row(0, named=True)
    assert (fastest["fits"], close.near) == ("near", (close.table["fits"] == "near").sum())
    assert close.best(1)["fits"][0] == "yes"
    assert close.best(1, near=True)["index"][0] == fastest["index"]
    said = " ".join(close.page().warnings)
    assert f"Point {fastest['index']} would be the best (" in said
    assert "--near keeps them" in said
    shown = close.page(near=True)
    assert f"point {fastest['index']}," in shown.verdict
    assert "near" in {row[-1] for row in shown.sections[0].parts[0].rows}  # type: ignore[union-attr, index]


def test_the_command_names_the_near_point(
    armillary: Armillary, tmp_path: Path, close: Sweep
) -> None:
    tight = study()
    capacity = close.table["memory_capacity_bytes"][0]
    tight["platform"] = {
        **tight["platform"],
        "settings": {"npu.memory.capacity": f"{capacity} B"},
    }
    path = tmp_path / "close.yml"
    path.write_text(yaml.safe_dump(tight, sort_keys=False))
    fastest = int(close.table.sort("step_time_ns")["index"][0])
    for more, best in (((), int(close.best(1)["index"][0])), (("--near",), fastest)):
        ran = armillary(
            "sweep", str(path), "-o", str(tmp_path / f"r{len(more)}"), "--json", "-", *more
        )
        summary = json.loads(ran.stdout)
        assert (summary["best"], summary["near_best"]) == (best, fastest)


def test_memory_is_a_constraint_before_anything_runs(found: Sweep) -> None:
    limited = arm.sweep(study(constraints=["tp * dp == npus", 'memory <= "12 GB"']), workers=1)
    kept = found.table.filter(pl.col("fits") == "yes")
    assert limited.refused == found.refused + found.infeasible
    names = ["workload.tp", "workload.dp", "workload.recompute", "step_time_ns", "memory_bytes"]
    assert limited.table.select(names).equals(kept.select(names))
    assert limited.infeasible == 0
    assert check(study(constraints=["tp * dp == npus", "memory < 1000"]))[0].message.startswith(
        "the constraints leave 0"
    )


def test_memory_of_traces_is_what_their_maker_says(tmp_path: Path) -> None:
    build("megatron-1.7b", tp=8, global_batch=8).write(tmp_path / "w")
    memory = needed_memory("megatron-1.7b", tp=8, global_batch=8)
    spec = {
        "platform": "dgx-h100",
        "parameters": {"platform.scheduler.chunks": [1, 2]},
        "workload": "w",
    }
    for limit, points in ((memory, 2), (memory - 1, 0)):  # type: ignore[operator]
        path = tmp_path / "s.yml"
        path.write_text(yaml.safe_dump({**spec, "constraints": [f"memory <= {limit}"]}))
        wrong = check(path)
        assert len(wrong) == (0 if points else 1), wrong


def test_memory_is_an_objective() -> None:
    searched = study(search={"kind": "grid", "minimize": ["memory", "step_time_ns"]})
    found = arm.sweep(searched, workers=1)
    assert found.objectives == (("memory_bytes", False), ("step_time_ns", False))
    assert found.best(1)["memory_bytes"][0] == found.table["memory_bytes"].min()
    assert found.view().objective.label == "memory (GB)"
    problems = check(study(search={"kind": "grid", "minimize": ["memory", "memory_bytes"]}))
    assert "is there twice" in str(problems[0])


def test_points_of_other_batches_are_ranked_by_samples() -> None:
    grown = study()
    grown["parameters"] = {"workload.global_batch": [32, 64], "workload.tp": [8]}
    grown["constraints"] = []
    grown["workload"] = {"model": "megatron-1.7b", "options": {"seq": 2048}}
    found = arm.sweep(grown, workers=1)
    assert found.objectives == (("samples_per_s", True),)
    assert found.best(1)["workload.global_batch"][0] == 64
    assert found.table["step_time_ns"].arg_min() == 0


def test_a_spilling_platform_fits() -> None:
    spilling = study(constraints=["tp * dp == npus"])
    spilling["platform"] = {
        "file": "dgx-h100",
        "npus": 8,
        "settings": {
            "npu.memory.capacity": "12 GB",
            "npu.memory.on_overflow": "spill",
            "remote_memory": "{bandwidth: 64 GB/s, latency: 1 us, sharing: per_npu}",
        },
    }
    found = arm.sweep(spilling, workers=1)
    assert (found.table.filter(pl.col("error").is_null())["fits"] == "yes").all()


def test_optuna_learns_what_fits() -> None:
    pytest.importorskip("optuna")
    searched = study(
        constraints=[],
        parameters={
            "workload.recompute": ["none", "full"],
            "workload.micro_batch": [1, 2, 4, 8, 16, 32],
        },
        search={"kind": "optuna", "points": 24, "minimize": "step_time_ns", "batch": 4},
    )
    searched["workload"] = {
        "model": "megatron-1.7b",
        "options": {"global_batch": 128, "tp": 4, "dp": 2},
    }
    found = arm.sweep(searched, workers=1)
    late = found.table.tail(8)
    assert found.infeasible > 0
    assert (late["fits"] == "yes").sum() > (found.table.head(8)["fits"] == "yes").sum()


def test_the_console_leaves_them_out_and_brings_them_back(
    armillary: Armillary, tmp_path: Path, found: Sweep
) -> None:
    path = tmp_path / "memory.yml"
    path.write_text(yaml.safe_dump(study(), sort_keys=False))
    ran = armillary("sweep", path, "-o", tmp_path / "r", "--json", tmp_path / "s.json")
    assert ran.returncode == 0
    assert f"{found.infeasible} of 8 points do not fit in memory." in ran.stdout
    assert "--include-infeasible keeps them" in ran.stdout
    best = found.best()["index"].to_list()
    rows = [
        line.split()
        for line in ran.stdout.splitlines()
        if line.split()[:1] and line.split()[0].isdigit()
    ]
    shown = [int(row[0]) for row in rows if row[1:2] != ["of"]]
    assert shown == best[:5]
    summary = json.loads((tmp_path / "s.json").read_text())
    assert (summary["infeasible"], summary["best"]) == (found.infeasible, best[0])
    page = armillary("report", tmp_path / "r", "-o", "-", "--include-infeasible")
    assert page.stdout == load(tmp_path / "r").html(include_infeasible=True)
    assert (
        verdict(found.view(), points_out_of_memory(found.view()))
        in (tmp_path / "r/report.html").read_text()
    )


def test_a_table_without_the_column_is_as_before() -> None:
    """Of an earlier version: nothing is known of what fits."""
    drawn = random.Random(1)
    frame = pl.DataFrame(
        {"index": [0, 1], "x": [1, 2], "step_time_ns": [drawn.random(), 1.0], "error": [None, None]}
    )
    seen = Sweep("x", framed(frame), 0, 0)
    assert (seen.infeasible, seen.view().unknown) == (0, 2)


def test_a_workload_of_unknown_memory_has_no_such_constraint(tmp_path: Path) -> None:
    import toy_studies

    path = toy_studies.write(tmp_path, toy_studies.study(constraints=['memory <= "1 GB"']))
    with pytest.raises(InputError, match="memory that this workload needs is unknown"):
        arm.sweep(path)
