"""A front end of one's own on a network: a ring all-reduce of sends and receives, which takes the
same time as the one of `armillary collective`."""

from functools import partial

import armillary as arm

SIZE = 64_000_000

platform = arm.Platform(
    "Switch(8)",
    bandwidth="50 GB/s",
    latency="500 ns",
    settings={
        "scheduler.chunks": 1,
        "scheduler.endpoint_delay": "0 ns",
        "collectives.all_reduce": "ring",
    },
)


def step(net: arm.Network, npu: int, number: int) -> None:
    """Step `number` of the ring at `npu`, which goes on when it has received the next part."""
    if number == 2 * (net.npus - 1):
        return
    part, after, before = SIZE // net.npus, (npu + 1) % net.npus, (npu - 1) % net.npus
    net.send(npu, after, part, tag=number)
    net.receive(before, npu, part, number, partial(step, net, npu, number + 1))


for backend in ("analytical", "link", "flow", "packet"):
    with arm.Network(platform, backend=backend) as net:
        for npu in range(net.npus):
            step(net, npu, 0)
        ours = net.run() / 1e6
    theirs = arm.collective("all_reduce", SIZE, platform, backend=backend)["time_us"][0]
    print(f"{backend:10} sends and receives {ours:,.3f} us, armillary collective {theirs:,.3f} us")
