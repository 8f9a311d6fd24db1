"""The search for parameters: which matter, which values fit best, and where each may lie.

The error has three parts. The first is the mean of `|ln(predicted / measured)|` over all points,
which single outliers move little. The second is a fifth of the same mean change of collectives that
were not measured (`kept`). The third is a little for every factor by which a parameter leaves its
first value. The error is lowered one parameter at a time (`descent.py`), by factors that shrink
from 3 to 1.01, again until that gains nothing. Single steps don't lead out of every valley: rings
on a fast network and trees on a slow one explain the same large all-reduces. So `explore` then
moves each parameter by a factor of 3 and descends again from there.

Then parameters that the measurements do not constrain go back to their first value (`settle`), one
at a time, while the others adapt. A parameter that still moves is needed to explain the
measurements.

An interval is where a parameter may lie, the wider of two. Alone: for errors of this form
(Laplace's distribution) the likelihood ratio at 95 % is `n (error / least error - 1) <= 1.92`.
Together with the others: 1.96 standard deviations of `error^2 (J'J + error^2)^-1`. J is the change
of log times with log parameters, each known to a factor of e beforehand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .descent import Point, descend, factors

_RATIO = 1.92
WIDE = 3.0
"""An interval up to this many times a value, or down to that part of it, means that the parameter
is unknown."""
_STEPS = (3.0, 1.7, 1.25, 1.12, 1.05, 1.02, 1.01)
_AFTER_THROW = (1.7, 1.25, 1.05, 1.02)
_THROW = 3.0
_GAIN = 1e-4
"""Least that a further descent must lower the error by."""
_ROUNDS, _DESCENTS = 8, 3
_LOWER, _ENOUGH = 1e-7, 1e-5
"""Least that a move, and a round, must lower the loss by (`descent.py`)."""
_KEEP = 0.2
"""Cost of a change to collectives that were not measured, as a part of the same error of measured
ones.

This and the next two are assumptions that move results little. All-reduces of 6 published machines
are fitted within 2.8 %, and their other collectives are then predicted within 7.3 % on average.
With half and twice the value of each constant these are 2.4 to 3.2 % and 6.5 to 7.6 %."""
STAY, STAY_OF_A_PLATFORM = 0.005, 0.02
"""Cost of leaving a parameter's value by a factor of e: for an initial value, and for one of a
described machine. Small enough that a measurement moves a parameter."""
_START = "library.call_overhead"
_HOST = (_START, "library.min_call_interval")
_HOST_STAYS = 0.3
"""As a part of that: a host's times differ from machine to machine; what may be its own or a link's
is its own."""
_LOSSES = 2**16
"""Losses that a search keeps at most."""
_DEVIATIONS = 1.96
_NUDGE = 1.001
_SURE = 0.002
"""Least error that is believed: times are printed with three or four digits."""

_OUTLIER = 3 * 1.4826
"""Standard deviations of a normal distribution, from the median of absolute deviations."""


class Measured(Protocol):
    """Measured times, us, and what a model makes of them with parameters (key to value) changed."""

    @property
    def measured(self) -> Sequence[float]: ...  # noqa: D102

    def times(self, values: Mapping[str, float]) -> list[float]: ...  # noqa: D102


class ParameterSearch:
    """Parameters (key to us, or part) of all cases together.

    `limits` are the largest values that are allowed. What is `kept` counts less than the cases and
    speaks for a model that changes nothing else. `stay` is what leaving its value by a factor of e
    costs a parameter."""

    def __init__(
        self,
        cases: Sequence[Measured],
        given: Mapping[str, float],
        limits: Mapping[str, float] | None = None,
        kept: Sequence[Measured] = (),
        stay: float = STAY,
    ) -> None:
        self._cases, self._given, self._limits, self._kept = cases, dict(given), limits or {}, kept
        self._stay = stay
        self._measured = [time for case in cases for time in case.measured]
        self._losses: dict[tuple[float, ...], float] = {}
        """Losses by values in the order of `given`: descents try most of them more than once."""

    def times(self, values: Mapping[str, float]) -> list[float]:
        """Predicted us, a point each."""
        return [time for case in self._cases for time in case.times(values)]

    def error(self, values: Mapping[str, float]) -> float:
        """The mean of `|ln(predicted / measured)|`, and a part of the mean change of what is to be
        kept."""
        return _off(self._cases, values) + (_KEEP * _off(self._kept, values) if self._kept else 0.0)

    def matters(self, key: str) -> bool:
        """Whether anything predicted changes with a parameter."""
        value, here = self._given[key], self.times(self._given)
        tried = [
            value * factor for factor in (0.25, 0.5, 2.0, 4.0) if self._allowed(key, value * factor)
        ]
        return any(self.times({**self._given, key: each}) != here for each in tried)

    def descend(self, moving: Sequence[str]) -> dict[str, float]:
        """The best values of `moving` that single steps lead to; the others stay."""
        best = dict(self._given)
        for _ in range(_DESCENTS):
            before = self._loss(best)
            best = self._descend(best, moving, _STEPS)
            if before - self._loss(best) < _GAIN:
                break
        return best

    def explore(self, moving: Sequence[str]) -> dict[str, float]:
        """Descent as in `descend`, then from each parameter thrown off; some ten times the work."""
        best = self.descend(moving)
        least = self._loss(best)
        for key in moving:
            for factor in (_THROW, 1 / _THROW):
                if self._allowed(key, best[key] * factor):
                    tried = self._descend({**best, key: best[key] * factor}, moving, _AFTER_THROW)
                    loss = self._loss(tried)
                    best, least = (tried, loss) if loss < least - _GAIN else (best, least)
        return best

    def settle(
        self,
        moving: Sequence[str],
        best: Mapping[str, float],
        home: Mapping[str, float] | None = None,
    ) -> tuple[list[str], dict[str, float]]:
        """The parameters that must move, and the best values with all others at `home`, or as they
        were given.

        Tried from the least certain on. A parameter stays back where, with the others fitted again,
        the error per degree of freedom (`n` points, `k` moving parameters) stays within a 95 %
        likelihood ratio of what it was: `e' / (n - k + 1) <= e / (n - k) (1 + 1.92 / n)`."""
        home = {**self._given, **(home or {})}
        kept, values = list(moving), dict(best)
        for key in self._least_certain_first(moving, best):
            others = [each for each in kept if each != key]
            tried = self._descend({**values, key: home[key]}, others, _AFTER_THROW)
            most = self._spread(values, len(kept)) * (1 + _RATIO / len(self._measured))
            if self._spread(tried, len(others)) <= most:
                kept, values = others, tried
        return kept, values

    def _spread(self, values: Mapping[str, float], moving: int) -> float:
        """The error per degree of freedom that `moving` parameters leave."""
        points = len(self._measured)
        return max(self.error(values), _SURE) * points / max(points - moving, 1)

    def _least_certain_first(self, moving: Sequence[str], best: Mapping[str, float]) -> list[str]:
        """By what each costs in standard deviations when it alone goes back."""
        deviations = dict(zip(moving, self._deviations(moving, best), strict=True))
        return sorted(
            moving,
            key=lambda key: (
                abs(math.log(best[key] / self._given[key])) / max(deviations[key], 1e-12)
            ),
        )

    def _descend(
        self, best: Mapping[str, float], moving: Sequence[str], sizes: Sequence[float]
    ) -> dict[str, float]:
        point = self._point(best)

        def trade(size: tuple[float, ...]) -> float:
            keys = [key for key in moving if key != _START] if _START in moving else []
            return sum(self._trade(point, key, size) for key in keys)

        moves = factors(*sizes)
        descend(moving, moves, point.attempt, enough=_ENOUGH, rounds=_ROUNDS, after=trade)
        return point.values

    def _point(self, values: Mapping[str, float]) -> Point:
        return Point(self._loss, dict(values), _LOWER, self._allowed)

    def _trade(self, point: Point, key: str, size: tuple[float, ...]) -> float:
        """Puts a parameter back where it was and lets the call's start make up for it, where that
        is no worse. Returns how much lower the loss is."""
        if point.values[key] == self._given[key]:
            return 0.0
        back = self._point({**point.values, key: self._given[key]})
        descend([_START], (size,), back.attempt)
        return point.take(back.values)

    def _loss(self, values: Mapping[str, float]) -> float:
        here = tuple(map(values.__getitem__, self._given))
        if here not in self._losses:
            if len(self._losses) >= _LOSSES:
                self._losses.clear()
            self._losses[here] = self._loss_at(values)
        return self._losses[here]

    def _loss_at(self, values: Mapping[str, float]) -> float:
        moved = {key: abs(math.log(value / self._given[key])) for key, value in values.items()}
        return self.error(values) + self._stay * sum(
            by * (_HOST_STAYS if key in _HOST else 1) for key, by in moved.items()
        )

    def _allowed(self, key: str, value: float) -> bool:
        """Parts of a bandwidth are at most all of it; a ring may lose more than that while it
        fills."""
        return 1e-5 < value <= self._limits.get(key, 1.0 if _part(key) else math.inf)

    def intervals(
        self, moving: Sequence[str], best: Mapping[str, float]
    ) -> dict[str, tuple[float, float]]:
        """Where each parameter may lie, alone and together with the others; limited to `WIDE`."""
        together = dict(zip(moving, self._deviations(moving, best), strict=True))
        found: dict[str, tuple[float, float]] = {}
        for key in moving:
            low, high = self.interval(key, best)
            off = math.exp(min(_DEVIATIONS * together[key], math.log(WIDE)))
            most = 1.0 if _part(key) else math.inf
            found[key] = min(low, best[key] / off), min(max(high, best[key] * off), most)
        return found

    def _deviations(self, moving: Sequence[str], best: Mapping[str, float]) -> list[float]:
        """Standard deviations of the logarithms of parameters that all may move."""
        slopes = [self._slopes(key, best) for key in moving]
        return standard_deviations(np.array(slopes), max(self.error(best), _SURE))

    def _slopes(self, key: str, best: Mapping[str, float]) -> list[float]:
        """Change of the logarithm of each time with that of a parameter."""
        high = best[key] * (_NUDGE if self._allowed(key, best[key] * _NUDGE) else 1)
        low = best[key] / _NUDGE
        above, below = (self.times({**best, key: value}) for value in (high, low))
        return [
            math.log(up / down) / math.log(high / low)
            for up, down in zip(above, below, strict=True)
        ]

    def interval(
        self, key: str, best: Mapping[str, float], step: float = 1.03
    ) -> tuple[float, float]:
        """Where a parameter may lie alone, in factors of `step`; limited to `WIDE`."""
        most = self.error(best) * (1 + _RATIO / len(self._measured))

        def end(factor: float) -> float:
            value = best[key]
            while best[key] / WIDE < value < best[key] * WIDE:
                further = value * factor
                if not self._allowed(key, further) or self.error({**best, key: further}) > most:
                    return value
                value = further
            return value

        return end(1 / step), end(step)


def _off(cases: Sequence[Measured], values: Mapping[str, float]) -> float:
    logs = [
        abs(math.log(ours / theirs))
        for case in cases
        for ours, theirs in zip(case.times(values), case.measured, strict=True)
    ]
    return sum(logs) / len(logs)


def _part(key: str) -> bool:
    """A part of a bandwidth, which is at most 1."""
    return "efficiency" in key


def standard_deviations(slopes: npt.NDArray[np.float64], error: float) -> list[float]:
    """Standard deviations of parameters: `error^2 (J'J + error^2)^-1` has their squares on its
    diagonal. `slopes` is `J'`, a row for each parameter."""
    known = slopes @ slopes.T + error**2 * np.eye(len(slopes))
    found: list[float] = (error * np.sqrt(np.diagonal(np.linalg.inv(known)))).tolist()
    return found


def outliers(logs: Sequence[float]) -> list[bool]:
    """Which `ln(fitted / measured)` stand out from the others, by at least a tenth."""
    middle = sorted(logs)[len(logs) // 2]
    spread = sorted(abs(log - middle) for log in logs)[len(logs) // 2]
    return [abs(log - middle) > max(_OUTLIER * spread, 0.1) for log in logs]
