"""The parts of a step's roofline by hand, and steps that take longer than it."""

from __future__ import annotations

import pytest

import armillary as arm
from armillary.errors import InputError
from armillary.model import Model
from armillary.plan.roofline import roofline

MODEL = Model(
    "small",
    "dlrm",
    {
        "dense_features": 64,
        "bottom": [128, 64],
        "interaction": {"kind": "dot"},
        "top": [256, 1],
        "bias": False,
        "tables": [{"count": 4, "rows": 1000, "dim": 64, "pooling": 10}],
    },
)

ONE = """
topology: Ring(1)
links: {bandwidth: 10 GB/s, latency: 1 us}
npu:
  compute: {model: roofline, efficiency: {gemm: 0.5}, memory_efficiency: {gemm: 1, embedding: 0.8}}
  peak: 1 TFLOPS
  memory: {bandwidth: 1000 GB/s, capacity: 16 GB}
"""
BATCH = 256
GEMM = 2 / 0.5e12
"""Seconds for each multiply-and-add of a product, where operations limit it."""


def test_parts_on_one_npu_by_hand() -> None:
    """Elements of 4 bytes; 4 tables with 10 lookups of 64; dot products of 5 features; the top MLP
    reads 64 + 5 x 4 / 2."""
    parts = roofline(MODEL, arm.Platform.parse(ONE), dp=1, local_batch=BATCH, sharding="table")
    first, second = 64 * 128, 128 * 64
    assert parts.bottom_forward == pytest.approx(BATCH * (first + second) * GEMM)
    assert parts.bottom_backward == pytest.approx(BATCH * (first + 2 * second) * GEMM)
    dots = BATCH * 4 * (5 * 64 + 64 * 5 + 5 * 5) / 1e12  # their memory traffic is the limit
    assert parts.interaction_forward == pytest.approx(max(dots, BATCH * 5 * 5 * 64 * GEMM))
    lookups, pooled = BATCH * 4 * 10, BATCH * 4 * 64
    looked = lookups * (64 * 4 + 8) + pooled * 4
    assert parts.lookup == pytest.approx(looked / 0.8e12)
    updated = pooled * 4 + lookups * 8 + 2 * lookups * 64 * 4 + 2 * lookups * 4
    assert parts.update == pytest.approx(updated / 0.8e12)
    assert parts.all_to_all_forward == parts.top_all_reduce == 0
    slower = arm.Platform.parse(ONE.replace("{model: roofline", "{model: roofline, sustained: 0.5"))
    kept = roofline(MODEL, slower, dp=1, local_batch=BATCH, sharding="table")
    assert kept.bottom_forward == pytest.approx(2 * parts.bottom_forward)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("dlrm-neo-a", {"messages": "forward=fp16,backward=fp16,reduce-scatter=fp16"}),
        ("dlrm-neo-f", {"sharding": "row"}),
        ("dlrm-neo-i", {"sharding": "table_row"}),
    ],
)
def test_no_step_is_faster(model: str, options: dict[str, object]) -> None:
    parts = roofline(model, "zionex", dp=128, **options)
    workload = arm.workload.dlrm(model, dp=128, **options)
    step = arm.simulate(workload, arm.Platform.load("zionex")).step_time_ns / 1e9
    assert 0 < parts.total < step
    assert parts.all_to_all_forward == pytest.approx(parts.all_to_all_backward, rel=0.01)


def test_a_platform_without_rates_is_refused() -> None:
    bare = "topology: Ring(2)\nlinks: {bandwidth: 1 GB/s, latency: 1 us}\n"
    with pytest.raises(InputError, match=r"npu.memory.bandwidth: is missing"):
        roofline(MODEL, arm.Platform.parse(bare), dp=2)
    with pytest.raises(InputError, match="4 NPUs on a platform that has 1"):
        roofline(MODEL, arm.Platform.parse(ONE), dp=4)
