"""Embedding tables in plain numpy with 64 bits: what `armillary_train.tables.embedding` is held
to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from armillary_train import _train
from armillary_train.tables.batch import SparseBatch
from armillary_train.tables.embedding import EmbeddingCollection
from armillary_train.tables.optimizers import AdaGrad, Adam, Lamb, Optimizer, RowWiseAdaGrad
from armillary_train.tables.table import Feature, Table

Array = NDArray[np.float64]
Collection = TypeVar("Collection", bound=torch.nn.Module)

KERNELS_ON = os.environ.get("KERNELS_ON", "")
"""Where tests run the kernels of GPUs: `cpu`, in the interpreter, or `cuda`; see `test_gpu.py`.
Otherwise they run the engine on processors."""
KERNELS = bool(KERNELS_ON)

if KERNELS_ON == "cpu":
    import quick_interpreter

    quick_interpreter.use()


def collection_of(
    tables: Sequence[Table],
    features: Sequence[Feature],
    optimizer: Optimizer,
    *,
    threads: int = 1,
    **settings: Any,  # noqa: ANN401 - those of the collection
) -> EmbeddingCollection:
    """Tables in the implementation that is tested."""
    if not KERNELS:
        return EmbeddingCollection(tables, features, optimizer, threads=threads, **settings)
    from armillary_train.tables.gpu import GpuEmbeddingCollection

    return to_host(
        GpuEmbeddingCollection(tables, features, optimizer, device=KERNELS_ON, **settings)
    )


def to_host(collection: Collection) -> Collection:
    """Makes results come to the host, where tests compare them."""
    collection.register_forward_hook(lambda module, given, result: result.cpu())
    return collection


def levels() -> list[str]:
    """Instruction sets of the implementation that is tested."""
    return [""] if KERNELS else _train.Embedding.levels()


def use_level(collection: EmbeddingCollection, level: str) -> None:
    """Makes a collection use an instruction set."""
    if not KERNELS:
        collection._engine.level = level


@dataclass
class Case:
    """Tables, features and a batch, with the gradient of its result."""

    tables: list[Table]
    features: list[Feature]
    batch: SparseBatch
    grad: torch.Tensor
    optimizer: Optimizer

    def collection(self, seed: int = 0, threads: int = 1) -> EmbeddingCollection:
        return collection_of(self.tables, self.features, self.optimizer, seed=seed, threads=threads)


def bags(case: Case) -> list[tuple[int, int, slice]]:
    """Feature, sample and lookups of each bag."""
    lengths = case.batch.lengths.numpy()
    ends = np.cumsum(lengths.ravel())
    starts = ends - lengths.ravel()
    return [
        (bag // lengths.shape[1], bag % lengths.shape[1], slice(start, end))
        for bag, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def factors(case: Case, feature: int, lookups: slice) -> Array:
    count = lookups.stop - lookups.start
    if case.batch.weights is not None:
        return case.batch.weights.numpy()[lookups].astype(np.float64)
    share = count if case.features[feature].pooling == "mean" and count else 1
    return np.full(count, 1.0 / share)


def columns(case: Case) -> list[slice]:
    """The columns of each feature in the result."""
    dims = {table.name: table.dim for table in case.tables}
    ends = np.cumsum([dims[feature.table] for feature in case.features])
    return [
        slice(end - dims[feature.table], end)
        for end, feature in zip(ends.tolist(), case.features, strict=True)
    ]


def forward(case: Case, weights: dict[str, Array]) -> Array:
    indices = case.batch.indices.numpy()
    out = np.zeros(tuple(case.grad.shape))
    for feature, sample, lookups in bags(case):
        rows = weights[case.features[feature].table][indices[lookups]]
        if case.features[feature].pooling == "none":
            out[lookups] = rows
        else:
            share = factors(case, feature, lookups)[:, None]
            out[sample, columns(case)[feature]] = (rows * share).sum(0)
    return out


def gradients(case: Case) -> dict[str, tuple[Array, NDArray[np.bool_]]]:
    """The gradient of each table, and which of its rows the batch has."""
    indices = case.batch.indices.numpy()
    found = {
        table.name: (np.zeros((table.rows, table.dim)), np.zeros(table.rows, bool))
        for table in case.tables
    }
    grad = case.grad.numpy().astype(np.float64)
    for feature, sample, lookups in bags(case):
        sums, touched = found[case.features[feature].table]
        touched[indices[lookups]] = True
        if case.features[feature].pooling == "none":
            np.add.at(sums, indices[lookups], grad[lookups])
        else:
            bag = grad[sample, columns(case)[feature]]
            share = factors(case, feature, lookups)[:, None]
            np.add.at(sums, indices[lookups], bag * share)
    return found


def of_weights(case: Case, weights: dict[str, Array]) -> Array:
    """The gradients of the batch's weights."""
    indices, found = case.batch.indices.numpy(), np.zeros(len(case.batch.indices))
    grad = case.grad.numpy().astype(np.float64)
    for feature, sample, lookups in bags(case):
        rows = weights[case.features[feature].table][indices[lookups]]
        found[lookups] = rows @ grad[sample, columns(case)[feature]]
    return found


@dataclass
class Reference:
    """An optimizer on tables of numpy. Only rows of the batch change."""

    optimizer: Optimizer
    weights: dict[str, Array]
    state: dict[str, dict[str, Array]] = field(default_factory=dict)
    steps: int = 0

    def update(self, case: Case) -> None:
        self.steps += 1
        for name, (grad, touched) in gradients(case).items():
            rows = np.flatnonzero(touched)
            self.weights[name][rows] = self._changed(name, rows, grad[rows])

    def _changed(self, name: str, rows: NDArray[np.intp], grad: Array) -> Array:
        settings, weights = self.optimizer, self.weights[name][rows]
        grad = grad.clip(-settings.clip_value, settings.clip_value)
        norm = np.sqrt((grad**2).sum(1, keepdims=True))
        grad = grad * np.minimum(1, settings.clip_norm / np.maximum(norm, 1e-300))
        decay = settings.weight_decay * weights
        if not settings.decoupled:
            grad, decay = grad + decay, np.zeros_like(decay)
        step = self._step(name, rows, grad, weights)
        return np.asarray(weights - settings.learning_rate * (decay + step))

    def _kept(self, name: str, part: str, rows: NDArray[np.intp], value: Array) -> Array:
        """Adds `value` to what is kept of the rows."""
        table = self.weights[name]
        shape = table.shape if value.ndim == 2 else table.shape[:1]
        kept = self.state.setdefault(name, {}).setdefault(part, np.zeros(shape))
        kept[rows] += value
        return np.asarray(kept[rows])

    def _step(self, name: str, rows: NDArray[np.intp], grad: Array, weights: Array) -> Array:
        match self.optimizer:
            case AdaGrad(eps=eps):
                return grad / (np.sqrt(self._kept(name, "sum", rows, grad**2)) + eps)
            case RowWiseAdaGrad(eps=eps):
                sums = self._kept(name, "sum", rows, (grad**2).mean(1))
                return grad / (np.sqrt(sums) + eps)[:, None]
            case Adam(beta1=beta1, beta2=beta2, eps=eps):
                zero = np.zeros_like(grad)
                mean, square = (self._kept(name, part, rows, zero) for part in ("mean", "square"))
                mean = self._kept(name, "mean", rows, (1 - beta1) * (grad - mean))
                square = self._kept(name, "square", rows, (1 - beta2) * (grad**2 - square))
                root = np.sqrt(square / (1 - beta2**self.steps)) + eps
                step = mean / (1 - beta1**self.steps) / root
                if isinstance(self.optimizer, Lamb):
                    lengths = [np.sqrt((each**2).sum(1)) for each in (weights, step)]
                    usable = (lengths[0] > 0) & (lengths[1] > 0)
                    trust = np.where(usable, lengths[0] / np.where(usable, lengths[1], 1), 1)
                    step = step * trust[:, None]
                return np.asarray(step)
        return grad
