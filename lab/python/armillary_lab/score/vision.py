"""Measured training of ResNet-50, DLRM and DCNv2 on V100 and A100: what was run, what we predict,
rows of both.

Here: `measured/vision.csv` (a row a run) as typed rows, the platform and the workload that stand
for a run, and `rows`, which `training_steps.py` includes. Not here: the generators
(`workload/cnn.py`, `workload/dlrm.py`), language models (`training_steps.py`). Samples a second are
those of NVIDIA/DeepLearningExamples' tables, as the column `source` says; batches of ResNet-50 in
PyTorch are those of its configs.yml. PyTorch ran eager kernels, TensorFlow fused ones (XLA).
PyTorch's DLRM does the bottom MLP on the first GPU (dlrm/model/distributed.py); TensorFlow's is
data-parallel.

Efficiencies of multiplications, convolutions and lookups are the presets'. Those of the A100's
multiplications were fitted to language models, the others to these runs. So were `MEMORY` and the
start of a kernel in each framework. Fitted without a source, its runs are missed by 5 to 13 % on
average. The error is 22 % if that leaves a framework without any run, which then gets the start of
another (`benches/python/vision.py`)."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from ..api import simulate
from ..model.dlrm import EmbeddingTable, parse
from ..model.files import load_model
from ..model.sharding_plan import ShardingPlan, TablePlan
from ..platform import Platform
from ..study import StudyRow, measured, unreferenced
from ..units import NS_PER_S
from ..workload import cnn, dlrm
from ..workload.workload import Workload

PRESETS = {
    ("A100 40GB", "NVIDIA DGX A100"): "dgx-a100",
    ("A100 80GB", "NVIDIA DGX A100"): "dgx-a100-80gb",
    ("V100 16GB", "NVIDIA DGX-1"): "dgx1-v100",
    ("V100 32GB", "NVIDIA DGX-1"): "dgx1-v100",
    ("V100 32GB", "NVIDIA DGX-2"): "dgx2h",
}
"""GPU and machine -> preset. The V100 of 16 and 32 GB differ in nothing that takes time."""

PEAKS = {"tf32": "156 TFLOPS", "fp32": "15.7 TFLOPS"}
"""Peak rates in addition to those of 16 bits: A100 with TF32, V100 without tensor cores (NVIDIA's
data sheets)."""

MEMORY = 0.78
"""Part of the memory bandwidth that kernels which stream large tensors reach; language models' are
small or eager."""

WITHOUT_TENSOR_CORES: Mapping[str, object] = {
    "npu.compute.efficiency.gemm": 0.95,
    "npu.compute.sustained": 1,
    "npu.compute.efficiency.convolution": 0.85,
    "npu.compute.tiles.fill_depth": 16,
    "npu.compute.tiles.load_cost": 4,
}
"""A V100 with 32 bits. What a tile costs is a time, in operations, which are 8 times as slow as the
preset's."""

STARTS = {"PyTorch": "3 us", "TensorFlow": "20 us", "TensorFlow2": "20 us"}
"""What comes with every kernel: PyTorch's CUDA graphs, or TensorFlow's executor and the small
kernels between."""

MODELS = {"small": "criteo-t15", "large": "criteo-t3", "xlarge": "criteo-t0"}
"""Size of a recommendation model -> its frequency threshold, as in our model files."""

SLICE = 5 * 10**9
"""Elements above which NVIDIA's TensorFlow 2 scripts cut a table by columns
(`column_slice_threshold` of TensorFlow2/Recommendation/DLRM_and_DCNv2/main.py and of the commands
in its DLRM.md). Without this, tables of 150 GB would lie on one GPU of 80 GB."""


@dataclass(frozen=True, slots=True)
class Vision:
    """One measured run."""

    name: str
    group: str
    model: str
    """`resnet50`, `dlrm` or `dcnv2`."""
    size: str
    """`small`, `large`, `xlarge`; empty for ResNet-50."""
    system: str
    gpu: str
    gpus: int
    precision: str
    """`mixed` (16 bits), `tf32` or `fp32`."""
    framework: str
    xla: bool
    batch: int
    """Samples a GPU."""
    samples_per_s: float
    source: str

    @property
    def width(self) -> int:
        """Bytes of an element of weights and activations as kernels see them."""
        return 2 if self.precision == "mixed" else 4

    @property
    def generation(self) -> str:
        """`V100` or `A100`."""
        return self.gpu.split()[0]


@cache
def visions() -> tuple[Vision, ...]:
    """All measured runs, in the order of their file."""
    with (
        resources.files(__package__)
        .joinpath("measured", "vision.csv")
        .open(encoding="utf-8") as file
    ):
        return tuple(map(_vision, csv.DictReader(file)))


def _vision(row: Mapping[str, str]) -> Vision:
    words = {
        key: row[key]
        for key in ("name", "group", "model", "size", "system", "gpu", "precision", "framework")
    }
    return Vision(
        **words,
        gpus=int(row["gpus"]),
        xla=row["xla"] == "1",
        batch=int(row["batch"]),
        samples_per_s=float(row["samples_per_s"]),
        source=row["source"],
    )


def settings(run: Vision) -> dict[str, object]:
    """What is set on a run's preset: GPUs, rates of its precision, what comes with kernels and what
    streams reach."""
    found: dict[str, object] = {
        "npus": run.gpus,
        "npu.compute.kernel_overhead": STARTS[run.framework],
    }
    if run.precision in PEAKS:
        found |= {
            "npu.peak": PEAKS[run.precision],
            "npu.compute.peak_by_type.fp32": PEAKS[run.precision],
        }
    streams = ("convolution", "elementwise", "normalization", "optimizer")
    found |= {f"npu.compute.memory_efficiency.{kind}": MEMORY for kind in streams}
    if run.precision == "fp32":
        found |= WITHOUT_TENSOR_CORES
    return found


def platform(run: Vision) -> Platform:
    """The preset that stands for a run's machine, with its `settings`."""
    return Platform.load(
        PRESETS[run.gpu, run.system.removesuffix(" 16GB").removesuffix(" 32GB")], settings(run)
    )


def workload(run: Vision) -> Workload:
    """One iteration of a run."""
    return _resnet(run) if run.model == "resnet50" else _recommendation(run)


def _resnet(run: Vision) -> Workload:
    """Tensors are stored channels first with 32 bits, which tensor cores have to rewrite."""
    return cnn(
        "resnet-50",
        dp=run.gpus,
        local_batch=run.batch,
        width=run.width,
        kernels="fused" if run.xla else "eager",
        repack=run.precision == "tf32",
    )


def _recommendation(run: Vision) -> Workload:
    """Tables hold 32 bits; DCNv2 has Adam, whose state of a row is read and written like AdaGrad's
    twice over. PyTorch's tables are whole, TensorFlow's where `memory_balanced` puts them."""
    cross = run.model == "dcnv2"
    name = f"{run.model}-{MODELS[run.size]}"
    options: dict[str, object] = {
        "dp": run.gpus,
        "local_batch": run.batch,
        "width": run.width,
        "gradient_width": 4,
        "embedding_width": 4,
        "optimizer": "adagrad" if cross else "sgd",
        "dense_optimizer": "adam" if cross else "sgd",
        "elementwise": True,
    }
    if run.framework == "PyTorch":
        return dlrm(name, sharding="table", bottom="first" if run.gpus > 4 else "shared", **options)
    plan = memory_balanced(parse(load_model(name)).tables, run.gpus)
    return dlrm(name, plan=plan, **options)


def memory_balanced(tables: Sequence[EmbeddingTable], ranks: int) -> ShardingPlan:
    """The plan that `memory_balanced` of NVIDIA's distributed-embeddings makes
    (distributed_embeddings/python/layers/dist_model_parallel.py): a table with more than `SLICE`
    elements is cut by columns into the fewest shards that are not, a power of two and at most one
    for each rank. Shards are sorted by size and dealt to the ranks forwards and backwards in
    turn."""
    shards: list[tuple[int, int]] = []
    for index, table in enumerate(tables):
        ways = 1
        while table.rows * table.dim > SLICE * ways and 2 * ways <= min(ranks, table.dim):
            ways *= 2
        shards += [(table.rows * (table.dim // ways), index)] * ways
    order = [*range(ranks), *reversed(range(ranks))]
    places: list[list[int]] = [[] for _ in tables]
    for position, (_, index) in enumerate(sorted(shards, key=lambda shard: -shard[0])):
        places[index].append(order[position % len(order)])
    planned = (
        TablePlan(
            table.name,
            table.rows,
            table.dim,
            "column" if len(at) > 1 else "table",
            tuple(sorted(at)),
        )
        for table, at in zip(tables, places, strict=True)
    )
    return ShardingPlan("model", ranks, ranks, tuple(planned))


def predict(run: Vision, backend: str = "analytical") -> float:
    """Samples a second over all GPUs."""
    step = simulate(workload(run), platform(run), backend=backend).step_time_ns
    return run.batch * run.gpus / step * NS_PER_S


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """On each backend the errors of all, then every run next to ours, samples a second."""
    return [row for backend in backends for row in _rows(backend)]


def _rows(backend: str) -> list[StudyRow]:
    each = [_row(run, backend) for run in visions()]
    errors = sorted(abs(row.ratio - 1) for row in each if row.ratio)
    worst = max(each, key=lambda row: abs((row.ratio or 1) - 1))
    name, why = (
        f"ResNet-50, DLRM and DCNv2 ({len(each)})",
        f"Worst: {worst.setup}, ours {worst.ratio:.2f} times.",
    )
    ninth = errors[math.ceil(0.9 * len(errors)) - 1]
    found = (("median error", statistics.median(errors)), ("90th percentile", ninth))
    return [
        *(
            StudyRow(f"{name}: {what}", backend, unreferenced(), 100 * error, "%", why)
            for what, error in found
        ),
        *each,
    ]


def _row(run: Vision, backend: str) -> StudyRow:
    words = ("XLA" if run.xla else "", f"{run.precision}, batch {run.batch}")
    head = " ".join(word for word in (run.model, run.size, "on", str(run.gpus), run.gpu) if word)
    setup = (
        f"{head} ({run.system.removeprefix('NVIDIA ')}), {run.framework} "
        f"{' '.join(filter(None, words))}"
    )
    ours = predict(run, backend)
    return StudyRow(
        setup,
        backend,
        measured(run.samples_per_s, "NVIDIA, DeepLearningExamples"),
        round(ours, 1),
        "samples/s",
        _reason(run, ours / run.samples_per_s),
    )


NEAR = 0.08
"""An error that counts as near."""


def _reason(run: Vision, ratio: float) -> str:
    """Why a run is likely off."""
    if abs(ratio - 1) <= NEAR:
        return "Near."
    if run.model == "resnet50" and run.gpus > 1 and ratio > 1:
        return (
            "Horovod's reductions wait for whole clusters of XLA, input comes through the "
            "host; both are left out."
        )
    if run.model == "resnet50":
        return "cuDNN chooses algorithms by layer, which one efficiency for all layers can't show."
    if run.size == "xlarge" and ratio > 1:
        return (
            "Tables of 57 GB a GPU: lookups miss the TLB more often than those of the large model."
        )
    if run.generation == "V100" and ratio < 1:
        return (
            "DGX-2's V100s clock higher than the preset's."
            if "DGX-2" in run.system
            else "Framework."
        )
    return "What a framework adds between kernels is one number for all of its models."
