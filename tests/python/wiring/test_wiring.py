"""Files of other programs as platforms: links against what is known of the machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from imported_networks import DATA, imported, refused, speeds, written

from armillary import wiring
from armillary.errors import InputError
from armillary.platform import Platform


def test_a_dgx_a100() -> None:
    """12 NVLinks of 20 GB/s by NCCL's count to the NVSwitches, PCIe 4 with 16 lanes."""
    platform = imported("dgx-a100.xml")
    assert platform.npus == 8
    assert speeds(platform, "nvlink") == {(f"gpu{i}", "nvswitch"): 240.0 for i in range(8)}
    assert set(speeds(platform, "pcie").values()) == {24.0}
    # Lower half to upper half: four GPUs by NVLink, and two PCIe switches by three CPUs each.
    assert platform.network_facts()["diameter"] == 2


def test_nodes_are_joined_by_the_cards_near_the_gpus() -> None:
    """Of twelve cards four are for storage; those near the GPUs send 200 Gb/s each."""
    platform = imported("dgx-a100.xml", nodes=3)
    cables = speeds(platform, "network")
    assert len(cables) == 3 * 8
    assert set(cables.values()) == {25.0}
    assert platform.npus == 24
    assert platform.describe()["logical"] == [8, 3]
    rails = {ends[1] for ends in speeds(imported("dgx-a100.xml", nodes=3, rails=True), "network")}
    assert rails == {f"rail{i}" for i in range(8)}
    one = imported("dgx-a100.xml", nodes=2, cards=["mlx5_4"])
    assert {ends[0] for ends in speeds(one, "network")} == {"n0.mlx5_4", "n1.mlx5_4"}


def test_a_cube_mesh_has_its_links() -> None:
    """Six NVLinks leave each GPU of a DGX-1; pairs have one, two or none (NVIDIA's white paper)."""
    links = speeds(imported("dgx1-v100.txt", {"nvlink": "25 GB/s"}, "V100"), "nvlink")
    assert len(links) == 16
    for gpu in range(8):
        assert sum(speed for ends, speed in links.items() if f"GPU{gpu}" in ends) == 150.0
    preset = Platform.load("dgx1-v100").wiring()["cables"]
    assert sorted(links.values()) == sorted(cable["bandwidth"] / 1e9 for cable in preset)


def test_an_hgx_h100_has_a_switch() -> None:
    """Each GPU shows 18 NVLinks to each of seven others, and has 18."""
    platform = imported("hgx-h100.txt", gpu="H100", nodes=2)
    assert set(speeds(platform, "nvlink").values()) == {370.8}
    cards = {ends[0] for ends in speeds(platform, "network")}
    assert cards == {f"n{n}.mlx5_{i}" for n in (0, 1) for i in (0, 1, 2, 5, 6, 7, 8, 9)}


def test_pcie_only(tmp_path: Path) -> None:
    file = written(
        tmp_path, "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-11\nGPU1\tPHB\t X \t0-11\n"
    )
    platform = imported(file, gpu="A100 PCIe")
    assert speeds(platform, "pcie") == {("GPU0", "cpu0"): 24.0, ("GPU1", "cpu0"): 24.0}


def test_a_topology_for_nccl_to_read(tmp_path: Path) -> None:
    """As clouds ship them: bare PCI devices and no NVLinks. Those of class 0x03 are GPUs."""
    gpus = "".join(
        f'<pci busid="000{i}:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>'
        f'<pci busid="010{i}:00:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>'
        for i in range(2)
    )
    bridge = '<pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">'
    file = written(
        tmp_path, f'<system version="1"><cpu numaid="0">{bridge}{gpus}</pci></cpu></system>'
    )
    found = wiring.import_file(file, name="x", assumed=wiring.Assumed({}, "A100"), nodes=2)
    assert found.npus == 4
    assert any("no NVLinks" in warning for warning in found.warnings)
    assert set(speeds(Platform.parse(found.text), "pcie").values()) == {24.0}


def test_infragraph() -> None:
    """Four hosts of two NPUs, a leaf each, three spines (closfabric of keysight/infragraph)."""
    platform = imported("closfabric.yaml", {"nvlink": "300 GB/s", "pcie": "32 GB/s"})
    assert platform.npus == 8
    leaves, spines = speeds(platform, "leaf-link"), speeds(platform, "spine-link")
    assert len(leaves) == 8
    assert set(leaves.values()) == {12.5}
    assert len(spines) == 12
    assert set(spines.values()) == {50.0}
    assert ("leafsw.0", "spinesw.2") in {tuple(sorted(ends)) for ends in spines}
    # Both cards of two hosts, at 100 Gb/s each.
    assert platform.network_facts()["bisection"] == 50e9


def test_infragraph_asks_for_the_bandwidth_of_links_that_are_used() -> None:
    """Not for that of ports, CPUs and the management card, which no NPU sends over."""
    assert refused(DATA / "closfabric.yaml") == [
        "links: nvlink: has no bandwidth, and NPUs send over it",
        "links: pcie: has no bandwidth, and NPUs send over it",
    ]


def test_every_assumed_value_is_said_and_can_be_given() -> None:
    found = wiring.import_file(DATA / "dgx-a100.xml", name="x", assumed=wiring.Assumed())
    for name, value, _ in found.assumed:
        assert f"#   {name} = {value}: " in found.text
    given = {name: "1 us" if name.endswith("latency") else "1 GB/s" for name, *_ in found.assumed}
    assert not wiring.import_file(
        DATA / "dgx-a100.xml", name="x", assumed=wiring.Assumed(given)
    ).assumed


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("<system", {}, "line 1: is not XML"),
        ("<graph/>", {}, "line 1: <graph> is not a topology"),
        ("<system/>", {}, "line 1: <system>: has no GPU"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><system/>', {}, "line 1: has a document type"),
        ("hello", {}, ": is in no format"),
        ("\tGPU0\tGPU1\nGPU0\t X \tNV2\n", {"gpu": "V100"}, ": has no row of GPU1"),
        (
            "\tGPU0\tGPU1\nGPU0\t X \tQPI\nGPU1\tNV2\t X \n",
            {"gpu": "V100"},
            "line 2: GPU0: 'QPI' under GPU1",
        ),
        (
            "\tGPU0\tGPU1\nGPU0\t X \tNV2\nGPU1\tNV2\t X \n",
            {},
            ": nvidia-smi topo -m does not say which GPU",
        ),
        (
            "devices: []\ninstances: [{name: a, device: b}]\n",
            {},
            "line 2: instances[0].device: unkn",
        ),
        ("devices: []\ninstances: []\n", {}, ": has no NPU"),
    ],
)
def test_what_is_wrong_is_located(
    tmp_path: Path, text: str, options: dict[str, Any], said: str
) -> None:
    [problem] = refused(written(tmp_path, text), **options)
    assert problem.startswith(said)


def test_entities_are_refused_where_they_begin(tmp_path: Path) -> None:
    """A billion laughs: ten levels of entities of ten each."""
    levels = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10 if i else "ha"}">' for i in range(10))
    text = f'<?xml version="1.0"?>\n<!DOCTYPE system [{levels}]>\n<system>&l9;</system>'
    assert refused(written(tmp_path, text)) == [
        "line 2: has a document type, which could define entities"
    ]


def test_options_that_do_not_fit() -> None:
    with pytest.raises(InputError) as caught:
        wiring.Assumed({"nvlink": "fast", "pcie_latency": "5"}, "H1000")
    assert [problem.place for problem in caught.value.problems] == [
        "--gpu H1000",
        "--assume nvlink",
        "--assume pcie_latency",
    ]
    assert refused(DATA / "dgx-a100.xml", given={"warp": "1 GB/s"}) == [
        "--assume warp: the file needs no such value"
    ]
    assert refused(DATA / "dgx-a100.xml", cards=["mlx9"]) == ["--cards mlx9: no such network card"]
    assert refused(
        DATA / "closfabric.yaml", given={"nvlink": "1 GB/s", "pcie": "1 GB/s"}, nodes=2
    ) == ["--nodes 2: the file has all nodes"]
