"""Many parameters moved at once: logarithms of times follow their slopes, and a linear program
finds the best point within reach.

```text
minimize  sum over points w |miss + slope . (x - begin)| + sum over parameters price |x|
within    |x - begin| <= reach
```

A search that moves one parameter at a time stops at kinks of such a sum, where only a move of
several improves it. Source of the linear program: the simplex method on sums of absolute values,
I. Barrodale and F. D. K. Roberts, "An improved algorithm for discrete l1 linear approximation"
(SIAM Journal on Numerical Analysis 10, 1973)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

_NOTHING = 1e-6
"""Largest value that counts as zero."""


@dataclass(slots=True)
class Slopes:
    """How far points are missed, and how that changes with parameters."""

    misses: list[float] = field(default_factory=list)
    """ln(predicted / measured), one for each point."""
    weights: list[float] = field(default_factory=list)
    """The price of each miss."""
    _rows: list[int] = field(default_factory=list)
    _columns: list[int] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)

    def add(self, misses: Sequence[float], weights: Sequence[float]) -> int:
        """Adds points. Returns the place of the first one."""
        first = len(self.misses)
        self.misses.extend(misses)
        self.weights.extend(weights)
        return first

    def depend(self, first: int, slopes: Sequence[float], columns: Sequence[int]) -> None:
        """The points from `first` on change by these slopes with each of these parameters."""
        for at, slope in enumerate(slopes):
            if slope:
                for column in columns:
                    self._rows.append(first + at)
                    self._columns.append(column)
                    self._values.append(slope)

    def effects(self, count: int) -> list[float]:
        """The most by which each of `count` parameters may lower the sum, for a change by 1."""
        found = [0.0] * count
        for row, column, slope in zip(self._rows, self._columns, self._values, strict=True):
            found[column] += self.weights[row] * abs(slope)
        return found

    def best(
        self, begin: Sequence[float], prices: Sequence[float], reach: float
    ) -> NDArray[np.float64]:
        """The parameters with the lowest sum within reach of where they begin."""
        points, count = len(self.misses), len(begin)
        place = (np.array(self._rows, dtype=np.int64), np.array(self._columns, dtype=np.int64))
        slopes = sparse.csc_array((self._values, place), shape=(points, count))
        ones = sparse.identity(points, format="csc")
        at = np.array(begin)
        # Each parameter and each miss is the difference of two parts that are not negative.
        upper = np.concatenate([at + reach, reach - at, np.full(2 * points, np.inf)])
        lower = np.concatenate([at - reach, -at - reach, np.zeros(2 * points)])
        found = linprog(
            np.concatenate([prices, prices, self.weights, self.weights]),
            A_eq=sparse.hstack([slopes, -slopes, -ones, ones], format="csc"),
            b_eq=slopes @ at - np.array(self.misses),
            bounds=np.column_stack([lower.clip(min=0.0), upper.clip(min=0.0)]),
            method="highs",
        )
        if found.x is None:
            return at
        moved = found.x[:count] - found.x[count : 2 * count]
        moved[np.abs(moved) < _NOTHING] = 0.0
        return np.asarray(moved)
