"""A timeline opened by Perfetto itself: its trace processor finds the report's sums, its interface
shows the tracks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import perfetto_ui
import pytest
from conftest import ROOT
from playwright.sync_api import Browser

import armillary as arm

_ARG = "EXTRACT_ARG(s.arg_set_id, 'debug.{}')"
_SLICES = f"""
    SELECT g.name AS grp, t.name AS track, s.name AS name, s.category AS category,
        s.ts AS ts, s.dur AS dur, {_ARG.format("start_ps")} AS start,
        {_ARG.format("duration_ps")} AS duration, s.parent_id AS parent
    FROM slice s JOIN track t ON s.track_id = t.id LEFT JOIN track g ON t.parent_id = g.id
"""
_FLOWS = f"""
    SELECT {_ARG.format("kind").replace("s.", "o.")} AS sent,
        {_ARG.format("kind").replace("s.", "i.")} AS received,
        {_ARG.format("node").replace("s.", "o.")} AS node,
        o.ts + o.dur AS ended, i.ts AS began, i.ts + i.dur AS over
    FROM flow f JOIN slice o ON f.slice_out = o.id JOIN slice i ON f.slice_in = i.id
"""


class Run(NamedTuple):
    """A timeline that is open, and what its run found."""

    ui: perfetto_ui.Interface
    result: arm.Result


@pytest.fixture(scope="module")
def ui(running: Browser) -> Iterator[perfetto_ui.Interface]:
    """One page for all traces."""
    with perfetto_ui.interface(running) as found:
        yield found


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, arm.Result]:
    """The demo's two classes of ranks: a pipeline of two stages, tensor and data parallel."""
    platform = arm.Platform.load(str(ROOT / "examples/gpt-64/platform.yml"))
    workload = arm.load(
        ROOT / "examples/gpt-64", platform, groups=ROOT / "examples/gpt-64/comm_group.json"
    )
    path = tmp_path_factory.mktemp("timeline") / "demo.pftrace"
    return path, arm.simulate(workload, platform, timeline=path, detail=True)


@pytest.fixture
def demo(ui: perfetto_ui.Interface, simulated: tuple[Path, arm.Result]) -> Run:
    """The demo's timeline."""
    path, result = simulated
    ui.show(path)
    return Run(ui, result)


def union(spans: list[tuple[int, int]]) -> int:
    total, until = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def test_perfetto_finds_no_fault(demo: Run) -> None:
    faults = demo.ui.ask(
        "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0"
    )
    assert faults == []
    assert demo.ui.faults == []


def test_busy_intervals_are_the_reports(demo: Run) -> None:
    slices = demo.ui.ask(_SLICES)
    report = demo.result.report
    busy = [0.0] * len(report["dimensions"])
    for row in report["classes"]:
        name = {"0-31": "ranks 00-31 (32)", "32-63": "ranks 32-63 (32)"}[row["ranks"]]
        states = {
            state: sum(s["duration"] for s in slices if s["track"] == name and s["name"] == state)
            / 1e3
            for state in (
                "compute",
                "exposed communication",
                "exposed remote memory",
                "exposed local memory",
            )
        }
        assert states["compute"] == row["compute_ns"]
        assert states["exposed communication"] == row["exposed_comm_ns"]
        assert states["exposed remote memory"] == row["exposed_remote_ns"]
        assert states["exposed local memory"] == row["exposed_local_ns"]
        tracks: dict[str, list[tuple[int, int]]] = {}
        for s in slices:
            if s["grp"] == name:
                tracks.setdefault(s["track"], []).append((s["start"], s["start"] + s["duration"]))
        assert union(tracks["compute"]) / 1e3 == row["compute_ns"]
        assert union(tracks["communication"]) / 1e3 == row["comm_ns"]
        for dim, dimension in enumerate(report["dimensions"]):
            busy[dim] += (
                union(tracks.get(f"dim {dim + 1} {dimension['name']}", [])) / 1e3 * row["count"]
            )
    assert [sum_ / report["ranks"] for sum_ in busy] == pytest.approx(
        [d["busy_ns"] for d in report["dimensions"]]
    )


def test_perfetto_s_times_are_the_exact_ones_in_whole_nanoseconds(demo: Run) -> None:
    slices = demo.ui.ask(_SLICES)
    assert len(slices) > 1000
    for s in slices:
        assert (s["ts"], s["ts"] + s["dur"]) == (
            s["start"] // 1000,
            (s["start"] + s["duration"]) // 1000,
        )
    assert all(s["parent"] is None for s in slices)  # what overlaps has lanes of its own


def test_flows_lead_from_sends_to_receives_and_on(demo: Run) -> None:
    flows = demo.ui.ask(_FLOWS)
    messages = [flow for flow in flows if flow["sent"] == "send" and flow["received"] == "recv"]
    sends = demo.ui.ask(f"SELECT COUNT(*) AS n FROM slice s WHERE {_ARG.format('kind')} = 'send'")[
        0
    ]["n"]
    assert len(messages) == sends > 0
    assert all(flow["ended"] <= flow["over"] for flow in messages)
    waits = [flow for flow in flows if flow not in messages]
    assert len(waits) > 100
    assert all(flow["ended"] <= flow["began"] for flow in waits)


def test_counters_are_the_report_s_activity(demo: Run) -> None:
    assert demo.result.report["detail"] is not None
    detail = demo.result.report["detail"]
    values = demo.ui.ask(
        "SELECT t.name AS name, c.ts AS ts, c.value AS value FROM counter c JOIN track t ON "
        "c.track_id = t.id "
        "JOIN track g ON t.parent_id = g.id WHERE g.name = 'all NPUs' ORDER BY ts"
    )
    compute = [(v["ts"], v["value"]) for v in values if v["name"] == "compute"]
    bins = list(enumerate(share * 100 for share in detail["activity"]["compute"]))
    changes = [(i, share) for i, share in bins if i == 0 or share != bins[i - 1][1]]
    expected = [(int(i * detail["bin_ns"]), share) for i, share in changes]
    assert compute == [*expected, (int(demo.result.step_time_ns), 0.0)]
    names = {v["name"] for v in values}
    used = [(i, d["name"]) for i, d in enumerate(demo.result.report["dimensions"]) if d["busy_ns"]]
    assert {name for name in names if name.startswith("using")} == {
        f"using dim {i + 1} {name}" for i, name in used
    }


def test_the_interface_shows_the_tracks(demo: Run) -> None:
    demo.ui.expand()
    text = demo.ui.page.inner_text("body")
    for name in ("all NPUs", "ranks 00-31 (32)", "compute", "communication", "dim 2 Ring(8)"):
        assert name in text
    assert demo.ui.faults == []


def test_ranks_of_a_pipeline_stand_in_order(ui: perfetto_ui.Interface, tmp_path: Path) -> None:
    platform = arm.Platform.load("dgx-a100", {"npus": "16"})
    workload = arm.workload.build("megatron-1.7b", tp=4, pp=4)
    path = tmp_path / "pipeline.pftrace"
    result = arm.simulate(workload, platform, timeline=path, fold=False, ranks=[12, 0, 4, 8])
    ui.show(path)
    lines = ui.page.inner_text("body").splitlines()
    assert list(dict.fromkeys(line for line in lines if line.startswith("rank "))) == [
        "rank 00",
        "rank 04",
        "rank 08",
        "rank 12",
    ]
    assert (
        ui.ask("SELECT COUNT(*) AS n FROM slice WHERE name = 'exposed communication'")[0]["n"] > 0
    )
    held = ui.ask(
        "SELECT MAX(c.value) AS most FROM counter c JOIN track t ON c.track_id = t.id JOIN "
        "track g ON t.parent_id = g.id WHERE t.name = 'memory held' GROUP BY g.name"
    )
    peaks = {row["peak_memory_bytes"] for row in result.report["classes"]}
    assert {row["most"] for row in held} == peaks != {0}
