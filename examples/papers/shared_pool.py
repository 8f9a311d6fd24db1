"""shared_pool.py BACKEND: a pool whose accesses and the messages of NPUs share switches and links.

NPUs 4 and 5 of a leaf-spine network are the memory groups of a pool. NPU 0 loads 64 MB, half from
each. NPU 1 sends it 64 MB, alone and at the same time. The links are 100 GB/s, so one of both alone
takes 640 us. With fair shares all three streams go at 33 GB/s until the load is over, after 960 us;
the message is over after 1,280 us."""

import sys

import armillary as arm
from armillary.workload import Program, Workload

HALF, MESSAGE = 32_000_000, 64_000_000
PLATFORM = """
topology: {generator: leaf_spine, leaves: 3, spines: 2, npus_per_leaf: 2}
links: {bandwidth: 100 GB/s, latency: 0 ns}
"""


def over(load: bool, message: bool) -> float:
    """Microseconds until all that is asked for is over."""
    first, second, group, idle = Program(), Program(), [Program(), Program()], Program()
    idle.compute("nothing", [], operations=0, bytes=0)
    for program in (first, second, *group):
        program.compute("begin", [], operations=0, bytes=0)
    for number, each in enumerate(group):
        if load:
            first.recv(f"load from group {number}", [], 4 + number, HALF)
            each.send("load", [], -4 - number, HALF)
    if message:
        first.recv("message", [], 1, MESSAGE, 1)
        second.send("message", [], -1, MESSAGE, 1)
    workload = Workload.listed("shared pool", [first, second, idle, *group], [0, 1, 2, 2, 3, 4], {})
    result = arm.simulate(workload, arm.Platform.parse(PLATFORM), backend=sys.argv[1])
    return float(result.step_time_ns) / 1000


print(f"load alone: {over(True, False):,.1f} us")
print(f"message alone: {over(False, True):,.1f} us")
print(f"both: {over(True, True):,.1f} us")
