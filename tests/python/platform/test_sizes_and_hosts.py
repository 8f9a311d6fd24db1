"""Options that every preset takes: numbers of NPUs, and offloading to the memory of hosts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Armillary

import armillary as arm
from armillary.api import collective_row
from armillary.errors import InputError
from armillary.platform import presets

COMMON: dict[str, Any] = {"dp": 4, "zero": 3, "seq": 1024, "micro_batch": 1, "recompute": "full"}


def innermost(platform: arm.Platform) -> dict[str, Any]:
    """The first dimension of a platform's network."""
    fabric = platform.describe()["fabric"]
    found: dict[str, Any] = (fabric.get("dims") or fabric["coordinates"])[0]
    return found


@pytest.mark.parametrize("name", ["gb200-nvl72-8r", "gb300-nvl72-8r", "gb200-nvl72-8r-fabric"])
@pytest.mark.parametrize(
    ("npus", "rack"), [(576, 72), (64, 64), (256, 64), (1024, 64), (8, 8), (100, 20)]
)
def test_racks_take_any_multiple_of_a_tray(name: str, npus: int, rack: int) -> None:
    """18 trays of 4 in a rack; jobs have equal parts of racks (98,304 is 1,536 times 64)."""
    platform = arm.Platform.load(name, npus=npus)
    assert platform.npus == npus
    assert innermost(platform)["size"] == rack
    assert bool(platform.warnings) == (rack < 72)


@pytest.mark.parametrize("name", ["gb200-nvl72-8r", "gb200-nvl72-8r-fabric"])
def test_a_part_of_a_tray_in_each_rack_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        arm.Platform.load(name, npus=98)


def test_racks_that_are_partly_empty_are_as_fast() -> None:
    """64 of 72 GPUs of four racks: 400 Gb/s for each GPU between racks, as with full ones."""
    rates = [
        collective_row("all_reduce", 2**30, arm.Platform.load("gb200-nvl72-8r", npus=n)).busbw
        for n in (256, 288)
    ]
    assert rates[0] == pytest.approx(rates[1], rel=0.05)


def test_a_part_of_a_node() -> None:
    """Four GPUs of a DGX H100, and of a node of MI300X, whose links keep their bandwidth."""
    assert innermost(arm.Platform.load("dgx-h100-16n", npus=4))["size"] == 4
    mesh = innermost(arm.Platform.load("mi300x-16n", npus=4))
    assert (mesh["size"], mesh["link_bandwidth"]) == (4, 64e9)


@pytest.mark.parametrize("name", presets(papers=False))
def test_every_preset_can_offload(name: str) -> None:
    """PCIe of its generation, or NVLink-C2C: 12 GB/s or more, each with its source."""
    remote = arm.Platform.load(name).describe()["remote_memory"]
    assert remote["sharing"] == "per_npu"
    assert 12e9 <= remote["bandwidth"] <= 450e9


def test_what_is_offloaded_takes_the_time_of_its_link() -> None:
    """Adam's 12 bytes for each of 8.03 B parameters, there and back, by 4 GPUs at 25 GB/s."""
    platform = arm.Platform.load("dgx-a100", npus=4)
    runs = [
        arm.simulate(arm.load("llama-3-8b", offload=offload, **COMMON), platform)
        for offload in ("none", "optimizer")
    ]
    moved = 2 * 12 * 8.03e9 / 4 / 25e9
    assert (runs[1].step_time_ns - runs[0].step_time_ns) / 1e9 == pytest.approx(moved, rel=0.5)


@pytest.mark.parametrize("name", ["dgx-a100", "dgx-a100-80gb", "dgx-h100", "dgx-h100-16n"])
def test_hosts_hold_what_they_have(name: str) -> None:
    """A host has 2 TB (MLPerf's descriptions of the machines). Adam's states of 70 B parameters
    over 8 GPUs, 106 GB each, fit there; those of 405 B, 609 GB each, do not."""
    platform = arm.Platform.load(name, npus=8)
    assert platform.describe()["remote_memory"]["capacity_bytes"] == 2 * 10**12
    options = {"tp": 8, "offload": "optimizer", "recompute": "full", "global_batch": 1}
    (held,) = arm.simulate(arm.workload.build("llama-3-70b", **options), platform).outside
    assert held["contents"]["optimizer_bytes"] == held["least_bytes"] == 8 * 105_844_408_320
    assert (held["ranks"], held["capacity_bytes"]) == (8, 2 * 10**12)
    with pytest.raises(InputError, match=r"4870.6 GB of 8 NPUs, more than its 2000.0 GB"):
        arm.simulate(arm.workload.build("llama-3-405b", **options), platform)


def test_hosts_of_two_nodes_hold_half_each() -> None:
    """16 ranks with tp 8: each host has a whole copy of the parameters over 8 GPUs."""
    platform = arm.Platform.load("dgx-h100-16n", npus=16)
    made = arm.workload.build("llama-3-70b", tp=8, dp=2, zero=1, offload="optimizer")
    assert made.summary is not None
    (host,) = made.outside(platform)
    assert (host.ranks, host.capacity_bytes) == (8, 2 * 10**12)
    assert host.bytes == 8 * made.summary.host == made.summary.host_total // 2


def test_every_npu_of_a_host_keeps_its_own_link() -> None:
    """The number of NPUs of a host divides capacity only: steps take as long without it."""
    options = {"tp": 8, "offload": "optimizer", "recompute": "full", "global_batch": 1}
    made = arm.workload.build("llama-3-8b", **options)
    times = [
        arm.simulate(made, arm.Platform.load("dgx-h100", settings)).step_time_ns
        for settings in ({}, {"remote_memory.npus_per_node": None})
    ]
    assert times[0] == times[1]


def test_workload_says_what_a_host_holds(armillary: Armillary, tmp_path: Path) -> None:
    file = tmp_path / "w.json"
    options = ("--tp", "8", "--offload", "optimizer", "--recompute", "full", "--global-batch", "1")
    words = (*options, "-p", "dgx-h100")
    said = armillary("workload", "llama-3-70b", *words, "--json", str(file))
    assert "846.8 GB (of 2.000 TB, for 8 NPUs)" in " ".join(said.stdout.split())
    (host,) = json.loads(file.read_text())["outside"]
    assert host == {
        "name": "remote memory",
        "ranks": 8,
        "bytes": 846_755_266_560,
        "capacity_bytes": 2 * 10**12,
    }
    parameters = ("--dp", "8", "--zero", "3", "--offload", "parameters", "--recompute", "full")
    refused = armillary("workload", "llama-3-405b", *parameters, "--seq", "512", "-p", "dgx-h100")
    assert refused.returncode == 2
    assert "more than its 2000.0 GB" in refused.stderr
    ran = armillary("run", "llama-3-70b", *words)
    assert "846.8 GB of 2.000 TB, for 8 NPUs" in " ".join(ran.stdout.split())


def test_a_platform_without_hosts_names_the_key() -> None:
    link = {"bandwidth": "100 GB/s", "latency": "1 us"}
    platform = arm.Platform("Switch(4)", **link)  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        arm.simulate(arm.load("llama-3-8b", offload="optimizer", **COMMON), platform)
    help_ = "remote_memory in the platform: {model: link, sharing: per_npu"
    assert any(help_ in problem.help for problem in caught.value.problems)
