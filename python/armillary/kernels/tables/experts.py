"""Tables of measured layers of experts (aiconfigurator's `moe_perf`)."""

from __future__ import annotations

from ..shapes import Experts
from .rows import Left, Row, Table, count, engine

_FORMATS = {
    "bfloat16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8_block",
    "int4_wo": "int4",
    "nvfp4": "nvfp4",
    "w4a16_mxfp4": "mxfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4_mxfp8",
}
_WITHOUT_GATE = {
    (1024, 2688, 22, 512),
    (2048, 5120, 22, 512),
    (2688, 1856, 6, 128),
    (4096, 2688, 22, 512),
    (8192, 5120, 22, 512),
}
"""Hidden and inner width, choices and experts of the models of Nemotron 3: ReLU squared, no
gate."""
_GATE_ALWAYS = {("sglang", "0.5.10"), ("vllm", "0.14.0")}
"""Versions whose benchmark gives every model a gate (collector/*/collect_moe.py)."""


def shape(row: Row) -> Experts | Left:
    """The layer that a row states.

    Raises:
        ValueError: a value that is not a count.
    """
    counts = {
        name: count(row, column)
        for name, column in (
            ("tokens", "num_tokens"),
            ("hidden", "hidden_size"),
            ("inner", "inter_size"),
            ("experts", "num_experts"),
            ("top_k", "topk"),
            ("tp", "moe_tp_size"),
            ("ep", "moe_ep_size"),
        )
    }
    format, source = _FORMATS.get(row["moe_dtype"]), row["kernel_source"]
    library, version = engine(row), row.get("ver", "")
    if format is None:
        return Left(f"experts in {row['moe_dtype']}")
    if library not in ("trtllm", "vllm", "sglang"):
        return Left(f"experts of {library}")
    kernels = _kernels(source, library, format, row.get("system", ""))
    if kernels is None:
        return Left(f"experts by {source}")
    model = (counts["hidden"], counts["inner"], counts["top_k"], counts["experts"])
    gate = model not in _WITHOUT_GATE or (library, version) in _GATE_ALWAYS
    return Experts(
        **counts,
        matrices=3 if gate else 2,
        format=format,
        kernels=kernels,
        library=library,
        routing=row["distribution"],
        choices="all" if (library, version) == ("sglang", "0.5.10") else "own",
    )


_SOURCES = (
    ("xpu", None),
    ("deepgemm", None),
    ("cutedsl", None),
    ("marlin", "marlin"),
    ("oaitriton", "triton_kernels"),
    ("trtllm", "generated"),
    ("min_latency", "generated"),
    ("cutlass", "cutlass"),
    ("nongated", "cutlass"),
    ("triton", "triton"),
    ("vllm_fused_moe", "triton"),
)
"""Words of sources, the first that fits, and their library; nothing where we know none."""
_UNTUNED = {("sglang", "bf16"), ("vllm", "fp8"), ("vllm", "nvfp4")}
"""Layers that FlashInfer gives to CUTLASS without tuning."""


def _kernels(source: str, library: str, format: str, system: str) -> str | None:
    """Library of the products of a source, or nothing where we know none."""
    if source == "moe_torch_flow":
        return _of_trtllm(format, system)
    found = next((name for word, name in _SOURCES if word in source), None)
    if found == "cutlass" and (library, format) in _UNTUNED:
        return "flashinfer"
    return "widened" if found == "triton" and format == "mxfp4" else found


def _of_trtllm(format: str, system: str) -> str:
    """Library of TensorRT-LLM's products where its source does not say it."""
    if system.startswith(("h100", "h200")) and format == "mxfp4":
        return "triton_kernels"
    blackwell = system.startswith(("b200", "b300", "gb200", "gb300"))
    return "generated" if blackwell and format in ("mxfp4", "mxfp4_mxfp8") else "cutlass"


EXPERTS = Table(
    "experts",
    ("moe_dtype", "num_tokens", "inter_size", "topk", "kernel_source", "distribution"),
    shape,
)
