"""NCCL within one node: measured times as their source counts them, and nothing of what is left out
in a fit."""

from __future__ import annotations

import math
from statistics import median

import pytest

from armillary_lab.fit.libraries import OF_ONE_NODE, machine, observed
from armillary_lab.fit.one_node import others
from armillary_lab.measured import one_node
from armillary_lab.measured.one_node import measured, one_node_sweeps, versions
from armillary_lab.measured.sweeps import BANDS, band, quantile
from armillary_lab.score.one_node import most, of_presets

SEVERAL = ("H100", "B200", "GB200")
"""GPUs with several versions of NCCL."""


def test_sizes_are_bytes() -> None:
    """NVLink 4 carries 450 GB/s each way, and NVLS reaches nearly all of it: the largest all-reduce
    of eight H100 has a bus bandwidth of 445 GB/s, as the source's own check says."""
    found = [
        each
        for each in measured()
        if (each.gpu, each.collective, each.gpus, each.dtype) == ("H100", "all_reduce", 8, "half")
    ]
    largest = max(found, key=lambda each: each.size)
    assert largest.size == 2**29
    assert largest.size * 2 * 7 / 8 / largest.us / 1e3 == pytest.approx(445, rel=0.005)


def test_no_point_is_faster_than_its_link() -> None:
    """Every GPU sends at least `(n-1)/n` of the buffer: no time is shorter than NVLink allows."""
    links = {"A100": 300, "H100": 450, "B200": 900, "GB200": 900}
    for each in measured():
        if each.gpu in links:
            sent = each.size * (each.gpus - 1) / each.gpus
            assert each.us > sent / links[each.gpu] / 1e3


def test_what_is_left_out_is_in_no_sweep() -> None:
    assert all(len(versions(gpu)) > 1 for gpu in SEVERAL)
    assert len(versions("A100")) == 1
    kept = list(one_node_sweeps(lambda each: each.gpu == "H100" and each.nccl == "2.23"))
    had = {(each.collective, each.gpus) for each in measured() if each.nccl == "2.23"}
    assert {(each.collective, each.gpus) for each in kept} <= had
    assert "all_reduce" not in {each.collective for each in kept}
    everything = {each.name: dict(each.points) for each in one_node_sweeps()}
    for sweep in one_node_sweeps(lambda each: (each.gpu, each.nccl) != ("H100", "2.23")):
        same = dict(sweep.points) == everything[sweep.name]
        assert same is (sweep.gpu != "H100" or sweep.collective == "all_reduce")


def test_points_are_medians_of_versions() -> None:
    (sweep,) = one_node_sweeps(
        lambda each: (each.gpu, each.collective, each.gpus) == ("B200", "all_gather", 8)
    )
    times: dict[str, list[float]] = {}
    for each in measured():
        if (each.gpu, each.collective, each.gpus, each.size) == ("B200", "all_gather", 8, 2**20):
            times.setdefault(each.nccl, []).append(each.us)
    assert len(times) == len(versions("B200"))
    assert dict(sweep.points)[2**20] == median(sum(t) / len(t) for t in times.values())


def test_a_table_knows_nothing_of_the_version() -> None:
    found = others("GB200", "2.23")
    assert {each.nccl for each in found} == {"2.23"}
    first = next(iter(found))
    (other,) = (
        each
        for each in measured()
        if (each.gpu, each.nccl, each.collective, each.dtype, each.gpus, each.size)
        == ("GB200", "2.29.2", first.collective, first.dtype, first.gpus, first.size)
    )
    assert found[first] == pytest.approx(math.log(other.us / first.us))


def test_no_host_has_a_part() -> None:
    sweep = next(one_node_sweeps())
    seen = observed(sweep)
    assert machine(sweep).host == ""
    assert all(level != "host" for chain in seen.chains.values() for level, _ in chain)
    assert seen.scales == OF_ONE_NODE


def test_quantiles_are_errors_that_a_part_does_not_exceed() -> None:
    logs = [0.0, -math.log(1.1), math.log(1.2), -math.log(1.3), math.log(1.5)]
    assert quantile(logs, 0.5) == pytest.approx(20)
    assert quantile(logs, 0.9) == pytest.approx(50)


@pytest.mark.parametrize("gpu", one_node.PRESETS)
def test_presets_are_near_what_was_measured(gpu: str) -> None:
    """The limits of what is left out hold nearly for what was fitted."""
    found = of_presets([gpu])
    for at, words in enumerate(BANDS):
        logs = [log for each, log in found.items() if band(each.size) == at]
        for part, allowed in most(gpu).items():
            assert quantile(logs, part) < 1.1 * allowed, words
