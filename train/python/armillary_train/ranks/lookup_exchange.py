"""Messages between ranks for single lookups: rows without pooling, and gradients of the weights of
lookups go back to the rank whose lookups they are; gradients of rows go to the shards.

Here: one batch's lookups, and where each rank's are. Not here: pooled rows (`sharded.py`), the way
of indices (`index_distribution.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from .exchange import Exchange
from .message_rows import Block, Way, row
from .sharding import Stream, Streams


class Lookups:
    """The lookups of a batch, by the streams in which they went to shards. Those of copied tables
    are streams to all ranks, behind the others."""

    def __init__(
        self,
        placement: Streams,
        exchange: Exchange,
        given: tuple[Tensor, Tensor],
        held: Tensor,
        device: torch.device,
    ) -> None:
        """`given`: lengths [features, samples] and indices of this rank's samples. `held`: how many
        lookups of each rank this rank has in each of its streams, [ranks, streams]. `device`: where
        values are."""
        self.exchange, self._empty = exchange, torch.empty(0, device=device)
        lengths, indices = given
        self.firsts = [0, *accumulate(lengths.sum(1).tolist())]
        """This rank's first lookup of each feature, and the number of lookups."""
        self.held: list[list[int]] = held.t().tolist()
        self.streams = [placement.streams(rank) for rank in range(exchange.size)]
        self.data = [
            Stream(feature, 0, range(placement.tables[placement.table_of[feature]].dim))
            for feature in placement.data
        ]
        self._places = {
            feature: self._shards(feature, placement.cut(feature), indices)
            for feature in range(len(placement.features))
        }

    def _shards(self, feature: int, ends: list[int], indices: Tensor) -> list[Tensor | slice]:
        """This rank's lookups of a feature, by shard if rows are cut."""
        first, last = self.firsts[feature : feature + 2]
        if not ends:
            return [slice(first, last)]
        rows = indices[first:last].contiguous()
        shards = torch.bucketize(rows, torch.tensor(ends, dtype=rows.dtype), right=True)
        return [first + (shards == shard).nonzero().view(-1) for shard in range(len(ends))]

    def place(self, stream: Stream) -> Tensor | slice:
        """This rank's lookups that went into a stream, in their order."""
        places = self._places[stream.feature]
        return places[stream.shard if len(places) > 1 else 0]

    def count(self, stream: Stream) -> int:
        """How many they are."""
        place = self.place(stream)
        return place.stop - place.start if isinstance(place, slice) else len(place)

    def home(
        self, way: Way, values: Sequence[Tensor], width: int | None = None
    ) -> list[tuple[Stream, Tensor]]:
        """Values of shards for this rank's lookups: for each stream the values [lookups, width], in
        the order of features and shards. `values`: for each of this rank's streams its values for
        the lookups of all ranks, rank by rank; `width` is the width of the stream's columns, if it
        is not given."""
        parts = [torch.split(each, counts) for each, counts in zip(values, self.held, strict=False)]
        ranks = range(self.exchange.size)
        sent = [part[rank].reshape(-1) for rank in ranks for part in parts]
        mine = self.streams[self.exchange.rank]
        give = [
            [
                self._block(way, each, len(part[rank]), width)
                for each, part in zip(mine, parts, strict=True)
            ]
            for rank in ranks
        ]
        take = [
            [self._block(way, each, self.count(each), width) for each in streams]
            for streams in self.streams
        ]
        flat = torch.cat([self._empty, *sent])
        got = self.exchange.swap_rows(way, flat, give, take)
        streams = [each for streams in self.streams for each in streams]
        blocks = torch.split(got, [block.elements for part in take for block in part])
        found = [
            (stream, block.view(-1, width or len(stream.columns)))
            for stream, block in zip(streams, blocks, strict=True)
        ]
        return sorted(found, key=lambda each: each[0][:2])

    def away(self, way: Way, values: Tensor) -> list[Tensor]:
        """Values that shards need for all ranks' lookups: for each of this rank's streams, then for
        copied tables, the columns of the stream [lookups, width]. `values` [lookups, columns] is
        this rank's."""
        every = [[*streams, *self.data] for streams in self.streams]
        sent = [
            values[self.place(stream), stream.columns.start : stream.columns.stop].reshape(-1)
            for streams in every
            for stream in streams
        ]
        give = [[self._block(way, each, self.count(each)) for each in streams] for streams in every]
        mine = every[self.exchange.rank]
        ranks = range(self.exchange.size)
        take = [
            [
                self._block(way, stream, counts[rank])
                for stream, counts in zip(mine, self.held, strict=True)
            ]
            for rank in ranks
        ]
        flat = torch.cat([self._empty, *sent])
        got = self.exchange.swap_rows(way, flat, give, take)
        blocks = torch.split(got, [block.elements for part in take for block in part])
        return [
            torch.cat([blocks[rank * len(mine) + at] for rank in ranks]).view(
                -1, len(stream.columns)
            )
            for at, stream in enumerate(mine)
        ]

    def own(self, values: Tensor) -> Tensor:
        """This rank's part of what copied tables say of the lookups of all ranks."""
        rank = self.exchange.rank
        counts = self.held[len(self.held) - len(self.data) :]
        parts = torch.split(values, [count for each in counts for count in each])
        size = self.exchange.size
        return torch.cat([values[:0], *parts[rank::size]])

    def _block(self, way: Way, stream: Stream, count: int, width: int | None = None) -> Block:
        """Block of `count` lookups of a stream."""
        messages = self.exchange.messages
        format_ = messages.forward if way == "rows" else messages.backward
        return Block(count, row([(width or len(stream.columns), format_)]))
