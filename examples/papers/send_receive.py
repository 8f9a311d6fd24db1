"""A message of 1 MB from rank 0 to rank 1: two links of 500 ns, and 80 us on a link."""

import armillary as arm
from armillary.workload import Program, Workload

sender, receiver = Program(), Program()
sender.send("send", [], 1, 1_000_000)
receiver.recv("receive", [], -1, 1_000_000)

platform = arm.Platform("Switch(2)", bandwidth="12.5 GB/s", latency="500 ns")
workload = Workload.listed("message", [sender, receiver], [0, 1], {})
print(f"received after {arm.simulate(workload, platform).step_time_ns / 1000} us")
