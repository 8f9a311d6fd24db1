"""accesses.py PLATFORM REACH...: every NPU loads 64 MB from memory and stores them there."""

import sys

import armillary as arm
from armillary.workload import Program, Workload


def workload(ranks: int, *reaches: str) -> Workload:
    """A load and a store to the memory of each reach."""
    program = Program()
    last: list[int] = []
    for reach in reaches:
        last = [program.memory("load", last, 64_000_000, reach=reach)]
        last = [program.memory("store", last, 64_000_000, store=True, reach=reach)]
    return Workload.listed("accesses", [program], [0] * ranks, {})


if __name__ == "__main__":
    platform = arm.Platform.load(sys.argv[1])
    step = arm.simulate(workload(platform.npus, *sys.argv[2:]), platform).step_time_ns / 1000
    print(f"{step:,.1f} us")
