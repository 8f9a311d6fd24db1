"""From residuals of left-out measurements to the interval of a prediction.

An interval is a pair of quantiles of weighted residuals:

```text
weight      = likeness of the labels / sqrt(measurements of the same source with that likeness)
likeness    = product over the labels that differ of likeness[label]
tail        = (1 - level)/2 n/(n + 1), with n effective sources
low, high   = m + stretch (q - m) for the weighted quantiles q of tail and 1 - tail
m           = the middle of both quantiles
stretch     = common stretch * product over the labels of factor[label, value]
time within   predicted exp(low) .. predicted exp(high), and the prediction itself
```

A source counts by the square root of its measurements, because those of one machine miss by similar
amounts. Few sources make the tails smaller, hence the interval wider, as conformal prediction does
for finite samples. `stretch` is found by leaving out one source after another, so that `level` of
the left-out measurements lie within (`calibrated`): of all, and, by the factors, of each value of
each label as far as sources allow. What n measurements need is the conformal quantile, the
`ceil(level (n + 1))`-th smallest of their stretches. A factor is what its group needs to the power
`1 - 1/n^2` with `n` sources, and a group of a single source has none. Factors of several labels are
found in turns, as in iterative proportional fitting.

A label whose value no residual has (a number format, a network without measurements) is an
extrapolation. It is named, and each one widens the logarithm of the interval by `FURTHER`.

Source: V. Vovk and others, "Algorithmic Learning in a Random World" (2005), chapter 2; weights:
R. J. Tibshirani and others, "Conformal Prediction Under Covariate Shift" (NeurIPS 2019), section 2.
Sources as groups: R. F. Barber and others, "Conformal Prediction Beyond Exchangeability" (Annals of
Statistics 51, 2023). The square root and the likenesses are choices; `stretch` makes up for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .residuals import Residual

LEVEL = 0.8
"""Part of the measurements that an interval should contain."""
FURTHER = math.sqrt(2)
"""Factor by which each extrapolation that has no residuals widens an interval. A choice: the
variance doubles, as if what is unknown weighed as much as everything that is known."""
_LIKE = 0.5
"""Likeness across a label that a table gives no likeness for."""
_WIDEST = 8.0
_TURNS = 12
_THINNEST = 1e-6
"""Half width of an interval between equal residuals."""
_FACTOR = 4.0
"""Largest factor of a label's value."""


Factors = tuple[float, float]
"""The ends of an interval, as factors on a prediction."""


def indistinct(ratio: float, one: Factors, other: Factors) -> bool:
    """Whether the uncertainty of two predictions does not separate them: their difference lies
    within the interval of one of both. `ratio` is the second prediction over the first, `one` and
    `other` are their intervals. An interval on one side of its prediction also holds what is
    between the two."""
    return any(
        min(low, 1.0) <= factor <= max(high, 1.0)
        for factor, (low, high) in ((ratio, one), (1 / ratio, other))
    )


@dataclass(frozen=True, slots=True)
class Interval:
    """Factors on a prediction between which `level` of the measurements should lie."""

    low: float
    high: float
    level: float
    sources: float
    """Effective number of sources behind it: of sources with equal weights, their number."""
    labels: Mapping[str, str]
    outside: tuple[str, ...]
    """Labels that nothing measured has, as `label value`."""

    def of(self, value: float) -> tuple[float, float]:
        """The interval around a predicted value."""
        return value * self.low, value * self.high

    def holds(self, ratio: float) -> bool:
        """Whether a measurement, `ratio` times the prediction, lies within the interval."""
        return self.low <= ratio <= self.high

    @property
    def factors(self) -> Factors:
        """Both ends."""
        return self.low, self.high

    @property
    def width(self) -> float:
        """ln(high / low)."""
        return math.log(self.high / self.low)

    @property
    def origin(self) -> str:
        """Where it comes from, as a phrase."""
        known = ", ".join(
            value for name, value in self.labels.items() if f"{name} {value}" not in self.outside
        )
        found = f"left-out measurements most like {known or 'it'}; {self.sources:.1f} sources"
        return found + (f"; extrapolated: {', '.join(self.outside)}" if self.outside else "")


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many left-out measurements lay within their intervals."""

    name: str
    measurements: int
    within: int
    sources: int

    @property
    def part(self) -> float:
        """Part of the measurements within."""
        return self.within / self.measurements


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals from residuals."""

    residuals: tuple[Residual, ...]
    likeness: Mapping[str, float]
    """What a residual counts whose label of this kind differs, 0 to 1."""
    stretch: float = 1.0
    factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Factors on `stretch` by label and value."""

    def interval(self, labels: Mapping[str, str], level: float = LEVEL) -> Interval:
        """The interval of a prediction with these labels, which holds the prediction. Without any
        residuals it is unbounded."""
        found = self._interval(self.residuals, labels, level)
        return replace(found, low=min(found.low, 1.0), high=max(found.high, 1.0))

    def _interval(
        self, residuals: Sequence[Residual], labels: Mapping[str, str], level: float
    ) -> Interval:
        outside = tuple(
            f"{name} {value}"
            for name, value in labels.items()
            if all(each.labels.get(name) != value for each in residuals)
        )
        weighted, effective = self._weights(residuals, labels)
        if not weighted:
            return Interval(0.0, math.inf, level, 0.0, dict(labels), outside)
        tail = (1 - level) / 2 * effective / (effective + 1)
        low, high = (math.exp(quantile(weighted, part)) for part in (tail, 1 - tail))
        plain = Interval(low, high, level, effective, dict(labels), outside)
        stretch = self.stretch * _factor(self.factors, labels)
        return _stretched(plain, stretch * FURTHER ** len(outside))

    def _weights(
        self, residuals: Sequence[Residual], labels: Mapping[str, str]
    ) -> tuple[list[tuple[float, float]], float]:
        """(log, weight) of every measurement in ascending order, and the effective number of
        sources."""
        alike = [self._likeness(each.labels, labels) for each in residuals]
        totals: dict[tuple[str, float], int] = {}
        for each, like in zip(residuals, alike, strict=True):
            key = (each.source, like)
            totals[key] = totals.get(key, 0) + len(each.logs)
        found = [
            (log, like / math.sqrt(totals[each.source, like]))
            for each, like in zip(residuals, alike, strict=True)
            for log in each.logs
        ]
        of_source: dict[str, float] = {}
        for (source, like), count in totals.items():
            of_source[source] = of_source.get(source, 0.0) + like * math.sqrt(count)
        squares = sum(weight**2 for weight in of_source.values())
        effective = sum(of_source.values()) ** 2 / squares if squares else 0.0
        return sorted(found), effective

    def _likeness(self, ours: Mapping[str, str], wanted: Mapping[str, str]) -> float:
        like = 1.0
        for name, value in wanted.items():
            if ours.get(name) != value:
                like *= self.likeness.get(name, _LIKE)
        return like

    def without(self, source: str) -> Intervals:
        """The same from the residuals of other sources."""
        kept = tuple(each for each in self.residuals if each.source != source)
        return replace(self, residuals=kept)

    def left_out(self, level: float = LEVEL) -> Iterator[tuple[Residual, Interval]]:
        """Every residual with the interval that the other sources give."""
        others = {source: self.without(source) for source in sources(self.residuals)}
        known: dict[tuple[object, ...], Interval] = {}
        for each in self.residuals:
            key = (each.source, *sorted(each.labels.items()))
            if key not in known:
                known[key] = others[each.source].interval(each.labels, level)
            yield each, known[key]

    def coverage(
        self, by: Callable[[Residual], str] = lambda _: "all", level: float = LEVEL
    ) -> list[Coverage]:
        """How many measurements of each group lie in the intervals that other sources give."""
        counts: dict[str, list[tuple[Residual, int]]] = {}
        for each, interval in self.left_out(level):
            within = sum(interval.holds(math.exp(log)) for log in each.logs)
            counts.setdefault(by(each), []).append((each, within))
        return [
            Coverage(
                name,
                sum(len(each.logs) for each, _ in found),
                sum(within for _, within in found),
                len(sources([each for each, _ in found])),
            )
            for name, found in sorted(counts.items())
        ]


def sources(residuals: Sequence[Residual]) -> list[str]:
    """Sources in the order of their first residual."""
    return list(dict.fromkeys(each.source for each in residuals))


def calibrated(
    residuals: Sequence[Residual], likeness: Mapping[str, float], level: float = LEVEL
) -> Intervals:
    """Intervals whose `stretch` and `factors` put `level` of the measurements of left-out sources
    within. A single source has no other to be compared with: `stretch` stays 1."""
    plain = Intervals(tuple(residuals), dict(likeness))
    needs = [need for each, other in plain.left_out(level) for need in _needs(each, other)]
    if not needs:
        return plain
    factors: dict[str, dict[str, float]] = {name: {} for name in likeness}
    for _ in range(_TURNS):
        common = _common(needs, factors, level)
        for name in likeness:
            for value in sorted({each.labels[name] for each in needs if name in each.labels}):
                group = [each for each in needs if each.labels.get(name) == value]
                count = len({each.source for each in group})
                if count > 1:
                    factors[name].pop(value, None)
                    wanted = _common(group, factors, level) / common
                    shrunk = wanted ** (1 - 1 / count**2)
                    factors[name][value] = min(max(shrunk, 1 / _FACTOR), _FACTOR)
    common = min(max(_common(needs, factors, level), 1 / _WIDEST), _WIDEST)
    return replace(plain, stretch=common, factors=factors)


@dataclass(frozen=True, slots=True)
class _Need:
    """The stretch at which an interval reaches a left-out measurement."""

    labels: Mapping[str, str]
    source: str
    stretch: float


def _needs(left: Residual, interval: Interval) -> Iterator[_Need]:
    if not interval.sources:
        return
    low, high = math.log(interval.low), math.log(interval.high)
    half = max((high - low) / 2, _THINNEST)
    for log in left.logs:
        yield _Need(left.labels, left.source, abs(log - (low + high) / 2) / half)


def _common(
    needs: Sequence[_Need], factors: Mapping[str, Mapping[str, float]], level: float
) -> float:
    """The smallest stretch with `level` of one more measurement than these within: the quantile of
    conformal prediction, which holds a new measurement with probability `level`."""
    ordered = sorted(each.stretch / _factor(factors, each.labels) for each in needs)
    return ordered[min(math.ceil(level * (len(ordered) + 1)), len(ordered)) - 1]


def _factor(factors: Mapping[str, Mapping[str, float]], labels: Mapping[str, str]) -> float:
    return math.prod(
        values[labels[name]] for name, values in factors.items() if labels.get(name) in values
    )


def _stretched(interval: Interval, by: float) -> Interval:
    """The interval with ends `by` times as far from their geometric middle."""
    low, high = math.log(interval.low), math.log(interval.high)
    middle = (low + high) / 2
    half = by * (high - low) / 2
    return replace(interval, low=math.exp(middle - half), high=math.exp(middle + half))


def quantile(weighted: Sequence[tuple[float, float]], part: float) -> float:
    """The value below which `part` of the weight of (value, weight) lies, in ascending order of
    values; between two values in proportion."""
    total = sum(weight for _, weight in weighted)
    below, last = 0.0, None
    for value, weight in weighted:
        at = (below + weight / 2) / total
        if at >= part:
            if last is None:
                return value
            low, where = last
            return low + (value - low) * (part - where) / (at - where)
        last = (value, at)
        below += weight
    return weighted[-1][0]
