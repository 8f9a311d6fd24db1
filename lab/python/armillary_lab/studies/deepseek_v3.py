"""DeepSeek-V3's training step on 2,048 H800, configured as its report says.

Everything that the report names is set as it says; what it leaves open is in `OPEN`. No number of
the platform was fitted to this run: kernels are those of the H100's preset, all-to-alls reach what
DeepEP publishes, and 20 of 132 multiprocessors belong to communication. Rows without a published
number change one thing at a time. Published: DeepSeek-AI 2024 (arXiv:2412.19437, sections 3 and
4.2; 180 K GPU hours for 10^12 tokens: table 1's text); Zhao et al. 2025 (arXiv:2505.09343, table 4:
time of a step, operations a second)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from armillary.model.decoder_reader import decoder
from armillary.model.flops import attention_flops, step_flops
from armillary.units import GB, GFLOP, TFLOP
from armillary.workload import load_model

from ..study import Reference, Study, StudyRow, analytical, evaluated, limit, printed, unreferenced
from .frontier import FrontierRun, FrontierStep, step

REPORTED: dict[str, Any] = {
    "pp": 16,
    "dp": 128,
    "ep": 64,
    "ep_node": 8,
    "node_limit": 4,
    "zero": 1,
    "schedule": "dualpipe",
    "overlap_passes": True,
    "global_batch": 15_360,
    "seq": 4096,
    "mtp": 1,
    "precision": "fp8",
    "fp8_recipe": "blockwise",
    "fp8_dispatch": True,
    "fp8_activations": True,
    "moments": "bf16",
    "fp32_gradients": True,
    "recompute_modules": "layernorm,mla_up_proj,activation",
}
"""Sections 3.2 (16 stages, 64-way expert parallelism over 8 nodes, ZeRO-1, DualPipe, 4 nodes a
token, recomputation of norms and up-projections, of SwiGLU's output), 3.3 (8 bits) and 4.2 (batch,
length)."""

OPEN: dict[str, Any] = {
    "layers_per_stage": "4*15,1",
    "micro_batch": 1,
    "fp8_weight_cache": True,
    "framework_set": {"gates_inside": True, "saved": "fused", "loss": "fused"},
}
"""Which layers a stage has (profiles that DeepSeek published show 4 a chunk; the last has the
heads), the micro-batch, that weights are cast once a step, where the router's weights multiply,
and that rotary embeddings and the loss are fused kernels."""

RUN = FrontierRun("deepseek-v3", "h800-256n", REPORTED | OPEN)
GPU_HOURS, SECONDS, TFLOPS, CAUSAL, CAPACITY = 180e3, 19.926, 432.0, 385.0, 80e9


def _multiplications(efficiency: float) -> dict[str, float]:
    """Settings in which those of 16 and of 8 bits reach this part of their peaks."""
    return dict.fromkeys(
        ("npu.compute.efficiency.gemm", "npu.compute.efficiency_by_type.fp8"), efficiency
    )


VARIED: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "no multiprocessors for communication": ({}, {"npu.compute.comm_overlap_slowdown": 0}),
    "32 % of the peak in attention": ({}, {"npu.compute.efficiency.attention": 0.32}),
    "multiplications 5 % faster": ({}, _multiplications(0.571)),
    "multiplications 5 % slower": ({}, _multiplications(0.517)),
    "10 % less between nodes": ({}, {"library.network.all_to_all_efficiency": 0.79}),
    "busiest experts with 10 % more tokens": ({"imbalance": 1.1}, {}),
    "dispatch in 16 bits": ({"fp8_dispatch": False}, {}),
    "tokens sent to each expert": ({"ep_node": None, "node_limit": None}, {}),
    "passes after one another": ({"overlap_passes": False}, {}),
    "1F1B, passes after one another": ({"overlap_passes": False, "schedule": "1f1b"}, {}),
    "no multi-token prediction": ({"mtp": 0}, {}),
}
"""Options of the workload and settings of the platform that are changed."""


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Published numbers, then what each choice is worth."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> Iterator[StudyRow]:
    base = step(RUN, backend)
    yield from published(base, backend)
    for name, (options, settings) in VARIED.items():
        other = step(RUN.varied(options, settings), backend)
        why = f"{100 * (other.seconds / base.seconds - 1):+.1f} %, {other.most / GB:.1f} GB"
        hours = other.gpu_hours / 1e3
        yield StudyRow(name, backend, unreferenced(CHANGED), hours, "K GPU h", why)


def published(base: FrontierStep, backend: str) -> Iterator[StudyRow]:
    """The rows that have a published number."""
    yield StudyRow(
        "GPU hours for 10^12 tokens",
        backend,
        printed(GPU_HOURS / 1e3, "arXiv:2412.19437, section 1"),
        base.gpu_hours / 1e3,
        "K GPU h",
        WHY,
    )
    yield StudyRow(
        "a step",
        backend,
        printed(SECONDS, "arXiv:2505.09343, table 4"),
        base.seconds,
        "s",
        "The same run.",
    )
    room = limit(CAPACITY / GB, "<", "what an H800 has: the run fits")
    yield StudyRow("fullest GPU", backend, room, base.most / GB, "GB", WHY_MEMORY)
    whole, causal = operations()
    yield StudyRow(
        "operations a token", backend, _operations(TFLOPS), whole / GFLOP, "GFLOP", WHY_WORK
    )
    yield StudyRow(
        "operations a token, half of all scores",
        backend,
        _operations(CAUSAL),
        causal / GFLOP,
        "GFLOP",
        WHY_WORK,
    )


def operations() -> tuple[float, float]:
    """Operations a token without multi-token prediction, attention's scores counted whole and by
    half."""
    shape, tokens = decoder(load_model(RUN.model)), RUN.options["seq"]
    whole = step_flops(shape, 1, tokens).model / tokens
    scores = shape.over_layers(lambda layer: attention_flops(shape, layer, tokens, tokens)) / tokens
    return whole, whole - 3 * scores / 2


def _operations(tflops: float) -> Reference:
    """GFLOP a token at `tflops` TFLOP/s."""
    gflop = tflops * TFLOP * 2048 * SECONDS / (15_360 * 4096) / GFLOP
    return evaluated(gflop, "from numbers of arXiv:2505.09343, table 4")


CHANGED = "one thing changed; no reference"
WHY = (
    "Kernels of the H100's preset, DeepEP's bandwidths, 20 of 132 multiprocessors for "
    "communication; nothing is fitted to this run."
)
WHY_MEMORY = "Without the CUDA context, buffers of communication and gaps between blocks."
WHY_WORK = (
    "Published: TFLOP/s x 2,048 x 19.926 s over 62.9 M tokens, which is the model without "
    "multi-token prediction."
)

STUDY = Study(
    "PP 16 with DualPipe, EP 64 on 8 nodes, ZeRO-1, batch 15,360 of 4,096 tokens, 4 nodes a token, "
    "8-bit multiplications and dispatch, BF16 moments, one multi-token-prediction module, on "
    "h800-256n. Assumed: 4 layers a stage and 1 on the last with both heads, micro-batches of 1, "
    "weights cast once a step. Rows without a published number change one thing.",
    rows,
)
