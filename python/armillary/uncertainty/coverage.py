"""How many measurements lie within their intervals, and how sure that is.

Measurements of one source miss together, so that 100 of one source say less than 100 of ten
sources. The range of a part is that of Wilson for an effective number of measurements:

```text
effective = n^2 / sum over sources of n_s (1 + (n_s - 1) r)
r         = mean correlation of two measurements of a source in a group: within or not
range     = (p + z^2/2m +- z sqrt(p (1 - p)/m + z^2/4m^2)) / (1 + z^2/m), with m effective
```

`n_s` are a source's measurements in the group, and `p` the part within. `r` is found from all
groups that are counted together: a mean over their sources by measurements, as a single group has
too few of them. If all measurements lie within, or none, it is not known and taken for 1.

Source: E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical Inference" (JASA
22, 1927); effective numbers: L. Kish, "Survey Sampling" (1965), chapter 5."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GOAL = (0.75, 0.85)
"""Part of the measurements that 80 % intervals should contain."""
_DEVIATES = 1.96
"""Standard deviations of a range that holds the true part in 95 % of all cases."""

Counted = Sequence[tuple[str, bool]]
"""Measurements: the source of each, and whether it lies within its interval."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many measurements lay within their intervals."""

    name: str
    measurements: int
    within: int
    sources: int
    low: float
    """The range of the part, given how few sources there are."""
    high: float

    @property
    def part(self) -> float:
        """Part of the measurements within."""
        return self.within / self.measurements

    @property
    def met(self) -> bool:
        """Whether the part is what it should be."""
        return GOAL[0] <= self.part <= GOAL[1]

    @property
    def apart(self) -> bool:
        """Whether all of its range is outside what the part should be."""
        return self.high < GOAL[0] or self.low > GOAL[1]


def counted(groups: Mapping[str, Counted]) -> list[Coverage]:
    """The coverage of groups of one kind, by name."""
    alike = _correlation(list(groups.values()))
    found = []
    for name, group in sorted(groups.items()):
        inside = sum(within for _, within in group)
        numbers = Counter(source for source, _ in group)
        spread = sum(count * (1 + (count - 1) * alike) for count in numbers.values())
        low, high = _wilson(inside / len(group), len(group) ** 2 / spread)
        found.append(Coverage(name, len(group), inside, len(numbers), low, high))
    return found


def _correlation(groups: Sequence[Counted]) -> float:
    """Correlation of two measurements of one source in one group."""
    every = [within for group in groups for _, within in group]
    part = sum(every) / len(every) if every else 0.0
    if not 0 < part < 1:
        return 1.0
    pairs, weights = 0.0, 0
    for group in groups:
        for source, count in Counter(source for source, _ in group).items():
            if count > 1:
                away = [within - part for each, within in group if each == source]
                pairs += (sum(away) ** 2 - sum(one**2 for one in away)) / (count - 1)
                weights += count
    return min(max(pairs / weights / (part * (1 - part)), 0.0), 1.0) if weights else 0.0


def _wilson(part: float, count: float) -> tuple[float, float]:
    square = _DEVIATES**2 / count
    middle = (part + square / 2) / (1 + square)
    half = _DEVIATES * math.sqrt((part * (1 - part) + square / 4) / count) / (1 + square)
    return max(middle - half, 0.0), min(middle + half, 1.0)
