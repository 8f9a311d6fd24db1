"""Optimizers of tables that are cut by columns. Clipping a row's gradient, row-wise AdaGrad and
LAMB need sums over whole rows, as one process has them. Neo keeps a state of row-wise AdaGrad for
each shard instead (section 4), which trains another model.

Here: the exchange of sums. Not here: what is added up, and the update (`tables/embedding.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _train
from ..tables.embedding import EmbeddingCollection
from ..tables.optimizers import Optimizer
from .exchange import Exchange
from .index_distribution import Bags
from .sharding import Streams, shard_name


class Work(NamedTuple):
    """Tables of this rank, what all ranks look up in them, and the gradient."""

    collection: EmbeddingCollection
    bags: Bags
    gradient: Tensor


class _Place(NamedTuple):
    """A table of one of this rank's collections."""

    collection: int
    table: int


class RowSums:
    """Rows whose columns are on several ranks. All ranks with columns of a table look up the same
    rows, so the sums over their columns are sent in the order of rows, and added up in that of
    shards."""

    def __init__(
        self,
        placement: Streams,
        exchange: Exchange,
        optimizer: Optimizer,
        held: Sequence[EmbeddingCollection],
        device: torch.device,
    ) -> None:
        self.exchange, self._empty = exchange, torch.empty(0, device=device)
        self.rounds = _train.Embedding.rounds(optimizer.settings())
        """How often sums are exchanged in a step: what is added up may need earlier sums."""
        places = {
            table.name: _Place(number, at)
            for number, collection in enumerate(held)
            for at, table in enumerate(collection.tables)
        }
        self.ranks: list[list[int]] = []
        """The rank of each shard of each table that is cut by columns."""
        self.columns: list[int] = []
        """Columns of each of these tables."""
        self.mine: dict[tuple[int, int], _Place] = {}
        """Where this rank has its shards, and of what tables."""
        for table, planned in zip(placement.tables, placement.plan.tables, strict=True):
            if planned.scheme != "column" or len(planned.ranks) == 1:
                continue
            for index, shard in enumerate(planned.shards):
                name = shard_name(table, shard)
                if shard.rank == exchange.rank and name in places:
                    self.mine[len(self.ranks), index] = places[name]
            self.ranks.append(list(planned.ranks))
            self.columns.append(table.dim)

    def share(self, work: Sequence[Work]) -> None:
        """Gives the rows of this rank's columns the sums over whole rows that their optimizer
        needs. `work`: this rank's collections."""
        for number in range(self.rounds if self.ranks else 0):
            self._share(work, number)

    def _share(self, work: Sequence[Work], number: int) -> None:
        """One round."""
        rank, tables = self.exchange.rank, range(len(self.ranks))
        found = {key: _sums(work, place, number) for key, place in self.mine.items()}
        counts = {table: len(sums) for (table, _), (_, sums) in found.items()}
        parts, give, take = [self._empty], [], []
        for other in range(self.exchange.size):
            both = [table for table in tables if table in counts and self._shards(table, other)]
            parts += [found[table, own][1] for table in both for own in self._shards(table, rank)]
            give.append(sum(counts[table] * len(self._shards(table, rank)) for table in both))
            take.append(sum(counts[table] * len(self._shards(table, other)) for table in both))
        received = self.exchange.swap("row_sums", torch.cat(parts), give, take)
        every: dict[tuple[int, int], Tensor] = {}
        for other, block in enumerate(torch.split(received, take)):
            keys = [(table, shard) for table in counts for shard in self._shards(table, other)]
            sizes = [counts[table] for table, _ in keys]
            every.update(zip(keys, torch.split(block, sizes), strict=True))
        for table in counts:
            total = every[table, 0].clone()
            for shard in range(1, len(self.ranks[table])):
                total += every[table, shard]
            for shard in self._shards(table, rank):
                place, (rows, _) = self.mine[table, shard], found[table, shard]
                collection = work[place.collection].collection
                collection.set_row_sums(place.table, self.columns[table], rows, total)

    def _shards(self, table: int, rank: int) -> list[int]:
        """The shards of a table that a rank holds."""
        return [shard for shard, holder in enumerate(self.ranks[table]) if holder == rank]


def _sums(work: Sequence[Work], place: _Place, number: int) -> tuple[Any, Tensor]:
    """The rows of a table that this step changes, and the sums over its columns."""
    collection, bags, gradient = work[place.collection]
    arrays = collection._arrays(bags.parts)
    return collection.row_sums(bags.samples, arrays, gradient, (place.table, number))
