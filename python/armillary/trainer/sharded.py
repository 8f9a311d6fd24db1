"""Embedding tables that are shared out over ranks, with the results of `EmbeddingCollection`.

Here: a step of the tables on one rank. Not here: which rank holds what (`sharding.py`), the way of
indices (`distribution.py`), collectives (`exchange.py`), lookups and updates (`embedding.py`).

Model (Mudigere et al., Neo and ZionEX, ISCA 2022, sections 4 and 7.1):

    distribute  each lookup to the rank that holds the row (`distribution.py`)
    look up     pooled rows of the samples of all ranks, in this rank's shards
    rows        all-to-all; shards by rows are added up in their order (a reduce-scatter)
    gradients   the way back: each shard gets those of the samples of all ranks, in their order
    update      once for each row, by the exact sum

Tables on every rank look up their own samples, and update all copies by the gradients of the
samples of all ranks, in their order. So every shard and every copy adds up what one process would
add up, in its order, and changes by the same bits. Only the partial sums of rows that are cut are
added up in another order, in the forward pass.

Gradients of all ranks are added and never divided by the number of ranks. So the loss on a rank
must be the sum over its samples divided by the number of samples of all ranks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from .. import _core
from ..errors import InputError, Problem, TrainingError
from ..model.sharding_plan import ShardingPlan
from .batch import SparseBatch
from .distribution import Bags, Distributed, Distribution
from .embedding import EmbeddingCollection
from .exchange import Exchange, Pending
from .nodes import Nodes
from .optimizers import Optimizer
from .rectangles import Rectangle, fill, parse
from .row_means import RowMeans
from .sharding import Placement
from .tables import Feature, Table


class ShardedEmbeddingCollection(torch.nn.Module):
    """Tables shared out over the processes of a group by a sharding plan. All ranks call it at the
    same time, each with its own samples."""

    def __init__(
        self,
        tables: Sequence[Table],
        features: Sequence[Feature],
        optimizer: Optimizer,
        plan: ShardingPlan,
        *,
        exchange: Exchange | None = None,
        seed: int = 0,
        threads: int = 1,
        refuse_not_finite: bool = True,
    ) -> None:
        """This rank's shards with their initial weights, which are those of `EmbeddingCollection`.

        Raises:
            InputError: the plan does not fit the tables or the number of processes.
        """
        super().__init__()
        self.exchange = exchange or Exchange()
        self.tables, self.features = tuple(tables), tuple(features)
        self.optimizer = optimizer
        self._finite_only = refuse_not_finite
        rank = self.exchange.rank
        self.placement = Placement.of(plan, tables, features, self.exchange.size)
        parts = (self.placement.held(rank), self.placement.copied())
        # In a tuple, so that torch does not see modules whose state is this one's.
        self._collections = tuple(_collection(each, optimizer, seed, threads) for each in parts)
        self._near = self.placement.widths[rank]
        self._distribution = Distribution(self.placement, self.exchange)
        self._columns = _core.Columns(
            self.placement.firsts[-1], self.placement.widths, self.placement.runs
        )
        schemes = {each.scheme for each in plan.tables}
        hierarchical = "table_row" in schemes
        self._rows = RowMeans.of(self.placement, self.exchange, self._held, optimizer)
        self._nodes = Nodes(self.placement, self.exchange) if hierarchical else None
        self._spare = torch.empty(0)
        self._steps = 0

    def forward(self, sparse: SparseBatch) -> Tensor:
        """The pooled rows of this rank's samples, all features side by side, float32 [samples, sum
        of dims].

        Raises:
            InputError: a fault of a rank's batch, on all ranks. It names the rank, the table, the
                feature and the sample.
            TrainingError: ranks have different numbers of batches, or a rank was lost.
        """
        return _opaque_lookup(self, sparse)

    def finish(self) -> None:
        """Says that this rank has no more batches. Raises `TrainingError` on all ranks if another
        one has."""
        self.exchange.meet("end", [])

    def set_learning_rate(self, rate: float) -> None:
        """Sets the learning rate of the steps to come."""
        for each in self._local():
            each.set_learning_rate(rate)

    def set_threads(self, threads: int) -> None:
        """Sets the number of threads. It changes no result."""
        for each in self._local():
            each.set_threads(threads)

    @property
    def _held(self) -> EmbeddingCollection | None:
        """This rank's shards."""
        return self._collections[0]

    @property
    def _copies(self) -> EmbeddingCollection | None:
        """The tables that all ranks have."""
        return self._collections[1]

    def _local(self) -> list[EmbeddingCollection]:
        return [each for each in self._collections if each is not None]

    # The exchange of pooled rows.

    def distribute(self, sparse: SparseBatch) -> Distributed:
        """Sends each of this rank's lookups to the ranks that hold the row. Raises as `forward`."""
        return self._distribution(sparse)

    def _run_forward(self, batch: Distributed) -> Tensor:
        """The pooled rows of this rank's samples."""
        placement, exchange = self.placement, self.exchange
        mine = batch.samples[exchange.rank]
        blocks = self._blocks(mine)
        direct, node, data = self._parts(blocks, mine)
        pooled = _look_up(self._held, batch.held)
        give, take = self._row_counts(batch.samples)
        near = pooled[:, : self._near].reshape(-1)
        exchange.swap_rows("forward", near, give, take, direct)
        if self._nodes is not None:
            self._nodes.forward(pooled[:, self._near :], batch.samples, node)
        if self._copies is not None:
            data.copy_(_look_up(self._copies, batch.own).view(-1))
        out = torch.empty(mine, placement.firsts[-1])
        self._columns.collect(mine, blocks.numpy(), out.numpy())
        for feature, share in batch.shares:
            out[:, placement.firsts[feature] : placement.firsts[feature + 1]] *= share
        return out

    def _run_backward(self, batch: Distributed, gradient: Tensor) -> None:
        """Updates all tables by the gradient of this rank's pooled rows."""
        placement, exchange = self.placement, self.exchange
        mine = batch.samples[exchange.rank]
        gradient = gradient.detach().to(torch.float32).contiguous()
        if batch.shares:
            gradient = gradient.clone()
        for feature, share in batch.shares:
            gradient[:, placement.firsts[feature] : placement.firsts[feature + 1]] *= share
        blocks = self._blocks(mine)
        finite = self._columns.spread(mine, gradient.numpy(), blocks.numpy())
        fault = None if finite or not self._finite_only else self._not_finite(gradient)
        exchange.meet("update", [], fault)
        direct, node, data = self._parts(blocks, mine)
        copied = None if self._copies is None else self._start_copied(batch.samples, data)
        give, take = self._row_counts(batch.samples)
        near = exchange.swap_rows("backward", direct, take, give)
        both = near.view(batch.whole, self._near)
        if self._nodes is not None:
            far = self._nodes.backward(node, batch.samples)
            both = torch.cat((both, far), 1)
        if self._rows is not None:
            self._rows.share(batch.held, both)
        if self._held is not None:
            _update(self._held, batch.held, both)
        self._steps += 1
        if self._copies is not None and copied is not None:
            _update(self._copies, batch.copied, exchange.wait(copied).to(torch.float32))

    def _start_copied(self, samples: list[int], gradient: Tensor) -> Pending:
        """Begins to send the gradient of copied tables to all ranks."""
        exchange, width = self.exchange, self.placement.widths[-1]
        sent = gradient.to(exchange.types["backward"] if exchange.size > 1 else torch.float32)
        sent = sent.repeat(exchange.size)
        give = [gradient.numel()] * exchange.size
        return exchange.start(sent, give, [each * width for each in samples])

    def _not_finite(self, gradient: Tensor) -> TrainingError:
        sample, column = (~gradient.isfinite()).nonzero()[0].tolist()
        value = gradient[sample, column].item()
        feature = bisect_right(self.placement.firsts, column) - 1
        place = f"gradient: feature {self.features[feature].name!r}: sample {sample}"
        return TrainingError([Problem("", place, f"{value} in the gradient", "finite numbers")])

    def _blocks(self, samples: int) -> Tensor:
        """Room for what a rank receives for its samples: the blocks of `Placement.widths`."""
        count = samples * sum(self.placement.widths)
        if self._spare.numel() < count:
            self._spare = torch.empty(count)
        return self._spare[:count]

    def _parts(self, blocks: Tensor, samples: int) -> tuple[Tensor, Tensor, Tensor]:
        """The blocks of ranks, of nodes, and of copied tables."""
        widths, ranks = self.placement.widths, self.exchange.size
        sizes = [sum(part) * samples for part in (widths[:ranks], widths[ranks:-1], widths[-1:])]
        direct, node, data = torch.split(blocks, sizes)
        return direct, node, data

    def _row_counts(self, samples: list[int]) -> tuple[list[int], list[int]]:
        """Numbers of pooled rows that this rank gives to each rank, and takes from each."""
        mine = samples[self.exchange.rank]
        widths = self.placement.widths[: self.exchange.size]
        return [each * self._near for each in samples], [mine * width for width in widths]

    # State.

    def rectangles(self) -> Iterator[Rectangle]:
        """This rank's parts of all tables and of their optimizer's state, as views of the engine's
        memory. Of copied tables only rank 0 has them all."""
        for collection in self._local():
            for table in collection.tables:
                whole = table.whole
                rows = range(whole.first_row, whole.first_row + table.rows)
                columns = range(whole.first_column, whole.first_column + table.dim)
                parts = {"weight": collection.weight(table.name), **collection.state(table.name)}
                for name, values in parts.items():
                    yield Rectangle(whole.table, name, rows, columns, values)

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        sizes = self._sizes()
        for each in self.rectangles():
            destination[prefix + each.key(*sizes[each.table])] = each.values
        destination[f"{prefix}step"] = torch.tensor(self._steps)

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Takes this rank's parts out of those of any sharding, or of whole tables."""
        sizes, sources = self._sizes(), []
        for key, values in state_dict.items():
            name = key.removeprefix(prefix)
            if not key.startswith(prefix) or name == "step":
                continue
            found = parse(name, values, sizes)
            if found is None:
                unexpected_keys.append(key)
            else:
                sources.append(found)
        for target in self.rectangles():
            try:
                fill(target, sources)
            except InputError as error:
                error_msgs.append(str(error))
        if f"{prefix}step" in state_dict:
            self._steps = int(state_dict[f"{prefix}step"])
            for each in self._local():
                each._engine.step = self._steps
        else:
            missing_keys.append(f"{prefix}step")

    def _sizes(self) -> dict[str, tuple[int, int]]:
        return {table.name: (table.rows, table.dim) for table in self.tables}


def _collection(
    held: tuple[list[Table], list[Feature]], optimizer: Optimizer, seed: int, threads: int
) -> EmbeddingCollection | None:
    if not held[0]:
        return None
    return EmbeddingCollection(
        *held, optimizer, seed=seed, threads=threads, refuse_not_finite=False
    )


def _look_up(collection: EmbeddingCollection | None, bags: Bags) -> Tensor:
    if collection is None:
        return torch.empty(bags.samples, 0)
    return collection._run_forward(bags.samples, bags.arrays)


def _update(collection: EmbeddingCollection, bags: Bags, gradient: Tensor) -> None:
    collection._run_backward(bags.samples, bags.arrays, gradient, None)


def _lookup(collection: ShardedEmbeddingCollection, sparse: SparseBatch) -> Tensor:
    """Looks up a batch; with gradients, if torch records them."""
    batch = collection.distribute(sparse)
    if not torch.is_grad_enabled():
        return collection._run_forward(batch)
    result = _Lookup.apply(torch.empty(0, requires_grad=True), collection, batch)
    assert isinstance(result, Tensor)
    return result


_opaque_lookup: Callable[[ShardedEmbeddingCollection, SparseBatch], Tensor]
_opaque_lookup = torch.compiler.disable(_lookup)  # type: ignore[no-untyped-call]
"""`_lookup`, which `torch.compile` calls and does not look into."""


class _Context(Protocol):
    """What the two halves of a lookup have in common."""

    collection: ShardedEmbeddingCollection
    batch: Distributed


class _Lookup(torch.autograd.Function):
    """The lookup as torch's autograd sees it. An empty tensor with a gradient makes torch call
    `backward`, because the tables are not tensors with gradients."""

    @staticmethod
    def forward(
        ctx: _Context,
        anchor: Tensor,
        collection: ShardedEmbeddingCollection,
        batch: Distributed,
    ) -> Tensor:
        ctx.collection, ctx.batch = collection, batch
        return collection._run_forward(batch)

    @staticmethod
    def backward(ctx: _Context, *gradients: Tensor) -> tuple[None, ...]:
        ctx.collection._run_backward(ctx.batch, gradients[0])
        return None, None, None
