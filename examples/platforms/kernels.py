"""kernels.py PLATFORM: kernels of every kind in turn, and a collective next to them."""

import sys

import armillary as arm
from armillary.workload import Program, Workload

KINDS = [
    "other",
    "gemm",
    "grouped",
    "convolution",
    "attention",
    "unmasked_attention",
    "elementwise",
    "normalization",
    "embedding",
    "embedding_update",
    "optimizer",
]


def workload(ranks: int) -> Workload:
    """For each kind a kernel that the peak limits, and one that memory limits."""
    program = Program()
    program.collective("gradients", [], "all_reduce", 10**7, duration_ps=10**9)
    last: list[int] = []
    for kind in KINDS:
        for operations, size in ((10**10, 10**6), (10**6, 10**9)):
            last = [program.compute(kind, last, operations=operations, bytes=size, kernel=kind)]
    for width in (1, 2, 4):
        last = [program.gemm("gemm", last, m=1000, n=1000, k=1000, width=width)]
    last = [program.gemm("experts", last, m=1000, n=1000, k=1000, batch=3, grouped=True)]
    last = [program.compute("recorded", last, duration_ps=10**9)]
    program.lookup("lookup", last, operations=10**6, bytes=10**8, rows=10**6)
    return Workload.listed("kernels", [program], [0] * ranks, {})


if __name__ == "__main__":
    platform = arm.Platform.load(sys.argv[1])
    step = arm.simulate(workload(platform.npus), platform).step_time_ns / 1000
    print(f"{step:,.1f} us")
