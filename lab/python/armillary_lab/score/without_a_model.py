"""Best accuracy that the measured sweeps allow: their own neighbours without a model, and the same
measured twice.

A held-out size for which a straight line through its measured neighbours (logarithm of time over
logarithm of size) is far off jumps, or is noise; so is what two measurements of the same differ by.
Beyond the measured sizes the line goes on as between the last two, and never down. Not here: what
fits make of the same sizes (`unseen_collectives`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

from ..measured.sweeps import Error, MeasuredSweep, by_band

Part = Callable[[MeasuredSweep], object]
"""Groups in which sweeps are compared."""

Points = Sequence[tuple[int, float]]


def neighbours(sweep: MeasuredSweep) -> Iterator[Error]:
    """Every second size from its neighbours; both ways round."""
    for first in (0, 1):
        kept, left = sweep.points[first::2], sweep.points[1 - first :: 2]
        yield from by_band(
            sweep, ((size, abs(math.log(line(kept, size) / us))) for size, us in left)
        )


def line(points: Points, size: int) -> float:
    """The time at `size` bytes on a line through its neighbouring points, by logarithms; of a size
    that was measured more than once the mean."""
    known = _logarithms(points)
    at = math.log(size)
    above = next((place for place, (x, _) in enumerate(known) if x >= at), len(known))
    low, high = (
        known[min(max(above, 1), len(known) - 1) - 1],
        known[min(max(above, 1), len(known) - 1)],
    )
    slope = (high[1] - low[1]) / (high[0] - low[0])
    if not known[0][0] <= at <= known[-1][0]:
        slope = max(slope, 0.0)
    near = high if at > known[-1][0] else low
    return math.exp(near[1] + slope * (at - near[0]))


def _logarithms(points: Points) -> list[tuple[float, float]]:
    times: dict[int, list[float]] = {}
    for size, us in points:
        times.setdefault(size, []).append(math.log(us))
    return [(math.log(size), sum(each) / len(each)) for size, each in sorted(times.items())]


def repeated(sweeps: Sequence[MeasuredSweep]) -> list[Error]:
    """The same measured twice: one sweep against another of the same collective, GPUs, preset and
    source.

    Only of sources that changed nothing between two sweeps but what their presets say.
    """
    same: dict[tuple[object, ...], list[MeasuredSweep]] = {}
    for sweep in sweeps:
        if sweep.source.startswith("argonne-lcf/"):
            same.setdefault((sweep.collective, sweep.preset, sweep.settings), []).append(sweep)
    return [
        error
        for group in same.values()
        for pair in combinations(group, 2)
        for error in _differences(*pair)
    ]


def other_sources(sweeps: Sequence[MeasuredSweep]) -> list[Error]:
    """A sweep from what other sources measured on the same machine: the same collective, GPUs and
    preset. At each size that is within theirs, the mean of the logarithms of their times. No model
    that knows a machine from others can be expected to do better."""
    return _from_each(
        sweeps,
        lambda sweep: (sweep.collective, sweep.preset, sweep.settings),
        lambda sweep: sweep.repository,
    )


def other_setups(sweeps: Sequence[MeasuredSweep]) -> list[Error]:
    """A sweep from what its source measured on the same machine with other settings or versions,
    which have presets of their own. No model that does not know the settings can be expected to do
    better."""
    return _from_each(
        sweeps,
        lambda sweep: (sweep.repository, sweep.collective, sweep.gpu, sweep.gpus, sweep.nodes),
        lambda sweep: sweep.preset,
    )


def _from_each(sweeps: Sequence[MeasuredSweep], alike: Part, apart: Part) -> list[Error]:
    """Each sweep from those that are alike in one thing and differ in another."""
    same: dict[object, list[MeasuredSweep]] = {}
    for sweep in sweeps:
        same.setdefault(alike(sweep), []).append(sweep)
    return [
        error
        for group in same.values()
        for sweep in group
        for error in _from_others(sweep, [each for each in group if apart(each) != apart(sweep)])
    ]


def _from_others(sweep: MeasuredSweep, others: Sequence[MeasuredSweep]) -> list[Error]:
    """Errors by band; nothing where no other sweep has sizes around."""
    found = []
    for size, us in sweep.points:
        near = [each for each in others if _within(each.points, size)]
        if near:
            logs = [math.log(line(each.points, size)) for each in near]
            found.append((size, abs(sum(logs) / len(logs) - math.log(us))))
    return by_band(sweep, iter(found))


def _within(points: Points, size: int) -> bool:
    sizes = sorted({each for each, _ in points})
    return len(sizes) > 1 and sizes[0] <= size <= sizes[-1]


def _differences(one: MeasuredSweep, other: MeasuredSweep) -> list[Error]:
    times = dict(other.points)
    return by_band(
        one, ((size, abs(math.log(us / times[size]))) for size, us in one.points if size in times)
    )
