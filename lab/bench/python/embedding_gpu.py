"""Times tables on a GPU next to FBGEMM's, where that is installed with CUDA.

    python lab/bench/python/embedding_gpu.py --shapes core --steps 20

Shapes and GB/s are those of `embedding.py`: a step is the lookup of all tables, then gradients and
update. Indices and gradients are on the GPU already, and both see the same ones. Times are medians
between events of the GPU, in milliseconds, forward and the whole step. The first steps warm up:
they compile the kernels. Percentages compare GB/s with a copy of 2 GB, which counts bytes read and
written. They exceed 100 where rows come out of the GPU's cache."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module

import numpy as np
import torch
from embedding import SHAPES, Shape

from armillary_train.tables.batch import SparseBatch
from armillary_train.tables.gpu import GpuEmbeddingCollection
from armillary_train.tables.optimizers import RowWiseAdaGrad
from armillary_train.tables.table import Feature, Table

Forward = Callable[[torch.Tensor], torch.Tensor]
"""Looks up indices of all tables."""

_WARM = 3
"""Steps before those that are timed."""
_ON_GPU = {
    "large": [
        Shape(64, 1_000_000, 128, 32),
        Shape(64, 1_000_000, 128, 32, "float16"),
        Shape(26, 1_000_000, 128, 1, samples=65_536),
    ]
}
"""Shapes that fill a GPU: those of Neo's appendix A, and one lookup of each table."""


def ours(shape: Shape) -> Forward:
    """Armillary's kernels."""
    names = [f"t{number}" for number in range(shape.tables)]
    tables = [Table(name, shape.rows, shape.dim, shape.dtype) for name in names]
    features = [Feature(name, name) for name in names]
    collection = GpuEmbeddingCollection(tables, features, RowWiseAdaGrad())
    lengths = torch.full((shape.tables, shape.samples), shape.pooling, device="cuda")

    def forward(indices: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = collection(SparseBatch(lengths, indices))
        return found

    return forward


def fbgemm(shape: Shape) -> Forward:
    """FBGEMM's SplitTableBatchedEmbeddingBagsCodegen in the memory of the GPU."""
    configs = import_module("fbgemm_gpu.split_embedding_configs")
    common = import_module("fbgemm_gpu.split_table_batched_embeddings_ops_common")
    training = import_module("fbgemm_gpu.split_table_batched_embeddings_ops_training")
    types = {"float32": configs.SparseType.FP32, "float16": configs.SparseType.FP16}
    table = (shape.rows, shape.dim, common.EmbeddingLocation.DEVICE, training.ComputeDevice.CUDA)
    module = training.SplitTableBatchedEmbeddingBagsCodegen(
        [table] * shape.tables,
        optimizer=configs.EmbOptimType.EXACT_ROWWISE_ADAGRAD,
        learning_rate=0.01,
        weights_precision=types[shape.dtype],
        stochastic_rounding=False,
    )
    count = shape.tables * shape.samples * shape.pooling
    offsets = torch.arange(0, count + 1, shape.pooling, device="cuda")

    def forward(indices: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = module(indices, offsets)
        return found

    return forward


def drawn(shape: Shape, zipf: bool, count: int) -> list[torch.Tensor]:
    """Indices of `count` batches, table by table; Zipf's law with exponent 1.05, or uniform."""
    random = torch.Generator("cuda").manual_seed(1)
    each, device = shape.samples * shape.pooling, "cuda"
    if not zipf:
        size = (shape.tables * each,)
        return [
            torch.randint(0, shape.rows, size, generator=random, device=device)
            for _ in range(count)
        ]
    law = torch.arange(1, shape.rows + 1, device=device, dtype=torch.float64).pow(-1.05).cumsum(0)
    places = [
        torch.randperm(shape.rows, generator=random, device=device) for _ in range(shape.tables)
    ]

    def one(place: torch.Tensor) -> torch.Tensor:
        at = torch.rand(each, dtype=torch.float64, generator=random, device=device) * law[-1]
        return place[torch.searchsorted(law, at).clamp_(max=shape.rows - 1)]

    return [torch.cat([one(place) for place in places]) for _ in range(count)]


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]


def timed(forward: Forward, inputs: list[torch.Tensor], grad: torch.Tensor) -> tuple[float, float]:
    """Medians of the forward pass and of the step, ms."""
    found = []
    for indices in inputs:
        start, middle, end = (_event() for _ in range(3))
        start.record()
        result = forward(indices)
        middle.record()
        torch.autograd.backward(result, grad)
        end.record()
        torch.cuda.synchronize()
        found.append((start.elapsed_time(middle), start.elapsed_time(end)))
    first, whole = np.median(found[_WARM:], axis=0)
    return float(first), float(whole)


def copy_rate() -> float:
    """GB/s of a copy of 2 GB, read and written."""
    given = torch.ones(2**29, device="cuda")
    taken = torch.empty_like(given)
    times = []
    for _ in range(10):
        start, end = _event(), _event()
        start.record()
        taken.copy_(given)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return float(2 * 4 * 2**29 / 1e6 / np.median(times))


def main() -> None:
    """Times what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", choices=[*SHAPES, *_ON_GPU], default="core")
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU on this machine: nothing was timed")
        return
    most = copy_rate()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, a copy: {most:.0f} GB/s")
    for shape in {**SHAPES, **_ON_GPU}[options.shapes]:
        print(f"\n{shape}, row-wise AdaGrad")
        grad = torch.randn(shape.samples, shape.tables * shape.dim, device="cuda")
        for name, make in (("armillary", ours), ("fbgemm", fbgemm)):
            try:
                forward = make(shape)
            except ImportError as error:
                print(f"  {name}: {error}")
                continue
            for law in ("uniform", "zipf"):
                inputs = drawn(shape, law == "zipf", options.steps + _WARM)
                first, whole = timed(forward, inputs, grad)
                rates = [shape.gigabytes / 3 / first * 1e3, shape.gigabytes / whole * 1e3]
                said = [f"{rate:6.0f} GB/s, {rate / most:4.0%}" for rate in rates]
                print(
                    f"  {name:10} {law:8} forward {first:7.3f} ({said[0]})"
                    f"   step {whole:7.3f} ({said[1]})",
                    flush=True,
                )
            del forward


if __name__ == "__main__":
    main()
