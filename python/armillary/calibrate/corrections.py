"""Residual errors of the model, by size: factors that a platform's `library.corrections` holds.

A factor is `measured / predicted`, kept within 15 % of the median of three neighbouring sizes, so
that a single outlier does not stay. Between two sizes, a corrected time has gone the same part of
the way as the model's time, as in `crates/lowering/src/library/correction.rs`. So it gets shorter
with more bytes only where measured times do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_NEAR = 0.15
_LEAST = 3
"""Fewest sizes that make a correction."""
_FLAT = 0.1
"""A model that changes by less between two sizes (natural logarithm) doesn't show where between
them a time changes."""

Points = Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Correction:
    """Factors of a collective over `inside` members in each of `between` nodes, by ascending size
    in bytes."""

    collective: str
    inside: int
    between: int
    points: tuple[tuple[int, float], ...]

    @property
    def key(self) -> tuple[str, int, int]:
        """Collective, members in a node, and nodes."""
        return self.collective, self.inside, self.between

    def setting(self) -> str:
        """The correction as an entry of `library.corrections`."""
        sizes = ", ".join(f"{size} B" for size, _ in self.points)
        factors = ", ".join(f"{factor:.4f}" for _, factor in self.points)
        of = f"collective: {self.collective}, ranks_per_node: {self.inside}, nodes: {self.between}"
        return f"{{{of}, sizes: [{sizes}], factors: [{factors}]}}"


def factors(found: Points) -> tuple[tuple[int, float], ...]:
    """A correction from `measured / predicted` by size, in any order, repeated or not; nothing of
    fewer than three sizes."""
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


@dataclass(frozen=True, slots=True)
class Known:
    """A size in bytes with a factor: what the model says there, and what it says corrected, us."""

    size: int
    model_us: float
    us: float


def known(points: Points, model_us: Sequence[float]) -> list[Known]:
    """Sizes and factors with the model's time at each size, us."""
    return [
        Known(size, time, time * factor)
        for (size, factor), time in zip(points, model_us, strict=True)
    ]


def corrected(sizes: Sequence[Known], size: int, model_us: float) -> float:
    """The time at `size` bytes, us; the model's without known sizes, and as at the nearest beyond
    them."""
    above = next((at for at, each in enumerate(sizes) if each.size >= size), len(sizes))
    if sizes and above in (0, len(sizes)):
        nearest = sizes[min(above, len(sizes) - 1)]
        return model_us * nearest.us / nearest.model_us
    return _between(sizes[above - 1], sizes[above], size, model_us) if sizes else model_us


def _between(low: Known, high: Known, size: int, model_us: float) -> float:
    change = math.log(high.model_us / low.model_us)
    if abs(change) > _FLAT and (change > 0) == (high.us > low.us):
        part = min(max((model_us - low.model_us) / (high.model_us - low.model_us), 0.0), 1.0)
    else:
        part = (math.sqrt(size) - math.sqrt(low.size)) / (
            math.sqrt(high.size) - math.sqrt(low.size)
        )
    return low.us + (high.us - low.us) * part
