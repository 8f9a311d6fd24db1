"""Rows that an NPU fetches in a step from the embedding tables on its host or its disk.

Here: tables and shards as demands on the NPU's cache. Not here: which rows are looked up and what a
cache holds (`model/locality.py`), where tables are (`model/sharding.py`).

Tables on the host and on the disk share the cache. A row is fetched with its optimizer state, and
written back when it leaves the cache. Rows of one
table are everywhere alike: a rank with half of the rows has half of the popular ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import InputError, Problem
from ..model.dlrm import Dlrm, EmbeddingTable
from ..model.locality import Demand, Popularity, fetched
from ..model.sharding import Fetched, ShardLoads, TableLoad
from ..model.sharding_plan import TablePlan, Tier
from .dlrm_options import DlrmSizes, Options


def cached(placement: ShardLoads, model: Dlrm, chosen: Options, sizes: DlrmSizes) -> ShardLoads:
    """`placement` with the caches of the tables on hosts and disks, and what a step brings into
    them. Raises `InputError` where the size of the cache is missing."""
    if not placement.host:
        return placement
    cache = chosen.cache_bytes
    if cache is None:
        said = "is missing: tables are in the host's memory or on disk"
        raise InputError([Problem("", "cache", said, "a size, such as 20 GB")])
    demands: list[list[tuple[Tier, Demand]]] = [[] for _ in placement.host]
    for table, planned in zip(model.tables, placement.plan.tables, strict=True):
        if planned.tier != "device":
            for rank, demand in _demands(table, planned, chosen, sizes):
                demands[rank].append((planned.tier, demand))
    known: dict[tuple[tuple[Tier, Demand], ...], Fetched] = {}
    amounts = []
    for asked in map(tuple, demands):
        if asked not in known:
            known[asked] = _fetched(asked, cache)
        amounts.append(known[asked])
    return replace(placement, fetched=tuple(amounts), cache=cache)


def _fetched(asked: Sequence[tuple[Tier, Demand]], cache: int) -> Fetched:
    """Bytes from each memory in a step."""
    rows = fetched([demand for _, demand in asked], cache)
    moved = {"host": 0.0, "disk": 0.0}
    for (tier, demand), count in zip(asked, rows, strict=True):
        moved[tier] += count * demand.size
    return Fetched(round(moved["host"]), round(moved["disk"]))


def _demands(
    table: EmbeddingTable, planned: TablePlan, chosen: Options, sizes: DlrmSizes
) -> Sequence[tuple[int, Demand]]:
    """The rank of each shard, and what it asks of the cache there."""
    batch = sizes.local_batch * (1 if planned.scheme == "data" else chosen.dp)
    popularity = Popularity(table.rows, chosen.skew)
    found = []
    for shard in planned.shards:
        one = TableLoad(parameters=len(shard.columns), rows=1)
        size = sum(one.bytes(sizes.embedding, chosen.optimizer))
        share = len(shard.rows) / table.rows
        found.append((shard.rank, Demand(popularity, batch * table.pooling, share, size)))
    return found
