"""What NPUs hold over time, beside the peaks of the report and of the formulas."""

from __future__ import annotations

import pytest

import armillary as arm
from armillary.schema import Report
from armillary.workload import Program, Workload, build


def report(workload: Workload, fold: bool = True) -> Report:
    settings = {"npu.peak": "100 TFLOPS", "npu.memory.bandwidth": "1 TB/s"}
    platform = arm.Platform(
        f"Switch({workload.ranks})", bandwidth="100 GB/s", latency="1 us", settings=settings
    )
    return arm.simulate(workload, platform, detail=True, fold=fold).report


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1"])
def test_the_largest_is_the_peak(schedule: str) -> None:
    """Each stage at its fullest holds what the formula counts from the order of passes."""
    made = build("llama-2-7b", tp=2, pp=4, dp=1, global_batch=8, schedule=schedule)
    assert made.summary is not None
    found = report(made)
    assert found["detail"] is not None
    assert len(found["detail"]["memory"]) == 4
    for item, stage in zip(found["detail"]["memory"], made.summary.classes, strict=True):
        assert (
            max(item["bytes"])
            == found["classes"][item["rank_class"]]["peak_memory_bytes"]
            == stage.memory.total
        )
        assert min(item["bytes"]) >= stage.memory.total - stage.memory.activations
        assert len(item["bytes"]) == len(found["detail"]["activity"]["compute"])


def test_folded_and_not_the_same() -> None:
    made = build("llama-2-7b", tp=2, pp=2, dp=2, global_batch=4)
    assert report(made)["detail"] == report(made, fold=False)["detail"]


def test_who_says_nothing_is_left_out() -> None:
    program = Program()
    program.compute("a", [], duration_ps=10**9)
    found = report(Workload.listed("bare", [program], [0, 0], {}))
    assert found["detail"] is not None
    assert found["detail"]["memory"] == []
