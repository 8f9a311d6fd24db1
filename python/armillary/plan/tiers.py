"""Tables that have no room in the ranks' memory: on the hosts, and on disks where these are full.

A search knows the memory of the ranks only. So tables go to the hosts first, without a limit. Where
a rank then has more there than its host holds, tables go to the disk, those with the fewest lookups
for their bytes first, and the search begins again, until every host has room.

Not here: what a table costs there (`costs.hosted`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import InputError, Problem
from ..model.dlrm import EmbeddingTable
from ..model.sharding_plan import Tier
from .costs import Rates, Sizes, Way, hosted
from .partition import Whole
from .placed import Placed
from .search import Found

Menu = list[list[Way]]
"""The ways of each table."""

_TURNS = 12
"""Searches after which all tables without room go to the disk."""
_MORE = 1.25
"""Bytes that go to the disk, over those that a host has too many."""


@dataclass(frozen=True)
class Room:
    """Bytes of a rank in slower memory; `None` where there is no limit."""

    host: int | None
    disk: int | None
    """0 where the platform has no disk."""
    source: str
    """The platform's file."""

    @classmethod
    def of(cls, facts: dict[str, Any], host_capacity: int | None, source: str) -> Room:
        """Capacities of a platform, and the limit that was given for its hosts."""
        remote = facts.get("remote_memory") or {}
        host = remote["cpu"]["capacity_bytes"] if "cpu" in remote else None
        nvme = remote.get("nvme")
        disk = nvme["capacity_bytes"] if nvme else 0
        return cls(host if host_capacity is None else host_capacity, disk, source)


def search_tiers(
    tables: Sequence[EmbeddingTable],
    menu: Menu,
    sizes: Sizes,
    rates: Rates,
    skew: float,
    room: Room,
    search: Callable[[Menu], Found],
) -> tuple[Found, Menu]:
    """The best plan found, and the ways it chose from. Its bound holds for all plans: no table is
    cheaper on a disk than on its host.

    Raises:
        InputError: the hosts or the disks have no room, with the bytes that are missing.
    """
    everything = set(range(len(tables)))
    on_disk = everything if room.host == 0 and room.disk != 0 else set()
    bounds: list[float] = []
    while True:
        offered: Menu = [
            [
                *ways,
                *(
                    hosted(way, table, sizes, rates, skew, "disk" if at in on_disk else "host")
                    for way in ways
                    if way.scheme != "data"
                ),
            ]
            for at, (table, ways) in enumerate(zip(tables, menu, strict=True))
        ]
        found = search(offered)
        bounds.append(found.bound)
        best = found.best
        if best is None:
            return found, offered
        away = bytes_away(best, "host", sizes)
        if room.host is None or away.max() <= room.host:
            break
        if room.disk == 0:
            raise InputError([_full(away, room)])
        more = _coldest(tables, best, sizes, room.host)
        on_disk = on_disk | more if len(bounds) < _TURNS else everything
    stored = bytes_away(best, "disk", sizes)
    if room.disk is not None and stored.max() > room.disk:
        raise InputError([_full_disk(stored, room, room.disk)])
    return replace(found, bound=bounds[0]), offered


def bytes_away(placed: Placed, tier: Tier, sizes: Sizes) -> Whole:
    """Bytes of tables and optimizer state of each rank in one of the slower memories."""
    found = np.zeros(sizes.ranks, np.int64)
    for way, places in zip(placed.ways, placed.places, strict=True):
        if way.tier == tier:
            found += _of_table(way, places, sizes)
    return found


def _of_table(way: Way, places: Sequence[int], sizes: Sizes) -> Whole:
    found, each = np.zeros(sizes.ranks, np.int64), sizes.ranks_per_node
    if way.place == "all":
        found += way.away[0]
    elif way.place == "node":
        found[places[0] * each : (places[0] + 1) * each] += way.away[0]
    else:
        np.add.at(found, list(places), way.away)
    return found


def _coldest(tables: Sequence[EmbeddingTable], placed: Placed, sizes: Sizes, room: int) -> set[int]:
    """Tables on hosts that have the fewest lookups for their bytes, enough of them for the fullest
    host."""
    over = bytes_away(placed, "host", sizes)
    fullest = int(over.argmax())
    left = _MORE * (over[fullest] - room)
    hosts = [at for at, way in enumerate(placed.ways) if way.tier == "host"]
    hosts.sort(key=lambda at: (tables[at].pooling / (tables[at].rows * tables[at].dim), at))
    found = set()
    for at in hosts:
        if left <= 0:
            break
        held = _of_table(placed.ways[at], placed.places[at], sizes)[fullest]
        if held:
            found.add(at)
            left -= held
    return found


def _full(away: Whole, room: Room) -> Problem:
    rank, most = int(away.argmax()), int(away.max())
    said = (
        f"rank {rank} has {most:,} bytes of tables on its host, {most - (room.host or 0):,} more "
        f"than the {room.host:,} that it may have"
    )
    allowed = (
        "more memory; schemes row, which spreads them evenly; a platform with a disk: "
        "remote_memory {model: zero_infinity, cpu: {bandwidth: 31 GB/s}, nvme: {bandwidth: 3 GB/s}}"
    )
    return Problem(room.source, "host_capacity", said, allowed)


def _full_disk(stored: Whole, room: Room, disk: int) -> Problem:
    rank, most = int(stored.argmax()), int(stored.max())
    said = (
        f"rank {rank} has {most:,} bytes of tables on disk, {most - disk:,} more than the "
        f"{disk:,} that it may have"
    )
    allowed = "a larger disk; more ranks; 16-bit tables; schemes row, which spreads them evenly"
    return Problem(room.source, "remote_memory.nvme.capacity", said, allowed)
