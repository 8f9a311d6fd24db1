"""Where does a training step's time go, and what would a network of twice the bandwidth change?
From Chakra traces."""

from pathlib import Path

import armillary as arm

GPT = Path(__file__).parent / "gpt-64"

platform = arm.Platform.load(GPT / "platform.yml")
workload = arm.load(GPT, platform, groups=GPT / "comm_group.json")
now = arm.simulate(workload, platform)
print(now.breakdown().select("ranks", "count", "compute_share", "exposed_comm_share", "idle_share"))

faster = arm.Platform.load(GPT / "platform.yml", settings={"links[1].bandwidth": "200 GiB/s"})
then = arm.simulate(workload, faster)
print(
    f"step now {now.step_time_ns / 1e6:.2f} ms, with a ring of twice the bandwidth "
    f"{then.step_time_ns / 1e6:.2f} ms"
)
