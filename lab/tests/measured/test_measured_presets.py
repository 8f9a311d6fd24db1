"""Which presets measurements of collectives support, and what reports say of the others."""

from __future__ import annotations

import pytest

import armillary as arm
from armillary.platform import presets
from armillary_lab.measured.sweeps import sweeps


def assumed(platform: arm.Platform) -> list[str]:
    """Of an all-reduce."""
    program = arm.workload.Program()
    program.collective("sum", [], "all_reduce", 1 << 20)
    workload = arm.Workload.mesh("w", [("all", platform.npus)], {}, [], [program])
    return arm.simulate(workload, platform).report["assumptions"]


@pytest.mark.parametrize("name", presets(papers=False))
def test_a_preset_names_its_measurements(name: str) -> None:
    """Those of studies V1 and V6; no other preset claims one."""
    said = arm.Platform.load(name).describe()["measured"]
    named = [each for each in sweeps() if name in (each.preset, each.fabric)]
    sources = {each.source.split()[0] for each in named}
    assert set(said.split(", ")) == (sources or {"none"})


def test_a_report_says_that_nothing_supports_a_preset() -> None:
    text = "no measurement of a collective supports tpu-v4-pod"
    assert text in assumed(arm.Platform.load("tpu-v4-pod", {"topology": "R(4)_R(4)_R(4)"}))
    for other in (
        arm.Platform.load("dgx-h100"),
        arm.Platform("R(4)", bandwidth="1 GB/s", latency="0 ns"),
    ):
        assert not any("measurement" in each for each in assumed(other))
