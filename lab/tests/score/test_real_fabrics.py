"""Measured machines drawn as the fabrics that they have: no worse than their presets. Study
V6 runs all sweeps."""

from __future__ import annotations

import pytest

from armillary import Platform
from armillary.platform import presets
from armillary_lab.score import fabrics
from armillary_lab.score.collectives import errors, sweeps

NAMED = {sweep.name: sweep for sweep in sweeps()}
SOME = (
    "h100x8_dgx_allreduce_nvidia",
    "mi300x8_allreduce",
    "gb200x64_oci_alltoall_large",
    "h100x64_issue309_allreduce",
    "gb200x192_oci_alltoall_large",
    "a100x16_p4de_allreduce",
    "alcf_polaris_n8g4_alltoall_env4_nccl2.21_240429",
)
"""A sweep or two of each kind of fabric."""


@pytest.mark.parametrize("backend", fabrics.BACKENDS)
@pytest.mark.parametrize("name", SOME)
def test_a_real_fabric_is_no_worse_than_its_stack(name: str, backend: str) -> None:
    for stack, fabric in fabrics.pairs(NAMED[name], backend):
        assert fabric.percent <= stack.percent + fabrics.WORSE


def test_every_sweep_names_a_fabric_of_its_size() -> None:
    for sweep in sweeps():
        if sweep.gpus <= 128:
            platform = sweep.real_fabric
            assert (platform.npus, sweep.fabric) == (sweep.gpus, platform.name)
    drawn = {name for name in presets() if name.endswith("-fabric")}
    assert drawn == {sweep.fabric for sweep in sweeps()} - {"dgx1-v100"}


def test_every_sweep_is_of_one_kind() -> None:
    for sweep in sweeps():
        assert [holds(sweep) for holds in fabrics.KINDS.values()].count(True) == 1, sweep.name


def test_the_cube_mesh_of_dgx1_is_that_of_the_generator() -> None:
    sweep = NAMED["v100x8_vtrain_allreduce"]
    links = "{bandwidth: 25 GB/s, latency: 200 ns}"
    drawn = {"topology": "{generator: cube_mesh}", "graph": "null", "links": links}
    assert errors(sweep, platform=Platform.load("dgx1-v100", drawn)) == errors(sweep)


def test_a_worse_fabric_is_seen() -> None:
    """Spines at a quarter of the bandwidth that the leaves need slow an all-to-all of several
    racks on `flow`."""
    sweep = NAMED["gb200x192_oci_alltoall_large"]
    narrow = {**dict(sweep.fabric_settings), "topology.outer.spines": "4"}
    ((stack, _),) = fabrics.pairs(sweep, "flow")
    (worse,) = errors(sweep, "flow", Platform.load(sweep.fabric, narrow))
    assert worse.percent > 2 * stack.percent + 20
