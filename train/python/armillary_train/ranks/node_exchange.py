"""Pooled rows of tables that are cut over the ranks of a node: added up within it, then sent to
other nodes. So what leaves a node does not grow with its ranks.

Here: one rank's part of this exchange. Not here: the other rows (`sharded.py`)."""

from __future__ import annotations

import torch
from torch import Tensor

from .column_blocks import Columns
from .coroutines import Steps
from .exchange import Exchange
from .message_rows import Block, Way, node_part_row, node_sum_row
from .sharding import Streams


class Nodes:
    """The exchange of pooled rows that are added up within a node. A rank adds up the rows of the
    samples of all ranks with its place in their nodes, and sends each of these its own."""

    def __init__(self, placement: Streams, exchange: Exchange, *, on_gpu: bool) -> None:
        self.exchange, self.each = exchange, placement.plan.ranks_per_node
        self.placement = placement
        self.place, mine = exchange.rank % self.each, placement.node_of(exchange.rank)
        self.inside = range(mine * self.each, (mine + 1) * self.each)
        """Ranks of this node."""
        self.outside = range(self.place, exchange.size, self.each)
        """Ranks with this rank's place, one for each node."""
        self.widths = [placement.node_stream_width(rank) for rank in self.inside]
        self.nodes = [placement.node_width(node) for node in range(placement.nodes)]
        self.width, self.node = self.widths[self.place], self.nodes[mine]
        runs = placement.node_runs(mine)
        self.columns = Columns(self.node, self.widths, runs, on_gpu=on_gpu)

    def forward(self, pooled: Tensor, samples: list[int], into: Tensor) -> Steps[None]:
        """Adds up the rows `pooled` [samples of all ranks, columns of this rank] and fills `into`,
        the blocks of all nodes. Pauses before it waits."""
        parts = torch.split(pooled, samples)
        sent = torch.cat([parts[rank] for rank in self._order()]).view(-1)
        give, take, rows = self._within(samples, "rows")
        under_way = self.exchange.start_rows("rows", sent, give, take)
        yield
        got = self.exchange.wait_rows(under_way)
        sums = got.new_empty(rows * self.node)
        self.columns.collect(rows, torch.split(got, [rows * each for each in self.widths]), sums)
        under_way = self.exchange.start_rows("rows", sums, *self._across(samples, "rows"), into)
        yield
        self.exchange.wait_rows(under_way)

    def backward(self, gradient: Tensor, samples: list[int]) -> Steps[Tensor]:
        """The gradient of `pooled` from that of the blocks of all nodes. Pauses before it waits."""
        give, take = self._across(samples, "gradients")
        under_way = self.exchange.start_rows("gradients", gradient, take, give)
        yield
        sums = self.exchange.wait_rows(under_way)
        give, take, rows = self._within(samples, "gradients")
        sent = sums.new_empty(sum(block.elements for part in take for block in part))
        self.columns.spread(rows, sums, sent)
        under_way = self.exchange.start_rows("gradients", sent, take, give)
        yield
        got = self.exchange.wait_rows(under_way).view(sum(samples), self.width)
        order = self._order()
        sizes = [samples[rank] for rank in order]
        parts = dict(zip(order, torch.split(got, sizes), strict=True))
        return torch.cat([parts[rank] for rank in range(len(samples))])

    def _order(self) -> list[int]:
        """All ranks, by their places in their nodes."""
        ranks = range(self.exchange.size)
        return [rank for place in range(self.each) for rank in ranks[place :: self.each]]

    def _within(
        self, samples: list[int], way: Way
    ) -> tuple[list[list[Block]], list[list[Block]], int]:
        """Blocks that go to and come from each rank in this node, and the number of rows added
        up."""
        rows = [sum(samples[place :: self.each]) for place in range(self.each)]
        mine, messages = rows[self.place], self.exchange.messages
        parts = [node_part_row(self.placement, rank, messages, way) for rank in self.inside]
        give = [Block(each, parts[self.place]) for each in rows]
        take = [Block(mine, each) for each in parts]
        return self._of(self.inside, give), self._of(self.inside, take), mine

    def _across(self, samples: list[int], way: Way) -> tuple[list[list[Block]], list[list[Block]]]:
        """Blocks that go to and come from the rank with this place in each node."""
        mine, messages = samples[self.exchange.rank], self.exchange.messages
        rows = [
            node_sum_row(self.placement, node, messages, way) for node in range(len(self.nodes))
        ]
        own = rows[self.placement.node_of(self.exchange.rank)]
        give = [Block(samples[rank], own) for rank in self.outside]
        take = [Block(mine, each) for each in rows]
        return self._of(self.outside, give), self._of(self.outside, take)

    def _of(self, ranks: range, given: list[Block]) -> list[list[Block]]:
        """The blocks `given` of `ranks`, and none of the others."""
        found = dict(zip(ranks, given, strict=True))
        return [[found[rank]] if rank in found else [] for rank in range(self.exchange.size)]
