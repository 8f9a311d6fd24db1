"""Operations that run while a batch is in the MLPs: the exchanges of this batch and of the next
ones.

Here: one batch on its way through tables and MLPs, and the order in which its parts begin and end.
Not here: exchanges (`ranks/exchange.py`), what tables do (`ranks/sharded.py`), the run (`loop.py`).

Model (Mudigere et al., Neo and ZionEX, ISCA 2022, section 4.2): while a batch is in the top MLP,
indices of the next one are sent; pooled rows are sent while the bottom MLP works; gradients of the
MLPs are added up during the backward pass. Here the rows of the next batch are also looked up
early: as soon as the tables have their new values, before the MLPs have theirs.

    this batch                         next batch           under way meanwhile
    bottom MLP, forward                how much is sent     pooled rows of this batch
    top MLP, forward and backward      indices are sent     indices
    bottom MLP, backward                                    gradients of rows, of the top MLP
    tables are updated                                      gradients of the MLPs
                                       rows are looked up   gradients of the MLPs
    step of the MLPs' optimizer                             pooled rows of the next batch

With caches, indices are sent one batch earlier, so that the rows of the batch after the next are
fetched as soon as those of the next are looked up.

The pipeline changes when a rank waits, and nothing that it computes: parameters have the same bits
with and without it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from .. import profile_ranges
from ..build import Embeddings
from ..data import Part, Samples
from ..ranks.all_reduce import adding_up
from ..ranks.coroutines import Coroutine
from ..ranks.exchange import Exchange
from ..ranks.index_distribution import Distributed
from ..ranks.sharded import ShardedEmbeddingCollection
from ..settings import Settings
from ..tables.batch import SparseBatch
from ..tables.embedding import EmbeddingCollection

Windows = Iterator[tuple[Part, Sequence[Part]]]


class PipelinedBatch:
    """A batch on its way through the tables, on this rank. Its methods are called in their order,
    those that only begin something also earlier or not at all."""

    def __init__(self, part: Part, embeddings: Embeddings, device: str) -> None:
        """Says to the other ranks what this one looks up, and copies samples to the device."""
        self.part, self.embeddings = part, embeddings
        samples = part.samples
        self.dense, self.labels = (
            _copied(torch.from_numpy(each), device) for each in (samples.dense, samples.labels)
        )
        self._sparse = sparse(samples)
        self._batch: Coroutine[Distributed] | None = None
        self._rows: Coroutine[Tensor] | None = None
        self._update: Coroutine[Tensor | None] | None = None
        self._fetched = False
        self._pooled: Tensor | None = None
        self._gradient: Tensor | None = None
        if isinstance(embeddings, ShardedEmbeddingCollection):
            self._batch = Coroutine(embeddings.distributing(self._sparse))
            with profile_ranges.part("inputs.distribute"):
                self._batch.go_on()

    def send_indices(self) -> None:
        """Begins to send what is looked up."""
        if self._batch is not None:
            with profile_ranges.part("inputs.distribute"):
                self._batch.go_on()

    def arrive(self) -> None:
        """Waits for what all ranks look up here."""
        if self._batch is not None:
            with profile_ranges.part("inputs.distribute"):
                self._batch.finish()

    def prefetch(self) -> None:
        """Begins to bring the rows into caches."""
        if self._fetched:
            return
        self._fetched, tables = True, self.embeddings
        if self._batch is not None and isinstance(tables, ShardedEmbeddingCollection):
            tables.prefetch(self._batch.finish())
        elif isinstance(tables, EmbeddingCollection):
            tables.prefetch(self._sparse)

    def look_up(self) -> None:
        """Looks up rows, as the tables are now, and begins to send them."""
        tables = self.embeddings
        if self._batch is not None and isinstance(tables, ShardedEmbeddingCollection):
            if self._rows is None:
                self.arrive()
                self._rows = Coroutine(tables.looking_up(self._batch.finish()))
                self._rows.go_on()
        elif self._pooled is None:
            self._pooled = tables(self._sparse)

    def pooled(self) -> Tensor:
        """The rows of this rank's samples [samples, columns], when they are here."""
        self.look_up()
        if self._rows is not None:
            return self._rows.finish()
        assert self._pooled is not None
        return self._pooled.detach()

    def send_gradient(self, gradient: Tensor) -> None:
        """Begins to send the gradient of `pooled` to the tables."""
        self._gradient = gradient
        tables = self.embeddings
        if self._batch is not None and isinstance(tables, ShardedEmbeddingCollection):
            self._update = Coroutine(tables.updating(self._batch.finish(), gradient))
            self._update.go_on()

    def update(self) -> None:
        """Updates the tables."""
        if self._update is not None:
            self._update.finish()
        elif self._pooled is not None and self._gradient is not None:
            torch.autograd.backward(self._pooled, self._gradient)


class Sums:
    """Adds up the gradients of parameters over the ranks."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self._under_way: list[tuple[list[Tensor], Tensor, Coroutine[Tensor]]] = []
        """Parameters, their gradients in one piece, and the way to the sums of these."""

    def start(self, parameters: Sequence[Tensor]) -> None:
        """Begins to add up those of some parameters."""
        if self.exchange.size == 1 or not parameters:
            return
        flat = self.exchange.room(sum(each.numel() for each in parameters), parameters[0].device)
        gradients = [
            (torch.zeros_like(each) if each.grad is None else each.grad).view(-1)
            for each in parameters
        ]
        torch.cat(gradients, out=flat)
        coroutine = Coroutine(adding_up(self.exchange, flat))
        coroutine.go_on()
        self._under_way.append((list(parameters), flat, coroutine))

    def go_on(self) -> None:
        """Sends on what has arrived, waiting for it."""
        for *_, coroutine in self._under_way:
            coroutine.go_on()

    def finish(self) -> None:
        """Gives the parameters the sums, up to `clear`."""
        for parameters, _, coroutine in self._under_way:
            sizes = [each.numel() for each in parameters]
            for each, found in zip(parameters, torch.split(coroutine.finish(), sizes), strict=True):
                each.grad = found.view_as(each)

    def clear(self) -> None:
        """Takes the sums away from the parameters."""
        for parameters, flat, _ in self._under_way:
            for each in parameters:
                each.grad = None
            self.exchange.release(flat)
        self._under_way.clear()


def depth(settings: Settings, ranks: int) -> int:
    """How many batches are under way in addition to the one that is trained on; `ranks` share the
    tables."""
    if not settings.pipeline:
        return 0
    if settings.cache is not None:
        return 2
    return int(ranks > 1 or settings.device != "cpu")


def windows(parts: Iterator[Part], ahead: int) -> Windows:
    """Each part with up to `ahead` of those behind it."""
    window: list[Part] = []
    for part in parts:
        window.append(part)
        if len(window) > ahead:
            yield window[0], window[1:]
            del window[0]
    while window:
        yield window[0], window[1:]
        del window[0]


def sparse(samples: Samples) -> SparseBatch:
    """Lookups of samples."""
    return SparseBatch(torch.from_numpy(samples.lengths), torch.from_numpy(samples.indices))


def _copied(values: Tensor, device: str) -> Tensor:
    """Begins to copy values to a device. Memory that does not move is what lets it go on while
    the host does other work."""
    if device == "cpu":
        return values
    return values.pin_memory().to(device, non_blocking=True)
