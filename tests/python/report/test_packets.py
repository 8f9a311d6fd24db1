"""Packets in the report of a run: on the terminal, on its page, in a comparison."""

from __future__ import annotations

import json
from io import StringIO

import pytest

import armillary as arm
from armillary.api import collective_result
from armillary.explain.compare import compare
from armillary.report import packets, run_network
from armillary.report.breakdown import show
from armillary.report.page import Table
from armillary.report.reading import parse
from armillary.report.scale import Scale
from armillary.report.terminal import Terminal
from armillary.schema import Report


def incast_platform(**settings: str) -> arm.Platform:
    """Eight NPUs at a switch; `settings` are those of packets."""
    more = {f"network.packet.{key}": value for key, value in settings.items()}
    return arm.Platform(
        "SW(8)",
        bandwidth="12.5 GB/s",
        latency="500 ns",
        settings={"collectives.gather": "direct", "scheduler.chunks": 1, **more},
    )


def incast(backend: str, **settings: str) -> Report:
    """Seven NPUs send 1 MB to the first."""
    platform = incast_platform(**settings)
    return collective_result("gather", 8_000_000, platform, backend=backend).report


@pytest.fixture(scope="module")
def lossy() -> Report:
    """A run that loses packets."""
    return incast("packet", buffer="50 kB")


def test_the_terminal_prints_the_totals(lossy: Report) -> None:
    out = StringIO()
    show(lossy, "incast", Terminal(out))
    found = packets.of(lossy)
    assert found is not None
    assert f"{found['drops']:,} dropped, {found['retransmits']:,} sent again" in out.getvalue()
    assert "\nPackets\n" in out.getvalue()


def test_skipping_says_what_it_did() -> None:
    """Two messages of 100 MB last longer than their rates take to settle, seven of 1 MB do not."""
    short = packets.lines(incast("packet", skip="1%"))
    assert short[-1] == "no steady state was skipped: no rates settled for long enough"
    platform = arm.Platform(
        "SW(2)",
        bandwidth="12.5 GB/s",
        latency="500 ns",
        settings={
            "collectives.all_to_all": "direct",
            "network.packet.skip": "1%",
            "scheduler.chunks": 1,
            "network.packet.tcp.window": "500 kB",
        },
    )
    long = collective_result("all_to_all", 200_000_000, platform, backend="packet").report
    assert "skipped" in packets.lines(long)[-1] and "error about" in packets.lines(long)[-1]
    assert not any("skipped" in line for line in packets.lines(incast("packet")))


def test_a_network_without_packets_says_nothing_of_them() -> None:
    report = incast("flow")
    assert packets.of(report) is None
    assert packets.lines(report) == []
    assert packets.parts(report) == []


def test_the_page_has_totals_ports_and_connections(lossy: Report) -> None:
    section = run_network.network(lossy, None, Scale.of(lossy["step_time_ns"]))
    tables = {part.caption: part for part in section.parts if isinstance(part, Table)}
    assert {"Packets", "Ports", "Connections"} <= set(tables)
    assert len(tables["Connections"].rows) == 7
    assert tables["Ports"].rows[0][0] == "switch0 -> npu0 (dimension 1)"


def test_a_comparison_sets_the_totals_side_by_side() -> None:
    program = arm.workload.Program()
    program.collective("gather", [], "gather", 1_000_000)
    workload = arm.Workload.listed("incast", [program], [0] * 8, {})
    runs = [
        arm.simulate(workload, incast_platform(buffer=size), backend="packet", detail=True)
        for size in ("50 kB", "10 MB")
    ]
    found = compare([run.report for run in runs], ["shallow", "deep"])
    drops = found.data["pairs"][0]["packets"]["drops"]
    assert drops["a"] > 0 and drops["b"] == 0
    assert "What packets have been through" in found.html()


def test_reports_of_older_versions_have_no_packets(report: Report) -> None:
    old = {key: value for key, value in report.items() if key != "packets"}
    assert packets.of(parse(json.dumps(old))) is None
