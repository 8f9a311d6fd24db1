"""load.py PLATFORM REACH...: accesses of 64 MB by each of 256 NPUs, to memories of a reach."""

import sys

import armillary as arm
from armillary.workload import Program, Workload

for reach in sys.argv[2:]:
    program = Program()
    program.memory("load", [], 64_000_000, reach=reach)
    workload = Workload.listed("load", [program], [0] * 256, {})
    step = arm.simulate(workload, arm.Platform.load(sys.argv[1])).step_time_ns / 1000
    print(f"{reach}: {step:,.1f} us")
