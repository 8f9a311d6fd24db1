"""Facts of blocks as Python sees them."""

from __future__ import annotations

from armillary.blocks import BLOCKS


def test_diameters_are_those_of_the_textbook() -> None:
    found = {name: [block.diameter(size) for size in (2, 5, 8)] for name, block in BLOCKS.items()}
    assert found["Ring"] == [1, 2, 4]
    assert found["Mesh"] == [1, 4, 7]
    assert found["FullyConnected"] == [1, 1, 1]
    assert found["Switch"] == [2, 2, 2]


def test_only_a_ring_closes() -> None:
    assert [name for name, block in BLOCKS.items() if block.closes] == ["Ring"]
