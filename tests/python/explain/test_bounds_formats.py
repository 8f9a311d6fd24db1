"""The bound of a step by its NPU's peak: that of the number formats which the run has."""

from __future__ import annotations

import pytest

import armillary as arm
from armillary.explain import bounds
from armillary.workload import build

PEAKS = {"bf16": 989.5e12, "fp8": 1979e12, "fp32": 989.5e12}
"""Dense, of an H100 SXM (NVIDIA's data sheet); the peak of a platform is that of bf16."""


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp8"])
def test_a_run_is_bounded_by_the_peak_of_its_formats(precision: str) -> None:
    workload = build("llama-3-8b", dp=8, zero=3, global_batch=8, precision=precision)
    report = arm.simulate(workload, "dgx-h100", detail=True).report
    assert workload.summary is not None
    most = max(each.operations for each in workload.summary.classes)
    bound = dict(bounds.step(report))["operations of the busiest rank at its NPU's peak"]
    peak = PEAKS["fp8" if precision == "fp8" else "bf16"]
    assert bound == pytest.approx(most / peak * 1e9, rel=1e-3)


def test_the_bound_agrees_with_the_hardware_utilisation() -> None:
    """What all NPUs compute, at peak, is the utilisation of the step; the busiest one is no faster.
    HFU counts the whole score matrix, kernels half of it."""
    result = arm.simulate(
        build("llama-3-8b", dp=8, zero=3, global_batch=8), "dgx-h100", detail=True
    )
    bound = dict(bounds.step(result.report))["operations of the busiest rank at its NPU's peak"]
    assert result.hfu is not None
    assert 0.85 * result.hfu < bound / result.step_time_ns < 1.15 * result.hfu
