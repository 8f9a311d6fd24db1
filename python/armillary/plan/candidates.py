"""Plans that are simulated, so that the fastest of them is chosen.

A search lowers the greatest sum of costs of a rank, which is not the time of a step. So plans of
several kinds are kept: for all schemes that are allowed, for each one alone, and for whole tables
with each other one, the best plan by costs, the next ones, and what each heuristic finds alone;
then what the simulator does without a plan (`--sharding`).

Not here: how a plan is found (`search.py`), which one is chosen (`simulated.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import InputError
from ..model.dlrm import Dlrm, EmbeddingTable
from ..model.sharding import SCHEMES
from ..model.sharding_plan import ShardingPlan, ShardScheme, TablePlan, Tier
from .costs import EXCHANGES, Rates, Sizes, Way, hosted, ways
from .exchanges import search_exchanges, search_paying
from .partition import Whole
from .placed import Placed
from .search import Found
from .tiers import Menu, Room, bytes_away, search_tiers

BEST, NEAR = "search", "near"
"""The best plan of a search by costs, and the next ones."""


@dataclass(frozen=True)
class Candidate:
    """A plan that may be chosen."""

    found_by: tuple[str, ...]
    """`search`, `near` or a heuristic, with the schemes that tables could take if not all that are
    allowed: `greedy (table)`; `--sharding table` and so on for the simulator's own."""
    simple: bool
    """Whether a heuristic has it, the simulator by itself, or a search with one scheme only."""
    placed: Placed
    sharding: ShardingPlan


@dataclass(frozen=True)
class Task:
    """Input of the search for a plan."""

    model: Dlrm
    sizes: Sizes
    rates: Rates
    skew: float
    cache: int | None
    """Bytes of a rank for rows of tables in slower memory."""
    dense: int
    """Bytes of the MLPs on each rank."""
    schemes: tuple[ShardScheme, ...]
    """Allowed schemes."""
    menu: Menu
    """The ways of each table that are allowed."""
    room: Room
    """Room of hosts and disks."""
    require_host: Callable[[], None]
    """Raises `InputError` where the platform has no way to the hosts."""

    def used(self, away: bool) -> Whole:
        """Bytes of each rank before it has tables; `away`: some are in slower memory."""
        held = self.dense + (self.cache or 0 if away else 0)
        return np.full(self.sizes.ranks, held, np.int64)

    def sharding(self, placed: Placed) -> ShardingPlan:
        """A plan for the simulator and the trainer."""
        return placed.sharding(self.model.name, self.model.tables, self.sizes.ranks_per_node)

    def search(self, menu: Menu, held: int, progress: Callable[[float], None] | None) -> Searched:
        """The best plan by costs whose ranks hold `held` bytes at most; with tables in slower
        memory where there is no room otherwise, and a cache."""
        found = search_exchanges(menu, self.used(False), held, self.sizes, self.rates, progress)
        if found.best is not None or self.cache is None:
            return Searched(found, menu, False)
        self.require_host()
        return self.search_away(menu, held, progress)

    def search_away(
        self, menu: Menu, held: int, progress: Callable[[float], None] | None
    ) -> Searched:
        """The same with tables in slower memory."""
        used = self.used(True)
        found, offered = search_tiers(
            self.model.tables,
            menu,
            self.sizes,
            self.rates,
            self.skew,
            self.room,
            lambda ways: search_exchanges(ways, used, held, self.sizes, self.rates, progress),
        )
        return Searched(found, offered, True)


@dataclass(frozen=True)
class Searched:
    """Result of a search by costs."""

    found: Found
    menu: Menu
    """The ways that it chose from."""
    away: bool
    """Whether tables may be in slower memory."""

    @property
    def best(self) -> Placed:
        """The best plan by costs, where there is one."""
        assert self.found.best is not None
        return self.found.best


def candidates(
    task: Task,
    whole: Searched,
    held: int,
    own: Callable[[str], ShardingPlan],
    progress: Callable[[float], None],
) -> Iterator[Candidate]:
    """The plans to simulate in addition to those of `whole`, the search over all schemes. `own` is
    the plan of the simulator for a scheme."""
    families = list(_families(task, whole))
    for number, family in enumerate(families):
        progress(number / len(families))
        found = _searched(task, family, held, whole.away)
        if found is not None:
            limited = "all" if set(family) == set(task.schemes) else ", ".join(family)
            yield from of_search(task, family, found, f" ({limited})")
    for scheme in SCHEMES:
        placed = _own(task, whole, scheme, held, own)
        if placed is not None:
            yield Candidate((f"--sharding {scheme}",), True, placed, task.sharding(placed))


def _families(task: Task, whole: Searched) -> Iterator[tuple[ShardScheme, ...]]:
    """Each scheme alone, and whole tables with each other one. All together only where the best
    plan of `whole` has fewer exchanges than they need."""
    allowed = task.schemes
    others = [scheme for scheme in allowed if scheme != "table"]
    alone: list[tuple[ShardScheme, ...]] = [(scheme,) for scheme in allowed]
    pairs: list[tuple[ShardScheme, ...]] = [("table", scheme) for scheme in others]
    for family in alone + (pairs if "table" in allowed else []):
        if set(family) != set(allowed):
            yield family
    if len(allowed) > 1 and not _all_exchanges(task, whole.best):
        yield allowed


def _all_exchanges(task: Task, placed: Placed) -> bool:
    """Whether the tables of a plan need every exchange that the allowed schemes have."""
    used = {each for way in placed.ways for each in EXCHANGES[way.scheme]}
    return used == {each for scheme in task.schemes for each in EXCHANGES[scheme]}


def of_search(
    task: Task, schemes: Sequence[str], found: Found, limited: str = ""
) -> Iterator[Candidate]:
    """The plans of a search, the best one by costs first; `limited` says to which schemes."""
    if found.best is None:
        return
    plans = [(BEST, found.best), *((NEAR, each) for each in found.near), *found.simple.items()]
    for method, placed in plans:
        simple = method not in (BEST, NEAR) or len(schemes) == 1
        yield Candidate((method + limited,), simple, placed, task.sharding(placed))


def distinct(plans: Iterable[Candidate]) -> list[Candidate]:
    """Each different plan once, with all that found it."""
    known: dict[ShardingPlan, Candidate] = {}
    for plan in plans:
        first = known.setdefault(plan.sharding, plan)
        if first is not plan:
            names = (*first.found_by, *plan.found_by)
            both = replace(first, found_by=names, simple=first.simple or plan.simple)
            known[plan.sharding] = both
    return list(known.values())


def _searched(task: Task, family: Sequence[str], held: int, away: bool) -> Found | None:
    """The plans whose tables take the schemes of `family`, where they have one of them."""
    menu = [
        [way for way in options if way.scheme in family] or list(options) for options in task.menu
    ]
    if not away:
        return search_paying(menu, task.used(False), held, task.sizes, task.rates)
    try:
        return task.search_away(menu, held, None).found
    except InputError:  # a host or a disk has no room
        return None


def _own(
    task: Task, whole: Searched, scheme: str, held: int, own: Callable[[str], ShardingPlan]
) -> Placed | None:
    """Plan of the simulator by default; `None` where the tables have no such scheme, one that is
    not allowed, or no room."""
    try:
        plan = own(scheme)
    except InputError:  # such as tables with fewer rows than ranks
        return None
    tables = zip(task.model.tables, plan.tables, whole.menu, strict=True)
    found = [_way(task, *each) for each in tables]
    chosen = [way for way in found if way is not None]
    if len(chosen) < len(found):
        return None
    each = task.sizes.ranks_per_node
    places = [
        planned.ranks
        if way.place == "rank"
        else (planned.ranks[0] // each,)
        if way.place == "node"
        else ()
        for way, planned in zip(chosen, plan.tables, strict=True)
    ]
    placed = Placed.of(chosen, places, task.used(whole.away), each).paying(task.rates, task.sizes)
    return placed if placed.memory.max() <= held and _fits_away(task, placed) else None


def _way(
    task: Task, table: EmbeddingTable, planned: TablePlan, options: Sequence[Way]
) -> Way | None:
    """The way of a table in a plan; `None` if it is not allowed."""
    if planned.scheme != "column" or planned.scheme not in task.schemes:
        same = (way for way in options if (way.scheme, way.tier) == (planned.scheme, planned.tier))
        return next(same, None)
    parts = [_narrow(task, table, width) for width in planned.shares]
    way = Way(
        "column",
        tuple(part.costs[0] for part in parts),
        tuple(part.memory[0] for part in parts),
    )
    if planned.tier == "device":
        return way
    return hosted(way, table, task.sizes, task.rates, task.skew, planned.tier)


def _narrow(task: Task, table: EmbeddingTable, width: int) -> Way:
    """A shard of `width` columns: as a table of that width."""
    return ways(replace(table, dim=width), task.sizes, task.rates)[0]


def _fits_away(task: Task, placed: Placed) -> bool:
    """Whether hosts and disks have room."""
    limits: dict[Tier, int | None] = {"host": task.room.host, "disk": task.room.disk}
    return all(
        most is None or bytes_away(placed, tier, task.sizes).max() <= most
        for tier, most in limits.items()
    )
