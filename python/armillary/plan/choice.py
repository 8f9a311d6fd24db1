"""A sharding plan for a model on a platform, its loads, and its distance from the best.

Here: what `plan` (`run.py`) returns, and the parts of its choice."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, get_args

from .. import backends
from ..errors import InputError, Problem
from ..model.dlrm import Dlrm, EmbeddingTable
from ..model.sharding import SCHEMES
from ..model.sharding_plan import SHARD_SCHEMES, ShardingPlan, ShardScheme
from ..model.sharding_plan_file import write_plan
from ..platform import AnyPlatform, Platform
from ..platform.platform import Fits, fit_limits
from ..units import counted
from ..workload.dlrm_flow import DENSE_OPTIMIZERS
from ..workload.dlrm_options import DlrmSizes, Options
from .candidates import Candidate, Searched, Task, candidates, distinct, of_search
from .costs import CostModel, Rates, Sizes, Way, ways
from .simulated import Simulated, Step, compared
from .tiers import bytes_away

COSTS = get_args(CostModel)
"""Cost models."""
DECIDED = ("plan", "sharding", "column_shards", "tier", "bottom", "dp", "ranks_per_node")
"""Options of the workload that a plan decides, or that have another name here."""
SEARCH, FAMILIES = 0.15, 0.4
"""Shares of the work after the search over all schemes, and after those over some."""

Progress = Callable[[float], None]


@dataclass(frozen=True)
class ComparedPlan:
    """A plan that was considered."""

    found_by: tuple[str, ...]
    """`search` (the best one by costs), `near` (the next ones) or a heuristic. In parentheses the
    schemes of a search over some: `greedy (table)`; `(all)` where the best one needs fewer
    exchanges. `--sharding table` and so on for what the
    simulator does without a plan."""
    simple: bool
    """Whether a heuristic has it, the simulator by itself, or a search with one scheme only."""
    greatest_load: float
    step_ns: float | None
    """The simulated step, nanoseconds; `None` where it was not simulated."""
    chosen: bool
    """Whether it is the plan that was chosen."""


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
    """Load of each rank, in a step."""
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
    """The greatest load of the best plan by costs that may fit, where that is lower."""
    lowest: float = 0.0
    """The lowest of the greatest loads of the plans that were considered. This plan's is higher
    where its step is faster."""
    step_ns: float | None = None
    """The simulated step, nanoseconds; `None` where plans were compared by costs only."""
    backend: str | None = None
    """The network backend of the simulations."""
    allowed: tuple[str, ...] | None = None
    """The schemes that tables could take, if not all. The lower bound is of plans with these."""
    compared: tuple[ComparedPlan, ...] = field(default=(), repr=False)
    """The plans that were considered, the best one by costs first."""
    by_costs: str | None = None
    """Why plans were compared by costs only; `None` where they were simulated."""
    warnings: tuple[str, ...] = ()
    """Result of the simulation of this plan."""
    alike: int | None = None
    """How many other simulated plans the uncertainty of predictions does not separate from this
    one; `None` where it is unknown."""

    @property
    def highest(self) -> float:
        """The greatest load."""
        return max(self.loads)

    @property
    def gap(self) -> float:
        """How far the greatest load, a sum of costs, can be above the best one, as a share of it.
        Says nothing of the step: a load is not its time."""
        return self._above(self.highest)

    @property
    def lowest_gap(self) -> float:
        """The same of the best plan by costs."""
        return self._above(self.lowest)

    def _above(self, load: float) -> float:
        return load / self.bound - 1 if self.bound > 0 else 0.0

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
            "lowest_load": self.lowest,
            "lower_bound": self.bound,
            "gap": self.gap,
            "lowest_gap": self.lowest_gap,
            "step_ns": self.step_ns,
            "backend": self.backend,
            "by_costs": self.by_costs,
            "alike": self.alike,
            "compared": [asdict(each) for each in self.compared],
            "warnings": list(self.warnings),
            "imbalance": self.imbalance,
            "heuristics": finite,
            "schemes": self.schemes,
            "allowed_schemes": None if self.allowed is None else list(self.allowed),
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


def simulated_choice(
    task: Task, whole: Searched, held: int, step: Step, unable: str, say: Progress
) -> tuple[list[Candidate], Simulated]:
    """The plans that were considered, the best one by costs first, and their simulated steps;
    `unable`: why there are none."""
    kept = [*of_search(task, task.schemes, whole.found)]
    if unable:
        kept = distinct(kept)
        return kept, Simulated((None,) * len(kept), failed=unable)
    between, left = FAMILIES - SEARCH, 1 - FAMILIES
    own = partial(step.own, tier="host" if whole.away else "device")
    kept += candidates(task, whole, held, own, lambda share: say(SEARCH + between * share))
    kept = distinct(kept)
    return kept, compared(kept, step, lambda share: say(FAMILIES + left * share))


_FULL = 0.9
"""The share of its room from which the fullest rank may be what makes a plan slow."""
_WORTH = 0.99
"""The share of a load from which another one is said to be lower."""


def surely_fitting(
    within: Callable[[int], Searched], size: int, near: bool
) -> tuple[int, Searched, float | None]:
    """Bytes of a rank, and the best plan by costs that fits memory of `size` bytes or, with `near`,
    that may; without, also the load of the latter where it is lower."""
    sure, most = fit_limits(size)
    try:
        found = within(most if near else sure)
    except InputError as error:
        if near or not _can(within, most):
            raise
        first = error.problems[0]
        help_ = f"--near, for a plan that may fit; {first.help}"
        raise InputError([Problem(first.file, first.place, first.message, help_)]) from None
    if near or found.best.memory.max() < _FULL * sure:
        return (most if near else sure), found, None
    other = within(most).best.highest
    return sure, found, other if other < _WORTH * found.best.highest else None


def _can(within: Callable[[int], Searched], held: int) -> bool:
    try:
        within(held)
    except InputError:
        return False
    return True


def sized(platform: AnyPlatform, ranks: int | None) -> Platform:
    """The platform with one NPU for each rank."""
    if not isinstance(platform, Platform):
        return Platform.of(platform, npus=ranks)
    if ranks not in (None, platform.npus):
        said = f"{counted(ranks, 'rank')} for {counted(platform.npus, 'NPU')} of {platform.name}"
        raise InputError([Problem("", "ranks", said, str(platform.npus))])
    return platform


def node_of(wanted: int | None, ranks: int, facts: dict[str, Any]) -> int:
    """Ranks of a node: those of the platform's innermost dimension, if they divide the ranks."""
    if wanted is not None:
        return wanted
    dims = (facts.get("fabric") or {}).get("dims") or []
    size = int(dims[0]["size"]) if len(dims) > 1 else ranks
    return size if ranks % size == 0 else 1


def check(cost: str, ranks: int, each: int, access: float, message: float) -> None:
    """Raises `InputError` for wrong numbers of `plan`."""
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


def unable(facts: dict[str, Any], chosen: Options) -> str:
    """Why a step can't be simulated with another plan; nothing where it can."""
    if chosen.bench is not None:
        return "the measured times of a bench file are those of one plan"
    if facts["npu"]["compute"] == "recorded":
        return "the platform does not say how long computations take (npu.peak, npu.compute)"
    return ""


def check_backend(backend: str | None, simulate: bool) -> None:
    """Raises `InputError` for an unknown network, and for one that nothing would use."""
    if backend is None:
        return
    backends.known(backend)
    if not simulate:
        said = "has no effect: no step is simulated"
        raise InputError([Problem("", "backend", said, "with simulate only")])


def dense_bytes(model: Dlrm, sizes: DlrmSizes, chosen: Options) -> int:
    """Bytes of the MLPs on a rank: weights, gradients, optimizer state, and the inputs of their
    layers."""
    inputs = sum(layer.inputs for layer in model.dense) + model.interaction.inputs
    held = sizes.dense + sizes.gradient + DENSE_OPTIMIZERS[chosen.dense_optimizer]
    return model.dense_parameters * held + inputs * sizes.local_batch * sizes.dense


def require_host(platform: Platform, rates: Rates) -> None:
    """Refuses tables on hosts where the platform has no way to them."""
    if rates.host == float("inf"):
        said = "is missing: tables have no room in the NPUs' memory, and go to the hosts'"
        allowed = "such as {model: link, sharing: per_npu, bandwidth: 31 GB/s, latency: 1 us}"
        raise InputError([Problem(platform.source, "remote_memory", said, allowed)])


def schemes_of(wanted: Sequence[str] | None) -> tuple[ShardScheme, ...]:
    """The schemes that may be taken."""
    unknown = [scheme for scheme in wanted or () if scheme not in SHARD_SCHEMES]
    if unknown or (wanted is not None and not wanted):
        said = f"unknown scheme {unknown[0]!r}" if unknown else "there is none"
        raise InputError([Problem("", "schemes", said, ", ".join(SHARD_SCHEMES))])
    return tuple(scheme for scheme in SHARD_SCHEMES if scheme in (wanted or SHARD_SCHEMES))


def ways_of(table: EmbeddingTable, sizes: Sizes, rates: Rates, allowed: Sequence[str]) -> list[Way]:
    """The allowed ways to shard a table."""
    every = ways(table, sizes, rates)
    found = [way for way in every if way.scheme in allowed]
    if not found:
        near = ", ".join(sorted({way.scheme for way in every}))
        said = f"table {table.name} of {table.rows} x {table.dim} has no scheme that is allowed"
        raise InputError([Problem("", "schemes", said, f"one of {near}")])
    return found


def no_room(menu: Sequence[Sequence[Way]], sizes: Sizes, dense: int, capacity: int) -> Problem:
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
        "more memory; 16-bit tables (table_precision fp16); rowwise_adagrad or sgd; a cache, for "
        "tables on hosts or disks"
    )
    if capacity > dense:
        allowed = f"about {counted(-(-least // (capacity - dense)), 'rank')} or more; {allowed}"
    return Problem("", "capacity", said, allowed)


def result_of(
    task: Task,
    platform: str,
    cost: str,
    whole: Searched,
    kept: Sequence[Candidate],
    steps: Simulated,
) -> Plan:
    """The plan of the fastest step, or of the lowest costs, with what it is compared with."""
    found, best = whole.found, kept[steps.fastest].placed
    listed = tuple(
        ComparedPlan(
            each.found_by,
            each.simple,
            each.placed.highest,
            steps.steps[at],
            at == steps.fastest,
        )
        for at, each in enumerate(kept)
    )
    return Plan(
        task.model.name,
        platform,
        kept[steps.fastest].sharding,
        cost,
        task.rates.unit,
        tuple(best.loads.tolist()),
        found.bound,
        tuple(best.memory.tolist()),
        int(task.used(whole.away)[0]),
        0,
        tuple(bytes_away(best, "host", task.sizes).tolist()),
        tuple(bytes_away(best, "disk", task.sizes).tolist()),
        found.heuristics,
        lowest=min(each.placed.highest for each in kept),
        allowed=None if set(task.schemes) == set(SHARD_SCHEMES) else task.schemes,
        step_ns=steps.steps[steps.fastest],
        compared=listed,
        by_costs=steps.failed or None,
        warnings=steps.warnings,
        alike=steps.alike,
    )


def refuse_decided(given: Mapping[str, object]) -> None:
    """Refuses options of the workload that a plan decides."""
    names = [name for name in given if name in DECIDED]
    if names:
        said, help_ = (
            "is not an option of a plan, which decides it",
            "schemes, ranks, ranks_per_node",
        )
        raise InputError([Problem("", name, said, help_) for name in names])
