"""Results of `armillary bench`, as measurements to calibrate with, and the platform to begin with.

Here: reading, and what follows without a search: the measured products as a table, and the time
that a framework adds to each kernel. Not here: the searches (`kernels.py`, `links.py`).

The platform to begin with has one NPU for each process, each connected with each. A process copies
what it sends and receives itself, so it computes nothing meanwhile. Its peak and its memory
bandwidth are the highest rates that were measured.

A training step is more than its kernels: a framework needs time to start each of them. That time is
what MLPs took beyond their products and activations, divided by the number of kernels that stand
for them in a workload (`workload/dlrm_flow.py`): two forward, three backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from .. import documents
from ..errors import InputError, Problem
from ..platform import Platform
from ..units import BYTES_PER_US
from .kernel_tables import Kernel
from .logs import MeasuredTable

SCHEMA = "armillary.bench/1"
TRANSPORT = "exchange"
"""Transport that training uses."""
_WIDTH = 4
_PER_LAYER = 5
_STREAMS = {"lookup": "embedding", "update": "embedding_update", "optimizer": "optimizer"}


@dataclass(frozen=True)
class BenchFile:
    """The measurements of one machine."""

    file: str
    processes: int
    cores: int
    memory: int
    """Bytes."""
    processor: str
    kernels: tuple[Kernel, ...]
    collectives: tuple[MeasuredTable, ...]
    mlps: tuple[tuple[int, tuple[tuple[int, int], ...], float], ...]
    """Samples, inputs and outputs of each layer, us of a forward and a backward pass."""

    def base(self) -> Platform:
        """The platform to begin with."""
        products = [k for k in self.kernels if k.shape is not None]
        streams = [k for k in self.kernels if k.shape is None]
        peak = max((_operations(k) / k.measured_us for k in products), default=1e3)
        rate = max((k.bytes / k.measured_us for k in streams), default=1e3)
        share = max(1, self.memory // self.processes)
        npu = {
            "npu.name": f"process on {self.processor}",
            "npu.peak": f"{peak / 1e3:.2f} GFLOPS",
            "npu.compute.peak_by_type.fp32": f"{peak / 1e3:.2f} GFLOPS",
            "npu.compute.comm_overlap_slowdown": 0.99,
            "npu.memory.bandwidth": f"{rate / BYTES_PER_US:.2f} GB/s",
            "npu.memory.capacity": f"{share // 2**20} MiB",
        }
        return Platform(
            f"FullyConnected({self.processes})",
            bandwidth="1 GB/s",
            latency="10 us",
            per="npu",
            settings=npu,
        )

    @property
    def groups(self) -> list[list[Kernel]]:
        """Kernels that determine parameters of their own: products, and each kind of stream."""
        found: dict[str, list[Kernel]] = {}
        for kernel in self.kernels:
            found.setdefault("gemm" if kernel.shape else kernel.kind, []).append(kernel)
        return list(found.values())

    def gemm_table(self, overhead_us: float) -> str:
        """The measured products, as a table for the compute model `measured`, with what the
        framework adds to each."""
        rows = {k.shape: k.measured_us + overhead_us for k in self.kernels if k.shape is not None}
        lines = [f"{','.join(map(str, shape))},{us:.3f} us" for shape, us in sorted(rows.items())]
        return "\n".join(["batch,m,n,k,width,time", *lines, ""])

    def overhead_us(self, elementwise_us: Callable[[int], float]) -> float:
        """Time that the framework adds to each kernel of a step, us. `elementwise_us` is the time
        of an elementwise kernel by itself, for its bytes."""
        products = {k.shape: k.measured_us for k in self.kernels if k.shape is not None}
        found: list[float] = []
        for samples, layers, us in self.mlps:
            known = 0.0
            for inputs, outputs in layers:
                of_layer = [
                    products.get((1, *sides, _WIDTH))
                    for sides in (
                        (samples, outputs, inputs),
                        (inputs, outputs, samples),
                        (samples, inputs, outputs),
                    )
                ]
                known += sum(each if each is not None else math.nan for each in of_layer)
                known += elementwise_us(5 * samples * outputs * _WIDTH)
            if math.isfinite(known):
                found.append(max(0.0, us - known) / (_PER_LAYER * len(layers)))
        return sum(found) / len(found) if found else 0.0


def _operations(kernel: Kernel) -> int:
    assert kernel.shape is not None
    batch, m, n, k, _ = kernel.shape
    return 2 * batch * m * n * k


def read_bench(path: str) -> BenchFile | None:
    """The measurements of a file; `None` where it is not one of `armillary bench`. Raises
    `InputError` where one is damaged."""
    text = documents.read_bytes(path, "a log or a table").decode("utf-8-sig", "replace")
    if text.lstrip()[:1] != "{" or SCHEMA not in text[:200]:
        return None
    data = documents.parse_json(text, path, "")
    try:
        return _bench(path, msgspec.convert(data, _Bench, strict=False))
    except msgspec.ValidationError as error:
        said = f"is damaged: {error}"
        raise InputError([Problem(path, "", said, "what armillary bench writes")]) from None


_Size = Annotated[int, msgspec.Meta(ge=1, le=2**50)]
_Side = Annotated[int, msgspec.Meta(ge=1, le=2**24)]
"""A side of a matrix."""
_Processes = Annotated[int, msgspec.Meta(ge=1, le=2**12)]
_Us = Annotated[float, msgspec.Meta(ge=1e-6, le=1e15)]


class _Machine(msgspec.Struct):
    cores: _Size
    memory_bytes: _Size
    processor: Annotated[str, msgspec.Meta(max_length=1000)]


class _Gemm(msgspec.Struct):
    name: str
    batch: _Side
    m: _Side
    n: _Side
    k: _Side
    us: _Us


class _Stream(msgspec.Struct):
    op: str
    bytes: _Size
    us: _Us


class _Layers(msgspec.Struct):
    samples: _Side
    layers: Annotated[list[tuple[_Side, _Side]], msgspec.Meta(min_length=1, max_length=1000)]
    us: _Us


class _Collective(msgspec.Struct):
    transport: str
    name: str
    size: _Size
    time: _Us
    ranks: _Processes


class _Bench(msgspec.Struct):
    """Output of `armillary bench`, as far as it is read here."""

    machine: _Machine
    processes: _Processes
    gemms: list[_Gemm]
    streams: list[_Stream]
    embeddings: list[_Stream]
    mlps: list[dict[str, Any]]
    collectives: list[_Collective]


def _bench(path: str, data: _Bench) -> BenchFile:
    mlps = [msgspec.convert(row, _Layers, strict=False) for row in data.mlps if "layers" in row]
    return BenchFile(
        path,
        data.processes,
        data.machine.cores,
        data.machine.memory_bytes,
        data.machine.processor,
        tuple(_kernels(path, data)),
        tuple(_collectives(path, data.collectives)),
        tuple((row.samples, tuple(row.layers), row.us) for row in mlps),
    )


def _kernels(path: str, data: _Bench) -> Iterator[Kernel]:
    for row in data.gemms:
        yield Kernel(path, row.name, (row.batch, row.m, row.n, row.k, _WIDTH), 0, row.us)
    optimizers = [
        msgspec.convert(row, _Stream, strict=False) for row in data.mlps if "layers" not in row
    ]
    for each in (*data.streams, *data.embeddings, *optimizers):
        kind = _STREAMS.get(each.op, "elementwise")
        yield Kernel(path, each.op, None, each.bytes, each.us, kind)


def _collectives(path: str, rows: Sequence[_Collective]) -> Iterator[MeasuredTable]:
    own = [row for row in rows if row.transport == TRANSPORT]
    for name in dict.fromkeys(row.name for row in own):
        points = [(row.size, row.time) for row in own if row.name == name]
        yield MeasuredTable(path, name, own[0].ranks, tuple(points))
