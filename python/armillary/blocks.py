"""Blocks of topologies, as the core defines them."""

from __future__ import annotations

from typing import NamedTuple

from . import _core


class Block(NamedTuple):
    """How the NPUs along a dimension are joined."""

    name: str
    short: str
    paths: str
    """How messages travel: `direct`, `switched` or `relayed` (by the NPUs in between)."""
    symmetry: str
    """Which places look alike: `full` (any two), `rotation` or `none`."""

    @property
    def closes(self) -> bool:
        """Whether its NPUs form a closed ring."""
        return self.paths == "relayed" and self.symmetry == "rotation"

    def diameter(self, size: int) -> int:
        """Links between the two of `size` places that are farthest apart."""
        if self.paths == "relayed":
            return size // 2 if self.closes else max(size - 1, 0)
        return 1 if self.paths == "direct" else 2


BLOCKS: dict[str, Block] = {entry[0]: Block(*entry) for entry in _core.blocks()}
"""Every block by name."""
