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
from . import optimizers
from .embedding import EmbeddingCollection
from .settings import Precision, Settings
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


def embeddings_of(facts: Facts, settings: Settings, world: World) -> EmbeddingCollection:
    """The tables of a model, or this rank's part of them. Raises `InputError` when they need more
    memory than there is."""
    optimizer = _OPTIMIZERS[settings.optimizer](
        learning_rate=settings.learning_rate, weight_decay=settings.weight_decay
    )
    dtype = _TYPES[settings.table_precision]
    tables = [
        Table(each.name, each.rows, each.dim, dtype, stochastic_rounding=dtype != "float32")
        for each in facts.tables
    ]
    features = [Feature(each.name, each.name) for each in facts.tables]
    _require_memory(facts, settings, optimizer)
    threads = settings.threads or 1
    return EmbeddingCollection(tables, features, optimizer, seed=settings.seed, threads=threads)


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


def _require_memory(facts: Facts, settings: Settings, optimizer: optimizers.Optimizer) -> None:
    """Refuses tables that don't fit, before they take all memory of the machine."""
    width = 4 if settings.table_precision == "fp32" else 2
    by_row = settings.optimizer == "row-wise-adagrad"
    whole = 0
    for table in facts.tables:
        state = len(optimizer.state) * (1 if by_row else table.dim)
        whole += table.rows * (table.dim * width + 4 * state)
    free = machine.available()
    if free is not None and whole > free:
        said = f"its tables and their optimizer need {whole / 2**30:,.1f} GiB"
        allowed = f"at most {free / 2**30:,.1f} GiB, which is available"
        raise InputError([Problem(facts.name, "tables", said, allowed)])
