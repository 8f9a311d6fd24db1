"""The parts of a training step that are neither products, nor accesses to tables, nor exchanges.

Here: each part timed by itself, with the trainer's own code and the shapes of a model. Names are
those of `profile_ranges.py`. What ranks send and wait for doesn't count; `collectives.py` times
that.

    data                         making the samples of a rank
    inputs.distribute            sorting lookups by the ranks that hold the rows
    embedding.collect, .spread   pooled rows and their gradients, from and to the order of samples
    interaction.forward, .input_gradient        dot products of features
    loss.forward                 loss and its gradient
    scores                       of the samples that were trained on
    optimizer                    the MLPs' step
    trainer                      the rest: a step of the smallest model, less its parts

The smallest model has one table for each rank, and one layer of 4 outputs below and one above. So
`trainer` is what PyTorch and Python take in each step whatever the model is. What they add to each
layer is in the MLPs that `kernels.py` times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any

import torch

from armillary.model.dlrm import Dense, Dlrm, EmbeddingTable, Interaction

from ..build import dense_optimizer, embeddings_of
from ..data import open_data
from ..net import dense as arithmetic
from ..net.metrics import Streaming
from ..net.model import Mlp
from ..ranks.coroutines import finished
from ..ranks.exchange import Exchange
from ..ranks.sharded import ShardedEmbeddingCollection
from ..ranks.world import World
from ..run.loop import Trainer
from ..run.pipeline import sparse, windows
from ..settings import Settings
from ..tables.batch import SparseBatch
from .clock import Timing, timed
from .kernels import LARGEST, timing
from .request import Request

Row = dict[str, Any]
_ALONE, _TOGETHER = 5, 3
"""Parts on one process, and those on several in addition."""
_ROUNDS = 9
"""Times that the rest is measured: it is a difference, which other work on the machine changes
most. The median counts."""


def count(facts: Dlrm | None, world: World) -> int:
    """How many parts there are."""
    if facts is None:
        return 0
    dots = 2 * (facts.interaction.kind == "dot")
    return _ALONE + dots + (_TOGETHER if world.size > 1 else 0)


def parts(facts: Dlrm | None, request: Request, world: World) -> Iterator[Row]:
    """Every part of a model's step; none without a model. Tables have at most `LARGEST` rows."""
    if facts is None:
        return
    small = [replace(table, rows=min(table.rows, LARGEST)) for table in facts.tables]
    settings = Settings(
        facts.name,
        global_batch=request.global_batch,
        ranks=world.size,
        threads=torch.get_num_threads(),
    )
    for name, found in _timed(settings, replace(facts, tables=tuple(small)), world):
        yield {"name": name, "samples": request.global_batch // world.size, **timing(found)}
    yield {"name": "trainer", "samples": 1, **timing(_rest(settings, world))}


def _timed(settings: Settings, facts: Dlrm, world: World) -> Iterator[tuple[str, Timing]]:
    source, _ = open_data(replace(settings, steps=2**40), facts)
    given = source.parts(settings.global_batch, world.rank, world.size)
    yield "data", timed(lambda: next(given), world)
    part = next(given)
    samples, count = part.samples, len(part.samples)
    exchange = Exchange()
    tables = embeddings_of(facts, settings, world, exchange)
    if isinstance(tables, ShardedEmbeddingCollection):
        yield from _exchanged(tables, sparse(samples), exchange, world)
    if facts.interaction.kind == "dot":
        yield from _interaction(facts, count, world)
    logits = torch.randn(count, requires_grad=True)
    labels = torch.from_numpy(samples.labels)

    def loss() -> float:
        each = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
        torch.autograd.backward(each / part.whole)
        logits.grad = None
        return float(each.detach())

    yield "loss.forward", timed(loss, world)
    seen = Streaming()
    yield "scores", timed(lambda: seen.add(logits.detach().numpy(), samples.labels), world)
    yield "optimizer", timed(_optimizer(settings, facts), world)


def _exchanged(
    tables: ShardedEmbeddingCollection,
    batch: SparseBatch,
    exchange: Exchange,
    world: World,
) -> Iterator[tuple[str, Timing]]:
    """Work of ranks for exchanges, without the time of sending and waiting, and without the kernels
    of tables."""

    def waited() -> float:
        return sum(exchange.waited.values())

    def apart(work: Callable[[], object]) -> Timing:
        return timed(work, world, waited=waited)

    yield "inputs.distribute", apart(lambda: tables.distribute(batch))
    there = tables.distribute(batch)
    with torch.no_grad():
        pooled = finished(tables.looking_up(there))
        held = list(zip(tables._held, there.held, strict=True))
        whole = apart(lambda: finished(tables.looking_up(there)))
        kernel = timed(lambda: [t._run_forward(b.samples, b.arrays) for t, b in held], world)
        yield "embedding.collect", _less(whole, kernel)
        gradient = torch.full_like(pooled, 1e-6)
        rows = [torch.full((b.samples, sum(f.dim for f in t.tables)), 1e-6) for t, b in held]
        whole = apart(lambda: finished(tables.updating(there, gradient)))

        def update() -> None:
            for (table, bags), row in zip(held, rows, strict=True):
                table._run_backward(bags.samples, bags.arrays, row, None)

        yield "embedding.spread", _less(whole, timed(update, world))


def _less(whole: Timing, part: Timing) -> Timing:
    """The time of the whole without that of a part."""
    return replace(whole, us=max(0.001, whole.us - part.us))


def _interaction(facts: Dlrm, count: int, world: World) -> Iterator[tuple[str, Timing]]:
    features, dim = facts.interaction.features, facts.interaction.dim
    places = arithmetic.places(features)
    low = torch.randn(count, dim, requires_grad=True)
    pooled = torch.randn(count, dim * (features - 1), requires_grad=True)
    with torch.no_grad():
        yield (
            "interaction.forward",
            timed(lambda: arithmetic.pairs(low, pooled, *places), world),
        )
    out = arithmetic.pairs(low, pooled, *places)
    gradient = torch.randn_like(out)

    def back() -> None:
        torch.autograd.grad(out, (low, pooled), gradient, retain_graph=True)

    yield "interaction.input_gradient", timed(back, world)


def _optimizer(settings: Settings, facts: Dlrm) -> Callable[[], object]:
    shapes = [(each.outputs, each.inputs) for each in facts.dense]
    parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    parameters += [torch.nn.Parameter(torch.randn(e.outputs)) for e in facts.dense if e.bias]
    for each in parameters:
        each.grad = torch.full_like(each, 1e-3)
    step: Callable[[], object] = dense_optimizer(parameters, settings).step
    return step


def _rest(settings: Settings, world: World) -> Timing:
    """A step of the smallest model, less its parts, MLPs and kernels of tables."""
    facts = _smallest(world.size)
    smallest = replace(settings, global_batch=world.size, steps=2**40)
    source, _ = open_data(smallest, facts)
    given = source.parts(world.size, world.rank, world.size)
    trainer = Trainer(smallest, facts, world)
    steps = windows(cycle([next(given) for _ in range(4)]), trainer.ahead)

    def step() -> None:
        part, following = next(steps)
        trainer.step(part, 1.0, following)

    def waited() -> float:
        return sum(trainer.exchange.waited.values())

    mlps, rounds = _mlps(facts), list[Timing]()
    for _ in range(_ROUNDS):
        whole = timed(step, world, waited=waited)
        known = [found.us for name, found in _timed(smallest, facts, world) if name != "data"]
        known.append(timed(mlps, world).us)
        rounds.append(replace(whole, us=max(0.001, whole.us - sum(known))))
    return sorted(rounds, key=lambda each: each.us)[_ROUNDS // 2]


def _smallest(ranks: int) -> Dlrm:
    dim = 4
    width = dim * (ranks + 1)
    return Dlrm(
        name="smallest",
        tables=tuple(EmbeddingTable(f"t{each}", 64, dim, 1) for each in range(ranks)),
        bottom=(Dense("bottom.0", 13, dim),),
        interaction=Interaction("concat", ranks + 1, dim, width, width),
        top=(Dense("top.0", width, 1),),
        flow="neo",
        local_batch=1,
        width=4,
        gradient_width=4,
        embedding_width=4,
    )


def _mlps(facts: Dlrm) -> Callable[[], object]:
    """Forward and backward pass of both MLPs, each by itself."""
    made = torch.Generator().manual_seed(0)
    given = [
        (Mlp(part, last=False, generator=made), torch.randn(1, part[0].inputs, requires_grad=True))
        for part in (facts.bottom, facts.top)
    ]

    def run() -> None:
        for mlp, values in given:
            mlp.zero_grad(set_to_none=True)
            mlp(values).sum().backward()

    return run
