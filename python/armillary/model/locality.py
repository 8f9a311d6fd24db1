"""How often rows of embedding tables are looked up, and which of them a cache holds.

Model. Lookups are independent draws; row `i` of a table of `rows` is drawn with a probability
proportional to `i ** -exponent` (Zipf). Of `n` draws in a step, row `i` is among them with

    seen(i) = 1 - (1 - p_i) ** n

An LRU cache of `slots` rows holds the rows of the last `T` steps, where `T` follows from its size
(Che et al., "Hierarchical Web caching systems", IEEE JSAC 2002), for all tables that share it:

    slots   = sum of 1 - (1 - p_i) ** (n T)
    fetched = sum of seen(i) (1 - p_i) ** (n T)        rows that a step brings into the cache

Rows of several sizes count by size.

Ranks beyond the first 1,024 are taken together in ranges that grow by 2 %."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_SINGLE = 1024
_GROWTH = 1.02
_HALVINGS = 100
_CLOSE = 1e-9
"""Share of a capacity from which on a sum is exact."""
_KNOWN, _MANY = 64, 4096
"""Tables whose ranges are kept (some 100 KB each), and those whose number of rows is."""


@dataclass(frozen=True)
class Popularity:
    """Zipf's law over the rows of a table; `exponent` 0 draws all rows alike."""

    rows: int
    exponent: float

    @property
    def ranges(self) -> tuple[tuple[int, float], ...]:
        """Numbers of rows, and the probability of each of them."""
        return _ranges(self.rows, self.exponent)

    def seen(self, lookups: float) -> float:
        """Different rows among this number of lookups, on average."""
        return _seen(self, lookups)


@lru_cache(_KNOWN)
def _ranges(rows: int, exponent: float) -> tuple[tuple[int, float], ...]:
    found, begin = [], 1
    while begin <= rows:
        end = begin + 1 if begin < _SINGLE else math.ceil(begin * _GROWTH)
        end = min(end, rows + 1)
        middle = math.sqrt(begin * (end - 1))
        found.append((end - begin, middle**-exponent))
        begin = end
    total = math.fsum(count * weight for count, weight in found)
    return tuple((count, weight / total) for count, weight in found)


@lru_cache(_MANY)
def _seen(popularity: Popularity, lookups: float) -> float:
    ranges = popularity.ranges
    return math.fsum(count * -math.expm1(lookups * _log_rest(each)) for count, each in ranges)


@dataclass(frozen=True, slots=True)
class Demand:
    """Lookups of a table in a step, and what a cache has to do with it."""

    popularity: Popularity
    lookups: float
    """Lookups of all rows of the table."""
    share: float = 1.0
    """Part of the rows that are behind this cache, popular ones as others."""
    size: float = 1.0
    """Size of a row, in the unit of the cache's capacity."""


def fetched(tables: Sequence[Demand], capacity: float) -> list[float]:
    """Rows of each table that a step brings into an LRU cache of `capacity`, which the tables
    share, on average in the long run."""
    if capacity >= sum(table.popularity.rows * table.share * table.size for table in tables):
        return [0.0] * len(tables)
    steps = _age(tables, capacity)
    return [
        table.share
        * math.fsum(
            count * -math.expm1(rate) * math.exp(rate * steps) for count, rate in _rates(table)
        )
        for table in tables
    ]


def _age(tables: Sequence[Demand], capacity: float) -> float:
    """Steps for which a row stays in the cache without being looked up."""
    import numpy as np  # not with every model

    rows = [
        (table.share * table.size * count, rate)
        for table in tables
        for count, rate in _rates(table)
    ]
    sizes, rates = np.array(rows).T

    def has_room(steps: float) -> bool:
        held = -float(sizes @ np.expm1(rates * steps))
        if abs(held - capacity) < _CLOSE * capacity:
            held = math.fsum(size * -math.expm1(rate * steps) for size, rate in rows)
        return held < capacity

    least, most = 0.0, 1.0
    while has_room(most) and most < 1e18:
        least, most = most, 2 * most
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        least, most = (middle, most) if has_room(middle) else (least, middle)
        if most - least <= 1e-9 * most:
            break
    return (least + most) / 2


def _rates(table: Demand) -> list[tuple[int, float]]:
    """Numbers of rows, and the logarithm of the probability that a step looks up none of a row."""
    return [(count, table.lookups * _log_rest(each)) for count, each in table.popularity.ranges]


def _log_rest(probability: float) -> float:
    return math.log1p(-min(probability, 1 - 1e-15))
