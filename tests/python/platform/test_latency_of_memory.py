"""Latency of the NPU's own memory: every kernel that moves bytes waits for it."""

from __future__ import annotations

import random

import pytest

import armillary as arm
from armillary.workload import Program, Workload
from armillary.workload.families import build

TOY = """\
topology: Ring(2)
links: {bandwidth: 1 GB/s, latency: 0 ns}
npu: {compute: roofline, peak: 1 TFLOPS, memory: {bandwidth: 1 TB/s}}
"""


@pytest.mark.parametrize("seed", range(20))
def test_kernels_take_the_roofline_with_a_latency(seed: int) -> None:
    """t = max(operations / peak, latency + bytes / bandwidth) in ps; without bytes no latency."""
    draw = random.Random(seed)
    latency = draw.randrange(0, 2_000_000)
    program, expected = Program(), 0
    last: list[int] = []
    for number in range(draw.randint(1, 20)):
        operations = draw.randrange(0, 10**6)
        moved = draw.choice([0, draw.randrange(1, 10**6)])
        last = [program.compute(f"k{number}", last, operations=operations, bytes=moved)]
        expected += max(operations, latency + moved if moved else 0)
    workload = Workload.listed("toy", [program], [0, 0], {})
    text = TOY.replace("1 TB/s}", f"1 TB/s, latency: {latency / 1000} ns}}")
    platform = arm.Platform.parse(text, "toy.yml")
    assert arm.simulate(workload, platform).step_time_ns == pytest.approx(expected / 1e3)


def test_a_generated_step_grows() -> None:
    workload = build("megatron-1.7b", dp=1, tp=1, global_batch=1)
    steps = [
        arm.simulate(
            workload, arm.Platform.load("dgx-h100", {"npus": 1, "npu.memory.latency": latency})
        ).step_time_ns
        for latency in ("0 us", "10 us", "100 us")
    ]
    assert steps[0] < steps[1] < steps[2]
