"""The search for a plan: which way each table is sharded, then where its shards go.

For a limit on the cost of a shard, each table takes its cheapest way below it, at the price of
memory that the lower bound found. Heuristics place the shards; moves and swaps improve the best
placement. Lower limits cut tables finer, which costs more in all and balances better, so several
are tried. Then single tables of the best plans take other ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..model.sharding_plan import PLACES, ShardScheme
from .bound import Menu, lower_bound
from .costs import Way
from .partition import Shards, Whole, by_memory, by_node, differencing, greedy, improved
from .placed import Placed
from .refine import kicked, moved, refined

HEURISTICS: dict[str, Callable[[Shards], Whole | None]] = {
    "greedy": greedy,
    "differencing": differencing,
    "by_node": by_node,
    "by_memory": by_memory,
}
"""Ways to place shards, by name."""

CUTS = (float("inf"), 1.0, 0.7, 0.5, 0.35, 0.25, 0.15)
"""Limits on the cost of a shard that are tried, as shares of the lower bound. Without a limit, each
table has its cheapest way, as in the paper's heuristics."""

ENOUGH = (1e-6, 0.002)
"""The search ends when the greatest load is this close to the lower bound; the second where tables
and ranks are many (`_LARGE`)."""

KEPT = 4
"""Plans that single tables leave for other ways, the best ones."""

NEAR = 2
"""Other plans of these that are reported, next to the best one."""

STEPS = 400
"""Such changes of a plan in a round, at most."""

KICKS = 8
"""Searches that begin again from the best plan with a few tables changed at random, at most; fewer
for more tables and ranks."""
_TABLE_RANKS = 4000

_ROUNDS = 8
_LARGE = 100_000
"""Tables times ranks from which fewer choices are tried."""


@dataclass(frozen=True)
class Found:
    """Result of a search."""

    best: Placed | None
    """`None` if no plan has room."""
    bound: float
    """No plan has a lower greatest load; infinite where no plan can have room."""
    heuristics: dict[str, float]
    """The greatest load of each heuristic on its own, without moves and swaps; infinite where it
    found no plan with room."""
    near: tuple[Placed, ...] = ()
    """Other plans with low loads, the lowest first."""
    simple: dict[str, Placed] = field(default_factory=dict)
    """The plan of each heuristic on its own."""


def enough(tables: int, ranks: int) -> float:
    """How close to the lower bound a load has to be."""
    return ENOUGH[tables * ranks > _LARGE]


def search(
    ways: Sequence[Sequence[Way]],
    used: Whole,
    room: int,
    ranks_per_node: int,
    progress: Callable[[float], None] | None = None,
) -> Found:
    """The best plan found for tables with these `ways`, where each rank has `room` bytes and has
    `used` some of them."""
    ranks = len(used)
    menu = Menu.of(ways, ranks, ranks_per_node, room - int(used.min()))
    bound = lower_bound(menu)
    simple: dict[str, Placed] = {}
    if not np.isfinite(bound):
        return _found([], bound, simple)
    large = len(ways) * ranks > _LARGE
    near = bound * (1 + enough(len(ways), ranks))
    kept: list[Placed] = []
    tries = list(_tries(menu, bound))
    for number, picked in enumerate(tries):
        if progress is not None:
            progress(number / len(tries))
        if kept and (kept[0].highest <= near or (large and number > len(CUTS))):
            break
        split = _split(menu, picked, used, ranks, room, ranks_per_node)
        if split is None:
            continue
        shards, owners = split
        starts = {name: place(shards) for name, place in HEURISTICS.items()}
        for name, at in starts.items():
            if at is None:
                continue
            load = float(shards.loads(at).max(initial=0.0))
            if name not in simple or load < simple[name].highest:
                simple[name] = _placed(menu, picked, shards, owners, at)
        found = [at for at in starts.values() if at is not None]
        found.sort(key=lambda at: float(shards.loads(at).max(initial=0.0)))
        better = [improved(shards, at, bound) for at in found[:2]]
        kept += [_placed(menu, picked, shards, owners, at) for at in better]
        kept = sorted(kept, key=lambda placed: placed.highest)[:KEPT]
    done = [_polished(menu, placed, used, room, ranks_per_node, near) for placed in kept]
    best = min(done, key=lambda placed: placed.highest, default=None)
    random = np.random.default_rng(0)
    for _ in range(min(KICKS, _TABLE_RANKS // (len(ways) * ranks))):
        if best is None or best.highest <= near:
            break
        other = kicked(menu, best, room, ranks_per_node, random)
        other = moved(other, used, room, ranks_per_node, near)
        best = min(
            best,
            _polished(menu, other, used, room, ranks_per_node, near),
            key=lambda placed: placed.highest,
        )
    return _found([best, *done] if best is not None else [], bound, simple)


def _found(done: Sequence[Placed], bound: float, simple: dict[str, Placed]) -> Found:
    """Results for the best plan and others."""
    scores = {name: simple[name].highest if name in simple else np.inf for name in HEURISTICS}
    near = distinct([*done[:1], *sorted(done[1:], key=lambda placed: placed.highest)])[1:]
    return Found(done[0] if done else None, bound, scores, tuple(near[:NEAR]), simple)


def distinct(plans: Sequence[Placed]) -> list[Placed]:
    """Each different plan once, in their order."""
    known = {(each.ways, each.places): each for each in reversed(plans)}
    return [each for each in plans if known[each.ways, each.places] is each]


def _tries(menu: Menu, bound: float) -> Iterator[Whole]:
    """Ways for the tables, each choice once. Where memory is scarce also at higher prices of a
    byte, and with smaller shards. At the end, one scheme for all tables."""
    scarce = menu.price(bound) > 0 or menu.room < 2 * np.nanmax(
        np.where(np.isfinite(menu.heaviest), menu.heaviest, np.nan)
    )
    seen = set()
    for dearer in (1.0, 2.0, 8.0, 64.0) if scarce else (1.0,):
        for size in (np.inf, 0.5, 0.25, 0.1, 0.03) if scarce else (np.inf,):
            for cut in CUTS:
                picked = _picked(menu, cut * bound if bound > 0 else cut, dearer, size)
                if picked is not None and picked.tobytes() not in seen:
                    seen.add(picked.tobytes())
                    yield picked
    for scheme in PLACES:
        yield _alike(menu, scheme)


def _alike(menu: Menu, scheme: ShardScheme) -> Whole:
    """All tables with the scheme that have it, each the cheapest way; the others their cheapest."""
    schemes = [[way.scheme == scheme for way in options] for options in menu.ways]
    width = menu.cost.shape[1]
    has = np.array([each + [False] * (width - len(each)) for each in schemes])
    cost = np.where(np.isfinite(menu.largest), menu.cost, np.inf)
    wanted = np.where(has, cost, np.inf)
    any_ = np.isfinite(wanted.min(1))
    picked: Whole = np.where(any_, np.argmin(wanted, axis=1), np.argmin(cost, axis=1))
    return picked


def _picked(menu: Menu, most: float, dearer: float, size: float) -> Whole | None:
    """The way of each table: its cheapest with shards up to a cost of `most` and up to `size` of
    the room; where all are larger, the one whose shards are smallest, by cost or else by bytes."""
    price = menu.price(most)
    if not np.isfinite(price):
        return None
    if dearer > 1.0 and price == 0.0:
        known = np.isfinite(menu.cost)
        price = 1e-3 * float(menu.cost[known].sum() / menu.memory[known].sum())
    picked = menu.pick(most, price * dearer, size * menu.room)
    smallest = np.argmin(menu.largest if size == np.inf else menu.heaviest, axis=1)
    return np.where(picked >= 0, picked, smallest)


def _polished(menu: Menu, placed: Placed, used: Whole, room: int, each: int, near: float) -> Placed:
    """Other ways for single tables and moves of shards, in turns, as long as the greatest load
    falls."""
    for _ in range(_ROUNDS):
        if placed.highest <= near:
            break
        changed = refined(menu, placed, room, each, near, STEPS)
        better = moved(changed, used, room, each, near)
        if better.highest >= placed.highest * (1 - 1e-9):
            break
        placed = better
    return placed


def _split(
    menu: Menu, picked: Whole, used: Whole, ranks: int, room: int, each: int
) -> tuple[Shards, list[tuple[int, int]]] | None:
    """The shards that go to one rank each, with table and number; what is on all ranks, and what
    is on nodes (greedy over these), is in the base. `None` where that has no room."""
    chosen = [menu.ways[table][way] for table, way in enumerate(picked.tolist())]
    base, held = np.zeros(ranks), used.copy()
    costs: list[float] = []
    memory: list[int] = []
    owners: list[tuple[int, int]] = []
    by_nodes: list[tuple[float, int, int]] = []
    for table, way in enumerate(chosen):
        if way.place == "all":
            base += way.costs[0]
            held += way.memory[0]
        elif way.place == "node":
            by_nodes.append((way.costs[0], way.memory[0], table))
        else:
            costs += way.costs
            memory += way.memory
            owners += [(table, number) for number in range(len(way.costs))]
    if by_nodes:
        nodes = Shards(
            np.array([cost for cost, _, _ in by_nodes]),
            np.array([size for _, size, _ in by_nodes], np.int64),
            base[::each].copy(),
            held[::each].copy(),
            room,
            1,
        )
        starts = [place(nodes) for place in (greedy, differencing, by_memory)]
        found = [improved(nodes, at, 0.0) for at in starts if at is not None]
        if not found:
            return None
        at = min(found, key=lambda at: float(nodes.loads(at).max()))
        for (cost, size, table), node in zip(by_nodes, at.tolist(), strict=True):
            base[node * each : (node + 1) * each] += cost
            held[node * each : (node + 1) * each] += size
            owners.append((table, -1 - node))
    if (held > room).any():
        return None
    return Shards(np.array(costs), np.array(memory, np.int64), base, held, room, each), owners


def _placed(
    menu: Menu,
    picked: Whole,
    shards: Shards,
    owners: Sequence[tuple[int, int]],
    at: Whole,
) -> Placed:
    chosen = tuple(menu.ways[table][way] for table, way in enumerate(picked.tolist()))
    places: list[list[int]] = [[] for _ in chosen]
    ranks = at.tolist()
    for number, (table, shard) in enumerate(owners):
        places[table].append(ranks[number] if shard >= 0 else -1 - shard)
    return Placed(chosen, tuple(map(tuple, places)), shards.loads(at), shards.held(at))
