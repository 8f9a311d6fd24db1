"""How far measurements support a change at sizes and of collectives that were not measured.

Parameters are shared: a call's overhead that explains small messages moves larger ones, too. So
after a fit, no time may move further from the platform's than the measurements around its size did.
Between two measured sizes, that is as far as these moved. Beyond them, large messages and small
ones go on as the last one, since bandwidth or latency alone decides there; in between the change
fades until 16 times the last size. A collective that was not measured may move as far as those that
were measured over the same ranks. What moves further gets factors by size (`corrections`).

Here: the limits, and the corrections that keep to them. Not here: the fit (`fit`)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from .. import nccl
from ..errors import InputError
from . import corrections
from .case import Case
from .corrections import Correction
from .unfinished_tables import MeasuredTable

GRID = tuple(2**power for power in range(10, 34))
"""Bytes at which times are compared with the limits."""
_LARGE, _SMALL = 2**24, 2**16
"""Bytes from which bandwidth decides, and up to which latency does."""
_FADES = math.log(16)
_LEAST = -0.95
_CLOSE = 0.01
"""Change of a time (natural logarithm) that is not worth a correction."""

Place = tuple[int, int]
Span = Callable[[int, float], tuple[float, float]]
"""Least and largest change at a size, for a collective with the given time in us there."""
Ratios = list[tuple[int, float]]
"""ln(measured / given) by ascending size."""


@dataclass(frozen=True)
class Supported:
    """Sizes that were measured of one collective over the same ranks, and how far they moved."""

    moved: Ratios
    given: Mapping[int, float] = field(default_factory=dict)
    """The platform's us at the sizes of the grid."""

    def of_another(self, size: int, given_us: float) -> tuple[float, float]:
        """The same for a collective that takes `given_us` on the platform: the same share of its
        time, or the same us, because the host's part of a call is equal for all."""
        ends = self.at(size)
        us = [self.given.get(size, 0.0) * math.expm1(change) for change in ends]
        other = [math.log1p(max(each / given_us, _LEAST)) for each in us]
        return min(*ends, *other), max(*ends, *other)

    def at(self, size: int) -> tuple[float, float]:
        """The least and the largest change (natural logarithm) that is supported at a size."""
        if not self.moved:
            return 0.0, 0.0
        sizes = [each for each, _ in self.moved]
        place = bisect_left(sizes, size)
        if place < len(sizes) and sizes[place] == size:
            return self.moved[place][1], self.moved[place][1]
        if 0 < place < len(sizes):
            ends = (self.moved[place - 1][1], self.moved[place][1])
            return min(ends), max(ends)
        last, change = self.moved[0 if place == 0 else -1]
        goes_on = last <= _SMALL if place == 0 else last >= _LARGE
        part = 1.0 if goes_on else max(0.0, 1 - abs(math.log(size / last)) / _FADES)
        return min(0.0, part * change), max(0.0, part * change)


def limited(
    measured: Sequence[Case], values: Mapping[str, float], made: Sequence[Correction]
) -> list[Correction]:
    """The corrections `made`, with those that keep all collectives within what is supported."""
    known = {each.key: each for each in made}
    for place, kinds in _places(measured).items():
        limits = {kind: _supported(cases) for kind, cases in kinds.items()}
        some = next(iter(kinds.values()))[0]
        for kind in nccl.OPERATIONS:
            own = limits.get(kind)
            case = _on_grid(some, kind, own)
            key = (kind, *place)
            points = known[key].points if key in known else ()
            fixed = {size for size, _ in points} if own else set()
            span = _of_others([*limits.values()]) if own is None else _of_itself(own)
            if found := _kept(case, values, span, points, fixed):
                known[key] = Correction(*key, found)
    return list(known.values())


def _of_itself(own: Supported) -> Span:
    return lambda size, _: own.at(size)


def _of_others(limits: Sequence[Supported]) -> Span:
    """Values that were not measured may stay, or move as far as any of those that were."""

    def span(size: int, given_us: float) -> tuple[float, float]:
        ends = [limit.of_another(size, given_us) for limit in limits]
        return min(0.0, *(low for low, _ in ends)), max(0.0, *(high for _, high in ends))

    return span


def _places(measured: Sequence[Case]) -> dict[Place, dict[str, list[Case]]]:
    found: dict[Place, dict[str, list[Case]]] = {}
    for case in measured:
        found.setdefault(case.place, {}).setdefault(case.table.collective, []).append(case)
    return found


def _supported(cases: Sequence[Case]) -> Supported:
    """Measurements of one collective, by size; repeated sizes by their mean."""
    moved: dict[int, list[float]] = {}
    for case in cases:
        rows = zip(case.table.points, case.times_before(), strict=True)
        for (size, measured), before in rows:
            if size > 0:
                moved.setdefault(size, []).append(math.log(measured / before))
    ratios = [(size, sum(each) / len(each)) for size, each in sorted(moved.items())]
    grid = cases[0].at([(size, 1.0) for size in GRID])
    return Supported(ratios, dict(zip(GRID, grid.times_before(), strict=True)))


def _on_grid(case: Case, kind: str, limit: Supported | None) -> Case:
    """A collective over the ranks of a case, at the sizes of the grid and those measured."""
    own = [size for size, _ in limit.moved] if limit else []
    points = tuple((size, 1.0) for size in sorted({*GRID, *own}))
    table = MeasuredTable(case.table.file, kind, case.table.ranks, points)
    return Case(table, case.platform, case.given)


def _kept(
    case: Case,
    values: Mapping[str, float],
    span: Span,
    points: corrections.Points,
    fixed: Collection[int],
) -> tuple[tuple[int, float], ...]:
    """Factors that keep a collective within limits, those at `fixed` sizes as they are; nothing
    where `points` do that."""
    try:
        before, model = case.times_before(), case.times(values)
    except InputError:
        return ()
    known = corrections.known(points, case.at(points).times(values)) if points else []
    sizes = [size for size, _ in case.table.points]
    after = [corrections.corrected(known, *each) for each in zip(sizes, model, strict=True)]
    wanted = [
        now if size in fixed else then * math.exp(_clamped(math.log(now / then), span(size, then)))
        for size, then, now in zip(sizes, before, after, strict=True)
    ]
    wanted = _rising(sizes, before, wanted, fixed)
    if all(abs(math.log(a / b)) <= _CLOSE for a, b in zip(wanted, after, strict=True)):
        return ()
    return tuple((size, us / ours) for size, us, ours in zip(sizes, wanted, model, strict=True))


def _clamped(change: float, ends: tuple[float, float]) -> float:
    return min(max(change, ends[0]), ends[1])


def _rising(
    sizes: Sequence[int], before: Sequence[float], wanted: Sequence[float], fixed: Collection[int]
) -> list[float]:
    """Times that fall with more bytes, beyond what was measured, only where they did before."""
    found: list[float] = []
    last = max(fixed, default=0)
    for at, (size, us) in enumerate(zip(sizes, wanted, strict=True)):
        rises = at > 0 and size > last and before[at] >= before[at - 1]
        found.append(max(us, found[-1]) if rises else us)
    return found
