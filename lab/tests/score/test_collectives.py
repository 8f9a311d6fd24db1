"""Predicted collectives against measured ones. Others measured; each sweep's source stands in
`sweeps.csv`."""

from __future__ import annotations

import math

import pytest

import armillary as arm
from armillary_lab.score import collectives

NAMED = {sweep.name: sweep for sweep in collectives.sweeps()}

LARGE = {
    "v100x8_vtrain_allreduce": 6,
    "v100x3_vtrain_allreduce": 5,
    "a100x8_superbench_all_reduce": 5,
    "a100x8_superbench_all_gather": 12,
    "h100x8_dgx_allreduce_nvidia": 5,
    "h100x8_simumax_all_gather": 12,
    "h200x4_stas_8GiB_allreduce": 5,
    "b200x8_stas_8GiB_allreduce": 5,
    "mi300x8_allreduce": 5,
    "gb200x72_coreweave_allreduce_1rack": 9,
    "alcf_polaris_n256g4_all_reduce_env4_nccl2.21_240429": 8,
    "gb200x64_oci_alltoall_large": 12,
}
"""Percent by which sizes of 16 MiB and above may be off."""


@pytest.mark.parametrize("name", LARGE)
def test_large_collectives_are_within_their_bounds(name: str) -> None:
    large = [error for error in collectives.errors(NAMED[name]) if error.band == 2]
    assert large[0].percent < LARGE[name]


def test_rings_of_the_cube_mesh_follow_the_graph() -> None:
    """3 and 6 GPUs reach a third of what 8 do (45 of 134 GB/s measured)."""
    busbw = {n: _peak(n) for n in (3, 6, 8)}
    assert busbw[3] == pytest.approx(45.1, rel=0.05)
    assert busbw[6] == pytest.approx(45.8, rel=0.05)
    assert busbw[8] == pytest.approx(134.4, rel=0.05)


def _peak(gpus: int) -> float:
    platform = arm.Platform.load("dgx1-v100", {"npus": gpus})
    return float(arm.collective("all_reduce", 2**30, platform)["busbw"][0])


def test_errors_are_geometric_means() -> None:
    sweep = NAMED["h100x8_dgx_allreduce_nvidia"]
    platform = sweep.platform
    logs = []
    for size, measured in sweep.points:
        if size <= 2**16:
            ours = float(arm.collective("all_reduce", size, platform)["time_us"][0])
            logs.append(abs(math.log(ours / measured)))
    assert collectives.errors(sweep)[0].log == pytest.approx(sum(logs) / len(logs))


def test_every_sweep_has_points_and_a_preset() -> None:
    assert all(
        sweep.points and sweep.platform.npus == sweep.gpus and sweep.source
        for sweep in collectives.sweeps()
    )


def test_a_library_adds_two_columns() -> None:
    chosen = arm.collective("all_reduce", [2**10, 2**30], arm.Platform.load("dgx-h100"))
    assert chosen["algorithm"].to_list() == ["Ring", "NVLS"]
    assert chosen["protocol"].to_list() == ["LL", "Simple"]
    plain = arm.collective("all_reduce", 2**20, arm.Platform.load("dgx-h100", {"library": None}))
    assert "algorithm" not in plain.columns
