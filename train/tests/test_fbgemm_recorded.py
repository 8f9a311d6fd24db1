"""The embedding engine against answers of FBGEMM, which `make peers` asks again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from peer_records import answers

pytest.importorskip("torch")

import torch

from armillary_train import _train
from armillary_train.checkpoint.eight_bits import eight_bits
from armillary_train.tables.batch import SparseBatch
from armillary_train.tables.embedding import EmbeddingCollection
from armillary_train.tables.optimizers import AdaGrad, Optimizer, RowWiseAdaGrad, Sgd
from armillary_train.tables.table import Feature, Table

RECORDED = answers("fbgemm")
RULES: dict[str, type[Optimizer]] = {each.rule: each for each in (Sgd, AdaGrad, RowWiseAdaGrad)}


def optimizer_of(recorded: dict[str, Any]) -> Optimizer:
    settings: dict[str, Any] = {
        key: math.inf if each is None else each for key, each in recorded.items()
    }
    return RULES[settings.pop("rule")](**settings)


def named(recorded: dict[str, Any]) -> str:
    return f"{recorded['case']['optimizer']['rule']} {recorded['case']['pooling']}"


@pytest.mark.parametrize("recorded", RECORDED["trainings"], ids=named)
def test_trained_tables_are_those_of_fbgemm(recorded: dict[str, Any]) -> None:
    """Lookups, rows and the optimizer's sums, after steps of each optimizer."""
    case = recorded["case"]
    weights = [torch.tensor(each) for each in case["tables"]]
    tables = [Table(f"t{at}", *each.shape) for at, each in enumerate(weights)]
    features = [
        Feature(f"f{at}", f"t{table}", case["pooling"]) for at, table in enumerate(case["features"])
    ]
    collection = EmbeddingCollection(tables, features, optimizer_of(case["optimizer"]))
    for table, weight in zip(tables, weights, strict=True):
        collection.weight(table.name).copy_(weight)
    for batch, pooled in zip(case["batches"], recorded["pooled"], strict=True):
        factors = None if batch["weights"] is None else torch.tensor(batch["weights"])
        found = collection(
            SparseBatch(torch.tensor(batch["lengths"]), torch.tensor(batch["indices"]), factors)
        )
        close(found.detach(), pooled)
        found.backward(torch.tensor(batch["grad"]))
    state = collection.state_dict()
    for table, rows in zip(tables, recorded["tables"], strict=True):
        close(state[f"{table.name}.weight"], rows)
    for table, sums in zip(tables, recorded["sums"], strict=False):
        close(state[f"{table.name}.sum"].reshape(np.shape(sums)), sums)


def close(found: torch.Tensor, recorded: list[Any]) -> None:
    np.testing.assert_allclose(found.numpy(), np.array(recorded), rtol=3e-6, atol=3e-6)


def test_rows_of_eight_bits_are_those_of_fbgemm() -> None:
    """The same scale and offset behind the bytes. FBGEMM adds 1e-8 to the range before it rounds,
    so a byte at the middle of two steps may be the other one."""
    recorded = RECORDED["eight_bits"]
    rows = np.array(recorded["rows"], np.float32)
    ours = eight_bits(torch.from_numpy(rows)).numpy()
    theirs = np.array(recorded["bytes"], np.uint8)
    width = rows.shape[1]
    assert np.abs(ours[:, :width].astype(int) - theirs[:, :width]).max() <= 1
    mine, other = (each[:, width:].copy().view(np.float32) for each in (ours, theirs))
    np.testing.assert_allclose(mine, other, rtol=1e-6)


@pytest.mark.parametrize("recorded", RECORDED["cut_by_rows"], ids=lambda each: str(each["ranks"]))
def test_lookups_cut_by_rows_are_those_of_fbgemm(recorded: dict[str, Any]) -> None:
    ranks, blocks = recorded["ranks"], recorded["blocks"]
    lengths = np.array(recorded["lengths"], "i4")
    indices = np.array(recorded["indices"], "i4")
    tables = [
        (f"f{at}", f"t{at}", ranks * block, [block * (rank + 1) for rank in range(ranks)])
        for at, block in enumerate(blocks)
    ]
    segments = [(feature, rank) for rank in range(ranks) for feature in range(len(blocks))]
    router = _train.Router(tables, segments)
    cut = np.empty(ranks * lengths.size, "i4"), np.empty(len(indices), "i4"), None
    router.count(lengths.shape[1], (lengths, indices, None))
    router.fill((lengths, indices, None), cut)
    assert cut[0].tolist() == recorded["cut_lengths"]
    assert cut[1].tolist() == recorded["cut_indices"]
