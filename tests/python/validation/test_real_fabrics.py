"""Measured machines drawn as the fabrics that they have: no worse than their presets."""

from __future__ import annotations

import pytest

from armillary import Platform
from armillary.validation.collectives import errors, sweeps

FABRICS = {
    "h100x8_dgx_allreduce_nvidia": {
        "topology": "{generator: nvlink_domain, npus: 8}",
        "links": "{bandwidth: 450 GB/s, latency: 100 ns}",
    },
    "a100x16_p4de_allreduce": {
        "topology": "{generator: rail_only, npus_per_node: 8, nodes: 2}",
        "links[0].per": "link",
        "links[1].per": "link",
    },
    "v100x8_vtrain_allreduce": {
        "topology": "{generator: cube_mesh}",
        "graph": "null",
        "links": "{bandwidth: 25 GB/s, latency: 200 ns}",
    },
}


@pytest.mark.parametrize("name", FABRICS)
def test_a_real_fabric_is_no_worse_than_its_preset(name: str) -> None:
    (sweep,) = [sweep for sweep in sweeps() if sweep.name == name]
    settings = {key: value for key, value in sweep.settings if key != "npus"}
    real = Platform.load(sweep.preset, settings | FABRICS[name])
    for before, after in zip(errors(sweep), errors(sweep, platform=real), strict=True):
        assert after.percent <= before.percent + 0.01
