"""NPUs with several network cards: messages use all of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from armillary.cli.app import main


def planes(cards: int) -> str:
    """8 NPUs with a card of 50 GB/s on each plane: two leaf switches and a spine at full rate."""
    links = []
    for plane in range(cards):
        leaf, spine = 3 * plane, 3 * plane + 2
        links += [(f"npu{npu}", f"switch{leaf + npu // 4}", 50) for npu in range(8)]
        links += [(f"switch{leaf + at}", f"switch{spine}", 200) for at in (0, 1)]
    rows = [
        f"  - {{between: [{a}, {b}], bandwidth: {rate} GB/s, latency: 500 ns}}"
        for a, b, rate in links
    ]
    return "\n".join(["graph:", "  npus: 8", f"  switches: {3 * cards}", "  links:", *rows]) + "\n"


def bus_bandwidth(text: str, backend: str, folder: Path, *more: str) -> float:
    file, found = folder / "cards.yml", folder / "found.json"
    file.write_text(text, encoding="utf-8")
    sizes = ["all_reduce", "-b", "256M", "-e", "256M", "-p", str(file), "--backend", backend]
    assert main(["collective", *sizes, *more, "--json", str(found)]) == 0
    [row] = json.loads(found.read_text(encoding="utf-8"))["rows"]
    return float(row["busbw"])


@pytest.mark.parametrize("backend", ["analytical", "flow"])
@pytest.mark.parametrize("cards", [1, 2, 3])
def test_messages_use_all_cards(backend: str, cards: int, tmp_path: Path) -> None:
    found = bus_bandwidth(planes(cards), backend, tmp_path)
    assert 0.95 * 50 * cards < found <= 50 * cards


@pytest.mark.parametrize("routing", ["auto", "spray"])
def test_two_parallel_links_are_no_slower_than_one(routing: str, tmp_path: Path) -> None:
    """Two cards to one switch."""
    row = "  - {between: [npu%d, switch0], bandwidth: 50 GB/s, latency: 500 ns}"
    found = []
    for links in (1, 2):
        rows = [row % npu for npu in range(8) for _ in range(links)]
        text = "\n".join(["graph:", "  npus: 8", "  switches: 1", "  links:", *rows]) + "\n"
        option = f"network.routing={routing}"
        found.append(bus_bandwidth(text, "analytical", tmp_path, "--set", option))
    assert found[0] > 47
    assert found[1] > 1.95 * found[0]
