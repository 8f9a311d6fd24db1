"""Whether the prices of a table are enough for the memory of a design problem.

Not here: the bill (`memory_cost.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..declared import Source
from ..platform import Platform
from .cost import CostTable
from .memory_cost import MEMORY, PoolParts, pool_parts
from .task import ParallelismChoice

_AT = ("cost", "memory")


def pool(
    source: Source, costs: CostTable | None, settings: Mapping[str, object], npus: int
) -> PoolParts | None:
    """The parts of the pool, if memory has prices and there is a pool. Keeps problems."""
    if costs is None or not costs.memory:
        return None
    described = Platform(
        f"SW({npus})", bandwidth="1 GB/s", latency="0 ns", settings=settings
    ).describe()
    remote = described.get("remote_memory")
    wanted = MEMORY if remote else MEMORY[:1]
    if missing := [part for part in wanted if part not in costs.memory]:
        said = f"has no price of {', '.join(missing)}"
        source.fault(_AT, said, "dollars for a GB (local, pool) or a GB/s (link, switch)")
    if not remote:
        return None
    if remote["model"] != "switches":
        said = f"no prices for memory of the model {remote['model']}: its links are not known"
        source.fault(_AT, said, "no memory, or a pool of the model hierarchical or switches")
        return None
    return pool_parts(remote, npus)


def known(source: Source, costs: CostTable | None, choices: Iterable[ParallelismChoice]) -> None:
    """Keeps a problem if memory has prices and a workload does not say what it needs."""
    if costs is None or not costs.memory:
        return
    jobs = (job for choice in choices for job in choice.jobs)
    name = next((job.name for job in jobs if job.workload.summary is None), None)
    if name is not None:
        source.fault(
            _AT, f"{name} does not say how much memory it needs", "models, or no prices of memory"
        )
