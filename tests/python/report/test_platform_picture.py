from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from armillary.platform import Platform
from armillary.report import fabric_picture, load_colours
from armillary.report.platform_picture import of_platform, picture

SVG = "{http://www.w3.org/2000/svg}"


def dim(block: str, size: int) -> dict[str, Any]:
    return {"block": block, "size": size, "link_bandwidth": 50e9, "link_latency_ps": 500_000}


def machine(fabric: dict[str, Any], npus: int, **npu: Any) -> Any:  # noqa: ANN401
    return {"name": "<toy>", "npus": npus, "fabric": fabric, "npu": {"name": "N & co", **npu}}


def drawn(fabric: dict[str, Any], npus: int, **npu: Any) -> tuple[ElementTree.Element, list[str]]:  # noqa: ANN401
    root = ElementTree.fromstring(picture(machine(fabric, npus, **npu), None).svg())
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


def fabric(tmp_path: Path, topology: str) -> Platform:
    file = tmp_path / "fabric.yml"
    file.write_text(f"topology: {topology}\nlinks: {{bandwidth: 50 GB/s, latency: 1 us}}\n")
    return Platform.load(file)


def svg_of(platform: Platform) -> str:
    return of_platform(platform.describe(), platform.picture())


def titles(svg: str) -> list[str]:
    """What a reader sees who points at the nodes and links."""
    return [title.text or "" for title in ElementTree.fromstring(svg).iter(f"{SVG}title")]


def test_a_fabric_stands_in_tiers(tmp_path: Path) -> None:
    """The fat tree of four ports has 4 cores, 8 aggregation switches, 8 leaves and 16 NPUs
    (Al-Fares, 2008), and 16 cables between any two tiers."""
    svg = svg_of(fabric(tmp_path, "{generator: fat_tree, radix: 4}"))
    root = ElementTree.fromstring(svg)
    rows = [box.get("y") for box in root.iter(f"{SVG}rect") if box.get("width") == "52.0"]
    assert sorted(rows.count(row) for row in set(rows)) == [4, 8, 8, 16]
    assert len([path for path in root.iter(f"{SVG}path") if path.get("stroke")]) == 48
    assert "npu0 - leaf0: 2 one-way links of 50 GB/s, 1.000 us" in titles(svg)


LARGE = "{generator: clos, down: [16, 16, 64], up: [16, 16]}"


def test_a_large_fabric_is_small_to_look_at(tmp_path: Path) -> None:
    """16,384 NPUs: 64 pods of 16 leaves of 16 NPUs. What is not drawn by itself is counted."""
    platform = fabric(tmp_path, LARGE)
    svg, picture_ = svg_of(platform), platform.picture()
    assert picture_ is not None
    assert len(svg) < 300_000
    assert svg == svg_of(Platform.load(tmp_path / "fabric.yml"))
    counts = [0] * 4
    for cell in picture_["cells"]:
        counts[cell["tier"]] += cell["count"]
    assert counts == [16384, 1024, 1024, 256]
    assert sum(cable["links"] for cable in picture_["cables"]) == 2 * 3 * 16384
    assert {"16,384", "1,024", "256"} <= {
        text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")
    }


@pytest.mark.parametrize(
    ("topology", "layout"),
    [
        ("{generator: torus, sizes: [4, 4]}", "grid"),
        ("{generator: mesh, sizes: [16, 16, 16]}", "grid"),
        ("{generator: torus, sizes: [6]}", "circle"),
        (
            "{generator: dragonfly, npus_per_router: 8, routers_per_group: 16, global_links: 8}",
            "groups",
        ),
        ("{generator: rail_optimized, npus_per_node: 8, nodes: 512, spines: 8}", "tiers"),
        ("R(4)_M(5)_R(6)", "grid"),
        ("{generator: twisted_torus, sizes: [4, 8]}", "grid"),
        ("{generator: hyperx, npus_per_switch: 4, sizes: [4, 4]}", "grid"),
        ("{generator: concentrated_mesh, npus_per_router: 4, sizes: [4, 4]}", "grid"),
        ("{generator: concentrated_torus, npus_per_router: 2, sizes: [4, 4]}", "grid"),
        ("{generator: cube_mesh}", "circle"),
        ("{generator: nvlink_domain, npus: 72, switches: 18}", "tiers"),
    ],
)
def test_every_fabric_has_a_layout(tmp_path: Path, topology: str, layout: str) -> None:
    platform = fabric(tmp_path, topology)
    drawn = platform.picture()
    assert drawn is not None
    assert drawn["layout"] == layout
    npus = sum(cell["count"] for cell in drawn["cells"] if cell["tier"] == 0)
    assert npus == platform.npus
    svg = svg_of(platform)
    assert len(svg) < 300_000
    ElementTree.fromstring(svg)


def test_rails_cross_the_nodes(tmp_path: Path) -> None:
    """Switches inside nodes stand below those of rails: four tiers, though both are leaves."""
    drawn = fabric(
        tmp_path, "{generator: rail_optimized, npus_per_node: 8, nodes: 4, spines: 2}"
    ).picture()
    assert drawn is not None
    names = {cell["tier"]: cell["name"].rstrip("0123456789") for cell in drawn["cells"]}
    assert names == {0: "npu", 1: "node", 2: "leaf", 3: "spine"}


def test_links_have_the_colour_of_their_load() -> None:
    cells: Any = [
        {"name": name, "last": name, "count": 1, "failed": 0, "tier": tier, "at": at}
        for name, tier, at in (("a<b", 0, [0]), ("b", 0, [1]), ("s", 1, []))
    ]
    cables: Any = [
        {
            "a": npu,
            "b": 2,
            "links": 2,
            "failed": 0,
            "slowest_gb_per_s": 50.0,
            "fastest_gb_per_s": 50.0,
            "least_latency_ns": 500.0,
            "most_latency_ns": 500.0,
            "busy_ns": busy,
            "sends": None,
            "bytes": 1000,
        }
        for npu, busy in ((0, 900.0), (1, 0.0))
    ]
    drawn: Any = {"layout": "tiers", "cells": cells, "cables": cables, "sorts": []}
    svg = fabric_picture.draw(drawn, "x", 1000.0)
    strokes = [path.get("stroke") for path in ElementTree.fromstring(svg).iter(f"{SVG}path")]
    assert strokes == [load_colours.UNUSED, load_colours.colour(0.9)]
    assert any("a<b - s" in title and "90.0% of the step" in title for title in titles(svg))
    assert len({load_colours.colour(share / 10) for share in range(1, 11)}) == len(
        load_colours.STEPS
    )
    assert "of the step" not in fabric_picture.draw(drawn, "x")


def test_a_stack_shows_the_load_of_each_dimension() -> None:
    stack = {"dims": [dim("FullyConnected", 4), dim("Switch", 4)]}
    svg = picture(machine(stack, 16), None, 1000.0, [500.0, 100.0]).svg()
    assert {"busiest link 50.0%", "busiest link 10.0%"} <= {
        text.text for text in ElementTree.fromstring(svg).iter(f"{SVG}text")
    }
    assert load_colours.colour(0.5) in svg
    assert "busiest" not in picture(machine(stack, 16), None, 1000.0, [None, None]).svg()


def test_a_graph_without_a_picture_is_counted() -> None:
    """Reports of releases before pictures have the nodes and links only."""
    nodes = {"nodes": [f"n{i}" for i in range(1000)], "links": []}
    _, texts = drawn(nodes, 900)
    assert texts == ["a graph of 900 NPUs, 100 switches and 0 links"]
    drawn({}, 1)


def test_what_has_failed_is_dashed(tmp_path: Path) -> None:
    file = tmp_path / "fabric.yml"
    file.write_text(
        "topology: {generator: leaf_spine, npus_per_leaf: 2, leaves: 2, spines: 2}\n"
        "links: {bandwidth: 50 GB/s, latency: 1 us}\n"
        "failed: {links: [leaf0-spine0]}\n"
    )
    svg = svg_of(Platform.load(file))
    dashed = [
        path
        for path in ElementTree.fromstring(svg).iter(f"{SVG}path")
        if path.get("stroke-dasharray")
    ]
    assert [path.get("stroke") for path in dashed] == [load_colours.FAILED]
    assert "leaf0 - spine0: 2 one-way links of 50 GB/s, 1.000 us, 2 failed" in titles(svg)
