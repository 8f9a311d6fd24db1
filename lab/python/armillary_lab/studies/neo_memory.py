"""Neo's section 8.5 and what its parts gain: model F's memory, fused kernels, caches, and ZionEX
over Zion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from armillary.platform import Platform
from armillary.workload.dlrm import resolved

from ..study import Study, StudyRow, analytical, limit, printed, unreferenced
from .neo import ANY, RANKS, Step, model_a, model_f

HBM, DRAM = 4e12, 24e12
"""Bytes of 16 nodes: section 8.5, footnote."""
NAIVE: dict[str, object] = {"table_precision": "fp32", "optimizer": "adagrad"}
SMALLER: dict[str, object] = {"table_precision": "fp16", "optimizer": "rowwise_adagrad"}
BATCHES = (8, 64, 512)
"""Samples of an NPU on one node."""
MFLOPS = 638
"""MFLOPs of a sample of model A, Table 3."""
EFFECTIVE = {"ZionEX": 766.0, "Zion": 63.0}
"""TFLOPS."""
ZION = {
    "npu.peak": "125 TFLOPS",
    "npu.compute.peak_by_type.fp32": "15.7 TFLOPS",
    "npu.compute.efficiency.gemm": "0.786",
    "npu.compute.sustained": 1,
    "npu.memory.bandwidth": "900 GB/s",
    "npu.compute.memory_efficiency.embedding": "0.944",
    "npu.memory.capacity": "32 GB",
    "links[0].bandwidth": "150 GB/s",
    "links[1].bandwidth": "100 Gb/s",
    "library.network.all_to_all_efficiency": "0.84",
    "library.network.efficiency": "0.84",
}
"""V100s with Zion's cards, as fast as Appendix A says that such cards can be: 10.5 of 12.5 GB/s."""

BYTES = "parameters and optimizer state of all tables, as the workload counts them"
STATE = "FP16 and one state for each row; the states of 47 G rows are 0.19 TB"
FUSED = (
    "each table has three kernels with their overhead, and gradients of rows in memory; the gain "
    "is large where kernels are short"
)
CACHED = (
    "fetches run during the batch before, so they cost nothing here; the paper does not say how "
    "unified memory moves pages"
)
UNCACHED = "every row that a step looks up comes over PCIe before the lookup, and goes back"
WHOLE = "samples per second times 638 MFLOPS; half precision messages, as in neo-throughput"
ZIONS = (
    "V100s and 100 Gb/s cards at their measured best, without the way through CPUs and TCP: an "
    "upper limit for Zion, which the paper gives for another model"
)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Bytes, then gains."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> Iterator[StudyRow]:
    where = "section 8.5"
    naive, smaller = (_terabytes(options) for options in (NAIVE, SMALLER))
    yield StudyRow("model F, FP32, AdaGrad", "-", printed(96, where), naive, "TB", BYTES)
    setup = "model F, FP16, row-wise AdaGrad"
    yield StudyRow(setup, "-", printed(24, where), smaller, "TB", STATE)
    room = limit((HBM + DRAM) / 1e12, "<", "HBM and DRAM of 16 nodes, section 8.5")
    yield StudyRow("model F fits into 16 nodes", "-", room, smaller, "TB", STATE)
    for batch in BATCHES:
        one, other = (_tables(backend, batch, fused=fused) for fused in (True, False))
        setup = f"model A on 8 GPUs, {batch} samples each: fused tables over single ones"
        yield StudyRow(setup, backend, printed(7, "section 5.1: up to"), other / one, "x", FUSED)
    cached = model_f(backend=backend)
    prefetched = model_f(backend=backend, cache=0)
    uncached = model_f(backend=backend, cache=0, pipeline=False)
    gain = 100 * (cached.rate / prefetched.rate - 1)
    about = printed(15, "section 5.2: approximately")
    yield StudyRow("model F, cache over none", backend, about, gain, "%", CACHED)
    gain = 100 * (cached.rate / uncached.rate - 1)
    setup = "model F, cache over none, without pipelining"
    yield StudyRow(setup, backend, about, gain, "%", UNCACHED)
    yield from _platforms(backend)


def _platforms(backend: str) -> Iterator[StudyRow]:
    new = model_a(backend=backend)
    old = model_a(platform=Platform.load("zionex", ZION), capacity=ANY, backend=backend)
    where = "section 6.2"
    rates = {"ZionEX": new.rate * MFLOPS, "Zion": old.rate * MFLOPS}
    yield StudyRow(
        "ZionEX, model A",
        backend,
        printed(EFFECTIVE["ZionEX"], where),
        rates["ZionEX"],
        "TFLOPS",
        WHOLE,
    )
    yield StudyRow(
        "Zion's GPUs and cards, model A", backend, unreferenced(), rates["Zion"], "TFLOPS", ZIONS
    )
    more = printed(EFFECTIVE["ZionEX"] / EFFECTIVE["Zion"], f"{where}: more than 10x")
    gain = rates["ZionEX"] / rates["Zion"]
    yield StudyRow("ZionEX over Zion", backend, more, gain, "x", ZIONS)


def _terabytes(options: dict[str, object]) -> float:
    """Tables and their optimizer state over all NPUs."""
    run = resolved("dlrm-neo-f", {"dp": RANKS, "sharding": "row", **options})
    width, optimizer = run.sizes.embedding, run.options.optimizer
    return sum(sum(run.placement.memory(rank, width, optimizer)) for rank in range(RANKS)) / 1e12


def _tables(backend: str, batch: int, *, fused: bool) -> float:
    """Milliseconds of the kernels of tables in a step on one node."""
    found = model_a(
        ranks=8, capacity=ANY, backend=backend, local_batch=batch, fused=fused, schemes=("table",)
    )
    return _kernels(found)


def _kernels(found: Step) -> float:
    names = ("embedding.forward", "embedding.weight_gradient")
    each = (row for row in found.report["operations"] if row["name"] in names)
    return sum(row["total_ns"] for row in each if row["kind"] == "compute") / 1e6


STUDY = Study(
    "Model F with all tables cut by rows over 128 NPUs. Kernels: model A's tables on one node, "
    "fused or three for each table. Caches: 30 GB of each NPU, or every row from the host. Zion: "
    "ZionEX with V100s and cards of 100 Gb/s at the rates of Appendix A.",
    rows,
)
