"""The parts of a run, made from its settings: tables, optimizers, arithmetic.

Here: from settings and facts to modules. Not here: the modules (`model.py`, `embedding.py`,
`sharded.py`), the run (`loop.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from .. import machine
from ..errors import InputError, Problem
from ..model.dlrm import Dlrm as Facts
from ..model.sharding import ShardingRequest, place
from ..model.sharding_plan import ShardingPlan
from ..model.sharding_plan_file import read_plan
from . import optimizers
from .embedding import EmbeddingCollection
from .settings import Precision, Settings
from .sharded import ShardedEmbeddingCollection
from .tables import DType, Feature, Table
from .world import World

_OPTIMIZERS: dict[str, type[optimizers.Optimizer]] = {
    "sgd": optimizers.Sgd,
    "adagrad": optimizers.AdaGrad,
    "row-wise-adagrad": optimizers.RowWiseAdaGrad,
    "adam": optimizers.Adam,
    "lamb": optimizers.Lamb,
}
_TYPES: dict[str, DType] = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
_DENSE_OPTIMIZERS: dict[str, Any] = {
    "sgd": torch.optim.SGD,
    "adagrad": torch.optim.Adagrad,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


Embeddings = EmbeddingCollection | ShardedEmbeddingCollection
"""Tables in one process, or this rank's part of them."""


def embeddings_of(facts: Facts, settings: Settings, world: World) -> Embeddings:
    """The tables of a model, or this rank's part of them. Raises `InputError` when a plan doesn't
    fit, and when they need more memory than there is."""
    optimizer = _OPTIMIZERS[settings.optimizer](
        learning_rate=settings.learning_rate, weight_decay=settings.weight_decay
    )
    dtype = _TYPES[settings.table_precision]
    tables = [
        Table(each.name, each.rows, each.dim, dtype, stochastic_rounding=dtype != "float32")
        for each in facts.tables
    ]
    features = [Feature(each.name, each.name) for each in facts.tables]
    threads = settings.threads or 1
    if world.size == 1 and settings.plan is None:
        _require_memory(facts, settings, optimizer, [table.rows * table.dim for table in tables])
        return EmbeddingCollection(tables, features, optimizer, seed=settings.seed, threads=threads)
    plan = _plan(facts, settings, world)
    _require_memory(facts, settings, optimizer, _held(plan, world))
    return ShardedEmbeddingCollection(
        tables, features, optimizer, plan, seed=settings.seed, threads=threads
    )


def _plan(facts: Facts, settings: Settings, world: World) -> ShardingPlan:
    """The plan of the settings; without one, whole tables, shared out by what a sample reads and
    sends."""
    if settings.plan is not None:
        return read_plan(settings.plan)
    request = ShardingRequest(
        scheme="table",
        npus=world.size,
        local_batch=max(1, settings.batch // world.size),
        npus_per_node=world.size,
        column_shards=None,
        embedding_width=4 if settings.table_precision == "fp32" else 2,
        gradient_width=4,
        forward_width=4,
        backward_width=4,
        optimizer="sgd",
        capacity=None,
    )
    return place(facts.tables, request, facts.name).plan


def compute_type(precision: Precision) -> torch.dtype:
    """The type in which the MLPs compute. Raises `InputError` when this hardware has no units for
    it."""
    gpu = torch.cuda.is_available()
    if precision == "tf32":
        if not gpu or torch.cuda.get_device_capability() < (8, 0):
            _refuse("tf32", "an NVIDIA GPU from Ampere on; fp32 or bf16 on this machine")
        torch.backends.cuda.matmul.fp32_precision = "tf32"
    if precision == "bf16":
        if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
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


def _require_memory(
    facts: Facts, settings: Settings, optimizer: optimizers.Optimizer, elements: Sequence[int]
) -> None:
    """Refuses tables that don't fit, before they take all memory of the machine. `elements`: of
    each table on this rank."""
    width = 4 if settings.table_precision == "fp32" else 2
    by_row = settings.optimizer == "row-wise-adagrad"
    whole = 0
    for table, count in zip(facts.tables, elements, strict=True):
        state = len(optimizer.state) * (count // table.dim if by_row else count)
        whole += count * width + 4 * state
    free = machine.available()
    if free is not None and whole > free:
        said = f"its tables and their optimizer need {whole / 2**30:,.1f} GiB"
        allowed = f"at most {free / 2**30:,.1f} GiB, which is available"
        raise InputError([Problem(facts.name, "tables", said, allowed)])
