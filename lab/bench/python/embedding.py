"""Times the embedding engine next to its peers: FBGEMM's table-batched embeddings and
`torch.nn.EmbeddingBag`, where they are installed. Prints a table of CPU milliseconds per step.

    python lab/bench/python/embedding.py --shapes core --steps 5

A step is the lookup of all tables, then gradients and update. All see the same batches. Times are
medians of CPU time, because wall time is noise on shared machines; `--threads 2` prints the least
wall time. The line `memory` has, for our own tables, the time of the backward pass, that of a plain
loop which reads and writes the same rows and reads the same gradients (`row_updates.py`), and the
second in percent of the first; `--peers memory` prints nothing else. GB/s counts rows, read once
forward, read and written once backward, by FBGEMM's formula:
3 x samples x tables x columns x (4 + lookups x bytes)."""

from __future__ import annotations

import argparse
import ctypes
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import row_updates
import torch
from numpy.typing import NDArray

from armillary_train.process import prepare_process
from armillary_train.tables.batch import SparseBatch
from armillary_train.tables.embedding import EmbeddingCollection
from armillary_train.tables.optimizers import Optimizer, RowWiseAdaGrad, Sgd
from armillary_train.tables.table import DType, Feature, Table

Step = Callable[[torch.Tensor, torch.Tensor], None]
"""Lookup, gradient and update for indices of all tables and a gradient."""


@dataclass(frozen=True)
class Shape:
    """Tables and lookups of a case."""

    tables: int
    rows: int
    dim: int
    pooling: int
    dtype: DType = "float32"
    samples: int = 2048

    def __str__(self) -> str:
        return (
            f"{self.tables} x {self.rows:,} x {self.dim} {self.dtype}, "
            f"{self.samples} samples x {self.pooling}"
        )

    @property
    def gigabytes(self) -> float:
        """Least bytes that a step moves, GB."""
        size = 4 if self.dtype == "float32" else 2
        return 3 * self.samples * self.tables * self.dim * (4 + self.pooling * size) / 1e9


SHAPES = {
    "core": [
        Shape(8, 1_000_000, 128, 32),
        Shape(8, 1_000_000, 128, 32, "float16"),
    ],
    "all": [
        *(Shape(8, 1_000_000, dim, pooling) for dim in (128, 64) for pooling in (20, 32, 60)),
        *(Shape(8, 1_000_000, dim, 32, "float16") for dim in (128, 64)),
        Shape(64, 100_000, 64, 32, samples=512),
        Shape(26, 1_000_000, 64, 1),
        Shape(26, 1_000_000, 16, 1),
    ],
    "many": [
        Shape(64, 100_000, 64, 32, samples=512),
        Shape(26, 1_000_000, 64, 1),
        Shape(26, 1_000_000, 16, 1),
    ],
}


def batches(shape: Shape, zipf: bool, count: int) -> list[NDArray[np.int64]]:
    """Indices of `count` batches, table by table; Zipf's law with exponent 1.05, or uniform."""
    random = np.random.default_rng(1)
    each = shape.samples * shape.pooling
    if not zipf:
        size = shape.tables * each
        return [random.integers(0, shape.rows, size) for _ in range(count)]
    law = np.cumsum(np.arange(1, shape.rows + 1) ** -1.05)
    places = [random.permutation(shape.rows) for _ in range(shape.tables)]

    def one(place: NDArray[np.int64]) -> NDArray[np.int64]:
        ranks = np.searchsorted(law, random.random(each) * law[-1])
        return np.asarray(place[np.minimum(ranks, shape.rows - 1)])

    return [np.concatenate([one(place) for place in places]) for _ in range(count)]


def collection_of(
    shape: Shape, optimizer: str, threads: int, stochastic: bool = False
) -> EmbeddingCollection:
    """Armillary's engine."""
    names = [f"t{number}" for number in range(shape.tables)]
    settings: Optimizer = {"sgd": Sgd(), "rowwise": RowWiseAdaGrad()}[optimizer]
    tables = [Table(name, shape.rows, shape.dim, shape.dtype, stochastic) for name in names]
    features = [Feature(name, name) for name in names]
    return EmbeddingCollection(tables, features, settings, threads=threads)


def ours(shape: Shape, optimizer: str, threads: int, stochastic: bool = False) -> Step:
    """Armillary's step."""
    collection = collection_of(shape, optimizer, threads, stochastic)
    lengths = torch.full((shape.tables, shape.samples), shape.pooling)

    def step(indices: torch.Tensor, grad: torch.Tensor) -> None:
        collection(SparseBatch(lengths, indices)).backward(grad)

    return step


def _mend_fbgemm() -> None:
    """Copy the facts of cpuinfo that torch found: fbgemm-gpu-cpu 1.9.0 with torch 2.14 reads an
    empty copy, and falls back to its slowest kernels."""
    folder = Path(torch.__path__[0]) / "lib"
    full, empty = (ctypes.CDLL(str(folder / name)) for name in ("libtorch.so", "libc10.so"))
    full.cpuinfo_initialize()
    known = (ctypes.c_ubyte * 0x55).in_dll(full, "cpuinfo_isa")
    unknown = (ctypes.c_ubyte * 0x55).in_dll(empty, "cpuinfo_isa")
    if any(known) and not any(unknown):
        ctypes.memmove(unknown, known, 0x55)


def fbgemm(shape: Shape, optimizer: str, threads: int) -> Step:
    """FBGEMM's SplitTableBatchedEmbeddingBagsCodegen on the CPU."""
    _mend_fbgemm()
    configs = import_module("fbgemm_gpu.split_embedding_configs")
    common = import_module("fbgemm_gpu.split_table_batched_embeddings_ops_common")
    training = import_module("fbgemm_gpu.split_table_batched_embeddings_ops_training")

    torch.set_num_threads(threads)
    types = {"float32": configs.SparseType.FP32, "float16": configs.SparseType.FP16}
    rules = {
        "sgd": configs.EmbOptimType.EXACT_SGD,
        "rowwise": configs.EmbOptimType.EXACT_ROWWISE_ADAGRAD,
    }
    table = (shape.rows, shape.dim, common.EmbeddingLocation.HOST, training.ComputeDevice.CPU)
    module = training.SplitTableBatchedEmbeddingBagsCodegen(
        [table] * shape.tables,
        optimizer=rules[optimizer],
        learning_rate=0.01,
        weights_precision=types[shape.dtype],
    )
    for weight in module.split_embedding_weights():
        weight.fill_(0.01)
    offsets = torch.arange(0, shape.tables * shape.samples * shape.pooling + 1, shape.pooling)

    def step(indices: torch.Tensor, grad: torch.Tensor) -> None:
        module(indices, offsets).backward(grad)

    return step


def bags(shape: Shape, optimizer: str, threads: int) -> Step:
    """One `torch.nn.EmbeddingBag(sparse=True)` for each table; row-wise AdaGrad in torch's
    operations."""
    torch.set_num_threads(threads)
    kind = getattr(torch, shape.dtype)
    weights = [torch.full((shape.rows, shape.dim), 0.01, dtype=kind) for _ in range(shape.tables)]
    modules = [
        torch.nn.EmbeddingBag(shape.rows, shape.dim, mode="sum", sparse=True, _weight=weight)
        for weight in weights
    ]
    sums = [torch.zeros(shape.rows) for _ in modules]
    offsets = torch.arange(0, shape.samples * shape.pooling, shape.pooling)

    @torch.no_grad()
    def update(module: torch.nn.EmbeddingBag, total: torch.Tensor) -> None:
        assert module.weight.grad is not None
        grad = module.weight.grad.coalesce()
        rows, values = grad._indices()[0], grad._values()
        if optimizer == "rowwise":
            total.index_add_(0, rows, values.float().pow(2).mean(1))
            root = total.index_select(0, rows).sqrt_().add_(1e-8)
            values = (values / root.unsqueeze(1)).to(module.weight.dtype)
        module.weight.index_add_(0, rows, values, alpha=-0.01)
        module.weight.grad = None

    def step(indices: torch.Tensor, grad: torch.Tensor) -> None:
        parts = zip(modules, indices.chunk(shape.tables), strict=True)
        results = [module(part, offsets) for module, part in parts]
        gradients = [part.to(kind).contiguous() for part in grad.chunk(shape.tables, 1)]
        torch.autograd.backward(results, gradients)
        for module, total in zip(modules, sums, strict=True):
            update(module, total)

    return step


PEERS: dict[str, Callable[[Shape, str, int], Step]] = {
    "armillary": ours,
    "armillary-stochastic": partial(ours, stochastic=True),
    "fbgemm": fbgemm,
    "nn.EmbeddingBag": bags,
}


def memory(shape: Shape, optimizer: str, inputs: list[NDArray[np.int64]]) -> tuple[float, float]:
    """CPU time of the backward pass and of what its rows need of the memory, ms: medians of pairs,
    because other work on the machine changes both."""
    collection = collection_of(shape, optimizer, 1)
    lengths = torch.full((shape.tables, shape.samples), shape.pooling)
    tables = [collection.weight(table.name) for table in collection.tables]
    grad = torch.randn(shape.samples, shape.tables * shape.dim)
    pairs = []
    for indices in inputs:
        out = collection(SparseBatch(lengths, torch.from_numpy(indices)))
        start = time.process_time()
        out.backward(grad)
        spent = (time.process_time() - start) * 1e3
        pairs.append((spent, row_updates.milliseconds(tables, indices, shape.pooling)))
    return tuple(np.median(pairs[1:], 0).tolist())


def timed(step: Step, inputs: list[NDArray[np.int64]], grad: torch.Tensor) -> tuple[float, float]:
    """Median CPU time and least wall time, ms; the first batch warms up."""
    cpu, wall = [], []
    for indices in inputs:
        tensor = torch.from_numpy(indices)
        start = time.process_time(), time.perf_counter()
        step(tensor, grad)
        cpu.append(time.process_time() - start[0])
        wall.append(time.perf_counter() - start[1])
    return float(np.median(cpu[1:])) * 1e3, min(wall[1:]) * 1e3


def main() -> None:
    """Times what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", choices=SHAPES, default="core")
    parser.add_argument("--optimizer", choices=["sgd", "rowwise"], default="rowwise")
    parser.add_argument("--peers", default=",".join(PEERS), help="names, separated by commas")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    prepare_process(options.threads)
    kind = "CPU ms" if options.threads == 1 else "wall ms, least"
    print(
        f"torch {torch.__version__}, {options.threads} threads, {kind}, load {os.getloadavg()[0]}"
    )
    for shape in SHAPES[options.shapes]:
        inputs = {
            law: batches(shape, law == "zipf", options.steps + 1) for law in ("uniform", "zipf")
        }
        grad = torch.randn(shape.samples, shape.tables * shape.dim)
        print(f"\n{shape}, {options.optimizer}")
        for name in options.peers.split(","):
            if name == "memory":
                continue
            if name.endswith("stochastic") and shape.dtype == "float32":
                continue
            try:
                step = PEERS[name](shape, options.optimizer, options.threads)
            except ImportError as error:
                print(f"  {name}: {error}")
                continue
            found = []
            for law, given in inputs.items():
                cpu, wall = timed(step, given, grad)
                spent = cpu if options.threads == 1 else wall
                found.append(f"{law} {spent:8.1f} ({shape.gigabytes / spent * 1e3:5.1f} GB/s)")
            print(f"  {name:22}" + "   ".join(found), flush=True)
            del step
        if options.threads == 1:
            found = []
            for law, given in inputs.items():
                backward, least = memory(shape, options.optimizer, given)
                share = 100 * least / backward
                found.append(f"{law} {least:.1f} of {backward:.1f} ({share:3.0f} %)")
            print(f"  {'memory':22}" + "   ".join(found), flush=True)


if __name__ == "__main__":
    main()
