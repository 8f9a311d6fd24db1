"""What the model leaves of measurements, by size: factors that a platform's `library.corrections` holds.

A factor is `measured / predicted`, kept within 15 % of the median of three neighbouring sizes, so that a single outlier
does not stay. Between sizes it is interpolated over the square root of the size, as `crates/sim/src/library` does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_NEAR = 0.15
_LEAST = 3
"""Fewest sizes that make a correction."""

Points = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Correction:
    """Factors of a collective over `inside` members in each of `between` nodes, by ascending size in bytes."""

    collective: str
    inside: int
    between: int
    points: tuple[tuple[int, float], ...]

    def setting(self) -> str:
        """As an entry of `library.corrections`."""
        sizes = ", ".join(f"{size} B" for size, _ in self.points)
        factors = ", ".join(f"{factor:.4f}" for _, factor in self.points)
        of = f"collective: {self.collective}, inside: {self.inside}, between: {self.between}"
        return f"{{{of}, sizes: [{sizes}], factors: [{factors}]}}"


def factors(found: Points) -> tuple[tuple[int, float], ...]:
    """From `measured / predicted` by size, in any order, repeated or not; nothing of fewer than three sizes."""
    by_size: dict[int, list[float]] = {}
    for size, ratio in found:
        by_size.setdefault(size, []).append(math.log(ratio))
    sizes = sorted(by_size)
    logs = [_median(by_size[size]) for size in sizes]
    if len(sizes) < _LEAST:
        return ()
    return tuple((size, math.exp(_tamed(logs, at))) for at, size in enumerate(sizes))


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def _tamed(logs: Sequence[float], at: int) -> float:
    if not 0 < at < len(logs) - 1:
        return logs[at]
    middle = _median(logs[at - 1 : at + 2])
    return min(max(logs[at], middle - _NEAR), middle + _NEAR)


def factor(points: Points, size: int) -> float:
    """The factor at `size`; 1 without points."""
    if not points:
        return 1.0
    above = next((at for at, (known, _) in enumerate(points) if known >= size), None)
    if above is None or above == 0:
        return points[-1 if above is None else 0][1]
    (low, first), (high, last) = points[above - 1], points[above]
    part = (math.sqrt(size) - math.sqrt(low)) / (math.sqrt(high) - math.sqrt(low))
    return first * (1 - part) + last * part
