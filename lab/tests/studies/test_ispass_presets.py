"""The platforms of ASTRA-SIM (ISPASS 2020) describe one machine, that of Table IV."""

from __future__ import annotations

import re

import pytest

from armillary.api import collective_us, simulate
from armillary.platform import Platform
from armillary_lab.studies.ispass import workload

LOCAL, PACKAGE, EFFICIENCY = 200, 25, 0.94
"""Table IV: GB/s of a link within and between packages, link efficiency."""


def bandwidths(preset: str) -> list[float]:
    """GB/s of one link of each dimension, those side by side together."""
    line = r"bandwidth: ([\d.]+) GB/s, latency: \d+ ns, per: link(?:, count: (\d+))?"
    found = re.findall(line, Platform.load(preset).to_yaml())
    return [float(each) * int(count or 1) for each, count in found]


@pytest.mark.parametrize(
    ("preset", "ways"),
    [
        ("torus-2x2x2", (1, 1, 1)),
        ("torus-2x4x4", (1, 2, 2)),
        ("torus-4x4x4", (2, 2, 2)),
        ("resnet", (1, 2, 2)),
    ],
)
def test_an_npu_sends_on_all_rings_of_a_dimension(preset: str, ways: tuple[int, ...]) -> None:
    """Table IV: 2 one-way rings within a package, 2 of both ways in each dimension between them.
    They lead to `ways` neighbours."""
    between = 2 * 2 * PACKAGE * EFFICIENCY
    links = bandwidths(f"paper-ispass-{preset}")
    sent = [way * link for way, link in zip(ways, links, strict=True)]
    assert sent == [2 * LOCAL * EFFICIENCY, between, between]


def test_symmetric_rings_within_a_package_are_as_fast_as_one_link_between_packages() -> None:
    """Section V-C: local links at 1x the speed of the others, one ring each way round."""
    assert bandwidths("paper-ispass-torus-4x4x4-symmetric")[0] == PACKAGE * EFFICIENCY


def test_the_ring_of_eight_uses_all_eight_links_of_an_npu() -> None:
    """Section V-A: four links to each neighbour, against one to each of seven peers."""
    assert bandwidths("paper-ispass-torus-1x8x1") == [4 * PACKAGE * EFFICIENCY]
    assert bandwidths("paper-ispass-alltoall-1x8") == [PACKAGE * EFFICIENCY]


def test_chunks_run_round_the_rings_both_ways() -> None:
    """Section IV-B: a ring of both ways has a scheduling queue for each way. An all-reduce of four
    chunks on a ring of eight sends half of them each way, so both links of an NPU are as busy."""
    platform = Platform.load("paper-ispass-torus-1x8x1")
    both = collective_us("all_reduce", 64 << 20, platform, backend="link")
    one_way = Platform.load("paper-ispass-torus-1x8x1", settings={"scheduler.queues_per_dim": 1})
    assert 1.9 < collective_us("all_reduce", 64 << 20, one_way, backend="link") / both < 2.1


@pytest.mark.parametrize("backend", ["analytical", "link"])
def test_the_torus_wins_large_all_reduces_and_loses_all_to_alls(backend: str) -> None:
    """Fig. 9: all-reduces use 8 links against 7; all-to-alls go through others' links, and the gap
    shrinks with the size."""

    def gain(kind: str, size: int) -> float:
        times = [
            collective_us(kind, size, Platform.load(f"paper-ispass-{name}"), backend=backend)
            for name in ("alltoall-1x8", "torus-1x8x1")
        ]
        return times[0] / times[1]

    # 2 (7/8) m over 8 links against 7: at most 8/7 faster.
    assert 1.1 < gain("all_reduce", 64 << 20) < 8 / 7
    assert gain("all_reduce", 64 << 10) < 1
    assert gain("all_to_all", 64 << 10) < gain("all_to_all", 64 << 20) < 1


def test_two_presets_of_one_torus_expose_the_same() -> None:
    """ResNet-50 on 2x4x4, Figs. 14 and 15."""

    def waited(preset: str) -> float:
        result = simulate(workload("published", 32), Platform.load(preset))
        return sum(c["exposed_comm_ns"] * c["count"] for c in result.report["classes"])

    assert waited("paper-ispass-resnet") == waited("paper-ispass-torus-2x4x4") > 0
