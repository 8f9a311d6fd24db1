"""Cases of sharded tables, on one rank. `ranks.py` makes one process for each rank."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import sys
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from embedding_reference import KERNELS_ON, to_host
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from armillary.errors import ArmillaryError, TrainingError
from armillary.model import load_model
from armillary.model.dlrm import parse
from armillary.model.messages import Messages
from armillary.model.sharding_plan import ShardingPlan, TablePlan
from armillary_train.data import Source, open_data
from armillary_train.data.synthetic import Synthetic
from armillary_train.ranks.all_reduce import adding_up
from armillary_train.ranks.coroutines import finished
from armillary_train.ranks.exchange import Exchange
from armillary_train.ranks.sharded import Gradient, ShardedEmbeddingCollection
from armillary_train.ranks.table_parts import whole_tables
from armillary_train.ranks.world import World
from armillary_train.run.loop import Trainer
from armillary_train.run.pipeline import windows
from armillary_train.settings import Settings
from armillary_train.tables import optimizers
from armillary_train.tables.batch import SparseBatch
from armillary_train.tables.caching import Caching
from armillary_train.tables.embedding import EmbeddingCollection
from armillary_train.tables.table import Feature, Table

OPTIMIZERS: dict[str, optimizers.Optimizer] = {
    "sgd": optimizers.Sgd(learning_rate=0.1, weight_decay=0.01),
    "adagrad": optimizers.AdaGrad(learning_rate=0.1),
    "row_wise_adagrad": optimizers.RowWiseAdaGrad(learning_rate=0.1),
    "adam": optimizers.Adam(learning_rate=0.02),
    "lamb": optimizers.Lamb(learning_rate=0.02, weight_decay=0.01),
    "clipped_sgd": optimizers.Sgd(learning_rate=0.1, clip_value=0.3, clip_norm=0.2),
    "clipped_adagrad": optimizers.RowWiseAdaGrad(learning_rate=0.1, clip_norm=0.05),
    "clipped_lamb": optimizers.Lamb(learning_rate=0.02, clip_norm=0.05),
}

Spec = dict[str, Any]
"""Tables (`name`, `rows`, `columns`, `scheme`, `ranks`, `sizes`, `dtype`), features (name, table,
pooling), `ranks_per_node`, `optimizer`, `weighted`, `seed`. `gpu`: on `KERNELS_ON`.
`cache`: bytes for tables in slower memory. `samples`: batches have fewer."""


class Job:
    """Tables of a spec on this rank, its batches, and what is wanted of them."""

    def __init__(self, spec: Spec, exchange: Exchange) -> None:
        self.spec, self.exchange = spec, exchange
        self.tables = [
            Table(
                each["name"],
                each["rows"],
                each["columns"],
                each.get("dtype", "float32"),
                each.get("dtype", "float32") != "float32",
            )
            for each in spec["tables"]
        ]
        self.features = [Feature(*each) for each in spec["features"]]
        self.optimizer = OPTIMIZERS[spec["optimizer"]]
        planned = [
            TablePlan(
                each["name"],
                each["rows"],
                each["columns"],
                each["scheme"],
                tuple(each["ranks"]),
                tuple(each["sizes"]) if each.get("sizes") else None,
                tier=each.get("tier", "device"),
            )
            for each in spec["tables"]
        ]
        ranks = 1 + max(rank for each in planned for rank in each.ranks)
        self.plan = ShardingPlan(
            "test", spec.get("ranks", ranks), spec["ranks_per_node"], tuple(planned)
        )
        rows = {table.name: table.rows for table in self.tables}
        self.rows = [rows[feature.table] for feature in self.features]
        dims = {table.name: table.dim for table in self.tables}
        self.unpooled = self.features[0].pooling == "none"
        widths = [dims[feature.table] for feature in self.features]
        self.width = widths[0] if self.unpooled else sum(widths)

    def single(self) -> EmbeddingCollection:
        return EmbeddingCollection(self.tables, self.features, self.optimizer, seed=3)

    def sharded(self, caching: Caching | None = None) -> ShardedEmbeddingCollection:
        if "cache" in self.spec:
            caching = Caching(self.spec["cache"])
        found = ShardedEmbeddingCollection(
            self.tables,
            self.features,
            self.optimizer,
            self.plan,
            exchange=self.exchange,
            seed=3,
            caching=caching,
            gpu=KERNELS_ON if self.spec.get("gpu") else None,
        )
        if self.spec.get("gpu"):
            kinds = {type(each).__name__ for each in found._local()}
            wanted = "CachedGpuEmbeddingCollection" if caching else "GpuEmbeddingCollection"
            assert kinds == {wanted}, kinds
        return to_host(found)

    def batch(self, step: int) -> tuple[list[SparseBatch], Tensor, list[int], Tensor]:
        """The whole batch and the parts of all ranks, what is wanted, where parts begin, and which
        lookups of the whole batch are this rank's."""
        random = np.random.default_rng([self.spec["seed"], step])
        samples = int(random.integers(1, self.spec.get("samples", 24)))
        cuts = np.sort(random.integers(0, samples + 1, self.exchange.size - 1))
        bounds = [0, *cuts.tolist(), samples]
        lengths = random.integers(0, 5, (len(self.features), samples))
        bags = [
            [random.integers(0, min(rows, 1 + step * 7), length) for length in row]
            for rows, row in zip(self.rows, lengths, strict=True)
        ]
        weights = [[random.normal(size=length).astype("f4") for length in row] for row in lengths]
        rows = int(lengths.sum()) if self.unpooled else samples
        wanted = torch.from_numpy(random.normal(size=(rows, self.width)).astype("f4"))

        def part(first: int, last: int) -> SparseBatch:
            def flat(values: Sequence[Sequence[Any]], kind: str) -> Tensor:
                cells = [cell for row in values for cell in row[first:last]]
                return torch.from_numpy(np.concatenate([np.zeros(0, kind), *cells]).astype(kind))

            kind = "i4" if self.spec["seed"] % 2 else "i8"
            return SparseBatch(
                torch.from_numpy(lengths[:, first:last].astype(kind).copy()),
                flat(bags, kind),
                flat(weights, "f4") if self.spec.get("weighted") else None,
            )

        pairs = pairwise(bounds)
        sample = torch.arange(samples).repeat(len(lengths))
        first, last = bounds[self.exchange.rank], bounds[self.exchange.rank + 1]
        of_rank = (first <= sample) & (sample < last)
        mine = of_rank.repeat_interleave(torch.from_numpy(lengths).view(-1)).nonzero().view(-1)
        return [part(0, samples), *(part(*pair) for pair in pairs)], wanted, bounds, mine

    def train(self, collection: torch.nn.Module, steps: range, *, whole: bool) -> list[Tensor]:
        """Steps with this rank's parts of batches, or with whole batches. Returns this rank's
        results, and keeps the gradients of its weights in `of_weights`."""
        found, rank = [], self.exchange.rank
        self.of_weights: list[Tensor] = []
        for step in steps:
            parts, wanted, bounds, lookups = self.batch(step)
            mine = lookups if self.unpooled else torch.arange(bounds[rank], bounds[rank + 1])
            part = parts[0 if whole else rank + 1]
            if part.weights is not None:
                part.weights.requires_grad_(self.spec.get("gradients", False))
            out = collection(part)
            (((out - (wanted if whole else wanted[mine])) ** 2).sum() / bounds[-1]).backward()
            found.append(out.detach()[mine] if whole else out.detach())
            if part.weights is not None and part.weights.grad is not None:
                self.of_weights.append(part.weights.grad[lookups if whole else slice(None)])
        return found


def compare(spec: Spec, exchange: Exchange, steps: int) -> list[tuple[str, str, bool, float]]:
    """Name and scheme of each of the rank's parts of tables, whether it is the part of one process
    after `steps` steps, and the error relative to the largest number; likewise the results."""
    job = Job(spec, exchange)
    single, sharded = job.single(), job.sharded()
    wanted = job.train(single, range(steps), whole=True)
    right_weights = job.of_weights
    found = job.train(sharded, range(steps), whole=False)
    schemes = {each.name: each.scheme for each in job.plan.tables}
    rows = [("results", "", *_error(torch.cat(found), torch.cat(wanted)))]
    assert len(right_weights) == len(job.of_weights) == (steps if spec.get("gradients") else 0)
    if right_weights:
        rows.append(("weights", "", *_error(torch.cat(job.of_weights), torch.cat(right_weights))))
    for part in sharded.rectangles():
        whole = single.state(part.table) | {"weight": single.weight(part.table)}
        right = whole[part.name][part.rows.start : part.rows.stop]
        if right.dim() == 2:
            right = right[:, part.columns.start : part.columns.stop]
        rows.append((part.table, schemes[part.table], *_error(part.values.cpu(), right)))
    return rows


def _error(found: Tensor, wanted: Tensor) -> tuple[bool, float]:
    if not wanted.numel():
        return True, 0.0
    gap = (found.double() - wanted.double()).abs().max() / wanted.double().abs().max().clamp(
        min=1e-30
    )
    return torch.equal(found, wanted), float(gap)


def sockets(spec: Spec, exchange: Exchange, steps: int) -> list[tuple[str, str, bool, float]]:
    """Like `compare`, when the processes can't read each other's memory."""
    shares, exchange._shares = exchange._shares, False
    # Memory is read by a system call that machines may forbid. Those of the other tests do not.
    assert shares or KERNELS_ON == "cuda"
    try:
        return compare(spec, exchange, steps)
    finally:
        exchange._shares = shares


def swaps(spec: Spec, exchange: Exchange) -> bool:
    """Whether all arrays arrive when several exchanges are under way, of changing sizes."""
    random = np.random.default_rng(spec["seed"])
    rank, size = exchange.rank, exchange.size
    right = True
    for _ in range(30):
        under_way = []
        for _ in range(int(random.integers(1, 5))):
            counts = random.integers(0, int(random.choice([3, 3000, 60000])), (size, size))
            start = int(random.integers(0, 1000))

            sent = torch.cat(
                [torch.arange(counts[rank, to]) + start + 10 * rank + to for to in range(size)]
            )
            wanted = torch.cat(
                [torch.arange(counts[of, rank]) + start + 10 * of + rank for of in range(size)]
            )
            give, take = counts[rank].tolist(), counts[:, rank].tolist()
            under_way.append((exchange.start("other", sent, give, take), wanted))
        for place in random.permutation(len(under_way)):
            pending, wanted = under_way[place]
            right = right and torch.equal(exchange.wait(pending), wanted)
    return right


def rooms(spec: Spec, exchange: Exchange) -> bool:
    """Whether all arrays arrive that are sent from memory of the exchange, several from the same
    one, and whether sums over ranks are those in their order."""
    random = np.random.default_rng(spec["seed"])
    rank, size = exchange.rank, exchange.size
    right = True
    for _ in range(30):
        given, under_way = [random.integers(0, 30000, (size, size)) for _ in range(2)], []
        room = exchange.room(sum(int(counts[rank].sum()) for counts in given))
        parts = torch.split(room, [int(counts[rank].sum()) for counts in given])
        for number, (counts, part) in enumerate(zip(given, parts, strict=True)):
            torch.cat(
                [torch.arange(counts[rank, to]) + number + 10.0 * rank + to for to in range(size)],
                out=part,
            )
            give, take = counts[rank].tolist(), counts[:, rank].tolist()
            under_way.append(exchange.start("other", part, give, take))
        for number, (counts, pending) in enumerate(zip(given, under_way, strict=True)):
            for of, found in enumerate(exchange.wait_parts(pending)):
                wanted = torch.arange(counts[of, rank]) + number + 10.0 * of + rank
                right = right and torch.equal(found, wanted)
        exchange.release(room)
        every = [torch.from_numpy(random.normal(size=1001).astype("f4")) for _ in range(size)]
        for mine in (every[rank].clone(), exchange.room(1001).copy_(every[rank])):
            added = finished(adding_up(exchange, mine))
            right = right and torch.equal(added, sum(every[1:], every[0]))
            exchange.release(mine)
    return right


def digest(spec: Spec, exchange: Exchange, steps: int) -> str:
    """The bits of results and of tables after some steps."""
    job = Job(spec, exchange)
    sharded = job.sharded()
    bits = hashlib.sha256()
    for out in job.train(sharded, range(steps), whole=False):
        bits.update(out.numpy().tobytes())
    for part in sharded.rectangles():
        bits.update(part.values.contiguous().view(torch.uint8).numpy().tobytes())
    return bits.hexdigest()


def spoiled(spec: Spec, exchange: Exchange, kind: str, rank: int) -> None:
    """Two good steps, then one that is spoiled on `rank`."""
    job = Job(spec, exchange)
    sharded = job.sharded()
    job.train(sharded, range(20, 22), whole=False)
    parts, *_ = job.batch(22)
    sparse = parts[exchange.rank + 1]
    lengths, indices = sparse.lengths.clone(), sparse.indices.clone()
    if exchange.rank == rank:
        lengths = torch.ones_like(torch.nn.functional.pad(lengths, (0, 2 - lengths.shape[1])))
        indices = torch.zeros(lengths.numel(), dtype=indices.dtype)
        if kind == "index":
            indices[-1] = 10**6
        if kind == "negative index":
            indices[1] = -5
        if kind == "length":
            lengths[-1, -1] = -1
        if kind == "sum":
            lengths[0, 0] = 4
        if kind == "type":
            lengths = lengths.float()
        if kind == "shape":
            lengths = lengths[:1]
        if kind == "weights":
            sparse = SparseBatch(lengths, indices, torch.ones(len(indices)))
    if kind == "weights" and exchange.rank == rank:
        sharded(sparse)
    if kind == "gradients of weights":
        weights = torch.ones(len(indices), requires_grad=exchange.rank == rank)
        sharded(SparseBatch(lengths, indices, weights))
    out = sharded(SparseBatch(lengths, indices))
    factor = torch.ones_like(out)
    if exchange.rank == rank and kind == "gradient":
        factor[1, -1] = torch.nan
    (out * factor).sum().backward()


def refused(spec: Spec, exchange: Exchange) -> bool:
    """Whether training goes on after many gradients that are refused, without more open files."""
    job = Job(spec, exchange)
    sharded, counts = job.sharded(), []
    for step in range(12):
        parts, *_ = job.batch(step)
        out = sharded(parts[exchange.rank + 1])
        try:
            (out * torch.nan).sum().backward()
        except TrainingError:
            counts.append(len(list(Path("/proc/self/fd").iterdir())))
    job.train(sharded, range(2), whole=False)
    return len(counts) == 12 and counts[-1] == counts[4]


def uneven(spec: Spec, exchange: Exchange, rank: int) -> None:
    """`rank` has one batch less than the others."""
    job = Job(spec, exchange)
    sharded = job.sharded()
    job.train(sharded, range(1 if exchange.rank == rank else 2), whole=False)
    sharded.finish()


def full(spec: Spec, exchange: Exchange, folder: str, rank: int, ahead: bool) -> None:
    """Files of `rank` can't grow any more when the last batch is evaluated, or only fetched."""
    collection = Job(spec, exchange).sharded(Caching(7 * 2**20, folder))
    rows = collection.tables[0].rows

    def batch(step: int, length: int) -> SparseBatch:
        draw = torch.Generator().manual_seed(step)
        indices = torch.randint(0, rows, (200 * length,), generator=draw)
        return SparseBatch(torch.full((2, 100), length), indices)

    for step in range(8):
        collection(batch(step, 3)).sum().backward()
    collection.settle()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if exchange.rank == rank:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with torch.no_grad():
            last = collection.distribute(batch(8, 20))
            if ahead:
                collection.prefetch(last)
            else:
                collection(last)
        collection.settle()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def modes(spec: Spec, exchange: Exchange) -> None:
    """Rank 0 evaluates, the others train."""
    job = Job(spec, exchange)
    sharded = job.sharded()
    parts, *_ = job.batch(0)
    with torch.set_grad_enabled(exchange.rank > 0):
        sharded(parts[exchange.rank + 1])


def averaged(gradient: Gradient, exchange: Exchange) -> list[float]:
    """Steps of the first row and of a weight of the dense part, in `DistributedDataParallel`, where
    each rank has the mean loss of its own samples. Every sample looks up the first row, whose
    gradient is 1, and that of the weight. The last: the gradient of a lookup's weight."""
    ranks = tuple(range(exchange.size))
    plan = ShardingPlan("p", exchange.size, 1, (TablePlan("t", 8, 2, "row", ranks),))
    tables, features = [Table("t", 8, 2)], [Feature("f", "t")]
    rule = optimizers.Sgd(learning_rate=1.0)
    sharded = ShardedEmbeddingCollection(
        tables, features, rule, plan, exchange=exchange, gradient=gradient
    )
    layer = torch.nn.Linear(1, 1, bias=False)
    parallel = DistributedDataParallel(_Mean(sharded, layer), process_group=exchange.group)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=1.0)
    samples = exchange.rank + 2
    lengths = torch.ones(1, samples, dtype=torch.int64)
    weights = torch.ones(samples, requires_grad=True)
    batch = SparseBatch(lengths, torch.zeros(samples, dtype=torch.int64), weights)
    row = sharded(SparseBatch(lengths, batch.indices))[0].detach().clone()
    dense = layer.weight.item()
    parallel(batch).backward()
    optimizer.step()
    with torch.no_grad():
        change = row - sharded(SparseBatch(lengths, batch.indices))[0]
    assert weights.grad is not None
    torch.testing.assert_close(weights.grad, (row.sum() / samples).expand(samples))
    return [*change.tolist(), dense - layer.weight.item()]


class _Mean(torch.nn.Module):
    """The mean over samples of the sum of a row and a weight."""

    def __init__(self, tables: ShardedEmbeddingCollection, dense: torch.nn.Linear) -> None:
        super().__init__()
        self.tables, self.dense = tables, dense

    def forward(self, batch: SparseBatch) -> Tensor:
        found = self.tables(batch).sum(1, keepdim=True)
        total: Tensor = found + self.dense(torch.ones_like(found))
        return total.mean()


def changed(spec: Spec, exchange: Exchange) -> None:
    """The last rank changes its indices before the backward pass."""
    job = Job(spec, exchange)
    sharded = job.sharded()
    parts, *_ = job.batch(0)
    mine = parts[exchange.rank + 1]
    out = sharded(mine)
    if exchange.rank == exchange.size - 1:
        mine.indices.zero_()
    out.sum().backward()


def save(spec: Spec, exchange: Exchange, steps: int, file: str) -> None:
    """Writes the state of each rank after some steps."""
    job = Job(spec, exchange)
    sharded = job.sharded()
    job.train(sharded, range(steps), whole=False)
    torch.save(sharded.state_dict(), f"{file}-{exchange.rank}")


def load(
    spec: Spec, exchange: Exchange, files: Sequence[str], steps: Sequence[int]
) -> list[tuple[str, str, bool, float]]:
    """Like `compare`, for a training that goes on from `files` at the first of two `steps`."""
    job = Job(spec, exchange)
    states = [torch.load(file) for file in files]
    single, sharded = job.single(), job.sharded()
    sizes = {table.name: (table.rows, table.dim) for table in job.tables}
    single.load_state_dict(whole_tables(states, sizes))
    merged: dict[str, Tensor] = {}
    for state in states:
        merged.update(state)
    sharded.load_state_dict(merged)
    wanted = job.train(single, range(*steps), whole=True)
    found = job.train(sharded, range(*steps), whole=False)
    rows = [("results", "", *_error(torch.cat(found), torch.cat(wanted)))]
    for part in sharded.rectangles():
        whole = single.state(part.table) | {"weight": single.weight(part.table)}
        right = whole[part.name][part.rows.start : part.rows.stop]
        if right.dim() == 2:
            right = right[:, part.columns.start : part.columns.stop]
        rows.append((part.table, part.name, *_error(part.values, right)))
    return rows


def narrow(spec: Spec, exchange: Exchange, steps: int, messages: list[str]) -> list[float]:
    """The errors of the results with messages in these formats."""
    job = Job(spec, exchange)
    wanted = torch.cat(job.train(job.single(), range(steps), whole=True))
    errors, before = [], exchange.messages
    try:
        for text in messages:
            exchange.messages = Messages.parse(text)
            found = job.train(job.sharded(), range(steps), whole=False)
            errors.append(_error(torch.cat(found), wanted)[1])
    finally:
        exchange.messages = before
    return errors


def leave(spec: Spec, exchange: Exchange, rank: int) -> None:
    """`rank` ends without a word while the others train."""
    job = Job(spec, exchange)
    sharded = job.sharded()
    job.train(sharded, range(2), whole=False)
    if exchange.rank == rank:
        os._exit(3)
    job.train(sharded, range(2, 4), whole=False)


def trained(exchange: Exchange, steps: int, shares: bool, given: dict[str, Any]) -> list[str]:
    """The bits of a run on all ranks: of its scores between steps, of its MLPs and its tables; and
    those of its MLPs alone. Some ranks have no sample of every third batch."""
    facts = parse(load_model("dlrm-small"))
    world = World(exchange.rank, exchange.size)
    settings = Settings("dlrm-small", ranks=world.size, threads=1, **given)
    trainer = Trainer(settings, facts, world)
    trainer.exchange._shares = shares and trainer.exchange._shares
    source, _ = open_data(settings, facts)
    sizes = [3 if step % 3 == 2 else 40 for step in range(steps)]
    parts = [
        part
        for step, size in enumerate(sizes)
        for part in replaced(source, 40 * step, size).parts(size, world.rank, world.size)
    ]
    bits = hashlib.sha256()
    for part, following in windows(iter(parts), trainer.ahead):
        trainer.step(part, 1.0, following)
        bits.update(trainer.logits(part.samples).tobytes())
    mlps = hashlib.sha256()
    for values in trainer.parameters:
        mlps.update(values.detach().numpy().tobytes())
    bits.update(mlps.digest())
    assert isinstance(trainer.embeddings, ShardedEmbeddingCollection)
    for each in trainer.embeddings.rectangles():
        bits.update(each.values.contiguous().view(torch.uint8).numpy().tobytes())
    return [bits.hexdigest(), mlps.hexdigest()]


def replaced(source: Source, first: int, size: int) -> Source:
    """The samples of a synthetic source from one on."""
    assert isinstance(source, Synthetic)
    return source.over(first, size)


CASES: dict[str, Callable[..., Any]] = {
    case.__name__: case
    for case in (
        compare,
        sockets,
        swaps,
        rooms,
        digest,
        spoiled,
        refused,
        uneven,
        full,
        modes,
        averaged,
        changed,
        save,
        load,
        narrow,
        leave,
        trained,
    )
}


def main(rank: int, size: int, store: str) -> None:
    """Answers questions until there are no more."""
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    # NCCL refuses two ranks of one host on one GPU. So each is a host, and they use sockets.
    os.environ["NCCL_HOSTID"] = f"rank-{rank}"
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if KERNELS_ON == "cuda" else "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=60),
    )
    groups = {each: dist.new_group(list(range(each))) for each in (1, 2, size)}
    exchanges = {each: Exchange(group) for each, group in groups.items() if rank < each}
    for line in sys.stdin:
        question = json.loads(line)
        try:
            exchange = exchanges[question["size"]]
            answer = CASES[question["case"]](exchange=exchange, **question["arguments"])
        except ArmillaryError as error:
            answer = [type(error).__name__, str(error)]
        print(json.dumps(answer), flush=True)
