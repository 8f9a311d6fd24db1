"""Spearman's rank correlation."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def spearman(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Rank correlation; equal values share their mean rank. Nothing for fewer than three, or where
    all are the same."""
    columns = [[pair[at] for pair in pairs] for at in (0, 1)]
    if len(pairs) < 3 or any(len(set(values)) == 1 for values in columns):
        return None
    return statistics.correlation(*map(_ranks, columns))


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1, equal values their mean."""
    order = sorted(values)
    first = {value: order.index(value) + 1 for value in set(values)}
    return [first[value] + (order.count(value) - 1) / 2 for value in values]
