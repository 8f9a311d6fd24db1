"""Embedding tables that are shared out over ranks, with the results of `EmbeddingCollection`.

Here: a step of the tables on one rank. Not here: which rank holds what (`sharding.py`), the way of
indices (`index_distribution.py`), collectives (`exchange.py`), lookups and updates
(`tables/embedding.py`).

Model (Mudigere et al., Neo and ZionEX, ISCA 2022, sections 4 and 7.1):

    distribute  each lookup to the rank that holds the row (`index_distribution.py`)
    look up     pooled rows of the samples of all ranks, in this rank's shards
    rows        all-to-all; shards by rows are added up in their order (a reduce-scatter)
    gradients   the way back: each shard gets those of the samples of all ranks, in their order
    update      once for each row, by the exact sum

Tables on every rank look up their own samples, and update all copies by the gradients of the
samples of all ranks, in their order. So every shard and every copy adds up what one process would
add up, in its order, and changes by the same bits. Only the partial sums of rows that are cut are
added up in another order, in the forward pass.

Gradients of all ranks are added. So the loss on a rank must be the sum over its samples divided by
the number of samples of all ranks. With `gradient="mean"`, they are divided by the number of ranks,
so that the loss may be the mean over the rank's samples."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from armillary.errors import InputError, Problem, TrainingError
from armillary.model.messages import Messages
from armillary.model.sharding_plan import ShardingPlan

from .. import profile_ranges
from ..compiler import opaque
from ..tables.batch import Keyed, SparseBatch, batch_of
from ..tables.caching import Caching
from ..tables.embedding import EmbeddingCollection, require_valid
from ..tables.module import Given, TablesModule
from ..tables.optimizers import Optimizer
from ..tables.table import Feature, Table
from . import message_rows
from .column_blocks import Columns
from .column_optimizers import RowSums, Work
from .coroutines import Coroutine, Steps, finished
from .exchange import Exchange, Pending
from .index_distribution import Bags, Distributed, Distribution
from .message_rows import Block, Segment, Way
from .node_exchange import Nodes
from .rank_collections import made_collections
from .sharding import Streams
from .table_parts import Rectangle, fill, parse

Gradient = Literal["sum", "mean"]
"""Treatment of the ranks' gradients."""


class ShardedEmbeddingCollection(TablesModule):
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
        gradient: Gradient = "sum",
        seed: int = 0,
        threads: int = 1,
        refuse_not_finite: bool = True,
        caching: Caching | None = None,
        gpu: torch.device | str | None = None,
    ) -> None:
        """This rank's shards with their initial weights, which are those of `EmbeddingCollection`.
        `caching` is for this rank's shards that are not in memory. With `gpu`, rows and results are
        there (`GpuEmbeddingCollection`), and batches in the host's memory all the same. `gradient`:
        what the tables change by of all ranks' gradients. With `mean`, each rank has a loss of its
        own, as in `DistributedDataParallel`.

        Raises:
            InputError: tables or features that `EmbeddingCollection` refuses; a plan that
                contradicts itself, or does not fit the tables or the number of processes; the
                tables can't be cached like this; the ranks' checkpoints are of different steps; no
                such GPU, or a plan that is not for GPUs.
        """
        super().__init__()
        self.device = torch.device("cpu" if gpu is None else gpu)
        """Where rows and results are."""
        self.exchange = exchange or Exchange()
        if gradient not in get_args(Gradient):
            said, allowed = f"unknown gradient {gradient!r}", ", ".join(get_args(Gradient))
            raise InputError([Problem("", "gradient", said, allowed)])
        self._ranks = self.exchange.size if gradient == "mean" else 1
        """Divisor of gradients."""
        self.tables, self.features = tuple(tables), tuple(features)
        self.optimizer = optimizer
        self._finite_only = refuse_not_finite
        require_valid(self.tables, self.features, seed)
        rank = self.exchange.rank
        self.placement = Streams.of(plan, tables, features, self.exchange.size)
        groups = self.placement.groups(rank)
        shards = [self.placement.held(rank, group) for group in groups]
        copies = [self.placement.copied()] if self.placement.data else []
        # In tuples, so that torch does not see modules whose state is this one's.
        made = made_collections(
            [*shards, *copies],
            optimizer,
            caching,
            self.exchange,
            seed=seed,
            threads=threads,
            gpu=gpu,
        )
        self._held, self._copies = made[: len(groups)], made[len(groups) :]
        self._near = self.placement.widths[rank]
        self._width = sum(each._width for each in self._held)
        """Columns of pooled rows of this rank's shards. The first `_near` go to other ranks as they
        are."""
        self._distribution = Distribution(self.placement, self.exchange, self.device)
        on_gpu = gpu is not None
        self._columns = Columns(
            self.placement.firsts[-1], self.placement.widths, self.placement.runs, on_gpu=on_gpu
        )
        schemes = {each.scheme for each in plan.tables}
        hierarchical = "table_row" in schemes
        self._sums = RowSums(self.placement, self.exchange, optimizer, self._held, self.device)
        self._nodes = Nodes(self.placement, self.exchange, on_gpu=on_gpu) if hierarchical else None
        self._rows: dict[tuple[Messages, Way], list[tuple[Segment, ...]]] = {}
        # All ranks meet, because making these may fail on one of them.
        self._steps = self._resumed() if caching is not None or gpu is not None else 0

    def forward(self, sparse: SparseBatch | Keyed | Distributed) -> Tensor:
        """The pooled rows of this rank's samples, all features side by side, float32 [samples, sum
        of dims]; without pooling the rows of its lookups, float32 [lookups, dim].
        The batch may be `distribute`d before; its weights get no gradients then.

        Raises:
            InputError: a fault of a rank's batch, on all ranks. It names the rank, the table, the
                feature and the sample.
            TrainingError: ranks have different numbers of batches, or a rank was lost.
        """
        if isinstance(sparse, Distributed):
            return _lookup(self, sparse)
        return _lookup(self, batch_of(sparse, self.features))

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

    def _local(self) -> tuple[EmbeddingCollection, ...]:
        """This rank's shards, then the tables that all ranks have."""
        return (*self._held, *self._copies)

    # The exchange of pooled rows.

    def distribute(self, sparse: SparseBatch) -> Distributed:
        """Sends each of this rank's lookups to the ranks that hold the row. Raises as `forward`."""
        return finished(self.distributing(sparse))

    def distributing(self, sparse: SparseBatch) -> Steps[Distributed]:
        """`distribute` with pauses."""
        return self._distribution(sparse)

    def _run_forward(self, batch: Distributed) -> Tensor:
        return finished(self.looking_up(batch))

    def looking_up(self, batch: Distributed) -> Steps[Tensor]:
        """The pooled rows of this rank's samples, or the rows of its lookups. Pauses before it
        waits for those of other ranks."""
        if self.placement.unpooled:
            return self._forward_lookups(batch)
        placement, exchange = self.placement, self.exchange
        mine = batch.samples[exchange.rank]
        sizes = [mine * each for each in placement.widths[exchange.size :]]
        rest = torch.empty(sum(sizes), device=self.device)
        *nodes, data = torch.split(rest, sizes)
        room = exchange.room(batch.whole * self._width, self.device)
        pooled = room.view(batch.whole, self._width)
        for collection, bags in zip(self._held, batch.held, strict=True):
            self._look_up(collection, bags, pooled)
        give, take = self._row_blocks(batch.samples, "rows")
        near = exchange.start_rows("rows", pooled[:, : self._near].reshape(-1), give, take)
        far = None
        if self._nodes is not None:
            into = rest[: len(rest) - len(data)]
            far = Coroutine(self._nodes.forward(pooled[:, self._near :], batch.samples, into))
            far.go_on()
        for collection in self._copies:
            self._look_up(collection, batch.own, data.view(mine, collection._width))
        out = torch.empty(mine, placement.firsts[-1], device=self.device)
        yield
        if far is not None:
            far.finish()
        direct = exchange.wait_row_parts(near)
        with profile_ranges.part("embedding.collect"):
            self._columns.collect(mine, [*direct, *nodes, data], out)
        exchange.release(room)
        for feature, share in batch.shares:
            out[:, placement.firsts[feature] : placement.firsts[feature + 1]] *= share
        return out

    def _forward_lookups(self, batch: Distributed) -> Tensor:
        """The rows of this rank's lookups."""
        lookups, groups = batch.lookups, self.placement.groups(self.exchange.rank)
        assert lookups is not None
        rows = [torch.empty(0, device=self.device)] * sum(map(len, groups))
        for group, collection, bags in zip(groups, self._held, batch.held, strict=True):
            counts = [sum(lookups.held[index]) for index in group]
            blocks = torch.split(self._look_up(collection, bags), counts)
            for index, block in zip(group, blocks, strict=True):
                rows[index] = block
        dim = self.tables[self.placement.table_of[0]].dim
        out = torch.empty(lookups.firsts[-1], dim, device=self.device)
        for stream, values in lookups.home("rows", rows):
            out[lookups.place(stream), stream.columns.start : stream.columns.stop] = values
        for collection in self._copies:
            counts = [lookups.count(stream) for stream in lookups.data]
            blocks = torch.split(self._look_up(collection, batch.own), counts)
            for stream, values in zip(lookups.data, blocks, strict=True):
                out[lookups.place(stream)] = values
        return out

    def updating(
        self,
        batch: Distributed,
        gradient: Tensor,
        *,
        of_weights: bool = False,
        update: bool = True,
    ) -> Steps[Tensor | None]:
        """Updates all tables by the gradient of this rank's results, unless not to `update` them.
        Returns the gradient of the lookups' weights, if asked. Pauses before it waits for the
        gradients of other ranks."""
        if update:
            self._require_trainable()
        gradient = gradient.detach().to(self.device, torch.float32).contiguous()
        if self._ranks > 1:
            gradient = gradient / self._ranks
        if self.placement.unpooled:
            self._backward_lookups(batch, gradient)
            return None
        placement, exchange = self.placement, self.exchange
        mine = batch.samples[exchange.rank]
        if batch.shares:
            gradient = gradient.clone()
        for feature, share in batch.shares:
            gradient[:, placement.firsts[feature] : placement.firsts[feature + 1]] *= share
        blocks = exchange.room(mine * sum(placement.widths), self.device)
        finite = self._columns.spread(mine, gradient, blocks)
        fault = None if finite or not self._finite_only else self._not_finite(gradient)
        meeting = exchange.call("update", [], fault)
        direct, node, data = self._parts(blocks, mine)
        copied = self._start_copied(batch.samples, data) if self._copies else None
        give, take = self._row_blocks(batch.samples, "gradients")
        under_way = exchange.start_rows("gradients", direct, take, give)
        far = None if self._nodes is None else Coroutine(self._nodes.backward(node, batch.samples))
        if far is not None:
            far.go_on()
        yield
        exchange.met(meeting)
        both = exchange.wait_rows(under_way).view(batch.whole, self._near)
        if far is not None:
            both = torch.cat((both, far.finish()), 1)
        work = [
            Work(collection, bags, both)
            for collection, bags in zip(self._held, batch.held, strict=True)
        ]
        found = self._update(work, of_weights=of_weights, update=update)
        if copied is not None:
            every = exchange.wait_rows(copied)
            last = [Work(collection, batch.copied, every) for collection in self._copies]
            found += [self._update_one(each, of_weights=of_weights, update=update) for each in last]
        exchange.release(blocks)
        # Weights are this rank's own.
        return self._of_weights(batch, found) * self._ranks if of_weights else None

    def _require_trainable(self) -> None:
        """Raises `InputError` on all ranks if a table is read only."""
        for table in self.tables:
            if table.dtype == "int8":
                said = "rows of 8 bits are read only"
                allowed = "float32, float16 or bfloat16 for training"
                raise InputError([Problem("", f'table "{table.name}"', said, allowed)])

    def _backward_lookups(self, batch: Distributed, gradient: Tensor) -> None:
        """Updates all tables by the gradient of this rank's rows of lookups."""
        lookups, groups = batch.lookups, self.placement.groups(self.exchange.rank)
        assert lookups is not None
        finite = not self._finite_only or bool(gradient.isfinite().all())
        self.exchange.meet("update", [], None if finite else self._not_finite(gradient))
        found = lookups.away("gradients", gradient)
        work = [
            Work(collection, bags, torch.cat([found[stream] for stream in group]))
            for group, collection, bags in zip(groups, self._held, batch.held, strict=True)
        ]
        self._update(work)
        for collection in self._copies:
            rows = torch.cat(found[len(found) - len(lookups.data) :])
            self._update_one(Work(collection, batch.copied, rows))

    def _update(
        self, work: list[Work], *, of_weights: bool = False, update: bool = True
    ) -> list[Tensor]:
        """Updates this rank's shards. Returns the gradients of weights."""
        if update:
            self._sums.share(work)
            self._steps += 1
        return [self._update_one(each, of_weights=of_weights, update=update) for each in work]

    def _of_weights(self, batch: Distributed, found: list[Tensor]) -> Tensor:
        """The gradients of the weights of this rank's lookups. `found`: those of all lookups in
        this rank's shards, then in copied tables."""
        lookups = batch.lookups
        assert lookups is not None
        values = torch.zeros(lookups.firsts[-1], device=self.device)
        counts = [sum(each) for each in lookups.held[: len(lookups.held) - len(lookups.data)]]
        held = torch.split(found[0], counts) if self._held else ()
        for stream, block in lookups.home("gradients", held, 1):
            values[lookups.place(stream)] += block.view(-1)
        if self._copies:
            own = torch.split(lookups.own(found[-1]), [*map(lookups.count, lookups.data)])
            for stream, block in zip(lookups.data, own, strict=True):
                values[lookups.place(stream)] = block
        return values

    def _look_up(
        self, collection: EmbeddingCollection, bags: Bags, into: Tensor | None = None
    ) -> Tensor:
        """Rows of a collection, in `into` if given. Where a disk fails, all ranks hear of it when
        they meet next, so that none waits for these."""
        arrays = collection._arrays(bags.parts)
        try:
            return collection._run_forward(bags.samples, arrays, into)
        except InputError as error:
            self.exchange.fail(error)
            found = collection._empty(bags.samples, arrays) if into is None else into
            return found.zero_()

    def _update_one(self, work: Work, *, of_weights: bool = False, update: bool = True) -> Tensor:
        """Updates tables. Returns the gradients of the lookups' weights, if asked. Failures as in
        `_look_up`."""
        collection, bags, gradient = work
        found = torch.zeros(len(bags.indices) if of_weights else 0, device=self.device)
        into = found if of_weights else None
        try:
            arrays = collection._arrays(bags.parts)
            collection._run_backward(bags.samples, arrays, gradient, into, update=update)
        except InputError as error:
            self.exchange.fail(error)
        return found

    def _start_copied(self, samples: list[int], gradient: Tensor) -> Pending:
        """Begins to send the gradient of copied tables to all ranks."""
        row = message_rows.copied_row(self.placement, self.exchange.messages)
        every = [Block(each, row) for each in samples]
        return self.exchange.start_copied(gradient, every[self.exchange.rank], every)

    def _not_finite(self, gradient: Tensor) -> TrainingError:
        sample, column = (~gradient.isfinite()).nonzero()[0].tolist()
        value = gradient[sample, column].item()
        feature = bisect_right(self.placement.firsts, column) - 1
        place = f"gradient: feature {self.features[feature].name!r}: sample {sample}"
        if self.placement.unpooled:
            place = f"gradient: lookup {sample}"
        return TrainingError([Problem("", place, f"{value} in the gradient", "finite numbers")])

    def _parts(self, blocks: Tensor, samples: int) -> tuple[Tensor, Tensor, Tensor]:
        """The blocks of ranks, of nodes, and of copied tables."""
        widths, ranks = self.placement.widths, self.exchange.size
        sizes = [sum(part) * samples for part in (widths[:ranks], widths[ranks:-1], widths[-1:])]
        direct, node, data = torch.split(blocks, sizes)
        return direct, node, data

    def _row_blocks(self, samples: list[int], way: Way) -> tuple[list[list[Block]], ...]:
        """Pooled rows that this rank gives to each rank, and takes from each; of gradients the
        other way round."""
        rank, ranks, messages = (
            self.exchange.rank,
            range(self.exchange.size),
            self.exchange.messages,
        )
        rows = self._rows.get((messages, way))
        if rows is None:
            rows = [message_rows.direct_row(self.placement, each, messages, way) for each in ranks]
            self._rows[messages, way] = rows
        give = message_rows.blocks(samples, [rows[rank]] * len(ranks))
        return give, message_rows.blocks([samples[rank]] * len(ranks), rows)

    # Caches.

    def prefetch(self, batch: Distributed) -> None:
        """Begins to bring the rows of the next batch, which `distribute` gave, into the caches."""
        copies = ((each, batch.own) for each in self._copies)
        for collection, bags in (*zip(self._held, batch.held, strict=True), *copies):
            if collection.is_cached:
                try:
                    collection.prefetch(bags.batch(len(collection.features)))
                except InputError as error:
                    self.exchange.fail(error)

    @property
    def is_cached(self) -> bool:
        """Whether a table of this rank has a cache."""
        return any(each.is_cached for each in self._local())

    @property
    def is_on_disk(self) -> bool:
        """Whether all tables of this rank are on a disk, so that `checkpoint` can be called."""
        return all(each.is_on_disk for each in self._local())

    def checkpoint(self) -> None:
        """Makes the tables of all ranks, as they are now, the checkpoint in their folders. All
        ranks call it at the same time. Raises `InputError` on all of them if one can't."""
        self._together(EmbeddingCollection.checkpoint)

    def settle(self) -> None:
        """Waits until caches read and write nothing in the background. All ranks call it at the
        same time. Raises `InputError` on all of them if a disk of one failed, now or before."""
        self._together(EmbeddingCollection.settle)

    def _together(self, work: Callable[[EmbeddingCollection], None]) -> None:
        """Does something with each of this rank's collections. Raises on all ranks if one can't."""
        try:
            for each in self._local():
                work(each)
        except InputError as error:
            self.exchange.fail(error)
        self.exchange.meet("save", [])

    def cache_report(self) -> dict[str, int | float]:
        """Counts of this rank's caches so far."""
        total: dict[str, int | float] = {}
        for each in self._local():
            for name, value in each.cache_report().items():
                total[name] = total.get(name, 0) + value
        return total

    def _resumed(self) -> int:
        """The step that all ranks go on from."""
        mine = [each._engine.step for each in self._local()]
        steps = [
            step for met in self.exchange.meet("save", [max(mine, default=-1)]) for step in met[:1]
        ]
        found = {step for step in [*steps, *mine] if step >= 0}
        if len(found) > 1:
            said = f"are of the steps {', '.join(map(str, sorted(found)))}"
            raise InputError([Problem("", "checkpoints", said, "one step on all ranks")])
        return found.pop() if found else 0

    # State.

    def rectangles(self) -> Iterator[Rectangle]:
        """This rank's parts of all tables and of their optimizer's state, as views of the engine's
        memory, or copies of tables with caches. Of copied tables only rank 0 has them all."""
        for collection in self._local():
            for table in collection.tables:
                yield from _rectangles(table, collection.parts(table.name))

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
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
        for collection in self._local():
            for table in collection.tables:
                parts = collection.parts(table.name)
                try:
                    for target in _rectangles(table, parts):
                        fill(target, sources)
                except InputError as error:
                    error_msgs.append(str(error))
                    continue
                if table.tier != "device":
                    collection.write_rows(table.name, 0, parts)
        if f"{prefix}step" in state_dict:
            self._steps = int(state_dict[f"{prefix}step"])
            for each in self._local():
                each._engine.step = self._steps
        else:
            missing_keys.append(f"{prefix}step")

    def _sizes(self) -> dict[str, tuple[int, int]]:
        return {table.name: (table.rows, table.dim) for table in self.tables}


def _rectangles(table: Table, parts: Mapping[str, Tensor]) -> Iterator[Rectangle]:
    """A table's parts and their places in the whole table."""
    whole = table.whole
    rows = range(whole.first_row, whole.first_row + table.rows)
    columns = range(whole.first_column, whole.first_column + table.dim)
    for name, values in parts.items():
        yield Rectangle(whole.table, name, rows, columns, values)


@opaque
def _lookup(collection: ShardedEmbeddingCollection, given: SparseBatch | Distributed) -> Tensor:
    """Looks up a batch; with gradients, if torch records them."""
    batch = given if isinstance(given, Distributed) else collection.distribute(given)
    if not torch.is_grad_enabled():
        return collection._run_forward(batch)
    sparse = given if isinstance(given, SparseBatch) else None
    weights = None if sparse is None else sparse.weights
    result = _Lookup.apply(collection.anchor, weights, collection, batch, sparse)
    assert isinstance(result, Tensor)
    return result


class _Context(Protocol):
    """Common part of the two halves of a lookup."""

    collection: ShardedEmbeddingCollection
    batch: Distributed
    given: Given | None
    home: torch.device | None
    needs_input_grad: tuple[bool, ...]


class _Lookup(torch.autograd.Function):
    """The lookup as torch's autograd sees it. The anchor, an empty tensor with a gradient, makes
    torch call `backward`, because the tables are not tensors with gradients."""

    @staticmethod
    def forward(
        ctx: _Context,
        anchor: Tensor,
        weights: Tensor | None,
        collection: ShardedEmbeddingCollection,
        batch: Distributed,
        sparse: SparseBatch | None,
    ) -> Tensor:
        ctx.collection, ctx.batch = collection, batch
        ctx.given = None if sparse is None else Given(sparse)
        ctx.home = None if weights is None else weights.device
        return collection._run_forward(batch)

    @staticmethod
    def backward(ctx: _Context, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        update, of_weights = ctx.needs_input_grad[:2]
        collection = ctx.collection
        if ctx.given is not None:
            try:
                ctx.given.require_same()
            except InputError as error:
                collection.exchange.fail(error)
        found = finished(
            collection.updating(ctx.batch, gradients[0], of_weights=of_weights, update=update)
        )
        return None, None if found is None else found.to(ctx.home), None, None, None
