"""What a shard of an embedding table costs the rank that holds it, in one training step.

Two models have the same form: bytes that a shard reads and sends, each times a rate.

    volume     the paper's: message volume and access size, each with a weight
    platform   seconds: the platform's memory bandwidth, and its collectives as simulated

For a shard of `w` of a table's `D` columns, `L` lookups of a sample, `B` samples of all ranks on
`n` ranks, `g` of them in a node, bytes `e` of an element, `f` and `b` of a pooled one forward and
backward, `i` of an index, `r` that each row costs the memory in addition:

    access     B L (3 (w e + r) + 2 i + 8) + B w (f + b)      forward, backward and optimizer
    table      B w (f + b) + B L i                      all-to-alls of pooled rows and of indices
    column     the same for each shard
    row        access / n; B D f by reduce-scatter, B D b by all-gather; B L i / n
    table_row  the same within a node; then B D (f + b) / g by all-to-all between nodes
    data       access / n, and the update of the whole table; its gradients by all-reduce
    on hosts   in addition, rows that a step looks up are fetched and written back
    on disks   the same, through the host's memory

Source: Mudigere et al., Neo and ZionEX, ISCA 2022, sections 4 and 4.1; access as in
`workload/dlrm.py`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ..api import collective_us, simulate
from ..errors import InputError, Problem
from ..model.dlrm import EmbeddingTable
from ..model.locality import Popularity
from ..model.sharding import TableLoad
from ..model.sharding_plan import ShardScheme, Tier, even
from ..platform import Platform
from ..workload import Workload
from ..workload.program import Program

CostModel = Literal["platform", "volume"]

PLACES: dict[ShardScheme, Literal["rank", "node", "all"]] = {
    "table": "rank",
    "column": "rank",
    "table_row": "node",
    "row": "all",
    "data": "all",
}
"""Where the shards of a scheme go: each to a rank, to the ranks of a node, or to all ranks."""

NARROWEST = 16
"""Columns of the narrowest column shard."""

_Number = TypeVar("_Number", int, float)

_PROBE = 64 << 20
"""Bytes of an NPU in the collectives that are timed."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What costs depend on apart from the tables: samples of a rank, ranks, bytes of an element."""

    ranks: int
    ranks_per_node: int
    local_batch: int
    embedding: int
    gradient: int
    forward: int
    backward: int
    index: int
    optimizer: str

    @property
    def batch(self) -> int:
        """Samples of all ranks."""
        return self.local_batch * self.ranks

    @property
    def nodes(self) -> int:
        """Nodes."""
        return self.ranks // self.ranks_per_node


@dataclass(frozen=True, slots=True)
class Rates:
    """Cost of a byte: read or written by lookups, and in the buffer of a rank for each collective
    over all ranks; of a byte that is sent `within` a node by a reduce-scatter, and `across` nodes
    by an all-to-all of ranks with one place in their nodes."""

    unit: str
    """Of a cost: `s`, or `weighted bytes`."""
    access: float
    row: int
    """Bytes that each row costs in addition, where it is read or written."""
    all_to_all: float
    reduce_scatter: float
    all_gather: float
    all_reduce: float
    within: float
    across: float
    host: float
    """Of a byte that a rank brings from its host's memory, or sends there; infinite where the
    platform has none."""
    disk: float
    """The same of a disk behind that memory."""


def volume_rates(access: float = 1.0, message: float = 1.0) -> Rates:
    """The paper's: bytes of access and of messages with a weight each."""
    return Rates("weighted bytes", access, 0, *[message] * 8)


def platform_rates(platform: Platform, ranks_per_node: int) -> Rates:
    """Seconds per byte on `platform`: its memory, and its collectives over all NPUs, within nodes
    of `ranks_per_node` and between them, as its own network model has them.

    Raises:
        InputError: the platform has no memory bandwidth.
    """
    facts = platform.describe()
    npu = facts["npu"]
    bandwidth = npu.get("memory_bandwidth")
    if not bandwidth:
        raise InputError(
            [Problem(platform.source, "npu.memory.bandwidth", "is missing", "such as 1550 GB/s")]
        )
    settings = npu.get("compute_settings", {})
    share = settings.get("memory_efficiency_ppm", {})
    efficiency = share.get("embedding", 10**6) / 10**6

    def rate(kind: str) -> float:
        return collective_us(kind, _PROBE, platform) / 1e6 / _PROBE if platform.npus > 1 else 0.0

    return Rates(
        "s",
        1 / (bandwidth * efficiency),
        settings.get("row_access_bytes", 0),
        rate("all_to_all"),
        rate("reduce_scatter"),
        rate("all_gather"),
        rate("all_reduce"),
        _part_rate(platform, ranks_per_node, "node", "reduce_scatter"),
        _part_rate(platform, ranks_per_node, "rail", "all_to_all"),
        *_slower_rates(facts),
    )


def _slower_rates(facts: dict[str, Any]) -> tuple[float, float]:
    """Seconds per byte of a rank's own way to its host's memory, and to a disk behind it. Without
    chunks, bytes cross the disk's link and then the host's; in chunks, both at once."""
    remote = facts.get("remote_memory") or {}
    if "cpu" in remote:
        host = 1 / remote["cpu"]["wire"]["bandwidth"]
        if not remote["nvme"]:
            return host, math.inf
        disk = 1 / remote["nvme"]["wire"]["bandwidth"]
        return host, max(host, disk) if remote["chunk_bytes"] else host + disk
    own = remote.get("sharing") == "per_npu" and remote.get("bandwidth")
    return (1 / own if own else math.inf), math.inf


def _part_rate(platform: Platform, each: int, group: str, kind: str) -> float:
    """Seconds for each byte that a rank sends to the others, where all nodes, or all rails, do the
    same at once."""
    size = each if group == "node" else platform.npus // each
    if size == 1:
        return 0.0
    program = Program()
    program.collective("probe", [], kind, _PROBE, group)
    axes = [("local", each), ("node", platform.npus // each)]
    along = {"node": ["local"], "rail": ["node"]}
    workload = Workload.mesh("probe", axes, along, [], [program])
    return simulate(workload, platform).step_time_ns / 1e9 / (_PROBE * (size - 1) / size)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to shard a table: what each of its shards costs and takes of a rank's memory."""

    scheme: ShardScheme
    costs: tuple[float, ...]
    """Of each shard on a rank (`rank`); otherwise of each rank that has a part."""
    memory: tuple[int, ...]
    """Bytes of weights, optimizer state and buffers, likewise."""
    tier: Tier = "device"
    """Memory that holds weights and state."""
    away: tuple[int, ...] = ()
    """Bytes of weights and state in that memory, if it is not the rank's; likewise."""

    @property
    def place(self) -> Literal["rank", "node", "all"]:
        """Where the shards go."""
        return PLACES[self.scheme]


def ways(table: EmbeddingTable, sizes: Sizes, rates: Rates) -> list[Way]:
    """Every way to shard `table` that the simulator and the trainer take."""
    ranks, each = sizes.ranks, sizes.ranks_per_node
    found = [_whole("table", table, (table.dim,), sizes, rates)]
    most = min(table.dim // NARROWEST, ranks)
    for count in range(2, most + 1):
        if table.dim % count == 0 or count in (2, 3, 4, 6, 8, 12, 16):
            found.append(_whole("column", table, even(table.dim, count), sizes, rates))
    if ranks > 1:
        if table.rows >= ranks:
            found.append(_rows(table, sizes, rates))
        if 1 < each < ranks and table.rows >= each:
            found.append(_node_rows(table, sizes, rates))
        found.append(_copies(table, sizes, rates))
    return found


def hosted(
    way: Way, table: EmbeddingTable, sizes: Sizes, rates: Rates, skew: float, tier: Tier = "host"
) -> Way:
    """The same way with the table in the hosts' memory, or on their disks. Each row that a step
    looks up is fetched and written back once, as if nothing were left in the cache from the steps
    before: the cost is one from above."""
    widths = even(table.dim, len(way.costs)) if way.scheme == "column" else (table.dim,)
    cuts = {"row": sizes.ranks, "table_row": sizes.ranks_per_node}.get(way.scheme, 1)
    seen = Popularity(table.rows, skew).seen(sizes.batch * table.pooling) / cuts
    rate = rates.host if tier == "host" else rates.disk
    costs, memory, away = [], [], []
    for cost, held, width in zip(way.costs, way.memory, widths, strict=True):
        costs.append(cost + 2 * seen * _held(1, width, sizes) * rate)
        away.append(_held(-(-table.rows // cuts), width, sizes))
        memory.append(held - away[-1])
    return Way(way.scheme, tuple(costs), tuple(memory), tier, tuple(away))


def _access(
    table: EmbeddingTable, width: int, lookups: float, samples: float, sizes: Sizes, rates: Rates
) -> float:
    """Cost of what is moved: rows for the samples `lookups`, pooled rows for `samples`."""
    row = 3 * (width * sizes.embedding + rates.row) + 2 * sizes.index + 8
    pooled = samples * width * (sizes.forward + sizes.backward)
    return (lookups * table.pooling * row + pooled) * rates.access


def _held(rows: int, width: int, sizes: Sizes) -> int:
    load = TableLoad(parameters=rows * width, rows=rows)
    return sum(load.bytes(sizes.embedding, sizes.optimizer))


def _buffers(table: EmbeddingTable, width: int, lookups: int, samples: int, sizes: Sizes) -> int:
    """Bytes of indices for the samples `lookups` and of pooled rows for `samples`, as the simulator
    counts them."""
    pooled = samples * width * max(sizes.forward, sizes.backward)
    return pooled + lookups * table.pooling * sizes.index


def _whole(
    scheme: ShardScheme,
    table: EmbeddingTable,
    widths: tuple[int, ...],
    sizes: Sizes,
    rates: Rates,
) -> Way:
    batch = sizes.batch
    indices = batch * table.pooling * sizes.index

    def cost(width: int) -> float:
        pooled = batch * width * (sizes.forward + sizes.backward)
        access = _access(table, width, batch, batch, sizes, rates)
        return access + (pooled + indices) * rates.all_to_all

    def memory(width: int) -> int:
        return _held(table.rows, width, sizes) + _buffers(table, width, batch, batch, sizes)

    return Way(scheme, _each(cost, widths), _each(memory, widths))


def _each(value: Callable[[int], _Number], widths: tuple[int, ...]) -> tuple[_Number, ...]:
    """`value` of each width, once for each different one."""
    known = {width: value(width) for width in set(widths)}
    return tuple(known[width] for width in widths)


def _rows(table: EmbeddingTable, sizes: Sizes, rates: Rates) -> Way:
    batch, ranks = sizes.batch, sizes.ranks
    pooled = batch * table.dim
    cost = (
        _access(table, table.dim, batch / ranks, batch, sizes, rates)
        + pooled * sizes.forward * rates.reduce_scatter
        + pooled * sizes.backward * rates.all_gather
        + batch * table.pooling * sizes.index / ranks * rates.all_to_all
    )
    held = _held(-(-table.rows // ranks), table.dim, sizes)
    return Way(
        "row", (cost,), (held + _buffers(table, table.dim, sizes.local_batch, batch, sizes),)
    )


def _node_rows(table: EmbeddingTable, sizes: Sizes, rates: Rates) -> Way:
    batch, each = sizes.batch, sizes.ranks_per_node
    pooled = batch * table.dim * (sizes.forward + sizes.backward)
    far = (sizes.nodes - 1) / sizes.nodes
    cost = (
        _access(table, table.dim, batch / each, batch, sizes, rates)
        + pooled * (each - 1) / each * rates.within
        + pooled / each * far * rates.across
        + batch * table.pooling * sizes.index / each * rates.all_to_all
    )
    held = _held(-(-table.rows // each), table.dim, sizes)
    lookups = sizes.local_batch * sizes.nodes
    return Way("table_row", (cost,), (held + _buffers(table, table.dim, lookups, batch, sizes),))


def _copies(table: EmbeddingTable, sizes: Sizes, rates: Rates) -> Way:
    parameters = table.rows * table.dim
    cost = (
        _access(table, table.dim, sizes.local_batch, sizes.local_batch, sizes, rates)
        + parameters * (2 * sizes.embedding + sizes.gradient) * rates.access
        + parameters * sizes.gradient * rates.all_reduce
    )
    held = _held(table.rows, table.dim, sizes) + parameters * sizes.gradient
    samples = sizes.local_batch
    return Way("data", (cost,), (held + _buffers(table, table.dim, samples, samples, sizes),))
