"""What an NPU fetches in a step of the embedding tables on its host.

Here: tables and shards as demands on the NPU's cache. Not here: which rows are looked up and what a
cache holds (`model/locality.py`), where tables are (`model/sharding.py`).

A row is fetched with its optimizer state, and written back when it leaves the cache. Rows of one
table are everywhere alike: a rank with half of the rows has half of the popular ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..errors import InputError, Problem
from ..model.dlrm import Dlrm, EmbeddingTable
from ..model.locality import Demand, Popularity, fetched
from ..model.sharding import ShardPlacement, TableLoad
from ..model.sharding_plan import TablePlan
from .dlrm_options import DlrmSizes, Options


def cached(
    placement: ShardPlacement, model: Dlrm, chosen: Options, sizes: DlrmSizes
) -> ShardPlacement:
    """`placement` with the caches of the tables on hosts, and what a step brings into them. Raises
    `InputError` where the size of the cache is missing."""
    if not placement.host:
        return placement
    if chosen.cache is None:
        said = "is missing: tables are in the host's memory"
        raise InputError([Problem("", "cache", said, "bytes, such as 20000000000")])
    demands: list[list[Demand]] = [[] for _ in placement.host]
    for table, planned in zip(model.tables, placement.plan.tables, strict=True):
        if planned.tier == "host":
            for rank, demand in _demands(table, planned, chosen, sizes):
                demands[rank].append(demand)
    known: dict[tuple[Demand, ...], int] = {}
    amounts = []
    for asked in map(tuple, demands):
        if asked not in known:
            rows = fetched(asked, chosen.cache)
            known[asked] = round(sum(n * each.size for n, each in zip(rows, asked, strict=True)))
        amounts.append(known[asked])
    return replace(placement, fetched=tuple(amounts), cache=chosen.cache)


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
