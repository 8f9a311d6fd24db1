"""A way for each table, and a place for each of its shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..model.dlrm import EmbeddingTable
from ..model.sharding_plan import ShardingPlan, TablePlan, ranks_at
from .costs import Rates, Sizes, Way
from .partition import Floats, Whole


@dataclass(frozen=True)
class Placed:
    """A way for each table and a place for each of its shards."""

    ways: tuple[Way, ...]
    places: tuple[tuple[int, ...], ...]
    """Places of each table: the rank of each shard; the node; nothing where it is on all ranks."""
    loads: Floats
    """Cost of each rank."""
    memory: Whole
    """Bytes on each rank."""

    @classmethod
    def of(
        cls, ways: Sequence[Way], places: Sequence[tuple[int, ...]], used: Whole, each: int
    ) -> Placed:
        """Loads and memory added up, on ranks that have `used` some bytes; `each`: ranks of a
        node."""
        loads, held = np.zeros(len(used)), used.copy()
        for way, there in zip(ways, places, strict=True):
            if way.place == "rank":
                np.add.at(loads, list(there), way.costs)
                np.add.at(held, list(there), way.memory)
                continue
            part = slice(there[0] * each, (there[0] + 1) * each) if there else slice(None)
            loads[part] += way.costs[0]
            held[part] += way.memory[0]
        return cls(tuple(ways), tuple(places), loads, held)

    def paying(self, rates: Rates, sizes: Sizes) -> Placed:
        """The same with what ranks pay once, whatever their tables: kernels, and exchanges."""
        held = np.where(self.loads > 0, self.loads + rates.fixed(sizes), rates.idle(sizes))
        return replace(self, loads=held + rates.once((way.scheme for way in self.ways), sizes))

    @property
    def highest(self) -> float:
        """The greatest load."""
        return float(self.loads.max(initial=0.0))

    def sharding(
        self, model: str, tables: Sequence[EmbeddingTable], ranks_per_node: int
    ) -> ShardingPlan:
        """The plan, for the simulator and the trainer."""
        count = len(self.loads)
        planned = [
            TablePlan(
                table.name,
                table.rows,
                table.dim,
                way.scheme,
                ranks_at(way.scheme, places, count, ranks_per_node),
                tier=way.tier,
            )
            for table, way, places in zip(tables, self.ways, self.places, strict=True)
        ]
        return ShardingPlan(model, count, ranks_per_node, tuple(planned))
