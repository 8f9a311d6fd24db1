"""Waiting for launches: a part of the step, a cause between runs, and something that would help."""

from __future__ import annotations

import armillary as arm

KERNELS = 10


def kernels(launch_us: int) -> arm.Result:
    """Ten kernels of 1 us, one after the other, whose host takes so many us to launch each."""
    settings = {
        "npu.launch": f"{launch_us} us",
        "npu.peak": "1 TFLOPS",
        "npu.memory.bandwidth": "1 TB/s",
    }
    platform = arm.Platform("SW(2)", bandwidth="50 GB/s", latency="1 us", settings=settings)
    program = arm.workload.Program()
    last: list[int] = []
    for each in range(KERNELS):
        last = [program.compute(f"kernel{each}", last, operations=10**6, bytes=1)]
    workload = arm.Workload.listed("kernels", [program], [0, 0], {})
    return arm.simulate(workload, platform, detail=True)


def test_nine_of_ten_microseconds_are_waits() -> None:
    """Kernel i begins when i + 1 launches are over: 101 us, of which ten compute."""
    result = kernels(10)
    assert result.step_time_ns == 101_000
    assert result.breakdown()["exposed_launch_ns"].to_list() == [91_000]
    explanation = result.explain()
    assert "91.00 us of it, 90.1%, are waits for hosts to launch 10 operations." in str(explanation)
    [change] = [
        each for each in explanation.data["what_if"] if each["settings"] == {"npu.launch": "0 ns"}
    ]
    assert change["step_ns"] == 1_000 * KERNELS


def test_launches_that_nobody_waits_for_are_not_told() -> None:
    result = kernels(0)
    assert result.breakdown()["exposed_launch_ns"].to_list() == [0]
    assert "launch" not in str(result.explain())


def test_a_slower_host_is_the_cause() -> None:
    """20 us a kernel instead of 10: 100 us more, all of it waits for launches."""
    [pair] = kernels(10).compare(kernels(20)).data["pairs"]
    assert pair["causes"] == {"launches": 100_000}
