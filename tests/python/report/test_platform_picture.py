from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from armillary.platform import Platform
from armillary.report.platform_picture import picture

SVG = "{http://www.w3.org/2000/svg}"


def dim(block: str, size: int) -> dict[str, Any]:
    return {"block": block, "size": size, "link_bandwidth": 50e9, "link_latency_ps": 500_000}


def machine(fabric: dict[str, Any], npus: int, **npu: Any) -> Any:  # noqa: ANN401
    return {"name": "<toy>", "npus": npus, "fabric": fabric, "npu": {"name": "N & co", **npu}}


def drawn(fabric: dict[str, Any], npus: int, **npu: Any) -> tuple[ElementTree.Element, list[str]]:  # noqa: ANN401
    root = ElementTree.fromstring(picture(machine(fabric, npus, **npu)).svg())
    return root, [text.text or "" for text in root.iter(f"{SVG}text")]


def test_every_dimension_says_what_it_is() -> None:
    fabric = {"dims": [dim("Ring", 4), dim("FullyConnected", 8), dim("Switch", 16)]}
    _, texts = drawn(
        fabric, 512, peak_flops=1e15, memory_capacity_bytes=80e9, memory_bandwidth=None
    )
    for text in (
        "1  Ring(4)",
        "2  Fully connected(8)",
        "3  Switch(16)",
        "4 NPUs",
        "32 NPUs",
        "512 NPUs",
    ):
        assert text in texts
    assert texts.count("50 GB/s a link") == 3
    assert {"N & co", "1.000 PFLOP/s", "80.00 GB", "500.0 ns"} <= set(texts)


@pytest.mark.parametrize(
    ("block", "size", "links"),
    [
        ("Ring", 2, 1),
        ("Ring", 6, 6),
        ("Mesh", 6, 5),
        ("FullyConnected", 5, 10),
        ("Switch", 7, 7),
        ("Switch", 1, 1),
        ("Ring", 1000, 8),
    ],
)
def test_links_are_those_of_the_block(block: str, size: int, links: int) -> None:
    """A ring of n has n links, of two one, a mesh n - 1; a clique n (n - 1) / 2; a switch one for
    each node. Two lines lead to the panel."""
    root, texts = drawn({"dims": [dim(block, size)]}, size)
    assert len(list(root.iter(f"{SVG}line"))) == links + 2
    assert ("..." in texts) == (size > 8)


def test_many_dimensions_go_on_below() -> None:
    root, _ = drawn({"dims": [dim("Ring", 2)] * 9}, 512)
    assert float(root.get("width", 0)) <= 900
    assert float(root.get("height", 0)) > 400


def link(a: int, b: int, bandwidth: float = 25e9) -> dict[str, Any]:
    return {"from": a, "to": b, "bandwidth": bandwidth, "latency_ps": 600_000}


def test_a_graph_is_its_nodes_and_links() -> None:
    links = [link(0, 2), link(2, 0), link(1, 2, 50e9), link(2, 1, 50e9)]
    root, texts = drawn({"nodes": ["a<b", "npu1", "switch with a long name"], "links": links}, 2)
    assert len(list(root.iter(f"{SVG}line"))) == 2
    assert {"a<b", "npu1", "switch .", "links of 50 GB/s, 25 GB/s", "latency 600.0 ns"} <= set(
        texts
    )


def test_large_and_odd_graphs_are_told_in_words() -> None:
    root, texts = drawn({"nodes": [f"n{i}" for i in range(1000)], "links": [link(0, 1)]}, 900)
    assert texts == ["a graph of 900 NPUs, 100 switches and 1 links"]
    assert not list(root.iter(f"{SVG}line"))
    drawn({"nodes": ["a"], "links": [link(0, 5)]}, 1)
    drawn({}, 1)


def test_a_generated_fabric_stands_in_tiers_or_is_counted(tmp_path: Path) -> None:
    def generated(radix: int) -> str:
        file = tmp_path / "fabric.yml"
        topology = f"topology: {{generator: fat_tree, radix: {radix}}}"
        file.write_text(f"{topology}\nlinks: {{bandwidth: 50 GB/s, latency: 1 us}}\n")
        described: Any = Platform.load(file).describe()
        return picture(described).svg()

    boxes = ElementTree.fromstring(generated(4)).iter(f"{SVG}rect")
    rows = [box.get("y") for box in boxes if box.get("width") == "48.0"]
    assert sorted(rows.count(row) for row in set(rows)) == [4, 8, 8, 16]
    assert "fat_tree: 1,024 NPUs, 320 switches and 3,072 cables" in generated(16)
