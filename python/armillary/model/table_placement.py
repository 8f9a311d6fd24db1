"""Shards of embedding tables on the ranks that hold them, from a sharding plan.

Here: which rank holds which shards, and on which path their pooled rows go to the samples. Views of
it: the loads of ranks in the simulator (`sharding.py`), the streams of lookups in the trainer
(`armillary_train/ranks/sharding.py`). Not here: the plan as data (`sharding_plan.py`).

Each table has one path through a step:

    direct  tables that are whole, cut by columns, or cut by rows over any ranks
    node    tables cut by rows over ranks of one node: sums are made within the node first
    data    tables with a copy on every rank"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .sharding_plan import Shard, ShardingPlan, ShardScheme, TablePlan

Path = Literal["direct", "node", "data"]

PATHS: dict[ShardScheme, Path] = {
    "table": "direct",
    "column": "direct",
    "row": "direct",
    "table_row": "node",
    "data": "data",
}
"""Path of the pooled rows of each scheme."""


@dataclass(frozen=True)
class Placement:
    """Shards of all tables on all ranks."""

    plan: ShardingPlan
    """The plan, in the order of the model's tables."""
    _shards: dict[int, tuple[Shard, ...]] = field(default_factory=dict, compare=False, repr=False)
    """Shards of the tables that were asked for."""

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.plan.ranks

    @property
    def nodes(self) -> int:
        """Nodes of the plan; a part of one counts."""
        return -(-self.plan.ranks // self.plan.ranks_per_node)

    def node_of(self, rank: int) -> int:
        """The node of a rank."""
        return rank // self.plan.ranks_per_node

    def table(self, table: int) -> TablePlan:
        """The plan of a table."""
        return self.plan.tables[table]

    def path(self, table: int) -> Path:
        """The path of a table's pooled rows."""
        return PATHS[self.table(table).scheme]

    def node_of_table(self, table: int) -> int:
        """The node whose ranks hold a table that is on one node."""
        return self.node_of(self.table(table).ranks[0])

    def shards(self, table: int) -> tuple[Shard, ...]:
        """The shards of a table, in the order of its ranks."""
        if table not in self._shards:
            self._shards[table] = tuple(self.table(table).shards)
        return self._shards[table]
