"""Benchmarks of one process: matrix products, streams over memory, embedding tables, an MLP and its
optimizer, and copies to a device. Not here: the other parts of a training step (`parts.py`).

Each function yields the measurements of its kind as rows. Rows have the columns that
`armillary calibrate` reads (`calibrate/bench_file.py`). Products are those of the trainer's dense
layers (`net/dense.py`), tables those of its engine. Source of the choice: PARAM
(facebookresearch/param): GEMM, MLP, EmbeddingBag and communication."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from armillary.model.dlrm import Dense, Dlrm
from armillary.model.gemm import Gemm

from ..build import dense_optimizer
from ..data.synthetic import Synthetic
from ..net.dense import product
from ..net.model import Mlp
from ..ranks.world import World
from ..settings import Settings
from ..tables.batch import SparseBatch
from ..tables.embedding import EmbeddingCollection
from ..tables.optimizers import RowWiseAdaGrad
from ..tables.table import Feature, Table
from .clock import Timing, timed

Row = dict[str, Any]

LARGEST = 1_000_000
"""Rows of a table, at most: random rows of more than a cache holds take the same time."""
_STREAMED = (2**18, 2**22, 2**26)
"""Bytes of each tensor of a stream."""
_DIMS, _POOLINGS, _TABLES, _SAMPLES = (16, 64, 128), (1, 16), 8, 1024
_SIDES = ((64, 64), (256, 256), (512, 256), (1024, 1024))
_WIDTH = 4


def shapes(facts: Dlrm | None, samples: int) -> list[tuple[str, Gemm]]:
    """Matrix products to time: those of a model's layers, forward and backward, or a sweep."""
    if facts is None:
        return [(f"{m} x {n} x {k}", Gemm(m, n, k)) for m in (128, 512, 2048) for n, k in _SIDES]
    found: list[tuple[str, Gemm]] = []
    for layer in (*facts.bottom, *facts.interaction.layers, *facts.top):
        inputs, outputs = layer.inputs, layer.outputs
        found += [
            (f"{layer.name}.forward", Gemm(samples, outputs, inputs)),
            (f"{layer.name}.weight_gradient", Gemm(inputs, outputs, samples)),
            (f"{layer.name}.input_gradient", Gemm(samples, inputs, outputs)),
        ]
    dots = facts.interaction.gemm(samples)
    if dots is not None:
        found.append(("interaction.forward", dots))
        found.append(("interaction.input_gradient", replace(dots, batch=2 * dots.batch)))
    return found


def gemms(facts: Dlrm | None, samples: int, world: World) -> Iterator[Row]:
    """Products of the trainer's layers, float32."""
    for name, shape in shapes(facts, samples):
        m, n, k, batch = shape.m, shape.n, shape.k, shape.batch
        if batch > 1:
            many = torch.randn(batch, m, k), torch.randn(batch, k, n)
            found = timed(partial(torch.bmm, *many), world)
        else:
            found = timed(partial(product, torch.randn(m, k), torch.randn(n, k)), world)
        flops = 2 * batch * m * n * k
        row: Row = {"name": name, "batch": batch, "m": m, "n": n, "k": k, "dtype": "fp32"}
        yield {**row, **timing(found), "gflops": flops / found.us / 1e3}


def streams(world: World) -> Iterator[Row]:
    """Streams over memory: copy, scale, add and triad, as BabelStream has them."""
    for size in _STREAMED:
        count = size // _WIDTH
        a, b, c = (torch.ones(count) for _ in range(3))
        work: dict[str, tuple[int, Callable[[], object]]] = {
            "copy": (2, partial(c.copy_, a)),
            "mul": (2, partial(torch.mul, c, 0.5, out=b)),
            "add": (3, partial(torch.add, a, b, out=c)),
            "triad": (3, partial(torch.add, b, c, alpha=0.5, out=a)),
        }
        for op, (arrays, each) in work.items():
            yield _rated({"op": op, "bytes": arrays * size}, timed(each, world))


def embeddings(facts: Dlrm | None, samples: int, world: World) -> Iterator[Row]:
    """Lookups and updates of tables, row-wise AdaGrad. With a model, its tables, each with at most
    `LARGEST` rows, which this rank reads for its share of all samples."""
    if facts is None:
        for dim in _DIMS:
            for pooling in _POOLINGS:
                made = [(f"t{each}", 100_000, dim, pooling) for each in range(_TABLES)]
                yield from _tables(made, _SAMPLES, world)
        return
    given = [(t.name, min(t.rows, LARGEST), t.dim, t.pooling) for t in facts.tables]
    yield from _tables(given, samples, world)


def _tables(given: list[tuple[str, int, int, int]], samples: int, world: World) -> Iterator[Row]:
    tables = EmbeddingCollection(
        [Table(name, rows, dim) for name, rows, dim, _ in given],
        [Feature(name, name) for name, *_ in given],
        RowWiseAdaGrad(learning_rate=0.01),
        threads=torch.get_num_threads(),
    )
    rows, pooling = [each[1] for each in given], [each[3] for each in given]
    drawn = Synthetic(rows, pooling, seed=world.rank, positive_rate=0.25, dense_features=13)
    found = drawn.samples(0, samples)
    batch = SparseBatch(torch.from_numpy(found.lengths), torch.from_numpy(found.indices))
    arrays = tables._arrays((batch.lengths, batch.indices, None))
    gradient = torch.full((samples, sum(each[2] for each in given)), 1e-4)
    lookups = len(found.indices)
    elements = samples * sum(dim * count for _, _, dim, count in given)
    pooled = gradient.numel()
    shape: Row = {
        "tables": len(given),
        "rows": sum(rows),
        "dim": given[0][2],
        "pooling": lookups / samples / len(given),
        "samples": samples,
        "lookups": lookups,
    }
    # Bytes as `workload/dlrm_flow.py` counts them.
    read = elements * _WIDTH + lookups * 8 + pooled * _WIDTH
    updated = 2 * elements * _WIDTH + lookups * (8 + 2 * _WIDTH) + pooled * _WIDTH
    with torch.no_grad():
        look = timed(lambda: tables._run_forward(samples, arrays), world)
        yield _rated({"op": "lookup", "bytes": read, **shape}, look)
        update = timed(lambda: tables._run_backward(samples, arrays, gradient, None), world)
        yield _rated({"op": "update", "bytes": updated, **shape}, update)


def mlps(facts: Dlrm | None, samples: int, world: World) -> Iterator[Row]:
    """Forward and backward pass of MLPs, and the step of their optimizer."""
    layers = _layers() if facts is None else [facts.bottom, facts.top]
    for part in layers:
        mlp = Mlp(part, last=False, generator=torch.Generator().manual_seed(0))
        given = torch.randn(samples, part[0].inputs, requires_grad=True)

        def run(mlp: Mlp = mlp, given: torch.Tensor = given) -> None:
            mlp.zero_grad(set_to_none=True)
            mlp(given).sum().backward()

        found = timed(run, world)
        sizes = [[each.inputs, each.outputs] for each in part]
        yield {"name": part[0].name.split(".")[0], "samples": samples, "layers": sizes} | timing(
            found
        )
    count = 2**22
    parameters = [torch.nn.Parameter(torch.randn(count))]
    parameters[0].grad = torch.full_like(parameters[0], 1e-3)
    found = timed(dense_optimizer(parameters, Settings("")).step, world)
    # Weights, gradient and two numbers of state are read, all but the gradient written.
    yield _rated({"op": "optimizer", "kernels": 1, "bytes": count * 28}, found)


def _layers() -> list[tuple[Dense, ...]]:
    return [tuple(Dense(f"mlp.{each}", 512, 512) for each in range(4))]


def copies(world: World) -> Iterator[Row]:
    """Copies between the host and a device; none without one."""
    if not torch.cuda.is_available():
        return
    for size in _STREAMED:
        for pinned in (False, True):
            host = torch.ones(size // _WIDTH)
            host = host.pin_memory() if pinned else host
            there = host.cuda()
            for way, to, of in (("to device", there, host), ("to host", host, there)):

                def copy(to: torch.Tensor = to, of: torch.Tensor = of) -> None:
                    to.copy_(of, non_blocking=True)
                    torch.cuda.synchronize()

                row: Row = {"direction": way, "pinned": pinned, "bytes": size}
                yield _rated(row, timed(copy, world))


def _rated(row: Row, found: Timing) -> Row:
    return {**row, **timing(found), "GBps": row["bytes"] / found.us / 1e3}


def timing(found: Timing) -> Row:
    """The columns of a timing."""
    return {"us": found.us, "spread": found.spread, "busy": found.busy}
