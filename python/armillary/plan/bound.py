"""A lower bound on the greatest load of a rank, whatever the plan.

A plan with no load above `C` uses, of each table, a way none of whose shards costs more than `C`.
The mean load of the ranks is the sum of what each way costs on average, and the mean memory
likewise, so for any price `p >= 0` of a byte

    C >= sum over tables of (min over ways with shards up to C of mean cost + p mean memory)
         - p room

(Lagrange: the memory of a rank is `room` at most). The bound is the least `C` for which that holds
with every price. No plan beats it; a plan may not reach it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..model.sharding_plan import ShardScheme
from .costs import Way

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Menu:
    """The ways of all tables as arrays [tables, ways]; those that a table does not have cost
    infinitely much."""

    ways: tuple[tuple[Way, ...], ...]
    largest: Floats
    """The costliest shard."""
    heaviest: Floats
    """Bytes of the shard with most."""
    cost: Floats
    """Mean cost on a rank."""
    memory: Floats
    """Mean bytes on a rank."""
    room: int
    _prices: dict[int, float] = field(default_factory=dict, compare=False, repr=False)
    """Prices that are known, by the number of costs that shards may have (`_below`)."""

    @classmethod
    def of(cls, ways: Sequence[Sequence[Way]], ranks: int, ranks_per_node: int, room: int) -> Menu:
        """The menu of `ways`, for each table, without those that no rank has room for."""
        shape = (len(ways), max(map(len, ways), default=0))
        largest, cost = np.full(shape, np.inf), np.full(shape, np.inf)
        memory, heaviest = np.full(shape, np.inf), np.full(shape, np.inf)
        share = {"rank": 1 / ranks, "node": ranks_per_node / ranks, "all": 1.0}
        for table, options in enumerate(ways):
            for at, way in enumerate(options):
                part = share[way.place]
                if max(way.memory) > room:
                    continue
                largest[table, at] = max(way.costs)
                heaviest[table, at] = max(way.memory)
                cost[table, at] = part * sum(way.costs)
                memory[table, at] = part * sum(way.memory)
        return cls(tuple(map(tuple, ways)), largest, heaviest, cost, memory, room)

    def only(self, schemes: Collection[ShardScheme]) -> Menu:
        """The menu without other schemes."""
        width = self.largest.shape[1]
        has = [[way.scheme in schemes for way in options] for options in self.ways]
        allowed = np.array([each + [False] * (width - len(each)) for each in has], bool)

        def kept(values: Floats) -> Floats:
            return np.where(allowed, values, np.inf)

        return Menu(
            self.ways,
            kept(self.largest),
            kept(self.heaviest),
            kept(self.cost),
            kept(self.memory),
            self.room,
        )

    def pick(self, most: float, price: float, bytes_: float = np.inf) -> NDArray[np.int64]:
        """The cheapest way of each table with shards up to a cost of `most` and up to `bytes_`,
        where a byte costs `price`; -1 where there is none."""
        paid = np.where(self.heaviest <= bytes_, self._paid(most, price), np.inf)
        best = np.argmin(paid, axis=1)
        found = np.take_along_axis(paid, best[:, None], 1)[:, 0]
        return np.where(np.isfinite(found), best, -1)

    def _paid(self, most: float, price: float) -> Floats:
        paid = self.cost + (price * self.memory if price else 0.0)
        return np.where(self.largest <= most, paid, np.inf)

    def value(self, most: float, price: float) -> float:
        """The right side of the inequality."""
        return float(self._paid(most, price).min(1).sum() - price * self.room)

    def price(self, most: float) -> float:
        """The price at which the picked ways take the room on average, which makes the right side
        largest; 0 where all fit anyway. Infinite where no price is enough."""
        below = self._below(most)
        if below not in self._prices:
            self._prices[below] = self._found_price(most)
        return self._prices[below]

    @cached_property
    def _costs(self) -> Floats:
        """Costs of the costliest shards, ascending."""
        return np.unique(self.largest)

    def _below(self, most: float) -> int:
        """How many of these costs are up to `most`. Limits with the same number allow the same
        ways."""
        return int(np.searchsorted(self._costs, most, "right"))

    def _found_price(self, most: float) -> float:
        cost = self._paid(most, 0.0)
        tables = np.arange(len(cost))
        if not np.isfinite(cost.min(1)).all():
            return 0.0

        def takes(price: float) -> bool:
            """Whether the picked ways take more than the room on average."""
            paid = cost + price * self.memory if price else cost
            return bool(self.memory[tables, paid.argmin(axis=1)].sum() > self.room)

        if not takes(0.0):
            return 0.0
        low, high = 0.0, 1e-18
        while takes(high):
            high *= 8
            if high > 1e30:
                return float("inf")
        for _ in range(80):
            middle = (low + high) / 2
            if middle in (low, high):
                break
            low, high = (middle, high) if takes(middle) else (low, middle)
        return high


def lower_bound(menu: Menu) -> float:
    """The bound; infinite where no plan has room.

    The right side falls as `C` grows, so bisection finds where they meet."""
    if not menu.ways:
        return 0.0
    highest = float(menu.largest[np.isfinite(menu.largest)].max(initial=0.0))
    low, high = 0.0, max(highest, _right(menu, highest))
    if not np.isfinite(high):
        return float("inf")
    for _ in range(60):
        middle = (low + high) / 2
        if _holds(menu, middle):
            high = middle
        else:
            low = middle
    return low


def _right(menu: Menu, most: float) -> float:
    price = menu.price(most)
    return float("inf") if price == float("inf") else menu.value(most, price)


def _holds(menu: Menu, most: float) -> bool:
    return _right(menu, most) <= most
