"""An exchange of 80 kB among 8 NPUs, step by step: by a front end of one's own, and by ours."""

from functools import partial

import armillary as arm

SIZE = 80_000
SETTINGS = {
    "scheduler.chunks": 1,
    "scheduler.endpoint_delay": "0 ns",
    "collectives.all_reduce": "ring",
}


def step(net: arm.Network, npu: int, number: int) -> None:
    """One step of a ring all-reduce at `npu`, and those after it."""
    if number < 2 * (net.npus - 1):
        net.send(npu, (npu + 1) % net.npus, SIZE // net.npus, number)
        after = partial(step, net, npu, number + 1)
        net.receive((npu - 1) % net.npus, npu, SIZE // net.npus, number, after)


platform = arm.Platform("Switch(8)", bandwidth="10 GB/s", latency="500 ns", settings=SETTINGS)
for backend in ("analytical", "flow", "packet"):
    with arm.Network(platform, backend=backend) as net:
        for npu in range(net.npus):
            step(net, npu, 0)
        ours = arm.collective("all_reduce", SIZE, platform, backend=backend)["time_us"][0]
        print(f"{backend} {net.run() / 1e6:.1f} us, executor {ours:.1f} us")
