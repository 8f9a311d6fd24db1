"""Loads of 64 MB from a pool by 1, 16 and 256 of 256 NPUs, the first 16 in one node.

A node gets 4 x 50 GB/s, so its NPUs need 0.32 ms each; all memory groups give 3.2 TB/s."""

import armillary as arm
from armillary.workload import Program, Workload

platform = arm.Platform.load("examples/papers/pool.yml")
for loading in (1, 16, 256):
    load, nothing = Program(), Program()
    load.memory("load", [], 64_000_000)
    nothing.compute("nothing", [], operations=0, bytes=0)
    ranks = [0] * loading + [1] * (256 - loading)
    step = arm.simulate(Workload.listed("part", [load, nothing], ranks, {}), platform).step_time_ns
    print(f"{loading} of 256: {step / 1000:,.1f} us")
