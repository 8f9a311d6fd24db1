"""Row-wise AdaGrad of tables that are cut by columns: every shard of a row needs the mean of
squares of the whole row's gradient, as one process has it. Neo keeps a state for each shard instead
(section 4), which trains another model.

Here: the exchange of sums of squares. Not here: the update (`embedding.py`)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .. import _core
from ..errors import InputError, Problem
from .distribution import Bags
from .embedding import EmbeddingCollection
from .exchange import Exchange
from .optimizers import Optimizer
from .sharding import Placement, shard_name


class RowMeans:
    """Rows whose columns are on several ranks, and whose optimizer needs the mean of squares of the
    whole row's gradient. All ranks with columns of a table look up the same rows, so the sums of
    squares of their columns are sent in the order of rows, and added up in that of shards."""

    def __init__(
        self, placement: Placement, exchange: Exchange, held: EmbeddingCollection | None
    ) -> None:
        self.exchange = exchange
        self.places = {} if held is None else {t.name: at for at, t in enumerate(held.tables)}
        self.held = held
        self.ranks: list[list[int]] = []
        """The rank of each shard of each table that is cut by columns."""
        self.names: list[list[str]] = []
        """The name of each of these shards."""
        self.columns: list[int] = []
        """Columns of each of these tables."""
        for table, planned in zip(placement.tables, placement.plan.tables, strict=True):
            if planned.scheme == "column" and len(planned.ranks) > 1:
                self.ranks.append(list(planned.ranks))
                self.names.append([shard_name(table, shard) for shard in planned.shards])
                self.columns.append(table.dim)

    @classmethod
    def of(
        cls,
        placement: Placement,
        exchange: Exchange,
        held: EmbeddingCollection | None,
        optimizer: Optimizer,
    ) -> RowMeans | None:
        """The rows of a placement, if there are any.

        Raises:
            InputError: an optimizer that needs more than the mean of squares.
        """
        found = cls(placement, exchange, held)
        if not found.ranks:
            return None
        if optimizer.rule == "lamb" or optimizer.clip_norm < math.inf:
            said = "lengths of rows whose columns are on several ranks are unknown"
            allowed = "table, row, table_row or data; no clip_norm, and not lamb"
            raise InputError([Problem("", "sharding plan", said, allowed)])
        return found if optimizer.by_row else None

    def share(self, bags: Bags, gradient: Tensor) -> None:
        """Gives the rows of this rank's columns the means of squares of whole rows."""
        rank, tables = self.exchange.rank, range(len(self.ranks))
        mine = {
            (table, shard): self._squares(bags, gradient, self.names[table][shard])
            for table in tables
            for shard in self._shards(table, rank)
        }
        counts = {table: len(rows) for (table, _), (rows, _) in mine.items()}
        parts: list[Tensor] = []
        give, take = [], []
        for other in range(self.exchange.size):
            both = [table for table in tables if table in counts and self._shards(table, other)]
            parts += [
                mine[table, shard][1] for table in both for shard in self._shards(table, rank)
            ]
            give.append(sum(counts[table] * len(self._shards(table, rank)) for table in both))
            take.append(sum(counts[table] * len(self._shards(table, other)) for table in both))
        received = self.exchange.swap(torch.cat([torch.empty(0), *parts]), give, take)
        found: dict[tuple[int, int], Tensor] = {}
        blocks = torch.split(received, take)
        for other, block in enumerate(blocks):
            keys = [(table, shard) for table in counts for shard in self._shards(table, other)]
            sizes = [counts[table] for table, _ in keys]
            found.update(zip(keys, torch.split(block, sizes), strict=True))
        for table in counts:
            total = found[table, 0].clone()
            for shard in range(1, len(self.ranks[table])):
                total += found[table, shard]
            total /= self.columns[table]
            for shard in self._shards(table, rank):
                place = self.places[self.names[table][shard]]
                assert self.held is not None
                rows = mine[table, shard][0]
                self.held._engine.set_row_means(place, rows, total.numpy())

    def _shards(self, table: int, rank: int) -> list[int]:
        """The shards of a table that a rank holds."""
        return [shard for shard, holder in enumerate(self.ranks[table]) if holder == rank]

    def _squares(self, bags: Bags, gradient: Tensor, name: str) -> tuple[_core.RowSquares, Tensor]:
        assert self.held is not None
        grad = gradient.contiguous().numpy()
        rows = self.held._engine.row_squares(bags.samples, bags.arrays, grad, self.places[name])
        squares = torch.empty(len(rows))
        rows.write(squares.numpy())
        return rows, squares
