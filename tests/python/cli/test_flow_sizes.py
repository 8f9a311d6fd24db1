"""`armillary traffic --sizes`: flows of drawn sizes, their slowdowns, and what is refused."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import pytest

import armillary as arm
from armillary.cli.app import main
from armillary.errors import InputError
from armillary.traffic import FlowSizes
from armillary.traffic.controls import known
from armillary.traffic.flow_sizes import NAMED

FABRIC = """
topology: {generator: leaf_spine, npus_per_leaf: 2, leaves: 2, spines: 1}
links: {bandwidth: 100 Gb/s, latency: 1 us}
network:
  model: packet
  packet: {marking: 100 kB, mtu: 4000}
"""
SMALL = "bytes,share\n100,0.1\n10000,50%\n200000,1\n"


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    (tmp_path / "fabric.yml").write_text(FABRIC, encoding="utf-8")
    (tmp_path / "small.csv").write_text(SMALL, encoding="utf-8")
    return str(tmp_path / "fabric.yml")


def found(arguments: list[str], folder: Path) -> dict[str, Any]:
    file = folder / "found.json"
    assert main(["traffic", *arguments, "--json", str(file)]) == 0
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return data


@pytest.mark.parametrize("sizes", NAMED.values(), ids=list(NAMED))
def test_published_distributions_have_a_source_and_a_mean(sizes: FlowSizes) -> None:
    """The mean by integration is that of many draws by inversion."""
    assert "HPCC" in sizes.source and sizes.points[-1][1] == 1
    draw, total, count = random.Random(1), 0.0, 200_000
    for _ in range(count):
        share = draw.random()
        at = next(i for i, point in enumerate(sizes.points) if point[1] > share)
        (least, below), (most, above) = sizes.points[at - 1], sizes.points[at]
        total += least + (most - least) * (share - below) / (above - below)
    assert sizes.mean == pytest.approx(total / count, rel=0.03)


def test_each_congestion_control_has_a_curve(fabric: str, tmp_path: Path) -> None:
    controls = list(known())
    assert {"new_reno", "cubic", "dctcp", "dcqcn", "none"} <= set(controls)
    flows, page = tmp_path / "flows.csv", tmp_path / "page.html"
    arguments = ["-p", fabric, "--sizes", str(tmp_path / "small.csv"), "--loads", "50%"]
    arguments += ["--congestion-control", ",".join(controls), "--messages-max", "400"]
    data = found([*arguments, "--flows", str(flows), "--report", str(page)], tmp_path)
    assert [curve["congestion_control"] for curve in data["curves"]] == controls
    assert data["size_bytes"] is None
    assert data["sizes"][0]["mean_bytes"] == pytest.approx(10 + 0.4 * 5050 + 0.5 * 105_000)
    rows = list(csv.DictReader(flows.read_text(encoding="utf-8").splitlines()))
    for curve in data["curves"]:
        [point] = curve["points"]
        mine = [each for each in rows if each["congestion_control"] == curve["congestion_control"]]
        assert len(mine) == sum(each["messages"] for each in point["by_size"])
        slowdowns = sorted(float(each["slowdown"]) for each in mine)
        # No flow is faster than on links that carry nothing else.
        assert slowdowns[0] >= 1 - 1e-9
        mean = sum(slowdowns) / len(slowdowns)
        assert point["slowdown"]["mean"] == pytest.approx(mean, rel=1e-4)
        assert point["slowdown"]["max"] == pytest.approx(slowdowns[-1], rel=1e-4)
        sizes = [each["to_bytes"] for each in point["by_size"]]
        assert sizes == sorted(sizes)
    assert "Slowdown by size at a load of 50" in page.read_text(encoding="utf-8")


def test_a_lone_flow_takes_its_time_alone(tmp_path: Path) -> None:
    """RDMA without congestion control sends at the rate of its link: nothing slows a flow down
    that shares no link."""
    platform = arm.Platform.parse(FABRIC, "fabric", {"network.packet.rdma.window": "1 GB"})
    one = tmp_path / "one.csv"
    one.write_text("0,3\n", encoding="utf-8")
    found = arm.traffic(
        platform,
        [str(one)],
        sizes=["hadoop"],
        congestion_controls=["none"],
        loads=[0.001],
        messages_max=300,
    )
    [point] = found.curves[0].points
    assert point.slowdown is not None
    assert 1 <= point.slowdown["p50"] < 1.001


def test_workers_and_repeats_change_nothing(fabric: str, tmp_path: Path) -> None:
    arguments = ["-p", fabric, "--sizes", "storage", "--messages-max", "200", "--loads", "20%,60%"]
    first = found([*arguments, "-j", "1"], tmp_path)
    assert found([*arguments, "-j", "2"], tmp_path) == first
    assert found([*arguments, "--seed", "1"], tmp_path) != first


def test_fair_sharing_needs_no_settings_of_packets(fabric: str, tmp_path: Path) -> None:
    arguments = ["-p", fabric, "--sizes", "storage", "--backend", "flow", "--loads", "30%"]
    data = found([*arguments, "--messages-max", "2000"], tmp_path)
    [point] = data["curves"][0]["points"]
    assert point["slowdown"]["min"] >= 1 and 1.1 < point["slowdown"]["mean"] < 2.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no points"),
        ("bytes,share\n", "has no points"),
        ("100,0.5\n", "the last line has no share of 1"),
        ("100,0.5\n90,1\n", "line 2: bytes and shares must not fall"),
        ("100,0.5\n200,0.4\n300,1\n", "line 2: bytes and shares must not fall"),
        ("100\n", "line 1: invalid point"),
        ("100,1.5\n", "line 1: invalid point"),
        ("-1,0.5\n5,1\n", "line 1: invalid point"),
        ("1e3,1\n", "line 1: invalid point"),
        ("\u0663,1\n", "line 1: invalid point"),
        ("9" * 5000 + ",1\n", "line 1: invalid point"),
        ("0,1\n", "the largest flow has 0 bytes"),
        ("9999999999999,1\n", "the largest flow has 9,999,999,999,999 bytes"),
        ("100,nan\n", "line 1: invalid point"),
        ("\ufeff100,0.5\n200,100%\n", ""),
    ],
)
def test_files_of_sizes(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "sizes.csv"
    file.write_text(text, encoding="utf-8")
    if not said:
        assert FlowSizes.parse(str(file)).points == ((100, 0.5), (200, 1.0))
        return
    with pytest.raises(InputError) as caught:
        FlowSizes.parse(str(file))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sizes", "mail"], 'unknown distribution "mail"'),
        (["--sizes", "hadoop", "--size", "64"], "has no meaning with --sizes"),
        (["--flows", "x.csv"], "has no meaning without --sizes"),
        (["--sizes", "hadoop", "--flows", "x.txt"], "unknown kind of table"),
        (["--sizes", "hadoop", "--congestion-control", "vegas"], "unknown congestion control"),
        (["--congestion-control", "cubic", "--backend", "flow"], "have no meaning on the backend"),
        (["--sizes", "hadoop", "--backend", "link"], "do not run on the backend link"),
        (["--sizes", "missing.csv"], "missing.csv"),
        (["--sizes", "hadoop", "--precision", "0"], "invalid precision"),
        (["--sizes", "hadoop", "--messages-max", "5"], "invalid messages_max"),
        (
            ["--sizes", "hadoop", "--congestion-control", "dctcp", "--set", "network.packet={}"],
            "needs switches that mark packets",
        ),
        (["--sizes", "hadoop", "--set", "network.packet.mtu=[1500,9000]"], "one value"),
    ],
)
def test_what_is_wrong_is_named(
    arguments: list[str], said: str, fabric: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["traffic", "-p", fabric, *arguments])
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert said in " ".join(error.split()) and "Traceback" not in error
