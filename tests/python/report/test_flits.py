"""Flits in the report of a run: on the terminal, on its page, in a comparison."""

from __future__ import annotations

import json
from io import StringIO

import pytest

import armillary as arm
from armillary.api import collective_result
from armillary.explain.compare import compare
from armillary.report import flits, run_network
from armillary.report.breakdown import show
from armillary.report.page import Table
from armillary.report.scale import Scale
from armillary.report.terminal import Terminal
from armillary.schema import Report


def torus(channels: int = 2) -> arm.Platform:
    """A torus with a direct all-to-all, whose packets share links."""
    return arm.Platform(
        "R(4)_R(4)",
        bandwidth="16 GB/s",
        latency="1 ns",
        settings={
            "collectives.all_to_all": "{algorithm: direct, flat: true}",
            "network.flit": f"{{packet: 256 B, virtual_channels: {channels}, buffer: 4}}",
        },
    )


def all_to_all(backend: str) -> Report:
    """Each NPU sends 4,096 B to each other."""
    return collective_result("all_to_all", 65_536, torus(), backend=backend).report


@pytest.fixture(scope="module")
def crowded() -> Report:
    """A run in which flits wait."""
    return all_to_all("flit")


def test_counts_add_up(crowded: Report) -> None:
    """Every NPU sends 15 blocks of 4,096 B in packets of 256 B, 32/15 links far on average; the
    classes of a link add up to the link."""
    found = flits.of(crowded)
    assert found is not None
    assert found["packets"] == 16 * 15 * 16
    assert found["hops_mean"] == pytest.approx(32 / 15)
    assert found["flits"] == found["packets"] * 16 * 32 // 15
    assert found["latency"]["mean_ns"] == pytest.approx(
        found["source_wait"]["mean_ns"] + found["network"]["mean_ns"], abs=0.01
    )
    assert found["link_count"] == 64
    for link in found["links"]:
        assert link["occupancy_max"] <= found["buffer"] * found["virtual_channels"] * 2
        assert 0 < link["utilisation"] <= 1
        for field in ("flits", "no_credit_ns", "no_channel_ns", "lost_allocation_ns"):
            if link["classes"]:
                parts = sum(each[field] for each in link["classes"])
                assert parts == pytest.approx(link[field])


def test_the_terminal_prints_the_totals(crowded: Report) -> None:
    out = StringIO()
    show(crowded, "crowded", Terminal(out))
    assert "\nFlits\n" in out.getvalue()
    assert "3,840 packets, 2.133 links each on average" in out.getvalue()
    assert "for a virtual channel" in out.getvalue()


def test_the_page_has_a_row_for_each_link(crowded: Report) -> None:
    section = run_network.network(crowded, None, Scale.of(crowded["step_time_ns"]))
    tables = {part.caption: part for part in section.parts if isinstance(part, Table)}
    links = tables["Links and what flits waited for"]
    found = flits.of(crowded)
    assert found is not None
    assert len(links.rows) >= len(found["links"])
    assert "Waits for a virtual channel" in [row[0] for row in tables["Flits"].rows]


def test_a_comparison_has_both() -> None:
    """More channels, less waiting for them."""
    program = arm.workload.Program()
    program.collective("exchange", [], "all_to_all", 65_536)
    workload = arm.Workload.listed("exchange", [program], [0] * 16, {})
    runs = [
        arm.simulate(workload, torus(channels), backend="flit", detail=True) for channels in (2, 16)
    ]
    whole = compare([run.report for run in runs], ["few", "many"])
    assert "What flits have been through" in whole.html()
    found = whole.data["pairs"][0]["flits"]
    assert found["no_channel_ns"]["a"] > found["no_channel_ns"]["b"]
    assert found["packets"]["a"] == found["packets"]["b"]


def test_a_network_without_flits_says_nothing_of_them() -> None:
    report = all_to_all("link")
    assert flits.of(report) is None
    assert flits.lines(report) == []
    assert flits.parts(report) == []


def test_folding_changes_nothing() -> None:
    """One rank of a ring stands for all, in the section of flits as well."""
    platform = arm.Platform("R(8)", bandwidth="16 GB/s", latency="10 ns")
    found = [
        json.loads(
            arm._core.collective(
                "all_reduce", 65_536, platform._core, "flit", fold, 0, None
            ).report()
        )["flits"]
        for fold in (True, False)
    ]
    assert found[0] == found[1]
    assert found[0]["link_count"] == 16
