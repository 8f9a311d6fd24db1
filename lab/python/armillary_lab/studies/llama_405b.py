"""Llama 3 405B's training steps on 8,192 and 16,384 H100, and with 131,072 tokens.

Degrees, batch and length are the report's table 4; pipelines are interleaved with a layer a chunk
(section 3.3.2 names interleaving and not the number of chunks). Operations are counted as its
authors count them, attention's scores whole (6 parameters and 12 layers x width x length a token).
Published: Grattafiori et al. 2024 (arXiv:2407.21783, table 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from armillary.units import GB

from ..study import Study, StudyRow, analytical, printed, unreferenced
from .frontier import FrontierRun, step

COMMON: dict[str, Any] = {
    "tp": 8,
    "pp": 16,
    "virtual_stages": 8,
    "zero": 1,
    "sp": True,
    "recompute_modules": "activation",
    "framework_set": {"saved": "fused", "loss": "fused"},
}
"""The gated function's value is computed again by its backward kernel: no layer is recomputed, and
it fits. That rotary embeddings and the loss are fused kernels is our assumption."""
LONG: dict[str, Any] = {
    "dp": 8,
    "cp": 16,
    "seq": 131_072,
    "global_batch": 128,
    "cp_comm_type": "all_gather",
}

PUBLISHED: dict[str, tuple[float, Mapping[str, Any]]] = {
    "8,192 GPUs, 8,192 tokens": (430.0, {"dp": 64, "global_batch": 2048}),
    "16,384 GPUs, 8,192 tokens": (400.0, {"dp": 128, "global_batch": 2048}),
    "16,384 GPUs, 131,072 tokens": (380.0, LONG),
}
"""TFLOP/s of a GPU, and what differs."""

VARIED: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "131,072 tokens, unmasked blocks 370 / 319 as fast": (
        LONG,
        {"npu.compute.efficiency.unmasked_attention": 0.238},
    ),
    "131,072 tokens, keys and values in a ring": ({**LONG, "cp_comm_type": "p2p"}, {}),
    "131,072 tokens, unmasked blocks at 0.262": (
        LONG,
        {"npu.compute.efficiency.unmasked_attention": 0.262},
    ),
    "16,384 GPUs, 8,192 tokens, two layers a chunk": (
        {"dp": 128, "global_batch": 2048, "virtual_stages": 4},
        {},
    ),
    "16,384 GPUs, 8,192 tokens, gated functions' values kept": (
        {"dp": 128, "global_batch": 2048, "recompute_modules": None},
        {},
    ),
}


def run(options: Mapping[str, Any], settings: Mapping[str, Any] | None = None) -> FrontierRun:
    """Llama 3 405B with these options."""
    return FrontierRun("llama-3-405b", "dgx-h100-16n", {**COMMON, **options}, settings or {})


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Published numbers, then what each choice is worth."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> Iterator[StudyRow]:
    for name, (paper, options) in PUBLISHED.items():
        found = step(run(options), backend)
        why = f"{found.seconds:.2f} s a step, {found.most / GB:.1f} GB. " + WHY.get(name, "")
        reference = printed(paper, "table 4")
        yield StudyRow(name, backend, reference, found.tflops, "TFLOP/s", why.strip())
    for name, (options, settings) in VARIED.items():
        found = step(run(options, settings), backend)
        yield StudyRow(
            name,
            backend,
            unreferenced("one thing changed; no reference"),
            found.tflops,
            "TFLOP/s",
            f"{found.seconds:.2f} s a step, {found.most / GB:.1f} GB.",
        )


WHY = {
    "16,384 GPUs, 131,072 tokens": (
        "Attention is two thirds of what kernels take. The preset has PyTorch's: torchtitan's runs "
        "with 262,144 tokens are met within 3 %."
    ),
}

STUDY = Study(
    "TP 8, PP 16, 16 M tokens a step on dgx-h100-16n; 131,072 tokens with CP 16, keys and values "
    "gathered. Assumed: interleaving with a layer a chunk, ZeRO-1, no recomputation but that of "
    "gated functions' values. Operations count attention's scores whole.",
    rows,
)
