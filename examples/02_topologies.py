"""Which shape serves 64 NPUs better when each has 400 GB/s to give? The same bandwidth in four
shapes.

The link backend lets messages queue: an all-to-all through one port can't be faster than the port.
"""

import armillary as arm

SIZE = 256 * 2**20
SHAPES = {
    "R(64)": ["400 GB/s"],
    "R(8)_R(8)": ["200 GB/s", "200 GB/s"],
    "R(4)_R(4)_R(4)": ["134 GB/s", "133 GB/s", "133 GB/s"],
    "SW(64)": ["400 GB/s"],
}

for topology, bandwidth in SHAPES.items():
    platform = arm.Platform(topology, bandwidth=bandwidth, latency="500 ns", per="npu")
    times = {
        kind: arm.collective(kind, SIZE, platform, backend="link")["time_us"][0]
        for kind in ("all_reduce", "all_to_all")
    }
    print(f"{topology:16}", "  ".join(f"{kind} {time:9.1f} us" for kind, time in times.items()))
