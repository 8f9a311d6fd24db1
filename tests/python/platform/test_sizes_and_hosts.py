"""Options that every preset takes: numbers of NPUs, and offloading to the memory of hosts."""

from __future__ import annotations

from typing import Any

import pytest

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
    """An eighth of 2 TB for each GPU (MLPerf's descriptions of the machines). Adam's states of 70 B
    parameters over 8 GPUs, 106 GB each, fit there; those of 405 B, 609 GB, do not."""
    platform = arm.Platform.load(name, npus=8)
    assert platform.describe()["remote_memory"]["capacity_bytes"] == 250 * 10**9
    options = {"tp": 8, "offload": "optimizer", "recompute": "full", "global_batch": 1}
    (held,) = arm.simulate(arm.workload.build("llama-3-70b", **options), platform).outside
    assert held["contents"]["optimizer_bytes"] == held["least_bytes"] == 105_844_408_320
    with pytest.raises(InputError, match=r"608.8 GB .* more than its 250.0 GB"):
        arm.simulate(arm.workload.build("llama-3-405b", **options), platform)


def test_a_platform_without_hosts_names_the_key() -> None:
    link = {"bandwidth": "100 GB/s", "latency": "1 us"}
    platform = arm.Platform("Switch(4)", **link)  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        arm.simulate(arm.load("llama-3-8b", offload="optimizer", **COMMON), platform)
    help_ = "remote_memory in the platform: {model: link, sharing: per_npu"
    assert any(help_ in problem.help for problem in caught.value.problems)
