"""The bound of a step by its NPU's peak, and its hardware utilisation: each operation at the peak
of its number format."""

from __future__ import annotations

import pytest

import armillary as arm
from armillary.estimate import bounds
from armillary.workload import build

PEAK, NARROW = 989e12, 1979e12
"""Dense, of an H100 SXM in 16 and 8 bits (NVIDIA's data sheet)."""
TOKENS, SEQUENCE = 8192, 8192
LAYERS, HIDDEN, KEYS, FFN, WORDS = 32, 4096, 1024, 14336, 128256
"""Llama-3-8B (arXiv:2407.21783, table 3)."""
MATRICES = 6 * TOKENS * LAYERS * HIDDEN * (2 * HIDDEN + 2 * KEYS + 3 * FFN)
"""Operations of a step, 6 for each weight and token, of the layers' matrices."""
HEAD = 6 * TOKENS * HIDDEN * WORDS
CORE = 7 * TOKENS * LAYERS * SEQUENCE * HIDDEN
"""Two products forward and five backward, half of each masked (arXiv:2205.14135)."""


def ran(precision: str, **options: object) -> arm.Result:
    """A step of Llama-3-8B with one sequence on each of eight H100."""
    workload = build("llama-3-8b", dp=8, zero=3, global_batch=8, precision=precision, **options)
    return arm.simulate(workload, "dgx-h100", detail=True)


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp8"])
def test_each_operation_is_bounded_by_the_peak_of_its_format(precision: str) -> None:
    """With 8 bits only the layers' matrices are narrow: not the head, not attention."""
    result = ran(precision)
    narrow = NARROW if precision == "fp8" else PEAK
    least = 1e9 * (MATRICES / narrow + (HEAD + CORE) / PEAK)
    bound = dict(bounds.step(result.report))["operations of the busiest rank at its NPU's peak"]
    assert bound == pytest.approx(least, rel=1e-3)
    assert result.hfu == pytest.approx(least / result.step_time_ns, rel=1e-3)


def test_the_model_is_counted_with_the_whole_score_matrix() -> None:
    """MFU: 12 layers hidden sequence operations for each token, masked or not (arXiv:2204.02311,
    appendix B)."""
    result = ran("bf16")
    core = 12 * TOKENS * LAYERS * SEQUENCE * HIDDEN
    mfu = (MATRICES + HEAD + core) / PEAK * 1e9 / result.step_time_ns
    assert result.mfu == pytest.approx(mfu, rel=1e-3)
    assert result.hfu is not None
    assert result.mfu is not None
    assert result.hfu < result.mfu, "nothing is computed again, and kernels skip what is masked"


def test_what_is_computed_again_is_counted() -> None:
    """With full recomputation the layers' matrices and attention run once more."""
    result = ran("bf16", recompute="full")
    least = (MATRICES * 8 / 6 + HEAD + CORE * 9 / 7) / PEAK * 1e9
    assert result.hfu == pytest.approx(least / result.step_time_ns, rel=1e-3)


def test_without_flash_attention_the_masked_half_runs() -> None:
    result = ran("bf16", attention="unfused")
    least = (MATRICES + HEAD + 12 * TOKENS * LAYERS * SEQUENCE * HIDDEN) / PEAK * 1e9
    assert result.hfu == pytest.approx(least / result.step_time_ns, rel=1e-3)


def test_recorded_durations_have_no_hardware_utilisation() -> None:
    """Nothing says how durations of a recording follow from operations."""
    workload = build("llama-3-8b", dp=8, zero=3, global_batch=8)
    replayed = arm.simulate(workload, arm.Platform.load("dgx-h100", {"npu.compute": "recorded"}))
    assert {each["at_peak_ns"] for each in replayed.report["classes"]} == {None}
    assert replayed.hfu is None
