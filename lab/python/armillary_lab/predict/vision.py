"""Predicted training of ResNet-50, DLRM and DCNv2: the platform and the workload that stand for a
measured run.

Here: a run's settings, platform, workload and rate. Not here: the generators (`workload/cnn.py` and
`workload/dlrm.py` of the simulator), language models (`training_steps.py`).

Efficiencies of multiplications, convolutions and lookups are the presets'. Those of the A100's
multiplications were fitted to language models, the others to these runs. So were `MEMORY` and the
start of a kernel in each framework. Fitted without a source, its runs are missed by 5 to 13 % on
average. The error is 22 % if that leaves a framework without any run, which then gets the start of
another (`fit/vision.py`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from armillary.api import simulate
from armillary.errors import ArmillaryError
from armillary.kernels.tables import Left
from armillary.model.dlrm import EmbeddingTable, parse
from armillary.model.files import load_model
from armillary.model.sharding_plan import ShardingPlan, TablePlan
from armillary.platform import Platform
from armillary.units import NS_PER_S
from armillary.workload import cnn, dlrm
from armillary.workload.workload import Workload

from ..measured.published.file import problem
from ..measured.vision import Vision

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
"""Time that comes with every kernel: PyTorch's CUDA graphs, or TensorFlow's executor and the small
kernels between."""

MODELS = {"small": "criteo-t15", "large": "criteo-t3", "xlarge": "criteo-t0"}
"""Size of a recommendation model -> its frequency threshold, as in our model files."""

SLICE = 5 * 10**9
"""Elements above which NVIDIA's TensorFlow 2 scripts cut a table by columns
(`column_slice_threshold` of TensorFlow2/Recommendation/DLRM_and_DCNv2/main.py and of the commands
in its DLRM.md). Without this, tables of 150 GB would lie on one GPU of 80 GB."""


def settings(run: Vision) -> dict[str, object]:
    """Settings of a run's preset: GPUs, rates of its precision, the time that comes with kernels,
    and the rates that streams reach."""
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
        precision="fp32" if run.width == 4 else "fp16",
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
        "precision": "fp32" if run.width == 4 else "fp16",
        "gradient_precision": "fp32",
        "table_precision": "fp32",
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


@dataclass(frozen=True, slots=True)
class RatePrediction:
    """A run, and our samples a second over all GPUs."""

    run: Vision
    ours: float

    @property
    def log(self) -> float:
        """ln(ours / measured) of the time of a step."""
        return math.log(self.run.samples_per_s / self.ours)


def predicted(run: Vision) -> RatePrediction | Left:
    """Our rate of a published run, or why there is none."""
    try:
        return RatePrediction(run, predict(run))
    except KeyError:
        return Left(f"no preset for {run.gpu} in {run.system}")
    except ArmillaryError as error:
        return Left(f"not predicted: {problem(error)}")


def predict(run: Vision, backend: str = "analytical") -> float:
    """Samples a second over all GPUs."""
    step = simulate(workload(run), platform(run), backend=backend).step_time_ns
    return run.batch * run.gpus / step * NS_PER_S
