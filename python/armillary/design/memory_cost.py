"""Cost of memory: that of the NPUs, and a pool with its links and switches.

Here: parts of a pool, and the local memory that it saves. Not here: reading prices
(`cost_file.py`), what a network costs (`cost.py`).

An NPU is bought with memory for the workload that needs most, all NPUs alike. What lies in a pool
would have to lie there, too, so the pool saves that much local memory. A link counts once by its
bandwidth, and a switch by that of all its ports, as for networks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..units import GB
from ..workload import Workload

MEMORY = ("local", "pool", "link", "switch")
"""Prices: dollars for a GB of an NPU's memory and of a pool's, for a GB/s of a pool's links and
switches."""


@dataclass(frozen=True, slots=True)
class PoolParts:
    """Links and switches of a pool, GB/s."""

    link: float
    switch: float
    capacity: int | None
    """Bytes, if stated."""


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """One line of the bill of memory."""

    part: str
    """`local`, `pool`, `link`, `switch`; `saved`: local memory that the pool saves."""
    amount: float
    """GB, or GB/s for links and switches."""
    dollars: float


def pool_parts(described: Mapping[str, Any], npus: int) -> PoolParts:
    """The links and switches of a pool, as a platform describes it: every memory group is linked to
    every switch of its level, every switch to every one of the next level."""
    groups, levels = described["groups"], described["levels"][: described["memory_level"]]
    outer = groups["count"] * levels[-1]["switches"] * described["memory_side"]["bandwidth"]
    inner = npus * levels[0]["down"]["bandwidth"]
    between = sum(
        near["switches"] * far["switches"] * far["down"]["bandwidth"]
        for near, far in pairwise(levels)
    )
    each = groups["capacity_bytes"]
    return PoolParts(
        (outer + between + inner) / GB,
        (outer + 2 * between + inner) / GB,
        None if each is None else each * groups["count"],
    )


def bill(
    prices: Mapping[str, float], parts: PoolParts | None, workloads: Iterable[Workload]
) -> list[MemoryItem]:
    """Every part of the memory for some workloads, which have summaries."""
    found = [(each.ranks, each.summary) for each in workloads if each.summary]
    npus = max(ranks for ranks, _ in found)
    inside = npus * max(each.memory for _, each in found)
    amounts = {"local": inside / GB}
    dollars = {"local": inside / GB * prices["local"]}
    if parts is not None:
        outside = max(each.host_total for _, each in found)
        whole = npus * max(
            entry.memory.total + entry.outside for _, s in found for entry in s.classes
        )
        bought = outside if parts.capacity is None else parts.capacity
        amounts |= {"pool": bought / GB, "link": parts.link, "switch": parts.switch}
        dollars |= {part: amounts[part] * prices[part] for part in MEMORY[1:]}
        amounts["saved"] = (whole - inside) / GB
        dollars["saved"] = amounts["saved"] * prices["local"]
    return [MemoryItem(part, amount, dollars[part]) for part, amount in amounts.items()]
