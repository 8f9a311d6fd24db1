"""The parts of a run, made from its settings: tables, optimizers, arithmetic.

Here: from settings and facts to modules. Not here: the modules (`net/model.py`,
`tables/embedding.py`, `ranks/sharded.py`), the run (`run/loop.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from armillary import machine
from armillary.errors import InputError, Problem
from armillary.model.dlrm import Dlrm as Facts
from armillary.model.dlrm import EmbeddingTable
from armillary.model.sharding import ShardingRequest, place
from armillary.model.sharding_plan import ShardingPlan, Tier
from armillary.model.sharding_plan_file import read_plan
from armillary.units import counted

from .compiler import uncompiled
from .ranks.exchange import Exchange
from .ranks.sharded import ShardedEmbeddingCollection
from .ranks.sharding import training_problems
from .ranks.world import World
from .settings import Device, Precision, Settings
from .tables import optimizers
from .tables.caching import Caching
from .tables.embedding import EmbeddingCollection
from .tables.table import DType, Feature, Table
from .tables.tensor_train import SplitEmbeddings, TensorTrainCollection
from .tables.tensor_train_shapes import Rule, Shape

_OPTIMIZERS: dict[str, type[optimizers.Optimizer]] = {
    "sgd": optimizers.Sgd,
    "adagrad": optimizers.AdaGrad,
    "rowwise_adagrad": optimizers.RowWiseAdaGrad,
    "adam": optimizers.Adam,
    "lamb": optimizers.Lamb,
}
_TYPES: dict[str, DType] = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_DENSE_OPTIMIZERS: dict[str, Any] = {
    "sgd": uncompiled(torch.optim.SGD),
    "adagrad": uncompiled(torch.optim.Adagrad),
    "adam": uncompiled(torch.optim.Adam),
    "adamw": uncompiled(torch.optim.AdamW),
}


Embeddings = (
    EmbeddingCollection | ShardedEmbeddingCollection | TensorTrainCollection | SplitEmbeddings
)
"""Tables in one process, or this rank's part of them."""


CachedEmbeddings = EmbeddingCollection | ShardedEmbeddingCollection
"""Those whose tables may have caches."""


def embeddings_of(facts: Facts, settings: Settings, world: World, exchange: Exchange) -> Embeddings:
    """The tables of a model, or this rank's part of them. Raises `InputError` when a plan doesn't
    fit, when they need more memory than there is, and when a table can't be a train of tensors."""
    optimizer = _OPTIMIZERS[settings.optimizer](
        learning_rate=settings.learning_rate, weight_decay=settings.weight_decay
    )
    shapes = _shapes(facts, settings)
    tables = [each for each in facts.tables if each.name not in shapes]
    if not shapes:
        return _plain(facts, tables, settings, (world, exchange), optimizer)
    trains = TensorTrainCollection(
        list(shapes.values()),
        [Feature(each.name, each.name) for each in facts.tables if each.name in shapes],
        optimizer,
        seed=settings.seed,
        threads=settings.threads or 1,
        add=dist.all_reduce if world.size > 1 else None,
        make=_one_process(settings),
    )
    if not tables:
        return trains
    return SplitEmbeddings(
        [Table(each.name, each.rows, each.dim) for each in facts.tables],
        [Feature(each.name, each.name) for each in facts.tables],
        _plain(facts, tables, settings, (world, exchange), optimizer),
        trains,
    )


def ratios(embeddings: Embeddings) -> dict[str, float]:
    """How many times smaller each train of tensors is than its table."""
    trains = embeddings.trains if isinstance(embeddings, SplitEmbeddings) else embeddings
    if not isinstance(trains, TensorTrainCollection):
        return {}
    return {name: shape.ratio for name, shape in trains.shapes.items()}


def _shapes(facts: Facts, settings: Settings) -> dict[str, Shape]:
    """The tables that are trains of tensors."""
    if settings.tensor_train is None:
        return {}
    rule = Rule.parse(settings.tensor_train)
    found = [rule.shape(each.name, each.rows, each.dim) for each in facts.tables]
    shapes = {shape.table: shape for shape in found if shape is not None}
    if not shapes:
        said = f"no table of {facts.name} has {counted(rule.rows, 'row')}"
        allowed = f"rows>=N with N up to {max(each.rows for each in facts.tables):,}"
        raise InputError([Problem("", "--tensor-train", said, allowed)])
    return shapes


def _one_process(settings: Settings) -> type[EmbeddingCollection]:
    """Collection that holds tables in one process."""
    if settings.device == "cpu":
        return EmbeddingCollection
    from .tables.gpu import GpuEmbeddingCollection

    return GpuEmbeddingCollection


def _plain(
    facts: Facts,
    some: Sequence[EmbeddingTable],
    settings: Settings,
    ranks: tuple[World, Exchange],
    optimizer: optimizers.Optimizer,
) -> EmbeddingCollection | ShardedEmbeddingCollection:
    """Tables that are stored as they are: `some` of the model's."""
    world, exchange = ranks
    dtype = _TYPES[settings.table_precision]
    caching = _caching(settings)
    tier: Tier = "device"
    if caching is not None and settings.plan is None:
        tier = "host" if settings.table_dir is None else "disk"
    by_chance = dtype != "float32"
    tables = [
        Table(each.name, each.rows, each.dim, dtype, stochastic_rounding=by_chance, tier=tier)
        for each in some
    ]
    features = [Feature(each.name, each.name) for each in some]
    threads = settings.threads or 1
    if world.size == 1 and settings.plan is None:
        if settings.device != "cpu" and caching is None:
            return _one_process(settings)(tables, features, optimizer, seed=settings.seed)
        elements = [table.rows * table.dim for table in tables]
        _require_memory(facts.name, tables, settings, optimizer, elements)
        if caching is not None and settings.device != "cpu":
            from .tables.gpu_cache import CachedGpuEmbeddingCollection

            return CachedGpuEmbeddingCollection(
                tables, features, optimizer, caching=caching, seed=settings.seed, threads=threads
            )
        return EmbeddingCollection(
            tables, features, optimizer, seed=settings.seed, threads=threads, caching=caching
        )
    plan = _plan(facts, tables, settings, world)
    if caching is not None and settings.plan is not None and not _is_tiered(plan):
        said = "caches, but the plan has no table in slower memory"
        allowed = "tier host or disk for a table in the plan"
        raise InputError([Problem(settings.plan, "--cache", said, allowed)])
    tiers = {each.name: each.tier for each in plan.tables if each.tier != "device"}
    held = [replace(each, tier=tiers.get(each.name, each.tier)) for each in tables]
    _require_memory(facts.name, held, settings, optimizer, _held(plan, world))
    return ShardedEmbeddingCollection(
        tables,
        features,
        optimizer,
        plan,
        exchange=exchange,
        seed=settings.seed,
        threads=threads,
        caching=caching,
        gpu=None if settings.device == "cpu" else settings.device,
    )


def _is_tiered(plan: ShardingPlan) -> bool:
    """Whether a plan has tables in slower memory."""
    return any(table.tier != "device" for table in plan.tables)


def _caching(settings: Settings) -> Caching | None:
    """The caches of the settings."""
    if settings.cache is None:
        return None
    return Caching(
        settings.cache_bytes,
        settings.table_dir,
        policy=settings.cache_policy,
        precision="float32" if settings.cache_precision == "fp32" else None,
    )


def _plan(facts: Facts, tables: Sequence[Table], settings: Settings, world: World) -> ShardingPlan:
    """The plan of the settings; without one, whole tables, shared out by what a sample reads and
    sends. Trains of tensors are on all ranks, whatever the plan is; it may copy them too.
    Raises `InputError` when the plan of a file doesn't fit; it names the file."""
    mine = {table.name for table in tables}
    if settings.plan is not None:
        plan = read_plan(settings.plan)
        names = {each.name for each in facts.tables} - mine
        for each in plan.tables:
            if each.name in names and each.scheme != "data":
                said = f"is {each.scheme!r}, but a train of tensors"
                raise InputError([Problem(settings.plan, f"table {each.name!r}", said, "data")])
        kept = tuple(each for each in plan.tables if each.name not in names)
        plan = replace(plan, tables=kept)
        problems = training_problems(plan, tables, world.size, settings.plan)
        if problems:
            raise InputError(problems)
        known = {each.name: each for each in kept}
        return replace(plan, tables=tuple(known[table.name] for table in tables))
    request = ShardingRequest(
        scheme="table",
        npus=world.size,
        local_batch=max(1, settings.global_batch // world.size),
        npus_per_node=world.size,
        column_shards=None,
        embedding_width=4 if settings.table_precision == "fp32" else 2,
        gradient_width=4,
        forward_width=4,
        backward_width=4,
        optimizer="sgd",
        capacity=None,
    )
    some = [each for each in facts.tables if each.name in mine]
    return place(some, request, facts.name).plan


def compute_type(precision: Precision, device: Device = "cpu") -> torch.dtype:
    """The type in which the MLPs compute. Raises `InputError` when this hardware has no units for
    it."""
    gpu = device == "cuda" and torch.cuda.is_available()
    ampere = gpu and torch.cuda.get_device_capability() >= (8, 0)
    if precision == "tf32":
        if not ampere:
            _refuse("tf32", "--device cuda with an NVIDIA GPU from Ampere on; fp32 or bf16")
        torch.backends.cuda.matmul.fp32_precision = "tf32"
    if precision == "bf16":
        if not (ampere if gpu else torch.ops.mkldnn._is_mkldnn_bf16_supported()):
            _refuse("bf16", "a processor with AVX512_BF16, AMX or the like; fp32 on this machine")
        return torch.bfloat16
    return torch.float32


def dense_optimizer(
    parameters: Sequence[nn.Parameter], settings: Settings
) -> torch.optim.Optimizer:
    """The MLPs' optimizer, one of PyTorch's."""
    made: torch.optim.Optimizer = _DENSE_OPTIMIZERS[settings.dense_optimizer](
        parameters, lr=settings.dense_learning_rate
    )
    return made


def _refuse(precision: str, allowed: str) -> None:
    said = f"this machine has no units for {precision}"
    raise InputError([Problem("", "--precision", said, allowed)])


def _held(plan: ShardingPlan, world: World) -> list[int]:
    """Elements of each table that this rank holds."""
    return [
        sum(
            len(shard.rows) * len(shard.columns)
            for shard in table.shards
            if shard.rank == world.rank
        )
        for table in plan.tables
    ]


_SLOT, _FILE = 23, 2**20
"""Bytes of a cache for each row besides its weights and state, and for each table, at most:
docs/models/embedding-cache.md."""


def _require_memory(
    model: str,
    tables: Sequence[Table],
    settings: Settings,
    optimizer: optimizers.Optimizer,
    elements: Sequence[int],
) -> None:
    """Refuses tables that don't fit, before they take all memory of the machine. `elements`: of
    each table on this rank."""
    width = 4 if settings.table_precision == "fp32" else 2
    by_row = settings.optimizer == "rowwise_adagrad"
    whole = cached = 0
    for table, count in zip(tables, elements, strict=True):
        rows = count // table.dim
        state = 4 * len(optimizer.state) * (rows if by_row else count)
        if table.tier != "device":  # The cache grows up to the whole table.
            cached += 4 * count + state + _SLOT * rows + _FILE
        if table.tier != "disk":
            whole += count * width + state
    if settings.device == "cpu":
        whole += min(settings.cache_bytes, cached)
    free = machine.available()
    if free is not None and whole > free:
        what = ", their optimizer and their caches" if cached else " and their optimizer"
        said = f"its tables{what} need {whole / 2**30:,.1f} GiB"
        allowed = f"at most {free / 2**30:,.1f} GiB, which is available"
        raise InputError([Problem(model, "tables", said, allowed)])
