"""Small runs that explanations and comparisons are tried on."""

from __future__ import annotations

import armillary as arm


def one(kind: str, size: int, platform: arm.Platform, backend: str = "analytical") -> arm.Result:
    """Everybody takes part in one collective."""
    program = arm.workload.Program()
    program.collective("grad7", [], kind, size)
    workload = arm.Workload.listed("one", [program], [0] * platform.npus, {})
    return arm.simulate(workload, platform, backend=backend, detail=True)


def switch(algorithm: str) -> arm.Platform:
    """Eight NPUs as in ASTRA-sim's issue 296: 50 GB/s, 10 ns, eight chunks one after another, and
    messages that the switch stores whole."""
    settings = {
        "collectives.all_reduce": algorithm,
        "scheduler.chunks": 8,
        "scheduler.active_chunks": 1,
        "network.link.switching": "store_and_forward",
    }
    return arm.Platform("SW(8)", bandwidth="50 GB/s", latency="10 ns", settings=settings)


def training(
    platform: arm.Platform, layers: int = 3, size: int = 4_000_000, overlap: bool = True
) -> arm.Workload:
    """A few layers that compute, sum over everybody, and sum their gradients, beside the next layer
    with `overlap`."""
    program = arm.workload.Program()
    last: list[int] = []
    for layer in range(layers):
        done = program.compute(f"layer{layer}.matmul", last, operations=10**10, bytes=10**7)
        summed = program.collective(f"layer{layer}.sum", [done], "all_reduce", size)
        grad = program.collective(
            f"layer{layer}.grad", [done if overlap else summed], "reduce_scatter", 8 * size
        )
        last = [summed if overlap else grad]
    return arm.Workload.listed("small", [program], [0] * platform.npus, {})
