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
the left-out measurements lie within (`calibrated`). The common stretch sees to that for all of
them, and then factors for each value of each label. What n measurements need is the conformal
quantile, the `ceil(level (n + 1))`-th smallest of their stretches. A factor is what its group
needs, if that is wider. If it is narrower, it is that to the power `1 - 1/n` with `n` sources,
since intervals that are too narrow are the worse mistake. A group of a single source has no factor.
Factors are found in turns, as in iterative proportional fitting, until none moves by a thousandth.
So groups that overlap all hold `level`, as far as they are of several sources.

A label whose value no residual has (a number format, a network without measurements) is an
extrapolation. It is named, and each one widens the logarithm of the interval by `FURTHER`.

Source: V. Vovk and others, "Algorithmic Learning in a Random World" (2005), chapter 2; weights:
R. J. Tibshirani and others, "Conformal Prediction Under Covariate Shift" (NeurIPS 2019), section 2.
Sources as groups: R. F. Barber and others, "Conformal Prediction Beyond Exchangeability" (Annals of
Statistics 51, 2023). Groups that overlap: C. Jung and others, "Batch Multivalid Conformal
Prediction" (ICLR 2023). The square root and the likenesses are choices; `stretch` makes up for
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .coverage import Coverage, counted
from .residuals import Residual

LEVEL = 0.8
"""Part of the measurements that an interval should contain."""
FURTHER = math.sqrt(2)
"""Factor by which each extrapolation that has no residuals widens an interval. A choice: the
variance doubles, as if what is unknown weighed as much as everything that is known."""
_LIKE = 0.5
"""Likeness across a label that a table gives no likeness for."""
_WIDEST = 8.0
_TURNS, _STILL = 100, 1e-3
"""Turns in which factors are found at most, and the change of their logarithms below which they
are."""
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


def alike(predictions: Sequence[tuple[float, Factors | None]]) -> int | None:
    """How many predictions their uncertainty does not separate from the first one. Nothing where
    the interval of one is unknown."""
    known = [(value, factors) for value, factors in predictions if factors is not None]
    if not known or len(known) < len(predictions):
        return None
    (first, interval), *others = known
    return sum(indistinct(value / first, interval, its) for value, its in others)


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
        """Both ends of the interval."""
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
class Intervals:
    """Intervals from residuals."""

    residuals: tuple[Residual, ...]
    likeness: Mapping[str, float]
    """Weight of a residual whose label of this kind differs, 0 to 1."""
    stretch: float = 1.0
    factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Factors on `stretch` by label and value."""

    def interval(self, labels: Mapping[str, str], level: float = LEVEL) -> Interval:
        """The interval of a prediction with these labels, which holds the prediction. Without any
        residuals it is unbounded."""
        return _with_prediction(self._interval(labels, level))

    def _interval(self, labels: Mapping[str, str], level: float) -> Interval:
        """The same, which need not hold the prediction."""
        outside = tuple(
            f"{name} {value}"
            for name, value in labels.items()
            if all(each.labels.get(name) != value for each in self.residuals)
        )
        weighted, effective = self._weights(labels)
        if not weighted:
            return Interval(0.0, math.inf, level, 0.0, dict(labels), outside)
        tail = (1 - level) / 2 * effective / (effective + 1)
        low, high = (math.exp(quantile(weighted, part)) for part in (tail, 1 - tail))
        plain = Interval(low, high, level, effective, dict(labels), outside)
        stretch = self.stretch * _factor(self.factors, labels)
        return _stretched(plain, stretch * FURTHER ** len(outside))

    def _weights(self, labels: Mapping[str, str]) -> tuple[list[tuple[float, float]], float]:
        """(log, weight) of every measurement in ascending order, and the effective number of
        sources."""
        alike = [self._likeness(each.labels, labels) for each in self.residuals]
        totals: dict[tuple[str, float], int] = {}
        for each, like in zip(self.residuals, alike, strict=True):
            key = (each.source, like)
            totals[key] = totals.get(key, 0) + len(each.logs)
        found = [
            (log, like / math.sqrt(totals[each.source, like]))
            for each, like in zip(self.residuals, alike, strict=True)
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
        for each, interval in _left_out(self.residuals, self.without, level):
            yield each, _with_prediction(interval)

    def new_sources(self, level: float = LEVEL) -> Iterator[tuple[Residual, Interval]]:
        """Every residual with the interval that the other sources give, whose stretch and factors
        are found without its source."""

        def of_others(source: str) -> Intervals:
            return calibrated(self.without(source).residuals, self.likeness, level)

        for each, interval in _left_out(self.residuals, of_others, level):
            yield each, _with_prediction(interval)


def coverage(
    found: Iterable[tuple[Residual, Interval]], by: Callable[[Residual], str] = lambda _: "all"
) -> list[Coverage]:
    """How many measurements of each group lie in their intervals."""
    groups: dict[str, list[tuple[str, bool]]] = {}
    for each, interval in found:
        group = groups.setdefault(by(each), [])
        group += [(each.source, interval.holds(math.exp(log))) for log in each.logs]
    return counted(groups)


def _left_out(
    residuals: Sequence[Residual], others: Callable[[str], Intervals], level: float
) -> Iterator[tuple[Residual, Interval]]:
    """Every residual with the interval of `others` than its source, which need not hold the
    prediction."""
    tables = {source: others(source) for source in sources(residuals)}
    known: dict[tuple[object, ...], Interval] = {}
    for each in residuals:
        key = (each.source, *sorted(each.labels.items()))
        if key not in known:
            known[key] = tables[each.source]._interval(each.labels, level)
        yield each, known[key]


def sources(residuals: Sequence[Residual]) -> list[str]:
    """Sources in the order of their first residual."""
    return list(dict.fromkeys(each.source for each in residuals))


def calibrated(
    residuals: Sequence[Residual], likeness: Mapping[str, float], level: float = LEVEL
) -> Intervals:
    """Intervals whose `stretch` and `factors` put `level` of the measurements of left-out sources
    within. A single source has no other to be compared with: `stretch` stays 1."""
    plain = Intervals(tuple(residuals), dict(likeness))
    others = _left_out(plain.residuals, plain.without, level)
    needs = [need for each, interval in others for need in _needs(each, interval)]
    if not needs:
        return plain
    common = _conformal([each.stretch for each in needs], level)
    common = min(max(common, 1 / _WIDEST), _WIDEST)
    factors: dict[str, dict[str, float]] = {name: {} for name in likeness}
    left = [each.stretch for each in needs]
    groups = list(_groups(needs, likeness))
    for _ in range(_TURNS):
        moved = 0.0
        for name, value, members, count in groups:
            had = factors[name].get(value, 1.0)
            wanted = _conformal([left[at] * had for at in members], level) / common
            if wanted < 1:
                wanted **= 1 - 1 / count
            factors[name][value] = found = min(max(wanted, 1 / _FACTOR), _FACTOR)
            for at in members:
                left[at] *= had / found
            moved = max(moved, abs(math.log(found / had)))
        if moved < _STILL:
            break
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
    middle, half = (low + high) / 2, max((high - low) / 2, _THINNEST)
    for log in left.logs:
        between = min(middle, 0.0) <= log <= max(middle, 0.0)
        yield _Need(left.labels, left.source, 0.0 if between else abs(log - middle) / half)


def _groups(
    needs: Sequence[_Need], names: Iterable[str]
) -> Iterator[tuple[str, str, list[int], int]]:
    """The values of labels that several sources have: label, value, which needs, and how many
    sources."""
    for name in names:
        for value in sorted({each.labels[name] for each in needs if name in each.labels}):
            members = [at for at, each in enumerate(needs) if each.labels.get(name) == value]
            count = len({needs[at].source for at in members})
            if count > 1:
                yield name, value, members, count


def _conformal(stretches: Sequence[float], level: float) -> float:
    """The smallest stretch with `level` of one more measurement than these within: the quantile of
    conformal prediction, which holds a new measurement with probability `level`."""
    return sorted(stretches)[min(math.ceil(level * (len(stretches) + 1)), len(stretches)) - 1]


def _factor(factors: Mapping[str, Mapping[str, float]], labels: Mapping[str, str]) -> float:
    return math.prod(
        values[labels[name]] for name, values in factors.items() if labels.get(name) in values
    )


def _with_prediction(interval: Interval) -> Interval:
    return replace(interval, low=min(interval.low, 1.0), high=max(interval.high, 1.0))


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
