"""Answers of FBGEMM on a processor: tables after steps of training with each optimizer that it
has there, rows of 8 bits, and lookups that are cut by rows of a table.

Inputs are drawn from seeds and recorded too. Gradients are eighths: their sums are exact."""

from __future__ import annotations

from typing import Any

import fbgemm_gpu
import numpy as np
import torch
from answers import Answers, main
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import (
    ComputeDevice,
    SplitTableBatchedEmbeddingBagsCodegen,
    WeightDecayMode,
)

from armillary_train.tables.optimizers import AdaGrad, Optimizer, RowWiseAdaGrad, Sgd

RULES = {
    "sgd": EmbOptimType.EXACT_SGD,
    "adagrad": EmbOptimType.EXACT_ADAGRAD,
    "row_wise_adagrad": EmbOptimType.EXACT_ROWWISE_ADAGRAD,
}
OPTIMIZERS: list[Optimizer] = [
    Sgd(learning_rate=0.5),
    AdaGrad(learning_rate=0.1, eps=0.1),
    RowWiseAdaGrad(learning_rate=0.1, eps=1e-8),
    RowWiseAdaGrad(learning_rate=0.05, eps=0.1, weight_decay=0.25),
    RowWiseAdaGrad(learning_rate=0.05, eps=0.1, weight_decay=0.25, decoupled=True),
]
POOLINGS = {"sum": PoolingMode.SUM, "mean": PoolingMode.MEAN}
SAMPLES, STEPS = 4, 3


def numbers(values: torch.Tensor) -> Any:  # noqa: ANN401 - lists as deep as the tensor
    """A tensor of float32 as lists, with the digits that such numbers have."""
    rounded = [float(f"{each:.9g}") for each in values.reshape(-1).tolist()]
    return np.reshape(rounded, values.shape).tolist()


def drawn(random: np.random.Generator, optimizer: Optimizer, pooling: str) -> dict[str, Any]:
    """Tables, features that look them up, and batches with the gradients of their results."""
    shapes = [(int(random.integers(3, 9)), 4 * int(random.integers(1, 4))) for _ in range(2)]
    # Features of a table are next to each other: FBGEMM changes a row once for each run of them.
    # With decay each table has two: FBGEMM 1.9.0 ignores the decay of a table with one.
    more = [0, 1] if optimizer.weight_decay else [int(random.integers(2))]
    features = sorted([0, 1, *more])
    width = sum(shapes[table][1] for table in features)
    weighted = pooling == "sum" and random.random() < 0.5
    batches = []
    for _ in range(STEPS):
        lengths = random.integers(0, 4, (len(features), SAMPLES))
        looked_up = [
            random.integers(0, shapes[table][0], lengths[at].sum())
            for at, table in enumerate(features)
        ]
        indices = np.concatenate(looked_up)
        weights = random.integers(1, 9, len(indices)) / 4
        grad = random.integers(-16, 17, (SAMPLES, width)) / 8
        batches.append(
            {
                "lengths": lengths.tolist(),
                "indices": indices.tolist(),
                "weights": weights.tolist() if weighted else None,
                "grad": grad.tolist(),
            }
        )
    return {
        "optimizer": {**optimizer.settings(), "clip_value": None, "clip_norm": None},
        "pooling": pooling,
        "features": features,
        "tables": [(random.integers(-16, 17, shape) / 16).tolist() for shape in shapes],
        "batches": batches,
    }


def trained(case: dict[str, Any]) -> dict[str, Any]:
    """Results of lookups, and tables and the optimizer's state after the last step."""
    settings = case["optimizer"]
    decay = WeightDecayMode.DECOUPLE if settings["decoupled"] else WeightDecayMode.L2
    more = {"eps": settings["eps"]} if "eps" in settings else {}
    if settings["weight_decay"]:
        more |= {"weight_decay": settings["weight_decay"], "weight_decay_mode": decay}
    tables = [torch.tensor(each, dtype=torch.float32) for each in case["tables"]]
    module = SplitTableBatchedEmbeddingBagsCodegen(
        [(*table.shape, EmbeddingLocation.HOST, ComputeDevice.CPU) for table in tables],
        feature_table_map=case["features"],
        pooling_mode=POOLINGS[case["pooling"]],
        optimizer=RULES[settings["rule"]],
        learning_rate=settings["learning_rate"],
        **more,
    )
    for held, table in zip(module.split_embedding_weights(), tables, strict=True):
        held.copy_(table)
    pooled = []
    for batch in case["batches"]:
        ends = torch.tensor(batch["lengths"]).reshape(-1).cumsum(0)
        offsets = torch.cat((torch.zeros(1, dtype=ends.dtype), ends))
        weights = None if batch["weights"] is None else torch.tensor(batch["weights"])
        found = module(torch.tensor(batch["indices"]), offsets, per_sample_weights=weights)
        pooled.append(numbers(found))
        found.backward(torch.tensor(batch["grad"]))
    states = module.split_optimizer_states()
    return {
        "case": case,
        "pooled": pooled,
        "tables": [numbers(each) for each in module.split_embedding_weights()],
        "sums": [numbers(each[0]) for each in states],
    }


def eight_bits() -> dict[str, Any]:
    """Rows, and their bytes with scale and offset behind them."""
    rows = torch.from_numpy(np.random.default_rng(8).normal(size=(16, 12)).astype(np.float32))
    return {
        "rows": numbers(rows),
        "bytes": torch.ops.fbgemm.FloatToFused8BitRowwiseQuantized(rows).tolist(),
    }


def cut_by_rows(seed: int) -> dict[str, Any]:
    """Lookups of features, and the same for each rank, whose share of a table is `block` rows."""
    random = np.random.default_rng(seed)
    ranks, features = int(random.integers(2, 6)), 3
    blocks = random.integers(1, 8, features)
    lengths = random.integers(0, 5, (features, SAMPLES))
    indices = [
        random.integers(0, ranks * block, lengths[at].sum()) for at, block in enumerate(blocks)
    ]
    bucketed = torch.ops.fbgemm.block_bucketize_sparse_features(
        torch.from_numpy(lengths.ravel()),
        torch.from_numpy(np.concatenate(indices)),
        False,
        False,
        torch.from_numpy(blocks),
        ranks,
    )
    return {
        "ranks": ranks,
        "blocks": blocks.tolist(),
        "lengths": lengths.tolist(),
        "indices": np.concatenate(indices).tolist(),
        "cut_lengths": bucketed[0].tolist(),
        "cut_indices": bucketed[1].tolist(),
    }


def answers() -> Answers:
    """All of them."""
    random = np.random.default_rng(20261129)
    trainings = [
        trained(drawn(random, optimizer, pooling))
        for optimizer in OPTIMIZERS
        for pooling in POOLINGS
    ]
    return {
        "trainings": trainings,
        "eight_bits": eight_bits(),
        "cut_by_rows": [cut_by_rows(seed) for seed in range(8)],
    }


if __name__ == "__main__":
    main(fbgemm_gpu.__version__, answers)
