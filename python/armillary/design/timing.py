"""Everything but bandwidth that takes time on a task's platforms: latencies, chunks, endpoint
delays, reductions.

Here: reading them out of a task. Not here: their part in a step's time (`estimate/terms.py`).
"""

from __future__ import annotations

from ..estimate.terms import Timing
from ..estimate.topology import Topology
from ..platform import Platform
from ..units import S_PER_PS, base
from .task import Task

_PS = S_PER_PS


def latencies(task: Task, topology: Topology) -> list[str]:
    """Latency of one link of each dimension: its technology's, else that of its place."""
    given = task.latency
    return [
        task.latencies.get(name, given[min(d, len(given) - 1)])
        for d, name in enumerate(task.stack(topology))
    ]


def of(task: Task, topology: Topology) -> Timing | None:
    """The timing of a topology; nothing for the paper's model, which has none."""
    if task.paper:
        return None
    chunks, endpoint, reduction = task.pace
    return Timing(
        chunks,
        tuple(float(base(each) or 0) for each in latencies(task, topology)),
        endpoint,
        reduction,
    )


def pace(settings: dict[str, object], npus: int) -> tuple[int, float, float]:
    """Chunks, endpoint delay (s) and seconds to reduce a byte, as a platform of `npus` NPUs
    with these settings has them.

    Raises `InputError` for settings that no platform can have.
    """
    described = Platform(
        f"SW({max(npus, 2)})", bandwidth="1 GB/s", latency="0 ns", settings=settings
    ).describe()
    scheduler, bandwidth = described["scheduler"], described["npu"].get("memory_bandwidth") or 0
    return (
        scheduler["chunks"],
        scheduler["endpoint_delay_ps"] * _PS,
        3 / bandwidth if bandwidth else 0.0,
    )
