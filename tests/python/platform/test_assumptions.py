"""What a result assumes because the platform leaves it out; what presets of TPUs and flat switches
reach."""

from __future__ import annotations

import pytest
from thorough import usually

import armillary as arm

OWN = """
name: own
topology: Switch(8)_Switch(4)
links: [{bandwidth: 450 GB/s, per: npu, latency: 300 ns}, {bandwidth: 50 GB/s, latency: 1350 ns}]
npu: {name: H100, peak: 989 TFLOPS, memory: {bandwidth: 3350 GB/s, capacity: 80 GB}}
"""


def assumed(platform: arm.Platform, size: int = 2**16, backend: str = "analytical") -> list[str]:
    """Of a kernel and an all-reduce of `size` bytes on every NPU."""
    program = arm.workload.Program()
    kernel = program.compute("kernel", [], operations=10**9, bytes=10**6, kernel="gemm")
    program.collective("sum", [kernel], "all_reduce", size)
    axes = [("all", platform.npus)]
    workload = arm.Workload.mesh("w", axes, {}, [], [program])
    return arm.simulate(workload, platform, backend=backend).report["assumptions"]


def test_kernels_at_full_speed_name_the_preset_that_knows_better() -> None:
    [text, *_] = assumed(arm.Platform.parse(OWN))
    assert "100 % of the peak (989 TFLOP/s)" in text
    assert text.endswith("preset dgx-h100 has fitted values")


def test_small_collectives_without_a_library_name_one() -> None:
    [_, text] = assumed(arm.Platform.parse(OWN))
    assert "cost only latency and bandwidth" in text
    assert "in up to 16 chunks" in text
    assert text.endswith("preset dgx-h100-16n has a fitted one")


def test_nothing_is_said_where_it_does_not_matter() -> None:
    assert len(assumed(arm.Platform.parse(OWN), size=2**30)) == 1, "no small message"
    chosen = arm.Platform.parse(OWN, settings={"collectives.all_reduce": "ring"})
    assert len(assumed(chosen)) == 1, "algorithms that somebody chose"
    assert assumed(arm.Platform.load("dgx-h100-16n")) == []


def test_messages_stored_on_their_way_are_warned_about() -> None:
    def warnings(backend: str, **changes: str) -> list[str]:
        platform = arm.Platform(
            "SW(8)",
            bandwidth="50 GB/s",
            latency="500 ns",
            settings={f"network.{backend}.{key}": value for key, value in changes.items()},
        )
        program = arm.workload.Program()
        program.collective("sum", [], "all_reduce", 2**30)
        workload = arm.Workload.mesh("w", [("all", 8)], {}, [], [program])
        return arm.simulate(workload, platform, backend=backend).warnings

    [text] = warnings("link", switching="store_and_forward")
    assert "received messages whole" in text
    assert "network.link.switching=store_and_forward" in text
    assert warnings("link") == []
    assert warnings("analytical") == []


@pytest.mark.parametrize(
    ("preset", "links", "reduced"),
    [("tpu-v4-pod", 270, 0.78), ("tpu-v5e-pod", 180, 0.88), ("tpu-v6e-pod", 360, 0.85)],
)
def test_tpu_pods_use_both_directions_of_all_axes(
    preset: str, links: float, reduced: float
) -> None:
    """`links`: GB/s of all links of an NPU, which the scaling book's formulas count."""
    platform = arm.Platform.load(preset)
    assert arm.collective("all_gather", 2**32, platform)["busbw"][0] >= 0.9 * links
    assert arm.collective("all_reduce", 2**32, platform)["busbw"][0] >= reduced * links


def test_a_flat_switch_of_very_many_npus() -> None:
    """Direct, for it is not a power of two; 2 (n - 1) / n of the bytes leave each NPU one after the
    other. A million of them in `make thorough`, a tenth otherwise."""
    npus = usually(100_003, 1_000_003)
    settings = {"collectives.all_reduce": "direct", "scheduler.endpoint_delay": "0 ns"}
    platform = arm.Platform(f"SW({npus})", bandwidth="50 GB/s", latency="1 us", settings=settings)
    [time_us] = arm.collective("all_reduce", 2**32, platform)["time_us"]
    fragment = -(-(2**32) // npus)
    assert time_us == pytest.approx(2 * (npus - 1) * fragment / 50e3, rel=1e-3)
