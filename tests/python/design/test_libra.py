"""LIBRA's own inputs, and its objective on its own MSFT-1T with its formulas worked out here."""

from __future__ import annotations

from pathlib import Path

import pytest

from armillary.design import cost_file, design, libra
from armillary.errors import InputError

NETWORK = "Topology: [ Ring, FullyConnected, Ring, Switch ]\nNpusCount: [ 4, 8, 4, 32 ]\n"
NETWORK += "CostDimension: [ InterChiplet, InterPackage, InterNode, InterPod ]\n"
COMMUNICATOR = (
    "Forward: [ 4, 8, 4, -1 ]\nInputGrad: [ 4, 8, 4, -1 ]\nWeightGrad: [ -1, -1, -1, 32 ]\n"
)
COSTS = (
    "InterChiplet:\n  Link: 2.0\nInterPackage:\n  Link: 4.0\n  Switch: 13.0\nInterNode:\n  "
    "Link: 4.0\n  Switch: 13.0\n"
)
COSTS += "InterPod:\n  Link: 7.8\n  Switch: 18.0\n  Nic: 31.6\n"
LAYERS = """Q -1 2343750 NONE 0 2343750 ALLREDUCE 805306368 2343750 ALLREDUCE 226492416 10
concat -1 2343750 ALLREDUCE 805306368 2343750 ALLGATHER 6291456 2343750 NONE 0 10
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {
        "network.yml": NETWORK,
        "communicator.yml": COMMUNICATOR,
        "cost.yml": COSTS,
        "layers.txt": LAYERS,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "spec.yml").write_text(
        "topologies: network.yml\ncost: cost.yml\nmodel: paper\nbandwidth: 500 GB/s\nsimulate: 1\n"
        "workloads:\n  - {libra: layers.txt, communicator: communicator.yml}\n"
    )
    return tmp_path


def test_a_design_from_its_files(folder: Path) -> None:
    """Its time: six computations, and each collective's slowest dimension; ours is the least over
    bandwidths."""
    result = design(folder / "spec.yml")
    best = result.best
    assert str(best.topology) == "R(4)_FC(8)_R(4)_SW(32)"
    bandwidth = [float(each) for each in best.bandwidth]
    reduced = [2 * 805306368 * (n - 1) / passed for n, passed in ((4, 4), (8, 32), (4, 128))]
    gathered = [6291456 * 3 * 8 * 4, 6291456 * 7 * 4, 6291456 * 3]
    times = [
        max(a / b for a, b in zip(some, bandwidth, strict=False))
        for some in (reduced, reduced, gathered)
    ]
    weights = 2 * 226492416 * 31 / 32 / bandwidth[3]
    assert best.time == pytest.approx(6 * 2343750e-9 + sum(times) + weights, rel=1e-6)
    assert best.gap < 1e-6
    assert best.cost == pytest.approx(
        4096 * (2 * bandwidth[0] + 4 * bandwidth[1] + 4 * bandwidth[2] + 57.4 * bandwidth[3]) / 1e9
    )
    (check,) = result.checks[0]
    assert sum(check.effects.values()) == pytest.approx(check.simulated - check.model)
    assert check.effects["latency"] + check.effects["bubbles"] == pytest.approx(
        check.simulated - check.model, rel=0.02
    )


def test_reading(folder: Path) -> None:
    assert libra.network(folder / "network.yml").stack == (
        "InterChiplet",
        "InterPackage",
        "InterNode",
        "InterPod",
    )
    assert cost_file.load(folder / "cost.yml").links == "directions"
    assert libra.is_workload(folder / "layers.txt")
    assert not libra.is_workload(folder / "network.yml")


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("network.yml", NETWORK.replace("8", "x"), "invalid size: 'x'"),
        ("network.yml", NETWORK.replace("Ring,", "Torus,", 1), "unknown block 'Torus'"),
        (
            "communicator.yml",
            COMMUNICATOR.replace("Forward: [ 4", "Forward: [ 3"),
            "3 is not a part of a dimension of 4",
        ),
        ("communicator.yml", COMMUNICATOR.replace(", 32 ]", " ]"), "3 extents"),
        (
            "communicator.yml",
            COMMUNICATOR.replace("[ -1, -1, -1, 32 ]", "[ 4, -1, -1, 32 ]"),
            "not consecutive ranks",
        ),
        ("layers.txt", LAYERS + "broken -1 3\n", "invalid layer"),
        ("cost.yml", COSTS.replace("2.0", "-2"), "invalid price: -2"),
    ],
)
def test_what_is_wrong_is_said(folder: Path, name: str, text: str, reason: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(InputError, match=reason):
        design(folder / "spec.yml")
