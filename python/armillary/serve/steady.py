"""Means of a steady state: the warm-up is cut off, and an interval says how sure they are.

The warm-up ends where the marginal standard error is least (MSER-5: White 1997, Simulation 69(6);
batches of 5, at most half of the run). The 95 % interval is that of batch means (Schmeiser 1982,
Operations Research 30(3)) with 20 batches. Both are rules for one long run in a steady state: a
growing queue has none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_BATCH = 5
_BATCHES = 20
_QUANTILE = 2.093
"""0.975 quantile of Student's t with 19 degrees of freedom."""
LEAST = 100
"""Values below which there is no interval."""


@dataclass(frozen=True, slots=True)
class Steady:
    """A mean without the warm-up."""

    warm_up: int
    """Values that are cut off."""
    mean: float
    half: float
    """Half of the 95 % interval."""


def steady(values: Sequence[float]) -> Steady | None:
    """The mean of values in the order of time; `None` for fewer than 100."""
    if len(values) < LEAST:
        return None
    start = warm_up(values)
    rest = values[start:]
    size = len(rest) // _BATCHES
    tail = rest[len(rest) - size * _BATCHES :]
    means = [sum(tail[at * size : (at + 1) * size]) / size for at in range(_BATCHES)]
    centre = sum(means) / _BATCHES
    spread = sum((mean - centre) ** 2 for mean in means) / (_BATCHES - 1)
    return Steady(start, sum(rest) / len(rest), _QUANTILE * math.sqrt(spread / _BATCHES))


def warm_up(values: Sequence[float]) -> int:
    """Values of the warm-up by MSER-5, a multiple of 5."""
    count = len(values) // _BATCH
    batches = [sum(values[at * _BATCH : (at + 1) * _BATCH]) / _BATCH for at in range(count)]
    best, start = math.inf, 0
    total = squares = 0.0
    for at in range(count - 1, -1, -1):
        total += batches[at]
        squares += batches[at] ** 2
        number = count - at
        error = (squares - total**2 / number) / number**2
        if at <= count // 2 and error <= best:
            best, start = error, at
    return start * _BATCH
