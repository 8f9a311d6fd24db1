"""Fair flows against packets: ns-3's TCP on 128 hosts at one switch (tests/golden/packets)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import armillary as arm

ROOT = Path(__file__).parents[2]
RUNS: list[dict[str, Any]] = json.loads(
    (ROOT / "tests/golden/packets/ns3_all_to_all.json").read_text()
)
# IP and TCP headers inside a packet; Ethernet's header and checksum around it.
HEADERS, FRAME = 40, 18


def flow_us(run: dict[str, Any]) -> float:
    """The same all-reduce as fair flows, us."""
    efficiency = (run["mtu"] - HEADERS) / (run["mtu"] + FRAME)
    settings = {
        "collectives.all_reduce": "direct",
        "scheduler.chunks": 1,
        "scheduler.endpoint_delay": "0 ns",
        "network.flow.efficiency": f"{efficiency:.6f}",
    }
    platform = arm.Platform("SW(128)", bandwidth="12.5 GB/s", latency="500 ns", settings=settings)
    table = arm.collective("all_reduce", run["bytes"], platform, backend="flow")
    return float(table["time_us"][0])


def name(run: dict[str, Any]) -> str:
    """The name of a run in the test's output."""
    return f"{run['bytes']}-{run['mtu']}-{run['order']}"


@pytest.mark.parametrize("run", [r for r in RUNS if r["order"] == "rotation"], ids=name)
def test_without_contention_flows_take_as_long_as_packets(run: dict[str, Any]) -> None:
    assert flow_us(run) == pytest.approx(run["time_us"], rel=0.01)


@pytest.mark.parametrize("run", [r for r in RUNS if r["order"] == "random"], ids=name)
def test_a_random_order_costs_packets_more(run: dict[str, Any]) -> None:
    """What a fluid model leaves out: receivers that wait while others have a queue."""
    assert 1.05 < run["time_us"] / flow_us(run) < 1.40


def test_the_page_prints_these_times() -> None:
    page = (ROOT / "docs/models/networks-flow.md").read_text()
    rows = re.findall(r"\| (\d+) MB \| ([\d,]+) B \| .* \| ([\d,.]+) us \| ([\d,.]+) us", page)
    assert len(rows) == 6
    for size, mtu, ours, theirs in rows:
        wanted = (int(size) * 1_000_000, int(mtu.replace(",", "")), "rotation")
        (run,) = (r for r in RUNS if (r["bytes"], r["mtu"], r["order"]) == wanted)
        assert float(theirs.replace(",", "")) == pytest.approx(run["time_us"], abs=0.06)
        assert float(ours.replace(",", "")) == pytest.approx(flow_us(run), abs=0.06)
