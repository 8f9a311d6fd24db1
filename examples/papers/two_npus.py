"""An all-reduce of 1 MB between two NPUs, link of 10 GB/s and 1 us: 100 us, and 1 us each way."""

import armillary as arm

times = []
for block in ("Ring(2)", "FullyConnected(2)"):
    platform = arm.Platform(
        block,
        bandwidth="10 GB/s",
        per="link",
        latency="1 us",
        settings={"scheduler.endpoint_delay": "0 ns"},
    )
    times.append(f"{block}: {arm.collective('all_reduce', 1_000_000, platform)['time_us'][0]} us")
print(", ".join(times))
