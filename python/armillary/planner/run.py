"""`plan`: a sharding plan for a model on a platform, its loads, and its distance from the best."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np

from ..errors import InputError, Problem
from ..model import load_model
from ..model.dlrm import Dlrm, EmbeddingTable, parse
from ..model.files import Model
from ..model.sharding import SCHEMES
from ..model.sharding_plan import SHARD_SCHEMES, ShardingPlan, TablePlan
from ..model.sharding_plan_file import write_plan
from ..platform import AnyPlatform, Platform
from ..platform.platform import Fits, fit_limits
from ..units import counted
from ..workload.dlrm_flow import DENSE_OPTIMIZERS
from ..workload.dlrm_options import DlrmSizes, Options, options
from .costs import CostModel, Rates, Sizes, Way, platform_rates, volume_rates, ways
from .placed import Placed
from .search import Found, search
from .tiers import Room, bytes_away, search_tiers

COSTS = get_args(CostModel)
"""Cost models."""


@dataclass(frozen=True)
class Plan:
    """A plan and what it asks of each rank. Loads are in `unit`."""

    model: str
    platform: str
    sharding: ShardingPlan = field(repr=False)
    """The rank of each shard of each table."""
    cost_model: str
    unit: str
    loads: tuple[float, ...] = field(repr=False)
    """Of each rank, in a step."""
    bound: float
    """No plan has a lower greatest load."""
    memory: tuple[int, ...] = field(repr=False)
    """Bytes on each rank: tables, their optimizer state, buffers, and `dense`."""
    dense: int
    """Bytes of the MLPs, their gradients, state and activations on each rank, and of the cache of
    tables on its host."""
    capacity: int
    """Bytes of a rank."""
    host: tuple[int, ...] = field(repr=False)
    """Bytes of tables and optimizer state of each rank in its host's memory."""
    disk: tuple[int, ...] = field(repr=False)
    """The same on disk."""
    heuristics: dict[str, float]
    """The greatest load that each heuristic finds; infinite where it finds no plan with room."""
    fits: Fits = "yes"
    """Whether the fullest rank fits; `near` where it may (docs/models/memory.md)."""
    near_load: float | None = None
    """The greatest load of the best plan that may fit, where that is lower."""

    @property
    def highest(self) -> float:
        """The greatest load."""
        return max(self.loads)

    @property
    def gap(self) -> float:
        """How far the greatest load can be above that of the best plan, as a share of it."""
        return self.highest / self.bound - 1 if self.bound > 0 else 0.0

    @property
    def imbalance(self) -> float:
        """The greatest load over the mean."""
        mean = sum(self.loads) / len(self.loads)
        return self.highest / mean if mean > 0 else 1.0

    @property
    def schemes(self) -> dict[str, int]:
        """Tables by scheme."""
        counts = Counter(table.scheme for table in self.sharding.tables)
        return {name: counts[name] for name in SCHEMES if counts[name]}

    @property
    def on_hosts(self) -> int:
        """Tables in the hosts' memory."""
        return sum(table.tier == "host" for table in self.sharding.tables)

    @property
    def on_disk(self) -> int:
        """Tables on disk."""
        return sum(table.tier == "disk" for table in self.sharding.tables)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan as a file (docs/models/sharding-plans.md)."""
        write_plan(self.sharding, os.fspath(path))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the shards, for JSON. Infinite values are `None`."""
        finite = {
            name: None if value == float("inf") else value
            for name, value in self.heuristics.items()
        }
        return {
            "model": self.model,
            "platform": self.platform,
            "ranks": self.sharding.ranks,
            "ranks_per_node": self.sharding.ranks_per_node,
            "cost_model": self.cost_model,
            "unit": self.unit,
            "greatest_load": self.highest,
            "lower_bound": self.bound,
            "gap": self.gap,
            "imbalance": self.imbalance,
            "heuristics": finite,
            "schemes": self.schemes,
            "on_hosts": self.on_hosts,
            "on_disk": self.on_disk,
            "shards": sum(len(table.ranks) for table in self.sharding.tables),
            "loads": list(self.loads),
            "memory_bytes": list(self.memory),
            "host_bytes": list(self.host),
            "disk_bytes": list(self.disk),
            "dense_bytes": self.dense,
            "capacity_bytes": self.capacity,
            "fits": self.fits,
            "near_load": self.near_load,
        }


def plan(
    model: str | os.PathLike[str] | Model,
    platform: AnyPlatform,
    ranks: int | None = None,
    *,
    cost: CostModel = "platform",
    access_weight: float = 1.0,
    message_weight: float = 1.0,
    capacity: int | None = None,
    ranks_per_node: int | None = None,
    schemes: Sequence[str] | None = None,
    host_capacity: int | None = None,
    near: bool = False,
    progress: Callable[[float], None] | None = None,
    **given: object,
) -> Plan:
    """Chooses how each table of a recommendation model is sharded, and on which rank each shard is:
    `plan("dlrm-neo-a", "zionex", 128)`.

    The greatest load of a rank is kept low; no rank holds more than `capacity` bytes (default: what
    surely fits the memory of the platform's NPU; with `near`, what may). `cost` is `platform`
    (seconds, by the platform's kernels and simulated collectives) or `volume` (the paper's weighted
    bytes, with `access_weight` and `message_weight`). `schemes` are the ways to shard a table that
    may be taken: `table`, `column`, `row`, `table_row`, `data`. `given` are options of the
    workload: batches, widths, optimizers. With `cache`, bytes of a rank for rows of tables in
    slower memory, tables go to its host if they have no room otherwise; `skew` is that of their
    lookups. A host holds `host_capacity` bytes of a rank (default: `remote_memory.cpu.capacity` of
    the platform, if it has that). What is more goes to the disk of the platform
    (`remote_memory.nvme`).

    Raises:
        InputError: wrong options; a model without embedding tables; no plan has room, with how many
            ranks would, or how many bytes of a host or a disk are missing.
    """
    found = parse(load_model(model))
    target = _sized(platform, ranks)
    count = target.npus
    facts = target.describe()
    each = _node(ranks_per_node, count, facts)
    chosen, widths = options(found, {**given, "dp": count, "npus_per_node": each})
    _check(cost, count, each, access_weight, message_weight)
    allowed = _schemes(schemes)
    size = facts["npu"].get("memory_capacity_bytes")
    if not (size if capacity is None else capacity):
        needed = "such as 80 GB, or --capacity"
        raise InputError([Problem(target.source, "npu.memory.capacity", "is missing", needed)])
    sizes = Sizes(
        count,
        each,
        widths.local_batch,
        widths.embedding,
        widths.gradient,
        widths.forward,
        widths.backward,
        widths.index,
        chosen.optimizer,
        chosen.fused,
    )
    volume = cost == "volume"
    rates = volume_rates(access_weight, message_weight) if volume else platform_rates(target, each)
    least = dense_bytes(found, widths, chosen)
    ways_ = [_ways(table, sizes, rates, allowed) for table in found.tables]

    def within(held: int) -> Plan:
        """The best plan whose ranks hold `held` bytes at most."""
        dense, menu = least, ways_
        used = np.full(count, dense, np.int64)
        outcome = search(menu, used, held, each, progress)
        if outcome.best is None and chosen.cache is not None:
            _require_host(target, rates)
            dense += chosen.cache
            held_too = used + chosen.cache
            outcome, menu = search_tiers(
                found.tables,
                menu,
                sizes,
                rates,
                chosen.skew,
                Room.of(facts, host_capacity, target.source),
                lambda offered: search(offered, held_too, held, each, progress),
            )
        if outcome.best is None:
            raise InputError([_no_room(menu, sizes, dense, held)])
        return _result(found, target, sizes, rates, cost, outcome, outcome.best, dense, held)

    return within(capacity) if capacity is not None else _sure(within, size, near)


_FULL = 0.9
"""The share of its room from which the fullest rank may be what makes a plan slow."""
_WORTH = 0.99
"""The share of a load from which another one is said to be lower."""


def _sure(within: Callable[[int], Plan], size: int, near: bool) -> Plan:
    """The best plan that fits memory of `size` bytes or, with `near`, that may; without, also the
    load of the latter where it is lower."""
    sure, most = fit_limits(size)
    try:
        found = within(most if near else sure)
    except InputError as error:
        if near or not _can(within, most):
            raise
        first = error.problems[0]
        help_ = f"--near, for a plan that may fit; {first.help}"
        raise InputError([Problem(first.file, first.place, first.message, help_)]) from None
    fits: Fits = "near" if max(found.memory) > sure else "yes"
    if near or max(found.memory) < _FULL * sure:
        return replace(found, capacity=size, fits=fits)
    other = within(most).highest
    better = other if other < _WORTH * found.highest else None
    return replace(found, capacity=size, fits=fits, near_load=better)


def _can(within: Callable[[int], Plan], held: int) -> bool:
    try:
        within(held)
    except InputError:
        return False
    return True


def _sized(platform: AnyPlatform, ranks: int | None) -> Platform:
    """The platform with one NPU for each rank."""
    if not isinstance(platform, Platform):
        return Platform.of(platform, npus=ranks)
    if ranks not in (None, platform.npus):
        said = f"{counted(ranks, 'rank')} for {counted(platform.npus, 'NPU')} of {platform.name}"
        raise InputError([Problem("", "ranks", said, str(platform.npus))])
    return platform


def _node(wanted: int | None, ranks: int, facts: dict[str, Any]) -> int:
    """Ranks of a node: those of the platform's innermost dimension, if they divide the ranks."""
    if wanted is not None:
        return wanted
    dims = (facts.get("fabric") or {}).get("dims") or []
    size = int(dims[0]["size"]) if len(dims) > 1 else ranks
    return size if ranks % size == 0 else 1


def _check(cost: str, ranks: int, each: int, access: float, message: float) -> None:
    problems = []
    if cost not in COSTS:
        problems.append(Problem("", "cost", f"unknown cost model {cost!r}", ", ".join(COSTS)))
    if each < 1 or ranks % each:
        said = f"nodes of {each} don't divide {counted(ranks, 'rank')}"
        problems.append(Problem("", "ranks_per_node", said, f"a divisor of {ranks}"))
    for key, value in (("access_weight", access), ("message_weight", message)):
        if not 0 <= value < float("inf"):
            problems.append(Problem("", key, f"{value} is not a weight", "0 or more"))
    if problems:
        raise InputError(problems)


def dense_bytes(model: Dlrm, sizes: DlrmSizes, chosen: Options) -> int:
    """Bytes of the MLPs on a rank: weights, gradients, optimizer state, and the inputs of their
    layers."""
    inputs = sum(layer.inputs for layer in model.dense) + model.interaction.inputs
    held = sizes.dense + sizes.gradient + DENSE_OPTIMIZERS[chosen.dense_optimizer]
    return model.dense_parameters * held + inputs * sizes.local_batch * sizes.dense


def _require_host(platform: Platform, rates: Rates) -> None:
    """Refuses tables on hosts where the platform has no way to them."""
    if rates.host == float("inf"):
        said = "is missing: tables have no room in the NPUs' memory, and go to the hosts'"
        allowed = "such as {model: link, sharing: per_npu, bandwidth: 31 GB/s, latency: 1 us}"
        raise InputError([Problem(platform.source, "remote_memory", said, allowed)])


def _schemes(wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The schemes that may be taken."""
    unknown = [scheme for scheme in wanted or () if scheme not in SHARD_SCHEMES]
    if unknown or (wanted is not None and not wanted):
        said = f"unknown scheme {unknown[0]!r}" if unknown else "there is none"
        raise InputError([Problem("", "schemes", said, ", ".join(SHARD_SCHEMES))])
    return tuple(wanted or SHARD_SCHEMES)


def _ways(table: EmbeddingTable, sizes: Sizes, rates: Rates, allowed: tuple[str, ...]) -> list[Way]:
    """The allowed ways to shard a table."""
    every = ways(table, sizes, rates)
    found = [way for way in every if way.scheme in allowed]
    if not found:
        near = ", ".join(sorted({way.scheme for way in every}))
        said = f"table {table.name} of {table.rows} x {table.dim} has no scheme that is allowed"
        raise InputError([Problem("", "schemes", said, f"one of {near}")])
    return found


def _no_room(menu: Sequence[Sequence[Way]], sizes: Sizes, dense: int, capacity: int) -> Problem:
    """The least memory of all plans, and the ranks that it needs."""
    places = {"rank": 1, "node": sizes.ranks_per_node, "all": sizes.ranks}
    least = sum(min(places[way.place] * sum(way.memory) for way in options) for options in menu)
    missing = least + (dense - capacity) * sizes.ranks
    said = (
        f"tables, optimizer state and buffers need {least:,} bytes over all ranks, and the MLPs "
        f"{dense:,} on each; {counted(sizes.ranks, 'rank')} of {capacity:,} bytes"
    )
    said += f": {missing:,} are missing" if missing > 0 else ""
    allowed = (
        "more memory; 16-bit tables (embedding_width 2); rowwise_adagrad or sgd; a cache, for "
        "tables on hosts or disks"
    )
    if capacity > dense:
        allowed = f"about {counted(-(-least // (capacity - dense)), 'rank')} or more; {allowed}"
    return Problem("", "capacity", said, allowed)


def _result(
    model: Dlrm,
    platform: Platform,
    sizes: Sizes,
    rates: Rates,
    cost: str,
    found: Found,
    best: Placed,
    dense: int,
    capacity: int,
) -> Plan:
    everywhere, each, fixed = tuple(range(sizes.ranks)), sizes.ranks_per_node, rates.fixed(sizes)
    tables = []
    for table, way, places in zip(model.tables, best.ways, best.places, strict=True):
        ranks = everywhere
        if way.place == "rank":
            ranks = places
        elif way.place == "node":
            ranks = everywhere[places[0] * each : (places[0] + 1) * each]
        planned = TablePlan(table.name, table.rows, table.dim, way.scheme, ranks, tier=way.tier)
        tables.append(planned)
    sharding = ShardingPlan(model.name, sizes.ranks, each, tuple(tables))
    return Plan(
        model.name,
        platform.name,
        sharding,
        cost,
        rates.unit,
        tuple((best.loads + fixed).tolist()),
        found.bound + fixed,
        tuple(best.memory.tolist()),
        dense,
        capacity,
        tuple(bytes_away(best, "host", sizes).tolist()),
        tuple(bytes_away(best, "disk", sizes).tolist()),
        {name: load + fixed for name, load in found.heuristics.items()},
    )
