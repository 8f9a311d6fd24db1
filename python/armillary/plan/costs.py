"""Cost of a shard of an embedding table for the rank that holds it, in one training step.

Two models have the same form: bytes that a shard reads and sends, each times a rate.

    volume     the paper's: message volume and access size, each with a weight
    platform   seconds: kernels as a run times them, and the platform's collectives as simulated

A step does each exchange once for all tables. So the latencies of an exchange are a cost of the
plan, which it pays if one of its tables needs the exchange (`Rates.once`).

For a shard of `w` of a table's `D` columns, `L` lookups of a sample, `B` samples of all ranks on
`n` ranks, `g` of them in a node, bytes `e` of an element, `f` and `b` of a pooled one forward and
backward, `i` of an index, `s` of the optimizer's state of a row (4 with rowwise_adagrad):

    access     B L (3 w e + 2 i + 2 s) + B w (f + b)          forward, backward and optimizer
    table      B w (f + b) + B L i                      all-to-alls of pooled rows and of indices
    column     the same for each shard
    row        access / n; B D f by reduce-scatter, B D b by all-gather; B L i / n
    table_row  the same within a node; then B D (f + b) / g by all-to-all between nodes
    data       a rank's own lookups: B L (w e + 2 w o + 2 i) / n + B w (f + b) / n, with `o` bytes
               of an element of a gradient; those of the whole table by all-reduce; its update
    on hosts   in addition, rows that a step looks up are fetched and written back
    on disks   the same, through the host's memory

Source: Mudigere et al., Neo and ZionEX, ISCA 2022, sections 4 and 4.1; access as in
`workload/dlrm_flow.py`. What platforms take for it is in `probes.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, NamedTuple, TypeVar

from ..api import collective_us
from ..model.dlrm import EmbeddingTable
from ..model.locality import Popularity
from ..model.sharding import TableLoad
from ..model.sharding_plan import NARROWEST, PLACES, ShardScheme, Tier, even
from ..platform import Platform
from ..workload.dlrm_flow import TableWork, gradient_of, lookup_of, step_of, update_of
from .probes import (
    access_seconds,
    change_seconds,
    group_seconds,
    kernel_seconds,
    memory_bandwidth,
)

CostModel = Literal["platform", "volume"]

Exchange = Literal["inputs", "whole", "rows", "node_rows", "copies"]

EXCHANGES: dict[ShardScheme, tuple[Exchange, ...]] = {
    "table": ("inputs", "whole"),
    "column": ("inputs", "whole"),
    "table_row": ("inputs", "node_rows"),
    "row": ("inputs", "rows"),
    "data": ("copies",),
}
"""Exchanges of a step that tables of a scheme need: of inputs; of the pooled rows of whole tables
and columns, of rows, and of rows in nodes; of the gradients of copies."""

_Number = TypeVar("_Number", int, float)

_PROBE = 64 << 20
"""Bytes of an NPU in the collectives that are timed for the cost of a byte."""
_NEXT_TO_NOTHING = 1 << 10
"""The same for latencies."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Inputs of costs apart from the tables: samples of a rank, ranks, bytes of an element."""

    ranks: int
    ranks_per_node: int
    local_batch: int
    embedding: int
    gradient: int
    forward: int
    backward: int
    index: int
    optimizer: str
    fused: bool = True
    """One kernel for all tables of a rank, and one for their update; otherwise three a table."""
    distributed: bool = True
    """Whether a step distributes lengths and indices."""

    @property
    def batch(self) -> int:
        """Samples of all ranks."""
        return self.local_batch * self.ranks

    @property
    def sent(self) -> int:
        """Bytes of an index on the network."""
        return self.index if self.distributed else 0

    @property
    def nodes(self) -> int:
        """Nodes."""
        return self.ranks // self.ranks_per_node


@dataclass(frozen=True, slots=True)
class Rates:
    """Cost per byte and of kernels on tables. A byte is in the buffer of a rank for each collective
    over all ranks; sent `within` a node by a reduce-scatter; sent `across` nodes by an all-to-all
    among ranks with the same index in their nodes."""

    unit: str
    """Unit of a cost: `s`, or `weighted bytes`."""
    access: Callable[[TableWork, TableWork], float]
    """Cost of a lookup and of an update, next to others in the same kernels."""
    change: Callable[[int, int], float]
    """Cost of the update of copies with these operations and bytes, next to others in the same
    kernel."""
    start: float
    """Cost of each kernel in addition, whatever it does."""
    wait: float
    """Cost of each kernel that moves bytes in addition: the latency of the memory."""
    all_to_all: float
    reduce_scatter: float
    all_gather: float
    all_reduce: float
    within: float
    across: float
    host: float
    """Cost of a byte between a rank and its host's memory; infinite where the platform has no such
    memory."""
    disk: float
    """The same of a disk behind that memory."""
    latencies: Mapping[Exchange, float] = field(default_factory=dict, kw_only=True)
    """Cost of each exchange of a step in addition, whatever it carries. With `copies`: without the
    kernel that updates them."""

    def once(self, schemes: Iterable[ShardScheme], sizes: Sizes) -> float:
        """Cost of every rank for the exchanges that tables of these schemes need, and for the
        kernel that updates all copies."""
        needed = sorted({each for scheme in schemes for each in EXCHANGES[scheme]})
        if not sizes.distributed:
            needed = [each for each in needed if each != "inputs"]
        kernel = self.start + self.wait if "copies" in needed and sizes.fused else 0.0
        return sum(self.latencies.get(each, 0.0) for each in needed) + kernel

    def fixed(self, sizes: Sizes) -> float:
        """Cost of every rank with tables, whatever the plan: the fused kernels begin."""
        return 2 * (self.start + self.wait) if sizes.fused else 0.0

    def idle(self, sizes: Sizes) -> float:
        """Cost of a rank without tables."""
        return 2 * self.start if sizes.fused else 0.0


def volume_rates(access: float = 1.0, message: float = 1.0) -> Rates:
    """The paper's: bytes of access and of messages with a weight each."""

    def weighted(lookup: TableWork, update: TableWork) -> float:
        return (lookup.bytes + update.bytes) * access

    def change(_: int, moved: int) -> float:
        return moved * access

    return Rates("weighted bytes", weighted, change, 0.0, 0.0, *[message] * 8)


def platform_rates(platform: Platform, ranks_per_node: int) -> Rates:
    """Seconds on `platform`: of kernels as a run times them, and of collectives over all NPUs,
    within nodes of `ranks_per_node` and between them, as its own network model has them, with few
    bytes and with many.

    Raises:
        InputError: the platform has no memory bandwidth, or its kernels last as long as a trace
            recorded.
    """
    memory_bandwidth(platform)
    start = kernel_seconds(platform, TableWork(0, 0, 0))
    wait = kernel_seconds(platform, TableWork(0, 1, 0)) - start

    @cache
    def access(lookup: TableWork, update: TableWork) -> float:
        return kernel_seconds(platform, lookup, update) - 2 * (start + wait)

    def change(operations: int, moved: int) -> float:
        return change_seconds(platform, operations, moved) - (start + wait)

    kinds = ("all_to_all", "reduce_scatter", "all_gather", "all_reduce")
    pooled, summed, gathered, reduced = (_everywhere(platform, kind) for kind in kinds)
    within = _part(platform, ranks_per_node, "node", "reduce_scatter")
    across = _part(platform, ranks_per_node, "rail", "all_to_all")
    host, disk = _slower_rates(platform)
    return Rates(
        "s",
        access,
        change,
        start,
        wait,
        pooled.byte,
        summed.byte,
        gathered.byte,
        reduced.byte,
        within.byte,
        across.byte,
        host,
        disk,
        latencies={
            "inputs": 2 * pooled.latency,
            "whole": 2 * pooled.latency,
            "rows": summed.latency + gathered.latency,
            "node_rows": 2 * (within.latency + across.latency),
            "copies": reduced.latency,
        },
    )


class _Timed(NamedTuple):
    """Seconds of a collective: with next to no bytes, and of each byte in addition."""

    latency: float
    byte: float


def _everywhere(platform: Platform, kind: str) -> _Timed:
    """A collective over all NPUs; its bytes are those in the buffer of a rank."""
    if platform.npus == 1:
        return _Timed(0.0, 0.0)
    few, many = (collective_us(kind, size, platform) / 1e6 for size in (_NEXT_TO_NOTHING, _PROBE))
    return _Timed(few, (many - few) / (_PROBE - _NEXT_TO_NOTHING))


def _slower_rates(platform: Platform) -> tuple[float, float]:
    """Seconds per byte of a rank's own way to its host's memory, and to a disk behind it."""
    remote = platform.describe().get("remote_memory") or {}
    own = "cpu" in remote or remote.get("sharing") == "per_npu"
    reached = {"host": own, "disk": bool(remote.get("nvme"))}
    host, disk = (
        access_seconds(platform, _PROBE, reach) / _PROBE if there else math.inf
        for reach, there in reached.items()
    )
    return host, disk


def _part(platform: Platform, each: int, group: str, kind: str) -> _Timed:
    """A collective of each node or rail; its bytes are those that a rank sends to the others."""
    size = each if group == "node" else platform.npus // each
    if size == 1:
        return _Timed(0.0, 0.0)
    few, many = (
        group_seconds(platform, each, group, kind, amount) for amount in (_NEXT_TO_NOTHING, _PROBE)
    )
    sent = (_PROBE - _NEXT_TO_NOTHING) * (size - 1) / size
    return _Timed(few, (many - few) / sent)


@dataclass(frozen=True, slots=True)
class Way:
    """A way to shard a table: what each of its shards costs and takes of a rank's memory."""

    scheme: ShardScheme
    costs: tuple[float, ...]
    """Cost of each shard on a rank (`rank`); otherwise of each rank that has a part."""
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
    table: EmbeddingTable,
    width: int,
    asked: tuple[int, int],
    sizes: Sizes,
    rates: Rates,
) -> float:
    """Cost of the kernels on a shard: rows are looked up for the first number of samples `asked`,
    and there are pooled rows of the second. An update that is not fused is two kernels."""
    samples, made = asked
    lookups = samples * table.pooling
    traffic = lookups, lookups * width, made * width
    lookup = lookup_of(*traffic, sizes)
    update = update_of(*traffic, sizes, sizes.optimizer, sizes.fused)
    if sizes.fused:
        return rates.access(lookup, update)
    half = TableWork(*(each // 2 for each in update))
    rest = TableWork(*(each - each // 2 for each in update))
    apart = rates.access(lookup, half) + rates.access(TableWork(0, 0, 0), rest)
    # A lookup of nothing does not wait for the memory.
    return apart + rates.wait + 3 * (rates.start + rates.wait)


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
    indices = batch * table.pooling * sizes.sent

    def cost(width: int) -> float:
        pooled = batch * width * (sizes.forward + sizes.backward)
        access = _access(table, width, (batch, batch), sizes, rates)
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
        _access(table, table.dim, (sizes.local_batch, batch), sizes, rates)
        + pooled * sizes.forward * rates.reduce_scatter
        + pooled * sizes.backward * rates.all_gather
        + batch * table.pooling * sizes.sent / ranks * rates.all_to_all
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
        _access(table, table.dim, (sizes.local_batch * sizes.nodes, batch), sizes, rates)
        + pooled * (each - 1) / each * rates.within
        + pooled / each * far * rates.across
        + batch * table.pooling * sizes.sent / each * rates.all_to_all
    )
    held = _held(-(-table.rows // each), table.dim, sizes)
    lookups = sizes.local_batch * sizes.nodes
    return Way("table_row", (cost,), (held + _buffers(table, table.dim, lookups, batch, sizes),))


def _copies(table: EmbeddingTable, sizes: Sizes, rates: Rates) -> Way:
    samples, whole = sizes.local_batch, TableLoad(0, 0, 0, table.rows * table.dim, table.rows)
    lookups = samples * table.pooling
    traffic = lookups, lookups * table.dim, samples * table.dim
    cost = (
        rates.access(lookup_of(*traffic, sizes), gradient_of(*traffic, sizes))
        + rates.change(*step_of(whole, sizes, sizes.optimizer))
        + whole.parameters * sizes.gradient * rates.all_reduce
    )
    if not sizes.fused:
        cost += 3 * (rates.start + rates.wait)
    held = sum(whole.bytes(sizes.embedding, sizes.optimizer)) + whole.parameters * sizes.gradient
    return Way("data", (cost,), (held + _buffers(table, table.dim, samples, samples, sizes),))
