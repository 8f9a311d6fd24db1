"""Zipf's law and LRU caches, next to sums over single rows and a cache that is played through."""

from __future__ import annotations

import collections
import random

import pytest

from armillary.model.locality import Demand, Popularity, fetched


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.2])
def test_different_rows_are_those_of_a_sum_over_rows(exponent: float) -> None:
    rows, lookups = 50_000, 20_000
    weights = [rank**-exponent for rank in range(1, rows + 1)]
    total = sum(weights)
    exact = sum(1 - (1 - weight / total) ** lookups for weight in weights)
    assert Popularity(rows, exponent).seen(lookups) == pytest.approx(exact, rel=1e-3)


def test_probabilities_add_up_to_one() -> None:
    for rows in (1, 1000, 10**10):
        ranges = Popularity(rows, 1.05).ranges
        assert sum(count for count, _ in ranges) == rows
        assert sum(count * each for count, each in ranges) == pytest.approx(1)


@pytest.mark.parametrize("exponent", [0.0, 0.9])
def test_a_cache_fetches_what_a_played_one_does(exponent: float) -> None:
    """Two tables share an LRU cache of 1,500 rows; 100 steps, the first 60 to warm it up."""
    drawn, slots = random.Random(3), 1500
    tables = ((4000, 600), (1000, 200))
    cache: collections.OrderedDict[tuple[int, int], None] = collections.OrderedDict()
    misses = [0, 0]
    weights = [[rank**-exponent for rank in range(1, rows + 1)] for rows, _ in tables]
    for step in range(100):
        seen = [
            (table, row)
            for table, (rows, lookups) in enumerate(tables)
            for row in set(drawn.choices(range(rows), weights[table], k=lookups))
        ]
        drawn.shuffle(seen)
        for table, row in seen:
            if (table, row) not in cache and step >= 60:
                misses[table] += 1
            cache[table, row] = None
            cache.move_to_end((table, row))
        while len(cache) > slots:
            cache.popitem(last=False)
    demands = [Demand(Popularity(rows, exponent), lookups) for rows, lookups in tables]
    for ours, played in zip(fetched(demands, slots), misses, strict=True):
        assert ours == pytest.approx(played / 40, rel=0.05)


def test_everything_fits_or_nothing() -> None:
    demands = [Demand(Popularity(1000, 1.0), 500)]
    assert fetched(demands, 1000) == [0.0]
    assert fetched(demands, 0)[0] == pytest.approx(demands[0].popularity.seen(500), rel=1e-6)
