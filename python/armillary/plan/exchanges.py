"""The search for a plan whose exchanges have latencies.

A step does each exchange once for all tables that need it. So the cost of a plan is that of its
tables and, once, that of the exchanges of the schemes it uses. A search (`search.py`) knows the
costs of tables only. So it begins with all schemes, and then takes sets of fewer schemes, those
whose lower bound with the costs of their exchanges is below the best plan so far. Each plan uses
one of the sets, so the lowest of the bounds of all sets is a bound of every plan."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ..model.sharding_plan import ShardScheme
from .bound import Menu, lower_bound
from .costs import EXCHANGES, Rates, Sizes, Way
from .partition import Whole
from .search import HEURISTICS, NEAR, Found, distinct, enough, search


def search_paying(
    ways: Sequence[Sequence[Way]],
    used: Whole,
    room: int,
    sizes: Sizes,
    rates: Rates,
    progress: Callable[[float], None] | None = None,
) -> Found:
    """Results of a search over these ways, whose plans pay for kernels and exchanges too. Its bound
    is one of plans that use all of these schemes."""
    schemes = _schemes(ways)
    found = search(ways, used, room, sizes.ranks_per_node, progress)
    paid = {name: placed.paying(rates, sizes) for name, placed in found.simple.items()}
    return Found(
        found.best and found.best.paying(rates, sizes),
        found.bound + rates.fixed(sizes) + rates.once(schemes, sizes),
        {name: paid[name].highest if name in paid else float("inf") for name in HEURISTICS},
        tuple(near.paying(rates, sizes) for near in found.near),
        paid,
    )


def search_exchanges(
    ways: Sequence[Sequence[Way]],
    used: Whole,
    room: int,
    sizes: Sizes,
    rates: Rates,
    progress: Callable[[float], None] | None = None,
) -> Found:
    """The best of the plans that searches over all schemes and over fewer find. Its bound is one of
    every plan."""
    schemes = _schemes(ways)
    best = search_paying(ways, used, room, sizes, rates, progress)
    once = rates.once(schemes, sizes)
    if best.best is None or once == 0.0:
        return best
    menu = Menu.of(ways, sizes.ranks, sizes.ranks_per_node, room - int(used.min()))
    # Costs of tables do not fall with fewer schemes.
    tables = best.bound - rates.fixed(sizes) - once
    near = 1 + enough(len(ways), sizes.ranks)
    for fewer in _fewer(schemes):
        paid = rates.fixed(sizes) + rates.once(fewer, sizes)
        bound = tables + paid
        if bound * near < best.best.highest:
            bound = lower_bound(menu.only(fewer)) + paid
        if bound * near < best.best.highest:
            kept = [[way for way in options if way.scheme in fewer] for options in ways]
            best = _better(best, search_paying(kept, used, room, sizes, rates))
        best = replace(best, bound=min(best.bound, bound))
        assert best.best is not None
    return best


def _schemes(ways: Sequence[Sequence[Way]]) -> list[ShardScheme]:
    """The schemes of these ways, in a fixed order."""
    there = {way.scheme for options in ways for way in options}
    return [scheme for scheme in EXCHANGES if scheme in there]


def _fewer(schemes: Sequence[ShardScheme]) -> Iterator[list[ShardScheme]]:
    """Sets of these schemes that need fewer exchanges, the fewest first."""
    kinds = sorted({EXCHANGES[scheme] for scheme in schemes})
    for count in range(1, len(kinds)):
        for chosen in itertools.combinations(kinds, count):
            yield [scheme for scheme in schemes if EXCHANGES[scheme] in chosen]


def _better(one: Found, other: Found) -> Found:
    """The best plans of two searches, whose best plan is there."""
    plans = [plan for each in (one, other) for plan in (each.best, *each.near) if plan is not None]
    first, *near = distinct(sorted(plans, key=lambda plan: plan.highest))
    simple = dict(one.simple)
    for name, plan in other.simple.items():
        if name not in simple or plan.highest < simple[name].highest:
            simple[name] = plan
    scores = {name: min(one.heuristics[name], other.heuristics[name]) for name in HEURISTICS}
    return Found(first, min(one.bound, other.bound), scores, tuple(near[:NEAR]), simple)
