"""A batch's indices on their way to the shards, on one rank.

Here: the exchange of lengths, indices and weights. Not here: what becomes of them (`sharded.py`),
the kernels (train/crates/embedding/src/distribution).

With `W` ranks, `T` streams on this rank and `B` samples on each rank, which may differ:

    check      lengths, indices and weights; count what goes to each rank
    meet       every rank says how many samples and indices it sends, or what is wrong
    lengths    all-to-all: replicated for column shards, bucketized for row shards
    indices    all-to-all, and weights
    permute    (W, T, B) to (T, W, B): the bags of all ranks, stream by stream"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from armillary.errors import ArmillaryError, InputError, Problem

from .. import _train
from ..tables.batch import SparseBatch
from ..tables.embedding import BatchParts
from .coroutines import Steps
from .exchange import Deed, Exchange
from .lookup_exchange import Lookups
from .sharding import Streams

_SMALL = 2**31
"""Rows of shards whose indices are sent in 32 bits, at most."""


class Bags(NamedTuple):
    """The bags of some features and of some samples, as the engine reads them."""

    samples: int
    lengths: Tensor
    indices: Tensor
    weights: Tensor | None

    @property
    def parts(self) -> BatchParts:
        """Lengths, indices and weights."""
        return self.lengths, self.indices, self.weights

    def batch(self, features: int) -> SparseBatch:
        """The same as a batch; `features` is their number."""
        return SparseBatch(self.lengths.view(features, self.samples), self.indices, self.weights)

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        """The same as numpy arrays."""
        weights = None if self.weights is None else self.weights.numpy()
        return self.lengths.numpy(), self.indices.numpy(), weights


class Distributed(NamedTuple):
    """A batch after the exchange of its indices."""

    samples: list[int]
    """Samples of each rank."""
    held: list[Bags]
    """Lookups of all ranks in this rank's shards, by the groups of `Streams.groups`."""
    own: Bags
    """Lookups of this rank in copied tables."""
    copied: Bags
    """Lookups of all ranks in copied tables."""
    lookups: Lookups | None
    """The way back of single lookups: without pooling, and with gradients of weights."""
    shares: list[tuple[int, Tensor]]
    """Features whose mean is over rows that are cut, and the factor of each sample's sum."""

    @property
    def whole(self) -> int:
        """Samples of all ranks."""
        return sum(self.samples)


class Distribution:
    """The way of each feature's lookups to the ranks that hold the rows."""

    def __init__(self, placement: Streams, exchange: Exchange, device: torch.device) -> None:
        """`device`: where rows are. Lookups are in the host's memory."""
        self.placement, self.exchange, self._device = placement, exchange, device
        self._router = _router(placement)
        ranks = range(exchange.size)
        self._streams = [len(placement.streams(rank)) + len(placement.data) for rank in ranks]
        small = all(
            len(shard.rows) <= _SMALL for table in placement.plan.tables for shard in table.shards
        )
        self._index_type = torch.int32 if small else torch.int64

    def __call__(self, sparse: SparseBatch) -> Steps[Distributed]:
        """Sends this rank's lookups, and returns those of all ranks in this rank's tables. Pauses
        before it waits for lengths, and before it waits for indices.

        Raises:
            InputError: a fault of a rank's batch, on all ranks.
            TrainingError: the ranks are not about to do the same.
        """
        exchange, mine = self.exchange, self._streams[self.exchange.rank]
        given, routed, sent, fault = None, None, [0] * exchange.size, None
        try:
            given = self._checked(sparse)
            sent = self._counted(given)
            routed = self._routed(given, sum(sent))
        except ArmillaryError as error:
            fault = error
        samples = 0 if given is None else given.samples
        weighted = int(sparse.weights is not None)
        if sparse.weights is not None and sparse.weights.requires_grad:
            weighted += torch.is_grad_enabled()
        deed: Deed = "train" if torch.is_grad_enabled() else "evaluate"
        meeting = exchange.call(deed, [samples, weighted, *sent], fault)
        yield
        met = exchange.met(meeting)
        if given is None or routed is None:
            raise AssertionError("a fault that was not raised")
        if len({row[1] for row in met}) > 1:
            kinds = ("none", "weights", "weights with gradients")
            said = "; ".join(f"rank {rank} has {kinds[row[1]]}" for rank, row in enumerate(met))
            raise InputError([Problem("", "weights", said, "the same on all ranks")])
        every, got = [row[0] for row in met], [row[2 + exchange.rank] for row in met]
        give, take = [each * samples for each in self._streams], [mine * each for each in every]
        under_way = [
            exchange.start("indices", routed.lengths, give, take),
            exchange.start("indices", routed.indices, sent, got),
        ]
        if routed.weights is not None:
            under_way.append(exchange.start("indices", routed.weights, sent, got))
        yield
        lengths, indices, *weights = map(exchange.wait, under_way)
        received = Bags(sum(every), lengths, indices, weights[0] if weights else None)
        sizes = [each for each in every for _ in range(mine)]
        held, copied = self._grouped(sizes, received)
        features = len(self.placement.features)
        own = _permuted([samples] * features, list(self.placement.data), given)
        lookups = None
        if self.placement.unpooled or weighted > 1:
            lookups = self._lookups(given, every, received.lengths)
        return Distributed(every, held, own, copied, lookups, self._shares(given))

    def _grouped(self, sizes: list[int], received: Bags) -> tuple[list[Bags], Bags]:
        """The bags of each group of streams, and those of copied tables."""
        rank, ranks = self.exchange.rank, range(self.exchange.size)
        mine = self._streams[rank]
        groups = self.placement.groups(rank)
        data = list(range(mine - len(self.placement.data), mine))
        order = [
            [from_ * mine + each for each in part for from_ in ranks] for part in (*groups, data)
        ]
        if len(groups) == 1:
            both = [*order[0], *order[1]]
            held, copied = _split(_permuted(sizes, both, received), len(groups[0]))
            return [held], copied
        *held_all, copied = (_permuted(sizes, each, received) for each in order)
        return held_all, copied

    def _lookups(self, given: Bags, every: list[int], lengths: Tensor) -> Lookups:
        """The way back, by the `lengths` that this rank received."""
        mine = self._streams[self.exchange.rank]
        blocks = torch.split(lengths, [each * mine for each in every])
        counts = torch.stack(
            [block.view(mine, each).sum(1) for block, each in zip(blocks, every, strict=True)]
        )
        shaped = given.lengths.view(len(self.placement.features), given.samples)
        both = shaped, given.indices
        return Lookups(self.placement, self.exchange, both, counts, self._device)

    def _checked(self, sparse: SparseBatch) -> Bags:
        """The batch as the router reads it. What the router doesn't check is right."""
        features = self.placement.features
        for name, tensor in (("lengths", sparse.lengths), ("indices", sparse.indices)):
            if tensor.dtype not in (torch.int32, torch.int64):
                said = f"{name} of type {tensor.dtype}"
                raise InputError([Problem("", "batch", said, "int32, int64")])
        if sparse.lengths.dim() != 2 or len(sparse.lengths) != len(features):
            said = f"lengths of the shape {list(sparse.lengths.shape)}"
            raise InputError([Problem("", "batch", said, f"[{len(features)}, samples]")])
        if sparse.weights is not None:
            self._check_weights(sparse.weights)
        weights = None if sparse.weights is None else sparse.weights.detach().contiguous()
        lengths = sparse.lengths.detach().contiguous().view(-1)
        return Bags(sparse.lengths.shape[1], lengths, sparse.indices.detach().contiguous(), weights)

    def _check_weights(self, weights: Tensor) -> None:
        for feature in self.placement.features:
            if feature.pooling != "sum":
                said = "a batch with weights, but the rows of this feature are not summed"
                allowed = 'weights with pooling "sum" only'
                raise InputError([Problem("", f"feature {feature.name!r}", said, allowed)])
        if weights.dtype is not torch.float32:
            raise InputError([Problem("", "weights", f"of type {weights.dtype}", "float32")])

    def _counted(self, given: Bags) -> list[int]:
        """Indices that go to each rank. Checks the batch."""
        counts = iter(self._router.count(given.samples, given.arrays))
        return [sum(next(counts) for _ in range(streams)) for streams in self._streams]

    def _routed(self, given: Bags, lookups: int) -> Bags:
        """Lookups to send: the streams of the first rank, then those of the second."""
        lengths = torch.empty(sum(self._streams) * given.samples, dtype=torch.int32)
        indices = torch.empty(lookups, dtype=self._index_type)
        weights = None if given.weights is None else torch.empty(lookups)
        sent = Bags(given.samples, lengths, indices, weights)
        self._router.fill(given.arrays, sent.arrays)
        return sent

    def _shares(self, given: Bags) -> list[tuple[int, Tensor]]:
        found = []
        lengths = given.lengths.view(len(self.placement.features), given.samples)
        for place, feature in enumerate(self.placement.features):
            if feature.pooling == "mean" and self.placement.cut(place):
                rows = lengths[place].to(torch.float32).clamp(min=1)
                found.append((place, rows.reciprocal().view(-1, 1).to(self._device)))
        return found


def _router(placement: Streams) -> _train.Router:
    """Sends each feature's lookups to its streams, and those of copied tables to all ranks."""
    cuts = [
        (feature.name, feature.table, placement.planned(place).rows, placement.cut(place))
        for place, feature in enumerate(placement.features)
    ]
    segments = []
    for rank in range(placement.ranks):
        for stream in placement.streams(rank):
            segments.append((stream.feature, stream.shard if cuts[stream.feature][3] else 0))
        segments += [(feature, 0) for feature in placement.data]
    return _train.Router(cuts, segments)


def _permuted(sizes: list[int], order: list[int], bags: Bags) -> Bags:
    """The blocks `order` of bags in blocks of `sizes`."""
    blocks = _train.Blocks(sizes, bags.lengths.numpy(), len(bags.indices))
    count, lookups = blocks.extent(order)
    lengths = torch.empty(count, dtype=bags.lengths.dtype)
    indices = torch.empty(lookups, dtype=bags.indices.dtype)
    weights = None if bags.weights is None else torch.empty(lookups)
    found = Bags(bags.samples, lengths, indices, weights)
    blocks.permute_bags(order, bags.lengths.numpy(), lengths.numpy())
    blocks.permute_lookups(order, bags.indices.numpy(), indices.numpy())
    if weights is not None and bags.weights is not None:
        # Weights are copied as they are.
        of, to = (each.view(torch.int32).numpy() for each in (bags.weights, weights))
        blocks.permute_lookups(order, of, to)
    return found


def _split(bags: Bags, streams: int) -> tuple[Bags, Bags]:
    """The first `streams` features, and the others."""
    bag = streams * bags.samples
    lookup = int(bags.lengths[:bag].sum())
    first, second = zip(
        *(
            (each[:place], each[place:]) if each is not None else (None, None)
            for each, place in (
                (bags.lengths, bag),
                (bags.indices, lookup),
                (bags.weights, lookup),
            )
        ),
        strict=True,
    )
    return Bags(bags.samples, *first), Bags(bags.samples, *second)
