"""How long is a step whose activations don't fit, when some of them move to the host's memory and
back? The answer for three bandwidths between an NPU and its host."""

from collections.abc import Mapping

import armillary as arm

workload = arm.workload.build("llama-3-8b", tp=8, micro_batch=8)


def step(settings: Mapping[str, object]) -> float:
    """Time of a step on 8 GPUs, ms."""
    return arm.simulate(workload, arm.Platform.load("dgx-h100", settings)).step_time_ns / 1e6


print(f"with enough memory: {step({'npu.memory.capacity': '1 TB'}):,.0f} ms")
for bandwidth in (25, 50, 100):
    host = {"bandwidth": f"{bandwidth} GB/s", "latency": "1 us", "sharing": "per_npu"}
    spill = {"npu.memory.on_overflow": "spill", "remote_memory": host}
    print(f"{bandwidth:3} GB/s to the host: {step(spill):,.0f} ms")
