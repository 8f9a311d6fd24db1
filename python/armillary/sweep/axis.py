"""A column of a sweep's table as something to draw against: numbers or categories, in at most
twelve bins; and how much of another column it explains.

`explained` is epsilon squared: of `n` points in `k` bins, `1 - (n - 1) / (n - k) * within / total`,
with the sums of squares within bins and in all: the correlation ratio without what bins of few
points explain by chance. Source: T. L. Kelley, "An unbiased correlation ratio measure", PNAS
21(9), 1935. Not here: charts (`charts.py`)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ..units import UNITS, split

MOST_BINS = 12
_APART = 0.08
"""Share of an axis that a label takes."""
_WIDE = 20.0
"""Numbers whose ends are further apart than this are drawn on a logarithmic scale."""


@dataclass(frozen=True)
class Axis:
    """A column: `texts` as the table has them, and for each row its bin and its place between the
    ends, 0 to 1."""

    name: str
    texts: Sequence[str]
    places: Sequence[float]
    bins: Sequence[str]
    """Names of the bins, in order."""
    bin_of: Sequence[int]
    ticks: Sequence[tuple[float, str]]
    """Places to be labelled, from 0 to 1: both ends, and what has room between them."""
    numbers: Sequence[float] | None
    """Numbers in base units (bytes, seconds, bytes a second, FLOPS) where texts have units; `None`
    for categories."""
    unit: str
    """The base unit: `B/s`; empty for plain numbers and categories."""


def axis(name: str, values: Sequence[Any], order: Sequence[str] = ()) -> Axis:
    """The axis of a column without nulls. Texts without a number come in `order`, others after
    them."""
    texts = [_text(value) for value in values]
    numbers, unit = _numbers(values)
    return (
        _categories(name, texts, order) if numbers is None else _numeric(name, texts, numbers, unit)
    )


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _numbers(values: Sequence[Any]) -> tuple[list[float] | None, str]:
    """The values in base units where all are numbers, or texts with units of one kind."""
    if all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in values
    ):
        return [float(value) for value in values], ""
    found = [split(value) if isinstance(value, str) else None for value in values]
    units = {UNITS[each[1]][0] for each in found if each is not None}
    if None in found or len(units) != 1:
        return None, ""
    return [float(each[0] * UNITS[each[1]][1]) for each in found if each is not None], units.pop()


def _categories(name: str, texts: Sequence[str], order: Sequence[str]) -> Axis:
    """Bins are the values, the rarest together where they are many."""
    often = [text for text, _ in Counter(texts).most_common()]
    known = {text: index for index, text in enumerate(order)}
    chosen = often if len(often) <= MOST_BINS else often[: MOST_BINS - 1]
    kept = sorted(chosen, key=lambda text: (known.get(text, len(known)), text))
    bins = kept if len(often) <= MOST_BINS else [*kept, f"{len(often) - len(kept)} others"]
    at = {text: index for index, text in enumerate(kept)}
    bin_of = [at.get(text, len(bins) - 1) for text in texts]
    places = [index / max(len(bins) - 1, 1) for index in bin_of]
    at_bin = [(index / max(len(bins) - 1, 1), each) for index, each in enumerate(bins)]
    return Axis(name, texts, places, bins, bin_of, spaced(at_bin), None, "")


def _numeric(name: str, texts: Sequence[str], numbers: Sequence[float], unit: str) -> Axis:
    """Bins are the values or, where there are more values than bins, hold equal numbers of
    points."""
    named = dict(zip(numbers, texts, strict=True))
    distinct = sorted(named)
    cuts = _cuts(sorted(numbers), distinct)
    bin_of_number = {number: sum(number >= cut for cut in cuts) for number in distinct}
    members: dict[int, list[float]] = {}
    for number in distinct:
        members.setdefault(bin_of_number[number], []).append(number)
    bins = [_span(named[some[0]], named[some[-1]]) for some in members.values()]
    renumbered = {old: new for new, old in enumerate(members)}
    bin_of = [renumbered[bin_of_number[number]] for number in numbers]
    ticks = spaced(list(zip(places(distinct), (named[each] for each in distinct), strict=True)))
    return Axis(name, texts, places(numbers), bins, bin_of, ticks, numbers, unit)


def _cuts(ordered: Sequence[float], distinct: Sequence[float]) -> list[float]:
    """Where bins begin, but for the first."""
    if len(distinct) <= MOST_BINS:
        return list(distinct[1:])
    return sorted({ordered[len(ordered) * part // MOST_BINS] for part in range(1, MOST_BINS)})


def _span(low: str, high: str) -> str:
    """`25 to 50 GB/s`."""
    number, _, unit = low.partition(" ")
    return (
        low if low == high else f"{number if unit and high.endswith(f' {unit}') else low} to {high}"
    )


def places(numbers: Sequence[float]) -> list[float]:
    """Where numbers stand between the least (0) and the largest (1), in the logarithm where these
    are far apart."""
    wide = min(numbers) > 0 and max(numbers) / min(numbers) > _WIDE
    shown = [math.log(number) for number in numbers] if wide else list(numbers)
    low, span = min(shown), max(shown) - min(shown)
    return [(number - low) / span if span else 0.5 for number in shown]


def spaced(ticks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """The ticks that have room: both ends, and those between them that don't overlap."""
    if len(ticks) < 2:
        return list(ticks)
    found = [ticks[0]]
    for tick in ticks[1:-1]:
        if found[-1][0] + _APART <= tick[0] <= ticks[-1][0] - _APART:
            found.append(tick)
    return [*found, ticks[-1]]


def explained(of: Axis, values: Sequence[float]) -> float:
    """How much of the variance of `values` (of their logarithm where all are above 0) the bins
    explain, 0 to 1."""
    shown = (
        [math.log(value) for value in values]
        if all(value > 0 for value in values)
        else list(values)
    )
    groups: dict[int, list[float]] = {}
    for index, value in zip(of.bin_of, shown, strict=True):
        groups.setdefault(index, []).append(value)
    count, total = len(shown), _squares(shown)
    if total <= 1e-18 or count <= len(groups):
        return 0.0
    within = sum(_squares(group) for group in groups.values())
    return max(0.0, 1 - (count - 1) / (count - len(groups)) * within / total)


def _squares(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)
