"""A way for each table, and a place for each of its shards."""

from __future__ import annotations

from dataclasses import dataclass

from .costs import Way
from .partition import Floats, Whole


@dataclass(frozen=True)
class Placed:
    """A way for each table and a place for each of its shards."""

    ways: tuple[Way, ...]
    places: tuple[tuple[int, ...], ...]
    """Of each table: the rank of each shard; the node; nothing where it is on all ranks."""
    loads: Floats
    """Cost of each rank."""
    memory: Whole
    """Bytes on each rank."""

    @property
    def highest(self) -> float:
        """The greatest load."""
        return float(self.loads.max(initial=0.0))
