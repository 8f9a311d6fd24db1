"""Layouts of experts that rows of measured runs do not have.

Rows without a version of the engine are of November 2025, and rows of InferenceMAX's page of
October 2025. They have the number of GPUs alone. How the benchmark laid out experts at that time is
in its configuration (SemiAnalysisAI/InferenceX@78f6b8d2 `.github/configs/master.yaml`, Apache-2.0).
vLLM's scripts do not read it: experts are cut.

Runs of gpt-oss on the H200 check this. 35 of them were repeated in December with `ep` in the row,
and take the same time within 1 % at the median."""

from __future__ import annotations

SHORT, LONG = 1024, 8192


def laid_out(
    engine: str, gpu: str, model: str, precision: str, lengths: tuple[int, int], busy: int, tp: int
) -> tuple[int, int]:
    """Ranks with attention of their own and ranks that share the experts, of `tp` GPUs, `busy`
    requests at a time."""
    if engine == "vllm" or not model.startswith(("gpt-oss", "DeepSeek")):
        return 1, 1
    if engine == "sglang" or model.startswith("gpt-oss"):
        return 1, tp
    if precision == "fp8":
        return _eight_bits(gpu, lengths, busy, tp)
    return _four_bits(lengths, busy, tp)


def _eight_bits(gpu: str, lengths: tuple[int, int], busy: int, tp: int) -> tuple[int, int]:
    """DeepSeek with TensorRT-LLM in 8 bits: experts are always apart."""
    balanced = (LONG, SHORT) if gpu == "h200" else (SHORT, SHORT)
    return (tp if lengths == balanced and busy >= 64 else 1), tp


def _four_bits(lengths: tuple[int, int], busy: int, tp: int) -> tuple[int, int]:
    """DeepSeek with TensorRT-LLM in 4 bits: experts are apart for many requests, and then
    attention too."""
    if lengths == (LONG, SHORT):
        return (tp, tp) if busy > 32 else (1, tp if tp == 4 else 1)
    cut = 32 if tp == 4 else 8 if lengths == (SHORT, SHORT) else 16
    return (tp if busy >= 256 else 1), (tp if busy > cut else 1)
